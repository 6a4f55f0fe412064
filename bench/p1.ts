// P1: plugins with a single empty hook: what each costs per request and per event.
import { contest } from './contest.ts'
import type { Rig, Workload } from './contest.ts'
import type { Contestant } from './contestant.ts'
import { smallJson } from './j1.ts'
import { start } from './line-up.ts'
import type { Report } from './report.ts'
import { steadyStreams } from './s1.ts'
import { startSluice } from './sluice.ts'
import { show, slope, spread } from './spread.ts'
import type { Spread } from './spread.ts'

/** Extra plugins, each with an empty `onRequest` and no other hook. */
const extras = [0, 5, 20]

export const title = 'P1 plugins: the loads of J1 and S1 with 0, 5 and 20 extra plugins'

/** Runs it. */
export async function run(rig: Rig): Promise<Report> {
  await using gateways = await start(
    extras.map((extra) => () => startSluice(rig, { name: `Sluice + ${extra}`, extraPlugins: extra }))
  )
  const request = await cost(rig, smallJson, gateways.list)
  const event = await cost(rig, steadyStreams, gateways.list)
  return {
    id: 'p1',
    title,
    columns: ['extra plugins', 'CPU µs per request', 'CPU µs per event'],
    rows: [
      ...extras.map((extra, at) => [String(extra), show(request.spreads[at]!, 1), show(event.spreads[at]!, 1)]),
      ['each adds', show(request.each, 2), show(event.each, 2)]
    ],
    notes: [],
    problems: [...request.problems, ...event.problems]
  }
}

async function cost(
  rig: Rig,
  workload: Workload,
  gateways: readonly Contestant[]
): Promise<{ spreads: Spread[]; each: Spread; problems: string[] }> {
  const { samples, problems } = await contest(rig, 'p1', workload, gateways)
  const byGateway = [...samples.values()]
  const slopes = byGateway[0]!.map((_, round) => slope(extras.map((extra, at) => [extra, byGateway[at]![round]!.cpu])))
  return { spreads: byGateway.map((of) => spread(of.map(({ cpu }) => cpu))), each: spread(slopes), problems }
}
