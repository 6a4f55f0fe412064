// Responses in the background by way of a worker that does not make them: followed, called off, and settled at once.
import t from 'tap'
import type { Test } from 'tap'
import { delta, done, finish, opening, sse, usage } from '../../faults/vendor.ts'
import { ask, connect } from '../../kit/client.ts'
import type { Client } from '../../kit/client.ts'
import { gateway, spawnGateway, testKey, testModel } from '../../kit/gateway.ts'
import type { LocalGateway } from '../../kit/gateway.ts'
import { eventually, figures } from '../../kit/probe.ts'
import { readEvents } from '../../kit/sse.ts'
import { endOfBody, events, until, Upstream } from '../../kit/upstream.ts'
import { askOn, lanes, named } from './lanes.ts'

t.setTimeout(300_000)

const path = '/v1/responses'
const headers = { authorization: `Bearer ${testKey}` }
const body = { model: testModel, input: 'Tell me.', background: true }

/** Two workers before an upstream, and a connection to each. */
async function pair(
  t: Test,
  vendor: Upstream,
  more: object
): Promise<{ all: LocalGateway; here: Client; there: Client }> {
  const all = await gateway(t, { ...named, ...more }, { upstreams: { vendor }, workers: 2 })
  const [here, there] = await lanes(t, all)
  return { all, here: here!, there: there! }
}

/** Begins a response at one worker: its id, and the connection on which its client is told of it. */
async function begin(here: Client): Promise<string> {
  here.send({ path, headers, body: { ...body, stream: true } })
  await here.body('"id":"resp_')
  return /"id":"(resp_\w+)"/.exec(Buffer.concat(here.reads.map(({ bytes }) => bytes)).toString())![1]!
}

const own = {
  channels: { vendor: { endpoints: ['chat'], timeouts: { idle: '10m' } } },
  models: { [testModel]: { state: 'gateway' } },
  state: { key: 'a secret of the operator that nobody else knows' }
}

t.test('what another worker makes is followed as it comes, from the beginning or from an event on', async (t) => {
  const vendor = await Upstream.start(t)
  const [more, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  vendor.script(
    sse,
    events([opening, delta('So')]),
    until(more.promise),
    events([delta(' far')]),
    until(end.promise),
    events([finish, usage, done]),
    endOfBody()
  )
  const { all, here, there } = await pair(t, vendor, own)
  const id = await begin(here)
  await here.body('"So"')
  there.send({ method: 'GET', path: `${path}/${id}?stream=true`, headers })
  await there.body('"So"')
  const late = (await lanes(t, all)).find(({ replies }) => replies.at(-1)!.headers['x-thread'] !== threadOf(here))!
  late.send({ method: 'GET', path: `${path}/${id}?stream=true&starting_after=1`, headers })
  more.resolve()
  await Promise.all([there.body('" far"'), late.body('" far"')])
  t.ok(late.replies.length === 1 && there.replies.length === 1, 'before it has ended')
  end.resolve()
  const told = await Promise.all([here, there, late].map((client) => client.reply(1)))
  const [first, second, rest] = told.map(({ text }) => readEvents(text).map(({ data }) => JSON.parse(data)))
  t.equal(first!.at(-1).type, 'response.completed')
  t.same(second, first)
  t.same(rest, first!.slice(2))
})

t.test('who follows by way of another worker is told that it was called off, by way of another one', async (t) => {
  const vendor = await Upstream.start(t)
  vendor.script(sse, events([opening, delta('So')]), until(new Promise(() => {})))
  const { all, here, there } = await pair(t, vendor, { ...own, limits: { on_disconnect: 'abort' } })
  const id = await begin(here)
  await here.body('"So"')
  there.send({ method: 'GET', path: `${path}/${id}?stream=true`, headers })
  await there.body('"So"')
  const other = await connect(t, all.url)
  const cancelled = await askOn(other, { method: 'POST', path: `${path}/${id}/cancel` })
  t.match(cancelled.json(), { id, status: 'cancelled' })
  const last = readEvents((await there.reply(1)).text).at(-1)!
  t.match(JSON.parse(last.data), { type: 'response.incomplete', response: { id, status: 'cancelled' } })
  await eventually(async () => (await figures(t, all)).get('sluice_tasks_open') === 0)
})

t.test('who follows what another worker makes is told the rest also when both have handed over', async (t) => {
  const vendor = await Upstream.start(t)
  const end = Promise.withResolvers<void>()
  vendor.script(
    sse,
    events([opening, delta('So')]),
    until(end.promise),
    events([delta(' far'), finish, usage, done]),
    endOfBody()
  )
  const overrides = { ...named, ...own, limits: { drain_timeout: '300s' }, workers: 2 }
  const running = await spawnGateway(t, overrides, { upstreams: { vendor } })
  const [here, there] = (await lanes(t, running)) as [Client, Client]
  const id = await begin(here)
  await here.body('"So"')
  there.send({ method: 'GET', path: `${path}/${id}?stream=true`, headers })
  await there.body('"So"')
  const upgrade = await ask(t, running.adminUrl, { method: 'POST', path: '/admin/v1/upgrade' })
  t.match(upgrade.json(), { ok: true, generation: 2 })
  end.resolve()
  const [first, second] = (await Promise.all([here.reply(1), there.reply(1)])).map(({ text }) => readEvents(text))
  t.equal(JSON.parse(first!.at(-1)!.data).type, 'response.completed')
  t.same(second, first)
  for (const client of [here, there]) client.socket.end()
  t.same(await running.exited, { code: 0, signal: null })
})

t.test('an end that is seen by way of another worker is settled at once', async (t) => {
  const vendor = await Upstream.start(t)
  const { all, here, there } = await pair(t, vendor, {
    channels: { vendor: { endpoints: ['responses'] } },
    tasks: { poll: { first: '1h', most: '1h' } }
  })
  const response = { id: 'resp_1', object: 'response', created_at: 1, model: testModel, background: true, output: [] }
  vendor.json({ ...response, status: 'queued' })
  t.equal((await askOn(here, { path, body })).status, 200)
  const counted = { input_tokens: 11, output_tokens: 7, total_tokens: 18 }
  vendor.json({ ...response, status: 'completed', usage: counted })
  const seen = await askOn(there, { method: 'GET', path: `${path}/resp_1` })
  t.match(seen.json(), { status: 'completed' })
  const { data } = await all.admin('/admin/v1/balances')
  t.ok(
    data.every(({ pending_nano }: { pending_nano: string }) => pending_nano === '0'),
    'before the client saw it'
  )
  t.ok(data.some(({ posted_nano }: { posted_nano: string }) => posted_nano === String(11_000 + 14_000)))
})

function threadOf({ replies }: Client): string {
  return replies[0]!.headers['x-thread']!
}
