// Responses of the simulator: created, streamed, kept, resumed, cancelled, deleted and gone on with.
import t from 'tap'
import type { Directive } from '../../../core/simulator/directive.ts'
import { countTokens } from '../../../core/simulator/words/tokens.ts'
import { connect } from '../../kit/client.ts'
import { eventually } from '../../kit/probe.ts'
import { readEvents } from '../../kit/sse.ts'
import { start, tell } from './kit.ts'

const path = '/v1/responses'
const weather = {
  type: 'function',
  name: 'get_weather',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
}
const note = { type: 'custom', name: 'note' }

function request(directive: Directive, more: Record<string, unknown> = {}): Record<string, unknown> {
  return { model: 'm', input: tell(directive), ...more }
}

/** The events of a stream; each has its name twice, and they count up. */
function eventsOf(body: Buffer, from = 0): any[] {
  return readEvents(body).map(({ event, data }, i) => {
    const value = JSON.parse(data)
    if (event !== value.type || value.sequence_number !== from + i) throw new Error(`event ${i}: ${event} ${data}`)
    return value
  })
}

/** The items of a stream put together from what is added, as a helper of a client does it. */
function together(events: any[]): any[] {
  const items: any[] = []
  for (const {
    type,
    output_index: at,
    item_id: id,
    content_index: part,
    summary_index: summary,
    delta,
    item
  } of events) {
    if (type === 'response.output_item.added') items[at] = structuredClone(item)
    if (id !== undefined && items[at].id !== id) throw new Error(`${type} for ${id} in the place of ${items[at].id}`)
    if (type === 'response.content_part.added')
      items[at].content[part] = structuredClone(
        events.find((event) => event.type === type && event.item_id === id).part
      )
    if (type === 'response.output_text.delta') items[at].content[part].text += delta
    if (type === 'response.refusal.delta') items[at].content[part].refusal += delta
    if (type === 'response.function_call_arguments.delta') items[at].arguments += delta
    if (type === 'response.custom_tool_call_input.delta') items[at].input += delta
    if (type === 'response.reasoning_summary_part.added')
      items[at].summary[summary] = { type: 'summary_text', text: '' }
    if (type === 'response.reasoning_summary_text.delta') items[at].summary[summary].text += delta
    if (type === 'response.output_item.done' && items[at].status) items[at].status = item.status
  }
  return items
}

t.test('a stream says what a whole response says', async (t) => {
  const { json, send, stats } = await start(t)
  const cases: [string, Record<string, unknown>][] = [
    ['text', request({})],
    ['limited', request({}, { max_output_tokens: 16 })],
    ['tools', request({ call: ['get_weather', 'note'], text: 'Let me look.' }, { tools: [weather, note] })],
    [
      'reasoning',
      request({}, { reasoning: { effort: 'high', summary: 'auto' }, include: ['reasoning.encrypted_content'] })
    ],
    ['hidden', request({ reasoning: 'Hm.' })],
    ['refusal', request({ refusal: true, text: 'I will not.' })],
    ['filtered', request({ finish: 'content_filter' })],
    ['failed', request({ fail: { code: 'server_error', message: 'No.' } })],
    [
      'JSON',
      request(
        {},
        {
          text: {
            format: {
              type: 'json_schema',
              name: 'x',
              schema: { type: 'object', properties: { a: { type: 'integer' } } }
            }
          }
        }
      )
    ]
  ]
  const found: Record<string, any> = {}
  for (const [name, body] of cases) {
    const whole = await json(path, { ...body, store: false })
    const reply = await send(path, { ...body, store: false, stream: true })
    const events = eventsOf(reply.body)
    t.same(
      events.slice(0, 2).map(({ type, response }) => [type, response.status, response.output]),
      [
        ['response.created', 'in_progress', []],
        ['response.in_progress', 'in_progress', []]
      ]
    )
    const last = events.at(-1)
    t.same(last.response, whole, name)
    t.equal(last.type, `response.${whole.status}`)
    t.same(together(events), whole.output, `${name}, from its deltas`)
    found[name] = whole
  }
  const { text, limited, tools, reasoning, hidden, refusal, filtered, failed, JSON: structured } = found
  t.match(text, {
    id: /^resp_/,
    object: 'response',
    status: 'completed',
    error: null,
    incomplete_details: null,
    model: 'm',
    tools: [],
    store: false,
    access_programs: null
  })
  t.match(text.output, [
    {
      id: /^msg_/,
      type: 'message',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', annotations: [], logprobs: [] }]
    }
  ])
  const [prompt, written] = [3 + 4 + countTokens(tell({})), countTokens(text.output[0].content[0].text)]
  t.same(text.usage, {
    input_tokens: prompt,
    input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
    output_tokens: written,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: prompt + written
  })
  t.match(limited, {
    status: 'incomplete',
    incomplete_details: { reason: 'max_output_tokens' },
    usage: { output_tokens: 16 },
    output: [{ status: 'incomplete' }]
  })
  t.match(tools.output, [
    { type: 'message' },
    { id: /^fc_/, call_id: /^call_/, name: 'get_weather', arguments: /^\{"city":/ },
    { id: /^ctc_/, type: 'custom_tool_call', name: 'note', input: /simulator/ }
  ])
  t.match(reasoning.output[0], { id: /^rs_/, type: 'reasoning', summary: [{ text: /think/ }], encrypted_content: /\S/ })
  t.same(
    [hidden.output[0].summary, hidden.usage.output_tokens_details],
    [[], { reasoning_tokens: 2 }],
    'a summary is for who asks'
  )
  t.same(refusal.output[0].content, [{ type: 'refusal', refusal: 'I will not.' }])
  t.match(filtered, { status: 'incomplete', incomplete_details: { reason: 'content_filter' } })
  t.match(failed, { status: 'failed', error: { code: 'server_error', message: 'No.' }, usage: null })
  t.ok(Number.isInteger(JSON.parse(structured.output[0].content[0].text).a))
  const total = Object.values(found).reduce((sum, { usage }) => sum + (usage?.output_tokens ?? 0), 0)
  t.equal(stats.counted.completion, 2 * total, 'what failed is not counted')
})

t.test('a response is kept, gone on with, listed and deleted', async (t) => {
  const { json, send } = await start(t)
  const first = await json(path, request({ call: 'get_weather', arguments: { city: 'Oslo' } }, { tools: [weather] }))
  t.not(
    first.id,
    (await json(path, request({ call: 'get_weather', arguments: { city: 'Oslo' } }, { tools: [weather] }))).id,
    'each has an id of its own'
  )
  const at = `${path}/${first.id}`
  t.same(await json(at), first)
  t.match((await send(path, { model: 'm', input: 'x', previous_response_id: first.id })).json(), {
    error: { message: /No tool output found for function call/ }
  })
  const { call_id: callId } = first.output[0]
  const second = await json(path, {
    model: 'm',
    previous_response_id: first.id,
    input: [{ type: 'function_call_output', call_id: callId, output: '4 C' }]
  })
  t.match(second, { previous_response_id: first.id, output: [{ content: [{ text: /The tool answered "4 C"/ }] }] })
  const [prompt, answer] = [tell({ call: 'get_weather', arguments: { city: 'Oslo' } }), '{"city":"Oslo"}']
  t.equal(
    second.usage.input_tokens,
    3 + 4 + countTokens(prompt) + countTokens('get_weather') + countTokens(answer) + countTokens('4 C'),
    'the whole conversation'
  )

  const three = await json(path, {
    model: 'm',
    input: ['one', 'two', 'three'].map((content) => ({ role: 'user', content }))
  })
  const texts = async (query: string): Promise<unknown> => {
    const { data, ...rest } = await json(`${path}/${three.id}/input_items${query}`)
    return [data.map(({ content }: any) => content), rest.has_more]
  }
  t.same(await texts(''), [['three', 'two', 'one'], false])
  t.same(await texts('?order=asc&limit=2'), [['one', 'two'], true])
  const { last_id: last } = await json(`${path}/${three.id}/input_items?order=asc&limit=2`)
  t.same(await texts(`?order=asc&after=${last}`), [['three'], false])
  const referring = await json(path, {
    model: 'm',
    input: [
      { role: 'user', content: 'a' },
      { type: 'item_reference', id: second.output[0].id },
      { role: 'user', content: 'b' }
    ]
  })
  t.equal(referring.usage.input_tokens, 3 + 3 * 4 + 2 + countTokens(second.output[0].content[0].text))

  t.same(await json(at, undefined, { method: 'DELETE' }), { id: first.id, object: 'response', deleted: true })
  for (const [method, more] of [
    ['GET', ''],
    ['DELETE', ''],
    ['POST', '/cancel'],
    ['GET', '/input_items']
  ] as const) {
    t.match(await send(at + more, undefined, { method }), { status: 404, text: /not found/ })
  }
  t.match((await send(path, { model: 'm', input: 'x', previous_response_id: first.id })).json(), {
    error: { code: 'previous_response_not_found', param: 'previous_response_id' }
  })
  const forgotten = await json(path, request({}, { store: false }))
  t.equal((await send(`${path}/${forgotten.id}`)).status, 404)
  t.equal(
    (await json(path, request({}, { store: false }))).id,
    forgotten.id,
    'what is not kept is the same for the same request'
  )
})

t.test('in the background it goes on by itself, and its stream can be taken up again', async (t) => {
  const { json, send, url, stats } = await start(t)
  const body = request(
    { tokens: 10, queue_ms: 20, gap_ms: 250, cut: 'reset', after_events: 8 },
    { background: true, stream: true }
  )
  const client = await connect(t, url)
  client.send({ path, body, headers: { 'x-request-id': 'mine' } })
  const cut = await client.reply()
  t.equal(cut.complete, false)
  const seen = eventsOf(cut.body)
  t.same(
    seen.slice(0, 3).map(({ type, response }) => [type, response.status]),
    [
      ['response.created', 'queued'],
      ['response.queued', 'queued'],
      ['response.in_progress', 'in_progress']
    ]
  )
  const { id } = seen[0].response
  t.match(await json(`${path}/${id}`), { status: 'in_progress', output: [], usage: null })
  const resumed = eventsOf((await send(`${path}/${id}?stream=true&starting_after=7`)).body, 8)
  const done = await json(`${path}/${id}`)
  t.match(done, { status: 'completed', usage: { output_tokens: 10 }, background: true })
  t.same(resumed.at(-1), { type: 'response.completed', sequence_number: 7 + resumed.length, response: done })
  t.same(together([...seen, ...resumed]), done.output)
  const again = eventsOf((await send(`${path}/${id}?stream=true`)).body)
  t.same(again.slice(0, 8), seen, 'and replayed from its beginning')
  t.same(again.slice(8), resumed)
  t.same(
    stats.byRequest.get('mine'),
    { prompt: done.usage.input_tokens, cached: 0, completion: 10 },
    'counted once, though nobody heard it to its end'
  )
  t.equal(stats.counted.completion, 10)
})

t.test('who polls sees it queued, under way and over', async (t) => {
  const { json, stats } = await start(t)
  const begun = await json(path, request({ queue_ms: 1000, work_ms: 1500 }, { background: true }))
  t.match(begun, { status: 'queued', output: [], usage: null, completed_at: null })
  const seen = new Set<string>()
  await eventually(async () => {
    const { status } = await json(`${path}/${begun.id}`)
    seen.add(status)
    return status === 'completed'
  }, 20_000)
  t.ok(seen.has('in_progress'))
  t.match(await json(`${path}/${begun.id}`), { output: [{ status: 'completed' }], completed_at: Number })
  const failed = await json(path, request({ queue_ms: 0, work_ms: 1, fail: { message: 'No.' } }, { background: true }))
  await eventually(async () => (await json(`${path}/${failed.id}`)).status === 'failed')
  t.match(await json(`${path}/${failed.id}`), { error: { code: 'server_error', message: 'No.' }, usage: null })
  t.equal(stats.counted.completion, (await json(`${path}/${begun.id}`)).usage.output_tokens)
})

t.test('what is cancelled ends, for who follows it too, and is not counted', async (t) => {
  const { json, send, url, stats } = await start(t)
  const long = { text: 'x '.repeat(400), queue_ms: 0, gap_ms: 50 }
  const { id } = await json(path, request({ ...long, later: [{}, { status: 503 }] }, { background: true }))
  const cancel = (which: string): Promise<any> => json(`${path}/${which}/cancel`, undefined, { method: 'POST' })
  t.match(await cancel(id), { status: 'cancelled', output: [], usage: null })
  t.equal((await send(`${path}/${id}`)).status, 503, 'as its maker said about later')
  t.match(await cancel(id), { status: 'cancelled' }, 'once more is no mistake')

  const client = await connect(t, url)
  client.send({ path, body: request(long, { background: true, stream: true }) })
  await client.body('output_text.delta')
  const [followed] = /resp_[0-9a-f]+/.exec(Buffer.concat(client.reads.map(({ bytes }) => bytes)).toString())!
  await cancel(followed)
  const events = eventsOf((await client.reply()).body)
  t.match(events.at(-1), { type: 'response.incomplete', response: { id: followed, status: 'cancelled' } })
  t.ok(events.length < 100)

  const dropped = await connect(t, url)
  dropped.send({ path, body: request(long, { stream: true }) })
  await dropped.body('output_text.delta')
  const [left] = /resp_[0-9a-f]+/.exec(Buffer.concat(dropped.reads.map(({ bytes }) => bytes)).toString())!
  t.equal((await json(`${path}/${left}`)).status, 'in_progress')
  dropped.close()
  await eventually(async () => (await json(`${path}/${left}`)).status === 'cancelled')
  t.notOk(stats.counted.completion, 'who leaves calls off what is not in the background')

  const whole = await json(path, request({}))
  t.match((await send(`${path}/${whole.id}/cancel`, undefined, { method: 'POST' })).json(), {
    error: { message: /synchronous/ }
  })
  t.match((await send(`${path}/${whole.id}?stream=true`)).json(), { error: { message: /cannot be streamed/ } })
  const { id: short } = await json(path, request({ expire_ms: 10 }, { background: true }))
  await eventually(async () => (await send(`${path}/${short}`)).status === 404)
})

t.test('tokens are counted for free, and a conversation is made shorter', async (t) => {
  const { json, stats } = await start(t)
  const body = {
    model: 'm',
    instructions: 'Be brief.',
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'Hello' },
          { type: 'input_image', image_url: 'data:,' }
        ]
      }
    ],
    tools: [weather]
  }
  const { object, input_tokens: tokens } = await json(`${path}/input_tokens`, body)
  t.equal(object, 'response.input_tokens')
  t.equal(tokens, 3 + 4 + 3 + 4 + 1 + 85 + countTokens(JSON.stringify([weather])))
  t.same(stats.counted, {})
  t.equal((await json(path, body)).usage.input_tokens, tokens)

  const said = [
    { role: 'user', content: 'one' },
    { role: 'assistant', content: 'two' },
    { role: 'user', content: 'three' }
  ]
  const compacted = await json(`${path}/compact`, { model: 'm', input: said })
  t.match(compacted, {
    id: /^resp_/,
    object: 'response.compaction',
    output: [{ content: 'one' }, { content: 'three' }, { type: 'compaction', id: /^cmp_/, encrypted_content: /\S/ }],
    usage: { output_tokens: 20 }
  })
  const next = await json(path, { model: 'm', input: [...compacted.output, { role: 'user', content: 'four' }] })
  t.equal(next.usage.input_tokens, 3 + 3 * (4 + 1) + 20)
})

t.test('what OpenAI refuses is refused', async (t) => {
  const { send } = await start(t, { models: ['m'] })
  const plain = { model: 'm', input: 'Hi' }
  const say = (...input: unknown[]): object => ({ model: 'm', input })
  const call = (id: string): object => ({ type: 'function_call', call_id: id, name: 'f', arguments: '{}' })
  const result = (id: string): object => ({ type: 'function_call_output', call_id: id, output: 'x' })
  const cases: [body: object, param: string | null, code?: string | null, status?: number][] = [
    [{ input: 'x' }, null],
    [{ ...plain, model: 'x' }, 'model', 'model_not_found', 404],
    [{ model: 'm' }, 'input', 'missing_required_parameter'],
    [{ ...plain, messages: [] }, 'messages', 'unknown_parameter'],
    [{ ...plain, max_output_tokens: 15 }, 'max_output_tokens'],
    [{ ...plain, temperature: 3 }, 'temperature'],
    [{ ...plain, stream_options: {} }, 'stream_options', null],
    [{ ...plain, metadata: { a: 1 } }, 'metadata'],
    [{ ...plain, text: { format: { type: 'xml' } } }, 'text.format.type'],
    [
      { ...plain, text: { format: { type: 'json_schema', schema: {} } } },
      'text.format.name',
      'missing_required_parameter'
    ],
    [{ ...plain, tools: [{ type: 'function' }] }, 'tools[0].name', 'missing_required_parameter'],
    [
      { ...plain, tools: [{ type: 'function', function: { name: 'f' } }] },
      'tools[0].name',
      'missing_required_parameter'
    ],
    [{ ...plain, tool_choice: 'required' }, 'tool_choice', null],
    [{ ...plain, tools: [weather], tool_choice: { type: 'function', name: 'x' } }, 'tool_choice', null],
    [{ ...plain, reasoning: { effort: 'huge' } }, 'effort'],
    [{ ...plain, previous_response_id: 'resp_x' }, 'previous_response_id', 'previous_response_not_found'],
    [{ ...plain, previous_response_id: 'resp_x', conversation: 'c' }, null, 'mutually_exclusive_parameters'],
    [{ ...plain, conversation: 'c' }, null, null, 404],
    [say({ role: 'boss', content: 'x' }), 'input[0].role'],
    [say({ role: 'user' }), 'input[0].content', 'missing_required_parameter'],
    [say({ role: 'user', content: [{ type: 'text', text: 'x' }] }), 'input[0].content[0]'],
    [say({ role: 'assistant', content: [{ type: 'input_text', text: 'x' }] }), 'input[0].content[0]'],
    [say({ role: 'user', content: 'x' }, call('a')), 'input', null],
    [say(result('a')), 'input', null],
    [say({ type: 'function_call', name: 'f', arguments: '{}' }), 'input[0].call_id', 'missing_required_parameter'],
    [say({ id: 'msg_x' }), 'input', null, 404],
    [say({ type: 'reasoning', id: 'rs_x', summary: [] }), 'input', null, 404],
    [say({ type: 'reasoning', id: 'rs_x', summary: [], encrypted_content: 'eA==' }), null, 'invalid_encrypted_content'],
    [{ ...plain, input: tell({ x: 1 } as never) }, 'input', 'invalid_directive']
  ]
  for (const [body, param, code = 'invalid_value', status = 400] of cases) {
    const reply = await send(path, body)
    t.equal(reply.status, status, JSON.stringify(body))
    t.match(
      reply.json(),
      { error: { type: 'invalid_request_error', param, ...(param !== null && { code }) } },
      JSON.stringify(body)
    )
  }
  const sealed = (
    await send(path, request({ reasoning: 'Hm.' }, { store: false, include: ['reasoning.encrypted_content'] }))
  ).json().output
  t.equal(
    (
      await send(path, {
        model: 'm',
        input: [{ role: 'user', content: 'a' }, ...sealed, { role: 'user', content: 'b' }]
      })
    ).status,
    200,
    'its own output is input'
  )
  t.equal(
    (
      await send(path, {
        ...plain,
        tools: [{ type: 'web_search' }],
        tool_choice: { type: 'web_search' },
        client_metadata: {}
      })
    ).status,
    200
  )
})

t.test('a stream breaks off with an error that clients raise', async (t) => {
  const { send } = await start(t)
  const { body } = await send(path, request({ cut: 'error', after_events: 5 }, { stream: true }))
  t.match(eventsOf(body).at(-1), {
    type: 'error',
    sequence_number: 5,
    code: 'server_error',
    message: /\S/,
    param: null,
    error: { type: 'server_error', code: 'server_error' }
  })
  t.notMatch((await send(path, request({ done: false }, { stream: true }))).text, /response\.completed/)
  t.equal((await send(path, request({ usage: { input_tokens: -1 } }))).json().usage.input_tokens, -1)
  t.equal((await send(path, request({ status: 500 }))).status, 500)
})
