// L1: what limits, budgets and the ledger add to the CPU time of a request.
import { contest, cpuReport } from './contest.ts'
import type { Rig } from './contest.ts'
import { smallJson } from './j1.ts'
import { start } from './line-up.ts'
import type { Report } from './report.ts'
import { startSluice } from './sluice.ts'

export const title = 'L1 limits: the load of J1 without limits, and with them'

/** Runs the scenario. No contestant has a request log, so the difference comes from limits and ledger. */
export async function run(rig: Rig): Promise<Report> {
  await using gateways = await start([
    () => startSluice(rig, { name: 'one key, no limits', without: ['quota', 'ratelimit', 'log'] }),
    () => startSluice(rig, { name: 'one key, rates and budgets', without: ['log'] })
  ])
  return cpuReport('l1', title, smallJson, await contest(rig, 'l1', smallJson, gateways.list), 'difference')
}
