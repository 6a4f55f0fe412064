// The membership of a worker in a store that gateways share, as its thread has it.
import type { Scope } from '../catalogue/caller.ts'
import type { StoreSettings } from '../catalogue/settings.ts'
import type { SharedPlace } from '../catalogue/store-place.ts'
import type { BackgroundWork } from '../exchange/background/background.ts'
import { Membership } from '../handover/membership.ts'
import type { Opened } from '../handover/opened.ts'
import { toldOf } from '../program/alerts.ts'
import type { Caller, Served } from '../store/distant/line.ts'
import { RequestTap } from '../store/request-tap.ts'
import type { Logger } from '../telling/log.ts'
import type { Joined, WorkerParts } from './joined.ts'
import type { NodeOrder } from './order.ts'

/** How often the supervisor hears how the store is, in milliseconds. A worker that says nothing for long hangs. */
const telling = 1000

/** The membership of one worker. */
export class WorkerMembership implements Joined {
  readonly store: Joined['store']
  readonly limits: Joined['limits']
  readonly secrets: Joined['secrets']
  readonly claims: Joined['claims']
  readonly finished = new RequestTap()
  readonly #membership: Membership
  readonly #line: Caller
  #told: (() => void) | undefined

  /** Joins as the node that the supervisor gives. */
  static async join(
    { node, isHeard }: NodeOrder,
    settings: StoreSettings & SharedPlace,
    log: Logger,
    line: Caller
  ): Promise<WorkerMembership> {
    const onSlots = (home: string, key: string): void => line.tell('slots', home, key)
    const joined = new WorkerMembership(await Membership.open(settings, log, { worker: node, onSlots }), line)
    joined.#tellRequests(isHeard)
    return joined
  }

  private constructor(membership: Membership, line: Caller) {
    const { store, limits, secrets, claims } = membership
    this.#membership = membership
    this.#line = line
    this.limits = limits
    this.secrets = secrets
    this.claims = claims
    const tell = (): void => line.tell('stands', store.health())
    const timer = setInterval(tell, telling)
    tell()
    this.store = {
      ...store,
      async close() {
        clearInterval(timer)
        await store.close()
        line.tell('storeClosed')
      }
    }
  }

  begin(background: BackgroundWork, scope: (id: string) => Scope | undefined): void {
    const { documents, ledger } = this.store
    ledger.watch({
      told: ({ scope, per, window }) => toldOf(documents, scope, per, window),
      scope,
      reached: (reached) => {
        this.#line.tell('reached', reached)
        return true
      }
    })
    this.#membership.begin(background)
  }

  retire(...going: Parameters<Opened['retire']>): Promise<void> {
    return this.#membership.retire(...going)
  }

  duties({ background, engine, shared }: WorkerParts): Served {
    return {
      follow: () => this.#membership.shared.documents.follow(),
      write: () => this.store.flush(),
      tellRequests: (isHeard: boolean) => this.#tellRequests(isHeard),
      handOver: async () => {
        await this.#membership.withdraw(background, engine.ids)
        return shared.leave()
      },
      reclaim: () => this.#membership.begin(background)
    }
  }

  /** Tells the supervisor of requests that end, while somebody watches. */
  #tellRequests(isHeard: boolean): void {
    this.#told?.()
    this.#told = isHeard ? this.finished.listen((record) => this.#line.tell('finished', record)) : undefined
  }
}
