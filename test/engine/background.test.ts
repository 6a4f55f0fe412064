// Responses in the background: settled once and for what the upstream counted, whoever sees their end, and whenever.
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { startSimulator } from '../../core/simulator/simulator.ts'
import type { Simulator } from '../../core/simulator/simulator.ts'
import { WorkList } from '../../core/store/embedded/book/work-list.ts'
import { verify } from '../../core/store/embedded/care/verify/verify.ts'
import { gateway, spawnGateway, testModel } from '../kit/gateway.ts'
import type { TestGateway } from '../kit/gateway.ts'
import type { ReceivedReply } from '../kit/client.ts'
import { eventually } from '../kit/probe.ts'
import { readEvents } from '../kit/sse.ts'
import { Upstream } from '../kit/upstream.ts'

t.setTimeout(600_000)

const path = '/v1/responses'
const price = { input: 1, output: 2 }

/** A gateway in front of a simulator of its own, with a store that outlives it. */
async function open(
  t: Test,
  more: object = {}
): Promise<{ upstream: Simulator; overrides: Record<string, unknown>; database: string }> {
  const upstream = await startSimulator({ port: 0 })
  t.teardown(() => upstream.close())
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const database = join(folder, 'sluice.db')
  const channel = {
    protocol: 'openai',
    base_url: new URL('/v1', upstream.url).href,
    private: true,
    endpoints: ['responses'],
    models: { demo: 'demo' },
    credential: 'secret'
  }
  return {
    upstream,
    database,
    overrides: {
      channels: { demo: channel },
      store: { sqlite: database },
      tasks: { poll: { first: '20ms', most: '50ms' } },
      ...more
    }
  }
}

const directive = (members: object): string => `Tell me. [[simulator ${JSON.stringify(members)}]]`

function create(local: TestGateway, members: object, more: object = {}): Promise<ReceivedReply> {
  return local.ask({ path, body: { model: 'demo', input: directive(members), background: true, ...more } })
}

const read = (local: TestGateway, id: string, rest = ''): Promise<ReceivedReply> =>
  local.ask({ method: 'GET', path: `${path}/${id}${rest}` })

/** What was charged in all, and what is held, in nano-dollars. */
async function books({ admin }: TestGateway): Promise<{ posted: bigint; pending: bigint }> {
  const { data } = (await admin('/admin/v1/balances')) as { data: Record<string, string>[] }
  const total =
    data.find(({ scope, window }) => scope === 'tenant:acme' && window === 'total') ??
    data.find(({ scope }) => scope === 'tenant:acme')
  return { posted: BigInt(total?.['posted_nano'] ?? 0), pending: BigInt(total?.['pending_nano'] ?? 0) }
}

/** Of what the upstream counted, what it costs. */
function costOf({ stats: { counted } }: Simulator): bigint {
  return BigInt((counted.prompt ?? 0) * price.input + (counted.completion ?? 0) * price.output) * 1000n
}

async function settled(local: TestGateway): Promise<{ posted: bigint; pending: bigint }> {
  await eventually(async () => (await books(local)).pending === 0n, 10_000)
  return books(local)
}

t.test('nobody asks: the gateway does, and the record says what it cost', async (t) => {
  const { upstream, overrides } = await open(t)
  const local = await gateway(t, overrides)
  const reply = await create(local, { tokens: 30, queue_ms: 30, work_ms: 50 })
  t.match(reply.json(), { status: /queued|in_progress/, background: true })
  t.ok((await books(local)).pending > 0n, 'what it may cost is held')
  const { posted } = await settled(local)
  t.equal(posted, costOf(upstream))
  t.ok(posted > 0n)
  t.match(await local.record(reply), {
    endpoint: 'responses',
    outcome: 'completed',
    status: 200,
    error_code: null,
    usage: { output: 30 },
    usage_source: 'upstream',
    cost_nano: String(posted)
  })
})

t.test('whoever sees the end first, it is settled once', async (t) => {
  const { upstream, overrides, database } = await open(t)
  const local = await gateway(t, overrides)
  const ends: Record<string, (id: string) => Promise<unknown>> = {
    'fifty who poll': (id) =>
      Promise.all(
        Array.from({ length: 50 }, async () => {
          while (/queued|in_progress/.test(((await read(local, id)).json() as { status: string }).status));
        })
      ),
    'a stream that is taken up': async (id) => {
      const events = readEvents((await read(local, id, '?stream=true')).body)
      t.match(JSON.parse(events.at(-1)!.data), { type: 'response.completed' })
    },
    'a client that calls it off too late': async (id) => {
      while ((await read(local, id)).json().status !== 'completed');
      await local.ask({ method: 'POST', path: `${path}/${id}/cancel` })
    },
    'one who deletes it': async (id) => {
      while ((await read(local, id)).json().status !== 'completed');
      t.equal((await local.ask({ method: 'DELETE', path: `${path}/${id}` })).status, 200)
    }
  }
  for (const [who, end] of Object.entries(ends)) {
    const reply = await create(
      local,
      { tokens: 12, queue_ms: 20, work_ms: 60 },
      { stream: who === 'a stream that is taken up' }
    )
    const id = reply.headers['content-type']!.includes('event-stream')
      ? JSON.parse(readEvents(reply.body)[0]!.data).response.id
      : reply.json().id
    await end(id)
    const { posted } = await settled(local)
    t.equal(posted, costOf(upstream), who)
    t.match(await local.record(reply), { usage: { output: 12 }, usage_source: 'upstream' }, who)
  }
  await local.gateway.close()
  t.same(verify(database), [])
})

t.test(
  'nothing is looked up for a response that was not made in the background, whatever else is under way',
  async (t) => {
    const upstream = await Upstream.start(t)
    const { overrides } = await open(t, { tasks: { poll: { first: '1h', most: '1h' } } })
    const channels = { upstream: { endpoints: ['responses'] } }
    const local = await gateway(t, { ...overrides, channels }, { upstreams: { upstream } })
    const ask = (more: object = {}): Promise<ReceivedReply> =>
      local.ask({ path, body: { model: testModel, input: 'Tell me.', ...more } })
    const response = { object: 'response', created_at: 1, model: testModel, output: [] }
    upstream.json({ ...response, id: 'resp_open', status: 'queued', background: true })
    t.equal((await ask({ background: true })).status, 200)
    const whole = { ...response, id: 'resp_whole', status: 'completed', background: false }
    upstream.json(whole)
    t.equal((await ask()).status, 200)
    const { find } = WorkList.prototype
    t.teardown(() => (WorkList.prototype.find = find))
    const found: string[] = []
    WorkList.prototype.find = function (owner, id) {
      found.push(id)
      return find.call(this, owner, id)
    }
    upstream.json(whole)
    t.match((await read(local, 'resp_whole')).json(), { status: 'completed' })
    t.same(found, [])
  }
)

t.test('what is called off or fails costs what its upstream counted, or else what went in', async (t) => {
  const upstream = await Upstream.start(t)
  const local = await gateway(
    t,
    { channels: { a: { endpoints: ['responses'] } }, tasks: { poll: { first: '60s', most: '60s' } } },
    { upstreams: { a: upstream } }
  )
  let number = 0
  const begin = async (): Promise<{
    reply: ReceivedReply
    id: string
    state: (status: string, more?: object) => void
  }> => {
    const id = `resp_${++number}`
    const state = (status: string, more: object = {}): void =>
      void upstream.json({
        id,
        object: 'response',
        status,
        background: true,
        model: 'test-model',
        output: [],
        usage: null,
        ...more
      })
    state('queued')
    const reply = await local.ask({ path, body: { model: 'test-model', input: 'Hi', background: true } })
    t.equal(reply.json().status, 'queued')
    return { reply, id, state }
  }
  const usage = (input: number, output: number): object => ({
    usage: { input_tokens: input, output_tokens: output, total_tokens: input + output }
  })
  let charged = 0n
  const check = async (
    { reply }: { reply: ReceivedReply },
    input: number,
    output: number,
    more: object
  ): Promise<void> => {
    charged += BigInt(input + 2 * output) * 1000n
    t.equal((await settled(local)).posted, charged)
    t.match(await local.record(reply), more)
  }
  const failed = await begin()
  failed.state('in_progress')
  t.equal((await read(local, failed.id)).json().status, 'in_progress')
  t.ok((await books(local)).pending > 0n)
  for (let again = 0; again < 3; again++) {
    failed.state('failed', { ...usage(100, 50), error: { code: 'server_error', message: 'No.' } })
    await read(local, failed.id)
  }
  await check(failed, 100, 50, { outcome: 'failed', error_code: 'task_failed', usage: { input: 100, output: 50 } })
  const cancelled = await begin()
  cancelled.state('cancelled', usage(80, 20))
  cancelled.state('cancelled', usage(80, 20))
  await Promise.all([local.ask({ method: 'POST', path: `${path}/${cancelled.id}/cancel` }), read(local, cancelled.id)])
  await check(cancelled, 80, 20, { outcome: 'aborted', usage: { input: 80, output: 20 }, usage_source: 'upstream' })
  const uncounted = await begin()
  uncounted.state('cancelled')
  await local.ask({ method: 'POST', path: `${path}/${uncounted.id}/cancel` })
  await check(uncounted, 1, 0, { outcome: 'aborted', usage: { input: 1, output: 0 }, usage_source: 'estimated' })
  const cut = await begin()
  cut.state('incomplete', { ...usage(7, 16), incomplete_details: { reason: 'max_output_tokens' } })
  await read(local, cut.id)
  await check(cut, 7, 16, { outcome: 'completed', usage: { output: 16 } })
  const deleted = await begin()
  deleted.state('in_progress')
  deleted.state('cancelled')
  upstream.json({ id: deleted.id, object: 'response', deleted: true })
  t.equal((await local.ask({ method: 'DELETE', path: `${path}/${deleted.id}` })).status, 200)
  await check(deleted, 1, 0, { outcome: 'aborted', usage_source: 'estimated' })
  const counted = await begin()
  counted.state('in_progress')
  counted.state('cancelled', usage(9, 4))
  upstream.json({ id: counted.id, object: 'response', deleted: true })
  t.equal(
    (await local.ask({ method: 'DELETE', path: `${path}/${counted.id}` })).status,
    200,
    'deleted while it was made'
  )
  await check(counted, 9, 4, { outcome: 'aborted', usage_source: 'upstream' })
  const late = await begin()
  late.state('completed', usage(5, 6))
  upstream.json({ id: late.id, object: 'response', deleted: true })
  t.equal(
    (await local.ask({ method: 'DELETE', path: `${path}/${late.id}` })).status,
    200,
    'deleted when it had ended, and nobody knew'
  )
  await check(late, 5, 6, { outcome: 'completed' })
  const silent = await begin()
  silent.state('completed', {
    output: [{ id: 'msg_1', type: 'message', content: [{ type: 'output_text', text: 'x'.repeat(40) }] }]
  })
  await read(local, silent.id)
  t.match(
    await local.record(silent.reply),
    { usage_source: 'estimated', usage: { output: 10 } },
    'what nobody counted is estimated'
  )
})

t.test('a client that leaves its stream leaves the response behind, which is settled like any other', async (t) => {
  const { upstream, overrides } = await open(t, { limits: { disconnect_drain: { time: '1ms' } } })
  const local = await gateway(t, overrides)
  const whole = await create(local, { tokens: 9, queue_ms: 5, work_ms: 10 }, { stream: true })
  t.equal((await settled(local)).posted, costOf(upstream), 'a stream that is read to its end')
  t.match(await local.record(whole), { streamed: true, usage: { output: 9 }, usage_source: 'upstream' })
  const { posted } = await settled(local)
  const left = new AbortController()
  const response = await fetch(`${local.url}${path}`, {
    method: 'POST',
    signal: left.signal,
    headers: { authorization: 'Bearer sk-test-000000000000000000000000', 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'demo',
      // Long enough for the gateway to see that its client has left, also on a busy machine.
      input: directive({ tokens: 14, queue_ms: 5, work_ms: 2000 }),
      background: true,
      stream: true
    })
  })
  const reader = response.body!.getReader()
  const first = Buffer.from((await reader.read()).value!).toString()
  left.abort()
  const id = /"id":"(resp_[^"]+)"/.exec(first)![1]!
  await eventually(async () => (await read(local, id)).json().status === 'completed')
  const after = await settled(local)
  t.equal(after.posted, costOf(upstream))
  t.ok(after.posted > posted)
  t.match(await local.record({ headers: { 'x-request-id': response.headers.get('x-request-id')! } }), {
    outcome: 'completed',
    usage: { output: 14 },
    usage_source: 'upstream'
  })
})

t.test('a gateway that was killed meanwhile finds the response again, and settles it once', async (t) => {
  // An upstream whose response ends when the test says so, however long a start takes.
  let state: object = { status: 'queued', usage: null }
  let asked = 0
  const server = createServer((request, response) => {
    asked++
    request.resume()
    response
      .setHeader('content-type', 'application/json')
      .end(JSON.stringify({ id: 'resp_1', object: 'response', background: true, model: 'demo', output: [], ...state }))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { overrides, database } = await open(t)
  const base_url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
  const channels = {
    demo: { protocol: 'openai', base_url, private: true, endpoints: ['responses'], models: { demo: 'demo' } }
  }
  let running = await spawnGateway(t, { ...overrides, channels })
  const created = await create(running, {})
  running.process.kill('SIGKILL')
  await running.exited
  const before = asked
  running = await spawnGateway(t, { ...overrides, channels })
  t.ok((await books(running)).pending > 0n, 'its hold is there')
  await eventually(() => asked > before, 10_000)
  const polls = Promise.all(
    Array.from({ length: 50 }, async () => {
      while (/queued/.test((await read(running, 'resp_1')).json().status));
    })
  )
  const cancel = running.ask({ method: 'POST', path: `${path}/resp_1/cancel` })
  state = { status: 'completed', usage: { input_tokens: 30, output_tokens: 21, total_tokens: 51 } }
  await Promise.all([polls, cancel])
  t.equal((await settled(running)).posted, 72_000n)
  t.match(await running.record(created), {
    usage: { input: 30, output: 21 },
    usage_source: 'upstream',
    outcome: 'completed'
  })
  running.process.kill('SIGTERM')
  await running.exited
  t.same(verify(database), [])
})
