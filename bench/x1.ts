// X1: what translation adds to a stream: the load of S1, with clients of the upstream's protocol and of another one.
import { contest, cpuReport, ratios } from './contest.ts'
import type { Rig } from './contest.ts'
import type { Contestant } from './contestant.ts'
import type { Report } from './report.ts'
import { steadyStreams } from './s1.ts'
import { others, startSluice } from './sluice.ts'

/** The most that a translated event should cost, as a multiple of one that is not translated. */
const goal = 1.6

export const title = 'X1 translation: the streams of S1 from a chat upstream, to clients that speak chat and Messages'

/** Runs the scenario. Both kinds of clients use the same gateway, in turns. */
export async function run(rig: Rig): Promise<Report> {
  const gateways: Contestant[] = []
  try {
    for (const start of [() => startSluice(rig), ...others(rig)]) gateways.push(await start())
    const contestants = gateways.map((gateway, at): [Contestant, Contestant] => {
      const whose = at === 0 ? '' : ` by ${gateway.name}`
      return [
        { ...gateway, name: `passed on${whose}` },
        { ...gateway, name: `translated${whose}`, speaks: 'messages' }
      ]
    })
    const outcome = await contest(rig, 'x1', steadyStreams, contestants.flat())
    const report = cpuReport('x1', title, steadyStreams, outcome)
    const notes = contestants.map(([passed, translated], at) => {
      const { median } = ratios(outcome.samples.get(translated)!, outcome.samples.get(passed)!)
      const whose = at === 0 ? '' : ` by ${gateways[at]!.name}`
      return `A translated event takes ${median.toFixed(2)} × one that is passed on${whose}; the goal is ${goal} ×.`
    })
    return { ...report, notes: [...report.notes, ...notes] }
  } finally {
    await Promise.all(gateways.map((gateway) => gateway.stop()))
  }
}
