// What becomes of gateways on one store when parts fail, end, or are replaced.
import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import pg from 'pg'
import t from 'tap'
import type { Test } from 'tap'
import { startGateway } from '../../core/container.ts'
import { startSimulator } from '../../core/simulator/simulator.ts'
import { ask } from '../kit/client.ts'
import { brokenIn } from '../kit/cluster-money.ts'
import { gatewayFile } from '../kit/gateway.ts'
import type { TestGateway } from '../kit/gateway.ts'
import { Installation, nodesMissing } from '../kit/nodes.ts'
import { sharedPostgres } from '../kit/postgres.ts'
import { eventually } from '../kit/probe.ts'

t.setTimeout(900_000)

const video = '/v1/video/generations'
const patience = 120_000

const directive = (members: object): string => `Tell me. [[simulator ${JSON.stringify(members)}]]`
const said = (members: object): object => ({ model: 'demo', messages: [{ role: 'user', content: directive(members) }] })

async function installation(t: Test, overrides: object = {}): Promise<Installation> {
  const upstream = await startSimulator({ port: 0 })
  t.teardown(() => upstream.close())
  return Installation.make(t, {
    channels: {
      demo: {
        protocol: 'openai',
        base_url: new URL('/v1', upstream.url).href,
        private: true,
        credential: 'secret',
        endpoints: ['chat', 'images', 'videos'],
        models: { demo: 'demo' }
      }
    },
    models: { demo: { price: { input: 1, output: 2, second: 3, image: 4 } } },
    tasks: { poll: { first: '100ms', most: '500ms' } },
    ...overrides
  })
}

/** An installation whose gateways keep the state of responses themselves. */
const keepingState = (t: Test): Promise<Installation> =>
  installation(t, {
    models: { demo: { price: { input: 1, output: 2 }, state: 'gateway' } },
    state: { key: 'a secret of the operator that nobody else knows' }
  })

/** Has a gateway begin a response in the background. Resolves with its id when its upstream was asked. */
async function respondInBackground(
  t: Test,
  all: Installation,
  node: Pick<TestGateway, 'ask'>,
  members: object
): Promise<string> {
  const body = { model: 'demo', input: directive(members), background: true }
  const reply = await node.ask({ path: '/v1/responses', body })
  t.equal(reply.status, 200, reply.text)
  await eventually(async () => (await all.sql('select 1 from sluice.hold where channel is not null')).length === 1)
  return reply.json().id
}

async function begun(node: TestGateway, members: object): Promise<string> {
  const reply = await node.ask({ path: video, body: { model: 'demo', prompt: directive(members) } })
  if (reply.status !== 202) throw new Error(reply.text)
  return reply.json().id
}

async function statusOf(node: TestGateway, id: string): Promise<string> {
  return (await node.ask({ method: 'GET', path: `${video}/${id}` })).json().status
}

/** The status of `/readyz`, and what it says. */
async function readiness(t: Test, node: TestGateway): Promise<{ status: number; text: string }> {
  return ask(t, node.adminUrl, { path: '/readyz' })
}

async function holds(all: Installation): Promise<number> {
  return (await all.sql('select 1 from sluice.hold')).length
}

t.test(
  'of a gateway that is killed others end what it held, and go on with its tasks',
  { skip: nodesMissing },
  async (t) => {
    const all = await installation(t)
    const [a, b] = [await all.process(), await all.node()]
    const id = await begun(a, { work_ms: 30_000 })
    await a.openChat({ ...said({ text: 'Never.', first_byte_ms: 50_000 }), stream: true })
    await eventually(async () => (await all.sql('select 1 from sluice.hold where channel is not null')).length === 2)
    a.process.kill('SIGKILL')
    await a.exited
    await eventually(async () => (await statusOf(b, id)) === 'succeeded', patience)
    await eventually(async () => (await holds(all)) === 0, patience)
    const ends = await all.sql('select source, amount > 0 as charged from sluice.journal order by source')
    t.match(
      ends,
      [
        { source: /^(estimated|recovered)$/, charged: true },
        { source: 'upstream', charged: true }
      ],
      'both are charged'
    )
    await eventually(async () => (await b.admin('/admin/v1/config')).nodes.length === 1, patience)
    await b.gateway.close()
    t.same(await brokenIn(all.database), [])
  }
)

t.test(
  'pictures whose gateway is killed between their charge and their end are charged once, and there',
  { skip: nodesMissing },
  async (t) => {
    const all = await installation(t)
    const [a, b] = [await all.process(), await all.node()]
    await all.sql(`create function sluice.refuse() returns trigger language plpgsql as
      $$ begin raise exception 'it cannot end yet'; end $$`)
    await all.sql(`create trigger refuse before update on sluice.work for each row when (not new.open)
      execute function sluice.refuse()`)
    const pictures = '/v1/images/generations/async'
    const { status, text } = await a.ask({ path: pictures, body: { model: 'demo', prompt: 'A hill.' } })
    t.equal(status, 202, text)
    const { id } = JSON.parse(text)
    await eventually(async () => (await all.sql(`select 1 from sluice.journal where kind = 'settle'`)).length === 1)
    a.process.kill('SIGKILL')
    await a.exited
    await all.sql('drop trigger refuse on sluice.work')
    const shown = async (): Promise<any> => (await b.ask({ method: 'GET', path: `${pictures}/${id}` })).json()
    await eventually(async () => !/queued|in_progress/.test((await shown()).status), patience)
    const { status: end, data } = await shown()
    t.equal(end, 'succeeded')
    t.equal(data?.length, 1)
    const [settled, ...more] = await all.sql('select kind, amount, request_id from sluice.journal')
    t.same([settled.kind, more], ['settle', []])
    t.ok(BigInt(settled.amount) > 0n)
    // A gateway that was killed has written no record: who ends the work does, and says what was charged.
    const logged = async (): Promise<any[]> =>
      (await b.admin(`/admin/v1/requests?request_id=${settled.request_id}`)).data
    await eventually(async () => (await logged()).length === 1, patience)
    t.match(await logged(), [{ outcome: 'completed', cost_nano: String(settled.amount), usage_source: 'upstream' }])
    t.match((await b.admin('/admin/v1/spend')).data, [{ requests: 1, charge_nano: String(settled.amount) }])
    await b.gateway.close()
    t.same(await brokenIn(all.database), [])
  }
)

t.test(
  'a response in the background whose gateway is killed costs nobody what nobody can get, and is in the log',
  { skip: nodesMissing },
  async (t) => {
    const all = await keepingState(t)
    const [a, b] = [await all.process(), await all.node()]
    const id = await respondInBackground(t, all, a, { text: 'Never.', first_byte_ms: 300_000 })
    a.process.kill('SIGKILL')
    await a.exited
    const shown = async (): Promise<any> => (await b.ask({ method: 'GET', path: `/v1/responses/${id}` })).json()
    await eventually(async () => (await shown()).status === 'failed', patience)
    await eventually(async () => (await holds(all)) === 0, patience)
    const [cost, end, ...more] = await all.sql(
      'select kind, source, amount, request_id from sluice.journal order by kind'
    )
    t.match([cost, end, more], [{ kind: 'cost', source: 'recovered' }, { kind: 'void', amount: '0' }, []])
    t.ok(BigInt(cost.amount) > 0n, 'its upstream was asked')
    const logged = async (): Promise<any[]> => (await b.admin(`/admin/v1/requests?request_id=${end.request_id}`)).data
    await eventually(async () => (await logged()).length === 1, patience)
    t.match(await logged(), [{ cost_nano: '0', usage_source: null, outcome: 'failed', channel: 'demo' }])
    await b.gateway.close()
    t.same(await brokenIn(all.database), [])
  }
)

t.test(
  'a response in the background that others have ended meanwhile fails as such, and is not shown in their place',
  { skip: nodesMissing },
  async (t) => {
    const all = await keepingState(t)
    const node = await all.node()
    const id = await respondInBackground(t, all, node, { text: 'Too late.', first_byte_ms: 15_000 })
    // As after a stand-still for longer than a lease. It finds out when it renews it.
    await all.sql(`update sluice.work set owner = 'another', epoch = epoch + 1, open = false, until = null,
      json = jsonb_set(json::jsonb, '{status}', '"failed"')::text`)
    await eventually(async () => (await holds(all)) === 0, patience)
    const logged = async (): Promise<any[]> => (await node.admin('/admin/v1/requests')).data
    await eventually(async () => (await logged()).length === 1, patience)
    t.match(await logged(), [{ error_code: 'task_under_way' }])
    const shown = await node.ask({ method: 'GET', path: `/v1/responses/${id}` })
    t.match(shown.json(), { status: 'failed' })
    await node.gateway.close()
    t.same(await brokenIn(all.database), [])
  }
)

t.test(
  'work has ended in the database only when its hold has, as a hold without open work is charged by estimate',
  { skip: nodesMissing },
  async (t) => {
    const all = await keepingState(t)
    const node = await all.node()
    const id = await respondInBackground(t, all, node, { text: 'Never.', first_byte_ms: 300_000 })
    await all.sql(`create function late() returns trigger language plpgsql as
        $$ begin perform pg_sleep(3); return old; end $$;
      create trigger late before delete on sluice.hold for each row execute function late()`)
    const cancelled = node.ask({ path: `/v1/responses/${id}/cancel`, body: {} })
    const seen = async (): Promise<any> =>
      (
        await all.sql(`select exists (select from sluice.hold) as held,
          exists (select from sluice.work where open) as open`)
      )[0]
    // While the database is silent for long the log of the node has the end of the hold, and it is enough. It is empty
    // as soon as the database has it, so it is looked at on both sides of the question.
    const logged = (): boolean => readdirSync(join(dirname(node.file), 'own', 'node-1', 'log')).length > 0
    let alone = false
    for (let inLog = logged(), now = await seen(); now.held || now.open; inLog = logged(), now = await seen())
      alone ||= now.held && !now.open && !inLog && !logged()
    t.notOk(alone, 'no hold is without its work')
    t.match((await cancelled).json(), { status: 'cancelled' })
    await node.gateway.close()
    t.same(await brokenIn(all.database), [])
  }
)

t.test('a gateway that ends gives its tasks up at once', { skip: nodesMissing }, async (t) => {
  const all = await installation(t, { limits: { drain_timeout: '100s' } })
  const [a, b] = [await all.node(), await all.node()]
  const id = await begun(a, { work_ms: 3000 })
  const last = a.chat(said({ text: 'Still here.', first_byte_ms: 4000 }) as Record<string, unknown>)
  await eventually(async () => (await holds(all)) === 2)
  const closing = a.gateway.close({ drain: true })
  await eventually(async () => (await statusOf(b, id)) === 'succeeded', patience)
  t.equal((await last).status, 200, 'while its last request ends')
  await closing
  await eventually(async () => (await holds(all)) === 0, patience)
  await b.gateway.close()
  t.same(await brokenIn(all.database), [])
})

t.test(
  'the next process of a gateway is another node, and goes on with its tasks',
  { skip: nodesMissing },
  async (t) => {
    const all = await installation(t)
    const node = await all.process()
    const id = await begun(node, { work_ms: 3000 })
    const slow = node.chat(said({ text: 'From the old one.', first_byte_ms: 3000 }) as Record<string, unknown>)
    await eventually(async () => (await holds(all)) === 2)
    const upgraded = await ask(t, node.adminUrl, { method: 'POST', path: '/admin/v1/upgrade' })
    t.match([upgraded.status, upgraded.json()], [200, { ok: true, generation: 2 }], upgraded.text)
    t.equal((await node.chat(said({ text: 'From the new one.' }) as Record<string, unknown>)).status, 200)
    t.equal((await slow).status, 200, 'what the old one has begun it ends')
    await eventually(async () => (await statusOf(node, id)) === 'succeeded', patience)
    await node.exited
    t.same(readdirSync(join(dirname(node.file), 'own')).toSorted(), ['config', 'node-1', 'node-2'])
    await eventually(async () => (await node.admin('/admin/v1/config')).nodes.length === 1, patience)
    const { data } = await node.admin('/admin/v1/requests?endpoint=chat')
    t.equal(data.length, 2, 'both are in the log')
    process.kill(node.pids().at(-1)!, 'SIGTERM')
    await node.ended
    t.equal(await holds(all), 0)
    t.same(await brokenIn(all.database), [])
  }
)

t.test('PostgreSQL and Redis may go and come back under load', { skip: nodesMissing }, async (t) => {
  const all = await installation(t)
  const nodes = [await all.node(), await all.node()]
  const server = await sharedPostgres()
  const seen = new Map<number, number>()
  let over = false
  const load = nodes.map(async (node) => {
    while (!over) {
      const { status } = await node.chat(said({ text: 'Hi' }) as Record<string, unknown>)
      seen.set(status, (seen.get(status) ?? 0) + 1)
    }
  })
  const served = async (): Promise<void> => {
    const before = seen.get(200) ?? 0
    await eventually(() => (seen.get(200) ?? 0) > before + 5, patience)
  }
  await served()
  await all.redis.kill()
  await eventually(async () => (await readiness(t, nodes[0]!)).text.includes('Redis'), patience)
  t.equal((await readiness(t, nodes[0]!)).status, 200, 'without Redis a gateway goes on')
  await served()
  await all.redis.resume()
  await eventually(async () => (await readiness(t, nodes[0]!)).text.includes('"ok"'), patience)
  await server.stop('QUIT')
  await eventually(async () => (await readiness(t, nodes[1]!)).status === 503, patience)
  t.match((await readiness(t, nodes[1]!)).text, /store: .*PostgreSQL|database/)
  await eventually(() => seen.has(503), patience)
  await server.resume()
  for (const node of nodes) await eventually(async () => (await readiness(t, node)).text.includes('"ok"'), patience)
  await served()
  over = true
  await Promise.all(load)
  t.same(
    [...seen.keys()].filter((status) => status !== 200 && status !== 503),
    [],
    'nobody is told anything else'
  )
  await eventually(async () => (await holds(all)) === 0, patience)
  const [charged] = await all.sql(`select count(*)::int as n from sluice.journal where kind = 'settle' and amount > 0`)
  t.ok(charged.n >= seen.get(200)!, `${charged.n} charges for ${seen.get(200)} answers`)
  for (const node of nodes) await node.gateway.close()
  t.same(await brokenIn(all.database), [])
})

t.test('a server without room for the connections is told of with the sum', { skip: nodesMissing }, async (t) => {
  const all = await installation(t)
  const host = new URL(all.database).searchParams.get('host')!
  const clients = Array.from({ length: 92 }, () => new pg.Client({ host, user: 'sluice', database: 'postgres' }))
  t.teardown(() => Promise.all(clients.map((client) => client.end())))
  for (const client of clients) await client.connect()
  const file = gatewayFile(t, { store: all.store(join(t.testdirName, 'own')) })
  await t.rejects(startGateway({ config: file }), {
    message:
      /has no room for this gateway: \d+ connections are in use and it needs 8, which makes 1\d\d, and max_connections = 100 leaves 97/
  })
  t.same(readdirSync(join(t.testdirName, 'own', 'node-1')).toSorted(), ['lock', 'name'], 'and nothing was begun')
})
