// What operators see of a gateway of several workers: all of it, and who has not said what is theirs.
import { join } from 'node:path'
import { rmSync, writeFileSync } from 'node:fs'
import { get } from 'node:http'
import t from 'tap'
import type { Test } from 'tap'
import { stringify } from 'yaml'
import { worstView } from '../../../core/admin/requests/worst-view.ts'
import type { Explanation } from '../../../core/admin/requests/explanation.ts'
import { ChainFigures, figuresOf } from '../../../core/exchange/state/chain-figures.ts'
import { connect } from '../../kit/client.ts'
import type { Client, ReceivedReply } from '../../kit/client.ts'
import { gateway, testKey } from '../../kit/gateway.ts'
import type { LocalGateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { readEvents } from '../../kit/sse.ts'
import { PlannedUpstream } from '../../money/planned.ts'
import { bodyOf, configOf, folder, secretOf } from '../../money/rig.ts'

t.setTimeout(600_000)

const contract = JSON.stringify(join(import.meta.dirname, '../../../core/contract/contract.ts'))
/** A plugin that refuses what it is asked to, and keeps its thread busy for so many milliseconds. */
const stopper = `
import { definePlugin, GatewayError } from ${contract}
export default definePlugin({
  name: 'stopper',
  summary: 'Refuses, and stops its thread.',
  options: {},
  setup: () => ({
    onRequest({ request }) {
      const ms = Number(request.headers['x-stop'] ?? 0)
      if (ms > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
      if (request.headers['x-refuse']) throw new GatewayError('content_blocked', 'It is refused.')
    }
  })
})
`

async function stoppable(t: Test): Promise<LocalGateway> {
  const module = join(folder(t), 'stopper.mjs')
  writeFileSync(module, stopper)
  const chain = ['auth', 'quota', 'ratelimit', 'route', 'protocol-translate', 'usage-meter', 'log']
  return gateway(
    t,
    {
      plugins: { stopper: module },
      chain: ['stopper', ...chain].map((name) => (name === 'log' ? { log: { sink: 'none' } } : { [name]: {} }))
    },
    { workers: 2 }
  )
}

/** A connection to each of the two workers, by the number of the worker. */
async function toEach(t: Test, all: LocalGateway): Promise<Map<number, Client>> {
  const found = new Map<number, Client>()
  /** How many connections each has, once all have said it. */
  const loads = async (): Promise<Map<number, number>> => {
    let counts: [number, number | null][] = []
    await eventually(async () => {
      const { data } = await all.admin('/admin/v1/workers')
      counts = data.map(({ worker, connections }: { worker: number; connections: number | null }) => [
        worker,
        connections
      ])
      return counts.every(([, count]) => count !== null)
    })
    return new Map(counts as [number, number][])
  }
  await eventually(async () => {
    const before = await loads()
    const client = await connect(t, all.url)
    // Once it is answered, the connection is counted; once its record is found, no stream hears of the request later.
    const asked = { path: '/v1/models', headers: { authorization: `Bearer ${testKey}` } }
    await all.record(await client.send(asked).reply())
    const after = await loads()
    const number = [...after].find(([worker, count]) => count === before.get(worker)! + 1)?.[0]
    if (number === undefined || found.has(number)) client.close()
    else found.set(number, client)
    return found.size === 2
  })
  return found
}

const chat = { path: '/v1/chat/completions', body: { model: 'demo', messages: [{ role: 'user', content: 'Hi' }] } }
/** The answer to what is sent on a connection now. */
const next = (client: Client, parts: object): Promise<ReceivedReply> => {
  const before = client.replies.length
  return client.send(parts).reply(before)
}
const asking = (headers: Record<string, string> = {}): object => ({
  ...chat,
  headers: { authorization: `Bearer ${testKey}`, ...headers }
})

t.test('the figures of the chain and the live stream are those of all workers', async (t) => {
  const all = await stoppable(t)
  const each = await toEach(t, all)
  let text = ''
  const live = get(`${all.adminUrl}/admin/v1/live?topics=overview,requests`, (response) =>
    response.setEncoding('utf8').on('data', (piece: string) => (text += piece))
  )
  live.on('error', () => {})
  t.teardown(() => live.destroy())
  await eventually(() => text.includes('event: reset'))
  for (const client of each.values()) {
    for (let i = 0; i < 3; i++) t.equal((await next(client, asking())).status, 200)
    t.equal((await next(client, asking({ 'x-refuse': '1' }))).status, 403)
  }
  let plugins: any[] = []
  // On a busy machine one may take longer than it has.
  await eventually(async () => {
    const { missing_workers: missing, ...chain } = await all.admin('/admin/v1/chain')
    plugins = chain.plugins
    return missing.length === 0
  })
  const of = (name: string): any => plugins.find((plugin: { name: string }) => plugin.name === name)
  t.match(of('stopper'), { refused: [{ code: 'content_blocked', count: 2 }] })
  t.equal(of('quota').exchanges, of('stopper').exchanges - 2)
  t.ok(of('quota').took_p99_ms > 0)
  const shown = (event: string): any[] =>
    readEvents(text.slice(0, text.lastIndexOf('\n\n') + 2)).flatMap((one) =>
      one.event === event ? [JSON.parse(one.data)] : []
    )
  await eventually(() => shown('tick').reduce((sum, { requests }) => sum + requests, 0) === 8)
  const rows = shown('requests').flatMap(({ rows }) => rows)
  t.equal(rows.length, 8)
  t.match(rows[0], { model: 'demo', tenant: 'acme', status: 200, cost_usd: String, usage: { output: Number } })
  t.equal(
    shown('tick').reduce((sum, { errors }) => sum + errors, 0),
    2
  )
})

t.test('who does not answer is named, and the others are shown', async (t) => {
  const all = await stoppable(t)
  const each = await toEach(t, all)
  const workers = async (...states: string[]): Promise<any> => {
    let found: any
    await eventually(async () => {
      found = await all.admin('/admin/v1/workers')
      return found.data.every(({ state }: { state: string }, i: number) => state === states[i])
    })
    return found
  }
  t.match(await workers('serves', 'serves'), {
    data: [
      { worker: 1, state: 'serves', since: String, connections: Number, busy: Number, ends: 0, last_end: null },
      { worker: 2, state: 'serves', exchanges: 0, upstream_connections: Number }
    ],
    next: null
  })
  const stopped = next(each.get(2)!, asking({ 'x-stop': '8000' }))
  t.match(await workers('serves', 'silent'), {
    data: [
      { worker: 1, state: 'serves', connections: Number },
      { worker: 2, state: 'silent', connections: null, busy: null }
    ]
  })
  t.ok((await all.admin('/admin/v1/chain')).missing_workers.includes(2))
  t.ok((await all.admin('/admin/v1/requests/under-way')).missing_workers.includes(2))
  await eventually(async () => (await all.admin('/admin/v1/chain')).missing_workers.length === 0)
  t.equal((await stopped).status, 200)
})

t.test('a worker that has ended is told of until another one serves, and afterwards why it ended', async (t) => {
  const home = folder(t)
  const [module, hold] = [join(home, 'bomb.mjs'), join(home, 'hold')]
  // While that file is there, the next worker does not come to serve.
  const bomb = `
    import { existsSync } from 'node:fs'
    import { setTimeout as sleep } from 'node:timers/promises'
    import { definePlugin } from ${contract}
    export default definePlugin({ name: 'stopper', summary: 'Ends its thread.', options: {}, async setup() {
      while (existsSync(${JSON.stringify(hold)})) await sleep(20)
      return { onRequest: ({ request }) => { if (request.headers['x-stop']) process.exit(7) } }
    } })`
  writeFileSync(module, bomb)
  const chain = ['stopper', 'auth', 'quota', 'ratelimit', 'route', 'protocol-translate', 'usage-meter']
  const all = await gateway(
    t,
    { plugins: { stopper: module }, chain: chain.map((name) => ({ [name]: {} })) },
    { workers: 2 }
  )
  writeFileSync(hold, '')
  const client = await connect(t, all.url)
  client.send(asking({ 'x-stop': '1' }))
  await client.closed
  await eventually(async () => {
    const { data } = await all.admin('/admin/v1/troubles')
    return data.some(({ id }: { id: string }) => id === 'workers')
  })
  t.match(await all.admin('/readyz'), { status: 'degraded', reasons: [/workers: 1 of 2 serve/] })
  // The other one accepts all connections now.
  const last = await connect(t, all.url)
  last.send(asking({ 'x-stop': '1' }))
  await last.closed
  const readiness = (): Promise<Response> => fetch(`${all.adminUrl}/readyz`)
  await eventually(async () => (await readiness()).status === 503)
  t.match(await (await readiness()).json(), { status: 'unavailable', reasons: [/workers: 0 of 2 serve/] })
  // Troubles are looked for once a second.
  await eventually(async () => {
    const { data } = await all.admin('/admin/v1/troubles')
    return data.some(
      ({ id, severity }: { id: string; severity: string }) => id === 'workers' && severity === 'critical'
    )
  })
  rmSync(hold)
  const places = async (): Promise<any[]> => (await all.admin('/admin/v1/workers')).data
  await eventually(async () => {
    const found = await places()
    return found.some(({ ends }) => ends === 1) && found.every(({ state }) => state === 'serves')
  })
  const ended = (await places()).find(({ ends }) => ends === 1)
  t.match(ended, { last_end: { time: String, reason: /exit code 7/ } })
  const metrics = await (await fetch(`${all.adminUrl}/metrics`)).text()
  t.match(metrics, new RegExp(`^sluice_worker_ends_total\\{worker="${ended.worker}"\\} 1$`, 'm'))
  t.equal(metrics.match(/^sluice_worker_serving\{worker="\d"\} 1$/gm)?.length, 2)
})

t.test('a request is explained as those see its channels who would get it, and the worst of it', async (t) => {
  const upstream = await PlannedUpstream.start(t)
  const { chain, ...config } = configOf([upstream], { store: { sqlite: join(folder(t), 'sluice.db') } })
  const usual = (chain as object[]).map((one) => ('route' in one ? { route: { repeats: 0 } } : one))
  const all = await gateway(t, stringify({ ...config, chain: usual }), { workers: 2 })
  const explained = async (): Promise<any> => {
    const reply = await fetch(`${all.adminUrl}/admin/v1/explain`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ key: 'test', model: 'plain' })
    })
    return reply.json()
  }
  t.match(await explained(), {
    outcome: 'sent',
    order: [{ channel: 'up', health: { state: 'healthy' } }],
    workers: { alike: [1, 2], otherwise: [], missing: [] }
  })
  // One connection goes to one worker, which alone finds out that the channel is broken.
  const client = await connect(t, all.url)
  const headers = { authorization: `Bearer ${secretOf('test')}`, 'content-type': 'application/json' }
  const body = bodyOf({ id: 'e', units: { input: 3, output: 4 }, words: 3, fault: 'break' }, {})
  let told: any
  await eventually(async () => {
    await next(client, { path: '/v1/chat/completions', headers, body })
    told = await explained()
    return told.workers.otherwise.length === 1
  })
  t.equal(told.workers.alike.length, 1)
  const state = told.order?.[0]?.health.state ?? told.excluded?.[0]?.code
  t.equal(state, 'ejected', 'the worker that thinks worst is the one that is shown')
})

t.test('of several explanations the worst one is shown, with who would do otherwise', async (t) => {
  const well = { outcome: 'sent', refusal: null, order: [{ channel: 'a', health: { state: 'healthy' } }], excluded: [] }
  const cooling = { ...well, order: [{ channel: 'a', health: { state: 'cooling' } }] }
  const refused = { ...well, outcome: 'refused', refusal: { code: 'no_channel' } }
  const shown = (...all: object[]): any =>
    worstView({ told: new Map(all.map((one, i) => [i + 1, one as Explanation])), missing: [9] })
  t.match(shown(well, cooling, well), { ...cooling, workers: { alike: [2], otherwise: [1, 3], missing: [9] } })
  t.match(shown(cooling, refused, well), { ...refused, workers: { alike: [2], otherwise: [1, 3] } })
  t.match(shown(well, well), { ...well, workers: { alike: [1, 2], otherwise: [] } })
  t.notOk('workers' in worstView({ told: new Map([[0, well as unknown as Explanation]]) }))
})

t.test('figures of several threads are those of one that did it all', async (t) => {
  const [one, other, both] = [new ChainFigures(), new ChainFigures(), new ChainFigures()]
  const note = (to: ChainFigures, plugin: string, tookMs: number, at: number): void => {
    for (const figures of [to, both])
      figures.note(
        { views: [{ plugin, tookMs }], times: {} } as unknown as Parameters<ChainFigures['note']>[0],
        undefined,
        at
      )
  }
  for (let i = 0; i < 100; i++) note(i % 3 === 0 ? one : other, i % 5 === 0 ? 'b' : 'a', i / 10, i * 1000)
  note(one, 'a', 5, 0)
  const at = 100_000
  for (const plugin of ['a', 'b', 'c'])
    t.same(figuresOf(plugin, [one.tallies(at), other.tallies(at)]), figuresOf(plugin, [both.tallies(at)]))
  t.equal(figuresOf('a', [structuredClone(both.tallies(at))]).exchanges, 81, 'they can be sent to another thread')
  t.equal(figuresOf('a', [both.tallies(at + 600_000)]).exchanges, 0, 'and what is old is not among them')
})
