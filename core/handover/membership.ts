// The membership of a process in a store that many gateways share. The process that takes its place is another member,
// so there is nothing to hand over: each ends what it has begun.
import type { SharedPlace } from '../catalogue/store-place.ts'
import type { StoreSettings } from '../catalogue/settings.ts'
import type { BackgroundWork } from '../exchange/background/background.ts'
import type { Server } from '../clients/server.ts'
import type { Claims } from '../store/claims.ts'
import { openSharedStore } from '../store/cluster/store.ts'
import type { SharedStore, SharedStoreOptions } from '../store/cluster/store.ts'
import type { Limits } from '../store/limits.ts'
import type { Secrets } from '../store/secrets.ts'
import type { Store } from '../store/store.ts'
import type { Logger } from '../telling/log.ts'
import type { Line } from '../store/distant/line.ts'
import type { Going, Left, Opened } from './opened.ts'
import type { Predecessor } from './predecessor.ts'

/** The membership of one process, or of one of its workers. */
export class Membership implements Opened {
  readonly store: Store
  readonly limits: Limits
  readonly secrets: Secrets
  readonly claims: Claims
  readonly shared: SharedStore

  private constructor(shared: SharedStore) {
    this.shared = shared
    this.store = shared
    this.limits = shared.limits
    this.secrets = shared.secrets
    this.claims = shared.claims
  }

  /** Joins; `node`: what it is beside other threads of its process. */
  static async open(
    settings: StoreSettings & SharedPlace,
    log: Logger,
    node: Pick<SharedStoreOptions, 'workers' | 'worker' | 'onSlots'> = {}
  ): Promise<Membership> {
    const { durability, requests, answers, routes } = settings
    const bounds = { routeAge: routes.age, answers, requests }
    // Deferring is refused where the file is read.
    const synced = durability === 'deferred' ? 'power' : durability
    return new Membership(await openSharedStore({ ...node, place: settings, durability: synced, bounds, log }))
  }

  begin(background: BackgroundWork): void {
    background.start()
    this.shared.follow(
      (work) => background.takeUp(work),
      (work, what) => background.serve(work, what)
    )
  }

  tellConfig(hash: string): void {
    this.shared.tellConfig(hash)
  }

  succeed(predecessor: Predecessor, _going: Going, server: Pick<Server, 'takeFrom'>): Promise<void> {
    return predecessor.serve(server)
  }

  async retire(background: Pick<BackgroundWork, 'close'>, running: readonly string[]): Promise<void> {
    const { works } = this.shared
    // What an exchange still follows is given up when that has left it.
    background.close((work) => void works.giveUp(work))
    const going = new Set(running)
    await Promise.all(works.open().flatMap((work) => (going.has(work.requestId) ? [] : [works.giveUp(work)])))
  }

  /** Takes over no more, and gives up what others may go on with. */
  async withdraw(...going: Parameters<Opened['retire']>): Promise<void> {
    this.shared.follow(undefined)
    await this.retire(...going)
  }

  async leave(_line: Line, ...going: Parameters<Opened['retire']>): Promise<Left> {
    await this.withdraw(...going)
    return { parts: [], limits: { sets: [], leases: [] }, claims: [] }
  }

  async reclaim(_line: Line, { background }: Going): Promise<void> {
    this.begin(background)
  }

  close(): Promise<void> {
    return this.shared.close()
  }
}
