// What an answer costs that was not brought to its end: by a count where there is one, else by what was delivered, and
// never nothing by leaving early.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createServer as createTcpServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import { connect } from '../kit/client.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually, settled } from '../kit/probe.ts'
import { openRealtime } from '../kit/realtime.ts'
import type { RealtimeClient } from '../kit/realtime.ts'
import { sessionsAt, socketUpstream } from '../kit/socket-upstream.ts'
import type { SocketUpstream } from '../kit/socket-upstream.ts'
import { chunk, endOfBody, events, head, reset, stall, until, Upstream } from '../kit/upstream.ts'
import { channelTo, chatAnswer, chatEvents, defaultChain, Workbench } from '../kit/workbench.ts'
import type { Answer, Ask, Sections } from '../kit/workbench.ts'

t.setTimeout(600_000)

const words = 400
const text = (number: number): string => `word${number} `
const runOf = (make: (text: string) => object): object[] =>
  Array.from({ length: words }, (_, number) => make(text(number)))
const messages = [{ role: 'user', content: 'Tell me a long story, please.' }]

/** A protocol, and a stream of it whose upstream reports early what it cannot know yet. */
interface Speaker {
  channel: Record<string, unknown>
  ask(stream: boolean): Ask
  /** Without an end. */
  story: readonly unknown[]
}

const event = (payload: { type: string }): string => `event: ${payload.type}\ndata: ${JSON.stringify(payload)}\n\n`
const response = { id: 'resp_1', object: 'response', status: 'in_progress', model: 'demo', output: [] }

const speakers: Readonly<Record<string, Speaker>> = {
  chat: {
    channel: {},
    ask: (stream) => ({ body: { messages, stream } }),
    story: [
      {
        id: 'c',
        object: 'chat.completion.chunk',
        created: 1,
        model: 'demo',
        choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }],
        usage: { prompt_tokens: 25, completion_tokens: 1, total_tokens: 26 }
      },
      ...runOf((content) => ({
        id: 'c',
        object: 'chat.completion.chunk',
        created: 1,
        model: 'demo',
        choices: [{ index: 0, delta: { content }, finish_reason: null }]
      }))
    ]
  },
  anthropic: {
    channel: { protocol: 'anthropic' },
    ask: (stream) => ({ target: '/v1/messages', body: { messages, max_tokens: 2000, stream } }),
    story: [
      {
        type: 'message_start',
        message: {
          id: 'msg_1',
          type: 'message',
          role: 'assistant',
          model: 'demo',
          content: [],
          stop_reason: null,
          usage: { input_tokens: 25, output_tokens: 1 }
        }
      },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      ...runOf((part) => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: part } }))
    ].map((payload) => event(payload as { type: string }))
  },
  gemini: {
    channel: { protocol: 'gemini' },
    ask: (stream) => ({
      target: stream ? '/v1beta/models/demo:streamGenerateContent?alt=sse' : '/v1beta/models/demo:generateContent',
      body: JSON.stringify({ contents: [{ role: 'user', parts: [{ text: messages[0]!.content }] }] })
    }),
    story: runOf((part) => ({
      candidates: [{ content: { role: 'model', parts: [{ text: part }] }, index: 0 }],
      usageMetadata: { promptTokenCount: 25, totalTokenCount: 25 }
    }))
  },
  responses: {
    channel: { endpoints: ['responses', 'chat'] },
    ask: (stream) => ({ target: '/v1/responses', body: { messages: undefined, input: messages[0]!.content, stream } }),
    story: [
      {
        type: 'response.created',
        sequence_number: 0,
        response: { ...response, usage: { input_tokens: 25, output_tokens: 1, total_tokens: 26 } }
      },
      {
        type: 'response.output_item.added',
        sequence_number: 1,
        output_index: 0,
        item: { id: 'msg_1', type: 'message', role: 'assistant', status: 'in_progress', content: [] }
      },
      {
        type: 'response.content_part.added',
        sequence_number: 2,
        item_id: 'msg_1',
        output_index: 0,
        content_index: 0,
        part: { type: 'output_text', text: '', annotations: [] }
      },
      ...runOf((delta) => ({
        type: 'response.output_text.delta',
        sequence_number: 3,
        item_id: 'msg_1',
        output_index: 0,
        content_index: 0,
        delta
      }))
    ].map((payload) => event(payload as { type: string }))
  }
}

async function open(
  t: Test,
  sections: Sections,
  channel: Record<string, unknown> = {}
): Promise<{ bench: Workbench; upstream: Upstream }> {
  const upstream = await Upstream.start(t)
  return { upstream, bench: await Workbench.open(t, { channels: { a: channelTo(upstream, channel) }, ...sections }) }
}

/** The chain with these options of `quota`. */
const chainOf = (quota: object): Sections => ({
  chain: defaultChain.map((entry) => ('quota' in entry ? { quota } : entry))
})

const streamHead = head(200, { 'content-type': 'text/event-stream' })

for (const [name, { channel, ask, story }] of Object.entries(speakers)) {
  t.test(
    `${name}: a stream that breaks after ${words} words is charged for them, whatever was reported first`,
    async (t) => {
      const { bench, upstream } = await open(t, { limits: { disconnect_drain: { time: '100ms' } } }, channel)
      const check = ({ outcome }: Answer, kind: string): void => {
        t.equal(outcome.kind, kind)
        const { settled } = bench.ledger.rows.at(-1)!
        t.equal(settled?.source, 'partial', kind)
        t.equal(settled?.usage.input, 25, `${kind}: the prompt as it was counted`)
        t.ok(
          settled!.usage.output >= words && settled!.usage.output <= 3 * words,
          `${kind}: ${settled!.usage.output} tokens`
        )
      }
      upstream.script(streamHead, events(story, 'one'), reset())
      check(await bench.send(ask(true)), 'failed')
      upstream.script(streamHead, events(story, 'one'), stall())
      const { client, answer } = bench.start(ask(true))
      await eventually(() => client.text.includes(text(words - 1).trim()), 10_000)
      client.leave()
      check(await answer, 'aborted')
      t.same(bench.ledger.open, [])
    }
  )

  t.test(`${name}: a client that leaves before the first byte pays the prompt, ten times in a row`, async (t) => {
    const { bench, upstream } = await open(t, {}, channel)
    for (let times = 0; times < 10; times++) {
      upstream.script(stall())
      const { client, answer } = bench.start(ask(times % 2 === 1))
      await upstream.request(times)
      client.leave()
      t.equal((await answer).outcome.kind, 'aborted')
      const { settled } = bench.ledger.rows[times]!
      t.match(settled, { source: 'estimated', channel: 'a', usage: { output: 0 } })
      t.ok(settled!.usage.input > 5 && settled!.usage.input < 60, `${settled!.usage.input} tokens`)
      t.equal(settled!.amount, BigInt(settled!.usage.input) * 1000n)
    }
    upstream.script(reset())
    t.equal((await bench.send(ask(false))).outcome.kind, 'failed')
    t.ok(bench.ledger.rows.at(-1)!.voided, "what the upstream failed at is not the client's cost")
    t.same(bench.ledger.open, [])
  })
}

t.test(
  'what the upstream has counted by then is charged to a client that leaves before it is shown anything',
  async (t) => {
    const { bench, upstream } = await open(t, { limits: { on_disconnect: 'abort' } }, speakers['anthropic']!.channel)
    const sent = Promise.withResolvers<void>()
    upstream.script(
      streamHead,
      events(speakers['anthropic']!.story.slice(0, 1)),
      () => void setTimeout(sent.resolve, 100),
      stall()
    )
    const { client, answer } = bench.start(speakers['anthropic']!.ask(true))
    await sent.promise
    client.leave()
    await answer
    t.match(bench.ledger.rows[0]!.settled, { usage: { input: 25, output: 1 }, source: 'partial' })
  }
)

t.test('an operator may be generous: `abandoned: nothing`', async (t) => {
  const { bench, upstream } = await open(t, chainOf({ abandoned: 'nothing' }))
  upstream.script(stall())
  const { client, answer } = bench.start(speakers['chat']!.ask(false))
  await upstream.request()
  client.leave()
  await answer
  t.ok(bench.ledger.rows[0]!.voided)
  t.equal(bench.ledger.rows[0]!.costs.length, 1, 'what it may have cost is in the journal')

  upstream.script(streamHead, events(speakers['chat']!.story.slice(0, 20)), reset())
  await bench.send(speakers['chat']!.ask(true))
  t.equal(bench.ledger.rows[1]!.settled?.source, 'partial', 'what was shown is charged all the same')
})

t.test('what is spoken, listened to and searched is the prompt of its own kind', async (t) => {
  const models = { demo: { price: { character: 15, second: 100, search: 0.002 } } }
  const { bench, upstream } = await open(t, { models }, { endpoints: ['audio', 'rerank'] })
  upstream.script(stall())
  const speech = bench.start({
    target: '/v1/audio/speech',
    body: { messages: undefined, input: 'Nineteen characters', voice: 'alloy' }
  })
  await upstream.request()
  speech.client.leave()
  await speech.answer
  t.match(bench.ledger.rows[0]!.settled, { usage: { character: 19 }, amount: 285_000n })

  upstream.script(stall())
  const documents = Array.from({ length: 120 }, (_, number) => `document ${number}`)
  const search = bench.start({ target: '/v1/rerank', body: { messages: undefined, query: 'sea', documents } })
  await upstream.request(1)
  search.client.leave()
  await search.answer
  t.match(bench.ledger.rows[1]!.settled, { usage: { search: 2, input: 0 }, amount: 4_000_000n })
})

t.test('pictures are made to their end when their client leaves, and cost what they are', async (t) => {
  const models = { demo: { price: { image: 0.04 } } }
  const { bench, upstream } = await open(t, { models }, { endpoints: ['images'] })
  const gone = Promise.withResolvers<void>()
  const picture = { b64_json: 'A'.repeat(400_000) }
  for (const [number, data] of [
    [{ url: 'https://pictures.example/1' }, { url: 'https://pictures.example/2' }],
    [picture]
  ].entries()) {
    upstream.script(
      until(gone.promise),
      head(200, { 'content-type': 'application/json' }),
      chunk(JSON.stringify({ created: 1, data })),
      endOfBody()
    )
    const { client, answer } = bench.start({
      target: '/v1/images/generations',
      body: { messages: undefined, prompt: 'A boat', n: data.length }
    })
    await upstream.request(number)
    client.leave()
    gone.resolve()
    t.equal((await answer).outcome.kind, 'aborted')
    t.match(bench.ledger.rows[number]!.settled, {
      usage: { image: data.length },
      source: 'measured',
      amount: BigInt(data.length) * 40_000_000n
    })
  }
})

t.test(
  'no more pictures than other answers are read on at one time, and those that are not cost their order',
  async (t) => {
    const models = { demo: { price: { image: 0.04 } } }
    const limits = { disconnect_drain: { concurrent: 1 } }
    const { bench, upstream } = await open(t, { models, limits }, { endpoints: ['images'] })
    const made = Promise.withResolvers<void>()
    const answered = [head(200, { 'content-type': 'application/json' }), chunk('{"created":1,"data":[{"url":"a"}]}')]
    const leave = async (number: number): Promise<{ answer: Promise<Answer> }> => {
      const body = { messages: undefined, prompt: 'A boat', n: 2 }
      const { client, answer } = bench.start({ target: '/v1/images/generations', body })
      await upstream.request(number)
      client.leave()
      return { answer }
    }
    upstream.script(until(made.promise), ...answered, endOfBody())
    const heard = await leave(0)
    upstream.script(stall())
    await (
      await leave(1)
    ).answer
    t.match(bench.ledger.rows[1]!.settled, { usage: { image: 2 }, source: 'estimated', amount: 80_000_000n })
    t.equal(bench.ledger.open.length, 1, 'the first is still read on')
    made.resolve()
    await heard.answer
    t.match(bench.ledger.rows[0]!.settled, { usage: { image: 1 }, source: 'measured' })
    upstream.script(...answered, endOfBody())
    await (
      await leave(2)
    ).answer
    t.match(bench.ledger.rows[2]!.settled, { usage: { image: 1 }, source: 'measured' }, 'there is room again')
    t.same(bench.ledger.open, [])
  }
)

t.test(
  'a report that cannot be true is charged by the prompt, with a line in the log, also when a stream broke after it',
  async (t) => {
    const { bench, upstream } = await open(t, {})
    const absurd = { prompt_tokens: 10, completion_tokens: 10 ** 13, total_tokens: 10 + 10 ** 13 }
    upstream.json({ ...chatAnswer(), usage: absurd })
    await bench.send(speakers['chat']!.ask(false))
    const [first] = chatEvents()
    upstream.script(streamHead, events([{ ...first, usage: absurd }, ...chatEvents(20).slice(1, 12)]), reset())
    await bench.send(speakers['chat']!.ask(true))
    for (const { settled } of bench.ledger.rows) {
      t.match(settled, { source: 'estimated', usage: { output: 0 } })
      t.ok(settled!.usage.input > 0 && settled!.usage.input < 60)
    }
    t.equal(bench.log.filter(({ message }) => message.includes('cannot be true')).length, 2)
  }
)

/** An upstream whose answers a test changes while it runs, by method. */
async function changing(t: Test): Promise<{ url: string; asked: string[]; says: Record<string, [number, object]> }> {
  const asked: string[] = []
  const says: Record<string, [number, object]> = {}
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`)
    request.resume()
    const [status, body] = says[request.method!]!
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, asked, says }
}

async function tasksAt(t: Test, base_url: string, price: object, more: object = {}): Promise<LocalGateway> {
  const channel = {
    protocol: 'openai',
    base_url,
    private: true,
    models: { demo: 'demo' },
    endpoints: ['videos', 'images', 'responses']
  }
  return gateway(t, {
    channels: { demo: channel },
    models: { demo: { price } },
    tasks: { poll: { first: '20ms', most: '50ms' } },
    ...more
  })
}

t.test('a video that its vendor refuses to stop goes on, and costs what it comes to', async (t) => {
  const upstream = await changing(t)
  const local = await tasksAt(t, upstream.url, { second: 1 })
  const state = (status: string, more: object = {}): [number, object] => [
    200,
    { id: 'video_1', object: 'video', status, progress: 1, seconds: '4', ...more }
  ]
  upstream.says['POST'] = upstream.says['GET'] = state('in_progress')
  upstream.says['DELETE'] = [409, { error: { message: 'It is being made.' } }]
  const path = '/v1/video/generations'
  const begun = await local.ask({ path, body: { model: 'demo', prompt: 'A boat', seconds: 4 } })
  const { id } = begun.json() as any
  t.match((await local.ask({ method: 'POST', path: `${path}/${id}/cancel` })).json(), { id, status: 'in_progress' })
  for (const own of [`${path}/${id}`, `/v1/videos/${id}`]) {
    const refused = await local.ask({ method: 'DELETE', path: own })
    t.match([refused.status, refused.json()], [409, { error: { code: 'task_under_way' } }])
  }
  upstream.says['GET'] = state('completed')
  await eventually(
    async () => ((await local.ask({ path: `${path}/${id}` })).json() as any).status === 'succeeded',
    10_000
  )
  t.match(await local.record(begun), { cost_usd: /^4$/, usage: { second: 4 }, usage_source: 'upstream' })

  upstream.says['POST'] = upstream.says['GET'] = [
    200,
    { id: 'video_2', object: 'video', status: 'in_progress', seconds: '4' }
  ]
  upstream.says['DELETE'] = [200, { id: 'video_2', object: 'video.deleted', deleted: true }]
  const stopped = await local.ask({ path, body: { model: 'demo', prompt: 'A boat', seconds: 4 } })
  t.match((await local.ask({ method: 'POST', path: `${path}/${(stopped.json() as any).id}/cancel` })).json(), {
    status: 'cancelled'
  })
  const record = await local.record(stopped)
  t.match(record, { error_code: 'task_cancelled', usage: { second: undefined }, usage_source: 'estimated' })
  t.ok(Number(record.cost_usd) < 0.001, 'what it read, and nothing that was made')
  await settled(t, local)
})

t.test('pictures that are called off while they are made cost what is made', async (t) => {
  const path = '/v1/images/generations/async'
  const upstream = await Upstream.start(t)
  const local = await tasksAt(t, upstream.url.href, { image: 2 })
  const called = Promise.withResolvers<void>()
  upstream.script(
    until(called.promise),
    head(200, { 'content-type': 'application/json' }),
    chunk(JSON.stringify({ created: 1, data: [{ url: 'https://pictures.example/1' }] })),
    endOfBody()
  )
  const begun = await local.ask({ path, body: { model: 'demo', prompt: 'A boat' } })
  const { id } = begun.json() as any
  await upstream.request()
  const cancelled = local.ask({ method: 'POST', path: `${path}/${id}/cancel` })
  setTimeout(called.resolve, 200)
  t.match((await cancelled).json(), { id, status: 'cancelled', data: null })
  t.match(await local.record(begun), {
    cost_usd: /^2$/,
    usage: { image: 1 },
    usage_source: 'measured',
    outcome: 'aborted'
  })

  upstream.script(reset())
  const failing = await local.ask({ path, body: { model: 'demo', prompt: 'A boat' } })
  await eventually(
    async () =>
      ((await local.ask({ path: `${path}/${(failing.json() as any).id}` })).json() as any).status === 'failed',
    10_000
  )
  t.match(await local.record(failing), { cost_usd: /^0$/ })
  await settled(t, local)
})

t.test('what a response in the background read is estimated as of any other, pictures and all', async (t) => {
  const upstream = await changing(t)
  const local = await tasksAt(t, upstream.url, { input: 1, output: 2 })
  const state = (status: string, output: object[]): [number, object] => [
    200,
    { id: 'resp_1', object: 'response', background: true, model: 'demo', output, status, usage: null }
  ]
  upstream.says['POST'] = upstream.says['GET'] = state('queued', [])
  const image_url = `data:image/png;base64,${'iVBORw0KGgo'.repeat(20_000)}`
  const input = [{ role: 'user', content: [{ type: 'input_image', image_url }] }]
  const begun = await local.ask({ path: '/v1/responses', body: { model: 'demo', input, background: true } })
  const content = [{ type: 'output_text', text: 'It is a boat on a lake.' }]
  upstream.says['GET'] = state('completed', [{ type: 'message', role: 'assistant', content }])
  await eventually(
    async () => ((await local.ask({ path: '/v1/responses/resp_1' })).json() as any).status === 'completed',
    10_000
  )
  const record = (await local.record(begun)) as any
  t.match(record, { usage_source: 'estimated', usage: { output: 6 } })
  t.ok(record.usage.input >= 85 && record.usage.input < 100, `${record.usage.input} tokens`)
  await settled(t, local)
})

t.test('a report that cannot be true is charged by the prompt in the background too, with the same line', async (t) => {
  const upstream = await changing(t)
  const local = await tasksAt(t, upstream.url, { input: 1, output: 2 })
  const state = (status: string, usage: object | null): [number, object] => [
    200,
    { id: 'resp_1', object: 'response', background: true, model: 'demo', output: [], status, usage }
  ]
  upstream.says['POST'] = upstream.says['GET'] = state('queued', null)
  const begun = await local.ask({
    path: '/v1/responses',
    body: { model: 'demo', input: 'Tell me a long story, please.', background: true }
  })
  upstream.says['GET'] = state('completed', { input_tokens: 10, output_tokens: 10 ** 13, total_tokens: 10 + 10 ** 13 })
  await eventually(
    async () => ((await local.ask({ path: '/v1/responses/resp_1' })).json() as any).status === 'completed',
    10_000
  )
  const record = (await local.record(begun)) as any
  t.match(record, { usage_source: 'estimated', usage: { output: 0 } })
  t.ok(record.usage.input > 0 && record.usage.input < 60)
  t.equal(record.cost_nano, String(record.usage.input * 1000))
  t.equal(local.lines.filter(({ level, message }) => level === 'error' && message.includes('cannot be true')).length, 1)
  await settled(t, local)
})

t.test(
  'realtime: whoever leaves a response that was asked for pays what it read, and what an upstream fails at is free',
  async (t) => {
    const limits = { disconnect_drain: { time: '100ms' } }
    const ask = { type: 'response.create' }
    const leave: Record<string, (session: { client: RealtimeClient; upstream: SocketUpstream }) => void> = {
      closes: ({ client }) => client.socket.close(1000),
      'is lost': ({ client }) => client.socket.terminate(),
      'stays, and its upstream dies': ({ upstream }) => void upstream.peers[0]!.stream.resetAndDestroy()
    }
    for (const [who, end] of Object.entries(leave)) {
      const upstream = await socketUpstream(t)
      const local = await gateway(t, { ...sessionsAt(upstream), limits })
      const client = await openRealtime(t, local)
      const { socket } = await upstream.peer()
      let heard = 0
      socket!.on('message', () => void heard++)
      client.say('What do you think of the weather in the mountains, and of that by the sea?').send(ask)
      await eventually(() => heard === 2)
      end({ client, upstream })
      await client.closed
      await settled(t, local)
      const { data } = await local.admin('/admin/v1/requests')
      if (who.startsWith('stays')) t.equal(data[0].cost_nano, '0', who)
      else {
        t.match(data[0], { usage: { output: 0 }, usage_source: 'estimated' }, who)
        t.ok(data[0].usage.input > 10 && data[0].usage.input < 100, `${who}: ${data[0].usage.input}`)
      }
    }
    const upstream = await socketUpstream(t)
    const local = await gateway(t, { ...sessionsAt(upstream), limits })
    const client = await openRealtime(t, local)
    const { socket } = await upstream.peer()
    client.send(ask)
    await once(socket!, 'message')
    socket!.send('{"type":"response.created","response":{"id":"r1"}}')
    socket!.send(
      JSON.stringify({ type: 'response.output_text.delta', response_id: 'r1', delta: 'word '.repeat(words) })
    )
    await client.event('response.output_text.delta')
    client.socket.terminate()
    await settled(t, local)
    const { data } = await local.admin('/admin/v1/requests')
    t.ok(
      data[0].usage.output >= words && data[0].usage.output < 2 * words,
      `${data[0].usage.output} tokens of one delta`
    )
  }
)

t.test('usage is found wherever it stands in a large answer, and what only looks like it is not', async (t) => {
  const long = 'word '.repeat(80_000)
  const ids = { token_ids: Array.from({ length: 30_000 }, (_, id) => id) }
  const lie = {
    note: '"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}',
    nested: { usage: { prompt_tokens: 3, completion_tokens: 3, total_tokens: 6 } }
  }
  const chat = { prompt_tokens: 900, completion_tokens: 70, total_tokens: 970 }
  const answers: Readonly<Record<string, { channel: object; ask: Ask; body: object; usage: object; is: object }>> = {
    chat: {
      channel: {},
      ask: speakers['chat']!.ask(false),
      is: { input: 900, output: 70 },
      usage: { usage: chat },
      body: {
        id: 'c',
        object: 'chat.completion',
        created: 1,
        model: 'demo',
        choices: [{ index: 0, message: { role: 'assistant', content: long }, finish_reason: 'stop' }]
      }
    },
    'chat, as a vendor has it': {
      channel: {},
      ask: speakers['chat']!.ask(false),
      is: { input: 900, output: 70 },
      usage: { x_groq: { usage: chat } },
      body: {
        id: 'c',
        object: 'chat.completion',
        created: 1,
        model: 'demo',
        choices: [{ index: 0, message: { role: 'assistant', content: long }, finish_reason: 'stop' }]
      }
    },
    embeddings: {
      channel: { endpoints: ['embeddings'] },
      ask: { target: '/v1/embeddings', body: { messages: undefined, input: ['one', 'two'] } },
      is: { input: 900, output: 0 },
      usage: { usage: { prompt_tokens: 900, total_tokens: 900 } },
      body: {
        object: 'list',
        model: 'demo',
        data: [{ object: 'embedding', index: 0, embedding: Array.from({ length: 30_000 }, (_, i) => i / 7) }]
      }
    },
    images: {
      channel: { endpoints: ['images'] },
      ask: { target: '/v1/images/generations', body: { messages: undefined, prompt: 'A boat' } },
      is: { input: 9, image_output: 4000, image: 1 },
      usage: { usage: { input_tokens: 9, output_tokens: 4000, total_tokens: 4009 } },
      body: { created: 1, data: [{ b64_json: 'A'.repeat(400_000) }] }
    },
    rerank: {
      channel: { endpoints: ['rerank'] },
      ask: { target: '/v1/rerank', body: { messages: undefined, query: 'boats', documents: ['one'] } },
      is: { search: 3 },
      usage: { meta: { billed_units: { search_units: 3 } } },
      body: { results: [{ index: 0, relevance_score: 0.5, document: { text: long } }] }
    },
    anthropic: {
      channel: { protocol: 'anthropic' },
      ask: speakers['anthropic']!.ask(false),
      is: { input: 900, cached_input: 50, output: 70 },
      usage: { usage: { input_tokens: 900, cache_read_input_tokens: 50, output_tokens: 70 } },
      body: {
        id: 'msg_1',
        type: 'message',
        role: 'assistant',
        model: 'demo',
        content: [{ type: 'text', text: long }],
        stop_reason: 'end_turn'
      }
    },
    gemini: {
      channel: { protocol: 'gemini' },
      ask: speakers['gemini']!.ask(false),
      is: { input: 900, output: 70 },
      usage: { usageMetadata: { promptTokenCount: 900, candidatesTokenCount: 70, totalTokenCount: 970 } },
      body: { candidates: [{ content: { role: 'model', parts: [{ text: long }] }, finishReason: 'STOP', index: 0 }] }
    }
  }
  for (const [name, { channel, ask, body, usage, is }] of Object.entries(answers)) {
    const { bench, upstream } = await open(
      t,
      { models: { demo: { price: { input: 1, output: 2, image: 1, image_output: 3, search: 1 } } } },
      channel as Record<string, unknown>
    )
    const places = {
      first: { ...usage, ...lie, ...body },
      last: { ...body, ...lie, ...usage },
      'followed by ids': { ...body, ...usage, ...ids, ...lie }
    }
    for (const [place, whole] of Object.entries(places)) {
      upstream.json(JSON.stringify(whole, null, place === 'first' ? 1 : undefined))
      const answer = await bench.send(ask)
      t.equal(answer.status, 200, `${name}, ${place}`)
      t.match(bench.ledger.rows.at(-1)!.settled, { usage: is, source: 'upstream' }, `${name}, ${place}`)
    }
  }

  const { bench, upstream } = await open(t, {})
  const stream = chatEvents(3).slice(0, -1)
  for (const last of [
    { usage: chat, ...lie, choices: [] },
    { choices: [], usage: chat, ...ids },
    { ...ids, usage: chat, choices: [] }
  ]) {
    upstream.sse([...stream, { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'demo', ...last }])
    t.equal((await bench.send(speakers['chat']!.ask(true))).status, 200)
    t.match(bench.ledger.rows.at(-1)!.settled, { usage: { input: 900, output: 70 }, source: 'upstream' })
  }
})

t.test('what a total has that its parts have not was thought, and is charged', async (t) => {
  const reports: Readonly<Record<string, [Ask, object, object, object]>> = {
    chat: [
      speakers['chat']!.ask(false),
      {},
      { ...chatAnswer(), usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 115 } },
      { input: 10, output: 105, reasoning: 100 }
    ],
    gemini: [
      speakers['gemini']!.ask(false),
      { protocol: 'gemini' },
      {
        candidates: [{ content: { role: 'model', parts: [{ text: 'Hi' }] }, finishReason: 'STOP', index: 0 }],
        usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 115 }
      },
      { input: 10, output: 105, reasoning: 100 }
    ],
    responses: [
      speakers['responses']!.ask(false),
      { endpoints: ['responses', 'chat'] },
      {
        ...response,
        status: 'completed',
        output: [
          {
            id: 'msg_1',
            type: 'message',
            role: 'assistant',
            status: 'completed',
            content: [{ type: 'output_text', text: 'Hi', annotations: [] }]
          }
        ],
        usage: { input_tokens: 10, output_tokens: 5, output_tokens_details: { reasoning_tokens: 2 }, total_tokens: 115 }
      },
      { input: 10, output: 105, reasoning: 102 }
    ],
    embeddings: [
      { target: '/v1/embeddings', body: { messages: undefined, input: 'one' } },
      { endpoints: ['embeddings'] },
      {
        object: 'list',
        model: 'demo',
        data: [{ object: 'embedding', index: 0, embedding: [1] }],
        usage: { prompt_tokens: 10, total_tokens: 12 }
      },
      { input: 10, output: 0 }
    ]
  }
  for (const [name, [ask, channel, body, is]] of Object.entries(reports)) {
    const { bench, upstream } = await open(t, {}, channel as Record<string, unknown>)
    upstream.json(body)
    t.equal((await bench.send(ask)).status, 200, name)
    t.match(bench.ledger.rows[0]!.settled, { usage: is, source: 'upstream' }, name)
  }
})

t.test('no output at all may be asked for where the protocol has it, and holds none', async (t) => {
  const { bench, upstream } = await open(t, {}, { endpoints: ['completions', 'chat'] })
  upstream.json({
    id: 'cmpl_1',
    object: 'text_completion',
    created: 1,
    model: 'demo',
    choices: [{ index: 0, text: 'Scored.', logprobs: null, finish_reason: 'length' }],
    usage: { prompt_tokens: 4, completion_tokens: 0, total_tokens: 4 }
  })
  const scored = await bench.send({
    target: '/v1/completions',
    body: { messages: undefined, prompt: 'Scored.', max_tokens: 0, echo: true, logprobs: 1 }
  })
  t.equal(scored.status, 200, scored.body)
  t.match(bench.ledger.rows[0], {
    request: { estimate: { maxOutput: 0 } },
    settled: { usage: { input: 4, output: 0 } }
  })
  t.equal(upstream.requests[0]!.json().max_tokens, 0)
  t.equal((await bench.send({ body: { max_tokens: 0 } })).status, 400, 'chat has no such request')

  const other = await open(t, {}, { protocol: 'anthropic' })
  const message = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'demo',
    content: [],
    stop_reason: 'max_tokens',
    stop_sequence: null,
    usage: { input_tokens: 0, cache_creation_input_tokens: 900, cache_read_input_tokens: 0, output_tokens: 0 }
  }
  other.upstream.json(message)
  const warmed = await other.bench.send({ target: '/v1/messages', body: { messages, max_tokens: 0 } })
  t.equal(warmed.status, 200, warmed.body)
  t.match(other.bench.ledger.rows[0], {
    request: { estimate: { maxOutput: 0 } },
    settled: { usage: { cache_write: 900, output: 0 }, source: 'upstream' }
  })
  const { usage, ...begun } = message
  other.upstream.script(
    streamHead,
    events([
      event({ type: 'message_start', message: { ...begun, stop_reason: null, usage } } as { type: string }),
      event({
        type: 'message_delta',
        delta: { stop_reason: 'max_tokens', stop_sequence: null },
        usage: { output_tokens: 0 }
      } as { type: string }),
      event({ type: 'message_stop' })
    ]),
    endOfBody()
  )
  const streamed = await other.bench.send({ target: '/v1/messages', body: { messages, max_tokens: 0, stream: true } })
  t.equal(streamed.status, 200, streamed.body)
  t.match(other.bench.ledger.rows[1]!.settled, { usage: { cache_write: 900, output: 0 }, source: 'upstream' })
})

t.test('whoever speaks another protocol than the channel pays for the same words', async (t) => {
  for (const [name, { channel, story }] of Object.entries(speakers)) {
    for (const [client, { ask }] of Object.entries(speakers)) {
      if (client === name) continue
      const { bench, upstream } = await open(t, {}, name === 'responses' ? { endpoints: ['responses'] } : channel)
      upstream.script(streamHead, events(story, 'one'), reset())
      const { outcome } = await bench.send(ask(true))
      t.equal(outcome.kind, 'failed', `${client} by way of ${name}`)
      const { settled: end } = bench.ledger.rows[0]!
      t.match(end, { source: 'partial', usage: { input: 25 } }, `${client} by way of ${name}`)
      const { output } = end!.usage
      t.ok(output >= words && output <= 3 * words, `${client} by way of ${name}: ${output} tokens`)
    }
  }
})

t.test('`abandoned: nothing` holds for sessions and for work in the background too', async (t) => {
  const chain = chainOf({ abandoned: 'nothing' })
  const sessions = await socketUpstream(t)
  const talk = await gateway(t, { ...sessionsAt(sessions), ...chain, limits: { disconnect_drain: { time: '100ms' } } })
  const client = await openRealtime(t, talk)
  const { socket } = await sessions.peer()
  client.send({ type: 'response.create' })
  await once(socket!, 'message')
  client.socket.terminate()
  await settled(t, talk)
  t.match((await talk.admin('/admin/v1/requests')).data, [{ cost_nano: /^0$/, outcome: 'aborted' }])

  const upstream = await changing(t)
  const local = await tasksAt(t, upstream.url, { input: 1, output: 2 }, chain)
  const state = (status: string): [number, object] => [
    200,
    { id: 'resp_1', object: 'response', background: true, model: 'demo', output: [], status, usage: null }
  ]
  upstream.says['POST'] = upstream.says['GET'] = state('queued')
  const body = { model: 'demo', input: 'Tell me a long story, please.', background: true }
  const begun = await local.ask({ path: '/v1/responses', body })
  upstream.says['POST'] = upstream.says['GET'] = state('cancelled')
  await local.ask({ method: 'POST', path: '/v1/responses/resp_1/cancel' })
  t.match(await local.record(begun), { cost_nano: /^0$/, error_code: 'task_cancelled' })
  await settled(t, local)
})

t.test(
  'a response that the gateway makes in the background costs its prompt when it is called off or deleted',
  async (t) => {
    const upstream = await Upstream.start(t)
    const { url } = upstream
    const channel = {
      protocol: 'openai',
      base_url: url.href,
      private: true,
      models: { demo: 'demo' },
      endpoints: ['chat']
    }
    const state = { key: 'a-secret-of-more-than-thirty-two-characters' }
    const local = await gateway(t, {
      channels: { demo: channel },
      models: { demo: { price: { input: 1, output: 2 }, state: 'gateway' } },
      state
    })
    for (const [number, method] of (['POST', 'DELETE'] as const).entries()) {
      upstream.script(stall())
      const body = { model: 'demo', input: 'Tell me a long story, please.', background: true }
      const begun = await local.ask({ path: '/v1/responses', body })
      t.equal(begun.status, 200, begun.text)
      await upstream.request(number)
      const { id } = begun.json() as any
      const path = method === 'POST' ? `/v1/responses/${id}/cancel` : `/v1/responses/${id}`
      t.equal((await local.ask({ method, path })).status, 200)
      const record = (await local.record(begun)) as any
      t.match(record, { outcome: 'aborted', usage_source: 'estimated', usage: { output: 0 } }, method)
      t.ok(record.usage.input > 5 && record.usage.input < 60, `${record.usage.input} tokens`)
    }
    await settled(t, local)
  }
)

t.test('realtime: a count that cannot be true is charged by the prompt, with the same line', async (t) => {
  const upstream = await socketUpstream(t)
  const local = await gateway(t, sessionsAt(upstream))
  const client = await openRealtime(t, local)
  const { socket } = await upstream.peer()
  client.send({ type: 'response.create' })
  await once(socket!, 'message')
  const usage = { input_tokens: 10, output_tokens: 10 ** 13, total_tokens: 10 + 10 ** 13 }
  socket!.send('{"type":"response.created","response":{"id":"r1"}}')
  socket!.send(JSON.stringify({ type: 'response.done', response: { id: 'r1', status: 'completed', usage } }))
  await client.event('response.done')
  client.socket.close(1000)
  await settled(t, local)
  const { data } = await local.admin('/admin/v1/requests')
  t.match(data[0], { usage_source: 'estimated', usage: { output: 0 } })
  t.ok(Number(data[0].cost_usd) < 0.001)
  t.equal(local.lines.filter(({ level, message }) => level === 'error' && message.includes('cannot be true')).length, 1)
})

t.test('whoever leaves before anything could be sent owes nothing', async (t) => {
  const sockets: Socket[] = []
  const silent = createTcpServer((socket) => void sockets.push(socket.on('error', () => {}).resume())).listen(
    0,
    '127.0.0.1'
  )
  await once(silent, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    silent.close()
  })
  // One that says nothing when a secret is to be agreed upon: there is a socket, and no connection.
  const url = new URL(`https://127.0.0.1:${(silent.address() as AddressInfo).port}/v1`)
  const asked: Record<string, object> = {
    '/v1/chat/completions': { messages: [{ role: 'user', content: 'Hi' }] },
    '/v1/images/generations': { prompt: 'A boat' },
    '/v1/videos': { prompt: 'A boat', seconds: '4' }
  }
  for (const more of [{}, { http: 2 }]) {
    for (const [path, body] of Object.entries(asked)) {
      const endpoints = ['chat', 'images', 'videos']
      const channel = {
        protocol: 'openai',
        base_url: url.href,
        private: true,
        models: { demo: 'demo' },
        endpoints,
        ...more
      }
      const price = { input: 1, output: 2, image: 0.04, second: 0.1 }
      const local = await gateway(t, { channels: { demo: channel }, models: { demo: { price } } })
      const client = await connect(t, local.url)
      const before = sockets.length
      const headers = { authorization: `Bearer ${testKey}` }
      client.send({ method: 'POST', path, headers, body: { model: 'demo', ...body } })
      await eventually(() => sockets.length > before)
      client.reset()
      // A session of HTTP/2 is there for others as well.
      if (!('http' in more)) await eventually(() => sockets.at(-1)!.destroyed)
      await settled(t, local)
      const { data } = await local.admin('/admin/v1/requests')
      t.match(data, [{ cost_nano: /^0$/, outcome: 'aborted' }], `${path} ${JSON.stringify(more)}`)
    }
  }
})
