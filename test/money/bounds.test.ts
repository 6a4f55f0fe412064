// What is held is what can be charged: whatever an honest upstream may answer to a request costs no more than its hold.
import t from 'tap'
import type { Test } from 'tap'
import { channelTo, chatAnswer, Workbench } from '../kit/workbench.ts'
import type { Answer, Sections } from '../kit/workbench.ts'
import { Upstream } from '../kit/upstream.ts'

/** A million tokens cost 1 dollar in and 2 out: 1,000 and 2,000 nano-dollars a token. */
const nano = { input: 1000n, output: 2000n }

async function open(
  t: Test,
  sections: Sections = {},
  channel: object = {}
): Promise<{ bench: Workbench; upstream: Upstream }> {
  const upstream = await Upstream.start(t)
  return {
    upstream,
    bench: await Workbench.open(t, { channels: { a: channelTo(upstream, { ...channel }) }, ...sections })
  }
}

function code({ body }: Answer): string | undefined {
  return (JSON.parse(body) as { error?: { code: string } }).error?.code
}

t.test('every prompt of a list has its answers, and what is made to choose from is held too', async (t) => {
  const { bench, upstream } = await open(t, {}, { endpoints: ['completions'] })
  const held = async (body: object): Promise<bigint> => {
    upstream.json({
      object: 'text_completion',
      choices: [{ text: 'x', index: 0, finish_reason: 'stop' }],
      usage: chatUsage(1, 1)
    })
    const answer = await bench.send({ target: '/v1/completions', body: { max_tokens: 10, ...body } })
    t.equal(answer.status, 200, answer.body)
    const { amount } = bench.ledger.rows.at(-1)!.request
    return (amount - BigInt(answer.exchange.body.bytes.length) * nano.input) / (10n * nano.output)
  }
  t.equal(await held({ prompt: 'one' }), 1n)
  t.equal(await held({ prompt: ['one', 'two', '[3, "4"]'] }), 3n)
  t.equal(await held({ prompt: Array.from({ length: 250 }, () => 'x') }), 250n)
  t.equal(await held({ prompt: [1, 2, 3] }), 1n, 'tokens are one prompt')
  t.equal(await held({ prompt: [[1, 2], [3]], n: 2 }), 4n)
  t.equal(await held({ prompt: 'one', best_of: 5 }), 5n)
  t.equal(await held({ prompt: ['one', 'two'], n: 2, best_of: 5 }), 10n)
  t.equal(await held({ prompt: [] }), 1n)
})

t.test('numbers that upstreams read in quotes are limits like any other', async (t) => {
  const { bench, upstream } = await open(t, {}, { protocol: 'gemini' })
  const held = async (settings: object): Promise<bigint> => {
    upstream.json(geminiAnswer)
    const body = { contents: [{ role: 'user', parts: [{ text: 'Hi' }] }], generationConfig: settings }
    const answer = await bench.send({ target: '/v1beta/models/demo:generateContent', body: JSON.stringify(body) })
    t.equal(answer.status, 200, answer.body)
    return (
      (bench.ledger.rows.at(-1)!.request.amount - BigInt(answer.exchange.body.bytes.length) * nano.input) / nano.output
    )
  }
  t.equal(await held({ maxOutputTokens: '5000' }), 5000n)
  t.equal(await held({ maxOutputTokens: '10', candidateCount: 1 }), 10n)
  for (const settings of [
    { maxOutputTokens: 'many' },
    { maxOutputTokens: [1] },
    { candidateCount: '1.5' },
    { maxOutputTokens: true }
  ]) {
    const answer = await bench.send({
      target: '/v1beta/models/demo:generateContent',
      body: JSON.stringify({ contents: [], generationConfig: settings })
    })
    t.equal(answer.status, 400, JSON.stringify(settings))
  }
})

t.test(
  'a request without a limit holds all that the model may answer, and near the end of a budget it is sent with the limit that is held',
  async (t) => {
    const tenants = { acme: { budget: { usd: 1, per: 'total' } } }
    const models = { demo: { price: { input: 1, output: 2 }, max_output_tokens: 200_000 } }
    const { bench, upstream } = await open(t, { tenants, models })
    for (let i = 0; i < 3; i++) upstream.json(chatAnswer(1, 1))
    const one = await bench.send()
    t.equal(bench.ledger.rows[0]!.request.estimate.maxOutput, 200_000)
    t.notOk('x-sluice-max-output' in one.headers)
    t.notMatch(upstream.requests[0]!.json(), { max_completion_tokens: Number }, 'the model itself gives no more')
    // Something runs that leaves 0.1 USD, which is good for some 50,000 tokens.
    const { scopes } = bench.ledger.rows[0]!.request
    bench.ledger.reserve({ ...bench.ledger.rows[0]!.request, requestId: 'other', scopes, amount: 900_000_000n - 3000n })
    const two = await bench.send()
    const { request } = bench.ledger.rows.at(-1)!
    t.equal(two.status, 200)
    t.equal(two.headers['x-sluice-max-output'], String(request.estimate.maxOutput))
    t.equal((upstream.requests[1]!.json() as any).max_completion_tokens, request.estimate.maxOutput)
    t.ok(request.estimate.maxOutput > 40_000 && request.estimate.maxOutput <= 50_000)
    t.equal(bench.ledger.rows.filter((row) => row.settled).length, 2)
    // With less than `default_output` left it is refused.
    bench.ledger.reserve({ ...request, requestId: 'third', amount: 95_000_000n })
    t.equal(code(await bench.send()), 'quota_tenant_exceeded')
  }
)

t.test(
  'where nobody says how much a model answers, a request under a budget is sent with the limit that is held',
  async (t) => {
    const { bench, upstream } = await open(t, { tenants: { acme: { budget: { usd: 1, per: 'total' } } } })
    upstream.json(chatAnswer(1, 1))
    const answer = await bench.send()
    t.equal(answer.headers['x-sluice-max-output'], '4096')
    t.match(upstream.requests[0]!.json(), { max_completion_tokens: 4096 })
  }
)

t.test('a predicted answer is output, too: what of it is not used is charged', async (t) => {
  const { bench, upstream } = await open(t)
  upstream.json(chatAnswer())
  const prediction = { type: 'content', content: 'x'.repeat(500) }
  await bench.send({ body: { max_tokens: 10, prediction } })
  const { amount } = bench.ledger.rows[0]!.request
  t.ok(amount > 510n * nano.output, 'its length, and the limit')
})

t.test('pictures and documents hold what they can come to, not what their address is long', async (t) => {
  const { bench, upstream } = await open(t, {
    models: { demo: { price: { input: 1, output: 2 }, context_window: 100_000 } }
  })
  const input = async (content: unknown, more: object = {}): Promise<bigint> => {
    upstream.json(chatAnswer())
    const answer = await bench.send({ body: { max_tokens: 1, messages: [{ role: 'user', content }], ...more } })
    t.equal(answer.status, 200, answer.body)
    return (bench.ledger.rows.at(-1)!.request.amount - nano.output) / nano.input
  }
  t.ok(
    (await input('a picture at "url": "https://a.example/b.png", says the "image_url"')) < 500n,
    'text that speaks of them is text'
  )
  t.ok((await input([{ type: 'image_url', image_url: { url: 'https://a.example/b.png' } }])) >= 50_000n)
  t.equal(await input([{ type: 'file', file: { file_id: 'file-1' } }]), 100_000n)
  t.equal(await input([{ type: 'f\\u0069le', file: { file_id: 'file-1' } }]), 100_000n)
  t.equal(
    await input([{ type: 'file', file: { file_data: 'data:application/pdf;base64,AAAA' } }]),
    100_000n,
    'a document is packed'
  )
})

t.test('a service tier has a price of its own, or is refused', async (t) => {
  const price = { input: 1, output: 2, service_tiers: { priority: { input: 2, output: 4 }, 'fast+us': { output: 20 } } }
  const { bench, upstream } = await open(t, { models: { demo: { price } } })
  const paid = async (more: object): Promise<{ held: bigint; paid: bigint | undefined }> => {
    upstream.json(chatAnswer(10, 5))
    const answer = await bench.send({ body: { max_tokens: 5, ...more } })
    t.equal(answer.status, 200, answer.body)
    const { request, settled } = bench.ledger.rows.at(-1)!
    t.ok(request.amount >= settled!.amount)
    return { held: request.amount, paid: settled?.amount }
  }
  const usual = await paid({})
  for (const service_tier of ['auto', 'default', null]) t.equal((await paid({ service_tier })).paid, usual.paid)
  t.equal((await paid({ service_tier: 'priority' })).paid, 10n * 2000n + 5n * 4000n)
  const refused = async (more: object, target = '/v1/chat/completions'): Promise<string | undefined> =>
    code(await bench.send({ target, body: { max_tokens: 5, ...more } }))
  t.equal(await refused({ service_tier: 'flex' }), 'price_missing')
  t.equal(await refused({ service_tier: 'Flex' }), 'price_missing')
  t.equal(await refused({ service_tier: 5 }), 'price_missing')
  t.equal(await refused({ service_tier: 'fast' }, '/v1/responses'), 'price_missing')

  const messages = await open(t, { models: { demo: { price } } }, { protocol: 'anthropic' })
  const ask = async (more: object): Promise<Answer> => {
    messages.upstream.json({
      id: 'm',
      type: 'message',
      role: 'assistant',
      model: 'demo',
      stop_reason: 'end_turn',
      content: [{ type: 'text', text: 'Hi' }],
      usage: { input_tokens: 10, output_tokens: 5 }
    })
    return messages.bench.send({ target: '/v1/messages', body: { max_tokens: 5, ...more } })
  }
  t.equal((await ask({ service_tier: 'auto', speed: 'standard' })).status, 200)
  t.equal((await ask({ speed: 'fast', inference_geo: 'us' })).status, 200)
  t.equal(messages.bench.ledger.rows.at(-1)!.settled?.amount, 10n * 1000n + 5n * 20_000n)

  const only = await open(t, { models: { demo: { price, tiers: ['default'] } } })
  const answer = await only.bench.send({ body: { service_tier: 'priority' } })
  t.match(JSON.parse(answer.body), { error: { code: 'unsupported_parameter', param: 'service_tier' } })
  const free = await open(t, { models: { demo: { price: 'free' } } })
  free.upstream.json(chatAnswer())
  t.equal((await free.bench.send({ body: { service_tier: 'priority' } })).status, 200)
})

const geminiAnswer = {
  candidates: [{ content: { role: 'model', parts: [{ text: 'Hello' }] }, finishReason: 'STOP', index: 0 }],
  usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 }
}

function chatUsage(prompt: number, completion: number): object {
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
}
