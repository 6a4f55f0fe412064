// Adds up what the rows of a book say its balances should be, for `verify`: whom each row debits, and in which windows.
import { readObject } from '../../database/due.ts'
import type { Report } from './invariants.ts'
import type { Row, Value } from '../../files/sqlite.ts'
import { hour, readSpans, windowsOf } from '../../../window.ts'
import type { Spans } from '../../../window.ts'

/** What one balance should be, according to the rows. Amounts are in nano-dollars. */
export interface Expected {
  posted: bigint
  /** How much more requests cost than was held for them. */
  excess: bigint
  pending: bigint
}

/** Whom a text of scopes debits. */
interface Debited {
  readonly spans: readonly (readonly [scope: string, spans: Spans])[]
  /** What is wrong with the scopes, if anything. */
  readonly problem: string | undefined
  /** The hour of the last row, and the balances of it: no window ends within an hour. */
  hour: number
  balances: readonly Expected[]
  /** What rows of that hour add to each of them, which is not added yet. */
  readonly waiting: Expected
}

/** The expected balances of a book. `verify` makes one and passes it every row. */
export class Accounts {
  readonly #balances = new Map<string, Expected>()
  readonly #report: Report
  /** By the text of the column `scopes`: most rows repeat one of a few. */
  readonly #read = new Map<Value | undefined, Debited>()

  constructor(report: Report) {
    this.#report = report
  }

  /** What rows add up to, by `<scope> <window>`. */
  get balances(): ReadonlyMap<string, Readonly<Expected>> {
    for (const debited of this.#read.values()) spread(debited)
    return this.#balances
  }

  /**
   * Returns what a journal row or a hold adds to: the caller adds to it before it asks for another. Reports a row
   * whose scopes break I5 or I14.
   */
  of(name: string, row: Row): Expected {
    const text = row['scopes']
    let scopes = this.#read.get(text)
    if (!scopes) {
      const entries = Object.entries(readObject(text) ?? {})
      scopes = {
        spans: entries.flatMap(([scope, written]): [string, Spans][] => {
          const spans = readSpans(written)
          return spans === undefined ? [] : [[scope, spans]]
        }),
        problem: nesting(entries.map(([scope]) => scope)),
        hour: NaN,
        balances: [],
        waiting: nothing()
      }
      this.#read.set(text, scopes)
      if (scopes.spans.length < entries.length)
        this.#report('I14', name, `counts in windows that there are not: ${text}`)
    }
    if (scopes.problem) this.#report('I5', name, scopes.problem)
    const time = Number(row['ts_ms'])
    const of = Math.floor(time / hour)
    if (scopes.hour !== of) {
      spread(scopes)
      scopes.balances = scopes.spans.flatMap(([scope, spans]) =>
        windowsOf(spans, time).map((window) => this.#balance(`${scope} ${window}`))
      )
      scopes.hour = of
    }
    return scopes.waiting
  }

  #balance(name: string): Expected {
    let balance = this.#balances.get(name)
    if (!balance) this.#balances.set(name, (balance = nothing()))
    return balance
  }
}

function nothing(): Expected {
  return { posted: 0n, excess: 0n, pending: 0n }
}

/** Adds what waits to its balances. */
function spread({ balances, waiting }: Debited): void {
  for (const balance of balances) {
    balance.posted += waiting.posted
    balance.excess += waiting.excess
    balance.pending += waiting.pending
  }
  Object.assign(waiting, nothing())
}

/**
 * Says what is wrong with the scopes of a row, if anything. There is one scope at each level, and each lies within the
 * one above it.
 */
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
