// Ends what goes on for long, such as event streams, as soon as whoever asked for it would not be let in any more.
import type { Documents } from '../../store/documents.ts'
import { sessionKind } from './sessions.ts'
import { operatorDocuments } from './stored-operator.ts'

/** Milliseconds between two looks at what no change tells: tokens that expire, sessions that become idle. */
const lookEvery = 5000

/** One thing that goes on. */
interface Watched {
  /** Rejects when whoever asked would not be let in. */
  check(): Promise<void>
  stop(): void
}

/** What goes on at one listener. While there is nothing, it has no timer. */
export class Admissions {
  readonly #watched = new Set<Watched>()
  #timer: NodeJS.Timeout | undefined

  /** Stops watching the documents. */
  readonly close: () => void

  constructor(documents: Documents) {
    const unwatch = documents.watch((changes) => {
      const matters = changes.some(
        // That a session was seen changes nothing.
        ({ kind, value }) => kind === operatorDocuments.name || (kind === sessionKind && value === null)
      )
      if (matters) this.#look()
    })
    this.close = () => {
      unwatch()
      clearInterval(this.#timer)
    }
  }

  /** Calls `stop` once when `check` rejects. Returns a function that ends this. */
  watch(check: Watched['check'], stop: Watched['stop']): () => void {
    const watched: Watched = { check, stop }
    this.#watched.add(watched)
    this.#timer ??= setInterval(() => this.#look(), lookEvery).unref()
    return () => this.#forget(watched)
  }

  #look(): void {
    for (const watched of this.#watched)
      watched.check().catch(() => {
        if (this.#forget(watched)) watched.stop()
      })
  }

  #forget(watched: Watched): boolean {
    const known = this.#watched.delete(watched)
    if (this.#watched.size === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
    }
    return known
  }
}
