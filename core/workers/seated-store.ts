// The store of workers in a SQLite file: each worker has a seat in memory that all share, and the supervisor the file.
import type { StoreSettings } from '../catalogue/settings.ts'
import type { FilePlace } from '../catalogue/store-place.ts'
import { storeOptionsOf } from '../handover/custody.ts'
import { keptOf } from '../handover/messages.ts'
import type { Estate } from '../handover/messages.ts'
import { whenFree } from '../handover/when-free.ts'
import type { Served } from '../store/distant/line.ts'
import type { KeptHold } from '../store/embedded/book/book.ts'
import type { RequestTap } from '../store/request-tap.ts'
import { openWorkerStore } from '../store/shared/worker-store.ts'
import type { WorkerStore } from '../store/shared/worker-store.ts'
import type { Logger } from '../telling/log.ts'
import type { Crew } from './crew.ts'
import type { Member } from './member.ts'
import { Passage } from './passage.ts'
import { Place } from './place.ts'
import type { Share, WorkersStore } from './workers-store.ts'

/** Of sets of limits and of balances there may be so many at the same time. What is not used takes no memory. */
const [sets, cells] = [2 ** 17, 2 ** 18]

/** What it is opened with. */
export interface SeatedStoreOptions {
  readonly workers: number
  readonly store: StoreSettings & FilePlace
  /** What the process before has left. */
  readonly estate: Estate | undefined
  /** Is told of the requests that workers have finished. */
  readonly finished: RequestTap
  readonly log: Logger
  /** How long workers may take to leave when they are replaced, and what they are told then. */
  readonly renewal: readonly [within: number, ...args: readonly unknown[]]
}

/** The store of one supervisor. */
export class SeatedStore implements WorkersStore {
  readonly opened: Place
  readonly #renewal: SeatedStoreOptions['renewal']
  #passage!: Passage

  /** @throws Error when it cannot be opened */
  static async open(options: SeatedStoreOptions): Promise<SeatedStore> {
    const { workers, store, estate, finished, log, renewal } = options
    const sizes = { seats: workers + 1, sets, cells }
    const of = storeOptionsOf(store, log)
    const open = (kept: readonly KeptHold[]): Promise<WorkerStore> =>
      whenFree(() => openWorkerStore({ ...of, kept, busy: true }, sizes, finished))
    const shared = await (estate ? open(keptOf(estate)) : openWorkerStore(of, sizes, finished))
    return new SeatedStore(new Place(shared, open, estate), renewal)
  }

  private constructor(place: Place, renewal: SeatedStoreOptions['renewal']) {
    this.opened = place
    this.#renewal = renewal
  }

  get watched(): WorkersStore['watched'] {
    return this.opened.store.ledger
  }

  attend(crew: Crew): void {
    this.#passage = new Passage(crew, this.opened, ...this.#renewal)
    this.opened.threads = this.#passage
  }

  give(): Share {
    const place = this.opened.shared.give()
    return { seat: place.seat, place: { kind: 'seat', ...place }, transfer: [place.port] }
  }

  served(member: Member): Served {
    return this.#passage.served(member)
  }

  async bringHome(member: Member): Promise<void> {
    if (member.seat === undefined) await this.#passage.ended(member)
    else await this.opened.shared.leave(member.seat)
  }

  hanging(): readonly number[] {
    return this.opened.shared.hanging()
  }
}
