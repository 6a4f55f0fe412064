// The vendors' SDKs against the simulator itself: its answers are what they take for the real thing.
import Anthropic from '@anthropic-ai/sdk'
import { ApiError, FunctionCallingConfigMode, GoogleGenAI } from '@google/genai'
import type { Content } from '@google/genai'
import { CohereClient, CohereClientV2 } from 'cohere-ai'
import OpenAI, { toFile } from 'openai'
import t from 'tap'
import type { Test } from 'tap'
import type { Directive } from '../../core/simulator/directive.ts'
import { startSimulator } from '../../core/simulator/simulator.ts'
import type { Simulator } from '../../core/simulator/simulator.ts'
import { eventually } from '../kit/probe.ts'

const model = 'demo'
const key = 'sk-simulator'

async function start(t: Test): Promise<Simulator> {
  const simulator = await startSimulator({ key })
  t.teardown(() => simulator.close())
  return simulator
}

async function openai(t: Test): Promise<OpenAI> {
  const { url } = await start(t)
  return new OpenAI({ baseURL: `${url.origin}/v1`, apiKey: key, maxRetries: 0 })
}

const tell = (directive: Directive, text = 'Tell me.'): string => `${text} [[simulator ${JSON.stringify(directive)}]]`

t.test('openai: completions', async (t) => {
  const client = await openai(t)
  const whole = await client.completions.create({ model, prompt: 'Once', max_tokens: 12 })
  t.match(whole, {
    object: 'text_completion',
    choices: [{ finish_reason: 'length' }],
    usage: { completion_tokens: 12 }
  })
  let text = ''
  for await (const chunk of await client.completions.create({ model, prompt: 'Once', max_tokens: 12, stream: true }))
    text += chunk.choices[0]!.text
  t.equal(text, whole.choices[0]!.text)
})

t.test('openai: embeddings, which it asks for in base64 by itself', async (t) => {
  const client = await openai(t)
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
})

t.test('openai: moderations and models', async (t) => {
  const client = await openai(t)
  const { results } = await client.moderations.create({ input: 'violence' })
  t.match(results, [{ flagged: true, categories: { violence: true, hate: false } }])
  t.match((await client.models.list()).data, [{ id: 'simulator', object: 'model' }])
  t.match(await client.models.retrieve('org/name'), { id: 'org/name' })
})

t.test('openai: images, made, streamed, edited and varied', async (t) => {
  const client = await openai(t)
  const made = await client.images.generate({ model, prompt: 'A boat', size: '64x64' as never, n: 2 })
  t.equal(made.data!.length, 2)
  t.match(Buffer.from(made.data![0]!.b64_json!, 'base64').toString('latin1'), /^.PNG/)
  const types: string[] = []
  for await (const event of await client.images.generate({ model, prompt: 'A boat', stream: true, partial_images: 1 }))
    types.push(event.type)
  t.same(types, ['image_generation.partial_image', 'image_generation.completed'])
  const image = await toFile(Buffer.from('x'), 'a.png', { type: 'image/png' })
  t.equal((await client.images.edit({ model, prompt: 'A boat', image: [image, image], n: 3 })).data!.length, 3)
  t.match((await client.images.createVariation({ model: 'dall-e-2', image })).data, [{ url: /^http/ }])
})

t.test('openai: speech, and what is heard of it', async (t) => {
  const client = await openai(t)
  const spoken = await client.audio.speech.create({
    model,
    voice: 'alloy',
    input: 'Boats float on the water.',
    response_format: 'wav'
  })
  t.equal(spoken.headers.get('content-type'), 'audio/wav')
  const file = await toFile(Buffer.from(await spoken.arrayBuffer()), 'speech.wav')
  const heard = await client.audio.transcriptions.create({
    model: 'whisper-1',
    file,
    response_format: 'verbose_json',
    timestamp_granularities: ['word']
  })
  t.match(heard, { duration: 1.667, words: [{ start: 0 }], usage: { type: 'duration', seconds: 1.667 } })
  t.match(await client.audio.transcriptions.create({ model, file, response_format: 'srt' }), /^1\n00:00:00,000 --> /)
  let text = ''
  for await (const event of await client.audio.transcriptions.create({ model, file, stream: true })) {
    if (event.type === 'transcript.text.delta') text += event.delta
    if (event.type === 'transcript.text.done') t.equal(event.text, text)
  }
  t.equal(text, (await client.audio.transcriptions.create({ model, file })).text)
  t.ok((await client.audio.translations.create({ model, file })).text)
})

t.test('openai: videos, polled to their end', async (t) => {
  const client = await openai(t)
  let video = await client.videos.create({ prompt: tell({ queue_ms: 5, work_ms: 5 }), seconds: '4', size: '720x1280' })
  t.match(video, { status: /queued|in_progress/ })
  await eventually(async () => (video = await client.videos.retrieve(video.id)).status === 'completed')
  t.match(video, { status: 'completed', seconds: '4', size: '720x1280' })
  const file = await client.videos.downloadContent(video.id)
  t.equal(file.headers.get('content-type'), 'video/mp4')
  t.match(await file.text(), /ftypisom/)
  const listed: string[] = []
  for await (const { id } of client.videos.list()) listed.push(id)
  t.same(listed, [video.id])
  t.match(await client.videos.delete(video.id), { deleted: true })
  await t.rejects(client.videos.retrieve(video.id), { code: 'video_not_found' })
})

t.test('openai: responses, streamed, in the background, resumed and gone on with', async (t) => {
  const client = await openai(t)
  const { responses } = client
  const whole = await responses.create({ model, input: 'Who are you?' })
  t.match(whole.output_text, /simulator/)
  t.match(await responses.retrieve(whole.id), { id: whole.id, status: 'completed' })
  t.equal((await responses.inputTokens.count({ model, input: 'Who are you?' })).input_tokens, whole.usage!.input_tokens)
  const listed: unknown[] = []
  for await (const item of responses.inputItems.list(whole.id)) listed.push(item.type)
  t.same(listed, ['message'])

  const tools: OpenAI.Responses.Tool[] = [
    {
      type: 'function',
      name: 'get_weather',
      strict: false,
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
    }
  ]
  const asking = {
    model,
    tools,
    reasoning: { effort: 'low', summary: 'auto' },
    input: tell({ call: 'get_weather', arguments: { city: 'Zürich' }, text: 'Let me look.' })
  } as const
  const called = await responses.stream({ ...asking, tools }).finalResponse()
  t.same(
    called.output.map(({ type }) => type),
    ['reasoning', 'message', 'function_call']
  )
  const call = called.output.at(-1) as OpenAI.Responses.ResponseFunctionToolCall
  t.equal(call.arguments, '{"city":"Zürich"}')
  const done = await responses.create({
    model,
    previous_response_id: called.id,
    input: [{ type: 'function_call_output', call_id: call.call_id, output: '4 C' }]
  })
  t.match(done.output_text, /The tool answered "4 C"/)
  const replayed = await responses.create({
    model,
    input: [
      { role: 'user', content: 'Weather?' },
      ...(called.output as OpenAI.Responses.ResponseInputItem[]),
      { type: 'function_call_output', call_id: call.call_id, output: '5 C' }
    ]
  })
  t.match(replayed.output_text, /5 C/)

  const background = await responses.create({
    model,
    input: tell({ tokens: 20, queue_ms: 5, gap_ms: 2 }),
    background: true,
    stream: true
  })
  let id = ''
  for await (const event of background) {
    if (event.type === 'response.created') id = event.response.id
    if (event.sequence_number === 6) break
  }
  const resumed = await responses.stream({ response_id: id, starting_after: 6 }).finalResponse()
  t.match(resumed, { id, status: 'completed', usage: { output_tokens: 20 } })
  const polled = await responses.create({ model, input: tell({ queue_ms: 1, work_ms: 10_000 }), background: true })
  t.match(polled.status, /queued|in_progress/)
  t.match(await responses.cancel(polled.id), { status: 'cancelled' })
  await responses.delete(polled.id)
  await t.rejects(responses.retrieve(polled.id), { message: /not found/ })
  const compacted = await responses.compact({ model, input: 'A long story.' })
  t.match(compacted, { object: 'response.compaction', output: [{}, { type: 'compaction' }] })

  const cut = await responses
    .stream({ model, input: tell({ cut: 'error', after_events: 5 }) })
    .finalResponse()
    .catch((error: unknown) => error)
  t.match(cut, { code: 'server_error' })
})

t.test('@anthropic-ai/sdk: messages, streams, tools and what they cost', async (t) => {
  const { url } = await start(t)
  const client = new Anthropic({ baseURL: url.origin, apiKey: key, maxRetries: 0 })
  const body: Anthropic.MessageCreateParamsNonStreaming = {
    model,
    max_tokens: 2000,
    messages: [{ role: 'user', content: 'Who are you?' }]
  }
  const whole = await client.messages.create(body)
  t.match(whole, { type: 'message', content: [{ type: 'text', text: /simulator/ }], stop_reason: 'end_turn' })
  t.equal(
    (await client.messages.countTokens({ model, messages: body.messages })).input_tokens,
    whole.usage.input_tokens
  )
  const streamed = await client.messages.stream(body).finalMessage()
  t.same(streamed.content, whole.content)
  t.equal(streamed.usage.output_tokens, whole.usage.output_tokens)

  const tools: Anthropic.Tool[] = [
    {
      name: 'get_weather',
      input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
    }
  ]
  const messages: Anthropic.MessageParam[] = [
    { role: 'user', content: tell({ call: ['get_weather', 'get_weather'], arguments: { city: 'Zürich' } }) }
  ]
  const thinking = { type: 'enabled', budget_tokens: 1024 } as const
  const called = await client.messages.stream({ ...body, tools, messages, thinking }).finalMessage()
  t.same(
    called.content.map(({ type }) => type),
    ['thinking', 'tool_use', 'tool_use']
  )
  const results = called.content.flatMap((block): Anthropic.ToolResultBlockParam[] =>
    block.type === 'tool_use' ? [{ type: 'tool_result', tool_use_id: block.id, content: '4 C' }] : []
  )
  const done = await client.messages.create({
    ...body,
    tools,
    thinking,
    messages: [...messages, { role: 'assistant', content: called.content }, { role: 'user', content: results }]
  })
  t.match(done.content.at(-1), { type: 'text', text: /The tool answered "4 C/ })

  const refused = await client.messages
    .create({ ...body, messages: [{ role: 'user', content: tell({ status: 529 }) }] })
    .catch((error: unknown) => error)
  t.ok(refused instanceof Anthropic.APIError)
  t.match(refused, { status: 529, requestID: /^req_/ })
  const cut = await client.messages
    .stream({ ...body, messages: [{ role: 'user', content: tell({ cut: 'error', after_events: 5 }) }] })
    .finalMessage()
    .catch((error: unknown) => error)
  t.match(cut, { type: 'api_error' })
  const models: string[] = []
  for await (const { id } of client.models.list()) models.push(id)
  t.same(models, ['simulator'])
  t.equal((await client.models.retrieve('org/name')).id, 'org/name')
})

t.test('@google/genai: contents, streams, calls and embeddings', async (t) => {
  const { url } = await start(t)
  for (const apiVersion of ['v1', 'v1beta']) {
    const { models } = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: url.origin, apiVersion } })
    const contents = 'Who are you?'
    const whole = await models.generateContent({ model, contents })
    t.match(whole.text, /simulator/)
    t.match(whole.candidates![0], { finishReason: 'STOP' })
    t.equal((await models.countTokens({ model, contents })).totalTokens, whole.usageMetadata!.promptTokenCount)
    let text = ''
    let last: unknown
    for await (const chunk of await models.generateContentStream({ model, contents })) {
      text += chunk.text ?? ''
      last = chunk.usageMetadata
    }
    t.equal(text, whole.text)
    t.match(last, { totalTokenCount: whole.usageMetadata!.totalTokenCount })

    const declaration = {
      name: 'get_weather',
      parametersJsonSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
    }
    const config = {
      tools: [{ functionDeclarations: [declaration] }],
      toolConfig: { functionCallingConfig: { mode: FunctionCallingConfigMode.AUTO } }
    }
    const asked: Content[] = [
      { role: 'user', parts: [{ text: tell({ call: 'get_weather', arguments: { city: 'Zürich' } }) }] }
    ]
    const called = await models.generateContent({ model: 'gemini-3-pro', contents: asked, config })
    t.match(called.functionCalls, [{ name: 'get_weather', args: { city: 'Zürich' } }])
    const response = {
      functionResponse: { id: called.functionCalls![0]!.id!, name: 'get_weather', response: { output: '4 C' } }
    }
    const done = await models.generateContent({
      model: 'gemini-3-pro',
      config,
      contents: [...asked, called.candidates![0]!.content!, { role: 'user', parts: [response] }]
    })
    t.match(done.text, /The tool answered "4 C"/)

    const { embeddings } = await models.embedContent({
      model,
      contents: ['one', 'two'],
      config: { outputDimensionality: 4 }
    })
    t.same(
      embeddings!.map(({ values }) => values!.length),
      [4, 4]
    )
    const refused = await models
      .generateContent({ model, contents: tell({ status: 429 }) })
      .catch((error: unknown) => error)
    t.ok(refused instanceof ApiError)
    t.match(refused, { status: 429 })
    const cut = async (): Promise<void> => {
      for await (const chunk of await models.generateContentStream({
        model,
        contents: tell({ cut: 'error', after_events: 2 })
      }))
        t.ok(chunk)
    }
    t.match(await cut().catch((error: unknown) => error), { status: 503 })
    const listed: unknown[] = []
    for await (const { name } of await models.list()) listed.push(name)
    t.same(listed, ['models/simulator'])
    t.equal((await models.get({ model: 'other' })).name, 'models/other')
  }
})

t.test('cohere-ai: both versions of reranking', async (t) => {
  const { url } = await start(t)
  const options = { token: key, environment: url.origin, maxRetries: 0 }
  const query = { model, query: 'sea', documents: ['land', 'the sea'] }
  const older = await new CohereClient(options).rerank({ ...query, returnDocuments: true })
  t.match(older, {
    results: [{ index: 1, document: { text: 'the sea' } }, { index: 0 }],
    meta: { billedUnits: { searchUnits: 1 } }
  })
  const newer = await new CohereClientV2(options).rerank({ ...query, topN: 1 })
  t.equal(newer.results.length, 1)
  t.match(newer, { results: [{ index: 1 }], meta: { billedUnits: { searchUnits: 1 } } })
  const refused = new CohereClientV2(options).rerank({ ...query, query: tell({ status: 429 }) })
  t.match(await refused.catch((error: unknown) => error), { statusCode: 429, body: { message: /429/ } })
})
