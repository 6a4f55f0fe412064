// Has a thread of its own read a large configuration, and takes over what it has read in pieces.
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { GivenFiles } from '../../config/files/files.ts'
import type { Files, Found } from '../../config/files/files.ts'
import type { Config, ConfigKey, Problem } from '../catalogue/settings.ts'

/** What the thread is to read. */
export interface ReadingOrder {
  readonly file: string
  readonly env: NodeJS.ProcessEnv
  /** The address of the simulator, if one runs. */
  readonly simulator: string | undefined
}

/** The files that the thread has read. */
interface ReadFiles {
  readonly found: Found
  readonly hashes: ReadonlyMap<string, string>
}

/**
 * What the thread says first: the problems; or that it cannot read this or divide it; or what there is beside the
 * keys, which follow in pieces. `small` has the files without the keys, `sections` the names of all sections in their
 * order, and `place` is that of the section of keys.
 */
export type ReadingReport =
  | ({ readonly problems: readonly Problem[] } & ReadFiles)
  | { readonly whole: true }
  | ({
      readonly small: Found
      readonly sections: readonly string[]
      readonly place: string
      readonly config: Pick<Config, 'hash' | 'named' | 'warnings' | 'texts'>
    } & ReadFiles)

/** A key on its way to another thread. */
export type SentKey = Omit<ConfigKey, 'sha256'> & { readonly sha256: string }

/** Some keys, what is shown of them, and members of {@link Config.hidden}. */
export interface KeyPiece {
  readonly keys: readonly SentKey[]
  readonly shown: readonly unknown[]
  readonly hidden: readonly (readonly [pointer: string, digest: string])[]
}

/** A configuration that was read, or what is wrong with it, with the files that were read. */
export type ReadApart =
  | { readonly config: Config; readonly files: Files }
  | { readonly problems: readonly Problem[]; readonly files: Files }

/** A key as it was before it was sent. What was made without a prototype has got one on its way. */
function received({ sha256, tags, limits, ...key }: SentKey): ConfigKey {
  const bare = <T extends object>(map: T): T => Object.assign(Object.create(null) as T, map)
  return {
    ...key,
    sha256: Buffer.from(sha256, 'hex'),
    tags: tags && bare(tags),
    limits: limits.models ? { ...limits, models: bare(limits.models) } : limits
  }
}

/**
 * Reads a configuration in a thread. `readRest` makes a configuration of other files, which are small. Undefined where
 * the keys cannot be told from the rest of the text, or it declares plugins: then it is to be read as a whole.
 * @throws Error when the thread dies, and the reason of the signal
 */
export async function readApart(
  order: ReadingOrder,
  readRest: (files: Files) => Promise<Config>,
  signal?: AbortSignal
): Promise<ReadApart | undefined> {
  signal?.throwIfAborted()
  // Sources and compiled files lie in the same places and differ only in their endings.
  const module = new URL(`./reading-thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url)
  const thread = new Worker(module, { name: 'reading', workerData: { ...order, env: { ...order.env } } })
  // It is asked for one piece at a time: all that have come are taken over in one turn.
  const ask = async <T>(): Promise<T> => {
    const [message] = (await once(thread, 'message')) as [T]
    return message
  }
  const died = once(thread, 'exit').then(() => {
    signal?.throwIfAborted()
    throw new Error('the thread that reads the configuration ended')
  })
  died.catch(() => {})
  const end = (): void => void thread.terminate()
  signal?.addEventListener('abort', end)
  const next = <T>(): Promise<T> => Promise.race([ask<T>(), died])
  try {
    const report = await next<ReadingReport>()
    if ('whole' in report) return undefined
    const files = new GivenFiles(report.found, report.hashes)
    if ('problems' in report) return { problems: report.problems, files }
    const rest = await readRest(new GivenFiles(report.small))
    const keys: ConfigKey[] = []
    const shown: unknown[] = []
    const hidden = new Map(rest.hidden)
    for (;;) {
      thread.postMessage('next')
      const piece = await next<KeyPiece | undefined>()
      if (!piece) break
      for (const key of piece.keys) keys.push(received(key))
      for (const one of piece.shown) shown.push(one)
      for (const [pointer, digest] of piece.hidden) hidden.set(pointer, digest)
    }
    const sections = { ...rest.redacted, keys: shown }
    const redacted = Object.fromEntries(report.sections.map((name) => [name, sections[name as keyof typeof sections]]))
    const places = new Map(rest.places).set('/keys', report.place)
    return { config: { ...rest, ...report.config, keys, redacted, hidden, places }, files }
  } finally {
    signal?.removeEventListener('abort', end)
    await thread.terminate()
  }
}
