// Sends batches to the database, one at a time and each once, and keeps ends in the node's log while it is away.
import { setTimeout as sleep } from 'node:timers/promises'
import { touchColumns } from '../../embedded/rows/batch.ts'
import { RowIds } from '../../embedded/rows/row-ids.ts'
import type { Value } from '../../embedded/files/sqlite.ts'
import { renderPrice } from '../../../money/price.ts'
import { DatabaseFault } from '../database/fault.ts'
import type { Lane } from '../database/lane.ts'
import { batchCall, batchOf, placesOf, touchedBy } from './batch.ts'
import type { Answer, Batch } from './batch.ts'
import { Chain } from './chain.ts'
import { Days } from './days.ts'
import type { Mirror } from './mirror.ts'
import type { OwnLog } from './own-log.ts'
import { Queue } from './operations.ts'
import type { End, Touch } from './operations.ts'

/** How many of each kind one batch has at most. */
const mostAtOnce = 256
/** How long one call may take, in milliseconds. Then its connection is destroyed, and the same batch is sent again. */
const deadline = 5000
/** How long the database may be silent, in milliseconds, before ends are kept in the node's own log. */
const patience = 400
/** Milliseconds between two looks at what waits; a look counts as twice that at most, however late it comes. */
const lookEvery = 20
/** The first and the longest pause before a batch is sent again, in milliseconds. */
const [firstPause, longestPause] = [20, 1000]
/** How long closing waits for the database, in milliseconds. */
const farewell = 5000
/** The most that may wait for the database. */
const mostWaiting = 20_000

const silent = 'the database has not answered for seconds'

/** The database says so where another node has ended what this one left open. */
export const fencedCode = 'SL001'
/** And so where a later start of this node has begun: this one is over. */
export const replacedCode = 'SL003'
/** A hold that is to be ended is not there, although nobody but this node may have ended it. */
const lostCode = 'SL002'

/** What a sender needs of its node. */
export interface SenderParts {
  readonly lane: Lane
  readonly mirror: Mirror
  readonly log: OwnLog
  readonly node: string
  /** How long this node counts as living after a batch, in milliseconds. */
  readonly lease: number
  /** How long the database may be silent before those are told who wait for a decision, in milliseconds. */
  readonly endurance: number
  /** Joins anew, under another epoch. Returns what of the work may still be asked for. */
  rejoin(work: Queue): Promise<Queue>
  /** A batch was answered. */
  answered(ends: readonly End[]): void
  /** The database cannot be reached, or answers with an error. */
  troubled(error: Error): void
  healed(): void
}

/** The way of one node into the book. */
export class Sender {
  readonly #parts: SenderParts
  readonly #queue = new Queue()
  readonly #rowIds = new RowIds(0)
  readonly #days: Days
  #chain: Chain
  #number = 0
  #flight: Queue | undefined
  /**
   * For how long the first thing has waited that is not answered yet, in milliseconds; undefined when nothing waits. It
   * is counted by looks, as an answer is not heard either while this process has no time.
   */
  #away: number | undefined
  /** When the last look was, by performance.now(). */
  #lookedAt = 0
  #watch: NodeJS.Timeout | undefined
  /** What was written to the log, or is being written, and is not in the database yet. */
  readonly #logged = new Set<End | Touch>()
  #awake: (() => void) | undefined
  #closing = false
  #renewing = false
  #running: Promise<void> | undefined

  constructor(parts: SenderParts, epoch: number) {
    this.#parts = parts
    this.#chain = new Chain(parts.node, epoch)
    this.#days = new Days(parts.lane)
  }

  get epoch(): number {
    return this.#chain.epoch
  }

  /** Whether no more may be admitted: too much waits, or the database has been away for some seconds. */
  get full(): boolean {
    return this.#closing || this.#queue.size > mostWaiting || (this.#away ?? 0) > this.#parts.endurance
  }

  /** How much waits for an answer. */
  get waiting(): number {
    return this.#queue.size + (this.#flight?.size ?? 0)
  }

  /** What is to be sent: add to it, and call {@link Sender.wake}. */
  get queue(): Queue {
    return this.#queue
  }

  /** Sends what is queued at the end of this turn of the loop, or when the batch under way is answered. */
  wake(): void {
    if (this.#away === undefined) {
      this.#away = 0
      this.#lookedAt = performance.now()
      this.#watch ??= setInterval(this.#look, lookEvery).unref()
    }
    this.#awake?.()
  }

  /** Has the database hear of this node even when there is nothing to be sent. */
  renew(): void {
    this.#renewing = true
    this.wake()
  }

  /** Begins to send. */
  start(): void {
    this.#running ??= this.#run()
  }

  /** Takes an epoch that began: numbers and chain begin again. */
  enter(epoch: number): void {
    this.#chain = new Chain(this.#parts.node, epoch)
    this.#number = 0
  }

  /** Resolves when everything that was queued is answered, or the database stays away for some seconds. */
  async flush(): Promise<void> {
    const began = performance.now()
    while (this.waiting > 0 && performance.now() - began < farewell) await sleep(2)
  }

  async close(): Promise<void> {
    await this.flush()
    this.#closing = true
    this.#awake?.()
    await Promise.race([this.#running, sleep(deadline)])
    clearInterval(this.#watch)
  }

  async #run(): Promise<void> {
    while (!this.#closing) {
      if (this.#queue.size === 0 && !this.#renewing) {
        this.#settled()
        await new Promise<void>((resolve) => (this.#awake = resolve))
        this.#awake = undefined
        // More comes in the same turn of the loop.
        await new Promise((resolve) => setImmediate(resolve))
        continue
      }
      this.#renewing = false
      const work = this.#queue.take(mostAtOnce)
      this.#flight = work
      await this.#send(work)
      this.#flight = undefined
      if (this.#queue.size > 0) this.#away = 0
    }
  }

  /** Sends one batch until it is answered. */
  async #send(work: Queue): Promise<void> {
    let pause = firstPause
    let batch: Batch | undefined
    while (!this.#closing || batch) {
      try {
        if (!batch) {
          await this.#parts.mirror.learn(placesOf(work))
          for (const { time } of work.ends) await this.#days.make(time)
          batch = batchOf(work, this.#parts.mirror, this.#chain, this.#rowIds)
          this.#number++
        }
        const { node, lease, lane } = this.#parts
        const values = [node, this.#chain.epoch, this.#number, lease, ...batch.values]
        const { rows } = await lane.query<Answer>(batchCall, values, { deadline })
        batch.answer(rows[0]!)
        for (const one of [...work.ends, ...work.touches]) this.#logged.delete(one)
        this.#parts.answered(work.ends)
        this.#parts.healed()
        return
      } catch (error) {
        const fault = DatabaseFault.of(error)
        if (fault.code === fencedCode || fault.code === lostCode) {
          for (const one of [...work.ends, ...work.touches]) this.#logged.delete(one)
          const again = await this.#again(work)
          if (again) this.#queue.putBack(again)
          return
        }
        if (!fault.conflict) this.#parts.troubled(fault)
        if (this.#closing) return
        await sleep(pause * (0.5 + Math.random()))
        pause = Math.min(pause * 2, longestPause)
      }
    }
  }

  /** Joins under another epoch, however long it takes. Undefined when it is closed meanwhile. */
  async #again(work: Queue): Promise<Queue | undefined> {
    for (let pause = firstPause; !this.#closing; pause = Math.min(pause * 2, longestPause))
      try {
        return await this.#parts.rejoin(work)
      } catch (error) {
        const fault = DatabaseFault.of(error)
        this.#parts.troubled(fault)
        if (fault.code === replacedCode) this.#stop(work, fault)
        else await sleep(pause)
      }
    return undefined
  }

  /** Sends nothing any more: what waits is no longer this process's to write. */
  #stop(work: Queue, fault: DatabaseFault): void {
    this.#closing = true
    for (const { admissions, ends, touches } of [work, this.#queue.take(Infinity)]) {
      for (const { failed } of admissions) failed(fault, true)
      for (const one of [...ends, ...touches]) one.failed(fault)
    }
  }

  /** Nothing waits: the log is not needed. */
  #settled(): void {
    clearInterval(this.#watch)
    this.#watch = undefined
    this.#away = undefined
    if (this.#logged.size === 0) this.#parts.log.clear()
  }

  /** Looks after what waits while the database is silent. */
  readonly #look = (): void => {
    if (this.#away === undefined) return
    const now = performance.now()
    this.#away += Math.min(now - this.#lookedAt, 2 * lookEvery)
    this.#lookedAt = now
    if (this.#away >= patience) this.#keep()
    if (this.#away >= this.#parts.endurance)
      this.#disappoint(this.#parts.lane.trouble ?? new DatabaseFault('deadline', silent))
  }

  /** Writes ends and progress that wait to the node's log, which makes them durable. */
  #keep(): void {
    const work = [this.#flight, this.#queue].filter((one) => one !== undefined)
    const ends = work.flatMap((one) => one.ends).filter((end) => !this.#logged.has(end))
    const touches = work
      .flatMap((one) => one.touches)
      .filter((touch) => touch.until === undefined && !this.#logged.has(touch))
    if (ends.length === 0 && touches.length === 0) return
    for (const one of [...ends, ...touches]) this.#logged.add(one)
    const prices = work.flatMap((one) => one.prices).flatMap((price) => [price.version, renderPrice(price)])
    const touched = touchedBy({ touches }).flatMap(({ request_id: request, part, delivered, ...touch }): Value[] =>
      touchColumns.map((name) =>
        name === 'id'
          ? JSON.stringify([request, part])
          : name === 'delivered_units'
            ? (delivered as number)
            : (touch[name] as Value)
      )
    )
    const record = { prices, touched, entries: ends.flatMap(({ entries }) => [...entries]) }
    this.#parts.log.write(record).then(
      () => {
        for (const one of [...ends, ...touches]) one.done()
      },
      (error: Error) => {
        for (const one of [...ends, ...touches]) one.failed(error)
      }
    )
  }

  /** Tells those who wait for a decision of the database that there is none at present. */
  #disappoint(error: DatabaseFault): void {
    this.#parts.troubled(error)
    const work = [this.#flight, this.#queue].filter((one) => one !== undefined)
    for (const one of work) {
      const { admissions, touches } = one
      for (const { failed } of admissions) failed(error, one !== this.#flight)
      for (const { until, failed } of touches) if (until !== undefined || this.#parts.log.failing) failed(error)
      if (this.#parts.log.failing) for (const end of one.ends) end.failed(error)
    }
    // What was not sent yet need not be sent any more.
    this.#queue.admissions.length = 0
  }
}
