// L1: what a hundred thousand keys with limits and budgets add to the CPU time of a request.
import { contest, cpuReport } from './contest.ts'
import type { Rig } from './contest.ts'
import type { Contestant } from './contestant.ts'
import { smallJson } from './j1.ts'
import { start } from './line-up.ts'
import type { Report } from './report.ts'
import { startSluice } from './sluice.ts'

const storedKeys = 100_000
/** How many of the keys are used, one after another. */
const busyKeys = 10_000

export const title = 'L1 limits: the load of J1 without limits, with them, and with 100,000 keys of which 10,000 ask'

/** Runs the scenario. No contestant has a request log, so the difference comes from limits, ledger and keys. */
export async function run(rig: Rig): Promise<Report> {
  await using gateways = await start([
    () => startSluice(rig, { name: 'one key, no limits', without: ['quota', 'ratelimit', 'log'] }),
    () => startSluice(rig, { name: 'one key, rates and budgets', without: ['log'] }),
    () => many(rig)
  ])
  return cpuReport('l1', title, smallJson, await contest(rig, 'l1', smallJson, gateways.list), 'difference')
}

async function many(rig: Rig): Promise<Contestant> {
  return {
    ...(await startSluice(rig, { name: '100,000 keys, rates and budgets', without: ['log'], storedKeys })),
    keys: busyKeys
  }
}
