// Requests that race over three gateways, and over three of two workers each, on limits and budgets of one key: what is
// admitted is what one process admits, by an oracle of its own, and each has its charge.
import t from 'tap'
import { askPatiently, Fleet, fleetMissing } from '../kit/fleet.ts'
import { brokenIn } from '../kit/cluster-money.ts'
import { eventually } from '../kit/probe.ts'
import { PlannedUpstream } from '../money/planned.ts'
import { callers, race } from '../money/races.ts'
import { configOf, long } from '../money/rig.ts'

t.setTimeout(long ? 1_800_000 : 600_000)

const [each, all] = long ? [1000, 10_000] : [60, 200]
for (const workers of [1, 2])
  t.test(
    `what races over three gateways${workers > 1 ? ` of ${workers} workers` : ''} is admitted as by one, and charged once`,
    { skip: fleetMissing },
    async (t) => {
      const upstream = await PlannedUpstream.start(t)
      const fleet = await Fleet.start(t, { config: configOf([upstream], { workers, ...callers() }) })
      await race(t, {
        upstream,
        each,
        all,
        ask: (index, plan, how) => askPatiently(fleet.nodes[index % fleet.nodes.length]!.url, plan, how),
        settled: () => fleet.noHolds(30_000),
        journal: () => fleet.journal()
      })
      const ofWorkers = new Set((await fleet.journal()).map(({ node }) => node.includes('/')))
      t.same([...ofWorkers], [workers > 1], 'each node that serves has charged for itself')
      await eventually(async () => Object.keys(await fleet.slots()).length === 0, 10_000)
      t.same(await brokenIn(fleet.direct), [], 'the book is in order')
    }
  )
