// Responses that upstreams keep: whose they are, where they are asked for, and that their way there is known before
// their id is.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { GatewayError } from '../../core/contract/contract.ts'
import { startSimulator } from '../../core/simulator/simulator.ts'
import type { Simulator } from '../../core/simulator/simulator.ts'
import { gateway, spawnGateway, testKey } from '../kit/gateway.ts'
import type { TestGateway } from '../kit/gateway.ts'
import type { ReceivedReply } from '../kit/client.ts'
import { readEvents } from '../kit/sse.ts'
import { chunk, endOfBody, head, Upstream } from '../kit/upstream.ts'
import { channelTo, Workbench } from '../kit/workbench.ts'

t.setTimeout(600_000)

const path = '/v1/responses'
const native = { endpoints: ['responses'] }

async function simulator(t: Test): Promise<Simulator> {
  const one = await startSimulator({ port: 0 })
  t.teardown(() => one.close())
  return one
}

/** A channel that leads to a simulator, whose responses nobody else knows. */
function leading({ url }: Simulator, more: object = {}): object {
  return {
    protocol: 'openai',
    base_url: new URL('/v1', url).href,
    private: true,
    endpoints: ['responses'],
    models: { demo: 'demo' },
    credential: 'upstream-secret',
    ...more
  }
}

/** A request of one key. */
function as(local: TestGateway, key: string): (method: string, path: string, body?: object) => Promise<ReceivedReply> {
  return (method, target, body) =>
    local.ask({ method, path: target, headers: { authorization: `Bearer ${key}` }, ...(body && { body }) })
}

const idOf = (reply: ReceivedReply): string => (reply.json() as { id: string }).id

t.test("what is another's is what does not exist, whatever is asked of it, and no upstream hears of it", async (t) => {
  const upstream = await simulator(t)
  const secret = (name: string): string => `sk-test-${name.padEnd(20, '0')}`
  const key = (name: string, more: object): object => ({ name, key: secret(name), ...more })
  const local = await gateway(t, {
    channels: { demo: leading(upstream) },
    tenants: {
      acme: { projects: { web: { members: { alice: {}, bob: {} } }, app: {} } },
      other: { projects: { web: {} } }
    },
    keys: [
      key('alice', { tenant: 'acme', project: 'web', member: 'alice' }),
      key('bob', { tenant: 'acme', project: 'web', member: 'bob' }),
      key('app', { tenant: 'acme', project: 'app' }),
      key('acme', { tenant: 'acme' }),
      key('other', { tenant: 'other', project: 'web' })
    ]
  })
  const alice = as(local, secret('alice'))
  const create = async (stream = false): Promise<{ id: string; item: string }> => {
    const reply = await alice('POST', path, { model: 'demo', input: 'Hi', background: true, ...(stream && { stream }) })
    t.equal(reply.status, 200, reply.text)
    const { id, output } = stream ? JSON.parse(readEvents(reply.body).at(-1)!.data).response : await poll(idOf(reply))
    return { id, item: output[0].id }
  }
  const poll = async (id: string): Promise<any> => {
    for (;;) {
      const reply = (await alice('GET', `${path}/${id}`)).json() as any
      if (reply.status === 'completed') return reply
    }
  }
  const [own, streamed, gone] = [await create(), await create(true), await create()]
  t.equal((await alice('DELETE', `${path}/${gone.id}`)).status, 200)
  const verbs: [string, (id: string, item: string) => [method: string, path: string, body?: object]][] = [
    ['read', (id) => ['GET', `${path}/${id}`]],
    ['stream', (id) => ['GET', `${path}/${id}?stream=true`]],
    ['list', (id) => ['GET', `${path}/${id}/input_items`]],
    ['cancel', (id) => ['POST', `${path}/${id}/cancel`]],
    ['go on', (id) => ['POST', path, { model: 'demo', input: 'And?', previous_response_id: id }]],
    [
      'go on streaming',
      (id) => ['POST', path, { model: 'demo', input: 'And?', previous_response_id: id, stream: true }]
    ],
    ['compact', (id) => ['POST', `${path}/compact`, { model: 'demo', previous_response_id: id }]],
    ['count', (id) => ['POST', `${path}/input_tokens`, { model: 'demo', previous_response_id: id }]],
    [
      'refer',
      (_id, item) => [
        'POST',
        path,
        {
          model: 'demo',
          input: [
            { type: 'item_reference', id: item },
            { role: 'user', content: 'x' }
          ]
        }
      ]
    ],
    ['read an item as a response', (_id, item) => ['GET', `${path}/${item}`]],
    ['a conversation', (id) => ['POST', path, { model: 'demo', input: 'x', conversation: { id } }]],
    ['delete', (id) => ['DELETE', `${path}/${id}`]]
  ]
  const { requests } = upstream.stats
  const unknown = { id: 'resp_unknown', item: 'msg_unknown' }
  for (const [name, verb] of verbs) {
    const missing = await alice(...verb(unknown.id, unknown.item))
    t.match(
      [missing.status, missing.json()],
      [404, { error: { code: 'response_not_found', message: 'Response not found' } }],
      name
    )
    const bodies = [await alice(...verb(gone.id, gone.item === undefined ? '' : unknown.item))]
    for (const { id, item } of [own, streamed])
      for (const who of ['app', 'acme', 'other']) bodies.push(await as(local, secret(who))(...verb(id, item)))
    for (const reply of bodies) t.same([reply.status, reply.text], [404, missing.text], name)
  }
  t.equal(upstream.stats.requests, requests, 'no upstream was asked')
  const bob = as(local, secret('bob'))
  for (const [name, verb] of verbs) {
    if (['read an item as a response', 'a conversation'].includes(name)) continue
    t.equal((await bob(...verb(streamed.id, streamed.item))).status, 200, `${name}: the project's own`)
    if (name !== 'stream') t.equal((await bob(...verb(own.id, own.item))).status, 200, `${name}: what was polled`)
  }
})

t.test('a chain of responses stays where it began, whatever the weights say', async (t) => {
  const [light, heavy] = [await simulator(t), await simulator(t)]
  const local = await gateway(t, {
    channels: { demo: leading(light, { weight: 1 }), heavy: leading(heavy, { weight: 3, credential: 'other' }) }
  })
  const one = as(local, testKey)
  const turn = async (stream: boolean, previous?: string): Promise<string> => {
    const reply = await one('POST', path, {
      model: 'demo',
      input: 'Hi',
      stream,
      ...(previous !== undefined && { previous_response_id: previous })
    })
    t.equal(reply.status, 200, reply.text)
    return stream ? JSON.parse(readEvents(reply.body).at(-1)!.data).response.id : idOf(reply)
  }
  await Promise.all(
    Array.from({ length: 20 }, async (_, at) => {
      const second = await turn(at % 3 === 0, await turn(at % 2 === 0))
      const third = await turn(at % 2 === 1, second)
      t.equal((await one('GET', `${path}/${third}`)).status, 200)
      t.equal((await one('DELETE', `${path}/${second}`)).status, 200)
    })
  )
  t.equal(light.stats.refused + heavy.stats.refused, 0, 'nobody was asked for what it does not have')
  t.ok(light.stats.requests > 0 && heavy.stats.requests > 0)
})

t.test('when the holder fails or is gone, that is the answer, and nobody else is asked', async (t) => {
  const [holder, other] = [await Upstream.start(t), await Upstream.start(t)]
  const of = (upstream: Upstream, more: object = {}): Record<string, unknown> =>
    channelTo(upstream, { ...native, ...more })
  const bench = await Workbench.open(t, { channels: { a: of(holder), b: of(other, { priority: 1 }) } })
  const response = {
    id: 'resp_1',
    object: 'response',
    status: 'completed',
    model: 'demo',
    output: [],
    usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
  }
  holder.json(response)
  t.equal((await bench.send({ target: path, body: { input: 'Hi' } })).status, 200)
  const going = { target: path, body: { input: 'And?', previous_response_id: 'resp_1' } }
  const reading = { method: 'GET', target: `${path}/resp_1`, body: '' }
  const fails = (): unknown =>
    holder.script(head(503, { 'content-type': 'application/json' }), chunk('{"error":{"message":"busy"}}'), endOfBody())
  for (const ask of [going, reading]) {
    fails()
    t.match(await bench.send(ask), { status: 503, body: /busy/ })
  }
  const gone = async (channels: Record<string, unknown>, code: string, why: string): Promise<void> => {
    await bench.reload({
      channels,
      models: {
        demo: { price: { input: 1, output: 2 } },
        ...('c' in channels && { second: { price: { input: 1, output: 2 } } })
      }
    })
    t.match(JSON.parse((await bench.send(going)).body).error.code, code, why)
  }
  await gone({ b: of(other) }, 'no_available_channel', 'out of the file')
  t.match((await bench.send(reading)).status, 503)
  await gone({ a: of(holder, { credential: 'another' }), b: of(other) }, 'no_available_channel', 'another account')
  await gone(
    { a: of(other), b: of(other, { credential: 'x' }) },
    'no_available_channel',
    'another address of that name'
  )
  await gone(
    { b: of(other), c: of(holder, { models: { second: 'second' } }) },
    'invalid_field',
    'where the model is not served'
  )
  await gone(
    { a: of(holder, { endpoints: ['chat'] }), b: of(other) },
    'no_available_channel',
    'where it is not spoken any more'
  )
  await bench.reload({ channels: { renamed: of(holder, { weight: 0 }), b: of(other, { weight: 100 }) } })
  holder.json({ ...response, id: 'resp_2' })
  t.equal((await bench.send(going)).status, 200, 'the account is the same under another name')
  t.match(holder.requests.at(-1)!.json(), { previous_response_id: 'resp_1', input: 'And?' })
  t.equal(other.requests.length, 0)
})

t.test('nothing is removed that the upstream has, and what it has lost is', async (t) => {
  const upstream = await Upstream.start(t)
  const bench = await Workbench.open(t, { channels: { a: channelTo(upstream, native) } })
  const route = { tenant: 'acme', project: '', kind: 'response' as const, channel: 'a', account: '', model: 'demo' }
  const answer = { object: 'response', status: 'completed', model: 'demo', output: [], usage: null }
  for (const id of ['resp_1', 'resp_2']) {
    upstream.json({ ...answer, id })
    await bench.send({ target: path, body: { input: 'Hi' } })
  }
  const { account } = [...bench.routes.all.values()][0]!
  t.match(
    [...bench.routes.all.values()],
    [
      { ...route, account, id: 'resp_1' },
      { ...route, account, id: 'resp_2' }
    ]
  )
  const drop = (id: string): ReturnType<typeof bench.send> =>
    bench.send({ method: 'DELETE', target: `${path}/${id}`, body: '' })
  for (const status of [500, 429, 400]) {
    upstream.script(
      head(status, { 'content-type': 'application/json' }),
      chunk('{"error":{"message":"No."}}'),
      endOfBody()
    )
    t.not((await drop('resp_1')).status, 200)
    t.equal(bench.routes.all.size, 2, `${status}`)
  }
  const lost = (): unknown =>
    upstream.script(
      head(404, { 'content-type': 'application/json' }),
      chunk('{"error":{"message":"Response with id \'resp_1\' not found."}}'),
      endOfBody()
    )
  lost()
  const read = await bench.send({ method: 'GET', target: `${path}/resp_1`, body: '' })
  t.match([read.status, JSON.parse(read.body).error.message], [404, 'Response not found'])
  t.notMatch(read.body, 'resp_1')
  t.equal(bench.routes.all.size, 1)
  const before = upstream.requests.length
  t.equal((await drop('resp_1')).status, 404)
  t.equal(upstream.requests.length, before)
  upstream.json({ id: 'resp_2', object: 'response', deleted: true })
  t.match(await drop('resp_2'), { body: '{"id":"resp_2","object":"response","deleted":true}' })
  t.equal(bench.routes.all.size, 0)
})

t.test('the way back is on disk before the client sees the id', async (t) => {
  const upstream = await Upstream.start(t)
  const bench = await Workbench.open(t, { channels: { a: channelTo(upstream, native) } })
  const response = { id: 'resp_1', object: 'response', status: 'in_progress', model: 'demo', output: [], usage: null }
  const list = [
    { type: 'response.created', response },
    { type: 'response.output_text.delta', output_index: 0, content_index: 0, delta: 'Hi' },
    {
      type: 'response.completed',
      response: {
        ...response,
        status: 'completed',
        output: [{ id: 'msg_1', type: 'message', content: [] }],
        usage: { input_tokens: 1, output_tokens: 1 }
      }
    }
  ]
  const stream = (): unknown =>
    upstream.script(
      head(200, { 'content-type': 'text/event-stream' }),
      chunk(list.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')),
      endOfBody()
    )
  for (const streaming of [true, false]) {
    const disk = Promise.withResolvers<void>()
    bench.routes.all.clear()
    bench.routes.disk = disk.promise
    if (streaming) stream()
    else upstream.json(list[2]!.response)
    const { client, answer } = bench.start({ target: path, body: { input: 'Hi', stream: streaming } })
    while (bench.routes.all.size < 2) await new Promise((resolve) => setTimeout(resolve, 2))
    t.equal(client.headSent, false, 'the answer is whole, and waits')
    disk.resolve()
    t.match(await answer, { status: 200, complete: true, body: /resp_1/ })
    t.match(
      [...bench.routes.all.values()].map(({ id, kind }) => `${kind} ${id}`),
      ['response resp_1', 'item msg_1']
    )
    bench.routes.disk = Promise.reject(new GatewayError('billing_unavailable', 'No disk.'))
    bench.routes.disk.catch(() => {})
    if (streaming) stream()
    else upstream.json(list[2]!.response)
    const failed = await bench.send({ target: path, body: { input: 'Hi', stream: streaming } })
    t.match(failed, { status: 503, body: /No disk/ })
    t.notMatch(failed.body, 'resp_1')
    bench.routes.disk = Promise.resolve()
  }
})

t.test('only what is kept, and forwarded as it came, can be asked for again', async (t) => {
  const [upstream, chat] = [await Upstream.start(t), await Upstream.start(t)]
  const bench = await Workbench.open(t, { channels: { a: channelTo(upstream, native) } })
  const response = { id: 'resp_1', object: 'response', status: 'completed', model: 'demo', output: [], usage: null }
  const kept = async (body: object, answer: object = response): Promise<number> => {
    bench.routes.all.clear()
    upstream.json(answer)
    const reply = await bench.send({ target: path, body: { input: 'Hi', ...body } })
    t.equal(reply.status, 200, reply.body)
    return bench.routes.all.size
  }
  t.equal(await kept({}), 1)
  t.equal(await kept({ store: null }), 1)
  t.equal(await kept({ store: false }), 0)
  t.equal(await kept({}, { ...response, store: false }), 0, 'the upstream says that it keeps nothing')
  t.equal(
    await kept({ background: true, store: false }, { ...response, status: 'queued', store: false, background: true }),
    1
  )
  upstream.json({ ...response, id: 5 })
  t.match(
    await bench.send({ target: path, body: { input: 'Hi' } }),
    { status: 502 },
    'what has no id cannot be asked for'
  )
  bench.routes.all.clear()
  upstream.json(response)
  await bench.send({ body: { messages: [{ role: 'user', content: 'Hi' }] } })
  t.equal(bench.routes.all.size, 0, 'a chat client has no use for it')
  await bench.reload({ channels: { chat: channelTo(chat) } })
  chat.json({
    id: 'c',
    object: 'chat.completion',
    created: 1,
    model: 'demo',
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }]
  })
  t.equal((await bench.send({ target: path, body: { input: 'Hi' } })).status, 200)
  t.equal(bench.routes.all.size, 0, 'nor what was translated')
})

t.test('what is asked of a kept response passes unchanged, and nothing that the gateway does not know', async (t) => {
  const upstream = await Upstream.start(t)
  const bench = await Workbench.open(t, {
    channels: { a: channelTo(upstream, { ...native, models: { demo: 'demo-2026' } }) }
  })
  upstream.json({ id: 'resp_1', object: 'response', status: 'completed', model: 'demo-2026', output: [], usage: null })
  await bench.send({ target: path, body: { input: 'Hi' } })
  const stored =
    '{"id": "resp_1", "object":"response",  "status":"failed","model":"demo","output":[],"error":{"code":"server_error","message":"x"},"usage":{"input_tokens":5}}'
  const reply = (body: string): unknown =>
    upstream.script(head(200, { 'content-type': 'application/json' }), chunk(body), endOfBody())
  reply(stored.replace('"demo"', '"demo-2026"'))
  const read = await bench.send({
    method: 'GET',
    target: `${path}/resp_1?include[]=reasoning.encrypted_content&include[1]=x&api-version=1&include_obfuscation=false`,
    body: ''
  })
  t.equal(read.body, stored, 'to the byte, but for the name of the model')
  t.equal(
    upstream.requests.at(-1)!.target,
    '/v1/responses/resp_1?include%5B%5D=reasoning.encrypted_content&include%5B1%5D=x&include_obfuscation=false'
  )
  t.equal(read.exchange.attempts[0]!.usage, undefined, 'it is free')
  const events = [
    { type: 'response.output_text.delta', sequence_number: 4, delta: 'x' },
    { type: 'response.failed', sequence_number: 5, response: JSON.parse(stored) }
  ]
  const text = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('')
  for (const told of [text, text.slice(text.indexOf('event: response.failed'))]) {
    upstream.script(head(200, { 'content-type': 'text/event-stream' }), chunk(told), endOfBody())
    const again = await bench.send({ method: 'GET', target: `${path}/resp_1?stream=true&starting_after=3`, body: '' })
    t.equal(again.body, told)
    t.equal(upstream.requests.at(-1)!.target, '/v1/responses/resp_1?stream=true&starting_after=3')
  }
  reply(stored)
  await bench.send({ method: 'POST', target: `${path}/resp_1/cancel`, body: '' })
  t.match(upstream.requests.at(-1), { method: 'POST', target: '/v1/responses/resp_1/cancel' })
  t.equal(upstream.requests.at(-1)!.body.length, 0)
  t.notOk(upstream.requests.at(-1)!.headers['content-type'])
})

t.test('a client that saw an id can use it, also when the gateway was killed then', async (t) => {
  const upstream = await simulator(t)
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const overrides = { channels: { demo: leading(upstream) }, store: { sqlite: join(folder, 'sluice.db') } }
  let running = await spawnGateway(t, overrides)
  const ask = (stream: boolean): Promise<ReceivedReply> =>
    running.ask({ path, body: { model: 'demo', input: 'Hi. [[simulator {"text": "a b c"}]]', stream } })
  const ids = [idOf(await ask(false)), JSON.parse(readEvents((await ask(true)).body)[0]!.data).response.id]
  running.process.kill('SIGKILL')
  await running.exited
  running = await spawnGateway(t, overrides)
  for (const id of ids) t.equal((await running.ask({ method: 'GET', path: `${path}/${id}` })).status, 200)
})

t.test('whatever an upstream calls a response, it is asked for that and for nothing else', async (t) => {
  const upstream = await Upstream.start(t)
  const local = await gateway(t, { channels: { a: { endpoints: ['responses'] } } }, { upstreams: { a: upstream } })
  const answer = (id: string): object => ({
    id,
    object: 'response',
    status: 'completed',
    model: 'test-model',
    output: [],
    usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
  })
  for (const id of ['resp/../../files', 'a b', 'r%2Fx', 'é…', 'a?b=c#d', 'input_items', '"x"', '...']) {
    upstream.json(answer(id))
    t.equal((await local.ask({ path, body: { model: 'test-model', input: 'Hi' } })).json().id, id)
    for (const [method, rest] of [
      ['GET', ''],
      ['GET', '/input_items'],
      ['POST', '/cancel'],
      ['DELETE', '']
    ] as const) {
      upstream.json(answer(id))
      t.equal((await local.ask({ method, path: `${path}/${encodeURIComponent(id)}${rest}` })).status, 200, id)
      t.match(upstream.requests.at(-1), { method, target: `/v1/responses/${encodeURIComponent(id)}${rest}` })
    }
  }
  const { length } = upstream.requests
  for (const id of ['resp%2F..%2F..%2Ffiles', '..', '%2e%2e', '.', '%2F', '%', '%ff', 'a%00b', 'x'.repeat(3000)]) {
    const reply = await local.ask({ method: 'GET', path: `${path}/${id}` })
    t.ok(reply.status === 404 || reply.status === 400, `${id.slice(0, 30)}: ${reply.status}`)
  }
  t.equal(upstream.requests.length, length, 'nobody is asked for what is unknown')
  for (const id of ['..', '.', '']) {
    upstream.json(answer(id))
    t.equal(
      (await local.ask({ path, body: { model: 'test-model', input: 'Hi' } })).status,
      502,
      'what would be another place is no id'
    )
  }
})
