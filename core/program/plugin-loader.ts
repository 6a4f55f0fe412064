// Loads plugins from packages and files, or says why one cannot be used.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { extname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { contractOf, contractVersion } from '../contract/contract.ts'
import type { Plugin } from '../contract/contract.ts'
import { thrownCode, thrownMessage } from '../thrown.ts'

/** A plugin to load. `from`: a package name, or the absolute path of a file. */
export interface PluginSource {
  name: string
  from: string
  isFile: boolean
  /** The folder beside which a package is looked for. */
  folder: string
}

/** The plugins that a chain may name, and the faults of those that cannot be used. */
export interface LoadedPlugins {
  plugins: ReadonlyMap<string, Plugin>
  /** By name, why the plugin cannot be used: a sentence without its subject. */
  unusable: ReadonlyMap<string, string>
}

/**
 * The shipped plugins with those of a configuration. Runs their modules, each once per process; a changed
 * file is loaded again, a changed package is not. Never rejects.
 */
export async function loadPlugins(
  sources: readonly PluginSource[],
  shipped: ReadonlyMap<string, Plugin>
): Promise<LoadedPlugins> {
  if (sources.length === 0) return { plugins: shipped, unusable: new Map() }
  hookIn()
  const plugins = new Map(shipped)
  const unusable = new Map<string, string>()
  for (const source of sources) {
    try {
      if (shipped.has(source.name)) throw new Unusable('a plugin of that name is shipped: choose another name')
      plugins.set(source.name, await load(source))
    } catch (error) {
      unusable.set(
        source.name,
        error instanceof Unusable ? error.message : `cannot be loaded from ${source.from}: ${reasonOf(error)}`
      )
    }
  }
  return { plugins, unusable }
}

class Unusable extends Error {}

async function load({ name, from, isFile, folder }: PluginSource): Promise<Plugin> {
  const address = isFile
    ? addressOf(from)
    : `${scheme}${encodeURIComponent(from)}?${encodeURIComponent(pathToFileURL(join(resolve(folder), 'gateway.yaml')).href)}`
  const { default: made } = (await import(address)) as { default?: unknown }
  const contract = contractOf(made)
  if (contract === undefined)
    throw new Unusable(`${from} is no plugin: its default export must be made by definePlugin of sluice/plugin`)
  if (contract !== contractVersion) {
    const remedy = contract > contractVersion ? 'update sluice' : 'ask for a newer version of the plugin'
    throw new Unusable(
      `${from} is made for version ${contract} of the contract with plugins, and this gateway has ${contractVersion}: ${remedy}`
    )
  }
  return { ...(made as Plugin), name }
}

/** A URL with a hash of the file's content, so that a reload loads a changed file again. */
function addressOf(file: string): string {
  const url = pathToFileURL(file)
  url.search = createHash('sha256').update(readFileSync(file)).digest('hex').slice(0, 16)
  return url.href
}

function reasonOf(error: unknown): string {
  const code = thrownCode(error)
  if (code === 'ENOENT') return 'there is no such file'
  const text = thrownMessage(error).split('\n', 1)[0]!
  if (error instanceof SyntaxError && moduleWords.test(text))
    return `${text}: it is an ES module, so put "type": "module" into the package.json of its folder, or end its name in .mts or .mjs`
  return code === 'ERR_MODULE_NOT_FOUND' && text.includes('package')
    ? `${text.replace(/ imported from .*/, '')}: install it with npm beside the file that names it`
    : text
}

/** Node's messages about a module with `import` or `export` that package.json declares to be a script. */
const moduleWords = /outside a module|Unexpected token 'export'|Cannot use 'import\.meta'/

/** Prefix of a package name that is resolved from the folder of the configuration, and not from this file. */
const scheme = 'sluice-package:'

/** The modules that plugins import from this package. A plugin that does not find the package gets the running copy. */
const own = new Map(
  [
    ['sluice/plugin', '../contract/contract'],
    ['sluice/testing', '../../test/kit/testing']
  ].map(([name, path]) => [name!, new URL(path! + extname(import.meta.filename), import.meta.url).href])
)

let hooked = false

function hookIn(): void {
  if (hooked) return
  hooked = true
  registerHooks({
    resolve(specifier, context, next) {
      if (specifier.startsWith(scheme)) {
        const [name, parent] = specifier.slice(scheme.length).split('?').map(decodeURIComponent)
        return next(name!, { ...context, parentURL: parent! })
      }
      const url = own.get(specifier)
      if (!url) return next(specifier, context)
      try {
        return next(specifier, context)
      } catch {
        return { url, shortCircuit: true }
      }
    }
  })
}
