// Applies a changed gateway.yaml, one reload at a time, or says why it was refused.
import { isDeepStrictEqual } from 'node:util'
import { ConfigError } from './configuration.ts'
import type { Logger } from '../telling/log.ts'
import type { PluginMetrics } from '../telling/metrics.ts'
import { isMap } from '../options/schema-check.ts'
import type { Config, Limits, Problem, Settings } from '../catalogue/settings.ts'

/** The result of a reload. */
export interface ReloadResult {
  ok: boolean
  /** The cause: `SIGHUP`, `file changed` or `admin API`. */
  reason: string
  /** The end of the reload in Unix milliseconds. */
  time: number
  durationMs: number
  /** The hash of the configuration that is in use after the reload. */
  hash: string
  /** The faults of the file; empty when the reload succeeded. */
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

  /**
   * Reads the file and applies it. Never rejects. A reload that is asked for during another one begins after it, and is
   * shared by everyone who asks before it begins. So the newest file is applied, and is not read more often than
   * needed.
   */
  reload(reason: string): Promise<ReloadResult> {
    if (this.#queued) return this.#queued
    const result = this.#tail.then(() => {
      this.#queued = undefined
      return this.#run(reason)
    })
    this.#queued = result
    this.#tail = result
    return result
  }

  async #run(reason: string): Promise<ReloadResult> {
    const { current, read, apply, log } = this.#parts
    const startedAt = performance.now()
    const before = current().hash
    let problems: readonly Problem[] = []
    try {
      const next = await read()
      const fixed = fixedChanges(current().settings, next.settings)
      if (fixed.length > 0)
        throw new ConfigError(fixed.map((name) => ({ place: next.file, message: restartNeeded(name) })))
      await apply(next)
    } catch (error) {
      problems =
        error instanceof ConfigError
          ? error.problems
          : [{ place: current().file, message: String((error as Error).message ?? error) }]
    }
    const ok = problems.length === 0
    const { hash } = current()
    const durationMs = Math.round(performance.now() - startedAt)
    this.#last = { ok, reason, time: Date.now(), durationMs, hash, problems }
    this.#count.add({ outcome: ok ? 'success' : 'refused' })
    this.#successful.set({}, ok ? 1 : 0)
    if (ok) {
      this.#timestamp.set({}, Date.now() / 1000)
      log.info('the configuration was reloaded', { reason, hash, ms: durationMs })
    } else {
      log.error('the configuration was not reloaded: the one in use stays', {
        reason,
        problems: problems.map(({ place, message }) => `${place} ${message}`)
      })
    }
    await this.#parts.tell?.(this.#last, before)
    return this.#last
  }
}

/** The limits that exchanges read anew each time. The others are fixed in the server and its memory at the start. */
const live: readonly (keyof Limits)[] = [
  'jsonBody',
  'multipartBody',
  'drainTimeout',
  'clientBody',
  'onDisconnect',
  'disconnectDrain',
  'realtime'
]

/** The names in the file of changed settings that a reload cannot apply. A new certificate can be applied. */
function fixedChanges(before: Settings, after: Settings): string[] {
  const limits = { ...after.limits, ...Object.fromEntries(live.map((name) => [name, before.limits[name]])) }
  const listen = { ...after.listen, tls: after.listen.tls && (before.listen.tls ?? after.listen.tls) }
  return changes(before, { ...after, limits, listen }, '')
}

function changes(before: unknown, after: unknown, name: string): string[] {
  if (isDeepStrictEqual(before, after)) return []
  if (!isMap(before) || !isMap(after)) return [name]
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((key) =>
    changes(
      before[key],
      after[key],
      `${name === '' ? '' : `${name}.`}${key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`
    )
  )
}

function restartNeeded(name: string): string {
  return `${name}: this cannot change while the gateway runs: restart it, or put back what was there`
}
