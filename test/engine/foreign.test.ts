// What one account of an upstream keeps of several tenants: nobody gets at another's by its name, however it is spelled
// and wherever it stands, and one's own is asked for where it is.
import t from 'tap'
import type { Test } from 'tap'
import { GatewayError } from '../../core/contract/contract.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway, Overrides } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'
import { endOfBody, events, head, Upstream } from '../kit/upstream.ts'
import { channelTo, Workbench } from '../kit/workbench.ts'
import { secretOf } from '../money/rig.ts'

t.setTimeout(600_000)

const rival = secretOf('rival')
const keys = [
  { name: 'test', key: testKey, tenant: 'acme' },
  { name: 'rival', key: rival, tenant: 'rival' }
]
const price = 'free'

interface Bench {
  local: LocalGateway
  upstreams: { one: Upstream; two: Upstream }
  /** Sends a body, as text to say exactly what it is. */
  ask(path: string, body: object | string, key?: string): ReturnType<LocalGateway['ask']>
  /** How many requests either has seen. */
  asked(): number
}

/** Two accounts that serve the same models, in one protocol. */
async function open(t: Test, channel: object, overrides: Overrides = {}): Promise<Bench> {
  const upstreams = { one: await Upstream.start(t), two: await Upstream.start(t) }
  const models = { demo: 'demo' }
  const local = await gateway(
    t,
    {
      tenants: { acme: {}, rival: {} },
      keys,
      channels: { one: { models, ...channel }, two: { models, priority: 1, ...channel } },
      models: { demo: { price } },
      ...overrides
    },
    { upstreams }
  )
  return {
    local,
    upstreams,
    ask: (path, body, key = testKey) =>
      local.ask({
        method: 'POST',
        path,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: typeof body === 'string' ? Buffer.from(body) : body
      }),
    asked: () => upstreams.one.requests.length + upstreams.two.requests.length
  }
}

const responses = { endpoints: ['responses'] }
const text = { type: 'output_text', text: 'Hello', annotations: [] }
const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
const response = (id: string, output: readonly object[] = []): object => ({
  id,
  object: 'response',
  created_at: 1,
  status: 'completed',
  model: 'demo',
  output: [{ id: `msg_${id}`, type: 'message', role: 'assistant', status: 'completed', content: [text] }, ...output],
  usage
})
const own = [
  { type: 'image_generation_call', id: 'ig_1', status: 'completed', result: 'aGk=' },
  { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'hm' }] }
]

/** Items that an upstream would look up, of the response `resp_1`. */
const referring: Record<string, object> = {
  'a reference': { type: 'item_reference', id: 'msg_resp_1' },
  'an id alone': { id: 'ig_1' },
  'a picture by its id': { type: 'image_generation_call', id: 'ig_1' },
  'a picture without what it shows': { type: 'image_generation_call', id: 'ig_1', status: 'completed', result: null },
  'a picture with an empty result': { type: 'image_generation_call', id: 'ig_1', result: '', size: '64x64' },
  'thoughts by their id': { type: 'reasoning', id: 'rs_1' },
  'thoughts in short': own[1]!,
  'a message by its id': { type: 'message', id: 'msg_resp_1' },
  'a message with a role': { type: 'message', role: 'assistant', id: 'msg_resp_1' },
  'a message without content': { type: 'message', role: 'assistant', id: 'msg_resp_1', content: [] },
  'a role and an id': { role: 'assistant', id: 'msg_resp_1', status: 'completed' }
}

t.test("another's items are what there is not, and one's own are asked for where they are", async (t) => {
  const { ask, upstreams, asked } = await open(t, responses)
  const { one, two } = upstreams
  one.json({ error: { message: 'no', type: 'server_error' } }, { status: 500 })
  two.json(response('resp_1', own))
  t.equal((await ask('/v1/responses', { model: 'demo', input: 'Draw' })).status, 200)
  const before = asked()
  for (const [name, item] of Object.entries(referring)) {
    const refused = await ask('/v1/responses', { model: 'demo', input: [item, { role: 'user', content: 'x' }] }, rival)
    t.match([refused.status, refused.json()], [404, { error: { code: 'response_not_found' } }], name)
  }
  t.equal(asked(), before, 'no upstream hears of it')
  for (const [name, item] of Object.entries(referring)) {
    two.json(response('resp_2'))
    const found = await ask('/v1/responses', { model: 'demo', input: [item, { role: 'user', content: 'x' }] })
    t.equal(found.status, 200, `${name}: ${found.text}`)
    t.match(two.requests.at(-1)!.json().input, [item])
  }
  t.equal(one.requests.length, 1)
})

t.test('what says itself what it is goes anywhere, whoever gave it its id', async (t) => {
  const { ask, upstreams } = await open(t, responses)
  const complete = [
    { type: 'message', role: 'assistant', id: 'msg_9', content: [text] },
    { type: 'reasoning', id: 'rs_9', summary: [], encrypted_content: 'secret' },
    { type: 'image_generation_call', id: 'ig_9', status: 'completed', result: 'aGk=' },
    { type: 'function_call', id: 'fc_9', call_id: 'call_9', name: 'f', arguments: '{"file_id":"file-9"}' },
    { type: 'function_call_output', id: 'fco_9', call_id: 'call_9', output: 'found' },
    { role: 'user', content: [{ type: 'input_text', text: '"file_id":"file-9"' }] }
  ]
  upstreams.one.json(response('resp_1'))
  const reply = await ask('/v1/responses', { model: 'demo', input: complete })
  t.equal(reply.status, 200, reply.text)
})

t.test('an item that may be read in two ways is refused', async (t) => {
  const { ask, asked } = await open(t, responses)
  const items = [
    '{"type":"message","type":"item_reference","id":"msg_1","role":"user","content":"x"}',
    '{"type":"message","id":"msg_1","id":"msg_2","role":"user","content":"x"}',
    '{"type":"message","ID":"msg_1","role":"user","content":"x"}',
    '{"type":"message","\\u0049d":"msg_1","role":"user","content":"x"}',
    '{"Type":"item_reference","id":"msg_1","role":"user","content":"x"}',
    '{"ıd":"msg_1","İD":"msg_1","id\\u0000":"msg_1","role":"user","content":"x"}'
  ]
  for (const item of items) {
    const refused = await ask('/v1/responses', `{"model":"demo","input":[${item}]}`)
    t.match([refused.status, refused.json()], [400, { error: { code: 'invalid_field', param: 'input[0]' } }], item)
  }
  t.equal(asked(), 0)
})

const user = { role: 'user', content: 'x' }
/** Requests that refer to something by the name `ID`, by protocol of the channels. */
const foreign: Record<string, [channel: object, path: string, bodies: readonly (object | string)[]]> = {
  chat: [
    { endpoints: ['chat'] },
    '/v1/chat/completions',
    [
      { messages: [{ role: 'user', content: [{ type: 'file', file: { file_id: 'ID' } }] }] },
      { messages: [{ role: 'assistant', audio: { id: 'ID' } }, user] },
      '{"model":"demo","messages":[{"role":"user","content":[{"type":"file","file":{"\\u0046ile_ID":"ID"}}]}]}',
      '{"model":"demo","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"I\\u0044","file_id":"x"}}]}]}'
    ]
  ],
  responses: [
    responses,
    '/v1/responses',
    [
      { input: [{ role: 'user', content: [{ type: 'input_image', file_id: 'ID' }] }] },
      { input: 'x', tools: [{ type: 'file_search', vector_store_ids: ['ID'] }] },
      { input: 'x', tools: [{ type: 'code_interpreter', container: 'ID' }] },
      { input: 'x', tools: [{ type: 'code_interpreter', container: { type: 'auto', file_ids: ['ID'] } }] },
      { input: 'x', tools: [{ type: 'image_generation', input_image_mask: { file_id: 'ID' } }] },
      { prompt: { id: 'ID', version: '1' } },
      { input: [{ type: 'code_interpreter_call', id: 'ci_1', code: '1', container_id: 'ID', outputs: null }] }
    ]
  ],
  messages: [
    { protocol: 'anthropic' },
    '/v1/messages',
    [
      {
        max_tokens: 5,
        messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'file', file_id: 'ID' } }] }]
      },
      { max_tokens: 5, messages: [{ role: 'user', content: [{ type: 'container_upload', file_id: 'ID' }] }] }
    ]
  ],
  gemini: [
    { protocol: 'gemini' },
    '/v1beta/models/demo:generateContent',
    [
      { contents: [{ parts: [{ fileData: { fileUri: 'https://example.com/v1beta/files/ID' } }] }] },
      { contents: [{ parts: [{ file_data: { file_uri: 'files/ID' } }] }] },
      { contents: [{ parts: [{ text: 'x' }] }], tools: [{ fileSearch: { fileSearchStoreNames: ['ID'] } }] }
    ]
  ]
}
const answers: Record<string, object> = {
  chat: {
    id: 'c',
    object: 'chat.completion',
    created: 1,
    model: 'demo',
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
  },
  responses: response('resp_1'),
  messages: {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'demo',
    content: [{ type: 'text', text: 'Hi' }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 }
  },
  gemini: {
    candidates: [{ index: 0, content: { role: 'model', parts: [{ text: 'Hi' }] }, finishReason: 'STOP' }],
    usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 }
  }
}

for (const [name, [channel, path, bodies]] of Object.entries(foreign)) {
  const whole = (body: object | string): object | string =>
    typeof body === 'string' ? body : { model: 'demo', ...body }

  t.test(
    `files, containers and the like that nobody knows are refused where others may have made them: ${name}`,
    async (t) => {
      const { ask, asked } = await open(t, channel)
      for (const body of bodies) {
        const refused = await ask(path, whole(body))
        t.match([refused.status, refused.text], [400, /made through this gateway/], JSON.stringify(body))
      }
      t.equal(asked(), 0)
    }
  )

  t.test(`… and passed on where the tenant is alone, or wants it so: ${name}`, async (t) => {
    const pass: Overrides = { tenants: { acme: { foreign_references: 'pass' }, rival: {} } }
    const alone: Overrides = { tenants: { acme: {}, rival: { models: ['other'] } }, models: { demo: { price } } }
    for (const overrides of [pass, alone]) {
      const { ask, upstreams } = await open(t, channel, overrides)
      for (const body of bodies) {
        upstreams.one.json(answers[name]!)
        const passed = await ask(path, whole(body))
        t.equal(passed.status, 200, passed.text)
      }
    }
  })
}

t.test("what was made through the gateway is its project's, and asked for where it is", async (t) => {
  const { ask, upstreams, asked } = await open(t, responses)
  const { one, two } = upstreams
  const ran = {
    id: 'ci_1',
    type: 'code_interpreter_call',
    status: 'completed',
    code: '1',
    container_id: 'cntr_1',
    outputs: []
  }
  const cited = {
    id: 'msg_2',
    type: 'message',
    role: 'assistant',
    status: 'completed',
    content: [
      { ...text, annotations: [{ type: 'container_file_citation', container_id: 'cntr_1', file_id: 'cfile_1' }] }
    ]
  }
  const tools = [{ type: 'code_interpreter', container: { type: 'auto' } }]
  one.json({ error: { message: 'no', type: 'server_error' } }, { status: 500 })
  two.json(response('resp_1', [ran, cited]))
  t.equal((await ask('/v1/responses', { model: 'demo', input: 'Run', tools, store: false })).status, 200)
  const bodies = [
    { input: 'x', tools: [{ type: 'code_interpreter', container: 'cntr_1' }] },
    { input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'cfile_1' }] }] }
  ]
  const before = asked()
  for (const body of bodies) t.equal((await ask('/v1/responses', { model: 'demo', ...body }, rival)).status, 400)
  t.equal(asked(), before)
  for (const body of bodies) {
    two.json(response('resp_2'))
    t.equal((await ask('/v1/responses', { model: 'demo', ...body })).status, 200)
  }
  t.equal(one.requests.length, 1)
})

t.test('a container of Messages likewise, whole and streamed', async (t) => {
  const { ask, upstreams, asked } = await open(t, { protocol: 'anthropic' })
  const { one, two } = upstreams
  const base = { model: 'demo', max_tokens: 9, messages: [user] }
  const tools = [{ type: 'code_execution_20250825', name: 'code_execution' }]
  one.json({ type: 'error', error: { type: 'api_error', message: 'no' } }, { status: 500 })
  two.json({ ...answers['messages'], container: { id: 'container_1', expires_at: '2026-12-01T00:00:00Z' } })
  t.equal((await ask('/v1/messages', { ...base, tools })).status, 200)
  const before = asked()
  t.equal((await ask('/v1/messages', { ...base, container: 'container_1' }, rival)).status, 400)
  t.equal(asked(), before)
  for (const container of ['container_1', { id: 'container_1' }]) {
    two.json(answers['messages']!)
    t.equal((await ask('/v1/messages', { ...base, container })).status, 200)
  }
  two.script(
    head(200, { 'content-type': 'text/event-stream' }),
    events([
      { type: 'message_start', message: { ...answers['messages'], content: [], stop_reason: null } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hi' } },
      { type: 'content_block_stop', index: 0 },
      {
        type: 'message_delta',
        delta: { stop_reason: 'end_turn', container: { id: 'container_2' } },
        usage: { output_tokens: 1 }
      },
      { type: 'message_stop' }
    ]),
    endOfBody()
  )
  const streamed = await ask('/v1/messages', { ...base, tools, container: 'container_1', stream: true })
  t.match(streamed.text, /container_2/)
  t.equal(streamed.status, 200, streamed.text)
  two.json(answers['messages']!)
  t.equal((await ask('/v1/messages', { ...base, container: 'container_2' })).status, 200, 'streamed')
  t.equal(one.requests.length, 1, 'by the account that has it, though two serve the model')
})

const begun = [
  { type: 'message_start', message: { ...answers['messages'], content: [], stop_reason: null } },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'before' } }
]
const naming = [
  {
    type: 'content_block_start',
    index: 1,
    content_block: { type: 'code_execution_tool_result', container: { id: 'container_3' } }
  },
  { type: 'content_block_stop', index: 1 },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'after' } }
]
const over = [
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 1 } },
  { type: 'message_stop' }
]

for (const outcome of ['written', 'not written'] as const)
  t.test(`in the midst of a stream no name is shown before its owner is on disk: ${outcome}`, async (t) => {
    const upstream = await Upstream.start(t)
    const bench = await Workbench.open(t, {
      channels: { one: channelTo(upstream, { protocol: 'anthropic' }) },
      models: { demo: { price } }
    })
    const disk = Promise.withResolvers<void>()
    const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    upstream.script(
      head(200, { 'content-type': 'text/event-stream' }),
      events(begun),
      () => first.promise,
      events(naming),
      () => second.promise,
      events(over),
      endOfBody()
    )
    const tools = [{ type: 'code_execution_20250825', name: 'code_execution' }]
    const body = { model: 'demo', max_tokens: 9, messages: [user], tools, stream: true }
    const { client, answer } = bench.start({ target: '/v1/messages', body })
    await eventually(() => client.text.includes('before'))
    bench.routes.disk = disk.promise
    first.resolve()
    await eventually(() => bench.routes.all.size > 0)
    t.notMatch(client.text, 'container_3')
    if (outcome === 'written') {
      disk.resolve()
      await eventually(() => client.text.includes('after'))
      t.match(client.text, 'container_3', 'before the stream is over')
      second.resolve()
      t.match((await answer).outcome.kind, 'completed')
    } else {
      disk.reject(new GatewayError('billing_unavailable', 'The disk is full.'))
      const refused = await answer
      second.resolve()
      t.match(refused.body, 'The disk is full.')
      t.notMatch(refused.body, 'container_3')
      t.equal(refused.outcome.kind, 'failed')
    }
  })

t.test('a name is found however much stands before it, whole and streamed', async (t) => {
  const { ask, upstreams } = await open(t, { protocol: 'anthropic' })
  const { one } = upstreams
  const base = { model: 'demo', max_tokens: 9, messages: [user] }
  const tools = [{ type: 'code_execution_20250825', name: 'code_execution' }]
  // What stands in more than seven levels is not parsed.
  const pages = [[[[[[[[Array.from({ length: 3_000_000 }, () => 1)]]]]]]]]
  one.json({ ...answers['messages'], pages, container: { id: 'container_4' } })
  t.equal((await ask('/v1/messages', { ...base, tools })).status, 200)
  one.json(answers['messages']!)
  t.equal((await ask('/v1/messages', { ...base, container: 'container_4' })).status, 200, 'whole')
  one.script(
    head(200, { 'content-type': 'text/event-stream' }),
    events([
      ...begun,
      {
        type: 'content_block_delta',
        index: 0,
        delta: { type: 'text_delta', text: 'x' },
        pages,
        container: { id: 'container_5' }
      },
      ...over
    ]),
    endOfBody()
  )
  t.match((await ask('/v1/messages', { ...base, tools, stream: true })).text, /container_5/)
  one.json(answers['messages']!)
  t.equal((await ask('/v1/messages', { ...base, container: 'container_5' })).status, 200, 'streamed')
})
