// The store as the thread of a worker has it, of whichever kind.
import type { Scope } from '../catalogue/caller.ts'
import type { Engine } from '../exchange/engine.ts'
import type { BackgroundWork } from '../exchange/background/background.ts'
import type { Estate } from '../handover/messages.ts'
import type { Opened } from '../handover/opened.ts'
import type { Caller, Served } from '../store/distant/line.ts'
import type { RequestTap } from '../store/request-tap.ts'

/** What a worker is made of, as far as its store asks for it. */
export interface WorkerParts {
  /** The next process, which the supervisor passes on to. */
  readonly there: Caller
  readonly background: BackgroundWork
  readonly engine: Pick<Engine, 'ids'>
  readonly shared: { leave(): Estate['shared'] }
}

/** The store of one worker, from its start to its end. */
export interface Joined extends Pick<Opened, 'store' | 'limits' | 'secrets' | 'claims' | 'retire'> {
  /** Hears of the requests of this worker that end; undefined where the store itself tells of them. */
  readonly finished?: RequestTap | undefined
  /**
   * Takes part in what goes on behind answers. Called once, when the chain is ready. `scope`: a scope with the budgets
   * in use now.
   */
  begin(background: BackgroundWork, scope: (id: string) => Scope | undefined): void
  /** What the supervisor may ask of it. */
  duties(parts: WorkerParts): Served
}
