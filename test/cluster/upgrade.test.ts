// A rolling upgrade: gateways that are restarted one after another behind HAProxy, under load, and nobody notices.
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { key, Load } from '../chaos/load.ts'
import { brokenIn } from '../kit/cluster-money.ts'
import { balancedMissing, Fleet } from '../kit/fleet.ts'

const long = process.env['SLUICE_LONG'] !== undefined
const [rounds, rate] = long ? [10, 100] : [1, 6]
t.setTimeout(long ? 3_600_000 : 600_000)

t.test(
  'gateways that are restarted one after another behind HAProxy fail no request',
  { skip: balancedMissing },
  async (t) => {
    const limits = { rpm: 1_000_000, tpm: 1_000_000_000, concurrency: 5000 }
    const fleet = await Fleet.start(t, {
      balanced: true,
      config: {
        // On a busy machine connections wait for long until they are accepted.
        limits: { lame_duck: long ? '10s' : '20s', drain_timeout: '300s' },
        channels: { demo: { protocol: 'simulator', models: { demo: 'demo' } } },
        models: { demo: { price: { input: 1, output: 2 }, context_window: 100_000 } },
        tenants: { acme: { budget: { usd: 1_000_000, per: 'month' } } },
        keys: [{ name: 'test', key, tenant: 'acme', limits }],
        chain: ['auth', 'quota', 'ratelimit', 'route', 'protocol-translate', 'usage-meter', 'log'].map((name) => ({
          [name]: name === 'log' ? { sink: 'none' } : {}
        }))
      }
    })
    const load = new Load(fleet.url, rate, { generation: 1, endOf: () => undefined })
    await sleep(500)
    for (let round = 0; round < rounds; round++)
      for (const node of fleet.nodes) {
        await node.end('SIGTERM')
        t.match(node.output, /"the gateway has stopped"/)
        await node.start()
        await sleep(2000)
      }
    await load.end()
    const { answered } = load.tally
    t.comment(`${answered} answers over ${rounds * fleet.nodes.length} restarts`)
    t.ok(answered > 0)
    // On a busy machine PostgreSQL is silent for longer than gateways wait.
    t.strictSame(
      load.noticed.filter(({ reason }) => !reason.includes('billing_unavailable')),
      []
    )

    const ends = (await fleet.journal()).filter(({ kind }) => kind === 'settle')
    const charged = ends.reduce((sum, { amount }) => sum + amount, 0n)
    const due = [...load.due.values(), ...load.turns].reduce((sum, amount) => sum + amount, 0n)
    t.equal(charged, due, 'charged is what was answered')
    const names = ends.map(({ request_id, part }) => `${request_id}/${part}`)
    t.equal(new Set(names).size, names.length, 'once')
    t.same(await brokenIn(fleet.direct), [], 'the book is in order')
  }
)
