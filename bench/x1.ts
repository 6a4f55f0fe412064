// X1: what translation adds to a stream: the load of S1, with clients of the upstream's protocol and of another one.
import { contest, cpuReport, ratios } from './contest.ts'
import type { Rig } from './contest.ts'
import type { Contestant } from './contestant.ts'
import type { Report } from './report.ts'
import { steadyStreams } from './s1.ts'
import { startSluice } from './sluice.ts'

/** The most that a translated event should cost, as a multiple of one that is not translated. */
const goal = 1.6

export const title = 'X1 translation: the streams of S1 from a chat upstream, to clients that speak chat and Messages'

/** Runs the scenario. Both kinds of clients use the same gateway, in turns. */
export async function run(rig: Rig): Promise<Report> {
  const sluice = await startSluice(rig)
  const passed: Contestant = { ...sluice, name: 'passed on' }
  const translated: Contestant = { ...sluice, name: 'translated', speaks: 'messages' }
  try {
    const outcome = await contest(rig, 'x1', steadyStreams, [passed, translated])
    const report = cpuReport('x1', title, steadyStreams, outcome)
    const { median } = ratios(outcome.samples.get(translated)!, outcome.samples.get(passed)!)
    return {
      ...report,
      notes: [
        ...report.notes,
        `A translated event takes ${median.toFixed(2)} × one that is passed on; the goal is ${goal} ×.`
      ]
    }
  } finally {
    await sluice.stop()
  }
}
