// Workers and gateways of workers that end under a load of everything, at every step and in every way: whoever saw an
// end was charged exactly once, nobody twice, and what they had taken comes back. Long: SLUICE_KILLS=300.
import t from 'tap'
import { workerKills } from './killing.ts'

const kills = process.env['SLUICE_KILLS']
const seed = Number(process.env['SLUICE_SEED'] ?? 20261128)
t.setTimeout(kills === undefined ? 600_000 : 7_200_000)

t.test('ends of workers and of their gateway lose nothing, double nothing and leave nothing open', async (t) => {
  const { counts, ...found } = await workerKills(t, {
    kills: Number(kills ?? 0),
    seed,
    ...(kills === undefined && {
      plan: [
        'end a worker at a step',
        'end a worker anywhere',
        'end a worker at a hook',
        'end a worker anywhere, and kill the process',
        'end a worker at a step'
      ]
    })
  })
  t.comment(JSON.stringify(counts))
  t.ok(Number(counts['answered wholly']) > 0)
  for (const [name, list] of Object.entries(found)) t.same(list.slice(0, 3), [], name)
})
