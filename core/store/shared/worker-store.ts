// Opens the store of a gateway of many workers: the supervisor's own services, and seats for the threads of workers.
import { MessageChannel } from 'node:worker_threads'
import type { MessagePort } from 'node:worker_threads'
import { steadyNow } from '../../watchdog/steady-time.ts'
import { silentLog } from '../../telling/log.ts'
import type { DocumentChange, Documents } from '../documents.ts'
import { SecretBook } from '../embedded/book/secret-book.ts'
import type { Durability } from '../embedded/files/sqlite.ts'
import { recordRow, requestColumns, workColumns } from '../embedded/rows/batch.ts'
import { recordIn } from '../embedded/rows/record-text.ts'
import { unavailable } from '../embedded/writer/unavailable.ts'
import { openStore, usualRouteAge } from '../embedded/store.ts'
import type { OwnStore, StoreOptions } from '../embedded/store.ts'
import type { Lease } from '../limits.ts'
import { MemoryClaims } from '../memory/claims.ts'
import type { KeptClaim } from '../memory/claims.ts'
import type { KeptLimits } from '../memory/limits.ts'
import { RequestTap } from '../request-tap.ts'
import type { Work } from '../works.ts'
import type { ArenaSizes } from './arena/arena.ts'
import { Attendance } from './attendance.ts'
import { sharedNow } from './arena/clock.ts'
import { bringHome } from './departure.ts'
import type { DeskPlace } from './desk/desk.ts'
import { Office } from './office.ts'
import type { Kept } from './records/record-reader.ts'
import { storeAt } from './desk/seat-store.ts'
import type { Seated } from './desk/seat-store.ts'
import type { Attendant } from './desk/seat-works.ts'
import { supervisor } from './arena/seats.ts'
import { SharedWork } from './shared-work.ts'

/** How long a worker may say nothing, and how long it may take to acknowledge a change, in milliseconds. */
const [silence, slowness] = [10_000, 2000]
/** How often sets of limits are forgotten that nobody uses, in milliseconds, and how many are looked at. */
const [sweepEvery, swept] = [1000, 1000]
const jsonAt = workColumns.indexOf('json')

/**
 * What a worker is given with its seat. It is sent to the thread, with `port` in the transfer list, for `joinStore`.
 */
export interface Place extends DeskPlace {
  /** The line to the supervisor, for what is not decided in memory. */
  readonly port: MessagePort
  /** The database, and how durable it is: results of work are files beside it. */
  readonly path: string
  readonly synced: Durability
  /** How long routes are kept, in milliseconds. */
  readonly routeAge: number
}

/** A store that workers share, as the supervisor has it. */
export interface WorkerStore extends Seated {
  /**
   * Gives a seat to a worker that is about to be started. `ring`: bytes of its ring.
   * @throws Error when all seats are taken
   */
  give(ring?: number): Place
  /**
   * Brings home what the worker of a seat has left, whose thread has ended: its claims are given up, its slots and
   * holds end, its detached holds and its open work are the supervisor's. Returns how many holds were ended. Resolves
   * when the seat can be given again.
   */
  leave(seat: number): Promise<number>
  /**
   * The seats whose threads hang: they said nothing for ten seconds, or have not acknowledged a change of documents for
   * two, and do not wait for the lock of another one. Whoever asks ends them, and then {@link WorkerStore.leave leaves}
   * their seats: until then a change is not acknowledged to its admin. Ask several times a second.
   */
  hanging(): readonly number[]
  /** Takes over what the process before had in memory. Returns its leases by their names. No seat was given yet. */
  adopt(kept: { readonly limits: KeptLimits; readonly claims: readonly KeptClaim[] }): Map<string, Lease>
  /** All names that are claimed. */
  readonly claimed: readonly KeptClaim[]
  /** Those that the worker of a seat has claimed. */
  claimsOf(seat: number): readonly string[]
  /** The thread of a seat has ended after this store was handed over: gives up what it had claimed here. */
  dismiss(seat: number): Promise<void>
  /** Has those who watch documents, and the workers, hear of changes that another process has made. */
  followDocuments(changes: readonly DocumentChange[]): void
  /**
   * Hands the store over, when no thread does anything with it any more: closes it, and keeps the lines to the workers,
   * which hear of documents on.
   */
  handOver(): Promise<void>
}

/**
 * Opens a store for workers. `sizes`: how much the shared memory is for, the supervisor's seat included. `finished` is
 * told of the records that workers have written, when they are on disk.
 * @throws Error as {@link openStore} does
 */
export async function openWorkerStore(
  options: StoreOptions,
  sizes: ArenaSizes,
  finished = new RequestTap()
): Promise<WorkerStore> {
  let office: Office | undefined
  const books = await openStore({ ...options, ledger: (parts) => (office = new Office(parts, sizes)) })
  return new SupervisorStore(options, books, office!, finished)
}

class SupervisorStore implements WorkerStore {
  readonly store: Seated['store']
  readonly book: Seated['book']
  readonly limits: Seated['limits']
  readonly secrets: Seated['secrets']
  readonly claims: Seated['claims']
  readonly #office: Office
  readonly #books: OwnStore
  readonly #options: StoreOptions
  readonly #finished: RequestTap
  readonly #attendance: Attendance
  readonly #work: SharedWork
  readonly #names: MemoryClaims
  readonly #seated
  #closed = false
  readonly #sweeping: NodeJS.Timeout
  /** The seats of workers that have gone, as long as not all of what they have left was brought home. */
  readonly #leaving = new Set<number>()
  #takeUp: (work: Work) => void = () => {}

  constructor(options: StoreOptions, books: OwnStore, office: Office, finished: RequestTap) {
    const { now, routeAge = usualRouteAge } = options
    this.#options = options
    this.#finished = finished
    this.#books = books
    this.#office = office
    const lasting = now ?? steadyNow
    this.#work = new SharedWork(books.works, supervisor)
    const documents: Documents = {
      all: (kind) => books.documents.all(kind),
      find: (kind, id) => books.documents.find(kind, id),
      change: (changes, entry) => books.documents.change(changes, entry).finally(() => this.#attendance.heard()),
      note: (changes) => books.documents.note(changes),
      watch: (tell) => books.documents.watch(tell),
      audit: (query) => books.documents.audit(query)
    }
    const [secrets, claims] = [new SecretBook(documents, lasting), new MemoryClaims()]
    this.#names = claims
    const { requests, answers, routes } = books
    const works = this.#work.stored
    this.#attendance = new Attendance({
      services: { documents, answers, routes, works, secrets, claims },
      store: books,
      documents: books.documents,
      work: this.#work,
      serve: (work, what, said) => this.#seated.works.serve(work, what, said),
      tell: (work, from) => this.#seated.works.tell(work, from),
      watcher: () => books.ledger.watcher,
      flush: () => books.flush(),
      flushed: () => works.flushed(),
      older: {
        async ask(question) {
          if (await works.flushed()) return office.older.ask(question)
          throw unavailable('the database lacks what was charged last')
        }
      }
    })
    this.#seated = storeAt(
      office.desk,
      {
        documents,
        requests,
        answers,
        routes,
        works: {
          ...works,
          errand: (work, what, said) => this.#attendance.errand(work, what, said),
          told: (work, from, seat) => this.#attendance.told(work, from, seat)
        },
        secrets,
        claims,
        spend: (query) => books.spend(query),
        traffic: (query) => books.traffic(query),
        flush: () => books.flush(),
        health: () => books.health(),
        close: () => this.#close()
      },
      { routeAge, lasting }
    )
    const { store, book, limits } = this.#seated
    this.store = store
    this.book = book
    this.limits = limits
    this.secrets = secrets
    this.claims = this.#seated.claims
    for (const work of books.works.open()) this.#seated.works.adopt(work)
    this.#work.listen(supervisor, (tally) => this.#seated.works.hear(tally))
    office.reader.onKept = (seat, rows) => this.#follow(seat, rows)
    this.#sweeping = setInterval(() => {
      office.seats.sweep(swept, sharedNow())
      office.forgetting.go()
    }, sweepEvery).unref()
  }

  emptied(): Promise<void> {
    return this.#seated.emptied()
  }

  give(ring?: number): Place {
    const { port1, port2 } = new MessageChannel()
    const place = this.#office.give(this.#leaving, ring)
    this.#attendance.add(place.seat, port1)
    const { durability, routeAge = usualRouteAge } = this.#options
    const synced = durability === 'deferred' ? 'power' : durability
    return { ...place, port: port2, path: this.#books.path, synced, routeAge }
  }

  async leave(seat: number): Promise<number> {
    this.#leaving.add(seat)
    const ended = await this.#bringHome(seat)
    this.#leaving.delete(seat)
    return ended
  }

  async #bringHome(seat: number): Promise<number> {
    const { seats, reader, records, ledger, drafts } = this.#office
    const { requests } = this.#books
    const { log = silentLog } = this.#options
    // First what others wait for: its locks.
    const ended = await bringHome(seat, { seats, reader, records, ledger, drafts, requests, log })
    await this.#attendance.remove(seat)
    for (const work of this.#work.leave(seat)) {
      this.#seated.works.adopt(work)
      this.#takeUp(work)
    }
    return ended
  }

  hanging(): readonly number[] {
    const { seats } = this.#office
    const silent = seats.hanging(performance.now(), silence).filter((seat) => this.#attendance.hasJoined(seat))
    const late = this.#attendance.late(slowness).filter((seat) => !seats.waits(seat))
    return [...new Set([...silent, ...late])]
  }

  follow(takeUp: (work: Work) => void, attendant: Attendant): void {
    this.#takeUp = takeUp
    this.#seated.works.follow(attendant)
  }

  /** What a thread has written can be found from now on. */
  #follow(seat: number, { answers, routes, works, records }: Kept): void {
    if (answers.length > 0) this.#books.answers.follow(answers)
    if (routes.length > 0) this.#books.routes.follow(routes)
    for (let at = jsonAt; at < works.length; at += workColumns.length)
      this.#work.follow(seat, JSON.parse(works[at] as string) as Work)
    // Those of this thread are heard as it makes them.
    if (seat === supervisor || !this.#finished.isHeard) return
    for (let at = 0; at < records.length; at += requestColumns.length)
      this.#finished.tell(recordIn(recordRow(records, at)))
  }

  adopt({
    limits,
    claims
  }: {
    readonly limits: KeptLimits
    readonly claims: readonly KeptClaim[]
  }): Map<string, Lease> {
    for (const claim of claims) this.#names.take(...claim)
    return this.limits.adopt(limits)
  }

  get claimed(): readonly KeptClaim[] {
    return this.#names.all
  }

  claimsOf(seat: number): readonly string[] {
    return this.#attendance.claimsOf(seat)
  }

  dismiss(seat: number): Promise<void> {
    return this.#attendance.remove(seat)
  }

  followDocuments(changes: readonly DocumentChange[]): void {
    this.#books.documents.follow(changes)
  }

  async handOver(): Promise<void> {
    clearInterval(this.#sweeping)
    this.#closed = true
    await this.#office.drafts.flushed()
    await this.#books.close()
  }

  async #close(): Promise<void> {
    this.#attendance.close()
    if (this.#closed) return
    clearInterval(this.#sweeping)
    await this.#books.close()
  }
}
