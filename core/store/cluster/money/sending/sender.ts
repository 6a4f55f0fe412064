// Sends batches to the database, one at a time and each once, and finds what is at fault where one is refused.
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { RowIds } from '../../../embedded/rows/row-ids.ts'
import type { Price } from '../../../../money/price.ts'
import { DatabaseFault } from '../../database/fault.ts'
import type { Lane } from '../../database/lane.ts'
import { Chain } from '../journal/chain.ts'
import { Days } from '../journal/days.ts'
import type { Mirror } from '../balances/mirror.ts'
import type { Slices } from '../slices/slices.ts'
import { batchCall, batchOf, placesOf } from './batch.ts'
import type { Answer, Batch } from './batch.ts'
import { Commits } from './commits.ts'
import { faultOf, fencedCode, lostCode, replacedCode } from './faults.ts'
import { Outage } from './outage.ts'
import type { PriceOf } from './outage.ts'
import type { OwnLog } from './own-log.ts'
import { abandon, Queue } from './operations.ts'
import type { End, Restored } from './operations.ts'
import { Recent } from './recent.ts'
import type { Standing } from './recent.ts'

/** How many of each kind one batch has at most, and how many holds where no more of them are to be decided on. */
const [mostAtOnce, usualAtOnce] = [256, 80]
/** The first and the longest pause before a batch is sent again, in milliseconds. */
const [firstPause, longestPause] = [20, 1000]
/**
 * A batch of less than this many operations leaves so many milliseconds after the answer to the one before at the
 * earliest: a database that is fast would be asked for every few of them, which costs both sides more than they do.
 */
const [enough, company] = [64, 4]
/**
 * How long holds that nobody waits for are delayed, in milliseconds: most that end within that need no row. It is
 * short, so that a node that is gone has hardly more upstreams at work without a hold.
 */
const lonely = 5
/** How long closing waits for the database, in milliseconds. */
const farewell = 5000
/** The most that may wait for the database. */
const mostWaiting = 20_000

/** What a sender needs of its node. */
export interface SenderParts {
  readonly lane: Lane
  readonly mirror: Mirror
  readonly slices: Slices
  readonly log: OwnLog
  readonly priceOf: PriceOf
  /** Whether the log has what is neither in the queue nor under way. */
  readonly late: { readonly size: number }
  readonly node: string
  /** How long this node counts as living after a batch, in milliseconds. */
  readonly lease: number
  /** How long the database may be silent before those are told who wait for a decision, in milliseconds. */
  readonly endurance: number
  /** Joins anew, under another epoch. Returns what is to be sent first, one after another. */
  rejoin(work: Queue): Promise<readonly Queue[]>
  /** Leaves out ends and progress of holds that this node does not have in the database, and sees to those. */
  leaveOut(work: Queue): Promise<void>
  /** Takes an end that somebody else makes: it is kept, and compared with theirs. */
  readonly tooLate: (end: End) => void
  /** A batch leaves. */
  leaving(): void
  /** A batch was answered. */
  answered(ends: readonly End[]): void
  /** The database refuses this one operation, and would for ever. An end is to be kept elsewhere, and told. */
  refused(one: Queue, fault: DatabaseFault): void
  /** Somebody who was told of an answer threw. */
  mistaken(error: Error): void
  /** The database cannot be reached, or answers with an error. */
  troubled(error: Error): void
  healed(): void
}

/** A batch that is ready, and the chain behind it. */
interface Made {
  readonly batch: Batch
  readonly chain: Chain
}

/** The way of one node into the book. */
export class Sender {
  readonly #parts: SenderParts
  /** What is to be sent: add to it, and call {@link Sender.wake}. */
  readonly queue = new Queue()
  readonly #outage: Outage
  /** Holds have rows by number, as in a file. */
  readonly rowIds = new RowIds(0)
  readonly #days: Days
  /** What was answered in the last minutes. */
  readonly recent = new Recent()
  readonly commits = new Commits()
  #chain: Chain
  /** The number of the last batch that was answered in this epoch. */
  #number = 0
  /** When the last batch that was answered was sent, and the one under way for the first time; by performance.now(). */
  #heardAt = -Infinity
  #sentAt: number | undefined
  /** How long the last answer took, and when it came. */
  #took = 0
  #answeredAt = -Infinity
  /** Whether something waits that is not to wait for more; and whether others wait for what this node gives back. */
  #woken = false
  #hurried = false
  #soon: NodeJS.Timeout | undefined
  /** What is being sent, and what was taken out of the queue behind it: they are sent one after another. */
  #flights: Queue[] = []
  /** Whether ids and days were not asked for anew since the queue was last looked into. */
  #trusting = true
  #awake: (() => void) | undefined
  #closing = false
  #renewing = false
  #running: Promise<void> | undefined

  constructor(parts: SenderParts, epoch: number) {
    const { lane, log, late, node, endurance, troubled, priceOf } = parts
    this.#parts = parts
    this.#chain = Chain.of(node, epoch)
    this.#days = new Days(lane)
    const sure = (): boolean => this.sure(performance.now())
    this.#outage = new Outage({
      lane,
      log,
      late,
      endurance,
      troubled,
      priceOf,
      sure,
      queue: this.queue,
      flights: () => this.#flights
    })
  }

  get epoch(): number {
    return this.#chain.epoch
  }

  /** How far the database has come, as far as this node was told. */
  get standing(): Standing {
    return { epoch: this.#chain.epoch, batch: this.#number }
  }

  /** Whether no more may be admitted: too much waits, or the database has been away for some seconds. */
  get full(): boolean {
    return this.#closing || this.queue.size > mostWaiting || this.#outage.long
  }

  /** How much waits for an answer. What is told about slices ends with its epoch in any case. */
  get waiting(): number {
    return this.#flights.reduce((sum, { size, changes }) => sum + size - changes.length, this.queue.size)
  }

  /** Whether no other node can have taken this one for gone, at a time by performance.now(). */
  sure(now: number): boolean {
    return now - this.#heardAt < (2 * this.#parts.lease) / 3
  }

  /** The ends that wait for an answer. */
  get ends(): readonly End[] {
    return [this.queue, ...this.#flights].flatMap(({ ends }) => ends)
  }

  /** Sends an end whose hold the database has lost, and prices that it may have lost as well. */
  bring(one: Restored, prices: readonly Price[]): void {
    this.queue.prices.push(...prices)
    this.queue.restored.push(one)
    this.wake()
  }

  /** Sends what is queued at the end of this turn, or behind the batch under way. `hurried`: it keeps no distance. */
  wake(hurried = false): void {
    this.#woken = true
    this.#hurried ||= hurried
    this.#outage.begin()
    this.#awake?.()
  }

  /** Sends what is queued within some milliseconds, and what has come until then: nobody waits for it. */
  wakeSoon(): void {
    if (!this.#woken) this.#soon ??= setTimeout(() => this.wake(), lonely).unref()
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

  /** Takes an epoch that began: numbers and chain begin again. The server may be another one. */
  enter(epoch: number): void {
    this.#chain = Chain.of(this.#parts.node, epoch)
    this.#number = 0
    this.#parts.mirror.forget()
    this.#days.forget()
    this.#sentAt = undefined
    this.#heardAt = -Infinity
  }

  /** Resolves when everything that was queued is answered, or the database stays away for some milliseconds. */
  async flush(within = farewell): Promise<void> {
    const began = performance.now()
    while (this.waiting > 0 && performance.now() - began < within) await sleep(2)
  }

  /** Sends what waits, as {@link Sender.flush} does, and ends. */
  async close(within = farewell): Promise<void> {
    await this.flush(within)
    this.#closing = true
    clearTimeout(this.#soon)
    this.#awake?.()
    await Promise.race([this.#running, sleep(this.#parts.lane.timeout, undefined, { ref: false })])
    this.#outage.end()
  }

  async #run(): Promise<void> {
    while (!this.#closing) {
      if (this.#flights.length === 0) {
        if (!this.#woken) {
          if (this.queue.size === 0) this.#outage.end()
          await new Promise<void>((resolve) => (this.#awake = resolve))
          this.#awake = undefined
          // More comes in the same turn of the loop.
          await nextTurn()
          continue
        }
        const early = this.#answeredAt + company - performance.now()
        if (early > 0 && this.queue.size < enough && !this.#hurried) await sleep(early)
        this.#hurried = false
        clearTimeout(this.#soon)
        this.#soon = undefined
        const work = this.queue.take(mostAtOnce, usualAtOnce)
        work.changes.push(...this.#parts.slices.changes(mostAtOnce, performance.now()))
        this.#woken = this.queue.size > 0
        if (work.size === 0 && !this.#renewing) continue
        this.#renewing = false
        this.#trusting = true
        this.#flights.push(work)
        this.#parts.leaving()
      }
      await this.#send()
      // Whoever was answered asks for more in this turn of the loop.
      await nextTurn()
    }
  }

  /** Sends the first of what is under way until it is answered, or something else is to be sent in its place. */
  async #send(): Promise<void> {
    const work = this.#flights[0]!
    let made: Made | undefined
    for (let pause = firstPause; !this.#closing; pause = Math.min(pause * 2, longestPause)) {
      try {
        made ??= await this.#make(work)
        return this.#answered(work, made, await this.#ask(made))
      } catch (error) {
        const fault = faultOf(error)
        if (fault.code === fencedCode) return await this.#again()
        if (fault.code === lostCode) {
          if (await this.#leaveOut(work)) return
          made = undefined
        } else if (fault.ofContent) {
          made = undefined
          if (this.#distrust()) continue
          if (work.size > 1) return void this.#flights.splice(0, 1, ...work.halves())
          if (work.part()) continue
          if (work.size === 1 && (await this.#takesNothing())) return this.#giveUp(work, fault)
        }
        if (!fault.conflict) this.#parts.troubled(fault)
        if (!this.#closing) await sleep(pause * (0.5 + Math.random()))
      }
    }
  }

  /** The database has done a batch: whatever those make of it who are told, it is not sent again. */
  #answered(work: Queue, { batch }: Made, answer: Answer): void {
    this.#flights.shift()
    this.recent.keep(this.standing, batch.again(answer))
    this.#outage.answered()
    this.commits.add(work.size, this.#took)
    const told = [
      () => batch.answer(answer),
      () => this.#recall(answer),
      () => answer.grants.some((grant) => grant > 0n) && this.queue.retry(),
      () => this.#parts.answered(batch.ends)
    ]
    for (const tell of told)
      try {
        tell()
      } catch (error) {
        this.#parts.mistaken(error as Error)
      }
    this.#parts.healed()
  }

  /** Gives back in the next batch what others wait for. */
  #recall({ edges }: Answer): void {
    for (const id of edges) {
      const key = this.#parts.mirror.keyOf(id)
      if (key !== undefined && this.#parts.slices.recall(key)) this.#woken = this.#hurried = true
    }
  }

  /** Makes a batch. Whoever sends one again whose answer was lost must send the same. */
  async #make(work: Queue): Promise<Made> {
    await this.#parts.mirror.learn(placesOf(work, this.#parts.mirror))
    for (const { time } of [...work.ends, ...work.joined]) await this.#days.make(time)
    const chain = this.#chain.fork()
    return { chain, batch: batchOf(work, this.#parts.mirror, chain, this.rowIds) }
  }

  /** Has a batch done. Where it is refused nothing happens: number and chain stay as they were. */
  async #ask({ chain, batch }: Made): Promise<Answer> {
    const { node, lease, lane } = this.#parts
    const values = [node, chain.epoch, this.#number + 1, lease, ...batch.values]
    // One that is sent again may have been done when it was sent first.
    this.#sentAt ??= performance.now()
    // After its time the connection is destroyed, and the same batch is sent again.
    const { rows } = await lane.query<Answer>(batchCall, values, { boundsLocks: true })
    this.#heardAt = this.#sentAt
    this.#answeredAt = performance.now()
    this.#took = this.#answeredAt - this.#sentAt
    this.#sentAt = undefined
    this.#number++
    this.#chain = chain
    return rows[0]!
  }

  /** Forgets ids and days, which may be those of a server that was replaced. Returns whether that was done just now. */
  #distrust(): boolean {
    if (!this.#trusting) return false
    this.#parts.mirror.forget()
    this.#days.forget()
    this.#trusting = false
    return true
  }

  /** Whether the database takes a batch that asks for nothing: then a refusal is about what was asked. */
  async #takesNothing(): Promise<boolean> {
    const made = await this.#make(new Queue())
    for (let pause = firstPause; !this.#closing; pause = Math.min(pause * 2, longestPause))
      try {
        await this.#ask(made)
        return true
      } catch (error) {
        const fault = faultOf(error)
        if (!fault.unknown && !fault.away && !fault.conflict) return false
        this.#parts.troubled(fault)
        await sleep(pause)
      }
    return false
  }

  /** An operation that is refused by itself ends here. */
  #giveUp(one: Queue, fault: DatabaseFault): void {
    this.#flights.shift()
    this.#parts.refused(one, fault)
    for (const touch of one.touches.values()) touch.failed(fault)
    for (const admission of one.admissions) admission.failed(fault, true)
    for (const { slice } of one.changes) slice.refused()
  }

  /** Leaves out what is of holds that are not this node's any more. Returns whether there was any. */
  async #leaveOut(work: Queue): Promise<boolean> {
    const before = work.size
    await this.#steadily(() => this.#parts.leaveOut(work))
    return this.#closing || work.size < before
  }

  /** Joins under another epoch, however long it takes. */
  async #again(): Promise<void> {
    const work = Queue.of(this.#flights)
    const first = await this.#steadily(() => this.#parts.rejoin(work))
    this.#flights = first?.filter(({ size }) => size > 0) ?? []
  }

  /** Does something until it succeeds. Undefined when this is closed meanwhile. */
  async #steadily<T>(run: () => Promise<T>): Promise<T | undefined> {
    for (let pause = firstPause; !this.#closing; pause = Math.min(pause * 2, longestPause))
      try {
        return await run()
      } catch (error) {
        const fault = DatabaseFault.of(error)
        this.#parts.troubled(fault)
        if (fault.code === replacedCode) this.#stop(fault)
        else await sleep(pause)
      }
    return undefined
  }

  /** Sends nothing any more: what waits is no longer this process's to write. */
  #stop(fault: DatabaseFault): void {
    this.#closing = true
    abandon(this.#flights, this.queue, fault, this.#parts.tooLate)
  }
}
