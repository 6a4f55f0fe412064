// The files of the console as they are written, for everybody who runs the sources: made when somebody asks for them.
import { places } from './app/places.ts'
import { versionOf } from './asset.ts'
import type { Asset } from './asset.ts'
import { libraries, listSources } from './sources.ts'
import type { Source } from './sources.ts'
import { shellOf } from './shell.ts'
import type { Shell } from './shell.ts'
import { assetsOf } from './workshop.ts'
import type { Shelf } from './shelf.ts'

/** The shelf of the sources. The first request makes it, so that who never opens the console pays nothing. */
export class SourceShelf implements Shelf {
  #sources: readonly Source[] = []
  #assets = new Map<string, Asset>()
  #shells: Map<string, Promise<Shell>> | undefined
  #making: Promise<void> | undefined

  async shell(place: string): Promise<Shell> {
    await this.#renew()
    const known = this.#shells!.get(place)
    if (known) return known
    const shell = this.#shell(place)
    this.#shells!.set(place, shell)
    return shell
  }

  #shell(place: string): Promise<Shell> {
    const text = (name: string): string => Buffer.from(this.#assets.get(name)!.body).toString()
    const address = (name: string): string => `${name}?${versionOf(this.#assets.get(name)!)}`
    const preload = reachedFrom(['app/main.ts', `app/pages/${place}/${place}.ts`], this.#assets)
    // Browsers keep each module under an address that changes with it; modules themselves name each other without.
    const modules = [...this.#assets.keys()].filter((name) => name.endsWith('.ts'))
    const imports = {
      ...Object.fromEntries(Object.entries(libraries).map(([name, file]) => [name, `/console/${address(file)}`])),
      ...Object.fromEntries(modules.map((name) => [`/console/${name}`, `/console/${address(name)}`]))
    }
    return shellOf({
      place: places.find(({ path }) => path === place),
      first: text('app/first.ts'),
      style: text('style.css'),
      script: address('app/main.ts'),
      preload: preload.map(address),
      importMap: JSON.stringify({ imports })
    })
  }

  async find(name: string): Promise<Asset | undefined> {
    if (!this.#shells) await this.#renew()
    return this.#assets.get(name)
  }

  /** Takes over what changed on the disk; requests that come meanwhile wait for the same. */
  #renew(): Promise<void> {
    return (this.#making ??= this.#make().finally(() => (this.#making = undefined)))
  }

  async #make(): Promise<void> {
    const sources = await listSources()
    const before = new Map(this.#sources.map((source) => [source.name, source]))
    const changed = sources.filter(({ name, paths, changed: at }) => {
      const known = before.get(name)
      return known?.changed !== at || known.paths.length !== paths.length
    })
    if (changed.length === 0 && sources.length === before.size && this.#shells) return
    const made = changed.length === 0 ? new Map<string, Asset>() : await assetsOf(changed)
    this.#assets = new Map(sources.map(({ name }) => [name, made.get(name) ?? this.#assets.get(name)!]))
    this.#sources = sources
    this.#shells = new Map()
  }
}

/** Modules with those that they import, directly or through others, but for those that they load later. */
function reachedFrom(starts: readonly string[], assets: ReadonlyMap<string, Asset>): string[] {
  const reached = new Set(starts)
  for (const name of reached) {
    const asset = assets.get(name)
    if (!asset) continue
    for (const [, specifier] of Buffer.from(asset.body).toString().matchAll(imported)) {
      const { pathname } = new URL(
        specifier! in libraries ? `/console/${libraries[specifier!]}` : specifier!,
        `http://localhost/console/${name}`
      )
      reached.add(pathname.slice('/console/'.length))
    }
  }
  return [...reached].filter((name) => assets.has(name))
}

/** Matches what follows `from` in imports at the beginning of a line, and imports for their effect alone. */
const imported = /^(?:import|export)\b[^'"`;]*?\bfrom\s*['"]([^'"]+)['"]/gm
