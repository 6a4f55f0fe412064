// What a process that verifies a ledger prints, a line of JSON at a time: how far it is, and at the end what it found.
import type { Breach, InvariantName } from './invariants.ts'
import { driftOf, outcomesOf } from './verdict.ts'
import type { Outcome } from './verdict.ts'
import type { Progress } from './checking.ts'

/** How far it is: the rows of a table that were checked, and of how many, where that is known. */
export interface VerifyStep {
  readonly table: string
  readonly rows: number | null
  readonly of: number | null
}

/** What it found. `breaches` has the first hundred of `broken`. */
export interface VerifyFound {
  readonly checked: Readonly<Record<string, number>>
  readonly invariants: readonly Omit<Outcome, 'tests'>[]
  readonly breaches: readonly Breach[]
  readonly broken: number
  readonly drift_nano: string
}

/** One line. */
export type VerifyLine = { readonly step: VerifyStep } | { readonly found: VerifyFound } | { readonly error: string }

const mostShown = 100
/** The least milliseconds between two lines about one table. */
const pause = 200

/** Tells of one verification, line by line. */
export class VerifyTeller {
  readonly #say: (line: VerifyLine) => void
  readonly #checked: Record<string, number> = {}
  #table = ''
  #told = 0

  constructor(say: (line: VerifyLine) => void) {
    this.#say = say
  }

  /** Tells of progress: of the beginning and the end of each table, and of its rows now and then. */
  readonly progress: Progress = (table, rows, of) => {
    if (rows !== undefined) this.#checked[table] = rows
    const now = performance.now()
    if (table === this.#table && rows !== of && now - this.#told < pause) return
    ;[this.#table, this.#told] = [table, now]
    this.#say({ step: { table, rows: rows ?? null, of: of ?? null } })
  }

  /** Tells what was found. `checked` are the invariants that can be checked there; undefined for all. */
  found(breaches: readonly Breach[], checked?: ReadonlySet<InvariantName>): void {
    const invariants = outcomesOf(breaches, checked).map(({ tests: _tests, ...outcome }) => outcome)
    const shown = { checked: this.#checked, invariants, breaches: breaches.slice(0, mostShown) }
    this.#say({ found: { ...shown, broken: breaches.length, drift_nano: String(driftOf(breaches)) } })
  }

  /** Tells why nothing was found out. */
  failed(error: string): void {
    this.#say({ error })
  }
}

/** The teller of a process. */
export function tellingOnOutput(): VerifyTeller {
  return new VerifyTeller((line) => void process.stdout.write(`${JSON.stringify(line)}\n`))
}
