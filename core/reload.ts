// Reloads the configuration: one at a time, all or nothing, with the outcome kept for whoever asks.
import { isDeepStrictEqual } from 'node:util'
import type { Logger } from './log.ts'
import type { Problem, Settings } from './settings.ts'

/** How a reload ended. */
export interface ReloadResult {
  /** RFC 3339. */
  time: string
  /** `start`, `file`, `signal`, `admin`. */
  reason: string
  ok: boolean
  /** SHA-256 of the file in use after it. */
  hash: string
  /** Why the new file is not in use; empty when it is. */
  problems: readonly Problem[]
}

/** What a reload needs; `build` reads, checks and swaps, and throws when it did not. */
export interface ReloadParts {
  log: Logger
  /** Resolves with the hash of the file that is now in use. */
  build(): Promise<string>
  /** Turns what `build` threw into problems. */
  explain(error: unknown): readonly Problem[]
}

/** Runs reloads one after another. Requests that come while one runs share the next. */
export class Reloader {
  /** The latest outcome; the start counts as the first. */
  last: ReloadResult
  readonly #parts: ReloadParts
  #running: Promise<ReloadResult> | undefined
  #next: Promise<ReloadResult> | undefined

  constructor(parts: ReloadParts, hash: string) {
    this.#parts = parts
    this.last = { time: new Date().toISOString(), reason: 'start', ok: true, hash, problems: [] }
  }

  /** Never rejects: a file that can not be used leaves the old one in use. */
  reload(reason: string): Promise<ReloadResult> {
    if (!this.#running) return (this.#running = this.#run(reason).finally(() => (this.#running = undefined)))
    return (this.#next ??= this.#running.then(() => {
      this.#next = undefined
      return this.reload(reason)
    }))
  }

  async #run(reason: string): Promise<ReloadResult> {
    const { log, build, explain } = this.#parts
    const time = new Date().toISOString()
    try {
      const hash = await build()
      this.last = { time, reason, ok: true, hash, problems: [] }
      log.info('configuration reloaded', { reason, hash })
    } catch (error) {
      this.last = { time, reason, ok: false, hash: this.last.hash, problems: explain(error) }
      for (const { place, message } of this.last.problems) log.error('reload refused, the old configuration stays in use', { reason, place, problem: message })
    }
    return this.last
  }
}

/** What a running process can not change, by its name in the file; empty when a reload may go ahead. */
export function fixedChanges(before: Settings, after: Settings): string[] {
  const fixed = ['listen', 'admin', 'store'] as const
  return fixed.filter((name) => !isDeepStrictEqual(before[name], after[name]))
}
