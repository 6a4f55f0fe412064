// Deletes the balances of hours that no rolling budget looks at any more, some at a time.
import type { Committer } from '../database/committer.ts'
import { readRows } from '../files/sqlite.ts'
import type { Database, Statement } from '../files/sqlite.ts'
import { isHour } from '../../window.ts'

/**
 * How many hours of a scope are kept, the newest ones: those of the longest rolling budget, 366 days, and of two months
 * for a clock that goes back. They are counted, and not told by their dates, so that no clock that is wrong can have an
 * hour deleted that a budget still needs.
 */
export const hoursKept = (366 + 62) * 24

/** How many scopes one slice looks at, and how many hours it deletes of each. */
const scopesAtOnce = 16
const hoursAtOnce = 256

/** Milliseconds until all scopes are looked at again. */
const interval = 3_600_000

/** The deletion of hours through one connection. */
export class PastHours {
  readonly #committer: Committer
  readonly #next: Statement
  readonly #oldest: Statement
  readonly #delete: Statement
  /** The scope that was looked at last. */
  #scope = ''
  /** When the next round begins, by performance.now(). */
  #due = -Infinity

  constructor(committer: Committer) {
    const { database } = committer
    const hours = 'FROM balance WHERE scope = ? AND length(window) = 13'
    this.#committer = committer
    this.#next = database.prepare('SELECT scope FROM balance WHERE scope > ? ORDER BY scope LIMIT 1')
    this.#oldest = database.prepare(`SELECT window ${hours} ORDER BY window DESC LIMIT 1 OFFSET ${hoursKept - 1}`)
    // An hour with holds stays: their ends are taken from what its row has.
    const past = `SELECT window ${hours} AND window < ? AND pending = 0 ORDER BY window LIMIT ${hoursAtOnce}`
    this.#delete = database.prepare(`DELETE FROM balance WHERE scope = ? AND window IN (${past})`)
  }

  /** Looks at some scopes, and deletes some of their hours; returns whether there may be more to delete in them. */
  slice(): boolean {
    if (performance.now() < this.#due) return false
    for (let count = 0; count < scopesAtOnce; count++) {
      const scope = this.#next.get(this.#scope)?.['scope'] as string | undefined
      if (scope === undefined) {
        this.#scope = ''
        this.#due = performance.now() + interval
        return false
      }
      const oldest = this.#oldest.get(scope)?.['window'] as string | undefined
      if (oldest !== undefined && this.#deleteBefore(scope, oldest)) return true
      this.#scope = scope
    }
    return false
  }

  /** Deletes some of the hours of a scope before one; returns whether there were any. */
  #deleteBefore(scope: string, window: string): boolean {
    let deleted = 0
    this.#committer.alter(() => {
      deleted = Number(this.#delete.run(scope, scope, window).changes)
    })
    return deleted > 0
  }
}

/**
 * Returns a function that says whether a balance, named `<scope> <window>`, is of an hour that is older than those that
 * are kept of its scope. Its row may be gone, or be of what was charged since then.
 */
export function pastHours(database: Database): (name: string) => boolean {
  const place = 'row_number() OVER (PARTITION BY scope ORDER BY window DESC) AS place'
  const hours = `SELECT scope, window, ${place} FROM balance WHERE length(window) = 13`
  const oldest = new Map<unknown, unknown>()
  for (const { scope, window } of readRows(database, `SELECT scope, window FROM (${hours}) WHERE place = ${hoursKept}`))
    oldest.set(scope, window)
  return isBefore(oldest)
}

/** Likewise, from the oldest hour that is kept of each scope that has more. */
export function isBefore(oldest: ReadonlyMap<unknown, unknown>): (name: string) => boolean {
  return (name) => {
    const space = name.lastIndexOf(' ')
    const [first, window] = [oldest.get(name.slice(0, space)), name.slice(space + 1)]
    return first !== undefined && isHour(window) && window < String(first)
  }
}
