// Loads plugins from packages and files, and says why one cannot be used.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { extname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { contractOf, contractVersion } from '../contract/contract.ts'
import type { Plugin } from '../contract/contract.ts'

/** A plugin to be loaded; `from` is a package, or the absolute path of a file. */
export interface PluginSource {
  name: string
  from: string
  isFile: boolean
}

/** What there is to put into a chain, and what is wrong with the rest. */
export interface LoadedPlugins {
  plugins: ReadonlyMap<string, Plugin>
  /** By name, why it cannot be used, as a sentence without its subject. */
  unusable: ReadonlyMap<string, string>
}

/**
 * The shipped plugins with those of a configuration in `folder`. Runs their modules, each once in a process: a file
 * that was changed is another module, a package is not. Never rejects.
 */
export async function loadPlugins(
  sources: readonly PluginSource[],
  folder: string,
  shipped: ReadonlyMap<string, Plugin>
): Promise<LoadedPlugins> {
  if (sources.length === 0) return { plugins: shipped, unusable: new Map() }
  hookIn()
  const plugins = new Map(shipped)
  const unusable = new Map<string, string>()
  for (const source of sources) {
    try {
      if (shipped.has(source.name)) throw new Unusable('a plugin of that name is shipped: choose another name')
      plugins.set(source.name, await load(source, folder))
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

async function load({ name, from, isFile }: PluginSource, folder: string): Promise<Plugin> {
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

/** A file's address by its content, so that a reload runs it anew when it was changed. */
function addressOf(file: string): string {
  const url = pathToFileURL(file)
  url.search = createHash('sha256').update(readFileSync(file)).digest('hex').slice(0, 16)
  return url.href
}

function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  if (code === 'ENOENT') return 'there is no such file'
  const text = message?.split('\n', 1)[0] ?? String(error)
  if (error instanceof SyntaxError && moduleWords.test(text))
    return `${text}: it is an ES module, so put "type": "module" into the package.json of its folder, or end its name in .mts or .mjs`
  return code === 'ERR_MODULE_NOT_FOUND' && text.includes('package')
    ? `${text.replace(/ imported from .*/, '')}: install it beside gateway.yaml with npm`
    : text
}

/** What Node says of a module with `import` or `export` that a package.json calls a script. */
const moduleWords = /outside a module|Unexpected token 'export'|Cannot use 'import\.meta'/

/** Stands before the name of a package that is looked for where the configuration is, and not here. */
const scheme = 'sluice-package:'

/** What plugins import, for those that have no package of ours beside them: this copy. */
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
