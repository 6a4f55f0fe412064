// Forgets work that has ended and that nobody may ask for any more, and what a crash has left of results.
import type { Works } from '../../store/works.ts'
import type { Logger } from '../../telling/log.ts'
import { thrownText } from '../../thrown.ts'

/** Milliseconds between two looks for what has expired, and how much of it is forgotten at a time. */
const pauseMs = 60_000
const mostAtOnce = 200

/** The looks of a process. */
export class Expiry {
  readonly #works: Works
  readonly #log: Logger
  #timer: NodeJS.Timeout | undefined

  constructor(works: Works, log: Logger) {
    this.#works = works
    this.#log = log
  }

  start(): void {
    this.#works.sweep().then(
      (files) =>
        files > 0 &&
        this.#log.info('results of what was not done when the last process was killed were removed', { files }),
      (error: unknown) =>
        this.#log.warn('what a crash has left of results could not be removed: the next start tries again', {
          error: thrownText(error)
        })
    )
    this.#timer = setInterval(() => void this.#look(), pauseMs).unref()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  async #look(): Promise<void> {
    try {
      for (let full = true; full;) {
        const expired = await this.#works.expired(mostAtOnce)
        await Promise.all(expired.map((work) => this.#works.forget(work)))
        full = expired.length === mostAtOnce && (await this.#works.flushed())
      }
    } catch (error) {
      this.#log.warn('tasks that have expired could not be forgotten: it is tried again', { error: thrownText(error) })
    }
  }
}
