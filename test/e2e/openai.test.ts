// The openai SDK as a user has it, against the real gateway with a simulator behind it.
import OpenAI from 'openai'
import t from 'tap'
import type { Test } from 'tap'
import { ask } from '../kit/client.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway, Overrides } from '../kit/gateway.ts'
import { eventually, settled } from '../kit/probe.ts'

/** A gateway with its simulator, and a client of it that counts its own requests. */
interface Bench {
  local: LocalGateway
  client: OpenAI
  /** Requests that the SDK has sent, retries included. */
  sent(): number
  /** Answers of status 200 among them. */
  begun(): number
  /** What the simulator has seen. */
  upstream(): Promise<Record<string, any>>
}

async function bench(
  t: Test,
  overrides: Overrides = {},
  options: ConstructorParameters<typeof OpenAI>[0] = {}
): Promise<Bench> {
  const local = await gateway(t, overrides)
  let count = 0
  let begun = 0
  const client = new OpenAI({
    baseURL: `${local.url}/v1`,
    apiKey: testKey,
    fetch: async (input, init) => {
      count++
      const answer = await fetch(input, init)
      if (answer.status === 200) begun++
      return answer
    },
    ...options
  })
  const simulator = local.gateway.config.channels.get('demo')!.baseUrl
  return {
    local,
    client,
    sent: () => count,
    begun: () => begun,
    upstream: async () => (await ask(t, simulator, { path: '/__simulator/stats' })).json()
  }
}

const tell = (directive: object): OpenAI.ChatCompletionMessageParam[] => [
  { role: 'user', content: `Tell me. [[simulator ${JSON.stringify(directive)}]]` }
]
const model = 'demo'
const weather: OpenAI.ChatCompletionTool = {
  type: 'function',
  function: {
    name: 'get_weather',
    strict: true,
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
      additionalProperties: false
    }
  }
}

t.test('a completion, its request id and its record agree', async (t) => {
  const { local, client } = await bench(t)
  const completion = await client.chat.completions.create({
    model,
    messages: [{ role: 'user', content: 'Who are you?' }]
  })
  t.match(completion.choices[0], { finish_reason: 'stop', message: { role: 'assistant', content: /simulator/ } })
  const { prompt_tokens: input, completion_tokens: output, total_tokens: total } = completion.usage!
  t.equal(total, input + output)
  t.ok(completion._request_id)
  const record = await local.record({ headers: { 'x-request-id': completion._request_id! } })
  t.match(record, {
    status: 200,
    tenant: 'acme',
    key: 'test',
    model,
    usage_source: 'upstream',
    usage: { input, output }
  })
  t.equal(record.cost_nano, String(input * 1000 + output * 2000))
})

t.test('a stream is iterated, with usage only for who asks', async (t) => {
  const { client } = await bench(t)
  const messages = tell({ text: 'Wörter: 漢字 und 😀.' })
  const plain: OpenAI.ChatCompletionChunk[] = []
  for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) plain.push(chunk)
  t.equal(plain.map((chunk) => chunk.choices[0]!.delta.content ?? '').join(''), 'Wörter: 漢字 und 😀.')
  t.ok(plain.every((chunk) => chunk.choices.length === 1))
  t.notOk(
    plain.some((chunk) => 'usage' in chunk),
    'not even null'
  )

  const chunks: OpenAI.ChatCompletionChunk[] = []
  for await (const chunk of await client.chat.completions.create({
    model,
    messages,
    stream: true,
    stream_options: { include_usage: true }
  }))
    chunks.push(chunk)
  const last = chunks.pop()!
  t.match(last, { choices: [], usage: { completion_tokens: 9 } })
  t.ok(chunks.every((chunk) => chunk.id === last.id && chunk.usage === null))
})

t.test('the stream helper puts text and tool calls together', async (t) => {
  const { client } = await bench(t)
  const text = await client.chat.completions
    .stream({ model, messages: tell({ tokens: 30 }), n: 2 })
    .finalChatCompletion()
  t.equal(text.choices.length, 2)
  t.match(text.choices[1], {
    finish_reason: 'stop',
    message: { role: 'assistant', content: /^This is the Sluice simulator/ }
  })

  const helper = client.chat.completions.stream({
    model,
    messages: tell({ call: ['get_weather', 'get_weather'], arguments: { city: 'Zürich' } }),
    tools: [weather]
  })
  const deltas: string[] = []
  helper.on(
    'tool_calls.function.arguments.delta',
    ({ arguments_delta: delta, index }) => void (index === 1 && deltas.push(delta))
  )
  const called = await helper.finalChatCompletion()
  t.equal(called.choices[0]!.finish_reason, 'tool_calls')
  t.same(
    called.choices[0]!.message.tool_calls?.map((call) => 'function' in call && call.function),
    [
      { name: 'get_weather', arguments: '{"city":"Zürich"}', parsed_arguments: { city: 'Zürich' } },
      { name: 'get_weather', arguments: '{"city":"Zürich"}', parsed_arguments: { city: 'Zürich' } }
    ]
  )
  t.equal(deltas.join(''), '{"city":"Zürich"}')
})

t.test('an agent loop calls its tool and gets its answer', async (t) => {
  const { client } = await bench(t)
  const asked: unknown[] = []
  const runner = client.chat.completions.runTools({
    model,
    messages: tell({ call: 'get_weather', arguments: { city: 'Oslo' } }),
    tools: [
      {
        type: 'function',
        function: {
          ...weather.function,
          parse: JSON.parse,
          function: (given: unknown) => (asked.push(given), 'snow')
        } as never
      }
    ]
  })
  t.match(await runner.finalContent(), /The tool answered "snow"/)
  t.same(asked, [{ city: 'Oslo' }])
})

t.test('whoever stops reading stops the upstream, and gives the slot back', async (t) => {
  const { local, client, upstream } = await bench(t, {
    limits: { on_disconnect: 'abort' },
    keys: [{ name: 'test', key: testKey, tenant: 'acme', limits: { concurrency: 1 } }]
  })
  const stream = await client.chat.completions.create({
    model,
    messages: tell({ tokens: 10_000, gap_ms: 5 }),
    stream: true
  })
  let id = ''
  let seen = 0
  for await (const chunk of stream) {
    id = chunk.id
    if (++seen === 5) break
  }
  t.ok(id)
  t.ok(stream.controller.signal.aborted)
  await eventually(async () => (await upstream())['aborted'] === 1)
  t.equal((await upstream())['active'], 0)
  const again = await client.chat.completions.create({ model, messages: tell({ tokens: 3 }) }, { maxRetries: 0 })
  t.equal(again.usage!.completion_tokens, 3)
  const { data } = await local.admin('/admin/v1/requests?limit=10')
  t.match(
    data.map((record: any) => [record.outcome, record.usage_source]),
    [
      ['completed', 'upstream'],
      ['aborted', 'partial']
    ]
  )
  t.ok(BigInt(data[1].cost_nano) > 0n, 'what was delivered is paid for')
  await settled(t, local)
})

t.test('refusals arrive as the classes the SDK has for them', async (t) => {
  const { local, client, sent } = await bench(t, {
    keys: [
      { name: 'test', key: testKey, tenant: 'acme' },
      {
        name: 'poor',
        key: 'sk-test-poor-0000000000000000000',
        tenant: 'acme',
        budget: { usd: '0.000000001', per: 'day' }
      }
    ]
  })
  const refusal = async (asking: Promise<unknown>): Promise<InstanceType<typeof OpenAI.APIError>> => {
    const error: unknown = await asking.then(
      () => undefined,
      (reason: unknown) => reason
    )
    t.ok(error instanceof OpenAI.APIError)
    return error as InstanceType<typeof OpenAI.APIError>
  }
  const messages = tell({})

  const stranger = await refusal(
    client.withOptions({ apiKey: 'sk-test-nobody' }).chat.completions.create({ model, messages })
  )
  t.ok(stranger instanceof OpenAI.AuthenticationError)
  t.match(stranger, { status: 401, code: 'invalid_api_key', type: 'authentication_error' })
  t.ok(stranger.requestID)

  const unknown = await refusal(client.chat.completions.create({ model: 'nothing', messages }))
  t.ok(unknown instanceof OpenAI.NotFoundError)
  t.match(unknown, { code: 'model_not_found' })

  const invalid = await refusal(client.chat.completions.create({ model, messages, n: 0 }))
  t.ok(invalid instanceof OpenAI.BadRequestError)
  t.equal(invalid.param, 'n')

  const before = sent()
  const poor = await refusal(
    client
      .withOptions({ apiKey: 'sk-test-poor-0000000000000000000' })
      .chat.completions.create({ model, messages, stream: true })
  )
  t.ok(poor instanceof OpenAI.RateLimitError)
  t.match(poor, { status: 429, code: 'quota_key_exceeded', type: 'quota_error' })
  t.equal(poor.headers!.get('x-should-retry'), 'false')
  t.equal(sent(), before + 1, 'a used-up budget is not asked again')
  t.same(
    (await local.admin('/admin/v1/requests?key=poor&limit=10')).data.map((record: any) => record.cost_nano),
    ['0']
  )
})

t.test('a rate limit is waited out as long as the gateway says', async (t) => {
  const { client, sent } = await bench(t, {
    keys: [{ name: 'test', key: testKey, tenant: 'acme', limits: { rps: 2 } }]
  })
  const ask = (): Promise<unknown> => client.chat.completions.create({ model, messages: tell({ tokens: 2 }) })
  const began = performance.now()
  let answers = 0
  // Of three at once one is refused, unless the machine is so busy that they are not at once.
  do {
    await Promise.all([ask(), ask(), ask()])
    answers += 3
  } while (sent() === answers)
  t.ok(performance.now() - began > (answers - 2) * 500 - 50, 'what was refused came when there was room')
  const hasty = client.withOptions({ maxRetries: 0 })
  let limited: unknown
  await eventually(async () => {
    const asked = [1, 2, 3].map(() => hasty.chat.completions.create({ model, messages: tell({}) }))
    const refused = (await Promise.allSettled(asked)).find(({ status }) => status === 'rejected')
    limited = (refused as PromiseRejectedResult | undefined)?.reason
    return limited !== undefined
  })
  t.ok(limited instanceof OpenAI.RateLimitError)
  t.match(limited, { code: 'rate_limit_rps', type: 'rate_limit_error' })
})

t.test('an upstream that fails is tried again by the SDK, a request it refuses is not', async (t) => {
  const { client, sent } = await bench(t)
  for (const [directive, status, requests] of [
    [{ status: 500 }, 502, 3],
    [{ cut: 'reset' }, 502, 3],
    [{ status: 400, body: { error: { message: 'too long', code: 'context_length_exceeded' } } }, 400, 1]
  ] as const) {
    const before = sent()
    const error = await client.chat.completions.create({ model, messages: tell(directive) }, { maxRetries: 2 }).then(
      () => undefined,
      (reason: unknown) => reason
    )
    t.ok(error instanceof OpenAI.APIError)
    t.match(error, { status })
    t.equal(sent() - before, requests, JSON.stringify(directive))
  }
})

t.test('an answer that breaks off is an error and never an end', async (t) => {
  const { client, begun } = await bench(t)
  for (const cut of ['reset', 'fin', 'end', 'error'] as const) {
    const before = begun()
    const stream = await client.chat.completions.create({
      model,
      messages: tell({ cut, after_events: 5, gap_ms: 1 }),
      stream: true
    })
    const finishes: unknown[] = []
    const read = async (): Promise<void> => {
      for await (const chunk of stream) finishes.push(chunk.choices[0]?.finish_reason)
    }
    const error = await read().then(
      () => undefined,
      (reason: unknown) => reason
    )
    t.ok(error instanceof OpenAI.APIError, cut)
    t.match(error, { code: /\S/, type: /\S/, message: /\S/ })
    t.ok(finishes.length > 0 && finishes.every((finish) => finish === null), 'there was output, and no finish reason')
    // An upstream that breaks off before the gateway has shown anything is a 502, which the SDK tries again.
    t.equal(begun(), before + 1, 'an answer that began is not asked for again')
  }
})

t.test('models are listed and looked up, also with a slash in their name', async (t) => {
  const name = 'org/name:1'
  const { client } = await bench(t, {
    channels: { demo: { models: { [name]: 'demo' } } },
    models: { [name]: { price: 'free', owned_by: 'org' } }
  })
  const listed: string[] = []
  for await (const { id } of client.models.list()) listed.push(id)
  t.same(listed.sort(), [model, name])
  t.match(await client.models.retrieve(name), { id: name, object: 'model', owned_by: 'org' })
  await t.rejects(client.models.retrieve('nothing'), { status: 404, code: 'model_not_found' })
  const completion = await client.chat.completions.create({ model: name, messages: tell({ tokens: 1 }) })
  t.equal(completion.model, name)
})
