// Names that some readers take for others. Such a reader would find another value there than the gateway has checked.
import type { Fields } from './fields.ts'

/** A name, and the known name that it could be taken for. */
export interface Lookalike {
  readonly name: string
  readonly taken: string
}

/** The known names. */
export class KnownNames {
  readonly #names: ReadonlySet<string>
  /** The known names by their folded form. */
  readonly #folded: ReadonlyMap<string, string>
  /** Folded forms that are not known names themselves, but could be taken for one. */
  readonly #small: readonly string[]

  constructor(names: Iterable<string>) {
    this.#names = new Set(names)
    this.#folded = new Map([...this.#names].map((name) => [folded(name), name]))
    this.#small = [...this.#folded.keys()].filter((name) => !this.#names.has(name))
  }

  /** The known name that an unknown one could be taken for; undefined when there is none. */
  takenFor(name: string): string | undefined {
    return this.#names.has(name) ? undefined : this.#folded.get(folded(name))
  }

  /** The first of these members that could be taken for another one. */
  lookalike(members: Pick<Fields, 'has' | 'oddKeys'>): Lookalike | undefined {
    if (members.oddKeys.length === 0 && this.#small.length === 0) return undefined
    for (const name of [...members.oddKeys, ...this.#small]) {
      const taken = this.takenFor(name)
      if (taken !== undefined && members.has(name)) return { name, taken }
    }
    return undefined
  }
}

/** The name as a reader may see it that ignores case, in any alphabet, or stops at a zero byte. */
export function folded(name: string): string {
  // Upper case first and then lower case, because some letters (ſ, K) become Latin ones only one way. İ leaves its dot
  // behind.
  return name.split('\0', 1)[0]!.toUpperCase().toLowerCase().replaceAll('\u0307', '')
}
