// The store as a worker has it from start to end: at its seat, or from a distance when its gateway has handed over.
import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises'
import { distantHeir, DistantHolds, servicesThere } from '../handover/distant.ts'
import { Faces, servicesOf } from '../handover/faces.ts'
import { keptHolds } from '../handover/messages.ts'
import type { Part } from '../handover/messages.ts'
import type { BackgroundWork } from '../exchange/background/background.ts'
import type { Caller, Served } from '../store/distant/line.ts'
import type { KeptHold } from '../store/embedded/book/book.ts'
import type { KeptLease } from '../store/memory/limits.ts'
import type { Seated } from '../store/shared/desk/seat-store.ts'
import type { Joined, WorkerParts } from './joined.ts'

/**
 * How long the journal may take for what was put before, in milliseconds, twice within the time that a worker has for
 * its hand-over. Requests wait for it.
 */
const patience = 4000

/** What a worker answers when it has handed over. */
export interface LeftByWorker extends Pick<Part, 'holds' | 'running'> {
  readonly leases: readonly KeptLease[]
  /** The names of the sets of limits that it knows. */
  readonly sets: readonly string[]
}

/** The store of one worker. */
export class WorkerCustody implements Joined {
  readonly store: Joined['store']
  readonly limits: Joined['limits']
  readonly secrets: Joined['secrets']
  readonly claims: Joined['claims']
  readonly #seated: Seated
  readonly #faces: Faces
  #distant: DistantHolds | undefined

  constructor(seated: Seated) {
    this.#seated = seated
    this.#faces = new Faces(servicesOf(seated), () => seated.secrets)
    const { store, limits, secrets, claims } = this.#faces
    this.store = { ...store, close: () => seated.store.close() }
    this.limits = limits
    this.secrets = secrets
    this.claims = claims
  }

  begin(background: BackgroundWork): void {
    background.start()
    this.#seated.follow((work) => background.takeUp(work), background)
  }

  /** Nobody else can go on with anything. */
  readonly retire = async (): Promise<void> => {}

  duties({ there, background, engine, shared }: WorkerParts): Served {
    return {
      handOver: async (thread: number) => ({
        ...(await this.leave(there, thread, background, engine.ids)),
        shared: shared.leave()
      }),
      unsettled: () => this.unsettled
    }
  }

  /**
   * Hands over: from this turn of the event loop on, everything goes `there`, where this thread has a deputy. Resolves
   * when the supervisor has all that this worker had put. `thread`: its number there.
   */
  async leave(
    there: Caller,
    thread: number,
    background: Pick<BackgroundWork, 'close'>,
    running: readonly string[]
  ): Promise<LeftByWorker> {
    const { book, limits } = this.#seated
    background.close((work) => there.tell('takeUp', work))
    const holds = keptHolds(book.open)
    this.#distant = new DistantHolds(there, book)
    book.leave(distantHeir(there))
    const leases = limits.leave(thread, (lease, used) => there.tell('release', lease, used))
    this.#faces.use(servicesThere(there, servicesOf(this.#seated), this.#distant))
    await this.#emptied()
    // Names that were left wait for what was put with them, and are told of behind it.
    await turn()
    await this.#emptied()
    return { holds, running, leases, sets: [...limits.names] }
  }

  /** What a journal that fails does not take in time is ended by estimate in the next process. */
  async #emptied(): Promise<void> {
    await Promise.race([this.#seated.emptied(), wait(patience, undefined, { ref: false })])
  }

  /** After {@link leave}: the holds whose end was not acknowledged. */
  get unsettled(): readonly KeptHold[] {
    return [...keptHolds(this.#seated.book.unsettled), ...(this.#distant?.open ?? [])]
  }
}
