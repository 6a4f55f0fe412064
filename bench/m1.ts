// M1: large uploads: CPU time per request for a form with a file of 10 MB and the name of the model after it.
import { contest, cpuReport } from './contest.ts'
import type { Rig, Workload } from './contest.ts'
import { start, starters } from './line-up.ts'
import type { Report } from './report.ts'

const connections = 4
const upload = 10_000_000
const answerSize = 400

const uploads: Workload = {
  unit: 'request',
  behaviour: () => ({ kind: 'transcript', size: answerSize, upload }),
  job: ({ warm, seconds }, { port, pid }) => ({
    kind: 'json',
    port,
    pid,
    connections,
    requests: { upload },
    answerSize,
    warm,
    seconds
  })
}

export const title =
  'M1 uploads: a form with a file of 10 MB and the model behind it, 0.4 KB out, 4 connections; every byte is checked'

/** Runs it. */
export async function run(rig: Rig): Promise<Report> {
  await using gateways = await start(starters(rig, false, { endpoints: ['audio'] }))
  return cpuReport('m1', title, uploads, await contest(rig, 'm1', uploads, gateways.list))
}
