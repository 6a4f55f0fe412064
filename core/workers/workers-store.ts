// What workers stand on: the store of a supervisor, of whichever kind.
import type { Transferable } from 'node:worker_threads'
import type { Opened } from '../handover/opened.ts'
import type { Served } from '../store/distant/line.ts'
import type { Ledger } from '../store/ledger.ts'
import type { Crew } from './crew.ts'
import type { Member } from './member.ts'
import type { GatewayOrder } from './order.ts'

/** What one worker is given of the store. */
export interface Share {
  /** By what {@link WorkersStore.hanging} tells of it. */
  readonly seat: number
  readonly place: GatewayOrder['place']
  readonly transfer: readonly Transferable[]
}

/** The store of a supervisor. */
export interface WorkersStore {
  /** The store as this thread has it. */
  readonly opened: Opened
  /** The ledger for who watches budgets: tells of what is charged in any thread. */
  readonly watched: Pick<Ledger, 'watch'>
  /** Called once, before any worker starts. */
  attend(crew: Crew): void
  /**
   * What the worker of a number begins with.
   * @throws Error when there is none to give
   */
  give(number: number): Share
  /** What a worker may call. */
  served(member: Member): Served
  /** Takes over what a worker has left whose thread has ended. */
  bringHome(member: Member): Promise<void>
  /** The seats of those who hang. */
  hanging(): readonly number[]
}
