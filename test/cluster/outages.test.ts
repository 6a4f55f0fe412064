// What clients of gateways that share a store see when Redis is gone, connections run out, or a clock is wrong.
import { pathToFileURL } from 'node:url'
import { join } from 'node:path'
import pg from 'pg'
import t from 'tap'
import { brokenIn } from '../kit/cluster-money.ts'
import { askPatiently, Fleet, fleetMissing } from '../kit/fleet.ts'
import type { FleetNode } from '../kit/fleet.ts'
import { eventually } from '../kit/probe.ts'
import { PlannedUpstream } from '../money/planned.ts'
import type { Plan } from '../money/planned.ts'
import { ask, configOf, inParallel, key } from '../money/rig.ts'
import type { Seen } from '../money/rig.ts'

t.setTimeout(600_000)
const patience = 60_000

let made = 0

function plan(): Plan {
  return { id: `f${++made}`, units: { input: 10, output: 5 }, words: 2 }
}

const request = (node: FleetNode, name = 'test'): Promise<Seen> =>
  ask(node.url, plan(), { key: name, body: { max_tokens: 9 } })
/** Again while a busy machine's database is silent. */
const patiently = (node: FleetNode, name = 'test'): Promise<Seen> =>
  askPatiently(node.url, plan(), { key: name, body: { max_tokens: 9 } })

const statuses = (all: readonly Seen[]): string[] =>
  [...new Set(all.map(({ status, code }) => `${status} ${code ?? ''}`.trim()))].sort()

t.test('while Redis is gone each gateway does as `on_limits_unavailable` says', { skip: fleetMissing }, async (t) => {
  const upstream = await PlannedUpstream.start(t)
  const policies = ['share', 'refuse', 'allow'] as const
  const fleet = await Fleet.start(t, {
    config: configOf([upstream], { keys: [key('test', { limits: { rpm: 30 } }), key('free')] }),
    store: (index) => ({ on_limits_unavailable: policies[index] })
  })
  const [share, refuse, allow] = fleet.nodes as [FleetNode, FleetNode, FleetNode]
  t.equal((await patiently(share)).status, 200)
  await fleet.redis.kill()

  const shared = await inParallel(40, 4, () => patiently(share))
  t.same(statuses(shared), ['200', '429 rate_limit_rpm'])
  // Of 30 a minute one of three nodes has 10, and while the others were asked some have flowed back.
  const passed = shared.filter(({ status }) => status === 200).length
  t.ok(passed >= 10 && passed < 35, `${passed} of 40 passed by the share of one of three`)
  const refused = await patiently(refuse)
  t.match([refused.status, refused.code, refused.headers['retry-after']], [503, 'limits_unavailable', '1'])
  t.equal((await patiently(refuse, 'free')).status, 200, 'what has no limits is not asked about')
  t.same(statuses(await inParallel(40, 8, () => patiently(allow))), ['200'])
  await eventually(async () => (await share.admin('/readyz')).status === 200, patience)
  t.match((await share.admin('/readyz')).body, { status: 'degraded' }, 'which is no reason to send requests elsewhere')

  await fleet.redis.resume()
  // It is empty now, so all may ask for 30 together.
  await eventually(async () => (await request(refuse)).status === 200, patience)
  await eventually(async () => (await request(allow)).status === 429, patience)
  t.same(await brokenIn(fleet.direct), [])
})

t.test('a gateway starts without Redis', { skip: fleetMissing }, async (t) => {
  const upstream = await PlannedUpstream.start(t)
  const fleet = await Fleet.prepare(t, {
    nodes: 1,
    config: configOf([upstream], { keys: [key('test', { limits: { rpm: 30 } })] })
  })
  await fleet.redis.kill()
  await fleet.nodes[0]!.start()
  t.equal((await patiently(fleet.nodes[0]!)).status, 200)
})

t.test('without a connection to PostgreSQL clients get 503 and never 401', { skip: fleetMissing }, async (t) => {
  const upstream = await PlannedUpstream.start(t)
  // Three are kept for administrators, and a gateway has eight.
  const fleet = await Fleet.prepare(t, {
    postgres: { settings: { max_connections: '20' } },
    config: configOf([upstream])
  })
  const [first, second, third] = fleet.nodes as [FleetNode, FleetNode, FleetNode]
  await first.start()
  await second.start()
  await t.rejects(third.start(), /connections/, 'one that would not get its connections says so')
  t.equal((await patiently(first)).status, 200)

  await second.end('SIGTERM')
  const others: pg.Client[] = []
  t.teardown(() => Promise.all(others.map((client) => client.end().catch(() => {}))))
  const { searchParams, pathname } = new URL(fleet.direct)
  /** Takes all connections that are free. */
  const crowd = async (): Promise<void> => {
    for (;;) {
      const client = new pg.Client({ host: searchParams.get('host')!, user: 'sluice', database: pathname.slice(1) })
      client.on('error', () => {})
      try {
        await client.connect()
      } catch {
        return
      }
      others.push(client)
    }
  }
  await crowd()
  t.equal((await patiently(first)).status, 200, 'whoever has connections goes on')
  // While it stands still it cannot take them back.
  const paused = first.pause(6000)
  const ended = `select pg_terminate_backend(pid, 20000) from pg_stat_activity where application_name like 'sluice%'`
  await others[0]!.query(ended)
  await crowd()
  await paused
  const seen: Seen[] = []
  await eventually(async () => {
    seen.push(await request(first))
    return seen.at(-1)!.status === 503
  }, patience)
  t.same(
    statuses(seen).filter((status) => status !== '200'),
    ['503 billing_unavailable']
  )
  await Promise.all(others.splice(0).map((client) => client.end().catch(() => {})))
  await eventually(async () => (await request(first)).status === 200, patience)
  await fleet.noHolds(patience)
  t.same(await brokenIn(fleet.direct), [])
})

t.test(
  'a clock that is wrong is told, and decides on no money when it is a minute wrong',
  { skip: fleetMissing },
  async (t) => {
    const upstream = await PlannedUpstream.start(t)
    const shift = pathToFileURL(join(import.meta.dirname, 'skew.ts')).href
    const skews = [0, 30_000, -120_000]
    const fleet = await Fleet.start(t, {
      config: configOf([upstream]),
      launch: (index) => ({
        env: {
          SLUICE_SKEW: String(skews[index]),
          NODE_OPTIONS: `${process.env['NODE_OPTIONS'] ?? ''} --import=${shift}`
        }
      })
    })
    const [right, late, wrong] = fleet.nodes as [FleetNode, FleetNode, FleetNode]
    t.equal((await patiently(right)).status, 200)
    t.equal((await patiently(late)).status, 200)
    await eventually(() => /differs from that of the database/.test(late.output), patience)
    await eventually(async () => (await request(wrong)).status === 503, patience)
    t.match(await wrong.admin('/readyz'), { status: 503 })
    await eventually(async () => (await right.admin('/readyz')).status === 200, patience)
    await fleet.noHolds(patience)
    t.same(await brokenIn(fleet.direct), [])
  }
)
