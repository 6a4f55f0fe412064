// The files of the console as the package holds them: bundled and compressed by .tools/console.ts.
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { places } from './app/places.ts'
import type { Asset } from './asset.ts'
import { shellOf } from './shell.ts'
import type { Shell } from './shell.ts'
import type { Shelf } from './shelf.ts'

/** What there is: by what follows `/console/` in an address. */
export interface Manifest {
  readonly script: string
  /** The texts that every page has in itself. */
  readonly first: string
  readonly style: string
  /** `file` is in the folder of the manifest, with `.br` and `.gz` beside it. */
  readonly files: Record<string, { file: string; type: string; etag: string; lasting: boolean }>
}

/** Where the package has them. */
export const builtFolder = join(import.meta.dirname, 'built')

/** Whether they are there, which they are in the package alone. */
export function isBuilt(folder = builtFolder): boolean {
  return existsSync(join(folder, 'manifest.json'))
}

interface Loaded {
  readonly manifest: Manifest
  /** The pages that somebody has asked for. */
  readonly shells: Map<string, Promise<Shell>>
  readonly assets: ReadonlyMap<string, Asset>
}

/** The shelf of the package. The first request reads it. */
export class BuiltShelf implements Shelf {
  readonly #folder: string
  #loaded: Promise<Loaded> | undefined

  constructor(folder = builtFolder) {
    this.#folder = folder
  }

  async shell(place: string): Promise<Shell> {
    const { manifest, shells } = await this.#load()
    const { script, first, style } = manifest
    const known = places.find(({ path }) => path === place)
    const name = known?.path ?? ''
    const shell = shells.get(name) ?? shellOf({ place: known, first, style, script, preload: [script] })
    shells.set(name, shell)
    return shell
  }

  async find(name: string): Promise<Asset | undefined> {
    return (await this.#load()).assets.get(name)
  }

  /** Reads all files, once; after a failure the next request tries again. */
  #load(): Promise<Loaded> {
    return (this.#loaded ??= this.#read().catch((error: unknown) => {
      this.#loaded = undefined
      throw error
    }))
  }

  async #read(): Promise<Loaded> {
    const read = (file: string): Promise<Buffer> => readFile(join(this.#folder, file))
    const manifest = JSON.parse((await read('manifest.json')).toString()) as Manifest
    const assets = await Promise.all(
      Object.entries(manifest.files).map(async ([name, { file, type, etag, lasting }]): Promise<[string, Asset]> => {
        const [body, br, gz] = await Promise.all([read(file), read(`${file}.br`), read(`${file}.gz`)])
        return [name, { type, etag, lasting, body, br, gz }]
      })
    )
    return { manifest, shells: new Map(), assets: new Map(assets) }
  }
}
