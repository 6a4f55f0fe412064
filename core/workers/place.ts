// The store that the workers of a process share, as its supervisor has it from start to end.
import type { BackgroundWork } from '../exchange/background/background.ts'
import type { Server } from '../clients/server.ts'
import { Deputies } from '../handover/deputies.ts'
import { asThread, distantHeir, DistantHolds, servicesThere } from '../handover/distant.ts'
import { Faces, servicesOf } from '../handover/faces.ts'
import { keptHolds, keptOf, mainThread } from '../handover/messages.ts'
import type { Estate, Part } from '../handover/messages.ts'
import type { Going, Left, Opened } from '../handover/opened.ts'
import type { Predecessor } from '../handover/predecessor.ts'
import type { Caller, Line } from '../store/distant/line.ts'
import type { KeptHold } from '../store/embedded/book/book.ts'
import type { Lease } from '../store/limits.ts'
import type { WorkerStore } from '../store/shared/worker-store.ts'
import type { LeftByWorker } from './worker-custody.ts'

/** What a worker has left, and the thread that it is for the next process. */
export interface LeftByThread extends LeftByWorker {
  readonly thread: number
  readonly claims: readonly string[]
  readonly shared: Estate['shared']
}

/** The workers, as their store hands over. */
export interface Threads {
  /**
   * Has all workers hand over to the next process by the line; who cannot is ended and brought home. Nobody starts from
   * then on. `released` is told of leases that they release.
   */
  leave(line: Line, released: (name: string, used: number | undefined) => void): Promise<readonly LeftByThread[]>
  /** The holds that they go on with, by their threads. Who has ended is not among them. */
  unsettled(): Promise<ReadonlyMap<number, readonly KeptHold[]>>
  /** Whether the worker that has handed over as this thread has not ended. */
  goesOn(thread: number): boolean
  /** The store was taken back: puts others in the place of those that had handed over. */
  renew(): void
}

/** What was there before it was handed over. */
interface Before {
  readonly shared: WorkerStore
  readonly distant: DistantHolds
  readonly left: Left
  /** The leases that were released since, with what was used. */
  readonly released: ReadonlyMap<string, number | undefined>
}

/** The store of one process with workers. */
export class Place implements Opened {
  readonly store: Opened['store']
  readonly limits: Opened['limits']
  readonly secrets: Opened['secrets']
  readonly claims: Opened['claims']
  /** Set before the workers start. */
  threads!: Threads
  readonly #faces: Faces
  readonly #reopen: (kept: readonly KeptHold[]) => Promise<WorkerStore>
  /** What the process before has left, and its leases by their names. */
  readonly #estate: { readonly parts: readonly Part[]; readonly leases: ReadonlyMap<string, Lease> } | undefined
  #shared: WorkerStore
  #before: Before | undefined
  /** The next process, as this one calls it. */
  #there: Caller | undefined

  /** `reopen` opens the store again, if the next process fails. `estate`: what the process before has left. */
  constructor(
    shared: WorkerStore,
    reopen: (kept: readonly KeptHold[]) => Promise<WorkerStore>,
    estate: Estate | undefined
  ) {
    this.#shared = shared
    this.#reopen = reopen
    this.#estate = estate && { parts: estate.parts, leases: shared.adopt(estate) }
    this.#faces = new Faces(servicesOf(shared), () => shared.secrets)
    const { store, limits, secrets, claims } = this.#faces
    this.store = { ...store, close: () => this.close() }
    this.limits = limits
    this.secrets = secrets
    this.claims = claims
  }

  /** The store that workers take seats in. */
  get shared(): WorkerStore {
    return this.#shared
  }

  begin(background: BackgroundWork): void {
    background.start(this.#estate?.parts.flatMap(({ running }) => running))
    this.#follow(background)
  }

  /** Nobody else has the store. */
  tellConfig(): void {}

  /** Nobody else can go on with anything. */
  async retire(): Promise<void> {}

  async succeed(predecessor: Predecessor, going: Going, server: Pick<Server, 'takeFrom'>): Promise<void> {
    const { parts, leases } = this.#estate!
    await predecessor.serve(server, this.#deputies(parts, leases, going), this.store.documents)
  }

  async leave(line: Line, background: Pick<BackgroundWork, 'close'>, running: readonly string[]): Promise<Left> {
    const released = new Map<string, number | undefined>()
    const threads = await this.threads.leave(line, (name, used) => released.set(name, used))
    // From here to the end of the turn nobody does anything with the store any more.
    const shared = this.#shared
    const there = asThread(line, mainThread)
    background.close((work) => there.tell('takeUp', work))
    const holds = keptHolds(shared.book.open)
    const distant = new DistantHolds(there, shared.book)
    shared.book.leave(distantHeir(there))
    const own = shared.limits.leave(mainThread, (lease, used) => {
      released.set(lease, used)
      there.tell('release', lease, used)
    })
    const sets = shared.limits.kept(new Set([...shared.limits.names, ...threads.flatMap(({ sets }) => sets)]))
    this.#faces.use(servicesThere(there, servicesOf(shared), distant))
    line.serve({ documents: (changes) => shared.followDocuments(changes) } satisfies {
      documents: WorkerStore['followDocuments']
    })
    this.#there = there
    const of = new Set(threads.flatMap(({ claims }) => claims))
    const claims = shared.claimed
    const main: Part = {
      thread: mainThread,
      holds,
      running,
      leases: own.map(({ id }) => id),
      claims: claims.flatMap(([name]) => (of.has(name) ? [] : name))
    }
    const parts = threads.map(({ thread, holds, running, leases, claims }) => ({
      thread,
      holds,
      running,
      leases: leases.map(({ id }) => id),
      claims
    }))
    const limits = { sets, leases: [...own, ...threads.flatMap(({ leases }) => leases)] }
    const left: Left = { parts: [main, ...parts], limits, claims, ...(threads[0] && { shared: threads[0].shared }) }
    this.#before = { shared, distant, left, released }
    await shared.handOver()
    return left
  }

  async reclaim(line: Line, going: Going): Promise<void> {
    const { shared: before, distant, left, released } = this.#before!
    const unsettled = await this.threads.unsettled()
    const own = [...keptHolds(before.book.unsettled), ...distant.open]
    const parts = left.parts.map((part) => {
      const holds = part.thread === mainThread ? own : unsettled.get(part.thread)
      // Of one that has ended the store ends the holds, and its deputy gives back the rest.
      return holds ? { ...part, holds } : { ...part, holds: [], running: [] }
    })
    const shared = await this.#reopen(keptOf({ parts }))
    this.#shared = shared
    const leases = shared.adopt({ limits: left.limits, claims: before.claimed })
    for (const [name, used] of released) {
      leases.get(name)?.release(used)
      leases.delete(name)
    }
    this.#faces.use(servicesOf(shared))
    // Those who watch have asked the first store for it, and so have workers that had handed over.
    shared.store.documents.watch((changes) => before.followDocuments(changes))
    if (before.book.watcher) shared.book.watch(before.book.watcher)
    const deputies = this.#deputies(parts, leases, going)
    going.background.start(parts.flatMap(({ running }) => running))
    this.#follow(going.background)
    line.divert(deputies.served, (...batch) => deputies.again(...batch))
    // Their ends were told to a process that was gone.
    for (const { thread } of parts) if (thread !== mainThread && !this.threads.goesOn(thread)) deputies.gone(thread)
    this.threads.renew()
  }

  async close(): Promise<void> {
    await this.#shared.store.close()
    // Workers that had handed over have left by now.
    if (this.#before && this.#before.shared !== this.#shared) await this.#before.shared.store.close()
  }

  #follow(background: BackgroundWork): void {
    this.#shared.follow((work) => background.takeUp(work), background)
  }

  #deputies(parts: readonly Part[], leases: ReadonlyMap<string, Lease>, going: Going): Deputies {
    const passOn = (names: readonly string[]): void => this.#there!.tell('abandon', names)
    return new Deputies(parts, leases, { ...going, store: this.store, passOn }, this.#shared.book)
  }
}
