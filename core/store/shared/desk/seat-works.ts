// The work as one thread has it: what it has begun goes on in it, and of the rest it knows how much there is.
import { workValues } from '../../embedded/rows/batch.ts'
import { OpenWork } from '../../embedded/book/open-work.ts'
import { Room } from '../../embedded/book/room.ts'
import type { Owner } from '../../owner.ts'
import { isOpen } from '../../works.ts'
import type { Errand, Told, Work, WorkPlaces, WorkQuery, Works } from '../../works.ts'
import type { RecordWriter } from '../records/record-writer.ts'

/** What is stored of all work, and whoever goes on with work of other threads. */
export type StoredWork = Pick<
  Works,
  | 'find'
  | 'list'
  | 'forget'
  | 'oldest'
  | 'flushed'
  | 'expired'
  | 'sweep'
  | 'keepResult'
  | 'result'
  | 'errand'
  | 'told'
  | 'places'
>

/** How much open work there is more, and how many bytes of results, by tenant. Less is negative. */
export interface Tally {
  readonly open: Map<string, number>
  readonly bytes: Map<string, number>
}

/** Does for other threads what they ask of the work of this one. */
export interface Attendant {
  /** Resolves with the work as it is then. */
  serve(work: Work, what: Errand, said?: unknown): Promise<Work>
  /** What is answered for it here, from its piece `from` on; undefined when nothing is. */
  tell(work: Work, from: number): Promise<Told | undefined>
}

/** The work of one seat. */
export class SeatWorks implements Works {
  readonly room = new Room([])
  /** Those of all threads. */
  readonly places: WorkPlaces
  readonly #drafts: RecordWriter
  readonly #stored: StoredWork
  readonly #now: () => number
  readonly #own = new OpenWork()
  /** How much open work other threads have, by tenant. */
  readonly #elsewhere = new Map<string, number>()
  #allElsewhere = 0
  /** The requests whose work nobody else counts, as it is not on disk yet, and those of them that left their places. */
  readonly #unkept = new Set<string>()
  readonly #leaving = new Set<string>()
  /** Does what others ask of what is open here. */
  #attendant: Attendant | undefined

  constructor(drafts: RecordWriter, stored: StoredWork, now: () => number) {
    this.#drafts = drafts
    this.#stored = stored
    this.#now = now
    const { places } = stored
    this.places = {
      take: (id, tenant, bounds) => places.take(id, tenant, bounds),
      leave: (id) => {
        if (this.#unkept.has(id)) this.#leaving.add(id)
        else places.leave(id)
      }
    }
  }

  open(): readonly Work[] {
    return this.#own.all
  }

  get running(): number {
    return this.#own.size + this.#allElsewhere
  }

  runningOf(tenant: string): number {
    return this.#own.of(tenant) + (this.#elsewhere.get(tenant) ?? 0)
  }

  current(owner: Owner, id: string): Work | undefined {
    return this.#own.get(owner, id)
  }

  at(account: string, upstreamId: string): Work | undefined {
    return this.#own.at(account, upstreamId)
  }

  errand(work: Work, what: Errand, said?: unknown): Promise<Work | undefined> | undefined {
    return isOpen(work) && !this.current(work, work.id) ? this.#stored.errand(work, what, said) : undefined
  }

  told(work: Work, from: number, seat?: number): Promise<Told | undefined> | undefined {
    return isOpen(work) && !this.current(work, work.id) ? this.#stored.told(work, from, seat) : undefined
  }

  async put(work: Work): Promise<void> {
    const saved = this.#own.saving(work)
    this.note(work)
    const json = JSON.stringify(work)
    const { draft } = this.#drafts
    draft.works.push(...workValues(work, json))
    draft.count(json.length)
    this.#drafts.wake()
    void draft.kept().then(() => this.#kept(work))
    try {
      await draft.durable
    } finally {
      saved()
    }
  }

  note(work: Work): void {
    const before = this.#own.put(work)
    if (!before && isOpen(work)) this.#unkept.add(work.requestId)
    this.room.add(work.tenant, (work.bytes ?? 0) - (before?.bytes ?? 0))
  }

  follow(attendant: Attendant): void {
    this.#attendant = attendant
  }

  /** Does what another thread asks; undefined when the work is not open here any more. */
  serve(work: Work, what: Errand, said?: unknown): Promise<Work> | undefined {
    const own = this.current(work, work.id)
    return own && this.#attendant?.serve(own, what, said)
  }

  /** What is answered here for work, which may have ended meanwhile. */
  tell(work: Work, from: number): Promise<Told | undefined> | undefined {
    return this.#attendant?.tell(work, from)
  }

  /** Goes on with work of a thread that has gone. Its result has been counted. */
  adopt(work: Work): void {
    this.#own.put(work)
  }

  /** Hears of what has become more or less elsewhere. */
  hear({ open, bytes }: Tally): void {
    for (const [tenant, more] of open) {
      const count = (this.#elsewhere.get(tenant) ?? 0) + more
      if (count === 0) this.#elsewhere.delete(tenant)
      else this.#elsewhere.set(tenant, count)
      this.#allElsewhere += more
    }
    for (const [tenant, more] of bytes) this.room.add(tenant, more)
  }

  async find(owner: Owner, id: string): Promise<Work | undefined> {
    const own = this.#own.shown(owner, id)
    return own && (own.expires === null || own.expires > this.#now()) ? own : this.#stored.find(owner, id)
  }

  async list(query: WorkQuery): Promise<{ page: readonly Work[]; more: boolean }> {
    await this.#drafts.flushed()
    const { page, more } = await this.#stored.list(query)
    return { page: page.map((work) => this.#own.shown(work, work.id) ?? work), more }
  }

  async forget(work: Work): Promise<void> {
    this.#own.remove(work)
    this.#kept(work)
    // Behind the record of this thread that has it.
    await this.#drafts.kept()
    await this.#stored.forget(work)
  }

  async oldest(tenant: string, limit: number): Promise<readonly Work[]> {
    await this.#drafts.flushed()
    return this.#stored.oldest(tenant, limit)
  }

  async flushed(): Promise<boolean> {
    return (await this.#drafts.flushed()) && this.#stored.flushed()
  }

  expired(limit: number): Promise<readonly Work[]> {
    return this.#stored.expired(limit)
  }

  sweep(): Promise<number> {
    return this.#stored.sweep()
  }

  keepResult(work: Work, bytes: Buffer): Promise<void> {
    return this.#stored.keepResult(work, bytes)
  }

  result(work: Work): Promise<Buffer | undefined> {
    return this.#stored.result(work)
  }

  #kept({ requestId }: Work): void {
    this.#unkept.delete(requestId)
    if (this.#leaving.delete(requestId)) this.#stored.places.leave(requestId)
  }
}
