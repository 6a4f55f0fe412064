// X1: what translation adds to a stream: the load of S1, by clients of the upstream's protocol and by others.
import { contest, cpuReport, ratios } from './contest.ts'
import type { Rig } from './contest.ts'
import type { Contestant } from './contestant.ts'
import type { Report } from './report.ts'
import { steadyStreams } from './s1.ts'
import { startSluice } from './sluice.ts'

/** How much a translated event may cost, as a multiple of one that is passed on. */
const goal = 1.6

export const title = 'X1 translation: the streams of S1 from a chat upstream, to clients that speak chat and Messages'

/** Runs it: both kinds of clients ask one gateway, in turn. */
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
