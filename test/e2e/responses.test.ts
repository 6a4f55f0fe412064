// Responses: the vendor's SDK against channels that speak them and against all others, and the other clients against a
// channel that speaks nothing else.
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import t from 'tap'
import type { Test } from 'tap'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'

const channels = {
  responses: { protocol: 'simulator', endpoints: ['responses'] },
  chat: { protocol: 'simulator', endpoints: ['chat'] },
  anthropic: { protocol: 'simulator', simulates: 'anthropic' },
  gemini: { protocol: 'simulator', simulates: 'gemini' }
}
const kinds = Object.keys(channels)
const text = 'Wörter: 漢字 und 😀.'

async function open(t: Test): Promise<{ local: LocalGateway; client: OpenAI }> {
  const local = await gateway(t, {
    channels: Object.fromEntries(
      Object.entries(channels).map(([kind, channel]) => [kind, { ...channel, models: { [`via-${kind}`]: 'demo' } }])
    ),
    models: Object.fromEntries(kinds.map((kind) => [`via-${kind}`, { price: { input: 1, output: 2 } }]))
  })
  return { local, client: new OpenAI({ baseURL: `${local.url}/v1`, apiKey: testKey, maxRetries: 0 }) }
}

const directive = (members: object): string => `Tell me. [[simulator ${JSON.stringify(members)}]]`
const lastRecord = async (local: LocalGateway): Promise<Record<string, any>> =>
  ((await local.admin('/admin/v1/requests?limit=1')) as { data: Record<string, any>[] }).data[0]!
const refusal = (call: Promise<unknown>): Promise<any> =>
  call.then(
    () => 'no error',
    (error: unknown) => error
  )

t.test('responses by way of every channel protocol, whole and streamed', async (t) => {
  const { local, client } = await open(t)
  for (const kind of kinds) {
    const model = `via-${kind}`
    const request = { model, instructions: 'Be brief.', input: directive({ text }), max_output_tokens: 100 }
    const whole = await client.responses.create(request)
    t.match(
      whole,
      { object: 'response', status: 'completed', model, output_text: text, error: null, incomplete_details: null },
      kind
    )
    const { input_tokens: input, output_tokens: output, total_tokens: total } = whole.usage!
    t.equal(total, input + output)
    t.match(
      await lastRecord(local),
      {
        endpoint: 'responses',
        client_protocol: 'openai-responses',
        channel: kind,
        usage: { input, output },
        usage_source: 'upstream',
        outcome: 'completed'
      },
      kind
    )
    const stream = client.responses.stream(request)
    const events: OpenAI.Responses.ResponseStreamEvent[] = []
    for await (const event of stream) events.push(event)
    t.match(events[0], { type: 'response.created', response: { status: 'in_progress', model } }, kind)
    t.match(
      events.at(-1),
      {
        type: 'response.completed',
        response: { status: 'completed', model, usage: { input_tokens: input, output_tokens: output } }
      },
      kind
    )
    t.strictSame(
      events.map(({ sequence_number }) => sequence_number),
      events.map((_, at) => at),
      `${kind}: events are numbered without gaps`
    )
    t.equal((await stream.finalResponse()).output_text, text, `${kind}, streamed`)
    t.match(
      await lastRecord(local),
      { streamed: true, usage: { input, output }, usage_source: 'upstream', outcome: 'completed' },
      kind
    )
  }
})

t.test('tools in two turns by way of every channel protocol', async (t) => {
  const { client } = await open(t)
  const tools: OpenAI.Responses.Tool[] = [
    {
      type: 'function',
      name: 'get_weather',
      strict: false,
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
    }
  ]
  for (const kind of kinds) {
    const model = `via-${kind}`
    const input: OpenAI.Responses.ResponseInput = [
      { role: 'user', content: directive({ call: ['get_weather', 'get_weather'], arguments: { city: 'Zürich' } }) }
    ]
    const first = await client.responses
      .stream({ model, input, tools, store: false, max_output_tokens: 200 })
      .finalResponse()
    const calls = first.output.filter((item) => item.type === 'function_call')
    t.match(
      calls,
      [
        { name: 'get_weather', arguments: /Zürich/ },
        { name: 'get_weather', arguments: /Zürich/ }
      ],
      kind
    )
    const turn = [
      ...input,
      ...first.output,
      ...calls.map(({ call_id }) => ({ type: 'function_call_output' as const, call_id, output: 'Sunny.' })),
      { role: 'user' as const, content: 'Thanks.' }
    ]
    const second = await client.responses.create({
      model,
      input: turn as OpenAI.Responses.ResponseInput,
      tools,
      store: false,
      max_output_tokens: 200
    })
    t.match(second, { status: 'completed', output_text: /./ }, kind)
  }
})

t.test('an answer that is cut short is incomplete, and one that breaks is an error', async (t) => {
  const { local, client } = await open(t)
  for (const kind of kinds) {
    const model = `via-${kind}`
    const short = await client.responses
      .stream({ model, input: directive({ tokens: 60 }), max_output_tokens: 20 })
      .finalResponse()
    t.match(
      short,
      { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' }, usage: { output_tokens: 20 } },
      kind
    )
    const cut = await refusal(
      client.responses
        .stream({ model, input: directive({ tokens: 50, cut: 'reset', after_events: 9 }) })
        .finalResponse()
    )
    t.match(cut, { code: 'upstream_stream_interrupted', type: 'upstream_error' }, kind)
    t.match(await lastRecord(local), { outcome: 'failed', error_code: 'upstream_stream_interrupted' }, kind)
    t.match(
      await refusal(
        client.responses.create({
          model,
          input: directive({ status: 400, body: { error: { message: 'No.', type: 'invalid_request_error' } } })
        })
      ),
      { status: 400, error: { message: 'No.' } },
      kind
    )
  }
  t.match(await refusal(client.responses.create({ model: 'none', input: 'Hi' })), {
    status: 404,
    code: 'model_not_found'
  })
})

t.test('what is kept where no channel keeps anything is refused, without asking anybody', async (t) => {
  const { local, client } = await open(t)
  for (const kind of kinds.slice(1)) {
    const refused = await refusal(
      client.responses.create({ model: `via-${kind}`, input: 'Hi', previous_response_id: 'resp_1' })
    )
    t.match(refused, { status: 400, code: 'protocol_mismatch', param: 'previous_response_id' }, kind)
    t.match(await lastRecord(local), { attempts: [], cost_nano: '0' })
    t.match(
      await refusal(client.responses.create({ model: `via-${kind}`, input: 'Hi', background: true })),
      { status: 400, code: 'unsupported_parameter', param: 'background' },
      kind
    )
  }
})

t.test('clients of every protocol by way of a channel that speaks responses alone', async (t) => {
  const { local, client } = await open(t)
  const model = 'via-responses'
  const messages = [{ role: 'user' as const, content: directive({ text }) }]
  const whole = await client.chat.completions.create({ model, messages })
  t.match(whole, { object: 'chat.completion', model, choices: [{ finish_reason: 'stop', message: { content: text } }] })
  const final = await client.chat.completions
    .stream({ model, messages, stream_options: { include_usage: true } })
    .finalChatCompletion()
  t.match(final, {
    choices: [{ message: { content: text } }],
    usage: { prompt_tokens: whole.usage!.prompt_tokens, completion_tokens: whole.usage!.completion_tokens }
  })
  t.match(await lastRecord(local), {
    endpoint: 'chat',
    channel: 'responses',
    usage: { input: whole.usage!.prompt_tokens, output: whole.usage!.completion_tokens },
    usage_source: 'upstream'
  })
  const anthropic = new Anthropic({ baseURL: local.url, apiKey: testKey, maxRetries: 0 })
  t.match(await anthropic.messages.create({ model, max_tokens: 100, messages }), {
    model,
    stop_reason: 'end_turn',
    content: [{ type: 'text', text }]
  })
  t.match(await anthropic.messages.stream({ model, max_tokens: 100, messages }).finalMessage(), {
    stop_reason: 'end_turn',
    content: [{ type: 'text', text }]
  })
  const google = new GoogleGenAI({ apiKey: testKey, httpOptions: { baseUrl: local.url } })
  t.equal((await google.models.generateContent({ model, contents: messages[0]!.content })).text, text)
  let streamed = ''
  for await (const chunk of await google.models.generateContentStream({ model, contents: messages[0]!.content }))
    streamed += chunk.text ?? ''
  t.equal(streamed, text)
})

t.test('a stored response is read, listed, gone on with and deleted', async (t) => {
  const { local, client } = await open(t)
  const model = 'via-responses'
  const first = await client.responses.create({ model, input: directive({ text: 'Noted.' }) })
  t.equal((await client.responses.retrieve(first.id)).output_text, 'Noted.')
  t.match(await lastRecord(local), {
    endpoint: 'responses.retrieve',
    cost_nano: '0',
    usage: null,
    outcome: 'completed'
  })
  const items = await client.responses.inputItems.list(first.id, { order: 'asc', limit: 5 })
  t.match(items.data, [{ role: 'user' }])
  const second = await client.responses
    .stream({ model, input: 'And then?', previous_response_id: first.id })
    .finalResponse()
  t.match(second, { status: 'completed', previous_response_id: first.id })
  t.match((await client.responses.retrieve(second.id)).status, 'completed', 'a streamed one, too')
  const referred = await client.responses.create({
    model,
    input: [
      { type: 'item_reference', id: first.output[0]!.id! },
      { role: 'user', content: 'What was that?' }
    ]
  })
  t.equal(referred.status, 'completed')
  t.match(await client.responses.inputTokens.count({ model, input: 'How many?' }), {
    object: 'response.input_tokens',
    input_tokens: /\d/
  })
  const compacted = await client.responses.compact({
    model: model as 'gpt-5',
    input: [{ role: 'user', content: 'A long story.' }]
  })
  t.match(compacted, { object: 'response.compaction' })
  t.match(await lastRecord(local), {
    endpoint: 'responses.compact',
    usage: { output: compacted.usage.output_tokens },
    usage_source: 'upstream'
  })

  await client.responses.delete(first.id)
  for (const call of [
    client.responses.retrieve(first.id),
    client.responses.cancel(first.id),
    client.responses.delete(first.id),
    client.responses.create({ model, input: 'x', previous_response_id: first.id })
  ]) {
    t.match(await refusal(call), { status: 404, code: 'response_not_found', error: { message: 'Response not found' } })
  }
  t.match(
    await refusal(client.responses.cancel(second.id)),
    { status: 400 },
    'the upstream says what cannot be called off'
  )
  for (const kind of kinds.slice(1)) {
    const translated = await client.responses.create({ model: `via-${kind}`, input: 'Hi' })
    t.match(translated, { store: false })
    t.match(await refusal(client.responses.retrieve(translated.id)), { status: 404, code: 'response_not_found' }, kind)
  }
})

t.test('a response in the background is polled, taken up again and called off', async (t) => {
  const { client } = await open(t)
  const model = 'via-responses'
  const begun = await client.responses.create({
    model,
    input: directive({ text: 'Done.', queue_ms: 20, work_ms: 30 }),
    background: true
  })
  t.match(begun.status, /queued|in_progress/)
  let polled = begun
  while (polled.status === 'queued' || polled.status === 'in_progress')
    polled = await client.responses.retrieve(begun.id)
  t.equal(polled.output_text, 'Done.')
  const stream = await client.responses.create({
    model,
    input: directive({ text: 'one two three', queue_ms: 5, work_ms: 20 }),
    background: true,
    stream: true
  })
  let id = ''
  let seen = -1
  for await (const event of stream) {
    if (event.type === 'response.created') id = event.response.id
    seen = event.sequence_number
    if (event.type === 'response.output_text.delta') break
  }
  const rest = await client.responses.retrieve(id, { stream: true, starting_after: seen })
  const events: OpenAI.Responses.ResponseStreamEvent[] = []
  for await (const event of rest) events.push(event)
  t.equal(events[0]!.sequence_number, seen + 1)
  t.match(events.at(-1), { type: 'response.completed', response: { id, status: 'completed' } })
  const long = await client.responses.create({
    model,
    input: directive({ text: 'x', queue_ms: 60_000 }),
    background: true
  })
  t.equal((await client.responses.cancel(long.id)).status, 'cancelled')
  t.equal((await client.responses.retrieve(long.id)).status, 'cancelled')
})
