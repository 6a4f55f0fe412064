// Shows traffic: in ticks of live streams, and in figures over time.
import { formatDollars } from '../../money/money.ts'
import type { Traffic } from '../../store/traffic.ts'
import { count, mapOf, nano, nullable, number, said, usd } from '../api/shape.ts'
import type { Shape } from '../api/shape.ts'

/** Traffic as it is shown. */
export interface ShownTraffic {
  readonly requests: number
  readonly errors: number
  readonly codes: Readonly<Record<string, number>>
  readonly input_tokens: number
  readonly output_tokens: number
  readonly cost_usd: string
  readonly cost_nano: string
  readonly first_event_p50_ms: number | null
  readonly first_event_p95_ms: number | null
}

/** The shapes of its members. */
export const trafficShapes: Readonly<Record<keyof ShownTraffic, Shape>> = {
  requests: said(count, 'Requests that ended.'),
  errors: said(count, 'Of these, those that ended with an error, also of the client.'),
  codes: said(mapOf(count), 'Errors by their codes.'),
  input_tokens: said(count, 'Cached tokens included.'),
  output_tokens: count,
  cost_usd: usd,
  cost_nano: nano,
  first_event_p50_ms: said(nullable(number), 'Milliseconds to the first event of an answer, within a tenth.'),
  first_event_p95_ms: nullable(number)
}

/** Shows sums. */
export function showTraffic(traffic: Traffic): ShownTraffic {
  const { requests, errors, codes, input, output, cost, first } = traffic
  return {
    requests,
    errors,
    codes: Object.fromEntries([...codes].sort(([one], [other]) => (one < other ? -1 : 1))),
    input_tokens: input,
    output_tokens: output,
    cost_usd: formatDollars(cost),
    cost_nano: String(cost),
    first_event_p50_ms: first.quantile(0.5),
    first_event_p95_ms: first.quantile(0.95)
  }
}
