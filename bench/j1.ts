// J1: small JSON requests one after another on every connection: CPU time per request.
import { contest, cpuReport } from './contest.ts'
import type { Rig, Workload } from './contest.ts'
import { start, starters } from './line-up.ts'
import type { Report } from './report.ts'

const connections = 32
export const requestSize = 800
export const answerSize = 1200

/** 32 connections without pauses, 0.8 KB in, 1.2 KB out. */
export const smallJson: Workload = {
  unit: 'request',
  behaviour: () => ({ kind: 'json', size: answerSize }),
  job: ({ warm, seconds }, { port, pid, servers, keys }) => ({
    kind: 'json',
    port,
    pid,
    servers,
    connections,
    requests: { size: requestSize, keys },
    answerSize,
    warm,
    seconds
  }),
  ceiling: (rig) => ({
    behaviour: smallJson.behaviour(rig),
    job: smallJson.job(rig, { port: rig.upstream.port, pid: rig.upstream.child.pid })
  })
}

export const title = 'J1 small JSON: 0.8 KB in, 1.2 KB out, 32 connections'

/** Runs it. */
export async function run(rig: Rig): Promise<Report> {
  await using gateways = await start(starters(rig, false))
  return cpuReport('j1', title, smallJson, await contest(rig, 'j1', smallJson, gateways.list))
}
