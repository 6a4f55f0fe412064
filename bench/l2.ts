// L2: what the request log, in the store and as lines in a file, adds to the CPU time of a request.
import { contest, cpuReport } from './contest.ts'
import type { Rig } from './contest.ts'
import { smallJson } from './j1.ts'
import { start } from './line-up.ts'
import type { Report } from './report.ts'
import { startSluice } from './sluice.ts'

export const title = 'L2 request log: the load of J1 without and with it'

/** Runs it. */
export async function run(rig: Rig): Promise<Report> {
  await using gateways = await start([
    () => startSluice(rig, { name: 'without log', without: ['log'] }),
    () => startSluice(rig, { name: 'with log' })
  ])
  return cpuReport('l2', title, smallJson, await contest(rig, 'l2', smallJson, gateways.list), 'difference')
}
