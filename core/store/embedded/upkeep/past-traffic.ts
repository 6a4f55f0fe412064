// Deletes traffic that is shown no more, some at a time: by minute after two days, by hour after four hundred.
import type { Committer } from '../database/committer.ts'
import type { Statement } from '../files/sqlite.ts'
import { trafficKept, trafficSpans } from '../../traffic.ts'
import type { TrafficSpan } from '../../traffic.ts'

/** How many scopes one slice looks at, and milliseconds until all are looked at again. */
const scopesAtOnce = 64
const interval = 3_600_000

/** The deletion of traffic through one connection. */
export class PastTraffic {
  readonly #committer: Committer
  readonly #spans: readonly { span: TrafficSpan; next: Statement; delete: Statement; has: Statement }[]
  /** The table and the scope that were looked at last. */
  #place = 0
  #scope: string | undefined
  /** When the next round begins, by performance.now(). */
  #due = -Infinity

  constructor(committer: Committer) {
    this.#committer = committer
    const { database } = committer
    this.#spans = (Object.keys(trafficSpans) as TrafficSpan[]).map((span) => ({
      span,
      next: database.prepare(`SELECT scope FROM traffic_${span} WHERE scope > ? OR ? IS NULL ORDER BY scope LIMIT 1`),
      has: database.prepare(`SELECT 1 FROM traffic_${span} WHERE scope = ? AND time < ? LIMIT 1`),
      delete: database.prepare(`DELETE FROM traffic_${span} WHERE scope = ? AND time < ?`)
    }))
  }

  /** Looks at some scopes, and deletes what is old of one; returns whether there may be more. */
  slice(now: number): boolean {
    if (performance.now() < this.#due) return false
    for (let count = 0; count < scopesAtOnce; count++) {
      const table = this.#spans[this.#place]
      if (!table) {
        this.#place = 0
        this.#due = performance.now() + interval
        return false
      }
      const scope = table.next.get(this.#scope ?? '', this.#scope ?? null)?.['scope'] as string | undefined
      this.#scope = scope
      if (scope === undefined) {
        this.#place++
        continue
      }
      const before = Math.floor((now - trafficKept[table.span]) / trafficSpans[table.span])
      if (!table.has.get(scope, before)) continue
      this.#committer.alter(() => void table.delete.run(scope, before))
      return true
    }
    return true
  }
}
