// The presets: settings of well-known upstreams (presets.json), for channels that say `preset`. `source` of each is the
// page of its vendor that says so.
import { isMap } from '../core/options/schema-check.ts'
import presets from './presets.json' with { type: 'json' }

const known: Readonly<Record<string, object>> = Object.fromEntries(
  Object.entries(presets).map(([name, { source: _, ...settings }]) => [name, settings])
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
