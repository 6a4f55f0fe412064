// Ends that came too late. Where others had ended the hold by estimate, the difference is written as a correction.
// Where the database has lost the hold, it gets the end without.
import { entryWidth } from '../../../embedded/journal/journal.ts'
import { entryColumns } from '../../../embedded/rows/batch.ts'
import type { Value } from '../../../embedded/files/sqlite.ts'
import { day } from '../../../window.ts'
import type { Price } from '../../../../money/price.ts'
import type { Logger } from '../../../../telling/log.ts'
import type { Lane } from '../../database/lane.ts'
import type { Prices } from '../holds/prices.ts'
import { correctionClass, isEstimate, lostClass } from '../journal/estimates.ts'
import type { Estimate } from '../journal/estimates.ts'
import { pricesIn } from '../sending/outage.ts'
import type { End, Charge, Restored } from '../sending/operations.ts'

/** How many are looked for at once. */
const mostAtOnce = 500

/** Which column of an entry has its class. */
const classAt = entryColumns.indexOf('class')

/** What the journal says of a request, and whether its hold is open; in the columns of a row. */
interface Found extends Estimate {
  readonly place: bigint
  readonly amount: bigint
  readonly usage_json: string | null
  /** What the operator was taken to owe, as the end or as the cost of a lost attempt. */
  readonly cost: bigint | null
  readonly cost_price: string | null
  /** What stands beside the end: the costs of attempts, and a correction. */
  readonly classes: readonly string[]
  readonly held: boolean
}

/** What it needs of its node. */
export interface LateEndParts {
  readonly lane: Pick<Lane, 'query'>
  readonly log: Logger
  /** Keeps ends in the log of the node; resolves when they are on disk. */
  keep(ends: readonly Charge[]): Promise<void>
  /** Has a correction written. */
  correct(end: End): void
  /** Has an end written whose hold is not there, and the prices that it was made at. */
  bring(ended: Restored, prices: readonly Price[]): void
  readonly prices: Pick<Prices, 'find'>
  /** Is told of each whose record may say something else than the journal does from now on. */
  corrected(requestId: string): void
}

/** Those of one node that are not compared with the journal yet. The log of the node has them until they are. */
export class LateEnds {
  readonly #parts: LateEndParts
  readonly #waiting = new Set<Charge>()
  #looking: Promise<void> | undefined

  constructor(parts: LateEndParts) {
    this.#parts = parts
  }

  /** How many wait. */
  get size(): number {
    return this.#waiting.size
  }

  /** Takes one that is in the log of the node, or does not have to be. */
  take(end: Charge): void {
    this.#waiting.add(end)
  }

  /** Takes one; resolves when it is in the log of the node. */
  add(end: Charge): Promise<void> {
    this.take(end)
    return this.#parts.keep([end])
  }

  /**
   * Compares what waits with the journal. Whose hold is still open waits for another look, however long others go on
   * with it: only their end says whether they know better what it came to.
   * @throws DatabaseFault
   */
  look(): Promise<void> {
    return (this.#looking ??= this.#look().finally(() => (this.#looking = undefined)))
  }

  async #look(): Promise<void> {
    const all = [...this.#waiting]
    for (let at = 0; at < all.length; at += mostAtOnce) {
      const some = all.slice(at, at + mostAtOnce)
      for (const row of await this.#find(some)) this.#compare(some[Number(row.place) - 1]!, row)
    }
  }

  async #find(some: readonly Charge[]): Promise<Found[]> {
    const { rows } = await this.#parts.lane.query<Found>(
      `select n.place, j.kind, j.amount, j.source, j.channel, j.usage_json, coalesce(j.cost, l.cost) as cost,
          coalesce(j.cost_price, l.cost_price) as cost_price, l.class is not null as lost,
          array(select c.class from sluice.journal c where c.day = n.day and c.request_id = n.request_id
            and c.part = n.part and c.class <> 'terminal') as classes, h.request_id is not null as held
        from (select date '1970-01-01' + d.day as day, d.request_id, d.part, d.place
          from unnest($1::int[], $2::text[], $3::text[]) with ordinality as d(day, request_id, part, place)) n
        left join sluice.journal j
          on j.day = n.day and j.request_id = n.request_id and j.part = n.part and j.class = 'terminal'
        left join sluice.journal l
          on l.day = n.day and l.request_id = n.request_id and l.part = n.part and l.class = $4
        left join sluice.hold h on h.request_id = n.request_id and h.part = n.part
        order by n.place`,
      [
        some.map(({ time }) => Math.floor(time / day)),
        some.map(({ requestId }) => requestId),
        some.map(({ part }) => part),
        lostClass
      ]
    )
    return rows
  }

  #compare(end: Charge, found: Found): void {
    if (found.kind === null && found.held) return
    this.#waiting.delete(end)
    if (found.classes.includes(correctionClass) || (found.kind !== null && found.amount === end.charged)) return
    const { log, correct, bring, prices, corrected } = this.#parts
    const told = {
      exchange: end.requestId,
      part: end.part,
      charged_nano: found.kind === null ? null : String(found.amount),
      would_be_nano: String(end.charged)
    }
    const { requestId, part, places, scopes, time } = end
    const common = { requestId, part, places, scopes, time, held: 0n, corrects: end, logged: true }
    const whole = { ...common, done: () => corrected(requestId), failed: () => {} }
    if (found.kind === null) {
      log.warn('the database has lost the hold of an end: it is charged without', told)
      const { charged, entries } = end
      const ended = { requestId, part, amount: 0n, row: undefined, places, end: { ...whole, charged, entries } }
      return bring(ended, pricesIn(entries, entryColumns, prices.find))
    }
    if (!isEstimate(found)) {
      log.error('an end came too late, and is not charged', told)
      return corrected(end.requestId)
    }
    log.warn(
      'others had ended a request by estimate, as this node was not heard of for too long: it is corrected',
      told
    )
    correct({ ...whole, charged: end.charged - found.amount, entries: correctionOf(end, found) })
  }
}

/** The entries of a correction: the costs of failed attempts that the journal lacks, and the difference. */
function correctionOf({ entries, charged }: Charge, found: Found): Value[] {
  const from = entries.length - entryWidth
  const end = Object.fromEntries(entryColumns.map((name, i) => [name, entries[from + i]!]))
  const [cost, price] = [end['cost'] as bigint | null, end['cost_price'] as string | null]
  const known = cost !== null && (found.cost === null || found.cost_price === price)
  const row: Record<string, Value> = {
    ...end,
    kind: 'adjust',
    class: correctionClass,
    amount: charged - found.amount,
    reserved: 0n,
    usage_json: unitsApart(end['usage_json'] as string | null, found.usage_json),
    cost: known ? cost - (found.cost ?? 0n) : null,
    cost_price: known ? price : null
  }
  const costs: Value[] = []
  for (let at = 0; at < from; at += entryWidth)
    if (!found.classes.includes(entries[at + classAt] as string)) costs.push(...entries.slice(at, at + entryWidth))
  return [...costs, ...entryColumns.map((name) => row[name]!)]
}

/** By how many units the usage of an end differs from that of an estimate; null where it does not. */
function unitsApart(end: string | null, estimate: string | null): string | null {
  const [one, other] = [end, estimate].map((json) => JSON.parse(json ?? '{}') as Record<string, number>)
  const names = [...new Set([...Object.keys(one!), ...Object.keys(other!)])]
  const apart = names.map((name) => [name, (one![name] ?? 0) - (other![name] ?? 0)] as const)
  const some = apart.filter(([, units]) => units !== 0)
  return some.length === 0 ? null : JSON.stringify(Object.fromEntries(some))
}
