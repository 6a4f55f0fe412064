// What holds of every book in which nothing was changed by hand and no bug has touched money: the list, and where each
// is proven.

/** One of the rules. */
export interface Invariant {
  /** What holds, as a sentence without its stop. */
  text: string
  /** Whether `verify` looks at every row for it; what a file cannot show is left to the tests alone. */
  checked: boolean
  /** The suites that prove it of a whole gateway, or what about it a file cannot show; paths within `test/`. */
  tests: readonly string[]
}

/** By name, in order. I15 is kept for leases between nodes. */
export const invariants = {
  I1: { text: 'the journal adds up to what is posted', checked: true, tests: [] },
  I2: { text: 'the open holds add up to what is pending, which is never negative', checked: true, tests: [] },
  I3: {
    text: 'a request ends at most once, and one whose client saw the end exactly once',
    checked: true,
    tests: ['money/crash', 'money/points', 'money/disk', 'money/tasks']
  },
  I4: { text: 'an amount is its usage at its price, exactly', checked: true, tests: ['money/exact', 'config/prices'] },
  I5: {
    text: 'an amount is debited once at each level, within one tenant, and a cost credited to one channel',
    checked: true,
    tests: []
  },
  I6: {
    text: 'a budget is exceeded by no more than what requests cost beyond what was held for them',
    checked: true,
    tests: ['money/budgets', 'money/clamp']
  },
  I7: {
    text: 'usage is what the upstream counted, or says that it is not',
    checked: true,
    tests: ['money/soak', 'money/usage', 'money/exits']
  },
  I8: { text: 'ends and request records belong together', checked: true, tests: ['money/soak'] },
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
    tests: ['money/points', 'money/disk', 'core/store/durability']
  },
  I14: {
    text: 'the windows of an entry follow from the time of its reservation',
    checked: true,
    tests: ['money/budgets']
  },
  I16: { text: 'request records, keys and the head are what was written', checked: true, tests: [] },
  I17: { text: "the file is whole, by SQLite's own check", checked: true, tests: [] },
  I18: { text: 'the commit log is there, and goes on where the database ends', checked: true, tests: ['chaos/damage'] }
} as const satisfies Readonly<Record<string, Invariant>>

/** The name of a rule. */
export type InvariantName = keyof typeof invariants

/** Takes a row that breaks a rule: `journal 17`, with what is and what should be. */
export type Report = (invariant: InvariantName, row: string, message: string) => void
