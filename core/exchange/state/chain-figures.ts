// What each plugin of the chain takes and refuses: figures of the last minutes, kept over reloads.
import type { ErrorCode, GatewayError } from '../../errors.ts'
import { pluginThatThrew } from '../../errors.ts'
import type { LiveExchange } from './exchange.ts'

/** The figures are of so many minutes, the present one included. */
export const figureMinutes = 10

/** Times are counted by microseconds: exactly up to 8, then in eighths of a power of two, up to half an hour. */
const buckets = 8 + 28 * 8

/** What a plugin took and refused: numbers that can be added up, and sent to another thread. */
export interface PluginTally {
  readonly exchanges: number
  readonly answered: number
  /** How many exchanges took how long, by the bucket. */
  readonly times: Uint32Array
  readonly refused: ReadonlyMap<string, number>
}

/** The tallies of one engine, by the name of the plugin. */
export type ChainTallies = ReadonlyMap<string, PluginTally>

/** One minute of one plugin. */
class Minute implements PluginTally {
  number = -1
  exchanges = 0
  answered = 0
  readonly times = new Uint32Array(buckets)
  readonly refused = new Map<ErrorCode, number>()

  begin(number: number): void {
    this.number = number
    this.exchanges = 0
    this.answered = 0
    this.times.fill(0)
    this.refused.clear()
  }
}

/** What a plugin took and refused in the last {@link figureMinutes}. */
export interface PluginFigures {
  /** Those that it took part in. */
  exchanges: number
  /** Milliseconds in its hooks together, per exchange; null when there was none. */
  p50Ms: number | null
  p99Ms: number | null
  /** Exchanges that it answered in the place of an upstream. */
  answered: number
  /** Exchanges that ended with an error of the plugin, by its code, the most frequent first. */
  refused: { code: string; count: number }[]
}

/** The figures of all plugins that take part in exchanges. A name has some 10 KB. */
export class ChainFigures {
  readonly #plugins = new Map<string, Minute[]>()

  /** Counts an exchange that is over. `error`: what it ended with. */
  note({ views, times }: LiveExchange, error: GatewayError | undefined, now = performance.now()): void {
    const number = Math.floor(now / 60_000)
    for (let i = 0; i < views.length; i++) {
      const { plugin, tookMs } = views[i]!
      const minute = this.#minute(plugin, number)
      minute.exchanges++
      minute.times[bucketOf(tookMs)]!++
    }
    if (times.answeredBy !== undefined) this.#minute(times.answeredBy, number).answered++
    const refusedBy = pluginThatThrew(error)
    if (refusedBy === undefined) return
    const { refused } = this.#minute(refusedBy, number)
    refused.set(error!.code, (refused.get(error!.code) ?? 0) + 1)
  }

  /** What each plugin took and refused in these minutes. */
  tallies(now = performance.now()): ChainTallies {
    const since = Math.floor(now / 60_000) - figureMinutes
    return new Map(
      Array.from(this.#plugins, ([name, minutes]) => [name, tallyOf(minutes.filter(({ number }) => number > since))])
    )
  }

  #minute(plugin: string, number: number): Minute {
    let minutes = this.#plugins.get(plugin)
    if (!minutes) this.#plugins.set(plugin, (minutes = Array.from({ length: figureMinutes }, () => new Minute())))
    const minute = minutes[number % figureMinutes]!
    if (minute.number !== number) minute.begin(number)
    return minute
  }
}

/** The figures of a plugin by the tallies of all engines. */
export function figuresOf(plugin: string, all: readonly ChainTallies[]): PluginFigures {
  const { exchanges, answered, times, refused } = tallyOf(all.flatMap((tallies) => tallies.get(plugin) ?? []))
  return {
    exchanges,
    p50Ms: quantile(times, exchanges, 0.5),
    p99Ms: quantile(times, exchanges, 0.99),
    answered,
    refused: [...refused].map(([code, count]) => ({ code, count })).sort((a, b) => b.count - a.count)
  }
}

function tallyOf(all: readonly PluginTally[]): PluginTally {
  const times = new Uint32Array(buckets)
  const refused = new Map<string, number>()
  for (const one of all) {
    for (const [bucket, count] of one.times.entries()) times[bucket]! += count
    for (const [code, count] of one.refused) refused.set(code, (refused.get(code) ?? 0) + count)
  }
  const sum = (name: 'exchanges' | 'answered'): number => all.reduce((total, one) => total + one[name], 0)
  return { exchanges: sum('exchanges'), answered: sum('answered'), times, refused }
}

function bucketOf(ms: number): number {
  const us = Math.min(Math.max(0, Math.floor(ms * 1000)), 2 ** 31 - 1)
  if (us < 8) return us
  const power = 31 - Math.clz32(us)
  return 8 + (power - 3) * 8 + ((us >> (power - 3)) & 7)
}

/** The milliseconds in the midst of a bucket. */
function middleOf(bucket: number): number {
  if (bucket < 8) return (bucket + 0.5) / 1000
  const power = 3 + ((bucket - 8) >> 3)
  const width = 2 ** (power - 3)
  return (2 ** power + ((bucket & 7) + 0.5) * width) / 1000
}

/** Exact to a sixteenth. */
function quantile(times: Uint32Array, count: number, share: number): number | null {
  if (count === 0) return null
  let before = 0
  for (const [bucket, many] of times.entries()) {
    before += many
    if (before >= count * share) return Number(middleOf(bucket).toPrecision(3))
  }
  return null
}
