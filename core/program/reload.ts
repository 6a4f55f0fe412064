// Applies a changed gateway.yaml, one reload at a time, or says why it was refused.
import { changesOf, inWords } from './changes.ts'
import type { Change } from './changes.ts'
import { ConfigError } from './configuration.ts'
import { fixedChanges } from './fixed-settings.ts'
import type { Logger } from '../telling/log.ts'
import type { PluginMetrics } from '../telling/metrics.ts'
import type { Config, Problem } from '../catalogue/settings.ts'

/** The result of a reload. */
export interface ReloadResult {
  ok: boolean
  /** The cause: `SIGHUP`, `file changed`, `admin API`, `rollback` or `written`, by the admin API. */
  reason: string
  /** The operator who asked for it; null when nobody did. */
  by: string | null
  /** The end of the reload in Unix milliseconds. */
  time: number
  durationMs: number
  /** The hash of the configuration that is in use after the reload. */
  hash: string
  /** The faults of the file; empty when the reload succeeded. */
  problems: readonly Problem[]
  /** What it changed; empty when it was refused. */
  changes: readonly Change[]
}

/** What a reload would do now. */
export interface Preview {
  /** The hash of the configuration in use. */
  inUse: string
  /** The hash of the file on disk; undefined when it has problems. */
  onDisk: string | undefined
  changes: readonly Change[]
  /** Why a reload would be refused; empty when it would not be. */
  problems: readonly Problem[]
}

/** What a reloader needs. */
export interface ReloaderParts {
  /** The configuration in use. */
  current(): Config
  /**
   * Reads the file.
   * @throws ConfigError with the faults of the file
   */
  read(): Promise<Config>
  /**
   * Reads the file, for a comparison only.
   * @throws ConfigError with the faults of the file
   */
  look(): Promise<Config>
  /**
   * Builds the new generation beside the current one, and then replaces it.
   * @throws anything, before the replacement, so that nothing has changed
   */
  apply(next: Config): Promise<void>
  /** Told of each reload, and the hash of the configuration before it. It does not reject. */
  tell?(result: ReloadResult, before: string): Promise<void>
  log: Logger
  metrics: PluginMetrics
}

/** Reloads the configuration when asked to. */
export class Reloader {
  readonly #parts: ReloaderParts
  readonly #successful
  readonly #timestamp
  readonly #count
  #tail: Promise<unknown> = Promise.resolve()
  #queued: Promise<ReloadResult> | undefined
  #last: ReloadResult | undefined
  #refused: ReloadResult | undefined
  #closed = false

  /** Made when the first configuration is in use, which the metrics count as a success. */
  constructor(parts: ReloaderParts) {
    this.#parts = parts
    const { metrics } = parts
    this.#successful = metrics.gauge({
      name: 'config_last_reload_successful',
      help: 'Whether the last attempt to read the configuration was a success.'
    })
    this.#timestamp = metrics.gauge({
      name: 'config_last_reload_success_timestamp_seconds',
      help: 'When the configuration in use was taken over.'
    })
    this.#count = metrics.counter({
      name: 'config_reloads_total',
      help: 'Reloads, by how they ended.',
      labels: ['outcome']
    })
    this.#successful.set({}, 1)
    this.#timestamp.set({}, Date.now() / 1000)
  }

  /** The latest reload; undefined before the first. */
  get last(): ReloadResult | undefined {
    return this.#last
  }

  /** The first reload that was refused since the files say what is not taken over; undefined when all is. */
  get refused(): ReloadResult | undefined {
    return this.#refused
  }

  /**
   * Reads the file and applies it. Never rejects. A reload that is asked for during another one begins after it, and is
   * shared by everyone who asks before it begins. So the newest file is applied, and is not read more often than
   * needed.
   */
  reload(reason: string, by: string | null = null): Promise<ReloadResult> {
    if (this.#queued) return this.#queued
    const result = this.#tail.then(async () => {
      this.#queued = undefined
      const done = await this.#run(reason, by)
      if (!done.ok) this.#refused ??= done
      return done
    })
    this.#queued = result
    this.#tail = result
    return result
  }

  /**
   * Calls `work` when no reload is under way, with a function that reloads at once. Other reloads begin after it. When
   * that one is refused, `work` puts the files back. Resolves and rejects as `work` does.
   */
  alone<T>(work: (reload: Reloader['reload']) => Promise<T>): Promise<T> {
    const result = this.#tail.then(() => work((reason, by) => this.#run(reason, by ?? null)))
    this.#tail = result.catch(() => {})
    return result
  }

  /**
   * Says what a reload would change, and changes nothing. `look` reads something else than the file.
   */
  async preview(look = this.#parts.look): Promise<Preview> {
    const before = this.#parts.current()
    try {
      const next = await look()
      const changes = await changesOf(before, next)
      return { inUse: before.hash, onDisk: next.hash, changes, problems: refusals(before, next) }
    } catch (error) {
      return { inUse: before.hash, onDisk: undefined, changes: [], problems: problemsOf(error, before) }
    }
  }

  /**
   * Refuses reloads from now on. Resolves when the one under way has ended. One that is given up for that is no fault
   * of the file, and neither told nor counted.
   */
  async close(): Promise<void> {
    this.#closed = true
    await this.#tail
  }

  async #run(reason: string, by: string | null): Promise<ReloadResult> {
    const { current, read, apply, log } = this.#parts
    const startedAt = performance.now()
    const before = current()
    let problems: readonly Problem[] = []
    let changes: readonly Change[] = []
    let givenUp = false
    try {
      if (this.#closed) throw new Error('the gateway stops')
      const next = await read()
      const refused = refusals(before, next)
      if (refused.length > 0) throw new ConfigError(refused)
      await apply(next)
      changes = await changesOf(before, next)
    } catch (error) {
      problems = problemsOf(error, before)
      givenUp = this.#closed && !(error instanceof ConfigError)
    }
    const ok = problems.length === 0
    const { hash } = current()
    const durationMs = Math.round(performance.now() - startedAt)
    const result = { ok, reason, by, time: Date.now(), durationMs, hash, problems, changes }
    if (givenUp) return result
    this.#last = result
    this.#count.add({ outcome: ok ? 'success' : 'refused' })
    this.#successful.set({}, ok ? 1 : 0)
    if (ok) {
      this.#refused = undefined
      this.#timestamp.set({}, Date.now() / 1000)
      log.info('the configuration was reloaded', {
        reason,
        ...(by !== null && { by }),
        hash,
        ms: durationMs,
        changes: inWords(changes)
      })
    } else {
      log.error('the configuration was not reloaded: the one in use stays', {
        reason,
        problems: problems.map(({ place, message }) => `${place} ${message}`)
      })
    }
    await this.#parts.tell?.(result, before.hash)
    return result
  }
}

/** The settings that a reload cannot change, as problems of the new file. */
function refusals(before: Config, { settings, file, places }: Config): Problem[] {
  return fixedChanges(before.settings, settings).map((name) => ({
    place: places.get(`/${name.split('.', 1)[0]!}`) ?? file,
    message: `${name}: this cannot change while the gateway runs: restart it, or put back what was there`
  }))
}

function problemsOf(error: unknown, { file }: Config): readonly Problem[] {
  return error instanceof ConfigError
    ? error.problems
    : [{ place: file, message: String((error as Error).message ?? error) }]
}
