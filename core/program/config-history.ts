// The history of the configurations that were in use: what each said, since when, and who brought it.
import { chmodSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Config, ConfigText } from '../catalogue/settings.ts'
import type { StorePlace } from '../catalogue/store-place.ts'
import { isMap } from '../options/schema-check.ts'
import type { Logger } from '../telling/log.ts'

/** What is told of a configuration that was taken over. */
export interface PastEntry {
  /** Counts from 1. */
  readonly seq: number
  readonly hash: string
  /** When it was taken over, in Unix milliseconds. */
  readonly time: number
  /** The cause: `start`, `SIGHUP`, `file changed`, `admin API`, `rollback` or `written`. */
  readonly reason: string
  /** The operator who asked for it; null when nobody did. */
  readonly by: string | null
  /** What it changed, in words. */
  readonly changes: readonly string[]
}

/** One configuration that was taken over. */
export interface PastConfig extends PastEntry {
  /** As {@link Config.redacted}. */
  readonly redacted: Config['redacted']
  /** The text of gateway.yaml, with what it has of secrets in clear. */
  readonly text: string
  /** The files that it included. */
  readonly included: readonly Pick<ConfigText, 'name' | 'text'>[]
  /** As {@link Config.folders}. */
  readonly folders: readonly string[]
}

/** How many are kept. */
const most = 50

/** The folder of the history of a gateway: beside its store, or among what is its own. */
export function historyFolderOf(place: StorePlace): string {
  return place.sqlite === undefined ? join(place.folder, 'config') : `${place.sqlite}.config`
}

/**
 * The history of a gateway, a file for each configuration. As they have the texts of all files, only the user of
 * the gateway may read them. What cannot be written is logged.
 */
export class ConfigHistory {
  readonly #folder: string
  readonly #log: Logger

  /** Nothing is made in the folder before the first is added. */
  constructor(folder: string, log: Logger) {
    this.#folder = folder
    this.#log = log
  }

  /** Entries of all that are kept, newest first. A file that cannot be read is left out. */
  async entries(): Promise<PastEntry[]> {
    const entries: PastEntry[] = []
    for await (const past of this.#newestFirst()) {
      const { seq, hash, time, reason, by, changes } = past
      entries.push({ seq, hash, time, reason, by, changes })
    }
    return entries
  }

  /** The newest that `matches`. */
  async find(matches: (entry: PastEntry) => boolean): Promise<PastConfig | undefined> {
    for await (const past of this.#newestFirst()) if (matches(past)) return past
    return undefined
  }

  /** One after another: they may have many MiB each, and must not all be in memory, or be read in one turn. */
  async *#newestFirst(): AsyncGenerator<PastConfig> {
    for (const seq of this.#numbers().toReversed()) {
      const past = await readFile(this.#path(seq), 'utf8').then(
        (text) => read(seq, text),
        () => undefined
      )
      if (past) yield past
    }
  }

  /** Adds the configuration that is in use from now on. */
  add(config: Config, why: Pick<PastConfig, 'reason' | 'by' | 'changes'>): void {
    const { hash, redacted, folders, texts } = config
    const [{ text }, ...others] = texts as [ConfigText, ...ConfigText[]]
    const included = others.map(({ name, text }) => ({ name, text }))
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
      chmodSync(this.#folder, 0o700)
      const numbers = this.#numbers()
      const seq = (numbers.at(-1) ?? 0) + 1
      const past: PastConfig = { seq, hash, time: Date.now(), ...why, redacted, text, included, folders }
      const whole = this.#path(seq)
      writeFileSync(`${whole}.new`, JSON.stringify(past), { mode: 0o600, flush: true })
      renameSync(`${whole}.new`, whole)
      for (const old of numbers.slice(0, Math.max(0, numbers.length + 1 - most)))
        rmSync(this.#path(old), { force: true })
    } catch (error) {
      this.#log.error('the configuration was not written to its history', { error: (error as Error).message })
    }
  }

  /** Adds the configuration of the start, unless it was in use at last. */
  begin(config: Config): void {
    const before = this.#last()
    if (before?.hash !== config.hash) this.add(config, { reason: 'start', by: null, changes: [] })
  }

  #last(): PastConfig | undefined {
    const seq = this.#numbers().at(-1)
    try {
      return seq === undefined ? undefined : read(seq, readFileSync(this.#path(seq), 'utf8'))
    } catch {
      return undefined
    }
  }

  #path(seq: number): string {
    return join(this.#folder, `${String(seq).padStart(8, '0')}.json`)
  }

  #numbers(): number[] {
    let names: string[]
    try {
      names = readdirSync(this.#folder).filter((name) => /^\d{8}\.json$/.test(name))
    } catch {
      // There is none yet, or it cannot be read, which must not keep the gateway from its start.
      return []
    }
    return names.map((name) => Number.parseInt(name, 10)).sort((a, b) => a - b)
  }
}

/** The configuration that a file has; undefined when it is damaged. */
function read(seq: number, text: string): PastConfig | undefined {
  try {
    const value: unknown = JSON.parse(text)
    // What was written before there were included files has neither list.
    const past: unknown = isMap(value) ? { included: [], folders: [], ...value, seq } : undefined
    return isPast(past) ? past : undefined
  } catch {
    return undefined
  }
}

/** Whether what a file has is a configuration: what is damaged must not come in the place of one. */
function isPast(value: unknown): value is PastConfig {
  if (!isMap(value)) return false
  const { hash, time, reason, by, changes, redacted, text, included, folders } = value
  const isText = (one: unknown): boolean => typeof one === 'string'
  return (
    typeof hash === 'string' &&
    /^[0-9a-f]{64}$/.test(hash) &&
    typeof time === 'number' &&
    !Number.isNaN(new Date(time).getTime()) &&
    [reason, by ?? '', text].every(isText) &&
    [changes, folders].every((list) => Array.isArray(list) && list.every(isText)) &&
    isMap(redacted) &&
    Array.isArray(included) &&
    included.every((one) => isMap(one) && isText(one['name']) && isText(one['text']))
  )
}
