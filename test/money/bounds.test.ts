// What is held is what can be charged: whatever an honest upstream may answer to a request costs no more than its hold.
import { join } from 'node:path'
import { Readable } from 'node:stream'
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import { formOf } from '../kit/form.ts'
import type { FormPart } from '../kit/form.ts'
import { channelTo, chatAnswer, Workbench } from '../kit/workbench.ts'
import type { Answer, Sections } from '../kit/workbench.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import { eventually, settled } from '../kit/probe.ts'
import { openRealtime } from '../kit/realtime.ts'
import { sessionsAt, socketUpstream } from '../kit/socket-upstream.ts'
import { HonestUpstream } from './honest.ts'
import { journal, long } from './rig.ts'
import { Upstream } from '../kit/upstream.ts'

t.setTimeout(long ? 1_800_000 : 600_000)

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
  for (const kind of ['video_url', 'audio_url', 'document_url']) {
    t.equal(await input([{ type: kind, [kind]: { url: 'https://a.example/b' } }]), 100_000n, kind)
    t.equal(await input([{ type: kind, [kind]: 'https://a.example/b' }]), 100_000n, `${kind}, as a text`)
  }
  for (const [mime, held] of [
    ['IMAGE/PNG', 50_000n],
    ['video/mp4', 100_000n],
    ['Application/PDF', 100_000n]
  ] as const)
    t.ok((await input([{ inlineData: { mimeType: mime, data: 'AAAA' } }])) >= held, mime)
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

/** Requests of every operation that is charged for its answer, as clients may send them. */
const texts = fc.string({ maxLength: 400, unit: 'grapheme' })
const limit = fc.option(fc.integer({ min: 1, max: 9000 }), { nil: undefined })
const many = fc.option(fc.integer({ min: 1, max: 9 }), { nil: undefined })
const streamed = fc.constantFrom(undefined, true)
const tier = fc.constantFrom(undefined, 'auto', 'priority')
const chatParts = fc.array(
  fc.oneof(
    texts.map((text) => ({ type: 'text', text })),
    fc.constant({ type: 'image_url', image_url: { url: 'https://a.example/b.png' } }),
    fc.constant({ type: 'file', file: { file_id: 'file-1' } })
  ),
  { minLength: 1, maxLength: 3 }
)
const anthropicParts = fc.array(
  fc.oneof(
    texts.map((text) => ({ type: 'text', text })),
    fc.constant({ type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }),
    fc.constant({ type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'AAAA' } })
  ),
  { minLength: 1, maxLength: 3 }
)
const geminiParts = fc.array(
  fc.oneof(
    texts.map((text) => ({ text })),
    fc.constant({ inlineData: { mimeType: 'image/png', data: 'AAAA' } }),
    fc.constant({ fileData: { fileUri: 'https://a.example/c' } })
  ),
  { minLength: 1, maxLength: 3 }
)
const bytes = fc.integer({ min: 1, max: 200_000 }).map((size) => Buffer.alloc(size, 'x'))
const form = (
  target: string,
  name: string,
  file: { filename: string; type: string },
  fields: Record<string, unknown>,
  files: readonly Buffer[]
): Asked => ({
  target,
  form: [
    ...Object.entries(fields).flatMap(([name, value]) => (value === undefined ? [] : { name, value: String(value) })),
    ...files.map((value) => ({ name, ...file, value }))
  ]
})
const png = { filename: 'a.png', type: 'image/png' }
const sound = { filename: 'a.bin', type: 'audio/mpeg' }

/** A request: with a JSON body, or a form. The model is added to either. */
interface Asked {
  readonly target: string
  readonly body?: object
  readonly form?: readonly FormPart[]
}

const asked: fc.Arbitrary<Asked> = fc.oneof(
  fc
    .record({ prompt: texts, n: many, files: fc.array(bytes, { minLength: 1, maxLength: 3 }) })
    .map(({ files, ...fields }) => form('/v1/images/edits', 'image[]', png, fields, files)),
  fc
    .record({ n: many, file: bytes })
    .map(({ file, ...fields }) => form('/v1/images/variations', 'image', png, fields, [file])),
  fc
    .record({ target: fc.constantFrom('transcriptions', 'translations'), prompt: texts, file: bytes })
    .map(({ target, prompt, file }) => form(`/v1/audio/${target}`, 'file', sound, { prompt }, [file])),
  fc
    .oneof(texts, fc.array(texts, { minLength: 1, maxLength: 5 }))
    .map((input) => ({ target: '/v1/moderations', body: { input } })),
  fc
    .oneof(
      texts,
      chatParts.map((content) => [{ type: 'message', role: 'user', content }])
    )
    .map((input) => ({ target: '/v1/responses/compact', body: { input } })),
  fc
    .record({
      content: chatParts,
      max_tokens: limit,
      max_completion_tokens: limit,
      n: many,
      service_tier: tier,
      stream: streamed,
      prediction: fc.option(texts, { nil: undefined })
    })
    .map(({ content, prediction, ...more }) => ({
      target: '/v1/chat/completions',
      body: {
        ...more,
        messages: [{ role: 'user', content }],
        ...(prediction && { prediction: { type: 'content', content: prediction } })
      }
    })),
  fc
    .record({
      prompt: fc.oneof(texts, fc.array(texts, { maxLength: 5 }), fc.array(fc.nat(9), { maxLength: 5 })),
      max_tokens: limit,
      n: many,
      best_of: many,
      stream: streamed
    })
    .map((body) => ({ target: '/v1/completions', body })),
  fc
    .record({
      input: fc.oneof(
        texts,
        chatParts.map((content) => [{ type: 'message', role: 'user', content }])
      ),
      max_output_tokens: limit,
      stream: streamed,
      max_tool_calls: many,
      service_tier: tier,
      tools: fc.subarray([
        { type: 'web_search' },
        { type: 'code_interpreter' },
        { type: 'function', name: 'a', parameters: {} }
      ])
    })
    .map((body) => ({ target: '/v1/responses', body: { ...body, store: false } })),
  fc
    .oneof(texts, fc.array(texts, { minLength: 1, maxLength: 5 }))
    .map((input) => ({ target: '/v1/embeddings', body: { input } })),
  fc.record({ prompt: texts, n: many }).map((body) => ({ target: '/v1/images/generations', body })),
  texts.map((input) => ({ target: '/v1/audio/speech', body: { input: `${input}.`, voice: 'alloy' } })),
  fc
    .record({ query: texts, documents: fc.array(texts, { minLength: 1, maxLength: 300 }) })
    .map((body) => ({ target: '/v1/rerank', body })),
  fc
    .record({
      content: anthropicParts,
      max_tokens: fc.integer({ min: 1, max: 9000 }),
      stream: streamed,
      speed: fc.constantFrom(undefined, 'standard', 'fast')
    })
    .map(({ content, ...more }) => ({
      target: '/v1/messages',
      body: { ...more, messages: [{ role: 'user', content }] }
    })),
  fc
    .record({
      parts: geminiParts,
      maxOutputTokens: fc.oneof(limit, limit.map(String)),
      candidateCount: many,
      stream: streamed
    })
    .map(({ parts, maxOutputTokens, stream, ...more }) => ({
      target: `/v1beta/models/MODEL:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
      body: {
        contents: [{ role: 'user', parts }],
        generationConfig: { ...more, ...(maxOutputTokens !== 'undefined' && { maxOutputTokens }) }
      }
    }))
)

function sentForm(model: string, parts: readonly FormPart[]): { headers: Record<string, string>; body: Readable } {
  const { body, type } = formOf([{ name: 'model', value: model }, ...parts])
  return { headers: { 'content-type': type }, body: Readable.from([body]) }
}

t.test('held is what can be charged: for any request, and any answer that an honest upstream may give', async (t) => {
  const abilities = { context: 30_000, output: 4096 }
  const upstream = await HonestUpstream.start(t, abilities)
  const endpoints = ['chat', 'completions', 'responses', 'embeddings', 'images', 'audio', 'rerank', 'moderations']
  const service_tiers = { priority: { input: 3, output: 40 }, fast: { output: 60 } }
  const tokens = {
    input: 1,
    cached_input: 0.1,
    cache_write: 1.25,
    cache_write_long: 2,
    output: 8,
    image_output: 30,
    service_tiers
  }
  const prices = {
    tokens: { ...tokens, tool_call: 0.01 },
    long: {
      ...tokens,
      tool_call: 0.03,
      request: 0.001,
      tiers: [
        { above: 200, input: 2 },
        { above: 9000, input: 3, output: 11 }
      ]
    },
    pieces: {
      ...tokens,
      image: 0.04,
      character: 15,
      second: 0.0001,
      search: 0.002,
      web_search: 0.01,
      code_interpreter: 0.03
    }
  }
  const limits = [
    { context_window: abilities.context, max_output_tokens: abilities.output },
    { context_window: abilities.context }
  ]
  const models: Record<string, object> = {}
  for (const [name, price] of Object.entries(prices))
    for (const family of ['openai', 'anthropic', 'gemini'])
      limits.forEach((known, n) => (models[`${family}-${name}-${n}`] = { price, ...known }))
  const channel = (protocol: string): object => ({
    protocol,
    base_url: protocol === 'gemini' ? upstream.url.href.replace('/v1', '/v1beta') : upstream.url.href,
    private: true,
    models: Object.fromEntries(
      Object.keys(models)
        .filter((name) => name.startsWith(protocol))
        .map((name) => [name, name])
    ),
    ...(protocol === 'openai' && { endpoints })
  })
  const bench = await Workbench.open(t, {
    channels: { a: channel('openai'), b: channel('anthropic'), c: channel('gemini') },
    models,
    tenants: { acme: { budget: { usd: 1_000_000, per: 'total' } } }
  })
  const seen = new Set<string>()
  const property = fc.asyncProperty(
    asked,
    fc.constantFrom(...Object.keys(prices)),
    fc.constantFrom(0, 1),
    fc.oneof(fc.constantFrom(0, 1), fc.double({ min: 0, max: 1, noNaN: true })),
    async ({ target, body, form }, price, known, share) => {
      upstream.share = share
      const family = target === '/v1/messages' ? 'anthropic' : target.startsWith('/v1beta') ? 'gemini' : 'openai'
      const model = `${family}-${price}-${known}`
      const answer = await bench.send({
        target: target.replace('MODEL', model),
        ...(form ? sentForm(model, form) : { body: JSON.stringify({ model, ...body }) })
      })
      const { request, settled } = bench.ledger.rows.at(-1)!
      if (answer.status !== 200 || !settled) throw new Error(`${answer.status} ${answer.body}`)
      if (settled.amount > request.amount)
        throw new Error(`${settled.amount} charged, ${request.amount} held: ${JSON.stringify(settled.usage)}`)
      const stream = target.includes('stream') || (body as { stream?: true } | undefined)?.stream === true
      if (settled.amount > 0n) seen.add(`${target.replace(/[A-Z]\w*\?.*/, '')}${stream ? ' streamed' : ''}`)
    }
  )
  await fc.assert(property, { numRuns: long ? 20_000 : 250 })
  // Chance may leave a kind of request out, or have all of it cost nothing.
  for (let more = 0; seen.size < 20 && more < 10; more++) await fc.assert(property, { numRuns: 250 })
  t.equal(seen.size, 20, `all of them were charged: ${[...seen].sort().join(', ')}`)
})

t.test('held is what can be charged: videos, by whichever words they are asked for', async (t) => {
  const upstream = await HonestUpstream.start(t, { context: 0, output: 0 })
  const models = {
    second: { price: { second: 0.1 } },
    both: { price: { second: 0.1, request: 0.5 } }
  }
  const names = Object.fromEntries(Object.keys(models).map((name) => [name, name]))
  const channel = {
    protocol: 'openai',
    base_url: upstream.url.href,
    private: true,
    models: names,
    endpoints: ['videos']
  }
  const local = await gateway(t, {
    channels: { demo: channel },
    models,
    tasks: { poll: { first: '10ms', most: '50ms' } }
  })
  const seconds = fc.option(fc.integer({ min: 1, max: 60 }), { nil: undefined })
  const videos = fc.record({
    path: fc.constantFrom('/v1/video/generations', '/v1/videos'),
    model: fc.constantFrom(...Object.keys(models)),
    member: fc.constantFrom('seconds', 'duration'),
    seconds: fc.oneof(
      seconds,
      seconds.map((count) => count && String(count))
    ),
    isForm: fc.boolean()
  })
  for (const { path, model, member, seconds, isForm } of fc.sample(videos, long ? 300 : 30)) {
    const fields = { model, prompt: 'A boat', ...(seconds !== undefined && { [member]: seconds }) }
    const parts = Object.entries(fields).map(([name, value]) => ({ name, value: String(value) }))
    const { body, type } =
      isForm && path === '/v1/videos'
        ? formOf(parts)
        : { body: Buffer.from(JSON.stringify(fields)), type: 'application/json' }
    const headers = { authorization: `Bearer ${testKey}`, 'content-type': type }
    const begun = await local.ask({ method: 'POST', path, headers, body })
    t.ok(begun.status < 300, begun.text)
    const { cost_nano, reserved_nano, usage } = await local.record(begun)
    const asked = JSON.stringify({ path, ...fields, isForm })
    t.ok(BigInt(cost_nano) > 0n && usage!.second! > 0, asked)
    t.ok(BigInt(reserved_nano!) >= BigInt(cost_nano), `${reserved_nano} held, ${cost_nano} charged: ${asked}`)
  }
})

t.test('held is what can be charged: the responses of sessions', async (t) => {
  const upstream = await socketUpstream(t)
  const file = join(t.testdir(), 'sluice.db')
  const local = await gateway(t, { ...sessionsAt(upstream), store: { sqlite: file } })
  const [context, most] = [10_000, 1000]
  const text = texts.map((text) => ({ text, bytes: Buffer.byteLength(JSON.stringify(text)) }))
  const said = fc.array(
    fc.oneof(
      text.map(({ text, bytes }) => ({
        tokens: bytes,
        frame: {
          type: 'conversation.item.create',
          item: { type: 'message', role: 'user', content: [{ type: 'input_text', text }] }
        }
      })),
      // A tenth of a second of sound is 4800 bytes, and a token.
      fc.integer({ min: 1, max: 20 }).map((tenths) => ({
        tokens: tenths,
        frame: { type: 'input_audio_buffer.append', audio: Buffer.alloc(tenths * 4800).toString('base64') }
      })),
      text.map(({ text, bytes }) => ({
        tokens: bytes,
        frame: { type: 'session.update', session: { instructions: text } }
      }))
    ),
    { maxLength: 4 }
  )
  const turn = fc.record({
    said,
    max: fc.option(fc.integer({ min: 1, max: 2000 }), { nil: undefined }),
    share: fc.oneof(fc.constantFrom(0, 1), fc.double({ min: 0, max: 1, noNaN: true })),
    isSound: fc.boolean()
  })
  let turns = 0
  const sessions = fc.sample(fc.array(turn, { minLength: 1, maxLength: 5 }), long ? 200 : 15)
  for (const [number, session] of sessions.entries()) {
    const client = await openRealtime(t, local)
    const { socket } = await upstream.peer(number + 1)
    let [read, heard] = [0, 0]
    socket!.on('message', (frame) => void (heard += String(frame).includes('"response.create"') ? 1 : 0))
    for (const [at, { said, max, share, isSound }] of session.entries()) {
      for (const { frame } of said) client.send(frame)
      client.send({ type: 'response.create', ...(max !== undefined && { response: { max_output_tokens: max } }) })
      await eventually(() => heard > at)
      read += said.reduce((sum, { tokens }) => sum + tokens, 0)
      const input = Math.floor(Math.min(read, context) * share)
      const output = Math.floor(Math.min(max ?? most, most) * share)
      const usage = {
        total_tokens: input + output,
        input_tokens: input,
        output_tokens: output,
        output_token_details: isSound ? { audio_tokens: output } : { text_tokens: output }
      }
      socket!.send(JSON.stringify({ type: 'response.created', response: { id: `r${at}`, status: 'in_progress' } }))
      socket!.send(JSON.stringify({ type: 'response.done', response: { id: `r${at}`, status: 'completed', usage } }))
      await client.event('response.done', at + 1)
      // The next response reads what was counted, and what this one said.
      read = input + output
      turns++
    }
    client.socket.close(1000)
  }
  await settled(t, local)
  await local.gateway.close()
  const ends = journal(file).filter(({ kind }) => kind === 'settle')
  t.equal(ends.length, turns)
  for (const { amount, reserved, usage } of ends)
    if (amount > reserved) t.fail(`${amount} charged, ${reserved} held: ${JSON.stringify(usage)}`)
})

t.test('a response that goes on with another holds what that was counted with', async (t) => {
  const models = { demo: { price: { input: 1, output: 2 }, context_window: 50_000, max_output_tokens: 100 } }
  const { bench, upstream } = await open(t, { models }, { endpoints: ['responses'] })
  const usage = { input_tokens: 700, output_tokens: 80, total_tokens: 780 }
  const about = { object: 'response', model: 'demo', output: [] }
  const held = async (more: object): Promise<bigint> => {
    const answer = await bench.send({ target: '/v1/responses', body: { input: 'Hi', max_output_tokens: 1, ...more } })
    t.equal(answer.status, 200, answer.body)
    const { length } = answer.exchange.body.bytes
    return (bench.ledger.rows.at(-1)!.request.amount - nano.output) / nano.input - BigInt(length)
  }
  upstream.json({ ...about, id: 'resp_1', status: 'completed', usage })
  t.equal(await held({}), 0n)
  upstream.json({ ...about, id: 'resp_2', status: 'completed', usage: null })
  t.equal(await held({ previous_response_id: 'resp_1' }), 780n)
  const event = (type: string, response: object): string =>
    `event: ${type}\ndata: ${JSON.stringify({ type, response })}\n\n`
  upstream.sse(
    [
      event('response.created', { ...about, id: 'resp_3', status: 'in_progress' }),
      event('response.completed', {
        ...about,
        id: 'resp_3',
        status: 'completed',
        usage: { ...usage, input_tokens: 1720, total_tokens: 1800 }
      })
    ],
    { done: false }
  )
  t.ok((await held({ previous_response_id: 'resp_2', stream: true })) > 49_000n, 'nobody said: the whole context')
  upstream.json({ ...about, id: 'resp_4', status: 'completed', usage })
  t.equal(await held({ previous_response_id: 'resp_3' }), 1800n, 'of a stream, too')
  upstream.json({ ...about, id: 'resp_5', status: 'completed', usage })
  const other = { type: 'item_reference', id: 'msg_1' }
  bench.routes.all.set('acme//msg_1', { ...bench.routes.all.get('acme//resp_1')!, id: 'msg_1', kind: 'item' })
  t.ok((await held({ previous_response_id: 'resp_1', input: [other] })) > 49_000n, 'of an item nobody knows the length')
})

const geminiAnswer = {
  candidates: [{ content: { role: 'model', parts: [{ text: 'Hello' }] }, finishReason: 'STOP', index: 0 }],
  usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 }
}

function chatUsage(prompt: number, completion: number): object {
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
}
