// Opens the ledger of a node on the book that it shares with others, and keeps the node alive in it.
import { randomUUID } from 'node:crypto'
import { parsePrice } from '../../../money/price.ts'
import type { Logger } from '../../../telling/log.ts'
import { silentLog } from '../../../telling/log.ts'
import type { KeptHold } from '../../embedded/book/book.ts'
import type { Durability } from '../../embedded/files/sqlite.ts'
import type { Hold } from '../../embedded/balance/hold.ts'
import type { RequestLog } from '../../requests.ts'
import { day } from '../../window.ts'
import { DatabaseFault } from '../database/fault.ts'
import type { Database } from '../database/database.ts'
import { Soundness } from '../database/soundness.ts'
import { Alarms } from './alarms.ts'
import { Book, nameOf } from './book.ts'
import { Days } from './days.ts'
import { endAll, replay } from './left-behind.ts'
import { Mirror } from './mirror.ts'
import { OwnLog } from './own-log.ts'
import { Queue } from './operations.ts'
import type { End } from './operations.ts'
import { Plans } from './plan.ts'
import { Prices } from './prices.ts'
import { fencedCode, replacedCode, Sender } from './sender.ts'
import { resumed } from './stored-hold.ts'
import type { HoldRow } from './stored-hold.ts'
import { Views } from './views.ts'

/** Where the book is, and who this node is. */
export interface MoneyOptions {
  readonly database: Pick<Database, 'batches' | 'changes' | 'reads'>
  /** Its name, the same at each start. A start ends the right of the process before it to write. */
  readonly node: string
  /** For what becomes of holds while the database is away. It is this node's alone. */
  readonly folder: string
  readonly durability: Durability
  /** Gets the records of requests that are ended for nodes that are gone. */
  readonly requests: Pick<RequestLog, 'append'>
  /** The holds that the process before goes on with. */
  readonly kept?: readonly KeptHold[] | undefined
  /** How long the node counts as living without being heard of, in milliseconds. Default: 15 s. */
  readonly lease?: number | undefined
  /** How long a request waits for a database that is silent, in milliseconds. Default: 2 s. */
  readonly patience?: number | undefined
  readonly log?: Logger | undefined
  /** The clock, for tests. */
  readonly now?: (() => number) | undefined
}

const usualLease = 15_000
const usualPatience = 2000
/** How many holds of a node that is gone are ended at once. */
const mostTaken = 500
/** How far this node's clock may differ from the database's, in milliseconds, before no money is decided on. */
const mostSkew = 60_000

/** The ledger of a node, open. */
export interface Money {
  readonly ledger: Book
  /** What is wrong at present; undefined when nothing is. New reservations are refused where it `refuses`. */
  readonly trouble: { readonly text: string; readonly error: string; readonly refuses: boolean } | undefined
  /**
   * Goes on here with a detached hold of another node, whose work this node has taken over. {@link Book.detached} finds
   * it then. Resolves with whether there was one.
   */
  adopt(requestId: string, part?: string): Promise<boolean>
  /** Resolves when what was queued is in the database, or that stays away for some seconds. */
  flush(): Promise<void>
  /** Writes what is left, and ends. What cannot be written stays in the node's log for the next start. */
  close(): Promise<void>
}

/**
 * Joins the nodes of a book: sends what an earlier start of this node could not, and ends the holds that it has left
 * open, but for detached and kept ones.
 * @throws Error when the database cannot be reached, or the node's log is damaged
 */
export async function openMoney(options: MoneyOptions): Promise<Money> {
  const node = new Node(options)
  try {
    await node.open()
    return node
  } catch (error) {
    await node.abandon()
    throw error
  }
}

class Node implements Money {
  readonly ledger: Book
  readonly #options: MoneyOptions
  readonly #log: Logger
  /** Of all starts of all nodes only this one has it. */
  readonly #start = randomUUID()
  readonly #lease: number
  readonly #now: () => number
  readonly #ownLog: OwnLog
  readonly #prices: Prices
  readonly #alarms: Alarms
  readonly #mirror: Mirror
  readonly #days: Days
  readonly #soundness: Soundness
  #sender!: Sender
  #timer: NodeJS.Timeout | undefined
  #beating: Promise<void> | undefined
  #trouble: DatabaseFault | undefined
  #skew = 0

  constructor(options: MoneyOptions) {
    const { database, node, folder, durability, log = silentLog, lease = usualLease, now = Date.now } = options
    this.#options = options
    this.#log = log.child({ node })
    this.#lease = lease
    this.#soundness = new Soundness(lease)
    this.#now = now
    this.#ownLog = new OwnLog(folder, durability)
    this.#mirror = new Mirror(database.batches)
    this.#prices = new Prices(database.reads)
    this.#days = new Days(database.changes)
    const views = new Views(database.reads, now)
    const plans = new Plans()
    const troubled = (error: Error): void => this.#log.warn('a threshold could not be told', { error: error.message })
    this.#alarms = new Alarms({ lane: database.changes, mirror: this.#mirror, views, plans, now, troubled })
    this.ledger = new Book({
      mirror: this.#mirror,
      plans,
      prices: this.#prices,
      views,
      alarms: this.#alarms,
      log: this.#log,
      refuses: () => (this.trouble?.refuses ? this.trouble.text : undefined)
    })
  }

  get trouble(): Money['trouble'] {
    if (Math.abs(this.#skew) > mostSkew)
      return {
        text: `the clock differs from that of the database by ${Math.round(this.#skew / 1000)} s`,
        error: '',
        refuses: true
      }
    const fault = this.#trouble
    if (fault?.code === replacedCode)
      return {
        text: `another process has started as the node ${this.#options.node}: each needs a name of its own`,
        error: fault.message,
        refuses: true
      }
    return fault && { text: 'the database cannot be written', error: fault.message, refuses: this.#sender.full }
  }

  /** Joins, and takes up what an earlier start has left. */
  async open(): Promise<void> {
    const { database, node, kept = [] } = this.#options
    const epoch = await this.#join(false)
    this.#sender = new Sender(
      {
        lane: database.batches,
        mirror: this.#mirror,
        log: this.#ownLog,
        node,
        lease: this.#lease,
        endurance: this.#options.patience ?? usualPatience,
        rejoin: (work) => this.#rejoin(work),
        answered: (ends) => this.#alarms.look(ends),
        troubled: (error) => this.#troubled(error),
        healed: () => this.#healed()
      },
      epoch
    )
    this.ledger.begin(this.#sender)
    const now = this.#now()
    await Promise.all([this.#prices.refresh(), this.#days.make(now), this.#days.make(now + day)])
    const costs = new Map(kept.map((hold) => [nameOf(hold.requestId, hold.part), hold.costs]))
    const rows = await this.#own()
    // A price in the log may be one of a hold.
    for (const { prices } of this.#ownLog.left)
      for (let i = 0; i < prices.length; i += 2)
        this.#sender.queue.prices.push(
          ...this.#prices.fresh({ model: '', price: parsePrice(prices[i]!, prices[i + 1]!) })
        )
    for (const row of rows) {
      const hold = resumed(row, costs.get(nameOf(row.request_id, row.part)), this.ledger)
      this.ledger.follow(hold, row.cells)
    }
    replay(this.#ownLog.left, this.ledger)
    this.#end(this.ledger.open.filter(({ requestId, part }) => !costs.has(nameOf(requestId, part))))
    this.#sender.start()
    this.#sender.wake()
    await this.#sender.flush()
    this.#timer = setInterval(() => void (this.#beating ??= this.#beat()), this.#lease / 3).unref()
  }

  async adopt(requestId: string, part = ''): Promise<boolean> {
    if (this.ledger.find(requestId, part)) return true
    const { database, node } = this.#options
    const { rows } = await database.changes.query<HoldRow>(
      `update sluice.hold set node = $1 where request_id = $2 and part = $3 and lease_until is not null returning *`,
      [node, requestId, part]
    )
    await this.#take(rows)
    return rows.length > 0
  }

  flush(): Promise<void> {
    return this.#sender.flush()
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#beating
    this.ledger.close()
    await this.#sender.close()
    await this.#ownLog.close()
  }

  /** The start failed: what the log has stays. */
  async abandon(): Promise<void> {
    await this.#ownLog.close()
  }

  async #join(again: boolean): Promise<number> {
    const { rows } = await this.#options.database.batches.query<{ epoch: number }>(
      'select sluice.money_join_1($1, $2, $3, $4) as epoch',
      [this.#options.node, this.#start, again, this.#lease]
    )
    return rows[0]!.epoch
  }

  async #own(): Promise<HoldRow[]> {
    const { rows } = await this.#options.database.batches.query<HoldRow>('select * from sluice.hold where node = $1', [
      this.#options.node
    ])
    return rows
  }

  /** Joins under another epoch. What of the work is still open may be asked for again. */
  async #rejoin(work: Queue): Promise<Queue> {
    const known = this.ledger.names
    const epoch = await this.#join(true)
    const rows = new Map((await this.#own()).map((row) => [nameOf(row.request_id, row.part), row]))
    this.#sender.enter(epoch)
    this.#log.warn('other nodes took this one for gone: it joined anew', { epoch })
    for (const name of known) if (!rows.has(name)) this.ledger.lose(name)
    const again = new Queue()
    again.prices.push(...work.prices)
    const error = new Error('other nodes took this one for gone')
    for (const admission of work.admissions) {
      const row = rows.get(nameOf(admission.hold.requestId, admission.hold.part))
      admission.failed(error, !row)
      if (row) admission.admitted(row.cells)
    }
    for (const touch of work.touches)
      if (rows.has(nameOf(touch.hold.requestId, touch.hold.part))) again.touches.push(touch)
      else touch.done()
    for (const end of work.ends) {
      if (rows.has(nameOf(end.requestId, end.part))) again.ends.push(end)
      else {
        end.done()
        void this.#compare(end)
      }
    }
    return again
  }

  /** Tells when another node has charged another amount than this one would have. */
  async #compare({ requestId, part, charged, time }: End): Promise<void> {
    try {
      const { rows } = await this.#options.database.reads.query<{ amount: bigint }>(
        `select amount from sluice.journal where day = date '1970-01-01' + $1::int and request_id = $2 and part = $3 and class = 'terminal'`,
        [Math.floor(time / day), requestId, part]
      )
      const amount = rows[0]?.amount
      if (amount !== charged)
        this.#log.error('another node has ended a request by estimate, as this one was not heard of for too long', {
          exchange: requestId,
          part,
          charged_nano: amount === undefined ? null : String(amount),
          would_be_nano: String(charged)
        })
    } catch (error) {
      this.#log.warn('an end could not be compared with the journal', { exchange: requestId, error: String(error) })
    }
  }

  /** Has the book hear of this node, and looks for nodes that are gone. Runs three times in a lease. */
  async #beat(): Promise<void> {
    try {
      await this.#soundness.watch(async () => {
        this.#sender.renew()
        const now = this.#now()
        await this.#prices.refresh()
        await Promise.all([this.#days.make(now), this.#days.make(now + day)])
        if (this.#options.now === undefined) await this.#compareClocks()
      })
      if (this.#soundness.holds) await this.#takeOver()
    } catch (error) {
      this.#troubled(DatabaseFault.of(error))
    } finally {
      this.#beating = undefined
    }
  }

  async #compareClocks(): Promise<void> {
    const before = Date.now()
    const { rows } = await this.#options.database.reads.query<{ now: number }>(
      'select (extract(epoch from clock_timestamp()) * 1000)::float8 as now'
    )
    const after = Date.now()
    const theirs = rows[0]!.now
    this.#skew = theirs < before ? before - theirs : theirs > after ? after - theirs : 0
    if (Math.abs(this.#skew) > 1000)
      this.#log.warn('the clock differs from that of the database', { seconds: Math.round(this.#skew / 1000) })
  }

  async #takeOver(): Promise<void> {
    const { database, node } = this.#options
    for (;;) {
      const { rows } = await database.changes.query<HoldRow>('select * from sluice.money_take_over_1($1, $2, $3, $4)', [
        node,
        this.#sender.epoch,
        this.#now(),
        mostTaken
      ])
      if (rows.length === 0) return
      this.#end(await this.#take(rows))
      await this.#sender.flush()
    }
  }

  /** Goes on with holds that are this node's now. */
  async #take(rows: readonly HoldRow[]): Promise<Hold[]> {
    if (rows.some((row) => !this.#prices.find(row.price_version))) await this.#prices.refresh()
    return rows.map((row) => {
      const hold = resumed(row, undefined, this.ledger)
      this.ledger.follow(hold, row.cells)
      return hold
    })
  }

  #end(holds: readonly Hold[]): void {
    endAll(holds, this.#now(), this.#options.requests, this.#log)
  }

  #troubled(error: Error): void {
    this.#soundness.failed()
    const fault = DatabaseFault.of(error)
    if (fault.code === fencedCode) return
    // One that was replaced stays so.
    if (this.#trouble?.code === replacedCode) return
    if (!this.#trouble || fault.code === replacedCode)
      this.#log.warn('the database cannot be written', { error: error.message })
    this.#trouble = fault
  }

  #healed(): void {
    if (!this.#trouble) return
    this.#trouble = undefined
    this.#log.info('the database is written again')
  }
}
