// What is known of well-known upstreams (presets.json), for channels that say `preset`.
import { isMap } from '../core/options/schema-check.ts'
import presets from './presets.json' with { type: 'json' }

const known: Readonly<Record<string, object>> = presets

/** What a channel may name. */
export const presetNames: readonly string[] = Object.keys(known)

/** The section `channels` with what the presets of its entries say and the entries themselves do not. Entries of any other form stay as they are. */
export function withPresets(channels: unknown): unknown {
  if (!isMap(channels)) return channels
  return Object.fromEntries(Object.entries(channels).map(([name, entry]) => {
    const preset = isMap(entry) && typeof entry['preset'] === 'string' && Object.hasOwn(known, entry['preset']) ? known[entry['preset']] : undefined
    return [name, preset ? { ...preset, ...(entry as object) } : entry]
  }))
}
