// The figures that the overview draws: of ticks of the live stream, or of the points of a range.
import type { Tick } from '../../live.ts'

/** A point of `GET /admin/v1/overview`, and its total. */
interface Sums {
  readonly requests: number
  readonly errors: number
  readonly codes: Readonly<Record<string, number>>
  readonly input_tokens: number
  readonly output_tokens: number
  readonly cost_nano: string
  readonly first_event_p50_ms: number | null
  readonly first_event_p95_ms: number | null
}

/** What `GET /admin/v1/overview` answers. */
export interface Overview {
  readonly data: readonly (Sums & { readonly time: string })[]
  readonly total: Sums
  readonly step_s: number
}

/** What is drawn. Rates are per second, `cost` is US dollars per hour; null is drawn as a gap. */
export interface Figures {
  /** Unix seconds. */
  readonly times: readonly number[]
  readonly requests: readonly (number | null)[]
  readonly errors: readonly (number | null)[]
  readonly p50: readonly (number | null)[]
  readonly p95: readonly (number | null)[]
  readonly cost: readonly (number | null)[]
  readonly total: {
    readonly requests: number
    readonly errors: number
    readonly codes: Readonly<Record<string, number>>
    readonly input: number
    readonly output: number
    /** Nano-dollars. */
    readonly cost: bigint
    readonly p50: number | null
    readonly p95: number | null
  }
  /** How long the range is. */
  readonly seconds: number
}

/** Seconds between two ticks from which on there is a gap. */
const gap = 3

/** What of the live stream is drawn, in seconds. */
const windowSeconds = 300

/** The figures of ticks. Percentiles of seconds cannot be added up: those of the whole are the middle ones of them. */
export function ofTicks(ticks: readonly Tick[]): Figures {
  const points: (readonly [time: number, tick: Tick | undefined])[] = []
  for (const tick of ticks) {
    const time = Date.parse(tick.at) / 1000
    const before = points.at(-1)?.[0]
    if (before !== undefined && time - before > gap) points.push([before + 1, undefined])
    points.push([time, tick])
  }
  // A window of the same length from the first tick on: what comes moves nothing.
  const newest = points.at(-1)?.[0]
  if (newest !== undefined && points[0]![0] > newest - windowSeconds)
    points.unshift([newest - windowSeconds, undefined])
  const each = (value: (tick: Tick) => number | null): (number | null)[] =>
    points.map(([, tick]) => (tick ? value(tick) : null))
  const codes: Record<string, number> = {}
  for (const tick of ticks)
    for (const [code, count] of Object.entries(tick.codes)) codes[code] = (codes[code] ?? 0) + count
  const sum = (value: (tick: Tick) => number): number => ticks.reduce((all, tick) => all + value(tick), 0)
  return {
    times: points.map(([time]) => time),
    requests: each(({ requests, ms }) => (requests * 1000) / ms),
    errors: each(({ errors, ms }) => (errors * 1000) / ms),
    p50: each((tick) => tick.first_event_p50_ms),
    p95: each((tick) => tick.first_event_p95_ms),
    cost: each(({ cost_nano, ms }) => ((Number(cost_nano) / 1e9) * 3_600_000) / ms),
    total: {
      requests: sum(({ requests }) => requests),
      errors: sum(({ errors }) => errors),
      codes,
      input: sum((tick) => tick.input_tokens),
      output: sum((tick) => tick.output_tokens),
      cost: ticks.reduce((all, tick) => all + BigInt(tick.cost_nano), 0n),
      p50: middle(ticks.flatMap((tick) => tick.first_event_p50_ms ?? [])),
      p95: middle(ticks.flatMap((tick) => tick.first_event_p95_ms ?? []))
    },
    seconds: sum(({ ms }) => ms) / 1000
  }
}

/** The figures of a range. */
export function ofPoints({ data, total, step_s: step }: Overview): Figures {
  return {
    times: data.map(({ time }) => Date.parse(time) / 1000),
    requests: data.map(({ requests }) => requests / step),
    errors: data.map(({ errors }) => errors / step),
    p50: data.map((point) => point.first_event_p50_ms),
    p95: data.map((point) => point.first_event_p95_ms),
    cost: data.map(({ cost_nano }) => (Number(cost_nano) / 1e9) * (3600 / step)),
    total: {
      requests: total.requests,
      errors: total.errors,
      codes: total.codes,
      input: total.input_tokens,
      output: total.output_tokens,
      cost: BigInt(total.cost_nano),
      p50: total.first_event_p50_ms,
      p95: total.first_event_p95_ms
    },
    seconds: step * data.length
  }
}

function middle(values: readonly number[]): number | null {
  return [...values].sort((one, other) => one - other)[Math.floor(values.length / 2)] ?? null
}
