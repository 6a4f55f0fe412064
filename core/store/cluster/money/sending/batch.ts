// A batch: all that a node asks the database for at one moment, as the arguments of one call, and what it answered.
import { maxNano, mostHeld, smaller } from '../../../embedded/balance/cell.ts'
import type { Hold } from '../../../embedded/balance/hold.ts'
import { emptyBatch, entryColumns, holdColumns, touchColumns } from '../../../embedded/rows/batch.ts'
import type { RowIds } from '../../../embedded/rows/row-ids.ts'
import type { Value } from '../../../embedded/files/sqlite.ts'
import { renderPrice } from '../../../../money/price.ts'
import { daysOf } from '../../../window.ts'
import type { Chain } from '../journal/chain.ts'
import type { Mirror } from '../balances/mirror.ts'
import { budgetOf } from '../balances/plan.ts'
import type { Hoursum, Place, Plan } from '../balances/plan.ts'
import { Asked } from './asked.ts'
import { Queue } from './operations.ts'
import type { Admission, End, Restored } from './operations.ts'
import { Positions } from './positions.ts'

/** The call of a batch. */
export const batchCall = `select * from sluice.money_batch_1(${Array.from({ length: 75 }, (_, i) => `$${i + 1}`).join(', ')})`

/**
 * What the call answers: a verdict for each admission, posted and used of each balance and sum, how much each slice
 * gets, and the balances whose slices others wait for.
 */
export interface Answer {
  readonly verdicts: readonly number[]
  readonly posted: readonly bigint[]
  readonly used: readonly bigint[]
  readonly grants: readonly bigint[]
  readonly edges: readonly bigint[]
}

/** A batch on its way. */
export interface Batch {
  /** The arguments behind node, epoch, number and lease. */
  readonly values: readonly unknown[]
  /** All ends in it. */
  readonly ends: readonly End[]
  /** Tells everybody who waits. */
  answer(answer: Answer): void
  /** What is to be done again where a server takes over that lacks what this one has answered. */
  again(answer: Answer): Queue
}

/** The places that a queue needs the ids of, as far as they may be unknown. */
export function* placesOf({ admissions, ends, restored, changes }: Queue, mirror: Mirror): Generator<Place> {
  for (const { places } of [...ends, ...restored]) if (!mirror.knows(places)) yield* places
  for (const { slice, hour } of changes) yield budgetOf(slice.key, hour).place
  for (const { plan } of admissions) if (!mirror.knows(plan.all)) yield* plan.all
}

/**
 * Makes a batch of operations whose places the mirror knows. It goes on with the chain. One of nothing asks for all
 * slices of this node that others wait for; another one is told of those in the batch.
 */
export function batchOf(work: Queue, mirror: Mirror, chain: Chain, rowIds: RowIds): Batch {
  const { restored, touches, prices, changes } = work
  // Those that have ended make room, as ends do. One that ends while the batch is on its way does so in a later one.
  const admissions = work.admissions.toSorted((one, other) => turnOf(one) - turnOf(other))
  const ends = [...work.ends, ...work.joined]
  const limited = limitsOf(admissions, mirror)
  const plans = new Set(admissions.map(({ plan }) => plan))
  const ids = new Set<bigint>(limited.map(({ id }) => id))
  const lists = [...admissions.map(({ plan }) => plan), ...ends, ...restored].map(({ places }) => places)
  const busiest = busiestOf(lists, mirror, ids)
  for (const { limits } of plans) for (const { key } of limits) ids.add(mirror.get(key)!.id)
  for (const { slice } of changes) ids.add(mirror.get(slice.key)!.id)
  const at = new Positions(ids, sumsOf(plans, work), mirror)
  const { posted, freed } = changesOf(ends, at, work.ends.length)
  const rows = emptyBatch(0, 0)
  for (const { hold, end } of admissions) if (!end) hold.writeOpen(rows, rowIds)
  let opened = 0
  const width = holdColumns.length
  const holds = admissions.map(({ hold: { requestId, part, amount }, plan: { places }, end }): Restored => {
    const row = end ? undefined : rows.opened.slice(opened, (opened += width))
    return { requestId, part, amount, row, places, end }
  })
  const asked = new Asked(at, mirror)
  for (const [i, { plan, taken }] of admissions.entries()) asked.add(holds[i]!, plan, taken)
  for (const one of restored) asked.add(one)
  const entries = ends.flatMap((end) => end.entries)
  const hashes = chain.append(entries)
  const rest = work.ends.filter(({ corrects }) => !corrects)
  const json = (list: readonly unknown[]): string | null => (list.length === 0 ? null : JSON.stringify(list))
  const values = [
    at.ids,
    busiest,
    posted,
    freed,
    limited.map(({ id }) => id),
    limited.map(({ limit }) => limit),
    limited.map(({ by }) => by),
    at.sums.map(({ scope }) => scope),
    at.sums.map(({ from }) => from),
    at.sums.map(({ to }) => to),
    ...asked.values,
    changes.map(({ slice }) => at.of(slice.key)),
    changes.map(({ slice, hour }) => at.used(budgetOf(slice.key, hour))),
    changes.map(({ limit }) => limit),
    changes.map(({ back }) => back),
    changes.map(({ want }) => want),
    changes.map(({ least }) => smaller(least, mostHeld)),
    changes.some(({ unwritten }) => unwritten !== undefined) ? changes.map(({ unwritten }) => unwritten ?? null) : [],
    restored.length,
    work.size === 0,
    json(prices.map((price) => ({ version: price.version, json: renderPrice(price) }))),
    json(touchedBy(touchedOf(work))),
    json(
      [...touches.values()].flatMap(({ hold, until }) =>
        until === undefined || hold.ended ? [] : { ...naming(hold), until }
      )
    ),
    rest.map(({ requestId }) => requestId),
    rest.map(({ part }) => part),
    ...entryColumns.map((_, column) => columnOf(entries, column, entryColumns.length)),
    hashes,
    chain.seq
  ]
  return {
    values,
    ends,
    answer({ verdicts, posted, used, grants }) {
      mirror.update(at.ids, posted, used)
      for (const { id, limit, by } of limited)
        if (by === 0 || (verdicts[by - 1] === 0 && holds[by - 1]!.amount > 0n)) mirror.limit(id, limit)
      const sumsAt = (position: number): { posted: bigint; used: bigint } => ({
        posted: posted[position - 1]!,
        used: used[position - 1]!
      })
      for (const [i, { slice }] of changes.entries()) slice.answered(grants[i]!)
      eachOf(admissions, (admission, i) => {
        const verdict = verdicts[i]!
        if (verdict === 0) admission.admitted(holds[i]!.row === undefined)
        else {
          const sums = asked.caps(i).map(sumsAt)
          const lacks =
            verdict === -3 ? 'slices of others' : verdict === -4 ? 'slices of nodes that are gone' : undefined
          admission.refused({ taken: verdict === -2, lacks, at: verdict > 0 ? verdict - 1 : undefined, sums })
        }
      })
      eachOf([...touches.values(), ...ends], (one) => one.done())
    },
    again({ verdicts }) {
      const again = new Queue()
      again.prices.push(...prices)
      again.ends.push(...work.ends.map(kept))
      for (const [i, one] of holds.entries())
        if (verdicts[i] === 0) again.restored.push({ ...one, end: one.end && kept(one.end) })
      again.restored.push(...restored)
      return again
    }
  }
}

/** An end without those who waited for it: they, and with them the whole request, would be kept for minutes. */
function kept({ requestId, part, places, charged, entries, scopes, time, held, corrects }: End): End {
  const end = { requestId, part, places, charged, entries: entries.slice(), scopes, time, held }
  return { ...end, ...(corrects && { corrects }), done: ignore, failed: ignore }
}

/** Does something for each. When that fails for one, it is done for the others all the same, and throws then. */
function eachOf<T>(all: readonly T[], run: (one: T, i: number) => void): void {
  const failures: unknown[] = []
  for (const [i, one] of all.entries())
    try {
      run(one, i)
    } catch (error) {
      failures.push(error)
    }
  if (failures.length > 0) throw failures[0]
}

/** What is admitted already comes before what is decided on: nobody else has that any more. */
function turnOf({ end, sure }: Admission): number {
  return end ? 0 : sure ? 1 : 2
}

function* sumsOf(plans: ReadonlySet<Plan>, { changes }: Queue): Generator<Hoursum> {
  for (const { slice, hour } of changes) {
    const { of } = budgetOf(slice.key, hour)
    if ('to' in of) yield of
  }
  for (const { limits } of plans) for (const { of } of limits) if ('to' in of) yield of
}

/** A limit that is stored otherwise. `by`: the admission that it depends on, from 1 on; 0 for none. */
interface Limited {
  readonly id: bigint
  readonly limit: bigint | null
  readonly rolling: boolean
  readonly by: number
}

/**
 * A limit is that of the latest hold that it let in, so that a budget may be lowered below what is spent. A hold of
 * nothing says nothing of it, but it shows a rolling budget, as in the store of one machine.
 */
function limitsOf(admissions: readonly Admission[], mirror: Mirror): Limited[] {
  const changed = new Map<Plan, Omit<Limited, 'by'>[]>()
  const changedBy = (plan: Plan): Omit<Limited, 'by'>[] =>
    [...plan.shown].flatMap(([key, { place, limit: wanted }]) => {
      const { id, limit: stored } = mirror.get(key)!
      const limit = wanted === null ? null : smaller(wanted, maxNano)
      return limit === stored ? [] : { id, limit, rolling: daysOf(place.window) !== undefined }
    })
  return admissions.flatMap(({ plan, hold: { amount } }, i) => {
    let limits = changed.get(plan)
    if (!limits) changed.set(plan, (limits = changedBy(plan)))
    return limits.map((one) => ({ ...one, by: one.limit === null || (amount === 0n && one.rolling) ? 0 : i + 1 }))
  })
}

/**
 * The balance that most of a batch count in, the oldest of several; undefined for none. Nodes that are busy with the
 * same tenant name the same one. Adds the ids of all to `ids`.
 */
function busiestOf(lists: readonly (readonly Place[])[], mirror: Mirror, ids: Set<bigint>): bigint | undefined {
  const alike = new Map<readonly Place[], number>()
  for (const places of lists) alike.set(places, (alike.get(places) ?? 0) + 1)
  const counts = new Map<bigint, number>()
  for (const [places, count] of alike)
    for (const { key } of places) {
      const { id } = mirror.get(key)!
      counts.set(id, (counts.get(id) ?? 0) + count)
    }
  let busiest: bigint | undefined
  let most = 0
  for (const [id, count] of counts) {
    ids.add(id)
    if (count < most || (count === most && busiest! < id)) continue
    most = count
    busiest = id
  }
  return busiest
}

/** What ends change, by position. The first so many are of holds that the database has. */
function changesOf(ends: readonly End[], at: Positions, open: number): { posted: bigint[]; freed: bigint[] } {
  const posted = at.ids.map(() => 0n)
  const freed = at.ids.map(() => 0n)
  for (const [i, { places, held, charged }] of ends.entries())
    for (const position of at.all(places)) {
      posted[position - 1]! += charged
      if (i < open) freed[position - 1]! += held
    }
  return { posted, freed }
}

/** The holds whose progress is written: one that ends in the same batch has none any more. */
function touchedOf({ touches, ends }: Queue): Hold[] {
  const name = ({ requestId, part }: { requestId: string; part: string }): string => `${requestId} ${part}`
  const ended = new Set(ends.map(name))
  return [...touches.keys()].filter((hold) => !ended.has(name(hold)))
}

/** How far holds have come. */
export function touchedBy(holds: Iterable<Hold>): Record<string, unknown>[] {
  return [...holds].flatMap((hold) => {
    const rows = emptyBatch(0, 0)
    hold.writeTouch(rows)
    if (rows.touched.length === 0) return []
    const {
      id: _,
      delivered_units: delivered,
      ...touch
    } = Object.fromEntries(touchColumns.map((name, i) => [name, rows.touched[i]!])) as Record<
      (typeof touchColumns)[number],
      Value
    >
    return { ...naming(hold), ...touch, delivered }
  })
}

function naming({ requestId, part }: { requestId: string; part: string }): { request_id: string; part: string } {
  return { request_id: requestId, part }
}

/** One column of rows that follow each other. */
function columnOf(values: readonly Value[], column: number, width: number): Value[] {
  const found: Value[] = []
  for (let at = column; at < values.length; at += width) found.push(values[at]!)
  return found
}

function ignore(): void {}
