// A stream as a JSON array: written element by element whatever the upstream speaks, and never closed when it is not
// whole.
import t from 'tap'
import type { Test } from 'tap'
import { ask, connect } from '../kit/client.ts'
import type { ReceivedReply } from '../kit/client.ts'
import { gateway, testKey, testModel } from '../kit/gateway.ts'
import type { LocalGateway, Overrides } from '../kit/gateway.ts'
import { endOfBody, events, head, reset, until, Upstream } from '../kit/upstream.ts'
import { chatEvents } from '../kit/workbench.ts'

const path = `/v1beta/models/${testModel}:streamGenerateContent`
const body = { contents: [{ role: 'user', parts: [{ text: 'Hi' }] }] }
const headers = { 'x-goog-api-key': testKey }
const native = { channels: { a: { protocol: 'gemini' } } }
const sse = head(200, { 'content-type': 'text/event-stream' })
const chunk = (text: string, more: object = {}): object => ({
  candidates: [{ index: 0, content: { role: 'model', parts: [{ text }] }, ...more }],
  modelVersion: testModel
})
const last = {
  ...chunk('end', { finishReason: 'STOP' }),
  usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 2, totalTokenCount: 5 }
}

async function open(t: Test, overrides: Overrides = {}): Promise<{ local: LocalGateway; upstream: Upstream }> {
  const upstream = await Upstream.start(t)
  return { upstream, local: await gateway(t, overrides, { upstreams: { a: upstream } }) }
}

const textOf = (reply: ReceivedReply): string =>
  reply
    .json()
    .flatMap((one: any) => one.candidates?.[0]?.content?.parts ?? [])
    .map((part: any) => part.text)
    .join('')
const stream = (t: Test, { url }: LocalGateway, query = ''): Promise<ReceivedReply> =>
  ask(t, url, { method: 'POST', path: path + query, headers, body })

t.test('from an upstream of its own protocol, and from any other', async (t) => {
  const own = await open(t, native)
  own.upstream.sse([chunk('one '), chunk('two '), last], { done: false })
  const reply = await stream(t, own.local)
  t.match(reply.headers['content-type'], /^application\/json/)
  t.same(reply.json(), [chunk('one '), chunk('two '), last])
  t.match(own.upstream.requests[0]!.target, /streamGenerateContent\?alt=sse$/)
  t.match(await own.local.record(reply), {
    endpoint: 'generate.list',
    streamed: true,
    outcome: 'completed',
    usage_source: 'upstream',
    usage: { input: 3, output: 2 }
  })

  const { local, upstream } = await open(t)
  upstream.sse(chatEvents(3))
  const translated = await stream(t, local)
  t.equal(textOf(translated), 'word0 word1 word2 ')
  t.equal(translated.json().at(-1).candidates[0].finishReason, 'STOP')
  upstream.sse(chatEvents(3), { cut: 'byte' })
  t.equal(textOf(await stream(t, local, '?alt=json')), 'word0 word1 word2 ')
  upstream.sse(chatEvents(3))
  t.match((await stream(t, local, '?alt=sse')).text, /^data: \{[\s\S]*\n\n$/, 'events where they are asked for')
})

t.test('elements come as they are made', async (t) => {
  const { local, upstream } = await open(t, native)
  let go: () => void = () => {}
  upstream.script(
    sse,
    events([': a comment\n\n', chunk('one')]),
    until(new Promise<void>((resolve) => (go = resolve))),
    events([': another\n\n', last]),
    endOfBody()
  )
  const client = (await connect(t, local.url)).send({ method: 'POST', path, headers, body })
  await client.body('"one"')
  go()
  t.same((await client.reply()).json(), [chunk('one'), last])
})

t.test('an error before the answer is a list with it', async (t) => {
  const { local, upstream } = await open(t, native)
  upstream.json({ error: { code: 400, message: 'Not like this.', status: 'INVALID_ARGUMENT' } }, { status: 400 })
  const refused = await stream(t, local)
  t.match([refused.status, refused.json()], [400, [{ error: { code: 400, status: 'INVALID_ARGUMENT' } }]])
  upstream.script(sse, reset())
  t.match((await stream(t, local)).json(), [{ error: { code: 502, status: 'UNAVAILABLE' } }])
  const nobody = await ask(t, local.url, { method: 'POST', path, headers: { 'x-goog-api-key': 'sk-nobody' }, body })
  t.match([nobody.status, nobody.json()], [401, [{ error: { code: 401 } }]])
})

t.test('an answer that breaks ends with its error, and does not look whole', async (t) => {
  for (const overrides of [native, {}]) {
    const { local, upstream } = await open(t, overrides)
    let go: () => void = () => {}
    const said = overrides === native ? [chunk('one')] : chatEvents(3).slice(0, 2)
    upstream.script(sse, events(said), until(new Promise<void>((resolve) => (go = resolve))), reset())
    const client = (await connect(t, local.url)).send({ method: 'POST', path, headers, body })
    await client.body(overrides === native ? '"one"' : 'word0')
    go()
    const { text } = await client.reply()
    t.throws(() => JSON.parse(text), 'the array is not closed')
    const all = JSON.parse(`${text}]`)
    t.match(all.at(-1), { error: { code: 502, status: 'UNAVAILABLE' } })
    t.ok(all.length >= 2)
  }
})

t.test('with an alias clients see the name that they asked for, in every protocol', async (t) => {
  const alias = { models: { [testModel]: 'vendor-model-x' } }
  const gemini = await open(t, { channels: { a: { protocol: 'gemini', ...alias } } })
  const theirs = (one: object): object => ({ ...one, modelVersion: 'vendor-model-x-0613' })
  gemini.upstream.sse([theirs(chunk('one')), theirs(last)], { done: false }).json(theirs(last))
  t.same((await stream(t, gemini.local)).json(), [chunk('one'), last])
  const whole = await ask(t, gemini.local.url, {
    method: 'POST',
    path: path.replace('streamGenerate', 'generate'),
    headers,
    body
  })
  t.equal(whole.text, JSON.stringify(last))

  const anthropic = await open(t, { channels: { a: { protocol: 'anthropic', ...alias } } })
  const message = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'vendor-model-x-0613',
    content: [] as object[],
    stop_reason: null as string | null,
    stop_sequence: null,
    usage: { input_tokens: 3, output_tokens: 1 }
  }
  const made = [
    { type: 'message_start', message },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'my "model":"x"' } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 2 } },
    { type: 'message_stop' }
  ].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
  anthropic.upstream
    .sse(made, { done: false })
    .json({ ...message, content: [{ type: 'text', text: 'Hi' }], stop_reason: 'end_turn' })
  const send = (more: object): Promise<ReceivedReply> =>
    ask(t, anthropic.local.url, {
      method: 'POST',
      path: '/v1/messages',
      headers: { 'x-api-key': testKey },
      body: { model: testModel, max_tokens: 9, messages: [{ role: 'user', content: 'Hi' }], ...more }
    })
  t.equal((await send({ stream: true })).text, made.join('').replace('vendor-model-x-0613', testModel))
  t.equal((await send({})).json().model, testModel)
})
