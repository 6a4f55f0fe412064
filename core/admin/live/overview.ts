// The route of figures over time: requests, errors, tokens, cost and time to the first event, in steps of a range.
import { convertUnit } from '../../options/units.ts'
import { Traffic, trafficKept, trafficSpans } from '../../store/traffic.ts'
import type { TrafficSpan } from '../../store/traffic.ts'
import type { AdminParts, Answer, Call, Route } from '../api/contract.ts'
import { invalidField, readTime, shown } from '../api/query.ts'
import { count, listOf, nullable, object, said, text, time } from '../api/shape.ts'
import { showTraffic, trafficShapes } from './show-traffic.ts'

/** The most points of an answer, and about how many it has when no step is asked for. */
const mostPoints = 600
const fewPoints = 120
/** The steps that are chosen from, in milliseconds. */
const minute = 60_000
const hour = 3_600_000
const steps = [1, 2, 5, 10, 15, 30].map((n) => n * minute).concat([1, 2, 3, 6, 12, 24, 48, 168].map((n) => n * hour))

const overviewShape = object({
  data: listOf(object({ time: said(time, 'When the step begins.'), ...trafficShapes })),
  next: said(nullable(text), 'Always null.'),
  total: object(trafficShapes),
  since: said(time, 'The beginning of the first step.'),
  until: said(time, 'The end of the last step.'),
  step_s: said(count, 'Seconds of a step; more than asked for where the range is too long or too long ago for it.')
})

export const overviewRoute: Route = {
  method: 'GET',
  path: '/admin/v1/overview',
  summary: 'Adds up requests, errors, tokens, cost and time to the first event over time',
  access: { needs: 'see', tenant: { in: 'query', closed: ['channel'] } },
  query: ['since', 'until', 'step', 'tenant', 'model', 'channel'],
  answers: { 200: overviewShape },
  handle: showOverview
}

/** Shows figures over time: of the last hour when no range is asked for. */
async function showOverview({ query }: Call, { store }: AdminParts): Promise<Answer> {
  const now = Date.now()
  const until = readTime(query, 'until') ?? now
  const since = readTime(query, 'since') ?? until - hour
  if (since >= until) throw invalidField('since', 'since is not before until: give an earlier time')
  const { step, span } = stepOf(since, until, readStep(query), now)
  const unit = trafficSpans[span]
  const [first, end] = [Math.floor(since / step) * step, Math.ceil(until / step) * step]
  const points = await store.traffic({
    tenant: query.get('tenant'),
    model: query.get('model'),
    channel: query.get('channel'),
    span,
    from: first / unit,
    to: end / unit,
    every: step / unit
  })
  const total = new Traffic()
  const at = new Map(points.map(({ number, sums }) => [number, Traffic.of(sums)]))
  for (const traffic of at.values()) total.join(traffic)
  const data = Array.from({ length: (end - first) / step }, (_, number) => ({
    time: new Date(first + number * step).toISOString(),
    ...showTraffic(at.get(number) ?? nothing)
  }))
  const range = { since: new Date(first).toISOString(), until: new Date(end).toISOString(), step_s: step / 1000 }
  return { json: { data, next: null, total: showTraffic(total), ...range } }
}

const nothing = new Traffic()

/** The step of a range, and the sums that it is made of. Minutes are kept for some days only. */
function stepOf(
  since: number,
  until: number,
  asked: number | undefined,
  now: number
): { step: number; span: TrafficSpan } {
  const range = until - since
  if (range / mostPoints > steps.at(-1)!)
    throw invalidField('since', 'since and until are too far apart: ask for a shorter range')
  const least = asked ?? range / fewPoints
  const old = since < now - trafficKept.minute
  const step =
    steps.find((one) => one >= least && range / one <= mostPoints - 1 && (one >= hour || !old)) ?? steps.at(-1)!
  return { step, span: step >= hour ? 'hour' : 'minute' }
}

function readStep(query: Call['query']): number | undefined {
  const text = query.get('step')
  if (text === undefined) return undefined
  const step = convertUnit('duration', text)
  if (typeof step === 'number' && step >= minute) return step
  throw invalidField('step', `step is ${shown(text)}: it must be a duration of a minute or more like 5m or 1h`)
}
