// Tools that upstreams run by themselves: a fee for each call, held before and counted in the answer, or refused.
import t from 'tap'
import type { Test } from 'tap'
import { Upstream } from '../kit/upstream.ts'
import { channelTo, chatAnswer, Workbench } from '../kit/workbench.ts'
import type { Answer } from '../kit/workbench.ts'

const context = 1000
const tokens = { input: 1, output: 2 }
const fees = { tool_call: 0.05, web_search: 0.01, code_interpreter: 0.03 }

async function open(
  t: Test,
  channel: Record<string, unknown>,
  { price = { ...tokens, ...fees }, usd }: { price?: unknown; usd?: number } = {}
): Promise<{ bench: Workbench; upstream: Upstream }> {
  const upstream = await Upstream.start(t)
  const bench = await Workbench.open(t, {
    channels: { a: channelTo(upstream, channel) },
    models: { demo: { price, context_window: context, max_output_tokens: 100 } },
    tenants: { acme: usd === undefined ? {} : { budget: { usd, per: 'total' } } }
  })
  return { bench, upstream }
}

const responses = '/v1/responses'
function sendTo({ bench, upstream }: { bench: Workbench; upstream: Upstream }, body: object): Promise<Answer> {
  upstream.json(response())
  return bench.send({ target: responses, body })
}
const item = (type: string): object => ({ type, id: `x_${type}`, status: 'completed' })
const calls = ['web_search_call', 'web_search_call', 'code_interpreter_call', 'image_generation_call', 'function_call']
const usage = { input_tokens: 10, output_tokens: 5, total_tokens: 15 }
function response(text = 'Hello'): object {
  const message = { type: 'message', id: 'm', role: 'assistant', content: [{ type: 'output_text', text }] }
  const output = [...calls.map(item), message]
  return { id: 'resp_1', object: 'response', status: 'completed', model: 'demo', output, usage, store: false }
}
const offered = {
  input: 'Hi',
  store: false,
  tools: [
    { type: 'web_search' },
    { type: 'code_interpreter' },
    { type: 'image_generation' },
    { type: 'function', name: 'a' }
  ]
}
const counted = { web_search: 2, code_interpreter: 1, tool_call: 1, input: 10, output: 5 }
const dues = 10n * 1000n + 5n * 2000n + 2n * 10_000_000n + 30_000_000n + 50_000_000n

function checkCharge(t: Test, bench: Workbench, expected: object, due: bigint, message: string): void {
  const { request, settled } = bench.ledger.rows.at(-1)!
  t.match(settled, { amount: due, usage: expected, source: 'upstream' }, message)
  t.ok(request.amount >= due, `${message}: held is what can be charged`)
}

t.test('calls are items of a response, whole, streamed and large', async (t) => {
  const { bench, upstream } = await open(t, { endpoints: ['responses'] })
  upstream.json(response())
  t.equal((await bench.send({ target: responses, body: offered })).status, 200)
  checkCharge(t, bench, counted, dues, 'whole')
  upstream.json(response('x'.repeat(400_000)))
  t.equal((await bench.send({ target: responses, body: offered })).status, 200)
  checkCharge(t, bench, counted, dues, 'large')
  const event = (type: string, more: object): string => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`
  const created = { ...response(), status: 'in_progress', output: [], usage: null }
  upstream.sse(
    [
      event('response.created', { response: created }),
      ...calls.flatMap((type, output_index) => [
        event('response.output_item.added', { output_index, item: item(type) }),
        event('response.output_item.done', { output_index, item: item(type) })
      ]),
      event('response.completed', { response: response() })
    ],
    { done: false }
  )
  t.equal((await bench.send({ target: responses, body: { ...offered, stream: true } })).status, 200)
  checkCharge(t, bench, counted, dues, 'streamed')
})

t.test('a tool whose calls have no price is refused, unless all is free', async (t) => {
  const { bench, upstream } = await open(t, { endpoints: ['responses'] }, { price: tokens })
  for (const type of ['web_search_preview', 'file_search', 'code_interpreter', 'image_generation', 'new_tool']) {
    const { status, body } = await bench.send({ target: responses, body: { ...offered, tools: [{ type }] } })
    t.equal(status, 503, type)
    t.match(JSON.parse(body), { error: { code: 'price_missing' } })
  }
  upstream.json(response())
  const own = [
    { type: 'function', name: 'web_search', parameters: { type: 'object', properties: { type: 'web_search' } } }
  ]
  t.equal((await bench.send({ target: responses, body: { ...offered, tools: own } })).status, 200, 'a function is none')
  const free = await open(t, { endpoints: ['responses'] }, { price: 'free' })
  free.upstream.json(response())
  t.equal((await free.bench.send({ target: responses, body: offered })).status, 200)
})

t.test('a limit of calls that is none is refused', async (t) => {
  for (const budget of [{}, { usd: 10 }]) {
    const { bench } = await open(t, { endpoints: ['responses'] }, budget)
    for (const max_tool_calls of [1.5, -1, 1e300, '5', true]) {
      const { status, body } = await bench.send({ target: responses, body: { ...offered, max_tool_calls } })
      t.equal(status, 400, `${max_tool_calls}: ${body}`)
      t.match(JSON.parse(body), { error: { code: 'invalid_field', param: 'max_tool_calls' } })
    }
  }
})

t.test('under a budget an upstream is told how many calls are held, where it can be told', async (t) => {
  const { bench, upstream } = await open(t, { endpoints: ['responses'] }, { usd: 10 })
  const sent = async (body: object): Promise<any> => {
    upstream.json(response())
    const answer = await bench.send({ target: responses, body })
    t.equal(answer.status, 200, answer.body)
    return upstream.requests.at(-1)!.json()
  }
  t.equal((await sent(offered)).max_tool_calls, 16)
  const { amount } = bench.ledger.rows.at(-1)!.request
  t.ok(amount >= 16n * 50_000_000n + 17n * BigInt(context) * 1000n, 'each with the context that is read again')
  t.equal((await sent({ ...offered, max_tool_calls: 2 })).max_tool_calls, 2)
  t.ok(bench.ledger.rows.at(-1)!.request.amount < amount)
  t.equal((await sent({ ...offered, tools: [] })).max_tool_calls, undefined)

  const messages = await open(t, { protocol: 'anthropic' }, { usd: 10 })
  const server = { server_tool_use: { web_search_requests: 3 } }
  messages.upstream.json({
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'demo',
    stop_reason: 'end_turn',
    container: { id: 'c' },
    content: [{ type: 'text', text: 'Hi' }],
    usage: { input_tokens: 10, output_tokens: 5, ...server }
  })
  const tools = [
    { type: 'web_search_20250305', name: 'web_search' },
    { type: 'web_search_20250305', name: 'other', max_uses: 2 },
    { type: 'code_execution_20250825', name: 'code_execution' },
    { name: 'mine', input_schema: { type: 'object' } }
  ]
  const body = { max_tokens: 10, messages: [{ role: 'user', content: 'Hi' }], tools }
  const answer = await messages.bench.send({ target: '/v1/messages', body })
  t.equal(answer.status, 200, answer.body)
  const told = (messages.upstream.requests[0]!.json() as { tools: { max_uses?: number }[] }).tools
  t.same(
    told.map(({ max_uses }) => max_uses),
    [16, 2, 16, undefined]
  )
  checkCharge(t, messages.bench, { web_search: 3, code_interpreter: 1 }, 10_000n + 10_000n + 60_000_000n, 'messages')
})

t.test("searches of chat and of Gemini are charged by the answer's own count", async (t) => {
  const chat = await open(t, {})
  chat.upstream.json(chatAnswer(10, 5))
  t.equal((await chat.bench.send({ body: { max_tokens: 10, web_search_options: {} } })).status, 200)
  checkCharge(t, chat.bench, { web_search: 1 }, 20_000n + 10_000_000n, 'chat')

  const gemini = await open(t, { protocol: 'gemini' })
  const answered = {
    candidates: [
      {
        content: { role: 'model', parts: [{ text: 'Hi' }] },
        finishReason: 'STOP',
        groundingMetadata: { webSearchQueries: ['one', 'two'] }
      }
    ],
    usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 }
  }
  const ask = (tools: object[]): Promise<Answer> => {
    gemini.upstream.json(answered)
    const contents = [{ role: 'user', parts: [{ text: 'Hi' }] }]
    const body = JSON.stringify({ contents, tools, generationConfig: { maxOutputTokens: 10 } })
    return gemini.bench.send({ target: '/v1beta/models/demo:generateContent', body })
  }
  for (const tools of [[{ googleSearch: {} }], [{ functionDeclarations: [] }, { google_search: {} }]]) {
    t.equal((await ask(tools)).status, 200)
    checkCharge(t, gemini.bench, { web_search: 2 }, 20_000n + 20_000_000n, JSON.stringify(tools))
  }
})

t.test('tools that an upstream runs are found in a list of any length, priced and limited', async (t) => {
  // Strings that look like the end of a string, a tool and the list.
  const odd = '\\"}],"type":"web_search"\\'.repeat(20_000)
  const own = (name: string): object => ({
    type: 'function',
    name,
    description: odd,
    parameters: { type: 'object', properties: { max_uses: { type: 'web_search_20250305' } } }
  })
  const many = [own('one'), own('two'), { ...own('three'), description: '"'.repeat(700_000) }]
  const tools = [...many, { type: 'web_search' }, own('four')]
  t.ok(JSON.stringify(tools).length > 2 * 1024 * 1024)
  const unpriced = await open(t, { endpoints: ['responses'] }, { price: tokens })
  const refused = await unpriced.bench.send({ target: responses, body: { ...offered, tools } })
  t.match(
    [refused.status, JSON.parse(refused.body)],
    [503, { error: { code: 'price_missing', message: /web_search/ } }]
  )
  t.equal((await sendTo(unpriced, { ...offered, tools: many })).status, 200, 'none is there')
  const priced = await open(t, { endpoints: ['responses'] }, { usd: 100 })
  t.equal((await sendTo(priced, { ...offered, tools })).status, 200)
  t.equal((priced.upstream.requests[0]!.json() as any).max_tool_calls, 16)

  const gemini = await open(t, { protocol: 'gemini' }, { price: tokens })
  const functionDeclarations = many.map(({ name }: any) => ({ name, description: odd }))
  const target = '/v1beta/models/demo:generateContent'
  for (const found of [
    [{ functionDeclarations }, { googleSearch: {} }],
    [{ functionDeclarations, google_search: {} }]
  ]) {
    const body = JSON.stringify({ contents: [{ role: 'user', parts: [{ text: 'Hi' }] }], tools: found })
    const { status } = await gemini.bench.send({ target, body })
    t.equal(status, 503)
  }

  const messages = await open(t, { protocol: 'anthropic' }, { usd: 100 })
  messages.upstream.json({
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'demo',
    stop_reason: 'end_turn',
    content: [{ type: 'text', text: 'Hi' }],
    usage: { input_tokens: 10, output_tokens: 5 }
  })
  const custom = many.map((tool) => ({ ...tool, type: 'custom' }))
  const search = { type: 'web_search_20250305', name: 'web_search' }
  const given = [search, ...custom, { ...search, max_uses: null }, { max_uses: 3, ...search }, { ...search, x: [{}] }]
  const body = { max_tokens: 10, messages: [{ role: 'user', content: 'Hi' }], tools: given }
  t.equal((await messages.bench.send({ target: '/v1/messages', body })).status, 200)
  const limited = given.map((tool: any) => (tool.type === 'custom' ? tool : { ...tool, max_uses: tool.max_uses ?? 16 }))
  t.same((messages.upstream.requests[0]!.json() as any).tools, limited)
  const { request } = messages.bench.ledger.rows[0]!
  t.ok(request.amount >= (3n * 16n + 3n) * 50_000_000n, 'all of them are held')
})
