// Makes assets of sources: in a thread of its own, since stripping types and compressing would hold the loop of the
// data path for longer than a request may.
import { once } from 'node:events'
import { stripTypeScriptTypes } from 'node:module'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { assetOf, types } from './asset.ts'
import type { Asset } from './asset.ts'
import { textOf } from './sources.ts'
import type { Source } from './sources.ts'

const typeOf = { typescript: types.module, library: types.module, style: types.style, picture: types.picture } as const

/**
 * Makes the assets of sources, by name.
 * @throws Error when a file cannot be read, or has syntax that Node does not strip
 */
export async function assetsOf(sources: readonly Source[]): Promise<Map<string, Asset>> {
  // Stripping is marked as experimental, which the operator need not hear: it is what runs this very file.
  const execArgv = ['--disable-warning=ExperimentalWarning']
  const worker = new Worker(new URL(import.meta.url), { workerData: sources, execArgv, stdout: false })
  const [made] = (await once(worker, 'message')) as [Map<string, Asset>]
  return made
}

async function make(source: Source): Promise<Asset> {
  const { kind } = source
  const text = await textOf(source)
  return assetOf(typeOf[kind], Buffer.from(kind === 'typescript' ? stripTypeScriptTypes(text) : text))
}

if (!isMainThread && parentPort) {
  const made = new Map<string, Asset>()
  for (const source of workerData as readonly Source[]) made.set(source.name, await make(source))
  parentPort.postMessage(made)
}
