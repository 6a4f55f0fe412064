// Checks that request records say what was charged (I8). Gateways write the record and the end of a request one after
// the other, so what differs while some are alive is looked at again before it is told.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Report } from '../../../embedded/care/verify/invariants.ts'
import type { Lane, Transaction } from '../../database/lane.ts'

/** How long a record may lag behind the journal while a gateway is alive, in milliseconds: the lease of a node. */
const lag = 15_000
/** Milliseconds between two looks. */
const pause = 1000
/** How many records are looked at again at once. */
const mostAtOnce = 500

/** A record that says something else than the journal. */
export interface Differing {
  readonly time: bigint
  readonly request_id: string
  readonly cost: bigint
  /** What the request and all of its parts were charged; null when the journal has nothing of it. */
  readonly charged: bigint | null
}

/** Whoever has an open hold has not ended: the record may be ahead of its end, which waits in the log of its node. */
const ended = 'not exists (select from sluice.hold h where h.request_id = r.request_id)'
const differs = `r.cost <> coalesce(c.charged, 0) and ${ended}`

/**
 * Finds the records that say something else than the journal. A request without a record breaks nothing: a gateway that
 * is killed takes the records of its last moments with it. A part has the day on which it began, so the days of the
 * journal are those since the oldest record.
 */
export async function differingIn(transaction: Transaction): Promise<Differing[]> {
  const { rows } = await transaction.query<Differing>(
    `select r.time, r.request_id, r.cost, c.charged::bigint as charged from sluice.request r left join (
       select request_id, sum(amount) as charged from sluice.journal where kind <> 'cost'
         and day >= (select date '1970-01-01' + (min(time) / 86400000)::int from sluice.request)
       group by request_id
     ) c using (request_id) where ${differs} order by r.time, r.request_id`
  )
  return rows
}

/** Tells of those that still differ when every gateway that is alive has had the time to write what it knows. */
export async function tellDiffering(lane: Lane, found: readonly Differing[], report: Report): Promise<void> {
  let differing = found
  for (const until = performance.now() + lag; differing.length > 0 && (await anyAlive(lane));) {
    if (performance.now() > until) break
    await sleep(pause)
    differing = await stillDiffering(lane, differing)
  }
  for (const { request_id: id, cost, charged } of differing)
    report(
      'I8',
      `request ${id}`,
      `says ${cost} where the journal ${charged === null ? 'has nothing' : `says ${charged}`}`
    )
}

async function anyAlive(lane: Lane): Promise<boolean> {
  const { rows } = await lane.query<{ alive: boolean }>(
    'select exists (select from sluice.node where expires > clock_timestamp()) as alive'
  )
  return rows[0]!.alive
}

async function stillDiffering(lane: Lane, before: readonly Differing[]): Promise<Differing[]> {
  const still: Differing[] = []
  for (let at = 0; at < before.length; at += mostAtOnce) {
    const places = before.slice(at, at + mostAtOnce).map(({ time, request_id: id }) => ({ time: String(time), id }))
    const { rows } = await lane.query<Differing>(
      `select r.time, r.request_id, r.cost, c.charged::bigint as charged
       from json_to_recordset($1) p(time bigint, id text)
       join sluice.request r on r.time = p.time and r.request_id = p.id
       cross join lateral (
         select sum(j.amount) as charged
         from generate_series((p.time / 86400000)::int, (select max(day) - date '1970-01-01' from sluice.journal)) d
         join sluice.journal j on j.day = date '1970-01-01' + d and j.request_id = p.id and j.kind <> 'cost'
       ) c where ${differs} order by r.time, r.request_id`,
      [JSON.stringify(places)]
    )
    still.push(...rows)
  }
  return still
}
