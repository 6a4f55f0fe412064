// The thread that reads a large configuration, so that requests do not wait meanwhile. It sends what is wrong, or all
// that is large in pieces, with the texts that the rest is made of. It runs no module of the operator's plugins.
import { isDeepStrictEqual } from 'node:util'
import { parentPort, workerData } from 'node:worker_threads'
import { withoutSection } from '../../config/files/apart.ts'
import { Files, GivenFiles } from '../../config/files/files.ts'
import type { Content, Found } from '../../config/files/files.ts'
import { readFiles } from '../../config/files/includes.ts'
import { declaredPlugins } from '../../config/sections/plugins.ts'
import { plugins } from '../../plugins/index.ts'
import type { Config } from '../catalogue/settings.ts'
import { ConfigError, makeConfig, readConfig } from './configuration.ts'
import type { KeyPiece, ReadingOrder, ReadingReport, SentKey } from './reading.ts'

/** Keys of one piece: to take over so many holds the other thread up for some milliseconds. */
const atOnce = 500

const port = parentPort!
const { file, env, simulator } = workerData as ReadingOrder
const source = { file, env, plugins }
const url = simulator === undefined ? undefined : new URL(simulator)
const files = new Files()
const say = (report: ReadingReport): void => port.postMessage(report)

try {
  const reading = readFiles(file, env, files)
  if (declaredPlugins(reading.source).length > 0) say({ whole: true })
  else await divide((await makeConfig(source, reading, url)).config)
} catch (error) {
  if (!(error instanceof ConfigError)) throw error
  say({ problems: error.problems, found: ownMemory(files.found), hashes: files.hashes })
}

async function divide(config: Config): Promise<void> {
  const read = { found: ownMemory(files.found), hashes: files.hashes }
  const small = { contents: new Map(Array.from(read.found.contents, smaller(config))), lists: read.found.lists }
  const rest = await readConfig(source, url, new GivenFiles(small)).catch(() => undefined)
  if (!rest || !isRest(rest.config, config)) return say({ whole: true })
  const { hash, named, warnings, texts, places } = config
  const sections = Object.keys(config.redacted)
  say({ ...read, small, sections, place: places.get('/keys')!, config: { hash, named, warnings, texts } })
  const pieces = piecesOf(config)
  port.on('message', () => port.postMessage(pieces.next().value))
}

/** A file as it was found, without the section of keys where it is one of the configuration. */
function smaller({ texts }: Config): (found: [path: string, content: Content]) => [string, Content] {
  const parts = new Map(texts.map((one) => [one.file, one.text]))
  return ([path, content]) => {
    const text = parts.get(path)
    return [path, text === undefined ? content : { bytes: copyOf(Buffer.from(withoutSection(text, 'keys'))) }]
  }
}

/** Whether a configuration is another one but for the keys. */
function isRest(rest: Config, whole: Config): boolean {
  const others = ({ redacted, hidden, places }: Config): unknown => [
    { ...redacted, keys: undefined },
    [...hidden].filter(([pointer]) => !pointer.startsWith('/keys/')),
    [...places].filter(([pointer]) => pointer !== '/keys')
  ]
  return whole.keys.length > 0 && rest.keys.length === 0 && isDeepStrictEqual(others(rest), others(whole))
}

function* piecesOf({ keys, redacted, hidden }: Config): Generator<KeyPiece, undefined> {
  const shown = redacted['keys'] as readonly unknown[]
  const digests = [...hidden].filter(([pointer]) => pointer.startsWith('/keys/'))
  const share = Math.ceil((digests.length / keys.length) * atOnce)
  for (let at = 0; at < keys.length; at += atOnce) {
    const from = (at / atOnce) * share
    yield {
      keys: keys.slice(at, at + atOnce).map(sent),
      shown: shown.slice(at, at + atOnce),
      hidden: digests.slice(from, from + share)
    }
  }
}

/** A key without memory that others have a part of: all of it would be sent with each. */
function sent({ sha256, ...key }: Config['keys'][number]): SentKey {
  return { ...key, sha256: sha256.toString('hex') }
}

function ownMemory({ contents, lists }: Found): Found {
  const own = ({ bytes, fault }: Content): Content => (bytes ? { bytes: copyOf(bytes) } : { fault: fault! })
  return { contents: new Map(Array.from(contents, ([path, content]) => [path, own(content)])), lists }
}

function copyOf(bytes: Buffer): Buffer {
  return Buffer.from(new Uint8Array(bytes).buffer)
}
