// The presets: settings of well-known upstreams (presets.json), for channels that say `preset`.
import { isMap } from '../../core/options/schema-check.ts'
import presets from './presets.json' with { type: 'json' }

/** What a preset says of an upstream, and who says so. */
interface Known {
  readonly protocol: string
  readonly base_url?: string
  readonly endpoints?: readonly string[]
  /** The page of its vendor. */
  readonly source: string
  /** The day on which all of it was held against that page; absent when it was not. */
  readonly checked?: string
}

const all: Readonly<Record<string, Known>> = presets

const known: Readonly<Record<string, object>> = Object.fromEntries(
  Object.entries(all).map(([name, { source: _source, checked: _checked, ...settings }]) => [name, settings])
)

/** The names of all presets. */
export const presetNames: readonly string[] = Object.keys(known)

/** Whether the upstream of a preset is on the operator's own machine. */
export function isOwnPreset(name: string): boolean {
  return Object.hasOwn(known, name) && 'private' in known[name]!
}

/**
 * Adds to the entries of the section `channels` what their presets say and they do not, also inside of maps such as
 * traits and query. Entries that are not maps stay as they are.
 */
export function withPresets(channels: unknown): unknown {
  if (!isMap(channels)) return channels
  return Object.fromEntries(
    Object.entries(channels).map(([name, entry]) => {
      const preset =
        isMap(entry) && typeof entry['preset'] === 'string' && Object.hasOwn(known, entry['preset'])
          ? known[entry['preset']]
          : undefined
      return [name, preset && isMap(entry) ? withPreset(preset, entry) : entry]
    })
  )
}

function withPreset(preset: object, entry: Record<string, unknown>): Record<string, unknown> {
  const made: Record<string, unknown> = { ...preset }
  for (const [key, value] of Object.entries(entry))
    made[key] = isMap(value) && isMap(made[key]) ? { ...made[key], ...value } : value
  return made
}

/** The table of all presets, with their sources, in Markdown. */
export function presetsTable(): string {
  const rows = Object.entries(all).map(
    ([name, { protocol, base_url: address, endpoints = ['chat'], source, checked }]) => {
      const where = address === undefined ? 'is said at the channel' : `\`${address}\``
      return `| \`${name}\` | ${protocol} | ${where} | ${endpoints.join(', ')} | [page](${source}) | ${checked ?? ''} |`
    }
  )
  const head = ['| preset | protocol | address | endpoints | source | checked |', '|---|---|---|---|---|---|']
  return [...head, ...rows, ''].join('\n')
}
