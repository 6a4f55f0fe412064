// The vendors' SDKs, unchanged, on every endpoint but chat, against the running gateway with a simulator behind it.
import { CohereClient, CohereClientV2 } from 'cohere-ai'
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import t from 'tap'
import type { Test } from 'tap'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway, Overrides } from '../kit/gateway.ts'
import { openaiMajors } from './clients/openai.ts'
import type { OpenAIConstructor } from './clients/openai.ts'

const model = 'demo'

async function open(
  t: Test,
  overrides: Overrides = {},
  Constructor: OpenAIConstructor = OpenAI
): Promise<{ local: LocalGateway; client: OpenAI }> {
  const local = await gateway(t, overrides)
  return { local, client: new Constructor({ baseURL: `${local.url}/v1`, apiKey: testKey, maxRetries: 0 }) }
}

/** A test for each major version of OpenAI's library. */
function inEveryMajor(name: string, test: (t: Test, Constructor: OpenAIConstructor) => Promise<void>): void {
  for (const [major, Constructor] of Object.entries(openaiMajors))
    t.test(`${major}: ${name}`, (t) => test(t, Constructor))
}

inEveryMajor('POST /v1/embeddings', async (t, Constructor) => {
  const { local, client } = await open(t, {}, Constructor)
  const { data, usage } = await client.embeddings.create({ model, input: ['one', 'two'], dimensions: 5 })
  t.same(
    data.map(({ index, embedding }) => [index, embedding.length]),
    [
      [0, 5],
      [1, 5]
    ]
  )
  t.same(usage, { prompt_tokens: 2, total_tokens: 2 })
  const plain = await client.embeddings.create({
    model,
    input: ['one', 'two'],
    dimensions: 5,
    encoding_format: 'float'
  })
  t.same(
    plain.data.map(({ embedding }) => embedding.map(Math.fround)),
    data.map(({ embedding }) => embedding)
  )
  const tokens = await client.embeddings.create({ model, input: [[1, 2, 3], [4]] })
  t.equal(tokens.usage.prompt_tokens, 4)
  const [record] = ((await local.admin('/admin/v1/requests?limit=1')) as { data: Record<string, unknown>[] }).data
  t.match(record, {
    endpoint: 'embeddings',
    model,
    usage: { input: 4, output: 0 },
    usage_source: 'upstream',
    cost_nano: '4000'
  })
})

t.test('POST /v1/rerank and /v2/rerank, for clients of two dialects', async (t) => {
  const { local } = await open(t)
  const options = { token: testKey, environment: local.url, maxRetries: 0 }
  const query = { model, query: 'sea', documents: ['land', 'the sea'] }
  const older = await new CohereClient(options).rerank({ ...query, returnDocuments: true })
  t.match(older, { results: [{ index: 1, document: { text: 'the sea' } }, { index: 0 }] })
  const newer = await new CohereClientV2(options).rerank({ ...query, topN: 1 })
  t.match(newer.results, [{ index: 1 }])
  const plain = await local.ask({
    method: 'POST',
    path: '/v1/rerank',
    headers: { authorization: `Bearer ${testKey}` },
    body: { ...query, top_n: 1 }
  })
  t.match(plain.json(), {
    object: 'list',
    model,
    results: [{ index: 1, document: undefined }],
    meta: { api_version: { version: '1' } }
  })
  t.match(await local.record(plain), { endpoint: 'rerank', outcome: 'completed', usage_source: 'upstream' })
  const refused: unknown = await new CohereClientV2(options)
    .rerank({ ...query, model: 'none' })
    .catch((error: unknown) => error)
  t.match(refused, { statusCode: 404, body: { message: /does not exist/, error: { code: 'model_not_found' } } })
})

inEveryMajor('POST /v1/moderations', async (t, Constructor) => {
  const { client } = await open(t, {}, Constructor)
  const { results } = await client.moderations.create({ model, input: ['violence', 'peace'] })
  t.match(results, [{ flagged: true, categories: { violence: true, hate: false } }, { flagged: false }])
})

inEveryMajor('GET /v1/models and /v1/models/{model_id}', async (t, Constructor) => {
  const { client } = await open(t, {}, Constructor)
  t.match((await client.models.list()).data, [{ id: model, object: 'model' }])
  t.match(await client.models.retrieve(model), { id: model })
  await t.rejects(client.models.retrieve('org/name'), { status: 404, code: 'model_not_found' })
})

t.test('the models, listed and described for the SDKs of three protocols, a page at a time', async (t) => {
  const names = ['demo', 'org/name', 'x:free']
  const { local, client } = await open(t, {
    channels: { demo: { models: Object.fromEntries(names.map((name) => [name, name])) } },
    models: Object.fromEntries(names.map((name) => [name, { price: 'free', context_window: 1000 }]))
  })
  const anthropic = new Anthropic({ baseURL: local.url, apiKey: testKey, maxRetries: 0 })
  const google = new GoogleGenAI({ httpOptions: { baseUrl: local.url }, apiKey: testKey })
  const listed: Record<string, (string | undefined)[]> = { openai: [], anthropic: [], google: [] }
  for await (const { id } of client.models.list()) listed['openai']!.push(id)
  for await (const { id } of anthropic.models.list({ limit: 2 })) listed['anthropic']!.push(id)
  for await (const { name } of await google.models.list({ config: { pageSize: 2 } }))
    listed['google']!.push(name?.replace('models/', ''))
  t.same(listed, { openai: names, anthropic: names, google: names })
  for (const name of names) {
    t.match(await client.models.retrieve(name), { id: name })
    t.match(await anthropic.models.retrieve(name), { id: name, type: 'model', max_input_tokens: 1000 })
    t.match(await google.models.get({ model: name }), { name: `models/${name}`, inputTokenLimit: 1000 })
  }
  await t.rejects(anthropic.models.retrieve('nobody'), { status: 404, message: /nobody/ })
  t.match(await google.models.get({ model: 'nobody' }).catch((error: unknown) => error), { status: 404 })
})

t.test('GET /openapi.json, without a key', async (t) => {
  const { local } = await open(t)
  const document = (await (await fetch(`${local.url}/openapi.json`)).json()) as {
    openapi: string
    paths: Record<string, object>
  }
  t.equal(document.openapi, '3.1.0')
  for (const path of ['/v1/chat/completions', '/v1/embeddings', '/v1/models/{model}']) t.ok(document.paths[path], path)
})

inEveryMajor('POST /v1/completions', async (t, Constructor) => {
  const { local, client } = await open(t, {}, Constructor)
  const whole = await client.completions.create({ model, prompt: 'Once', max_tokens: 12 })
  t.match(whole, {
    object: 'text_completion',
    model,
    choices: [{ finish_reason: 'length' }],
    usage: { completion_tokens: 12 }
  })
  let text = ''
  for await (const chunk of await client.completions.create({ model, prompt: 'Once', max_tokens: 12, stream: true }))
    text += chunk.choices[0]!.text
  t.equal(text, whole.choices[0]!.text)
  const [record] = ((await local.admin('/admin/v1/requests?limit=1')) as { data: Record<string, unknown>[] }).data
  t.match(record, {
    endpoint: 'completions',
    streamed: true,
    usage: { output: 12 },
    usage_source: 'upstream',
    outcome: 'completed'
  })
})

inEveryMajor('POST /v1/images/generations', async (t, Constructor) => {
  const { client } = await open(t, {}, Constructor)
  const whole = await client.images.generate({ model, prompt: 'A boat', n: 2, size: '64x64' })
  t.equal(whole.data!.length, 2)
  t.match(Buffer.from(whole.data![0]!.b64_json!, 'base64').toString('latin1', 0, 8), /PNG/)
  const kinds: string[] = []
  for await (const event of await client.images.generate({
    model,
    prompt: 'A boat',
    size: '64x64',
    stream: true,
    partial_images: 2
  }))
    kinds.push(event.type)
  t.same(kinds, ['image_generation.partial_image', 'image_generation.partial_image', 'image_generation.completed'])
})

inEveryMajor('POST /v1/images/edits and /v1/images/variations', async (t, Constructor) => {
  const { client } = await open(t, {}, Constructor)
  const made = await client.images.generate({ model, prompt: 'A boat', size: '64x64' })
  const png = (): File => new File([Buffer.from(made.data![0]!.b64_json!, 'base64')], 'boat.png', { type: 'image/png' })
  const edited = await client.images.edit({ model, image: [png(), png()], prompt: 'Add a sail', size: '64x64' })
  t.ok(edited.data![0]!.b64_json)
  const varied = await client.images.createVariation({
    model,
    image: png(),
    n: 2,
    size: '256x256',
    response_format: 'b64_json'
  })
  t.equal(varied.data!.length, 2)
})

inEveryMajor('POST /v1/audio/speech', async (t, Constructor) => {
  const { local, client } = await open(t, {}, Constructor)
  const sound = await client.audio.speech.create({
    model,
    voice: 'alloy',
    input: 'Hello there, sailor.',
    response_format: 'wav'
  })
  t.equal(sound.headers.get('content-type'), 'audio/wav')
  t.match(Buffer.from(await sound.arrayBuffer()).toString('latin1', 0, 12), /^RIFF.{4}WAVE/s)
  const events = await local.ask({
    method: 'POST',
    path: '/v1/audio/speech',
    headers: { authorization: `Bearer ${testKey}` },
    body: { model, voice: 'alloy', input: 'Hello there, sailor.', response_format: 'pcm', stream_format: 'sse' }
  })
  t.match(events.headers['content-type'], /text\/event-stream/)
  t.match(events.text, /"type":"speech\.audio\.done"/)
  t.match(await local.record(events), { endpoint: 'audio.speech', streamed: true, usage_source: 'upstream' })
})

inEveryMajor('POST /v1/audio/transcriptions and /v1/audio/translations', async (t, Constructor) => {
  const { client } = await open(t, {}, Constructor)
  const spoken = await client.audio.speech.create({
    model,
    voice: 'alloy',
    input: 'Hello there, sailor, how are you today?',
    response_format: 'wav'
  })
  const bytes = Buffer.from(await spoken.arrayBuffer())
  const file = (): File => new File([bytes], 'hello.wav', { type: 'audio/wav' })
  const whole = await client.audio.transcriptions.create({ model, file: file() })
  t.ok(whole.text)
  for (const form of ['text', 'srt', 'vtt'] as const)
    t.type(await client.audio.transcriptions.create({ model, file: file(), response_format: form }), 'string')
  t.match(
    await client.audio.transcriptions.create({
      model,
      file: file(),
      response_format: 'verbose_json',
      timestamp_granularities: ['word', 'segment']
    }),
    { text: whole.text }
  )
  let text = ''
  for await (const event of await client.audio.transcriptions.create({ model, file: file(), stream: true }))
    if (event.type === 'transcript.text.delta') text += event.delta
  t.equal(text, whole.text)
  t.ok((await client.audio.translations.create({ model, file: file() })).text)
})
