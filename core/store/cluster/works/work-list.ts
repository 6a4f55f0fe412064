// The work that all gateways share: each has in memory what it owns, and the database the rest.
import { randomUUID } from 'node:crypto'
import { GatewayError } from '../../../errors.ts'
import { silentLog } from '../../../telling/log.ts'
import type { Logger } from '../../../telling/log.ts'
import type { Owner } from '../../owner.ts'
import { OwnPlaces } from '../../work-places.ts'
import { isOpen } from '../../works.ts'
import type { Errand, Work, WorkQuery, Works } from '../../works.ts'
import type { Database } from '../database/database.ts'
import { Group } from '../database/group.ts'
import { plain } from '../database/text.ts'
import { unavailable } from '../unavailable.ts'
import { Arrivals } from './arrivals.ts'
import type { Delay } from './arrivals.ts'
import { Errands } from './errands.ts'
import type { Serve } from './errands.ts'
import { Losses } from './losses.ts'
import { Ownership } from './ownership.ts'
import type { HeldWork } from './ownership.ts'
import { newTenure, Results } from './results.ts'
import type { Tenure } from './results.ts'
import { Room } from './room.ts'
import { keyOf, nameOf, Rows } from './rows.ts'
import type { Put } from './rows.ts'

/** How long open work is its gateway's after that was heard of last, in milliseconds. */
const usualLease = 15_000

/** Open work of this gateway. `shown`: the state before, while the latest is not committed. */
interface Own {
  readonly work: Work
  readonly tenure: Tenure
  readonly shown: Work
}

/** The work as one gateway has it. What others own is found by its owner and id; `open`, `current` and `at` lack it. */
export class WorkList implements Works {
  readonly #database: Database
  readonly #now: () => number
  readonly #results: Results
  readonly #ownership: Ownership
  readonly #errands: Errands
  readonly #group: Group<Put>
  readonly #own = new Map<string, Own>()
  readonly #losses = new Losses()
  readonly #rows: Rows
  readonly #arrivals: Arrivals
  /** The work of this gateway by account and upstream id. */
  readonly #places = new Map<string, Work>()
  readonly room: Room
  readonly places = new OwnPlaces(this)
  /**
   * Brings here what belongs to work that was taken over, such as its hold: whoever ends the work must find that. Only
   * then the work is this gateway's. When it rejects it is called again.
   */
  bring: (work: Work) => Promise<unknown> = () => Promise.resolve()

  private constructor(database: Database, now: () => number, lease: number, log: Logger, owner: string) {
    this.#database = database
    this.#now = now
    this.room = new Room()
    this.#arrivals = new Arrivals(log, (work) => this.bring(work))
    this.#rows = new Rows(database, owner, lease)
    this.#results = new Results(database, owner)
    this.#ownership = new Ownership(database, owner, lease, this.room, {
      held: () => [
        ...[...this.#own.values()].map(({ work, tenure: { epoch } }) => ({ ...keyOf(work), epoch })),
        ...this.#arrivals.held
      ],
      lost: (held) => void (this.#has(held) && this.#lose(nameOf(held, held.id))),
      lacking: (held) => this.#putBack(held),
      asked: () => void this.#errands.look(),
      taken: (work, epoch) => this.#arrive(work, epoch)
    })
    this.#errands = new Errands(database, owner, (key) => this.#own.get(nameOf(key, key.id))?.work)
    this.#group = new Group({
      most: 200,
      bytesOf: ({ work }) => work.bytes ?? 1000,
      write: (puts) => this.#write(puts)
    })
  }

  /**
   * Takes part: takes over the work of gateways that are gone, until it is closed. `taken` is told of it, to go on
   * with. `lease`: milliseconds. `log` is told when what belongs to work cannot be brought. `owner`: whose the work is,
   * which no other start may have.
   * @throws DatabaseFault when the work cannot be read
   */
  static async open(
    database: Database,
    now: () => number,
    {
      lease = usualLease,
      log = silentLog,
      owner = randomUUID()
    }: { readonly lease?: number; readonly log?: Logger | undefined; readonly owner?: string | undefined } = {}
  ): Promise<WorkList> {
    const list = new WorkList(database, now, lease, log, owner)
    try {
      await list.#ownership.look()
      return list
    } catch (error) {
      await list.close()
      throw error
    }
  }

  /** Does what other gateways ask of the work of this one; undefined: no more. */
  set serve(serve: Serve | undefined) {
    this.#errands.serve = serve
  }

  errand(work: Work, what: Errand): Promise<Work | undefined> | undefined {
    if (!isOpen(work) || this.#own.has(nameOf(work, work.id))) return undefined
    // What was seen does not go through the database: whoever goes on with the work asks for it.
    return this.#errands.ask(keyOf(work), what === 'saw' ? 'refresh' : what)
  }

  told(): undefined {
    return undefined
  }

  /** Removes errands that are over. Returns whether there may be more. */
  sweepErrands(): Promise<boolean> {
    return this.#errands.sweep()
  }

  /** Forgets what was deleted long ago. Returns whether there may be more. */
  sweepGone(): Promise<boolean> {
    return this.#rows.sweepGone()
  }

  /** Calls `tell` with work whose gateway is gone, which is this one's from then on. Without it none is taken over. */
  set onTaken(tell: ((work: Work) => void) | undefined) {
    this.#ownership.onTaken = tell
  }

  /** Why work that was taken over waits; undefined when none does. */
  get delay(): Delay | undefined {
    return this.#arrivals.delay
  }

  open(): readonly Work[] {
    return [...this.#own.values()].map(({ work }) => work)
  }

  get running(): number {
    return this.#own.size + this.#arrivals.size + this.#ownership.elsewhere
  }

  runningOf(tenant: string): number {
    let own = 0
    for (const { work } of this.#own.values()) if (work.tenant === tenant) own++
    for (const arriving of this.#arrivals.held) if (arriving.tenant === tenant) own++
    return own + this.#ownership.elsewhereOf(tenant)
  }

  current(owner: Owner, id: string): Work | undefined {
    return this.#own.get(nameOf(owner, id))?.work
  }

  at(account: string, upstreamId: string): Work | undefined {
    return this.#places.get(placeOf(account, upstreamId))
  }

  /** @throws GatewayError rejects with `task_under_way` when another gateway has taken it over */
  async put(work: Work, after?: Promise<void>): Promise<void> {
    const name = nameOf(work, work.id)
    if (this.#losses.has(name)) throw takenOver()
    const before = this.#own.get(name)
    const tenure = before?.tenure ?? newTenure()
    const counted = this.room.expect(work.tenant, (work.bytes ?? 0) - (before?.work.bytes ?? 0))
    if (isOpen(work)) this.#begin(work, tenure, before?.shown)
    else this.#end(name)
    const put = { name, work, tenure, refused: false }
    await after?.catch(() => {})
    await this.#group.add(put).catch((cause: unknown) => {
      counted(false)
      // What never began here is not this gateway's to end: if it is there all the same, its lease ends.
      if (!tenure.known && this.#own.get(name)?.work === work) this.#end(name)
      throw unavailable(cause)
    })
    counted(!put.refused)
    if (put.refused) throw takenOver()
    const own = this.#own.get(name)
    if (own?.work === work) this.#own.set(name, { ...own, shown: work })
  }

  note(work: Work): void {
    const name = nameOf(work, work.id)
    if (this.#losses.has(name)) return
    if (isOpen(work)) this.#begin(work, this.#own.get(name)?.tenure ?? newTenure())
    else this.#end(name)
  }

  async find(owner: Owner, id: string): Promise<Work | undefined> {
    const [found] = await this.#read(
      'where tenant = $1 and project = $2 and id = $3 and (expires is null or expires > $4)',
      [owner.tenant, owner.project, plain(id), this.#now()]
    )
    return found && this.#latest(found)
  }

  async list({
    tenant,
    project,
    kind,
    after,
    limit,
    newestFirst,
    of
  }: WorkQuery): Promise<{ page: readonly Work[]; more: boolean }> {
    const [beyond, order] = newestFirst ? ['<', 'desc'] : ['>', 'asc']
    const found = await this.#read(
      `where tenant = $1 and project = $2 and kind = $3 and (expires is null or expires > $4)
         and ($5::text is null or (created, id) ${beyond}
           (select w.created, w.id from sluice.work w where w.tenant = $1 and w.project = $2 and w.id = $5))
         and ($6::text is null or (request_id = $6 and created between $7 and $8))
       order by created ${order}, id ${order} limit $9`,
      [
        tenant,
        project,
        kind,
        this.#now(),
        after === undefined ? null : plain(after),
        of ? plain(of.requestId) : null,
        of?.from ?? 0,
        of?.to ?? 0,
        limit + 1
      ]
    )
    return { page: found.slice(0, limit).map((work) => this.#latest(work)), more: found.length > limit }
  }

  async forget(work: Work): Promise<void> {
    this.#end(nameOf(work, work.id))
    const counted = this.room.expect(work.tenant, -(work.bytes ?? 0))
    try {
      await this.#group.idle()
      await this.#rows.remove(keyOf(work))
      counted(true)
    } catch (cause) {
      counted(false)
      throw unavailable(cause)
    }
  }

  oldest(tenant: string, limit: number): Promise<readonly Work[]> {
    return this.#read('where tenant = $1 and not open and bytes is not null order by created limit $2', [tenant, limit])
  }

  async flushed(): Promise<boolean> {
    await this.#group.idle()
    return !this.#group.failing
  }

  async expired(limit: number): Promise<readonly Work[]> {
    // What is over by one clock alone may not be over.
    return !this.#database.clock.agrees
      ? []
      : this.#read('where expires <= $1 order by expires limit $2', [this.#now(), limit])
  }

  sweep(): Promise<number> {
    return this.#results.sweep()
  }

  /** @throws GatewayError rejects with `task_under_way` when another gateway has taken the work over */
  async keepResult(work: Work, bytes: Buffer): Promise<void> {
    const name = nameOf(work, work.id)
    const tenure = this.#own.get(name)?.tenure ?? newTenure()
    if (!this.#losses.has(name) && (await this.#results.put(keyOf(work), bytes, tenure))) return
    if (tenure.known) this.#lose(name)
    else this.#end(name)
    throw takenOver()
  }

  result(work: Work): Promise<Buffer | undefined> {
    return this.#results.read(keyOf(work))
  }

  /** Gives up open work of this gateway: others take it over at once. */
  async giveUp(work: Work): Promise<void> {
    const own = this.#own.get(nameOf(work, work.id))
    if (!own) return
    this.#end(nameOf(work, work.id))
    await this.#group.idle()
    await this.#ownership.giveUp({ ...keyOf(work), epoch: own.tenure.epoch })
  }

  /** Writes what waits, and gives up what is open: others take it over at once. */
  async close(): Promise<void> {
    await this.#group.idle()
    this.#errands.close()
    await this.#ownership.close()
    this.#arrivals.close()
  }

  /** What this gateway does itself may have gone on since it was written. */
  #latest(work: Work): Work {
    return isOpen(work) ? (this.#own.get(nameOf(work, work.id))?.shown ?? work) : work
  }

  /** Resolves with whether the work is this gateway's, which it may have lost again meanwhile. */
  async #arrive(work: Work, epoch: bigint): Promise<boolean> {
    const name = nameOf(work, work.id)
    const held = { ...keyOf(work), epoch }
    this.#losses.delete(name)
    if (!(await this.#arrivals.arrive(name, work, held))) return false
    this.#begin(work, { epoch, known: true })
    return true
  }

  #begin(work: Work, tenure: Tenure, shown = work): void {
    const name = nameOf(work, work.id)
    this.#leave(this.#own.get(name)?.work)
    this.#own.set(name, { work, tenure, shown })
    if (work.upstreamId !== null) this.#places.set(placeOf(work.account, work.upstreamId), work)
  }

  #end(name: string): void {
    this.#leave(this.#own.get(name)?.work)
    this.#own.delete(name)
    this.#arrivals.lose(name)
  }

  /** Whether this gateway has the work still, as it was when it was held. */
  #has(held: HeldWork): boolean {
    const name = nameOf(held, held.id)
    const tenure = this.#own.get(name)?.tenure
    return tenure ? tenure.known && tenure.epoch === held.epoch : this.#arrivals.has(name)
  }

  /** Another gateway has it, or has ended it: nothing is written of it here any more. */
  #lose(name: string): void {
    this.#end(name)
    this.#losses.add(name)
  }

  /** A server took over that lacks the work. What this gateway is just beginning is written by itself. */
  #putBack(held: HeldWork): void {
    const own = this.#own.get(nameOf(held, held.id))
    // What cannot be put back now is put back at the next renewal.
    if (own && this.#has(held)) this.put(own.work).catch(() => {})
  }

  #leave(work: Work | undefined): void {
    if (work && work.upstreamId !== null) this.#places.delete(placeOf(work.account, work.upstreamId))
  }

  async #read(conditions: string, values: readonly unknown[]): Promise<Work[]> {
    try {
      const { rows } = await this.#database.reads.query<{ json: string }>(
        `select json from sluice.work ${conditions}`,
        values
      )
      return rows.map(({ json }) => JSON.parse(json) as Work)
    } catch (cause) {
      throw unavailable(cause)
    }
  }

  async #write(puts: readonly Put[]): Promise<void> {
    await this.#rows.write(puts)
    for (const { name, tenure, refused } of puts)
      if (refused && tenure.known) this.#lose(name)
      else if (refused) this.#end(name)
  }
}

function takenOver(): GatewayError {
  return new GatewayError('task_under_way', 'Another gateway has taken this over, and goes on with it.')
}

/** The name of work at an upstream. It is unique, because a fingerprint has no line break. */
function placeOf(account: string, upstreamId: string): string {
  return `${account}\n${upstreamId}`
}
