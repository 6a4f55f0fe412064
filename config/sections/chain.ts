// Reads the chain of gateway.yaml: which plugins it names, and their options, checked by the plugins' own schemas.
import { resolve } from 'node:path'
import { below, checkerOf, isMap } from '../../core/options/schema-check.ts'
import { suggestion } from '../../core/options/suggest.ts'
import { placeOf } from '../files/position.ts'
import type { Plugin } from '../../core/contract/contract.ts'
import type { OptionSchema, OptionSchemas } from '../../core/options/schema.ts'
import type { ChainEntry } from '../../core/catalogue/settings.ts'
import type { Report } from '../report.ts'
import type { Source } from '../files/source.ts'

/** Plugins by name. */
export type Plugins = ReadonlyMap<string, Plugin>

/** What reading a chain needs to know. */
export interface ChainSurroundings {
  plugins: Plugins
  /** The plugins that could not be loaded, by name, with the reason. This has been reported already. */
  unusable: ReadonlyMap<string, string>
}

/** Reads the chain; leaves faulty entries out. An entry is `- name: {options}`, or `- name` alone. */
export function readChain(
  entries: readonly unknown[],
  { plugins, unusable }: ChainSurroundings,
  source: Source,
  report: Report
): ChainEntry[] {
  const chain: ChainEntry[] = []
  const seen = new Set<string>()
  for (const [index, entry] of entries.entries()) {
    const path = ['chain', index]
    if (!report.sound(...path)) continue
    const name = nameOf(entry)
    if (name === undefined) {
      report.value(path, 'must be one plugin with its options: "- name: {}"')
      continue
    }
    const alone = typeof entry === 'string'
    const at = alone ? path : [...path, name]
    const plugin = plugins.get(name)
    if (unusable.has(name)) continue
    if (!plugin) report.key(at, `no plugin ${report.show(at, name)}${suggestion(name, [...plugins.keys()])}`)
    else if (seen.has(name)) report.key(at, 'stands in the chain already: a plugin stands in it once')
    if (!plugin || seen.has(name)) continue
    seen.add(name)
    const pointer = at.reduce<string>(below, '')
    const options = alone ? undefined : (entry as Record<string, unknown>)[name]
    const { value, faults } = checkerOf(plugin.options, plugin.required)(options, source.origin(pointer))
    for (const fault of faults) report.fault(fault, pointer)
    if (faults.length === 0)
      chain.push({
        plugin: name,
        options: withPaths(value, plugin.options, (option) => report.folder([...at, option])),
        place: placeOf(source.position(pointer, 'key'))
      })
  }
  return chain
}

/** Returns the options with absolute paths; `folder` is that to which the path in an option is relative. */
function withPaths(values: object, options: OptionSchemas, folder: (option: string) => string): object {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]: [string, unknown]) => {
      const option = options[name]
      const isPath =
        option?.type === 'string' &&
        option.format === 'path' &&
        typeof value === 'string' &&
        !option.words?.includes(value)
      return [name, isPath ? resolve(folder(name), value) : value]
    })
  )
}

function nameOf(entry: unknown): string | undefined {
  if (typeof entry === 'string') return entry
  const names = isMap(entry) ? Object.keys(entry) : []
  return names.length === 1 ? names[0] : undefined
}

/** Makes a schema of the chain, which tells where its options have secrets. */
export function chainSchema(chain: readonly ChainEntry[], plugins: Plugins): OptionSchema {
  const used = chain.flatMap(({ plugin: name }) => {
    const plugin = plugins.get(name)
    return plugin ? [[name, { type: 'object', description: plugin.summary, properties: plugin.options }] as const] : []
  })
  return {
    type: 'array',
    description: '',
    items: { type: 'object', description: '', properties: Object.fromEntries(used) }
  }
}
