// The store of workers in PostgreSQL and Redis: each worker is a node of its own, and the supervisor is another one,
// which makes the changes of operators and does what is done once for a gateway.
import type { StoreSettings } from '../catalogue/settings.ts'
import type { SharedPlace } from '../catalogue/store-place.ts'
import type { BackgroundWork } from '../exchange/background/background.ts'
import type { Membership } from '../handover/membership.ts'
import type { Estate } from '../handover/messages.ts'
import type { Going, Left, Opened } from '../handover/opened.ts'
import type { WorkerNode } from '../store/cluster/store.ts'
import type { Line, Served } from '../store/distant/line.ts'
import type { Documents } from '../store/documents.ts'
import type { BudgetReached, BudgetWatcher } from '../store/ledger.ts'
import type { RequestTap } from '../store/request-tap.ts'
import type { RequestRecord } from '../store/requests.ts'
import type { Store, StoreHealth } from '../store/store.ts'
import type { Logger } from '../telling/log.ts'
import type { Crew } from './crew.ts'
import type { Member } from './member.ts'
import { countedBy, joinedStoreHealth, nothingCounted } from './store-health.ts'
import type { Share, WorkersStore } from './workers-store.ts'

/** How long workers have to follow a change of documents, and to write what operators look for, in milliseconds. */
const [following, writing] = [2000, 1000]
/** How long they have to give up what others may go on with, in milliseconds. */
const withdrawing = 10_000
/** For how long one that has said something may say nothing before it hangs, in milliseconds. */
const silence = 10_000
/** The most keys of slots that are known of one worker. Slots of others end with their lease. */
const mostSlots = 10_000

/** What is known of a worker. */
interface Known {
  readonly node: WorkerNode
  /** The keys of the slots that it may have, by their homes, and how many. */
  readonly slots: Map<string, Set<string>>
  count: number
  /** When it said how its store is, by performance.now(), and what it said. */
  heard: number | undefined
  health: StoreHealth | undefined
  /** Whether it has written all that it had. */
  closed: boolean
}

/** The store of one supervisor. */
export class NodesStore implements WorkersStore, Opened {
  readonly store: Store
  readonly limits: Opened['limits']
  readonly secrets: Opened['secrets']
  readonly claims: Opened['claims']
  readonly #membership: Membership
  readonly #finished: RequestTap
  readonly #known = new Map<Member, Known>()
  /** The nodes of those that are about to start, by their numbers. */
  readonly #given = new Map<number, WorkerNode>()
  /** What those have done that have ended. */
  #ended = nothingCounted
  #watcher: BudgetWatcher | undefined
  #crew: Crew | undefined
  #resume: () => void = () => {}

  /**
   * Joins the nodes of a store, with room for so many workers.
   * @throws Error when it cannot be opened, or has no room for their connections
   */
  static async open(
    settings: StoreSettings & SharedPlace,
    workers: number,
    finished: RequestTap,
    log: Logger
  ): Promise<NodesStore> {
    // Gateways of one machine start without what only shared stores need.
    const { Membership } = await import('../handover/membership.ts')
    return new NodesStore(await Membership.open(settings, log, { workers }), finished)
  }

  private constructor(membership: Membership, finished: RequestTap) {
    const { store, limits, secrets, claims } = membership
    this.#membership = membership
    this.#finished = finished
    this.limits = limits
    this.secrets = secrets
    this.claims = claims
    const { requests } = store
    this.store = {
      ...store,
      documents: this.#followed(store.documents),
      requests: {
        append: (...record) => requests.append(...record),
        list: (...asked) => this.#written(() => requests.list(...asked)),
        find: (...asked) => this.#written(() => requests.find(...asked)),
        totals: (...asked) => this.#written(() => requests.totals(...asked))
      },
      spend: (query) => this.#written(() => store.spend(query)),
      traffic: (query) => this.#written(() => store.traffic(query)),
      flush: () => this.#written(() => store.flush()),
      health: () => this.#health
    }
    finished.onHeard = (isHeard) => this.#crew?.tell('tellRequests', isHeard)
  }

  get opened(): Opened {
    return this
  }

  get watched(): WorkersStore['watched'] {
    return {
      watch: (watcher) => {
        this.#watcher = watcher
        this.store.ledger.watch(watcher)
      }
    }
  }

  attend(crew: Crew): void {
    this.#crew = crew
  }

  give(number: number): Share {
    const node = this.#membership.shared.workerNode(number)
    this.#given.set(number, node)
    return { seat: number, place: { kind: 'node', node, isHeard: this.#finished.isHeard }, transfer: [] }
  }

  served(member: Member): Served {
    const node = this.#given.get(member.number)!
    const known: Known = { node, slots: new Map(), count: 0, heard: undefined, health: undefined, closed: false }
    this.#known.set(member, known)
    return {
      stands: (health: StoreHealth) => {
        known.heard = performance.now()
        known.health = health
      },
      slots: (home: string, key: string) => {
        const keys = known.slots.get(home) ?? new Set()
        if (keys.has(key) || known.count === mostSlots) return
        known.count++
        known.slots.set(home, keys.add(key))
      },
      reached: (reached: BudgetReached) => void this.#watcher?.reached(reached),
      finished: (record: RequestRecord) => this.#finished.tell(record),
      storeClosed: () => void (known.closed = true)
    }
  }

  async bringHome(member: Member): Promise<void> {
    const { node, slots, health, closed } = this.#known.get(member)!
    this.#known.delete(member)
    if (health) this.#ended = countedBy(this.#ended, health)
    if (!closed) await this.#membership.shared.bringHome(node, slots)
  }

  hanging(): readonly number[] {
    const now = performance.now()
    return Array.from(this.#known, ([{ number }, { heard = now }]) => ({ number, heard })).flatMap(
      ({ number, heard }) => (now - heard > silence ? number : [])
    )
  }

  begin(background: BackgroundWork): void {
    this.#membership.begin(background)
  }

  tellConfig(hash: string): void {
    this.#membership.tellConfig(hash)
  }

  succeed(...taken: Parameters<Opened['succeed']>): Promise<void> {
    return this.#membership.succeed(...taken)
  }

  /** Each worker does so itself, when it is asked to leave. */
  retire(...going: Parameters<Opened['retire']>): Promise<void> {
    return this.#membership.retire(...going)
  }

  async leave(line: Line, ...going: Parameters<Opened['retire']>): Promise<Left> {
    this.#resume = await this.#crew!.pause()
    const { answers } = await this.#crew!.ask<Estate['shared']>(withdrawing, 'handOver')
    const left = await this.#membership.leave(line, ...going)
    const [shared] = answers.values()
    return { ...left, ...(shared && { shared }) }
  }

  async reclaim(line: Line, going: Going): Promise<void> {
    await this.#membership.reclaim(line, going)
    this.#crew!.tell('reclaim')
    this.#resume()
  }

  close(): Promise<void> {
    return this.#membership.close()
  }

  get #health(): StoreHealth {
    const told = Array.from(this.#known.values(), ({ health }) => health).flatMap((health) => health ?? [])
    return joinedStoreHealth(this.#membership.store.health(), told, this.#ended)
  }

  /** Documents whose changes workers know when whoever made them is answered, but for those that do not say so. */
  #followed(documents: Documents): Documents {
    return {
      all: (kind) => documents.all(kind),
      find: (kind, id) => documents.find(kind, id),
      change: async (...change) => {
        await documents.change(...change)
        await this.#crew?.ask(following, 'follow')
      },
      note: (changes) => documents.note(changes),
      watch: (tell) => documents.watch(tell),
      audit: (...asked) => documents.audit(...asked)
    }
  }

  /** Asks when workers have written what they had. */
  async #written<T>(ask: () => Promise<T>): Promise<T> {
    await this.#crew?.ask(writing, 'write')
    return ask()
  }
}
