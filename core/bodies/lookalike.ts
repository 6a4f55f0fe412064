// Names that some readers take for others: what is read under such a name by them is not what was looked at here.
import type { Fields } from './fields.ts'

/** A name, and the known one that it would be taken for. */
export interface Lookalike {
  readonly name: string
  readonly taken: string
}

/** Names that there are. */
export class KnownNames {
  readonly #names: ReadonlySet<string>
  /** By what they are to somebody who does not care for capitals. */
  readonly #folded: ReadonlyMap<string, string>
  /** What is written in small letters alone, and is none of them, but the same to that somebody. */
  readonly #small: readonly string[]

  constructor(names: Iterable<string>) {
    this.#names = new Set(names)
    this.#folded = new Map([...this.#names].map((name) => [folded(name), name]))
    this.#small = [...this.#folded.keys()].filter((name) => !this.#names.has(name))
  }

  /** The one that a name would be taken for which is none of them. */
  takenFor(name: string): string | undefined {
    return this.#names.has(name) ? undefined : this.#folded.get(folded(name))
  }

  /** The first of some members that would be taken for another one. */
  lookalike(members: Pick<Fields, 'has' | 'oddKeys'>): Lookalike | undefined {
    if (members.oddKeys.length === 0 && this.#small.length === 0) return undefined
    for (const name of [...members.oddKeys, ...this.#small]) {
      const taken = this.takenFor(name)
      if (taken !== undefined && members.has(name)) return { name, taken }
    }
    return undefined
  }
}

/**
 * What somebody may read for it who does not care for capitals, in any alphabet that has them, or stops at a zero byte.
 */
export function folded(name: string): string {
  // Up and down again, as there are letters (ſ, K) that have a Latin one on one of the two ways alone; İ leaves its dot
  // behind.
  return name.split('\0', 1)[0]!.toUpperCase().toLowerCase().replaceAll('\u0307', '')
}
