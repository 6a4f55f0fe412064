// Looks after what waits while the database is silent: ends go to the node's own log, and nobody waits for ever.
import { entryColumns, touchColumns } from '../../../embedded/rows/batch.ts'
import type { Value } from '../../../embedded/files/sqlite.ts'
import { renderPrice } from '../../../../money/price.ts'
import type { Price } from '../../../../money/price.ts'
import { DatabaseFault } from '../../database/fault.ts'
import type { Lane } from '../../database/lane.ts'
import { touchedBy } from './batch.ts'
import type { End, Queue, Touch } from './operations.ts'
import type { OwnLog, Record } from './own-log.ts'

/** How long the database may be silent, in milliseconds, before ends are kept in the node's own log. */
const patience = 400
/** Milliseconds between two looks at what waits; a look counts as twice that at most, however late it comes. */
const lookEvery = 20
/** How often progress is kept that nobody waits for, in milliseconds of silence. */
const progressEvery = 1000

const silent = 'the database has not answered for seconds'

/** What it looks after. */
export interface OutageParts {
  readonly lane: Pick<Lane, 'trouble'>
  readonly log: OwnLog
  /** Ends that the log has and that are not among what waits. */
  readonly late: { readonly size: number }
  /** How long the database may be silent before those are told who wait for a decision, in milliseconds. */
  readonly endurance: number
  /** What waits to be sent. */
  readonly queue: Queue
  /** What is being sent, or was taken out of the queue for that. */
  flights(): readonly Queue[]
  /** A price by its version. */
  readonly priceOf: PriceOf
  /** Whether no other node can have taken this one for gone. */
  sure(): boolean
  troubled(error: Error): void
}

/** The silence of the database, as long as something waits for it. */
export class Outage {
  readonly #parts: OutageParts
  /**
   * For how long the first thing has waited that is not answered yet, in milliseconds; undefined when nothing waits. It
   * is counted by looks, as an answer is not heard either while this process has no time.
   */
  #away: number | undefined
  /** When the last look was, by performance.now(). */
  #lookedAt = 0
  /** How long the silence is to be when progress is kept that nobody waits for. */
  #progressAt = 0
  #watch: NodeJS.Timeout | undefined

  constructor(parts: OutageParts) {
    this.#parts = parts
  }

  /** Whether it has lasted for longer than anybody should wait. */
  get long(): boolean {
    return (this.#away ?? 0) > this.#parts.endurance
  }

  /** Something waits. */
  begin(): void {
    if (this.#away !== undefined) return
    this.#restart()
    this.#watch ??= setInterval(this.#look, lookEvery).unref()
  }

  /** The database has answered. More may wait. */
  answered(): void {
    if (this.#away !== undefined) this.#restart()
    this.#clear()
  }

  /** Nothing waits. */
  end(): void {
    clearInterval(this.#watch)
    this.#watch = undefined
    this.#away = undefined
    this.#clear()
  }

  #restart(): void {
    this.#away = 0
    this.#progressAt = progressEvery
    this.#lookedAt = performance.now()
  }

  /** Frees the log when the database has all that is in it. */
  #clear(): void {
    const { log, late, queue, flights } = this.#parts
    if (log.used && late.size === 0 && ![queue, ...flights()].some(({ logged }) => logged)) log.clear()
  }

  readonly #look = (): void => {
    if (this.#away === undefined) return
    const now = performance.now()
    this.#away += Math.min(now - this.#lookedAt, 2 * lookEvery)
    this.#lookedAt = now
    if (this.#away >= patience) this.#keep(this.#away >= this.#progressAt)
    if (this.#away >= this.#parts.endurance)
      this.#disappoint(this.#parts.lane.trouble ?? new DatabaseFault('deadline', silent))
  }

  /** Writes ends and progress that wait to the node's log, which makes them durable while the node is not given up. */
  #keep(progress: boolean): void {
    const work = [...this.#parts.flights(), this.#parts.queue]
    const ends = work.flatMap((one) => one.ends).filter(({ logged }) => !logged)
    const touches = work
      .flatMap((one) => [...one.touches.values()])
      .filter(({ until, logged, urgent }) => until === undefined && !logged && (urgent || progress))
    if (progress) this.#progressAt += progressEvery
    if (ends.length === 0 && touches.length === 0) return
    for (const one of [...ends, ...touches]) one.logged = true
    const left = touches.map((touch) => touch.leave())
    // Once others may have ended these holds by what they knew, the log is no promise that they are charged.
    if (!this.#parts.sure()) for (const one of left.splice(0)) one.failed(new DatabaseFault('deadline', silent))
    const waiters = [...ends, ...left]
    this.#parts.log.write(recordOf(ends, touches, this.#parts.priceOf)).then(
      () => {
        for (const one of waiters) one.done()
      },
      (error: Error) => {
        for (const one of waiters) one.failed(error)
      }
    )
  }

  /** Tells those who wait for a decision of the database that there is none at present. */
  #disappoint(error: DatabaseFault): void {
    const { log, queue } = this.#parts
    this.#parts.troubled(error)
    for (const one of [...this.#parts.flights(), queue]) {
      for (const admission of [...one.decisions, ...one.admissions])
        admission.failed(error, one === queue && !admission.sure)
      for (const touch of one.touches.values()) if (touch.until !== undefined || log.failing) touch.failed(error)
      if (log.failing) for (const end of one.ends) end.failed(error)
    }
    // What was not sent yet need not be sent any more, but what is admitted already.
    queue.decisions.splice(0)
  }
}

/** Finds a price by its version. */
export type PriceOf = (version: string) => Price | undefined

/**
 * Ends and progress as the node's log has them, with their prices, which the database may have lost by then. What is
 * made of an end that came too late is that end: it is compared again.
 */
export function recordOf(
  ends: readonly Pick<End, 'entries' | 'corrects'>[],
  touches: readonly Touch[],
  priceOf: PriceOf
): Record {
  const touched = touchedBy(touches.map(({ hold }) => hold)).flatMap(
    ({ request_id: request, part, delivered, ...touch }): Value[] =>
      touchColumns.map((name) =>
        name === 'id'
          ? JSON.stringify([request, part])
          : name === 'delivered_units'
            ? (delivered as number)
            : (touch[name] as Value)
      )
  )
  const entries = ends.flatMap(({ entries: own, corrects }) => [...(corrects?.entries ?? own)])
  const prices = [...pricesIn(entries, entryColumns, priceOf), ...pricesIn(touched, touchColumns, priceOf)]
  return { prices: prices.flatMap((price) => [price.version, renderPrice(price)]), touched, entries }
}

/** The prices that rows were made at. */
export function pricesIn(values: readonly Value[], columns: readonly string[], priceOf: PriceOf): Price[] {
  const at = ['price_version', 'cost_price'].map((name) => columns.indexOf(name))
  const versions = new Set(values.filter((value, i) => value !== null && at.includes(i % columns.length)))
  return [...versions].flatMap((version) => priceOf(version as string) ?? [])
}
