// The work of this store: open work is in memory, all of it is saved by the writer, and ended work is read from the
// database on demand.
import { workValues } from '../rows/batch.ts'
import { nameOf, OpenWork } from './open-work.ts'
import type { Reader } from '../reader/reader.ts'
import { resultFile } from '../files/results.ts'
import type { Results } from '../files/results.ts'
import type { Room } from './room.ts'
import type { Row } from '../files/sqlite.ts'
import { OwnPlaces } from '../../work-places.ts'
import { isOpen } from '../../works.ts'
import type { Work, WorkQuery, Works } from '../../works.ts'
import type { Writer } from '../writer/writer.ts'
import type { Owner } from '../../owner.ts'

/** How many names of work are read at a time. */
const namesAtOnce = 1000
/** How much ended work stays in memory, because it is asked for most. */
const mostRecent = 1000

/** The work of one store. */
export class WorkList implements Works {
  readonly #writer: Writer
  readonly #reader: Reader
  readonly #results: Results
  /** The files of results that were there at the start, until {@link WorkList.sweep} has checked them. */
  #found: readonly string[]
  readonly room: Room
  readonly places = new OwnPlaces(this)
  readonly #now: () => number
  readonly #open = new OpenWork()
  /** Recently ended work, the latest at the end. */
  readonly #recent = new Map<string, Work>()
  /** Whether work was removed from memory whose latest state may not be in the database yet. */
  #behind = false
  #caught: Promise<unknown> = Promise.resolve()

  /** `found` are the files of results at the start. `rows` are those of the table work that have not ended. */
  constructor(
    writer: Writer,
    reader: Reader,
    results: Results,
    found: readonly string[],
    rows: readonly Row[],
    room: Room,
    now: () => number
  ) {
    this.#writer = writer
    this.#reader = reader
    this.#results = results
    this.#found = found
    this.room = room
    this.#now = now
    for (const { json } of rows) this.#open.put(JSON.parse(json as string) as Work)
  }

  open(): readonly Work[] {
    return this.#open.all
  }

  get running(): number {
    return this.#open.size
  }

  runningOf(tenant: string): number {
    return this.#open.of(tenant)
  }

  current(owner: Owner, id: string): Work | undefined {
    return this.#open.get(owner, id)
  }

  at(account: string, upstreamId: string): Work | undefined {
    return this.#open.at(account, upstreamId)
  }

  /** All work is of this process. */
  errand(): undefined {
    return undefined
  }

  told(): undefined {
    return undefined
  }

  async put(work: Work): Promise<void> {
    const saved = this.#open.saving(work)
    this.note(work)
    const json = JSON.stringify(work)
    const { draft } = this.#writer
    draft.works.push(...workValues(work, json))
    draft.count(json.length)
    this.#writer.wake()
    try {
      await draft.durable
    } finally {
      // This also runs when the disk fails for long: the work will be saved in the end, and is shown until then as if
      // it were.
      saved()
    }
  }

  note(work: Work): void {
    const before = this.#open.put(work)
    this.room.add(work.tenant, (work.bytes ?? 0) - (before?.bytes ?? 0))
    if (!isOpen(work)) this.#remember(nameOf(work, work.id), work)
  }

  async find(owner: Owner, id: string): Promise<Work | undefined> {
    const name = nameOf(owner, id)
    const known = this.#open.shown(owner, id) ?? this.#recent.get(name)
    // Expired work is looked up in the database too, so that the time of an answer does not tell it from work that
    // never existed.
    let work = known && !this.#isOver(known) ? known : undefined
    if (!work) {
      await this.#caughtUp()
      const { tenant, project } = owner
      const {
        rows: [json]
      } = await this.#reader.ask({ kind: 'work', tenant, project, id })
      if (json === undefined) return undefined
      work = JSON.parse(json) as Work
      if (this.#isOver(work)) return undefined
      if (!isOpen(work)) this.#remember(name, work)
    }
    return work
  }

  #isOver({ expires }: Work): boolean {
    return expires !== null && expires <= this.#now()
  }

  async list(query: WorkQuery): Promise<{ page: readonly Work[]; more: boolean }> {
    await this.#writer.flushed()
    const { rows } = await this.#reader.ask({
      kind: 'works',
      query: { ...query, limit: query.limit + 1 },
      now: this.#now()
    })
    const all = rows.map((json) => {
      const work = JSON.parse(json) as Work
      return this.#open.shown(work, work.id) ?? work
    })
    return { page: all.slice(0, query.limit), more: all.length > query.limit }
  }

  async forget(work: Work): Promise<void> {
    const name = nameOf(work, work.id)
    this.#open.remove(work)
    this.#recent.delete(name)
    this.room.leave(name, work.tenant, work.bytes ?? 0)
    this.#behind = true
    const { draft } = this.#writer
    draft.works.push(...workValues(work, null))
    draft.count()
    this.#writer.wake()
    await draft.durable
    await this.#results.drop(name)
  }

  async oldest(tenant: string, limit: number): Promise<readonly Work[]> {
    await this.#writer.flushed()
    const { rows } = await this.#reader.ask({ kind: 'oldest', tenant, limit })
    return rows.map((json) => JSON.parse(json) as Work)
  }

  flushed(): Promise<boolean> {
    return this.#writer.flushed()
  }

  async expired(limit: number): Promise<readonly Work[]> {
    const { rows } = await this.#reader.ask({ kind: 'expired', before: this.#now(), limit })
    return rows.map((json) => JSON.parse(json) as Work)
  }

  async sweep(): Promise<number> {
    const left = new Set(this.#found)
    this.#found = []
    for (let after = '', full = left.size > 0; full;) {
      const { rows } = await this.#reader.ask({ kind: 'names', after, limit: namesAtOnce })
      for (const name of rows) left.delete(resultFile(name))
      after = rows.at(-1) ?? ''
      full = rows.length === namesAtOnce
    }
    for (const file of left) await this.#results.remove(file)
    return left.size
  }

  keepResult(work: Work, bytes: Buffer): Promise<void> {
    return this.#results.put(nameOf(work, work.id), bytes)
  }

  result(work: Work): Promise<Buffer | undefined> {
    return this.#results.read(nameOf(work, work.id))
  }

  #remember(name: string, work: Work): void {
    this.#recent.delete(name)
    this.#recent.set(name, work)
    if (this.#recent.size <= mostRecent) return
    this.#recent.delete(this.#recent.keys().next().value!)
    this.#behind = true
  }

  /**
   * Resolves when the database has the latest state of all work that is not in memory. It flushes the writer only when
   * needed, so requests for unknown work cause no writes.
   */
  #caughtUp(): Promise<unknown> {
    if (!this.#behind) return this.#caught
    this.#behind = false
    this.#caught = this.#writer.flushed().then((done) => {
      if (!done) this.#behind = true
    })
    return this.#caught
  }
}
