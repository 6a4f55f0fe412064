// A gateway of several workers is one gateway, for clients and for operators.
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { stringify } from 'yaml'
import { gateway } from '../../kit/gateway.ts'
import type { LocalGateway, Overrides } from '../../kit/gateway.ts'
import { freePort } from '../../kit/ports.ts'
import { eventually } from '../../kit/probe.ts'
import { checkBooks } from '../../money/audit.ts'
import { PlannedUpstream } from '../../money/planned.ts'
import { ask, configOf, folder } from '../../money/rig.ts'

t.setTimeout(600_000)

/** Two workers are enough to differ from one, and take half of the time that four take to start. */
function gatewayOfTwo(t: Test, overrides: Overrides | string = {}): Promise<LocalGateway> {
  return gateway(t, overrides, { workers: 2 })
}

/** The sum of a metric's series that have these labels. */
async function metric({ adminUrl }: LocalGateway, series: RegExp): Promise<number> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text()
  return text
    .split('\n')
    .filter((line) => series.test(line))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
}

t.test('each request is answered, charged and told of as in a gateway of one thread', async (t) => {
  const all = await gatewayOfTwo(t)
  const ids: string[] = []
  for (let i = 0; i < 24; i++) {
    const reply = await all.chat(i % 3 === 0 ? { stream: true } : {})
    t.equal(reply.status, 200)
    ids.push(reply.headers['x-request-id']!)
  }
  const told = { status: 200, tenant: 'acme', cost_lines: [{ class: 'input' }, { class: 'output' }] }
  for (const id of ids) t.match(await all.record({ headers: { 'x-request-id': id } }), told)
  await eventually(async () => (await metric(all, /^sluice_requests_total/)) === 24)
  t.match(await all.admin('/readyz'), { status: 'ok' })
})

t.test('a change of the file reaches all workers or none, and breaks nothing that is under way', async (t) => {
  const all = await gatewayOfTwo(t)
  const { gateway: running } = all
  let over = false
  const statuses = new Set<number>()
  const lane = async (): Promise<void> => {
    while (!over) statuses.add((await all.chat({ stream: true })).status)
  }
  const load = Promise.all(Array.from({ length: 4 }, lane))
  const more = { models: { demo: { price: { input: 1, output: 2 } }, other: { alias: 'demo' } } }
  /** What several connections are told of a model, which come to any of the workers. */
  const asked = async (): Promise<Set<number>> => {
    const found = new Set<number>()
    for (let i = 0; i < 12; i++) found.add((await all.chat({ model: 'other' })).status)
    return found
  }
  t.same([...(await asked())], [404])
  all.configure(more)
  t.match(await running.reload('a test'), { ok: true })
  t.same([...(await asked())], [200])
  writeFileSync(all.file, 'channels: 7\n')
  t.match(await running.reload('a test'), { ok: false })
  t.same([...(await asked())], [200])
  all.configure({})
  t.match(await running.reload('a test'), { ok: true })
  t.same([...(await asked())], [404])
  over = true
  await load
  t.same([...statuses], [200])
})

t.test('a key that is made or revoked at run time is known to all workers when the operator is answered', async (t) => {
  const all = await gatewayOfTwo(t)
  const admin = async (method: string, path: string, body?: unknown): Promise<any> => {
    const reply = await fetch(`${all.adminUrl}/admin/v1/${path}`, {
      method,
      ...(body !== undefined && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
    })
    t.ok(reply.ok, `${method} ${path}`)
    return reply.status === 204 ? undefined : reply.json()
  }
  const { key } = await admin('POST', 'keys', { name: 'fresh', tenant: 'acme' })
  const asked = async (): Promise<number[]> => {
    const found = new Set<number>()
    for (let i = 0; i < 12; i++)
      found.add(
        (await all.ask({ path: '/v1/models', method: 'GET', headers: { authorization: `Bearer ${key}` } })).status
      )
    return [...found]
  }
  t.same(await asked(), [200])
  await admin('DELETE', 'keys/fresh')
  t.same(await asked(), [401])
})

t.test('an operator is shown the health of a channel as its workers find it', async (t) => {
  const upstream = await PlannedUpstream.start(t)
  const { chain, ...config } = configOf([upstream], { store: { sqlite: join(folder(t), 'sluice.db') } })
  const usual = (chain as object[]).map((one) => ('route' in one ? { route: { repeats: 0 } } : one))
  const all = await gateway(t, stringify({ ...config, chain: usual }), { workers: 2 })
  const plan = { id: 'h', units: { input: 3, output: 4 }, words: 3, fault: 'break' } as const
  const shown = async (): Promise<any> => (await all.admin('/admin/v1/channels/up')).health
  t.match(await shown(), { state: 'healthy', failures: 0 })
  await eventually(async () => {
    await ask(all.url, plan)
    return (await shown()).state === 'ejected'
  })
  t.ok((await shown()).failures > 0)
  t.equal(await metric(all, /^sluice_channel_state\{channel="up",state="ejected"\}/), 1)
  const troubles = (await all.admin('/admin/v1/troubles')).data
  t.ok(troubles.some(({ id }: { id: string }) => id === 'channel up ejected'))
})

t.test('a gateway that drains ends what its workers have under way, and refuses no connection before', async (t) => {
  const upstream = await PlannedUpstream.start(t)
  const gate = Promise.withResolvers<void>()
  upstream.gate = gate.promise
  const file = join(folder(t), 'sluice.db')
  const all = await gateway(t, stringify(configOf([upstream], { store: { sqlite: file } })), { workers: 2 })
  const asked = Array.from({ length: 12 }, (_, i) =>
    ask(all.url, { id: `d${i}`, units: { input: 3, output: 4 }, words: 3 }, { stream: i % 2 === 0 })
  )
  await eventually(() => upstream.count === 12)
  // What all workers are at is shown, once the last one of them has said it.
  await eventually(async () => (await all.admin('/admin/v1/requests/under-way')).data.length === 12)
  const closed = all.gateway.close({ drain: true })
  await eventually(async () => (await all.admin('/readyz').catch(() => ({ status: 'unavailable' }))).status !== 'ok')
  gate.resolve()
  const seen = await Promise.all(asked)
  t.ok(seen.every(({ ended }) => ended))
  t.same(await closed, { cut: 0 })
  checkBooks(t, file, seen)
})

t.test('a gateway of which one worker cannot start leaves nobody behind that serves', async (t) => {
  const module = join(folder(t), 'second.mjs')
  const contract = JSON.stringify(join(import.meta.dirname, '../../../core/contract/contract.ts'))
  writeFileSync(
    module,
    `import { threadName } from 'node:worker_threads'
    import { definePlugin } from ${contract}
    export default definePlugin({ name: 'second', summary: 'Fails in the second one.', options: {}, setup() {
      if (threadName === 'worker 2') throw new Error('it has no room')
      return {}
    } })`
  )
  const port = await freePort()
  const chain = ['second', 'auth', 'quota', 'ratelimit', 'route', 'protocol-translate', 'usage-meter']
  const listen = { host: '127.0.0.1', port }
  const plugins = { second: module }
  await t.rejects(gatewayOfTwo(t, { listen, plugins, chain: chain.map((name) => ({ [name]: {} })) }), {
    message: /worker 2 could not start: .*it has no room/s
  })
  const socket = connect(port, '127.0.0.1')
  await t.rejects(once(socket, 'connect'), { code: 'ECONNREFUSED' })
  socket.destroy()
})

t.test('that somebody else has the port is said', async (t) => {
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  t.teardown(() => other.close())
  const { port } = other.address() as AddressInfo
  await t.rejects(gatewayOfTwo(t, { listen: { host: '127.0.0.1', port } }), { message: /is in use by another process/ })
})
