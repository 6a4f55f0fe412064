// Whose open work is whose: which thread goes on with it, and what the others hear of it.
import type { WorkList } from '../embedded/book/work-list.ts'
import { nameOf } from '../embedded/book/open-work.ts'
import { isOpen } from '../works.ts'
import type { Work } from '../works.ts'
import type { StoredWork, Tally } from './desk/seat-works.ts'

/** How long changes are gathered before others hear of them, in milliseconds. */
const gathering = 20

/** A thread that hears of the work of others. */
interface Listener {
  readonly hear: (tally: Tally) => void
  news: Tally
}

/** The open work of all seats, as the supervisor knows it. */
export class SharedWork {
  readonly #works: WorkList
  /** The seat that goes on with it, by name. What is not among these is the supervisor's. */
  readonly #owners = new Map<string, { readonly seat: number; work: Work }>()
  readonly #listeners = new Map<number, Listener>()
  readonly #supervisor: number
  #telling: NodeJS.Timeout | undefined

  /** `works`: all that is stored. `supervisor`: the seat whose work is that of earlier starts. */
  constructor(works: WorkList, supervisor: number) {
    this.#works = works
    this.#supervisor = supervisor
  }

  /** Has a seat hear of the work of others from now on, beginning with what there is. */
  listen(seat: number, hear: (tally: Tally) => void): void {
    const now = noNews()
    for (const work of this.#works.open()) if (this.ownerOf(work) !== seat) add(now.open, work.tenant, 1)
    for (const [tenant, bytes] of this.#works.room.tenants) add(now.bytes, tenant, bytes)
    hear(now)
    this.#listeners.set(seat, { hear, news: noNews() })
  }

  /** The seat that goes on with work. */
  ownerOf(work: Work): number {
    return this.#owners.get(nameOf(work, work.id))?.seat ?? this.#supervisor
  }

  /** Takes over a state of work of a seat that is on disk. */
  follow(seat: number, work: Work): void {
    const before = this.#works.current(work, work.id)
    this.#works.note(work)
    const name = nameOf(work, work.id)
    if (isOpen(work) && seat !== this.#supervisor) this.#owners.set(name, { seat, work })
    else this.#owners.delete(name)
    this.#tell(seat, work.tenant, Number(isOpen(work)) - Number(before !== undefined), bytesOf(work) - bytesOf(before))
  }

  /** What is stored of all work. */
  get stored(): Omit<StoredWork, 'errand' | 'told'> {
    const works = this.#works
    return {
      places: works.places,
      find: (owner, id) => works.find(owner, id),
      list: (query) => works.list(query),
      oldest: (tenant, limit) => works.oldest(tenant, limit),
      forget: (work) => this.#forget(work),
      flushed: () => works.flushed(),
      expired: (limit) => works.expired(limit),
      sweep: () => works.sweep(),
      keepResult: (work, bytes) => works.keepResult(work, bytes),
      result: (work) => works.result(work)
    }
  }

  async #forget(work: Work): Promise<void> {
    const [open, taken] = [this.#works.current(work, work.id), this.#works.room.of(work.tenant)]
    const owner = this.ownerOf(work)
    const forgotten = this.#works.forget(work)
    this.#owners.delete(nameOf(work, work.id))
    if (open) this.#tell(owner, work.tenant, -1, 0)
    this.#tell(undefined, work.tenant, 0, this.#works.room.of(work.tenant) - taken)
    await forgotten
  }

  /** A thread has gone: its open work is the supervisor's, who hears no more of it. */
  leave(seat: number): readonly Work[] {
    this.#listeners.delete(seat)
    const left: Work[] = []
    for (const [name, { seat: owner, work }] of this.#owners)
      if (owner === seat) {
        this.#owners.delete(name)
        left.push(work)
      }
    const less = noNews()
    for (const { tenant } of left) add(less.open, tenant, -1)
    this.#flush()
    this.#listeners.get(this.#supervisor)?.hear(less)
    return left
  }

  close(): void {
    clearTimeout(this.#telling)
  }

  /** Tells all but one seat. */
  #tell(seat: number | undefined, tenant: string, open: number, bytes: number): void {
    if (open === 0 && bytes === 0) return
    for (const [other, { news }] of this.#listeners) {
      if (other === seat) continue
      if (open !== 0) add(news.open, tenant, open)
      if (bytes !== 0) add(news.bytes, tenant, bytes)
    }
    this.#telling ??= setTimeout(() => this.#flush(), gathering).unref()
  }

  #flush(): void {
    clearTimeout(this.#telling)
    this.#telling = undefined
    for (const listener of this.#listeners.values()) {
      const { news } = listener
      if (news.open.size === 0 && news.bytes.size === 0) continue
      listener.news = noNews()
      listener.hear(news)
    }
  }
}

function noNews(): Tally {
  return { open: new Map(), bytes: new Map() }
}

function add(to: Map<string, number>, tenant: string, more: number): void {
  const sum = (to.get(tenant) ?? 0) + more
  if (sum === 0) to.delete(tenant)
  else to.set(tenant, sum)
}

function bytesOf(work: Work | undefined): number {
  return work?.bytes ?? 0
}
