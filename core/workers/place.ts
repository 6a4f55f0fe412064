// The store that the workers of a process share, as its supervisor has it from start to end.
import type { BackgroundWork } from '../exchange/background/background.ts'
import type { Upgraded } from '../handover/handover.ts'
import type { Opened } from '../handover/opened.ts'
import type { WorkerStore } from '../store/shared/worker-store.ts'
import type { Logger } from '../telling/log.ts'

const noHandover = 'a gateway of several workers cannot hand over to another process yet: stop it and start it'

/** The store of one process with workers. */
export class Place implements Opened {
  readonly store: Opened['store']
  readonly limits: Opened['limits']
  readonly secrets: Opened['secrets']
  readonly claims: Opened['claims']
  readonly #shared: WorkerStore

  constructor(shared: WorkerStore) {
    this.#shared = shared
    this.store = shared.store
    this.limits = shared.limits
    this.secrets = shared.secrets
    this.claims = shared.claims
  }

  begin(background: BackgroundWork): void {
    background.start()
    this.#shared.follow(
      (work) => background.takeUp(work),
      (work, what) => background.serve(work, what)
    )
  }

  /** Nobody else has the store. */
  tellConfig(): void {}

  /** Nobody else can go on with anything. */
  async retire(): Promise<void> {}

  /** A hand-over is refused before anything of this is asked for. */
  succeed(): never {
    throw new Error(noHandover)
  }

  leave(): never {
    throw new Error(noHandover)
  }

  reclaim(): never {
    throw new Error(noHandover)
  }

  close(): Promise<void> {
    return this.store.close()
  }
}

/** How a gateway of workers hands over: not yet, as it says to whoever asks. */
export function withoutHandover(log: Logger) {
  return {
    done: new Promise<void>(() => {}),
    isDone: false,
    isStranded: false,
    run: async (): Promise<Upgraded> => {
      log.warn('an upgrade was refused', { reason: noHandover })
      return { ok: false, reason: noHandover }
    },
    close(): void {}
  }
}
