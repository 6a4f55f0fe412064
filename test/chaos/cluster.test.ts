// Kills over gateways that share a book, PostgreSQL and Redis, under a load of everything. Long: SLUICE_KILLS=300.
import t from 'tap'
import { fleetMissing } from '../kit/fleet.ts'
import { clusterKills } from './cluster.ts'

const kills = process.env['SLUICE_KILLS']
const seed = Number(process.env['SLUICE_SEED'] ?? 20261127)
t.setTimeout(kills === undefined ? 600_000 : 7_200_000)

t.test(
  'kills of nodes and servers lose nothing, double nothing and leave nothing open',
  { skip: fleetMissing },
  async (t) => {
    const { counts, ...found } = await clusterKills(t, {
      kills: Number(kills ?? 0),
      seed,
      width: 1,
      ...(kills === undefined && {
        plan: ['kill a node', 'kill Redis', 'kill PostgreSQL', 'kill a node', 'cut all connections to PostgreSQL']
      })
    })
    t.comment(JSON.stringify(counts))
    t.ok(Number(counts['answered wholly']) > 0)
    for (const [name, list] of Object.entries(found)) t.same(list.slice(0, 3), [], name)
  }
)
