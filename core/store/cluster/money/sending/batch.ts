// A batch: all that a node asks the database for at one moment, as the arguments of one call, and what it answered.
import { maxNano, mostHeld, smaller } from '../../../embedded/balance/cell.ts'
import type { Hold } from '../../../embedded/balance/hold.ts'
import { emptyBatch, holdColumns, touchColumns } from '../../../embedded/rows/batch.ts'
import type { RowIds } from '../../../embedded/rows/row-ids.ts'
import type { Value } from '../../../embedded/files/sqlite.ts'
import { renderPrice } from '../../../../money/price.ts'
import { daysOf } from '../../../window.ts'
import { sent } from '../journal/chain.ts'
import type { Chain } from '../journal/chain.ts'
import type { Mirror } from '../balances/mirror.ts'
import { budgetOf, includes } from '../balances/plan.ts'
import type { Hoursum, Place, Plan } from '../balances/plan.ts'
import { Queue } from './operations.ts'
import type { Admission, End, Restored } from './operations.ts'

/** The call of a batch. */
export const batchCall = `select * from sluice.money_batch_1(${Array.from({ length: 37 }, (_, i) => `$${i + 1}`).join(', ')})`

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

/** Where each balance and sum is among the arguments, from 1 on. */
class Positions {
  readonly ids: readonly bigint[]
  readonly sums: readonly Hoursum[]
  readonly #ofId: ReadonlyMap<bigint, number>
  readonly #ofSum = new Map<string, number>()

  constructor(ids: ReadonlySet<bigint>, sums: Iterable<Hoursum>) {
    this.ids = [...ids].sort((one, other) => (one < other ? -1 : 1))
    this.#ofId = new Map(this.ids.map((id, i) => [id, i + 1]))
    const distinct: Hoursum[] = []
    for (const sum of sums) {
      if (this.#ofSum.has(nameOf(sum))) continue
      distinct.push(sum)
      this.#ofSum.set(nameOf(sum), this.ids.length + distinct.length)
    }
    this.sums = distinct
  }

  of(id: bigint): number {
    return this.#ofId.get(id)!
  }

  ofSum(sum: Hoursum): number {
    return this.#ofSum.get(nameOf(sum))!
  }

  /** What an admission counts in. */
  counts(places: readonly Place[], cells: readonly bigint[]): number[] {
    const sums = this.sums.filter((sum) => places.some((place) => includes(sum, place)))
    return [...cells.map((id) => this.of(id)), ...sums.map((sum) => this.ofSum(sum))]
  }
}

/**
 * Makes a batch of operations whose places the mirror knows. It goes on with the chain. One of nothing asks for all
 * slices of this node that others wait for; another one is told of those in the batch.
 */
export function batchOf(work: Queue, mirror: Mirror, chain: Chain, rowIds: RowIds): Batch {
  const { restored, touches, prices, changes } = work
  // Those that have ended make room, as ends do. One that ends while the batch is on its way does so in a later one.
  const admissions = work.admissions.toSorted((one, other) => turnOf(one) - turnOf(other))
  const joined = admissions.map(({ end }) => end !== undefined)
  const ends = [...work.ends, ...work.joined]
  const limited = limitsOf(admissions, mirror)
  const cellsOf = new Map<Plan, bigint[]>()
  for (const { plan } of admissions) cellsOf.set(plan, idsOf(plan.places, mirror))
  const ids = new Set<bigint>(limited.map(({ id }) => id))
  for (const cells of cellsOf.values()) for (const id of cells) ids.add(id)
  for (const { places } of [...ends, ...restored]) for (const id of idsOf(places, mirror)) ids.add(id)
  for (const { plan } of admissions) for (const { key } of plan.limits) ids.add(mirror.get(key)!.id)
  for (const { slice } of changes) ids.add(mirror.get(slice.key)!.id)
  const at = new Positions(ids, sumsOf(work))
  const { posted, freed } = changesOf(ends, at, mirror, work.ends.length)

  const rows = emptyBatch(0, 0)
  const [amounts, counts, countsTo, caps, capLimits, capsTo]: [
    bigint[],
    number[],
    number[],
    number[],
    bigint[],
    number[]
  ] = [[], [], [], [], [], []]
  const capCells: number[] = []
  const capOwn: boolean[] = []
  for (const { hold, plan, taken, end } of admissions) {
    if (!end) hold.writeOpen(rows, rowIds)
    // Beyond what any balance can have all amounts are one, which is refused.
    amounts.push(smaller(hold.amount, mostHeld + 1n))
    countsTo.push(counts.push(...at.counts(plan.places, cellsOf.get(plan)!)))
    for (const [i, { of, key, limit }] of plan.limits.entries()) {
      const cell = at.of(mirror.get(key)!.id)
      caps.push('to' in of ? at.ofSum(of) : cell)
      capLimits.push(limit)
      capCells.push(cell)
      capOwn.push(taken[i] !== undefined)
    }
    capsTo.push(caps.length)
  }
  const opened = objects(rows.opened, holdColumns).values()
  const asked = admissions.map(({ hold, plan, end }, i): Restored => ({
    row: { ...(end ? naming(hold) : rowOf(opened.next().value!)), amount: String(amounts[i]) },
    places: plan.places,
    end
  }))
  // Those that were held before are held whatever the budgets say now.
  for (const { row, places } of restored) {
    amounts.push(BigInt(row['amount'] as string))
    countsTo.push(counts.push(...at.counts(places, idsOf(places, mirror))))
    capsTo.push(caps.length)
  }
  const holds = [...asked, ...restored].map(({ row, places, end }) =>
    end ? { ...row, ended: true } : { ...row, cells: idsOf(places, mirror).map(Number) }
  )
  const entries = ends.flatMap((end) => chain.append(end.entries))
  const json = (list: readonly unknown[]): string | null => (list.length === 0 ? null : JSON.stringify(list))
  const values = [
    at.ids,
    posted,
    freed,
    limited.map(({ id }) => id),
    limited.map(({ limit }) => limit),
    limited.map(({ by }) => by),
    at.sums.map(({ scope }) => scope),
    at.sums.map(({ from }) => from),
    at.sums.map(({ to }) => to),
    amounts,
    counts,
    countsTo,
    caps,
    capLimits,
    capsTo,
    capCells,
    capOwn,
    changes.map(({ slice }) => at.of(mirror.get(slice.key)!.id)),
    changes.map(({ slice, hour }) => {
      const { of } = budgetOf(slice.key, hour)
      return 'to' in of ? at.ofSum(of) : at.of(mirror.get(of.key)!.id)
    }),
    changes.map(({ limit }) => limit),
    changes.map(({ back }) => back),
    changes.map(({ want }) => want),
    changes.map(({ least }) => smaller(least, mostHeld)),
    changes.some(({ unwritten }) => unwritten !== undefined) ? changes.map(({ unwritten }) => unwritten ?? null) : [],
    work.size === 0,
    json(prices.map((price) => ({ version: price.version, json: renderPrice(price) }))),
    json(holds),
    json(touchedBy(touchedOf(work))),
    json(
      [...touches.values()].flatMap(({ hold, until }) =>
        until === undefined || hold.ended ? [] : { ...naming(hold), until }
      )
    ),
    json(work.ends.flatMap((end) => (end.corrects ? [] : naming(end)))),
    json(entries),
    chain.seq,
    chain.hash
  ]
  return {
    values,
    ends,
    answer({ verdicts, posted, used, grants }) {
      mirror.update(at.ids, posted, used)
      for (const { id, limit, by } of limited)
        if (by === 0 || (verdicts[by - 1] === 0 && amounts[by - 1]! > 0n)) mirror.limit(id, limit)
      const sumsAt = (position: number): { posted: bigint; used: bigint } => ({
        posted: posted[position - 1]!,
        used: used[position - 1]!
      })
      for (const [i, { slice }] of changes.entries()) slice.answered(grants[i]!)
      eachOf(admissions, (admission, i) => {
        const verdict = verdicts[i]!
        if (verdict === 0) admission.admitted(joined[i]!)
        else {
          const from = i === 0 ? 0 : capsTo[i - 1]!
          const sums = caps.slice(from, capsTo[i]).map(sumsAt)
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
      for (const [i, one] of asked.entries())
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

function idsOf(places: readonly Place[], mirror: Mirror): bigint[] {
  return places.map(({ key }) => mirror.get(key)!.id)
}

function* sumsOf({ admissions, changes }: Queue): Generator<Hoursum> {
  for (const { slice, hour } of changes) {
    const { of } = budgetOf(slice.key, hour)
    if ('to' in of) yield of
  }
  for (const { plan } of admissions) for (const { of } of plan.limits) if ('to' in of) yield of
}

/** A limit that is stored otherwise. `by`: the admission that it depends on, from 1 on; 0 for none. */
interface Limited {
  readonly id: bigint
  readonly limit: bigint | null
  readonly by: number
}

/**
 * A limit is that of the latest hold that it let in, so that a budget may be lowered below what is spent. A hold of
 * nothing says nothing of it, but it shows a rolling budget, as in the store of one machine.
 */
function limitsOf(admissions: readonly Admission[], mirror: Mirror): Limited[] {
  return admissions.flatMap(({ plan, hold }, i) =>
    [...plan.shown].flatMap(([key, { place, limit: wanted }]): Limited[] => {
      const { id, limit: stored } = mirror.get(key)!
      const limit = wanted === null ? null : smaller(wanted, maxNano)
      const shownByNothing = hold.amount === 0n && daysOf(place.window) !== undefined
      return limit === stored ? [] : [{ id, limit, by: limit === null || shownByNothing ? 0 : i + 1 }]
    })
  )
}

/** What ends change, by position. The first so many are of holds that the database has. */
function changesOf(
  ends: readonly End[],
  at: Positions,
  mirror: Mirror,
  open: number
): { posted: bigint[]; freed: bigint[] } {
  const posted = at.ids.map(() => 0n)
  const freed = at.ids.map(() => 0n)
  for (const [i, { places, held, charged }] of ends.entries())
    for (const id of idsOf(places, mirror)) {
      posted[at.of(id) - 1]! += charged
      if (i < open) freed[at.of(id) - 1]! += held
    }
  return { posted, freed }
}

/** The row of a hold, of what the store of one machine writes of it. */
function rowOf({ id: _, dispatched: __, delivered_units: delivered, ...hold }: Record<string, unknown>): {} {
  return { ...hold, delivered, time: hold['ts_ms'], streamed: hold['streamed'] === 1 }
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
    return objects(rows.touched, touchColumns).map(({ id: _, delivered_units: delivered, ...touch }) => ({
      ...naming(hold),
      ...touch,
      delivered
    }))
  })
}

function naming({ requestId, part }: { requestId: string; part: string }): { request_id: string; part: string } {
  return { request_id: requestId, part }
}

function objects(values: readonly Value[], columns: readonly string[]): Record<string, unknown>[] {
  return Array.from({ length: values.length / columns.length }, (_, row) =>
    Object.fromEntries(columns.map((name, i) => [name, sent(values[row * columns.length + i]!)]))
  )
}

function nameOf({ scope, from, to }: Hoursum): string {
  return `${from} ${to} ${scope}`
}

function ignore(): void {}
