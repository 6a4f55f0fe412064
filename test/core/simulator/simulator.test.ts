// The simulator: honest answers, exact counts, and every fault it can be told to have.
// Runs alone: it measures the memory of its process.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import { startSimulator } from '../../../core/simulator/simulator.ts'
import type { Simulator, SimulatorOptions } from '../../../core/simulator/simulator.ts'
import type { Directive } from '../../../core/simulator/directive.ts'
import { countTokens, splitTokens } from '../../../core/simulator/words/tokens.ts'
import { Wheel } from '../../../core/simulator/wheel.ts'
import { ask, connect } from '../../kit/client.ts'
import type { ReceivedReply } from '../../kit/client.ts'
import { eventually, residentBytes, stopwatch } from '../../kit/probe.ts'
import { checkChatStream, readEvents } from '../../kit/sse.ts'

const path = '/v1/chat/completions'

async function start(t: Test, options?: SimulatorOptions): Promise<Simulator> {
  const simulator = await startSimulator(options)
  t.teardown(() => simulator.close())
  return simulator
}

/** A request whose last message carries a directive. */
function request(directive: Directive, more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    model: 'm',
    messages: [{ role: 'user', content: `Tell me about boats. [[simulator ${JSON.stringify(directive)}]]` }],
    ...more
  }
}

const stream = { stream: true, stream_options: { include_usage: true } }

t.test('the same request gets the same bytes, and a stream says what a whole answer says', async (t) => {
  const [one, other] = [await start(t), await start(t)]
  const body = {
    model: 'm',
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Tell me about 漢字 and 😀.' }
    ]
  }
  const whole = await ask(t, one.url, { path, body })
  const again = await ask(t, other.url, { path, body })
  t.same(whole.body, again.body)
  t.equal(whole.status, 200)
  const streamed = await ask(t, one.url, { path, body: { ...body, ...stream } })
  t.same(streamed.body, (await ask(t, other.url, { path, body: { ...body, ...stream } })).body)

  const answer = checkChatStream(streamed.body, { usage: true })
  const completion = whole.json()
  t.equal(answer.choices[0]!.content, completion.choices[0].message.content)
  t.equal(answer.id, completion.id)
  t.same(answer.usage, completion.usage)
  t.match(
    completion.choices[0].message.content,
    /^This is the Sluice simulator, not a model\. You wrote "Tell me about 漢字 and 😀\."/
  )
  t.equal(
    completion.usage.prompt_tokens,
    3 + 2 * 4 + countTokens('Be brief.') + countTokens('Tell me about 漢字 and 😀.')
  )
  t.equal(completion.usage.completion_tokens, countTokens(completion.choices[0].message.content))
  t.equal(completion.usage.total_tokens, completion.usage.prompt_tokens + completion.usage.completion_tokens)

  const asked = await ask(t, one.url, {
    path,
    body: { ...body, messages: [{ role: 'user', content: 'Something else' }] }
  })
  t.not(asked.json().id, completion.id)
})

t.test('tokens joined are the text, and none is cut inside a character', async (t) => {
  t.same(splitTokens('Hello, 漢字!'), ['Hello', ',', ' 漢', '字', '!'])
  t.same(splitTokens('incomprehensible'), ['incompre', 'hensible'])
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (text) => {
      const tokens = splitTokens(text)
      const counted = text.trim() === '' || tokens.length === countTokens(text)
      return counted && tokens.join('') === text && tokens.every((token) => token.isWellFormed())
    })
  )
})

t.test('limits, stop sequences and the number of choices are honoured', async (t) => {
  const { url } = await start(t)
  const create = async (directive: Directive, more?: Record<string, unknown>): Promise<any> =>
    (await ask(t, url, { path, body: request(directive, more) })).json()

  for (const limit of ['max_tokens', 'max_completion_tokens']) {
    const short = await create({}, { [limit]: 7 })
    t.equal(short.choices[0].finish_reason, 'length')
    t.equal(short.usage.completion_tokens, 7)
    t.equal(countTokens(short.choices[0].message.content), 7)
  }
  const stopped = await create({ text: 'one two three four' }, { stop: ['four', ' three'] })
  t.equal(stopped.choices[0].message.content, 'one two')
  t.equal(stopped.choices[0].finish_reason, 'stop')

  const three = await create({}, { n: 3 })
  t.same(
    three.choices.map((choice: any) => choice.index),
    [0, 1, 2]
  )
  t.equal(new Set(three.choices.map((choice: any) => choice.message.content)).size, 3)
  t.equal(
    three.usage.completion_tokens,
    three.choices.reduce((sum: number, choice: any) => sum + countTokens(choice.message.content), 0)
  )
  const streamed = await ask(t, url, { path, body: request({}, { n: 3, ...stream }) })
  const answer = checkChatStream(streamed.body, { n: 3, usage: true })
  t.same(
    answer.choices.map((choice) => choice.content),
    three.choices.map((choice: any) => choice.message.content)
  )

  t.equal((await create({ tokens: 250 })).usage.completion_tokens, 250)
  const filled = await create({ bytes: 1001 })
  t.equal(Buffer.byteLength(filled.choices[0].message.content), 1001)
  t.equal(filled.usage.completion_tokens, 126)
  t.equal(countTokens(filled.choices[0].message.content), 126)
  t.equal((await create({ bytes: 1000 }, { max_tokens: 5 })).choices[0].message.content.length, 40)

  const thought = await create({ reasoning: 'Boats float.', text: 'They do.' }, { max_tokens: 4 })
  t.match(thought.choices[0], {
    finish_reason: 'length',
    message: { reasoning_content: 'Boats float.', content: 'They' }
  })
  t.match(thought.usage, { completion_tokens: 4, completion_tokens_details: { reasoning_tokens: 3 } })
  t.match((await create({ cached_tokens: 5 })).usage, { prompt_tokens_details: { cached_tokens: 5 } })
})

t.test('the text comes in as many events as asked for', async (t) => {
  const { url } = await start(t)
  const pieces = async (directive: Directive): Promise<string[]> => {
    const reply = await ask(t, url, { path, body: request(directive, { stream: true }) })
    checkChatStream(reply.body)
    return readEvents(reply.body)
      .slice(1, -2)
      .map(({ data }) => JSON.parse(data).choices[0].delta.content)
  }
  t.equal((await pieces({ chunks: 17 })).length, 17)
  t.equal((await pieces({ tokens: 100, chunks: 9 })).length, 9)
  t.equal((await pieces({ tokens: 3, chunks: 9 })).length, 3)
  t.same(
    (await pieces({ bytes: 100, chunks: 10 })).map((piece) => piece.length),
    Array(10).fill(10)
  )
  t.same(await pieces({ text: 'a b c', chunks: 2 }), ['a', ' b c'])
})

const tools = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      parameters: {
        type: 'object',
        required: ['city', 'unit', 'days', 'where'],
        properties: {
          city: { type: 'string', minLength: 3, maxLength: 5 },
          unit: { enum: ['C', 'F'] },
          days: { type: 'integer', minimum: 2, maximum: 4 },
          where: { $ref: '#/$defs/point' },
          ignored: { type: 'boolean' }
        },
        $defs: { point: { type: 'array', items: { type: 'number' }, minItems: 2 } }
      }
    }
  },
  { type: 'function', function: { name: 'get_time' } },
  { type: 'custom', custom: { name: 'note' } }
]

t.test('tools are called when forced or told to, with arguments of their schema', async (t) => {
  const { url } = await start(t)
  const create = async (body: Record<string, unknown>): Promise<any> =>
    (await ask(t, url, { path, body: { tools, ...body } })).json()

  const forced = await create({ ...request({}), tool_choice: 'required' })
  t.match(forced.choices[0], {
    finish_reason: 'tool_calls',
    message: { content: null, tool_calls: [{ type: 'function', function: { name: 'get_weather' } }] }
  })
  const made = JSON.parse(forced.choices[0].message.tool_calls[0].function.arguments)
  t.same(Object.keys(made), ['city', 'unit', 'days', 'where'])
  t.ok(made.city.length >= 3 && made.city.length <= 5)
  t.ok(['C', 'F'].includes(made.unit))
  t.ok(made.days >= 2 && made.days <= 4)
  t.equal(made.where.length, 2)

  const named = await create({ ...request({}), tool_choice: { type: 'function', function: { name: 'get_time' } } })
  t.equal(named.choices[0].message.tool_calls[0].function.name, 'get_time')
  const custom = await create({ ...request({}), tool_choice: { type: 'custom', custom: { name: 'note' } } })
  t.match(custom.choices[0].message.tool_calls[0], { type: 'custom', custom: { name: 'note', input: /simulator/ } })
  t.equal((await create({ ...request({}) })).choices[0].finish_reason, 'stop', 'auto without a directive is text')
  t.equal((await create({ ...request({ call: 'get_time' }), tool_choice: 'none' })).choices[0].finish_reason, 'stop')

  const both = request({ call: ['get_time', 'get_weather'], arguments: { city: 'Café 😀' }, text: 'Let me look.' })
  const streamed = await ask(t, url, { path, body: { tools, ...both, ...stream } })
  const [choice] = checkChatStream(streamed.body, { usage: true }).choices
  t.equal(choice!.finish, 'tool_calls')
  t.equal(choice!.content, 'Let me look.')
  t.same(
    choice!.toolCalls.map(({ name, arguments: text }) => [name, JSON.parse(text)]),
    [
      ['get_time', { city: 'Café 😀' }],
      ['get_weather', { city: 'Café 😀' }]
    ]
  )
  t.same(
    (await create(both)).choices[0].message.tool_calls.map((call: any) => call.id),
    choice!.toolCalls.map((call) => call.id)
  )

  const followUp = await create({
    model: 'm',
    messages: [
      ...(both['messages'] as unknown[]),
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'get_time', arguments: '{}' } }]
      },
      { role: 'tool', tool_call_id: 'c1', content: 'half past nine' }
    ]
  })
  t.equal(followUp.choices[0].finish_reason, 'stop', 'a result is answered, not called for again')
  t.equal(followUp.choices[0].message.content, 'Let me look.')

  const cut = await create({ ...request({}), tool_choice: 'required', max_tokens: 3 })
  t.equal(cut.choices[0].finish_reason, 'length')
})

t.test('JSON is answered where JSON is asked for', async (t) => {
  const { url } = await start(t)
  const content = async (format: unknown): Promise<any> =>
    JSON.parse(
      (await ask(t, url, { path, body: request({}, { response_format: format }) })).json().choices[0].message.content
    )
  t.match(await content({ type: 'json_object' }), { simulator: true, answer: /simulator/ })
  const schema = {
    type: 'object',
    properties: { port: { type: 'string', format: 'date' }, open: { type: 'boolean' }, next: { type: ['null'] } }
  }
  t.match(await content({ type: 'json_schema', json_schema: { name: 'x', schema } }), {
    port: '2026-01-31',
    open: Boolean,
    next: null
  })
})

t.test('what OpenAI refuses is refused, with its envelope', async (t) => {
  const { url } = await start(t, { key: 'sk-right', models: ['m', 'org/name'] })
  const headers = { authorization: 'Bearer sk-right' }
  const plain = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }
  const cases: [what: string, body: unknown, status: number, param: string | null, code: string | null][] = [
    ['no JSON', '{"model":', 400, null, null],
    ['an array', '[]', 400, null, null],
    ['no model', { messages: plain.messages }, 400, null, null],
    ['an unknown model', { ...plain, model: 'x' }, 404, 'model', 'model_not_found'],
    ['no messages', { model: 'm' }, 400, 'messages', 'missing_required_parameter'],
    ['empty messages', { model: 'm', messages: [] }, 400, 'messages', 'empty_array'],
    [
      'an unknown role',
      { model: 'm', messages: [{ role: 'boss', content: '' }] },
      400,
      'messages[0].role',
      'invalid_value'
    ],
    [
      'content of no type',
      { model: 'm', messages: [{ role: 'user', content: 3 }] },
      400,
      'messages[0].content',
      'invalid_value'
    ],
    ['a bad n', { ...plain, n: 0 }, 400, 'n', 'invalid_value'],
    ['a bad limit', { ...plain, max_tokens: 0 }, 400, 'max_tokens', 'invalid_value'],
    ['a bad temperature', { ...plain, temperature: 2.5 }, 400, 'temperature', 'invalid_value'],
    ['five stops', { ...plain, stop: ['1', '2', '3', '4', '5'] }, 400, 'stop', 'invalid_value'],
    ['stream options without a stream', { ...plain, stream_options: {} }, 400, 'stream_options', null],
    ['a tool choice without tools', { ...plain, tool_choice: 'required' }, 400, 'tool_choice', null],
    ['an unknown format', { ...plain, response_format: { type: 'xml' } }, 400, 'response_format', 'invalid_value']
  ]
  for (const [what, body, status, param, code] of cases) {
    const reply = await ask(t, url, { path, headers, body })
    t.equal(reply.status, status, what)
    const { error } = reply.json()
    t.same(Object.keys(error), ['message', 'type', 'param', 'code'], what)
    t.match(error, { message: /\S/, type: 'invalid_request_error', param, code }, what)
  }
  t.match((await ask(t, url, { path, body: plain })).json(), { error: { code: 'invalid_api_key' } })
  t.equal((await ask(t, url, { path: '/v1/nothing', headers })).status, 404)
  t.equal((await ask(t, url, { path, method: 'GET', headers })).status, 405)

  const list = (await ask(t, url, { path: '/v1/models', headers })).json()
  t.same(
    list.data.map((model: any) => model.id),
    ['m', 'org/name']
  )
  t.equal((await ask(t, url, { path: '/v1/models/org%2Fname', headers })).json().id, 'org/name')
  t.match((await ask(t, url, { path: '/v1/models/other', headers })).json(), { error: { code: 'model_not_found' } })
})

t.test('a directive that is not understood is refused by name', async (t) => {
  const { url } = await start(t)
  for (const [text, message] of [
    ['[[simulator {"tokns": 3}]]', /no member "tokns"/],
    ['[[simulator {"constructor": 3}]]', /no member "constructor"/],
    ['[[simulator {"tokens": -1}]]', /tokens must be an integer from 0/],
    ['[[simulator {"cut": "axe"}]]', /cut must be one of reset, fin/],
    ['[[simulator {"text": ]]', /not JSON closed by/],
    ['[[simulator 3]]', /must be a JSON object/],
    ['[[simulator {"call": "get_time"}]]', /call needs tools/]
  ] as const) {
    const reply = await ask(t, url, { path, body: { model: 'm', messages: [{ role: 'user', content: text }] } })
    t.equal(reply.status, 400)
    t.match(reply.json().error, { message, param: /messages|tools/ })
  }
  const nested = {
    model: 'm',
    messages: [{ role: 'user', content: 'A [[simulator {"text": "x]] y", "arguments": {"a": [[1]]}}]] B' }]
  }
  t.equal((await ask(t, url, { path, body: nested })).json().choices[0].message.content, 'x]] y')
  const elsewhere = request({ model: 'other', status: 500 })
  t.equal((await ask(t, url, { path, body: elsewhere })).status, 200, 'for another model it is ignored')
})

t.test('no request makes it fail', async (t) => {
  const { url } = await start(t)
  const client = await connect(t, url)
  const json = fc.jsonValue({ maxDepth: 3 })
  const body = fc.record(
    {
      model: fc.oneof(fc.constant('m'), json),
      messages: fc.oneof(
        fc.array(fc.record({ role: fc.constantFrom('user', 'tool', 'x'), content: fc.oneof(fc.string(), json) })),
        json
      ),
      stream: fc.oneof(fc.boolean(), json),
      n: fc.oneof(fc.integer({ min: 1, max: 3 }), json),
      stop: json,
      max_tokens: json,
      tools: fc.oneof(fc.constant(tools), json),
      tool_choice: fc.oneof(fc.constantFrom('required', 'auto'), json),
      response_format: json
    },
    { requiredKeys: [] }
  )
  let n = 0
  await fc.assert(
    fc.asyncProperty(body, async (value) => {
      const reply = await client.send({ path, body: value }).reply(n++)
      return [200, 400].includes(reply.status) && reply.complete
    }),
    { numRuns: 300 }
  )
  t.equal(n, 300)
})

t.test('what nobody could answer is refused or cut, and the next request is answered', async (t) => {
  const { url } = await start(t)
  const deep = `${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`
  const self = {
    type: 'object',
    properties: Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`p${i}`, { $ref: '#' }]))
  }
  const tool = { type: 'function', function: { name: 'f', parameters: self } }
  const content = (text: string): object[] => [{ role: 'user', content: text }]
  // How deep is too deep is up to the Node that runs it.
  const deepOrNot = [200, 500]
  const cases: [what: string, body: unknown, ...statuses: number[]][] = [
    [
      'usage nested too deep',
      { model: 'm', ...stream, messages: content(`[[simulator {"usage":${deep},"first_event_ms":1}]]`) },
      200
    ],
    [
      'arguments nested too deep',
      { model: 'm', tools: [tool], messages: content(`[[simulator {"call":"f","arguments":${deep}}]]`) },
      ...deepOrNot
    ],
    [
      'a body nested too deep',
      `{"model":"m","messages":[{"role":"user","content":"x","tool_calls":${deep}}]}`,
      ...deepOrNot
    ],
    [
      'a directive without an end',
      { model: 'm', messages: content(`[[simulator {"text":"${']]'.repeat(500_000)}`) },
      400
    ],
    ['a header with a line break', { model: 'm', messages: content('[[simulator {"headers":{"a":"b\\nc"}}]]') }, 400],
    ['a header that frames', { model: 'm', messages: content('[[simulator {"headers":{"Trailer":"x"}}]]') }, 400],
    ['too much text', { model: 'm', n: 128, messages: content('[[simulator {"tokens":1000000}]]') }, 400],
    ['too much filler in one body', { model: 'm', messages: content('[[simulator {"bytes":2000000000}]]') }, 400],
    ['a schema of itself', { model: 'm', n: 4, tools: [tool], tool_choice: 'required', messages: content('Hi') }, 200]
  ]
  for (const [what, body, ...statuses] of cases) {
    const began = stopwatch()
    const reply = await ask(t, url, { path, body })
    t.ok(statuses.includes(reply.status), `${what}: ${reply.status}`)
    t.ok(began.ms < 2000, what)
  }
  t.equal((await ask(t, url, { path, body: request({}) })).status, 200)
})

t.test('the shape of a stream bends as told', async (t) => {
  const { url } = await start(t)
  const text = async (directive: Directive): Promise<string> =>
    (await ask(t, url, { path, body: request({ text: 'é 漢 😀', ...directive }, stream) })).text
  const content = (source: string): string =>
    readEvents(source)
      .slice(0, -1)
      .map(({ data }) => JSON.parse(data).choices[0]?.delta.content ?? '')
      .join('')
  for (const line_end of ['crlf', 'cr'] as const) {
    const bent = await text({ line_end })
    t.notMatch(bent, { crlf: /[^\r]\n|\r[^\n]/, cr: /\n/ }[line_end])
    t.equal(content(bent), 'é 漢 😀')
  }
  t.match(await text({ comments: true }), /^: simulator\n\ndata: /)
  t.notMatch(await text({ done: false }), /\[DONE\]/)
  t.notMatch(await text({ role: false }), /"role"/)
  t.notMatch(await text({ finish: null }), /"finish_reason":"/)
  t.match(await text({ finish: 'content_filter' }), /"finish_reason":"content_filter"/)
  t.match(await text({ usage: { prompt_tokens: -1 } }), /"choices":\[\],"usage":\{"prompt_tokens":-1\}/)
  t.notMatch(await text({ usage: null }), /"usage":\{/)
  const refused = (await ask(t, url, { path, body: request({ refusal: true, text: 'No, sorry.' }) })).json()
  t.match(refused.choices[0], { finish_reason: 'stop', message: { content: null, refusal: 'No, sorry.' } })
  t.match(await text({ refusal: true, text: 'No.' }), /"delta":\{"refusal":"No"\}/)
  const whole = (await ask(t, url, { path, body: request({ usage: null }) })).json()
  t.notOk('usage' in whole)
  t.notMatch((await ask(t, url, { path, body: request({}, { stream: true }) })).text, /usage/)
})

t.test('every fault looks as described', async (t) => {
  const { url, stats } = await start(t)
  const seen = async (
    directive: Directive,
    streaming = true
  ): Promise<{ reply?: ReceivedReply; end: string | undefined; received: string }> => {
    const client = await connect(t, url)
    client.send({ path, body: request(directive, streaming ? stream : {}) })
    const reply = await client.reply().catch(() => undefined)
    // A moment for a reset that follows the bytes.
    if (!reply?.complete) await client.closed
    const received = Buffer.concat(client.reads.map((read) => read.bytes)).toString()
    const end = client.end
    client.close()
    return { ...(reply && { reply }), end, received }
  }

  const refused = await seen({ status: 429, headers: { 'retry-after': '2' } })
  t.match(refused.reply, { status: 429, headers: { 'retry-after': '2', 'content-type': 'application/json' } })
  t.match(refused.reply!.json(), { error: { type: 'rate_limit_error', param: null } })
  t.match((await seen({ status: 502, body: '<html>bad</html>' })).reply, {
    status: 502,
    text: '<html>bad</html>',
    headers: { 'content-type': /^text\/html/ }
  })
  t.match((await seen({ status: 400, body: { detail: 'no' } })).reply, { status: 400, text: '{"detail":"no"}' })
  t.match((await seen({ body: '' })).reply, {
    status: 200,
    text: '',
    headers: { 'content-type': /^text\/event-stream/, 'content-length': '0' }
  })

  t.match(await seen({ cut: 'reset' }), { end: 'reset', received: '' })
  t.match(await seen({ cut: 'fin' }), { end: 'fin', received: '' })
  const cut = await seen({ cut: 'reset', after_events: 3 })
  t.equal(cut.end, 'reset')
  t.equal(readEvents(cut.reply!.body).length, 3)
  t.equal(cut.reply!.complete, false)
  for (const after_bytes of [0, 1, 500]) {
    const part = await seen({ cut: 'fin', after_bytes })
    t.match(part, { end: 'fin', reply: { complete: false } })
    t.equal(part.reply!.body.length, after_bytes)
  }
  t.equal((await seen({ cut: 'fin', after_bytes: 100 }, false)).reply!.body.length, 100, 'a JSON body is cut too')
  const ended = await seen({ cut: 'end', after_events: 2 })
  t.equal(ended.reply!.complete, true)
  t.equal(readEvents(ended.reply!.body).length, 2)
  const failed = await seen({ cut: 'error', after_events: 2, error: { error: { message: 'odd', code: 7 } } })
  t.same(JSON.parse(readEvents(failed.reply!.body)[2]!.data), { error: { message: 'odd', code: 7 } })
  t.match(
    checkChatStream((await seen({ cut: 'error', after_events: 4 })).reply!.body, { error: true, usage: true }).error,
    { code: 'simulated_error' }
  )
  t.match(await seen({ content_length: 5000 }, false), { end: 'fin', reply: { complete: false } })
  t.equal((await seen({ content_length: 10 }, false)).reply!.body.length, 10)

  const stalled = await connect(t, url)
  stalled.send({ path, body: request({ cut: 'stall', after_events: 1 }, stream) })
  await stalled.body('assistant')
  t.equal(stats.active, 1)
  stalled.close()
  await eventually(() => stats.active === 0)
  t.equal(stats.aborted, 0, 'a cut answer is not one that the client gave up')
})

t.test('it keeps the pace it was given, for many streams at one time', async (t) => {
  const { url } = await start(t)
  const clients = await Promise.all(Array.from({ length: 40 }, () => connect(t, url)))
  const began = performance.now()
  const watch = stopwatch()
  for (const client of clients)
    client.send({
      path,
      body: request({ chunks: 20, gap_ms: 10, first_byte_ms: 30, first_event_ms: 20 }, { stream: true })
    })
  await clients[0]!.head()
  t.ok(performance.now() - began >= 29, 'the head is not early')
  const replies = await Promise.all(clients.map((client) => client.reply()))
  const took = performance.now() - began
  for (const reply of replies) checkChatStream(reply.body)
  // 50 ms, then 22 gaps between 23 events.
  t.ok(took >= 268, `${took} ms is not too fast`)
  // Without a pace of its own a stream would wait for each of the others.
  t.ok(watch.ms < 268 * 15, `${watch.ms} ms is not too slow`)
  t.ok(clients[0]!.reads.length > 5, 'events come one by one')
})

t.test('the wheel wakes everybody once and not before their time', async (t) => {
  const wheel = new Wheel()
  t.teardown(() => wheel.stop())
  const waits = [0, 1, 5, 30, 511, 512, 513, 700]
  const woken = await Promise.all(
    waits.map((wait) => {
      const due = performance.now() + wait
      return new Promise<number>((resolve) => wheel.arm({ wake: () => resolve(performance.now() - due) }, due))
    })
  )
  for (const [i, late] of woken.entries()) t.ok(late >= 0, `${waits[i]} ms came ${late} ms late`)
})

t.test('it writes no faster than it is read, and hears when the client leaves', async (t) => {
  const { url, stats } = await start(t)
  const client = await connect(t, url)
  const before = residentBytes()
  client.send({ path, body: request({ bytes: 300_000_000, chunks: 70_000 }, { stream: true }) })
  await client.head()
  client.stopReading()
  await sleep(300)
  t.ok(residentBytes() - before < 64 * 1024 * 1024, 'memory stays')
  t.equal(stats.active, 1)
  client.resume()
  await client.body(20_000_000)
  t.equal(stats.aborted, 0)
  client.close()
  await eventually(() => stats.active === 0)
  t.match(stats, { aborted: 1, completed: 0 })
})

t.test('its statistics are the truth about what it delivered', async (t) => {
  const simulator = await start(t)
  const { url, stats } = simulator
  const whole = await ask(t, url, { path, body: request({ cached_tokens: 4 }), headers: { 'x-request-id': 'mine' } })
  await ask(t, url, { path, body: request({ cut: 'reset' }) }).catch(() => {})
  await ask(t, url, { path, body: '{' })
  const { usage } = whole.json()
  const tokens = { prompt: usage.prompt_tokens, cached: 4, completion: usage.completion_tokens }
  const shown = (await ask(t, url, { path: '/__simulator/stats' })).json()
  t.match(shown, {
    requests: 3,
    refused: 1,
    completed: 2,
    cut: 1,
    aborted: 0,
    active: 0,
    counted: tokens,
    byRequest: { mine: tokens }
  })
  t.same(stats.counted, tokens)
  await eventually(() => stats.connections === 0)
})

t.test('answers on one connection keep their order, also when requests are pipelined', async (t) => {
  const { url } = await start(t)
  const client = await connect(t, url)
  client.send({ path, body: request({ text: 'first', gap_ms: 5 }, stream) })
  client.send({ path, body: request({ text: 'second' }) })
  client.send({ path, body: request({ text: 'third' }, stream) })
  t.equal(checkChatStream((await client.reply(0)).body, { usage: true }).choices[0]!.content, 'first')
  t.equal((await client.reply(1)).json().choices[0].message.content, 'second')
  t.equal(checkChatStream((await client.reply(2)).body, { usage: true }).choices[0]!.content, 'third')
})

t.test('closing it cuts what is under way', async (t) => {
  const simulator = await startSimulator()
  const client = await connect(t, simulator.url)
  client.send({ path, body: request({ cut: 'stall', after_events: 1 }, stream) })
  await client.body('assistant')
  await simulator.close()
  await client.closed
  t.equal(simulator.stats.connections, 0)
})

t.test('by itself it prints where it listens and ends on a signal', async (t) => {
  const child = spawn(process.execPath, ['core/simulator/main.ts', '--port', '0'], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  t.teardown(() => child.kill('SIGKILL'))
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  const url = /http:\/\/\S+/.exec(line.toString())![0]
  t.equal((await ask(t, url, { path, body: request({}) })).status, 200)
  child.kill('SIGTERM')
  t.same(await once(child, 'exit'), [0, null])
})
