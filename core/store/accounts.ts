// What the rows of a book say of its balances, for the check of the book: whom a row debits, in which windows.
import { readObject } from './due.ts'
import type { Report } from './invariants.ts'
import type { Row, Value } from './sqlite.ts'
import { windowsOf } from './window.ts'
import type { Period } from './window.ts'

/** What the rows say of one balance. */
export interface Expected {
  posted: bigint
  /** What requests cost beyond what was held for them. */
  excess: bigint
  pending: bigint
}

const periods: ReadonlySet<unknown> = new Set(['day', 'month', 'total'])

/** What is expected of each balance of a book, gathered row by row. */
export class Accounts {
  /** By `<scope> <window>`. */
  readonly balances = new Map<string, Expected>()
  readonly #report: Report
  /** Scopes as rows have them, read once each. */
  readonly #read = new Map<
    Value | undefined,
    { periods: [scope: string, per: Period][]; problem: string | undefined }
  >()

  constructor(report: Report) {
    this.#report = report
  }

  /**
   * The balances that a journal row or a hold counts in, to be added to. Reports what is wrong with whom it debits: I5,
   * I14.
   */
  of(name: string, row: Row): Expected[] {
    const text = row['scopes']
    let scopes = this.#read.get(text)
    if (!scopes) {
      const entries = Object.entries(readObject(text) ?? {})
      scopes = {
        periods: entries.filter((entry): entry is [string, Period] => periods.has(entry[1])),
        problem: nesting(entries.map(([scope]) => scope))
      }
      this.#read.set(text, scopes)
      if (scopes.periods.length < entries.length)
        this.#report('I14', name, `counts in windows that there are not: ${text}`)
    }
    if (scopes.problem) this.#report('I5', name, scopes.problem)
    const time = Number(row['ts_ms'])
    return scopes.periods.flatMap(([scope, per]) =>
      windowsOf(per, time).map((window) => this.#balance(`${scope} ${window}`))
    )
  }

  #balance(name: string): Expected {
    let balance = this.balances.get(name)
    if (!balance) this.balances.set(name, (balance = { posted: 0n, excess: 0n, pending: 0n }))
    return balance
  }
}

/** What is wrong with whom a row debits: scopes are a chain, each within the one before. */
function nesting(scopes: readonly string[]): string | undefined {
  if (scopes.length === 0) return 'is charged to nobody'
  const levels = new Map<string, string>()
  for (const scope of scopes) {
    const [level = ''] = scope.split(':', 1)
    const other = levels.get(level)
    if (other !== undefined) return `is charged to two of a kind, ${other} and ${scope}`
    levels.set(level, scope)
  }
  const chain = ['tenant', 'project', 'member'].flatMap((level) => levels.get(level)?.slice(level.length + 1) ?? [])
  const outside = chain.find((id, index) => index > 0 && !id.startsWith(`${chain[index - 1]}/`))
  return outside === undefined ? undefined : `is charged to ${chain.join(' and ')}, which are not within each other`
}
