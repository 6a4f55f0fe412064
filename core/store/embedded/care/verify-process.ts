// The process that verifies a ledger beside a running gateway: `node verify-process.ts <file>`. It can be ended at
// once, and has a low priority. It prints lines of JSON: its progress, and at the end what it found.
import { explain } from '../files/troubles.ts'
import { driftOf, outcomesOf } from './verdict.ts'
import type { Outcome } from './verdict.ts'
import { verify } from './verify.ts'
import type { Breach } from './invariants.ts'

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

function say(line: VerifyLine): void {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}

function run(file: string): void {
  const checked: Record<string, number> = {}
  let [last, told] = ['', 0]
  try {
    const breaches = verify(file, (table, rows, of) => {
      if (rows !== undefined) checked[table] = rows
      const now = performance.now()
      if (table === last && now - told < pause) return
      ;[last, told] = [table, now]
      say({ step: { table, rows: rows ?? null, of: of ?? null } })
    })
    const invariants = outcomesOf(breaches).map(({ tests: _tests, ...outcome }) => outcome)
    const shown = breaches.slice(0, mostShown)
    say({
      found: { checked, invariants, breaches: shown, broken: breaches.length, drift_nano: String(driftOf(breaches)) }
    })
  } catch (error) {
    say({ error: explain(error, file).message })
  }
}

run(process.argv[2]!)
