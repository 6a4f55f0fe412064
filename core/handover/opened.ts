// The open store of a process with everything that belongs to it, and what becomes of it when the process ends or
// another one takes its place. There is an implementation for each kind of store.
import type { BackgroundWork } from '../exchange/background/background.ts'
import type { Server } from '../clients/server.ts'
import type { Claims } from '../store/claims.ts'
import type { Limits } from '../store/limits.ts'
import type { Secrets } from '../store/secrets.ts'
import type { Services } from '../store/services.ts'
import type { Store } from '../store/store.ts'
import type { Logger } from '../telling/log.ts'
import type { Line } from '../store/distant/line.ts'
import type { Estate } from './messages.ts'
import type { Predecessor } from './predecessor.ts'

/** What goes on in a process over its store. */
export interface Going {
  readonly services: Services
  readonly background: BackgroundWork
  readonly log: Logger
}

/** What a process leaves to the next one that its store has not. `shared`: where the main thread has none of it. */
export type Left = Omit<Estate, 'shared'> & Partial<Pick<Estate, 'shared'>>

/** The store of a process, from its start to its end. */
export interface Opened {
  readonly store: Store
  readonly limits: Limits
  readonly secrets: Secrets
  readonly claims: Claims
  /** Goes on with open work. Called once, when the chain is ready. */
  begin(background: BackgroundWork): void
  /** Tells other gateways of the store which configuration is in use: its hash. */
  tellConfig(hash: string): void
  /** This process serves in the place of the one before: does for it what that cannot do any more. */
  succeed(predecessor: Predecessor, going: Going, server: Pick<Server, 'takeFrom'>): Promise<void>
  /** The process drains: gives up at once what others may go on with. `running`: the ids of its exchanges. */
  retire(background: Pick<BackgroundWork, 'close'>, running: readonly string[]): Promise<void>
  /** The next process takes the place of this one. Resolves with what it needs, when it may open the store. */
  leave(line: Line, background: Pick<BackgroundWork, 'close'>, running: readonly string[]): Promise<Left>
  /**
   * The next process is gone: goes on as if it had never been there.
   * @throws Error when that is not possible any more
   */
  reclaim(line: Line, going: Going): Promise<void>
  /** Closes the store. Nothing may be asked after it. */
  close(): Promise<void>
}
