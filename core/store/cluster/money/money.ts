// Opens the ledger of a node on the book that it shares with others, and keeps the node alive in it.
import { randomUUID } from 'node:crypto'
import { parsePrice } from '../../../money/price.ts'
import type { Logger } from '../../../telling/log.ts'
import { silentLog } from '../../../telling/log.ts'
import type { KeptHold } from '../../embedded/book/book.ts'
import type { Durability } from '../../embedded/files/sqlite.ts'
import type { Hold } from '../../embedded/balance/hold.ts'
import { day } from '../../window.ts'
import { DatabaseFault } from '../database/fault.ts'
import type { Database } from '../database/database.ts'
import { Soundness } from '../database/soundness.ts'
import { Upkeep } from '../upkeep.ts'
import { Alarms } from './holds/alarms.ts'
import { Anchors } from './journal/anchors.ts'
import { Book } from './holds/book.ts'
import { nameOf } from './holds/live.ts'
import type { Figures } from './sending/commits.ts'
import { Days } from './journal/days.ts'
import { LateEnds } from './recovery/late-ends.ts'
import { endAll, endLeft, replay } from './recovery/left-behind.ts'
import type { Heard } from './recovery/left-behind.ts'
import { Mirror } from './balances/mirror.ts'
import { OwnLog } from './sending/own-log.ts'
import type { Queue } from './sending/operations.ts'
import { recordOf } from './sending/outage.ts'
import { OwnHolds } from './recovery/own-holds.ts'
import { PastWindows } from './balances/past-windows.ts'
import { Plans } from './balances/plan.ts'
import { Prices } from './holds/prices.ts'
import { behind } from './sending/recent.ts'
import type { Standing } from './sending/recent.ts'
import { Refusals } from './recovery/refusals.ts'
import { Recalls } from './slices/recalls.ts'
import { fencedCode, replacedCode } from './sending/faults.ts'
import { Sender } from './sending/sender.ts'
import type { Sizing } from './slices/slice.ts'
import { Slices } from './slices/slices.ts'
import { Views } from './balances/views.ts'

/** Where the book is, and who this node is. */
export interface MoneyOptions extends Heard {
  readonly database: Pick<Database, 'batches' | 'changes' | 'reads' | 'listener' | 'clock'>
  /** Its name, the same at each start. A start ends the right of the process before it to write. */
  readonly node: string
  /** For what becomes of holds while the database is away. It is this node's alone. */
  readonly folder: string
  readonly durability: Durability
  /** The holds that the process before goes on with. */
  readonly kept?: readonly KeptHold[] | undefined
  /** How long the node counts as living without being heard of, in milliseconds. Default: 15 s. */
  readonly lease?: number | undefined
  /** How long a request waits for a database that is silent, in milliseconds. Default: 2 s. */
  readonly patience?: number | undefined
  readonly log?: Logger | undefined
  /** Called when a batch leaves: what is told now is told before anybody sees what the batch settles. */
  readonly leaving?: (() => void) | undefined
  /** How slices are sized, for tests. */
  readonly sizing?: Sizing | undefined
  /** The clock, for tests. */
  readonly now?: (() => number) | undefined
}

const usualLease = 15_000
const usualPatience = 2000

/** The ledger of a node, open. */
export interface Money {
  readonly ledger: Book
  /** What is wrong at present; undefined when nothing is. New reservations are refused where it `refuses`. */
  readonly trouble: { readonly text: string; readonly error: string; readonly refuses: boolean } | undefined
  /** What the node has had the database commit, as of now. */
  readonly figures: Figures
  /**
   * Goes on here with a detached hold of another node, whose work this node has taken over and whose time is not over.
   * {@link Book.detached} finds it then. Resolves with whether there was one.
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
  readonly #ownLog: OwnLog
  readonly #clock: Database['clock']
  /** By the clock of the database. */
  readonly #now: () => number
  readonly #prices: Prices
  readonly #alarms: Alarms
  readonly #mirror: Mirror
  readonly #days: Days
  readonly #soundness: Soundness
  readonly #holds: OwnHolds
  readonly #anchors: Anchors
  readonly #late: LateEnds
  #upkeep: Upkeep | undefined
  #sender!: Sender
  #timer: NodeJS.Timeout | undefined
  #recalls: Recalls | undefined
  readonly #slices: Slices
  #beating: Promise<void> | undefined
  #trouble: DatabaseFault | undefined
  /** How far the database was when an earlier state of it was found to have come back. */
  #behind: Standing | undefined
  readonly #refusals: Refusals

  constructor(options: MoneyOptions) {
    const { database, node, folder, durability, log = silentLog, lease = usualLease, now = Date.now } = options
    this.#options = options
    this.#log = log.child({ node })
    this.#lease = lease
    this.#soundness = new Soundness(lease)
    this.#ownLog = new OwnLog(folder, durability)
    this.#clock = database.clock
    this.#now = options.now ?? (() => database.clock.now())
    this.#mirror = new Mirror(database.batches)
    this.#prices = new Prices(database.reads)
    this.#days = new Days(database.changes)
    this.#slices = new Slices(options.sizing)
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
      slices: this.#slices,
      late: (end) => this.#late.add(end),
      uncharged: ({ requestId, charge }) => charge && options.uncharged?.(requestId, charge),
      patience: options.patience ?? usualPatience,
      refuses: () => (this.trouble?.refuses ? this.trouble.text : undefined)
    })
    this.#anchors = new Anchors(database.changes)
    const corrected = (requestId: string): void => options.corrected?.(requestId)
    const common = { log: this.#log, prices: this.#prices, corrected }
    this.#late = new LateEnds({
      ...common,
      lane: database.reads,
      keep: (ends) => this.#ownLog.write(recordOf(ends, [], this.#prices.find)),
      correct: (end) => this.ledger.queueEnd(end),
      bring: (ended, prices) => this.#sender.bring(ended, prices)
    })
    this.#holds = new OwnHolds({ ...common, database, node, lease, ledger: this.ledger, late: this.#late })
    this.#refusals = new Refusals({ ...common, holds: this.#holds, ownLog: this.#ownLog, folder })
  }

  get trouble(): Money['trouble'] {
    const { skew, agrees } = this.#clock
    if (!agrees)
      return {
        text: `the clock differs from that of the database by ${Math.round(skew / 1000)} s`,
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
    if (fault) return { text: 'the database cannot be written', error: fault.message, refuses: this.#sender.full }
    const { text } = this.#refusals
    return text === undefined ? undefined : { text, error: '', refuses: false }
  }

  get figures(): Figures {
    const { commits, waiting } = this.#sender
    return { ...commits, queued: waiting, queuedBytes: this.#ownLog.bytes }
  }

  /** Joins, and takes up what an earlier start has left. */
  async open(): Promise<void> {
    const { database, node, kept = [] } = this.#options
    // What is over is so by the clock of the database.
    await this.#compareClocks()
    const epoch = await this.#join(false)
    this.#sender = new Sender(
      {
        lane: database.batches,
        mirror: this.#mirror,
        slices: this.#slices,
        log: this.#ownLog,
        priceOf: this.#prices.find,
        late: this.#late,
        node,
        lease: this.#lease,
        endurance: this.#options.patience ?? usualPatience,
        rejoin: (work) => this.#rejoin(work),
        leaveOut: (work) => this.#holds.leaveOut(work),
        tooLate: (end) => this.#holds.tooLate(end),
        leaving: () => this.#options.leaving?.(),
        answered: (ends) => {
          this.#holds.ended(ends)
          this.#alarms.look(ends)
        },
        refused: (one, fault) => this.#refusals.take(one, fault),
        troubled: (error) => this.#troubled(error),
        mistaken: ({ stack }) => this.#log.error('an answer of the database could not be told', { error: stack }),
        healed: () => this.#healed()
      },
      epoch
    )
    this.ledger.begin(this.#sender)
    await Promise.all([this.#prices.refresh(), this.#makeDays()])
    const costs = new Map(kept.map((hold) => [nameOf(hold.requestId, hold.part), hold.costs]))
    const rows = await this.#holds.rows()
    const { queue } = this.#sender
    // A price in the log may be one of a hold.
    for (const { prices } of this.#ownLog.left)
      for (let i = 0; i < prices.length; i += 2)
        queue.prices.push(...this.#prices.fresh({ model: '', price: parsePrice(prices[i]!, prices[i + 1]!) }))
    await this.#holds.take(rows, costs)
    for (const late of replay(this.#ownLog.left, this.ledger)) this.#late.take(late)
    // It is in the logs of earlier starts, which stay until the database has it.
    for (const touch of queue.touches.values()) touch.logged = true
    this.#end(this.ledger.open.filter(({ requestId, part }) => !costs.has(nameOf(requestId, part))))
    this.#sender.start()
    this.#sender.wake()
    await this.#sender.flush()
    await this.#late.look()
    const past = new PastWindows(database.changes, this.#now)
    this.#upkeep = new Upkeep(this.#clock, [() => past.sweep()])
    this.#timer = setInterval(() => void (this.#beating ??= this.#beat()), this.#lease / 3).unref()
    this.#recalls = new Recalls({
      slices: this.#slices,
      sender: this.#sender,
      returned: (key) => this.ledger.returned(key),
      keyOf: (id) => this.#mirror.keyOf(id),
      listener: database.listener,
      answers: () => this.#trouble === undefined
    })
  }

  async adopt(requestId: string, part = ''): Promise<boolean> {
    return this.#holds.adopt(this.#sender.epoch, requestId, part)
  }

  flush(): Promise<void> {
    return this.#sender.flush()
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await Promise.all([this.#beating, this.#upkeep?.close()])
    this.ledger.close()
    await this.#recalls?.close()
    await this.#late.look().catch(() => {})
    await this.#sender.close()
    await this.#ownLog.close()
  }

  /** The start failed: nothing goes on. What the log has stays. */
  async abandon(): Promise<void> {
    clearInterval(this.#timer)
    this.ledger.close()
    await Promise.all([this.#upkeep?.close(), (this.#sender as Sender | undefined)?.close(0)])
    await this.#ownLog.close()
  }

  async #join(again: boolean): Promise<number> {
    const { rows } = await this.#options.database.batches.query<{ epoch: number }>(
      'select sluice.money_join_1($1, $2, $3, $4) as epoch',
      [this.#options.node, this.#start, again, this.#lease]
    )
    return rows[0]!.epoch
  }

  /** How far the database has come with this node; undefined when it knows of none. */
  async #standing(): Promise<Standing | undefined> {
    const { database, node } = this.#options
    const query = 'select joined as epoch, batch from sluice.node where name = $1'
    const { rows } = await database.batches.query<{ epoch: number; batch: bigint }>(query, [node])
    const [row] = rows
    return row && { epoch: row.epoch, batch: Number(row.batch) }
  }

  /**
   * Joins under another epoch, as others took this node for gone, or an earlier state of the database has come back.
   * What of the work is still open may be asked for again.
   */
  async #rejoin(work: Queue): Promise<readonly Queue[]> {
    const sender = this.#sender
    const standing = (await this.#standing()) ?? { epoch: 0, batch: 0 }
    // It is asked again when the answer to joining is lost, which has begun an epoch then.
    if (behind(standing, sender.standing)) this.#behind ??= standing
    const epoch = await this.#join(this.#behind === undefined)
    const names = new Set((await this.#holds.rows()).map((row) => nameOf(row.request_id, row.part)))
    const written = await this.#holds.written(work.admissions)
    const lost = this.#behind ? this.#takeLost(this.#behind) : []
    this.#behind = undefined
    sender.enter(epoch)
    this.#slices.drop()
    if (lost.length === 0) this.#log.warn('other nodes took this one for gone: it joined anew', { epoch })
    for (const { requestId, part, end } of lost.flatMap(({ restored }) => restored))
      if (!end) names.add(nameOf(requestId, part))
    this.ledger.loseAllBut(names)
    return [...lost, this.#holds.stillOpen(work, sender.queue, { names, written, progress: lost.length > 0 })]
  }

  /** What was answered, and is not in the database any more. */
  #takeLost(standing: Standing): readonly Queue[] {
    const { lost, whole } = this.#sender.recent.take(standing)
    this.#log.error('the database has lost what it had answered: it is sent again', { batches: lost.length })
    if (!whole) this.#log.error('some of what the database has lost is too old to be sent again')
    return lost
  }

  /** Has the book hear of this node, and looks for holds that nobody goes on with. Runs three times in a lease. */
  async #beat(): Promise<void> {
    try {
      await this.#soundness.watch(async () => {
        this.#sender.renew()
        await Promise.all([this.#prices.refresh(), this.#makeDays(), this.#compareClocks()])
        const { strays, idle } = await this.#holds.look()
        this.#end(strays)
        endLeft(idle, this.#options, this.#log)
        await Promise.all([this.#anchors.write(), this.#late.look()])
      })
      if (this.#soundness.holds) await this.#takeOver()
    } catch (error) {
      this.#troubled(DatabaseFault.of(error))
    } finally {
      this.#beating = undefined
    }
  }

  /** Makes the days of now and of what comes next. */
  async #makeDays(): Promise<void> {
    const now = this.#now()
    await Promise.all([this.#days.make(now), this.#days.make(now + day)])
  }

  async #compareClocks(): Promise<void> {
    const { time, began } = await this.#clock.compare()
    this.#soundness.saw(time, began)
    const { skew, differs } = this.#clock
    if (differs) this.#log.warn('the clock differs from that of the database', { seconds: Math.round(skew / 1000) })
  }

  async #takeOver(): Promise<void> {
    await this.#holds.takeSlices(this.#sender.epoch, this.#soundness.gone)
    for (;;) {
      const holds = await this.#holds.takeOver(this.#sender.epoch, this.#soundness.gone)
      if (holds.length === 0) return
      this.#end(holds)
      await this.#sender.flush()
    }
  }

  #end(holds: readonly Hold[]): void {
    endAll(holds, this.#options, this.#log)
  }

  #troubled(error: Error): void {
    this.#soundness.failed()
    const fault = DatabaseFault.of(error)
    // One that was replaced stays so.
    if (fault.code === fencedCode || this.#trouble?.code === replacedCode) return
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
