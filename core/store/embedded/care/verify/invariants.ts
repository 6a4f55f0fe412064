// The invariants of the ledger: what is true of every store unless it was changed by hand or a bug touched money, and
// which tests prove it.

/** One invariant. */
export interface Invariant {
  /** What is true, as a sentence without its full stop. */
  text: string
  /** Whether `verify` checks it. What a file cannot show is left to the tests. */
  checked: boolean
  /** The test suites that prove it with a running gateway, as paths within `test/`. */
  tests: readonly string[]
}

/** All invariants by name, in order. I15 is reserved for leases between nodes. */
export const invariants = {
  I1: { text: 'the journal adds up to what is posted', checked: true, tests: [] },
  I2: { text: 'the open holds add up to what is pending, which is never negative', checked: true, tests: [] },
  I3: {
    text: 'a request ends at most once, and one whose client saw the end exactly once',
    checked: true,
    tests: ['money/crash', 'money/points', 'money/disk', 'money/tasks']
  },
  I4: {
    text: 'an amount is its usage at its price, and a cost at the price of the upstream, exactly',
    checked: true,
    tests: ['money/exact', 'config/prices']
  },
  I5: {
    text: 'an amount is debited once at each level, within one tenant, and a cost credited to one channel',
    checked: true,
    tests: []
  },
  I6: {
    text: 'a budget is exceeded by no more than what requests cost beyond what was held for them',
    checked: true,
    tests: ['money/budgets', 'money/clamp', 'core/store/embedded/rolling']
  },
  I7: {
    text: 'usage is what the upstream counted, or says that it is not',
    checked: true,
    tests: ['money/soak', 'money/usage', 'money/exits']
  },
  I8: {
    text: 'ends and request records belong together',
    checked: true,
    tests: ['money/soak', 'core/handover/sessions']
  },
  I9: {
    text: 'nothing of an earlier start is open, but for detached holds',
    checked: true,
    tests: ['money/points', 'core/store/detached']
  },
  I10: { text: 'the hash chain is whole', checked: true, tests: [] },
  I11: { text: 'money is in integers', checked: true, tests: [] },
  I12: { text: 'nothing waits to be delivered', checked: true, tests: [] },
  I13: {
    text: 'a batch or a recovery that is repeated changes nothing',
    checked: false,
    tests: ['money/points', 'money/disk', 'core/store/embedded/durability']
  },
  I14: {
    text: 'the windows of an entry follow from the time of its reservation',
    checked: true,
    tests: ['money/budgets', 'core/store/embedded/rolling']
  },
  I16: {
    text: 'request records, documents, the audit log and the head are what was written',
    checked: true,
    tests: []
  },
  I17: { text: "the file is whole, by SQLite's own check", checked: true, tests: [] },
  I18: { text: 'the commit log is there, and goes on where the database ends', checked: true, tests: ['chaos/damage'] },
  I19: { text: 'spend is what the journal adds up to', checked: true, tests: ['core/store/spend', 'money/points'] },
  I20: { text: 'traffic by minute and hour is what the request records add up to', checked: true, tests: [] }
} as const satisfies Readonly<Record<string, Invariant>>

/** The name of an invariant. */
export type InvariantName = keyof typeof invariants

/**
 * Those that say whether a file is what was written. A copy of a store that breaks another one is a copy all the same.
 */
export const wholeness: ReadonlySet<InvariantName> = new Set(['I10', 'I16', 'I17', 'I18'])

/** One row that breaks an invariant. */
export interface Breach {
  invariant: InvariantName
  /** The table and the row: `journal 17`, `balance project:acme/web 2026-11`. */
  row: string
  /** What is wrong, and what would be right. */
  message: string
  /** By how many nano-dollars a balance is off, as decimal text. */
  drift_nano?: string
}

/**
 * Receives a row that breaks an invariant: its name such as `journal 17`, and a message that says what is wrong.
 * `drift` is by how many nano-dollars a balance is off.
 */
export type Report = (invariant: InvariantName, row: string, message: string, drift?: bigint) => void

/** Adds what is reported to breaches. */
export function breachesOf(breaches: Breach[]): Report {
  return (invariant, row, message, drift) =>
    void breaches.push({ invariant, row, message, ...(drift !== undefined && { drift_nano: String(drift) }) })
}
