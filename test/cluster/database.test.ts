// PostgreSQL as others run it: with a standby that takes over, behind PgBouncer, and on a disk that is full.
import t from 'tap'
import type { Test } from 'tap'
import { brokenIn } from '../kit/cluster-money.ts'
import { askPatiently, Fleet, fleetMissing } from '../kit/fleet.ts'
import type { FleetNode, FleetOptions } from '../kit/fleet.ts'
import { startPgBouncer } from '../kit/pgbouncer.ts'
import { nanoCost } from '../kit/oracle.ts'
import { eventually } from '../kit/probe.ts'
import { lacks } from '../kit/programs.ts'
import { PlannedUpstream } from '../money/planned.ts'
import { ask, configOf, inParallel, key, prices } from '../money/rig.ts'
import type { Seen } from '../money/rig.ts'

t.setTimeout(600_000)
const patience = 120_000

const units = { input: 10, output: 5 }
const cost = nanoCost(units, prices['plain']!)
let made = 0

/** Sends one request. */
function request(url: string, headers: Record<string, string> = {}): Promise<Seen> {
  return ask(url, { id: `d${++made}`, units, words: 2 }, { body: { max_tokens: 9 }, headers })
}

/** Sends one request, again while a busy machine's database is silent. */
function patiently(url: string): Promise<Seen> {
  return askPatiently(url, { id: `d${++made}`, units, words: 2 }, { body: { max_tokens: 9 } })
}

/** Clients who ask until they are told to stop; what they saw is in the list. */
function clients(fleet: Fleet, seen: Seen[]): { end(): Promise<void> } {
  let over = false
  const lanes = inParallel(4, 4, async (index) => {
    while (!over) {
      seen.push(await request(fleet.nodes[index % fleet.nodes.length]!.url))
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  })
  return {
    async end() {
      over = true
      await lanes
    }
  }
}

/** Everything whose end was seen is charged once, and the book is in order. */
async function checkBook(t: Test, fleet: Fleet, seen: readonly Seen[]): Promise<void> {
  await fleet.noHolds(patience)
  const charges = Map.groupBy(
    (await fleet.journal()).filter((entry) => entry.class === 'terminal'),
    ({ request_id }) => request_id
  )
  const wrong = seen.filter(({ id, ended }) => {
    const [one, ...others] = charges.get(id!) ?? []
    return ended && (one?.amount !== cost || others.length > 0)
  })
  t.same(wrong.slice(0, 3), [], 'whose end was seen is charged once')
  t.same(await brokenIn(fleet.direct), [], 'the book is in order')
}

const start = async (t: Test, options: Partial<FleetOptions> = {}): Promise<Fleet> => {
  const upstream = await PlannedUpstream.start(t)
  return Fleet.start(t, { nodes: 2, config: configOf([upstream]), ...options })
}

t.test(
  'a standby that takes over has all that was acknowledged, and gateways go on with it',
  { skip: fleetMissing },
  async (t) => {
    const fleet = await start(t, { database: (_, proxy, direct) => proxy.url(direct) })
    const standby = await fleet.postgres.standby(t)
    // What was acknowledged is at both then.
    await fleet.postgres.sql(`alter system set synchronous_standby_names = '*'`)
    await fleet.postgres.sql('select pg_reload_conf()')
    await eventually(
      async () => (await fleet.postgres.sql(`select from pg_stat_replication where sync_state = 'sync'`)).length === 1,
      patience
    )
    const seen: Seen[] = []
    const load = clients(fleet, seen)
    await eventually(() => seen.filter(({ ended }) => ended).length > 20, patience)
    await fleet.postgres.stop('KILL')
    await standby.promote()
    fleet.direct = standby.url(new URL(fleet.direct).pathname.slice(1))
    fleet.proxy.lead(standby.socket)
    const before = seen.length
    await eventually(() => seen.slice(before).filter(({ ended }) => ended).length > 20, patience)
    await load.end()
    const codes = new Set(seen.filter(({ status }) => status !== 200).map(({ status, code }) => `${status} ${code}`))
    t.same(
      [...codes].filter((code) => code !== '503 billing_unavailable'),
      [],
      'nobody is told anything else meanwhile'
    )
    fleet.sql = (text) => standby.sql(text, fleet.direct)
    await checkBook(t, fleet, seen)
  }
)

t.test(
  'behind PgBouncer in transaction mode, with `listen_url`',
  { skip: fleetMissing || lacks('pgbouncer') },
  async (t) => {
    const pooler: { url?: (direct: string) => string } = {}
    const upstream = await PlannedUpstream.start(t)
    const fleet = await Fleet.prepare(t, {
      nodes: 2,
      config: configOf([upstream], { keys: [key('test', { limits: { concurrency: 50 } })] }),
      database: (_, __, direct) => ({ url: pooler.url!(direct), listen_url: direct })
    })
    pooler.url = await startPgBouncer(t, fleet.postgres)
    const [first, second] = fleet.nodes as [FleetNode, FleetNode]
    await first.start()
    await second.start()
    const seen = await inParallel(100, 20, (index) => patiently(fleet.nodes[index % 2]!.url))
    t.equal(seen.filter(({ ended }) => ended).length, 100)

    const post = async (node: FleetNode, path: string, method: string, body?: object): Promise<any> => {
      const reply = await fetch(`${node.adminUrl}${path}`, {
        method,
        headers: { 'content-type': 'application/json' },
        ...(body && { body: JSON.stringify(body) })
      })
      return reply.json()
    }
    const { key: secret, name } = await post(first, '/admin/v1/keys', 'POST', { tenant: 'acme', name: 'made' })
    const headers = { authorization: `Bearer ${secret}` }
    await eventually(async () => (await request(second.url, headers)).status === 200, patience)
    await post(first, `/admin/v1/keys/${name}`, 'DELETE')
    await eventually(async () => (await request(second.url, headers)).status === 401, patience)
    await checkBook(t, fleet, seen)
  }
)

t.test(
  'while PostgreSQL has no room on its disk clients get 503, and nothing is lost',
  { skip: fleetMissing },
  async (t) => {
    const fleet = await start(t)
    const seen: Seen[] = []
    const load = clients(fleet, seen)
    await eventually(() => seen.some(({ ended }) => ended), patience)
    // As the server says it. Creating a trigger waits for those who write, and is a write itself.
    await fleet.sql(`create function sluice.full_disk() returns trigger language plpgsql as $$
    begin raise 'could not extend file: No space left on device' using errcode = '53100'; end $$`)
    await fleet.sql(
      'create trigger full_disk before insert on sluice.hold for each row execute function sluice.full_disk()'
    )
    await eventually(() => seen.at(-1)?.status === 503, patience)
    const full = seen.length
    await fleet.sql('drop function sluice.full_disk cascade')
    await eventually(() => seen.slice(full).some(({ ended }) => ended), patience)
    await load.end()
    t.same([...new Set(seen.filter(({ status }) => status !== 200).map(({ code }) => code))], ['billing_unavailable'])
    await checkBook(t, fleet, seen)
  }
)
