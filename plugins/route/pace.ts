// How quick a channel was of late, and how often it failed: figures of its last attempts, for operators.
import type { Attempt, ChannelHealth } from '../../core/contract/contract.ts'

/** How many attempts are remembered, and for how long, in milliseconds. */
const mostAttempts = 256
const rememberedMs = 300_000

/** Marks an attempt without the figure. */
const none = -1

/** The last attempts of one channel, in rings of numbers, so that noting one makes no garbage. */
export class Pace {
  readonly #at = new Float64Array(mostAttempts)
  readonly #firstEvents = new Float32Array(mostAttempts)
  readonly #tokens = new Float32Array(mostAttempts)
  readonly #streamed = new Float32Array(mostAttempts)
  readonly #failed = new Uint8Array(mostAttempts)
  #count = 0

  /** Notes an attempt that is over. `failed`: because of the upstream. */
  note({ startedAt, firstByteAt, endedAt, usage }: Attempt, now: number, streamed: boolean, failed: boolean): void {
    const place = this.#count++ % mostAttempts
    this.#at[place] = now
    this.#failed[place] = failed ? 1 : 0
    this.#firstEvents[place] = firstByteAt === undefined ? none : firstByteAt - startedAt
    const counted = streamed && firstByteAt !== undefined && usage?.source === 'upstream'
    this.#tokens[place] = counted ? usage.usage.output : 0
    this.#streamed[place] = counted ? (endedAt ?? now) - firstByteAt : 0
  }

  report(now: number): Pick<ChannelHealth, 'recent' | 'error_rate' | 'first_event_ms' | 'tokens_per_second'> {
    const places = Array.from({ length: Math.min(this.#count, mostAttempts) }, (_, place) => place).filter(
      (place) => now - this.#at[place]! <= rememberedMs
    )
    const sum = (list: Float32Array | Uint8Array): number => places.reduce((total, place) => total + list[place]!, 0)
    const firstEvents = places
      .map((place) => this.#firstEvents[place]!)
      .filter((ms) => ms !== none)
      .sort((a, b) => a - b)
    const part = (share: number): number => tenths(firstEvents[Math.ceil(firstEvents.length * share) - 1]!)
    const streamed = sum(this.#streamed)
    return {
      recent: places.length,
      error_rate: places.length === 0 ? null : Math.round((sum(this.#failed) / places.length) * 1000) / 1000,
      first_event_ms: firstEvents.length === 0 ? null : { p50: part(0.5), p95: part(0.95) },
      tokens_per_second: streamed === 0 ? null : tenths((sum(this.#tokens) / streamed) * 1000)
    }
  }
}

function tenths(value: number): number {
  return Math.round(value * 10) / 10
}
