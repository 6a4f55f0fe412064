// B1: large answers that are not text: CPU time per request for 10 MB of speech.
import { contest, cpuReport } from './contest.ts'
import type { Rig, Workload } from './contest.ts'
import { start, starters } from './line-up.ts'
import type { Report } from './report.ts'

const connections = 4
const answerSize = 10_000_000

const speech: Workload = {
  unit: 'request',
  behaviour: () => ({ kind: 'sound', size: answerSize }),
  job: ({ warm, seconds }, { port, pid }) => ({
    kind: 'json',
    port,
    pid,
    connections,
    requests: { speech: true },
    answerSize,
    warm,
    seconds
  })
}

export const title = 'B1 sound: 10 MB of speech out, 4 connections; every byte is checked'

/** Runs the scenario. nginx passes answers on without buffering, because players begin with the first bytes. */
export async function run(rig: Rig): Promise<Report> {
  await using gateways = await start(starters(rig, true, { endpoints: ['audio'] }))
  return cpuReport('b1', title, speech, await contest(rig, 'b1', speech, gateways.list))
}
