// The section `plugins` of gateway.yaml: plugins from packages, and from files beside the configuration.
import { dirname, resolve } from 'node:path'
import { below, isMap } from '../../core/options/schema-check.ts'
import type { OptionSchema } from '../../core/options/schema.ts'
import type { Files } from '../files/files.ts'
import type { Source } from '../files/source.ts'
import type { Report } from '../report.ts'

export const pluginsShape = {
  type: 'object',
  description: 'Plugins beside the shipped ones, by the name they have in the chain.',
  default: {},
  propertyNames: {
    pattern: '^[a-z][a-z0-9]*(-[a-z0-9]+)*$',
    patternErrorMessage: 'a name of small letters, digits and single dashes, like my-guard'
  },
  additionalProperties: {
    type: 'string',
    minLength: 1,
    description:
      'A package that is installed beside this file (`"@acme/sluice-guard"`), or the path of a file, relative to this one (`./plugins/mine.ts`).'
  }
} as const satisfies OptionSchema

/** One entry: the plugin's name, and where it is loaded from. A path is absolute. */
export interface PluginSource {
  name: string
  from: string
  isFile: boolean
  /** The folder of the file with the entry, beside which packages are looked for. */
  folder: string
}

/** Reads the section before the configuration is checked. It reports no faults: loading the file finds them later. */
export function declaredPlugins(source: Source | undefined): PluginSource[] {
  const section = isMap(source?.value) ? source.value['plugins'] : undefined
  if (!source || !isMap(section)) return []
  return Object.entries(section).flatMap(([name, from]) =>
    typeof from === 'string' && from !== '' ? [sourceOf(dirname(source.file(below('/plugins', name))), name, from)] : []
  )
}

function sourceOf(folder: string, name: string, from: string): PluginSource {
  const isFile = /^\.{0,2}[/\\]|^[A-Za-z]:[/\\]/.test(from)
  return { name, from: isFile ? resolve(folder, from) : from, isFile, folder }
}

/** Reports the plugins that could not be loaded, and adds those that are files to `files`. */
export function checkPlugins(
  section: Readonly<Record<string, string>>,
  unusable: ReadonlyMap<string, string>,
  files: Files,
  report: Report
): void {
  for (const [name, from] of Object.entries(section)) {
    const source = sourceOf(report.folder(['plugins', name]), name, from)
    if (source.isFile) files.read(source.from)
    const problem = unusable.get(name)
    if (problem !== undefined) report.value(['plugins', name], problem)
  }
}
