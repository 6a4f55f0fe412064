// The simulator as Anthropic's API.
import t from 'tap'
import type { Test } from 'tap'
import type { Directive } from '../../../core/simulator/directive.ts'
import { countTokens } from '../../../core/simulator/words/tokens.ts'
import { readEvents } from '../../kit/sse.ts'
import { start, tell } from './kit.ts'
import type { Bench } from './kit.ts'

const path = '/v1/messages'
const headers = { 'anthropic-version': '2023-06-01' }
const weather = {
  name: 'get_weather',
  input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
}
const time = { name: 'get_time', input_schema: { type: 'object', properties: {} } }

function request(directive: Directive, more: Record<string, unknown> = {}): Record<string, unknown> {
  return { model: 'm', max_tokens: 4000, messages: [{ role: 'user', content: tell(directive) }], ...more }
}

/** A stream put together again by the rules that clients rely on. */
async function streamed(t: Test, { send }: Bench, body: Record<string, unknown>): Promise<any> {
  const reply = await send(path, { ...body, stream: true }, { headers })
  t.equal(reply.status, 200, reply.text)
  const events = readEvents(reply.body)
    .map(({ event, data }) => {
      const value = JSON.parse(data)
      t.equal(event, value.type, 'every event has its name twice')
      return value
    })
    .filter(({ type }) => type !== 'ping')
  const { message, type } = events.shift()
  t.equal(type, 'message_start')
  t.same([message.content, message.stop_reason], [[], null])
  t.same(events.pop(), { type: 'message_stop' })
  const { delta: end, usage } = events.pop()
  const { container: _, ...stop } = end
  for (const event of events) {
    const block = message.content[event.index]
    if (event.type === 'content_block_start') {
      t.equal(event.index, message.content.length, 'one after the other')
      message.content.push({ ...event.content_block, ...(event.content_block.type === 'tool_use' && { input: '' }) })
    } else if (event.type === 'content_block_stop') {
      t.equal(event.index, message.content.length - 1)
      if (block.type === 'tool_use') block.input = block.input === '' ? {} : JSON.parse(block.input)
    } else {
      const { text, thinking, signature, partial_json: json } = event.delta
      if (text !== undefined) block.text += text
      if (thinking !== undefined) block.thinking += thinking
      if (signature !== undefined) block.signature = signature
      if (json !== undefined) block.input += json
    }
  }
  return { ...message, ...stop, usage: { ...message.usage, ...usage } }
}

t.test('a stream says what a whole message says', async (t) => {
  const bench = await start(t)
  const cases: [string, Record<string, unknown>][] = [
    ['text', request({})],
    ['limited', request({}, { max_tokens: 7 })],
    ['nothing', request({}, { max_tokens: 0 })],
    ['stopped', request({ text: 'one two three' }, { stop_sequences: ['x', ' three'] })],
    [
      'tools',
      request(
        { call: ['get_weather', 'get_time'], text: 'Let me look.', reasoning: 'Which?' },
        { tools: [weather, time] }
      )
    ],
    ['thinking', request({}, { thinking: { type: 'enabled', budget_tokens: 1024 } })],
    ['omitted', request({}, { thinking: { type: 'adaptive', display: 'omitted' } })],
    ['redacted', request({ reasoning: 'Secret.', redacted: true })],
    ['cached', request({ cached_tokens: 4, written_tokens: 2 })],
    ['refused', request({ refusal: true })]
  ]
  const found: Record<string, any> = {}
  for (const [name, body] of cases) {
    const whole = await bench.json(path, body, { headers })
    t.same(await streamed(t, bench, body), whole, name)
    found[name] = whole
  }
  const { text, limited, nothing, stopped, tools, thinking, omitted, redacted, cached, refused } = found
  t.match(text, {
    id: /^msg_/,
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [{ type: 'text', citations: null }],
    stop_reason: 'end_turn',
    stop_sequence: null
  })
  t.equal(text.usage.output_tokens, countTokens(text.content[0].text))
  t.match(limited, { stop_reason: 'max_tokens', usage: { output_tokens: 7 } })
  t.match(nothing, { stop_reason: 'max_tokens', content: [], usage: { output_tokens: 0 } })
  t.match(stopped, { stop_reason: 'stop_sequence', stop_sequence: ' three', content: [{ text: 'one two' }] })
  t.match(tools, {
    stop_reason: 'tool_use',
    content: [
      { type: 'thinking', thinking: 'Which?' },
      { text: 'Let me look.' },
      { type: 'tool_use', id: /^toolu_\w+$/, name: 'get_weather', input: { city: String } },
      { name: 'get_time', input: {} }
    ]
  })
  t.equal(tools.content.length, 4)
  t.match(thinking, {
    content: [{ type: 'thinking', thinking: /think/, signature: /\S/ }, { type: 'text' }],
    usage: { output_tokens_details: { thinking_tokens: Number } }
  })
  t.match(omitted.content[0], { type: 'thinking', thinking: '', signature: /\S/ })
  t.match(redacted.content[0], { type: 'redacted_thinking', data: /\S/ })
  t.match(cached.usage, {
    cache_read_input_tokens: 4,
    cache_creation_input_tokens: 2,
    cache_creation: { ephemeral_5m_input_tokens: 2, ephemeral_1h_input_tokens: 0 }
  })
  t.match(refused, { stop_reason: 'refusal', stop_details: { type: 'refusal' } })
  const { usage } = cached
  t.equal(usage.input_tokens, 3 + 4 + countTokens(tell({ cached_tokens: 4, written_tokens: 2 })) - 6)
})

t.test('everything in a request is counted by the same rule, and counting is free', async (t) => {
  const { json, stats } = await start(t)
  const content = [
    { type: 'text', text: 'What is this?' },
    { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }
  ]
  const body = {
    model: 'm',
    system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral', ttl: '1h' } }],
    messages: [{ role: 'user', content }],
    tools: [time]
  }
  const { input_tokens: tokens } = await json(`${path}/count_tokens`, body, { headers })
  t.equal(tokens, 3 + 4 + 3 + 4 + countTokens('What is this?') + 85 + countTokens(JSON.stringify([time])))
  t.same(stats.counted, {})
  t.equal(
    (await json(`${path}?beta=true`, { ...body, max_tokens: 9 }, { headers: { ...headers, 'x-request-id': 'mine' } }))
      .usage.input_tokens,
    tokens
  )
  t.same(stats.byRequest.get('mine'), { prompt: tokens, cached: 0, completion: 9 })
  const text = tell({ written_tokens: 2 })
  const { usage } = await json(
    path,
    { ...body, max_tokens: 9, messages: [{ role: 'user', content: text }] },
    { headers }
  )
  t.same(usage.cache_creation, { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 2 })
})

t.test('a conversation with tools and reasoning goes on, and its reasoning must not have changed', async (t) => {
  const { json, send } = await start(t)
  const more = { tools: [weather], thinking: { type: 'enabled', budget_tokens: 1024 } }
  const first = request({ call: 'get_weather', arguments: { city: 'Oslo' } }, more)
  const { content } = await json(path, first, { headers })
  const call = content.find(({ type }: any) => type === 'tool_use')
  t.same(call.input, { city: 'Oslo' })
  const answered = (assistant: unknown): Record<string, unknown> => ({
    ...first,
    messages: [
      ...(first['messages'] as object[]),
      { role: 'assistant', content: assistant },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: '4 C' }] }
    ]
  })
  const done = await json(path, answered(content), { headers })
  t.equal(done.stop_reason, 'end_turn', 'a result is answered, not called for again')
  t.match(done.content.at(-1).text, /The tool answered "4 C"/)
  const forged = await send(path, answered([{ ...content[0], thinking: 'Something else.' }, ...content.slice(1)]), {
    headers
  })
  t.match(forged.json(), {
    error: { type: 'invalid_request_error', message: /messages\.1\.content\.0: Invalid `signature`/ }
  })
  t.match((await send(path, answered(content.slice(1)), { headers })).json(), {
    error: { message: /Expected `thinking`/ }
  })
  for (const directive of [{ reasoning: 'x', redacted: true }, { reasoning: 'x' }]) {
    const replayed = await json(path, request(directive), { headers })
    const next = {
      ...request({}),
      messages: [
        { role: 'user', content: 'a' },
        { role: 'assistant', content: replayed.content },
        { role: 'user', content: 'b' }
      ]
    }
    t.equal((await send(path, next, { headers })).status, 200)
  }
})

t.test('what Anthropic refuses is refused, in its envelope', async (t) => {
  const { send } = await start(t, { key: 'sk-right', models: ['m'] })
  const own = { ...headers, 'x-api-key': 'sk-right' }
  const plain = { model: 'm', max_tokens: 2000, messages: [{ role: 'user', content: 'Hi' }] }
  const say = (...messages: unknown[]): object => ({
    ...plain,
    messages: messages.map((content, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content }))
  })
  const use = (id: string): object => ({ type: 'tool_use', id, name: 'f', input: {} })
  const result = (id: string): object => ({ type: 'tool_result', tool_use_id: id })
  const text = { type: 'text', text: 'x' }
  const schema = (value: object): object => ({
    ...plain,
    output_config: { format: { type: 'json_schema', schema: value } }
  })
  const cases: [body: object, message: RegExp, status?: number][] = [
    [{ ...plain, model: undefined }, /^model: Field required/],
    [{ ...plain, model: 'x' }, /^model: x$/, 404],
    [{ ...plain, max_tokens: undefined }, /^max_tokens: Field required/],
    [{ ...plain, max_tokens: -1 }, /^max_tokens: Input should be/],
    [{ ...plain, messages: [] }, /at least one message/],
    [{ ...plain, messages: [{ role: 'tool', content: 'x' }] }, /^messages\.0\.role/],
    [{ ...plain, n: 2 }, /^n: Extra inputs/],
    [{ ...plain, mcp_servers: [] }, /^mcp_servers: Extra inputs/],
    [{ ...plain, temperature: 1.5 }, /^temperature: Input should be between 0 and 1/],
    [{ ...plain, stop_sequences: [' '] }, /non-whitespace/],
    [say(''), /text content blocks must be non-empty/],
    [say([{ type: 'text', text: '' }]), /^messages\.0\.content\.0\.text: text content blocks must be non-empty/],
    [say([]), /must have non-empty content/],
    [say([{ type: 'video' }]), /Input tag 'video'/],
    [say([use('a')]), /not allowed in messages of the role `user`/],
    [say([{ type: 'image', source: { type: 'base64', media_type: 'image/bmp', data: 'AA' } }]), /media_type/],
    [say([{ type: 'image', source: { type: 'url', url: 'data:,' } }]), /Only HTTP URLs/],
    [say('x', 'ends in a space '), /trailing whitespace/],
    [say('x', [use('a')], 'y'), /^messages\.1: `tool_use` ids were found without `tool_result`.*: a\./],
    [say('x', [use('a'), use('b')], [result('a')]), /: b\./],
    [say('x', 'y', [result('a')]), /unexpected `tool_use_id`/],
    [say('x', [use('a')], [text, result('a')]), /must come before/],
    [say('x', [use('a b')], [result('a b')]), /should match pattern/],
    [say('x', [{ type: 'thinking', thinking: 'x', signature: 'eA==' }], 'y'), /Invalid `signature`/],
    [{ ...plain, tool_choice: { type: 'any' } }, /only be specified while providing `tools`/],
    [{ ...plain, tools: [{ name: 'a b', input_schema: { type: 'object' } }] }, /^tools\.0\.name/],
    [{ ...plain, tools: [time, time] }, /unique/],
    [{ ...plain, tools: [time], tool_choice: { type: 'tool', name: 'x' } }, /'x' not found/],
    [{ ...plain, tools: [{ name: 'x', input_schema: { type: 'string' } }] }, /input_schema\.type/],
    [{ ...plain, thinking: { type: 'enabled', budget_tokens: 2000 } }, /must be greater than/],
    [{ ...plain, thinking: { type: 'enabled', budget_tokens: 10 } }, /budget_tokens/],
    [
      { ...plain, thinking: { type: 'enabled', budget_tokens: 1024 }, tools: [time], tool_choice: { type: 'any' } },
      /forces tool use/
    ],
    [schema({ type: 'object', properties: {} }), /additionalProperties/],
    [
      schema({ type: 'object', additionalProperties: false, properties: { a: { type: 'object' } } }),
      /additionalProperties/
    ]
  ]
  for (const [body, message, status = 400] of cases) {
    const reply = await send(path, body, { headers: own })
    t.equal(reply.status, status, `${message}: ${reply.text}`)
    t.match(reply.json(), {
      type: 'error',
      error: { type: status === 404 ? 'not_found_error' : 'invalid_request_error', message },
      request_id: reply.headers['request-id']
    })
  }
  for (const fine of [
    say('x', [text, use('a'), use('b')], [result('b'), result('a'), text], 'prefilled'),
    {
      ...plain,
      messages: [
        { role: 'user', content: 'a' },
        { role: 'user', content: 'b' },
        { role: 'system', content: 'c' }
      ]
    },
    { ...plain, tools: [{ type: 'web_search_20260318', name: 'web_search' }, time] },
    schema({ type: 'object', additionalProperties: false, properties: {} })
  ]) {
    const reply = await send(path, fine, { headers: own })
    t.equal(reply.status, 200, reply.text)
  }
  t.match((await send(path, plain, { headers })).json(), { error: { type: 'authentication_error' } })
  t.equal((await send(path, plain, { headers: { ...headers, authorization: 'Bearer sk-right' } })).status, 200)
  t.match((await send(path, plain, { headers: { 'x-api-key': 'sk-right' } })).json(), {
    error: { message: 'anthropic-version: header is required' }
  })
  t.match((await send(path, plain, { headers: { ...own, 'anthropic-version': '2020-01-01' } })).json(), {
    error: { message: /not a valid version/ }
  })
  t.match((await send(`${path}/batches`, plain, { headers: own })).json(), { error: { type: 'not_found_error' } })
  t.match((await send(path, request({ status: 529 }), { headers: own })).json(), {
    error: { type: 'overloaded_error' }
  })
  t.match(
    await send(
      path,
      { ...plain, thread: { type: 'create' } },
      { headers: { ...own, 'anthropic-beta': 'message-threads-2026-08-12' } }
    ),
    { status: 400, text: /thread_unsupported_request/ }
  )
})

t.test('the newer version takes no sampling parameters', async (t) => {
  const { send } = await start(t)
  const newer = { 'anthropic-version': '2026-10-21' }
  const plain = { model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'Hi' }] }
  t.equal((await send(path, plain, { headers: newer })).status, 200)
  t.match((await send(path, { ...plain, temperature: 1 }, { headers: newer })).json(), {
    error: { message: 'temperature: Extra inputs are not permitted' }
  })
  const cited = { ...plain, messages: [{ role: 'user', content: [{ type: 'text', text: 'x', citations: [{}] }] }] }
  t.same(
    [(await send(path, cited, { headers })).status, (await send(path, cited, { headers: newer })).status],
    [200, 400]
  )
})

t.test('a stream breaks off with an error of its own kind', async (t) => {
  const { send } = await start(t)
  const events = readEvents(
    (await send(path, request({ cut: 'error', after_events: 4 }, { stream: true }), { headers })).body
  )
  const last = events.at(-1)!
  t.equal(last.event, 'error')
  t.match(JSON.parse(last.data), { type: 'error', error: { type: 'api_error', message: /\S/ } })
  t.equal(events.length, 5)
  for (const [directive, missing] of [
    [{ role: false }, 'message_start'],
    [{ done: false }, 'message_stop']
  ] as const) {
    const text = (await send(path, request(directive, { stream: true }), { headers })).text
    t.notMatch(text, new RegExp(missing))
  }
  t.notMatch((await send(path, request({ usage: null, text: 'x' }, { stream: true }), { headers })).text, /usage"/)
  t.match((await send(path, request({ usage: { output_tokens: -1 } }), { headers })).json(), {
    usage: { output_tokens: -1 }
  })
})

t.test('models are listed in pages to whoever names a version', async (t) => {
  const { json, send } = await start(t, { models: ['a', 'b', 'c/d'] })
  const list = async (query: string): Promise<unknown> => {
    const { data, ...rest } = await json(`/v1/models${query}`, undefined, { headers })
    return [data.map(({ id }: any) => id), rest]
  }
  t.same(await list(''), [['a', 'b', 'c/d'], { has_more: false, first_id: 'a', last_id: 'c/d' }])
  t.same(await list('?limit=2'), [['a', 'b'], { has_more: true, first_id: 'a', last_id: 'b' }])
  t.same(await list('?limit=2&after_id=b'), [['c/d'], { has_more: false, first_id: 'c/d', last_id: 'c/d' }])
  t.same(await list('?limit=1&before_id=c/d'), [['b'], { has_more: true, first_id: 'b', last_id: 'b' }])
  t.match(await json('/v1/models/c%2Fd', undefined, { headers }), {
    id: 'c/d',
    type: 'model',
    lifecycle: 'active',
    capabilities: null
  })
  t.match((await send('/v1/models/x', undefined, { headers })).json(), { error: { type: 'not_found_error' } })
  t.equal((await json('/v1/models')).object, 'list')
})
