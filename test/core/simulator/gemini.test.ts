// The simulator as Gemini's API.
import t from 'tap'
import type { Directive } from '../../../core/simulator/directive.ts'
import { countTokens } from '../../../core/simulator/words/tokens.ts'
import { readEvents } from '../../kit/sse.ts'
import { start, tell } from './kit.ts'

const path = '/v1beta/models/m:generateContent'
const inChunks = '/v1beta/models/m:streamGenerateContent'
const weather = {
  name: 'get_weather',
  parameters: { type: 'OBJECT', properties: { city: { type: 'STRING' } }, required: ['city'] }
}
const time = { name: 'get_time' }
const tools = [{ functionDeclarations: [weather, time] }]

function request(directive: Directive, more: Record<string, unknown> = {}): Record<string, unknown> {
  return { contents: [{ role: 'user', parts: [{ text: tell(directive) }] }], ...more }
}

/** Chunks put together to what a whole answer is. */
function together(chunks: any[]): any {
  const whole = structuredClone(chunks.at(-1))
  for (const candidate of whole.candidates ?? []) candidate.content.parts = []
  for (const { candidates = [], modelVersion, responseId } of chunks) {
    if (modelVersion !== whole.modelVersion || responseId !== whole.responseId)
      throw new Error('chunks of several answers')
    for (const { content, index, finishReason } of candidates) {
      let candidate = whole.candidates.find((known: any) => known.index === index)
      if (!candidate) whole.candidates.push((candidate = { content: { role: 'model', parts: [] }, index }))
      if (finishReason) candidate.finishReason = finishReason
      for (const part of content.parts) {
        const last = candidate.content.parts.at(-1)
        if (part.text === '') continue
        if (part.text !== undefined && last?.text !== undefined && last.thought === part.thought) last.text += part.text
        else candidate.content.parts.push({ ...part })
      }
    }
  }
  whole.candidates?.sort((one: any, other: any) => one.index - other.index)
  return whole
}

t.test('events and elements of an array say what a whole answer says', async (t) => {
  const { json, send } = await start(t)
  const thinkingConfig = { includeThoughts: true }
  const cases: [string, Record<string, unknown>][] = [
    ['text', request({})],
    ['limited', request({}, { generationConfig: { maxOutputTokens: 7 } })],
    ['stopped', request({ text: 'one two three' }, { generation_config: { stop_sequences: [' three'] } })],
    ['calls', request({ call: ['get_weather', 'get_time'], text: 'Let me look.' }, { tools })],
    ['thinking', request({ reasoning: 'Hm. So.' }, { generationConfig: { thinkingConfig } })],
    ['several', request({ tokens: 9 }, { generationConfig: { candidateCount: 2 } })],
    ['cached', request({ cached_tokens: 4 })],
    ['image', request({ text: 'Here.' }, { generationConfig: { responseModalities: ['TEXT', 'IMAGE'] } })],
    ['blocked', request({ block: 'SAFETY' })],
    ['unsafe', request({ refusal: true, tokens: 3 })]
  ]
  const found: Record<string, any> = {}
  for (const [name, body] of cases) {
    const whole = await json(path, body)
    const events = await send(`${inChunks}?alt=sse`, body)
    t.match(events.headers['content-type'], /^text\/event-stream/)
    t.ok(
      readEvents(events.body).every(({ event }) => event === undefined),
      'events have no name'
    )
    const chunks = readEvents(events.body).map(({ data }) => JSON.parse(data))
    t.same(together(chunks), whole, name)
    const array = await send(inChunks, body)
    t.match(array.headers['content-type'], /^application\/json/)
    t.same(array.json(), chunks)
    found[name] = whole
  }
  const { text, limited, stopped, calls, thinking, several, cached, image, blocked, unsafe } = found
  t.match(text, {
    candidates: [{ index: 0, content: { role: 'model', parts: [{ text: /simulator/ }] }, finishReason: 'STOP' }],
    modelVersion: 'm',
    responseId: /\S/
  })
  const prompt = 3 + 4 + countTokens(tell({}))
  const written = countTokens(text.candidates[0].content.parts[0].text)
  t.same(text.usageMetadata, {
    promptTokenCount: prompt,
    candidatesTokenCount: written,
    totalTokenCount: prompt + written,
    promptTokensDetails: [{ modality: 'TEXT', tokenCount: prompt }]
  })
  t.match(limited, { candidates: [{ finishReason: 'MAX_TOKENS' }], usageMetadata: { candidatesTokenCount: 7 } })
  t.equal(stopped.candidates[0].content.parts[0].text, 'one two')
  t.match(calls.candidates[0], {
    finishReason: 'STOP',
    content: {
      parts: [
        { text: 'Let me look.' },
        { functionCall: { name: 'get_weather', args: { city: String } } },
        { functionCall: { name: 'get_time', args: {} } }
      ]
    }
  })
  t.notOk('id' in calls.candidates[0].content.parts[1].functionCall)
  t.match(thinking, {
    candidates: [{ content: { parts: [{ text: 'Hm. So.', thought: true }, { text: String }] } }],
    usageMetadata: { thoughtsTokenCount: 4 }
  })
  const { promptTokenCount, candidatesTokenCount, totalTokenCount } = thinking.usageMetadata
  t.equal(promptTokenCount + candidatesTokenCount + 4, totalTokenCount, 'thoughts are no part of what is visible')
  t.same(
    several.candidates.map(({ index }: any) => index),
    [0, 1]
  )
  t.match(cached.usageMetadata, { cachedContentTokenCount: 4 })
  t.match(image.candidates[0].content.parts[1], { inlineData: { mimeType: 'image/png' } })
  t.match(image.usageMetadata, {
    candidatesTokensDetails: [
      { modality: 'TEXT', tokenCount: 2 },
      { modality: 'IMAGE', tokenCount: 1290 }
    ]
  })
  t.notOk('candidates' in blocked)
  t.match(blocked.promptFeedback, { blockReason: 'SAFETY' })
  t.match(unsafe.candidates[0], { finishReason: 'SAFETY' })
  const hidden = await json(path, request({ reasoning: 'Hm. So.' }))
  t.notOk(
    hidden.candidates[0].content.parts.some((part: any) => part.thought),
    'thoughts are shown to who asks for them'
  )
  t.equal(hidden.usageMetadata.thoughtsTokenCount, 4)
})

t.test('a chunk says what has been used so far', async (t) => {
  const { send } = await start(t)
  const chunks = readEvents((await send(`${inChunks}?alt=sse`, request({ tokens: 20 }))).body).map(
    ({ data }) => JSON.parse(data).usageMetadata
  )
  const counts = chunks.map(({ candidatesTokenCount: count }) => count)
  t.same(counts, [...Array.from({ length: 20 }, (_, i) => i + 1), 20])
})

t.test('a conversation with calls goes on, and newer models want their signatures back', async (t) => {
  const { json, send, stats } = await start(t)
  const newer = '/v1/models/gemini-3-pro:generateContent'
  const body = request({ call: ['get_weather', 'get_time'], arguments: { city: 'Oslo' } }, { tools })
  const { content } = (await json(newer, body)).candidates[0]
  t.match(content.parts, [
    { functionCall: { id: /\S/, name: 'get_weather', args: { city: 'Oslo' } }, thoughtSignature: /\S/ },
    { functionCall: { id: /\S/ } }
  ])
  t.notOk('thoughtSignature' in content.parts[1], 'the first carries it for all')
  const responses = content.parts.map(({ functionCall: { id, name } }: any) => ({
    functionResponse: { id, name, response: { output: '4 C' } }
  }))
  const go = (model: object, answers: object[]): object => ({
    ...body,
    contents: [...(body['contents'] as object[]), model, { role: 'user', parts: answers }]
  })
  const done = await json(newer, go(content, responses), { headers: { 'x-request-id': 'mine' } })
  t.match(done.candidates[0], { finishReason: 'STOP', content: { parts: [{ text: /The tool answered "4 C/ }] } })
  t.match(stats.byRequest.get('mine'), {
    prompt: done.usageMetadata.promptTokenCount,
    completion: done.usageMetadata.candidatesTokenCount
  })

  const [first, second] = content.parts
  const without = { ...content, parts: [{ functionCall: first.functionCall }, second] }
  t.match((await send(newer, go(without, responses))).json(), {
    error: { code: 400, status: 'INVALID_ARGUMENT', message: /missing a thought_signature/ }
  })
  t.equal((await send(path, go(without, responses))).status, 200, 'older models do not')
  const moved = {
    ...content,
    parts: [{ ...first, functionCall: { ...first.functionCall, args: { city: 'Rome' } } }, second]
  }
  t.match((await send(newer, go(moved, responses))).json(), { error: { message: /Thought signature is not valid/ } })
  const excused = { ...content, parts: [{ ...first, thoughtSignature: 'skip_thought_signature_validator' }, second] }
  t.equal((await send(newer, go(excused, responses))).status, 200)
  for (const [answers, message] of [
    [responses.slice(1), /number of function response parts is equal/],
    [[...responses, { text: 'And?' }], /number of function response parts/],
    [[responses[0], { functionResponse: { name: 'other', response: {} } }], /does not match any function call/]
  ] as const)
    t.match((await send(newer, go(content, answers as never))).json(), { error: { message } })
})

t.test('tokens are counted by what they stand for, and counting is free', async (t) => {
  const { json, stats } = await start(t)
  const contents = [{ parts: [{ text: 'What is this?' }, { inline_data: { mime_type: 'image/png', data: 'AAAA' } }] }]
  const body = { contents, systemInstruction: { role: 'user', parts: [{ text: 'Be brief.' }] }, tools }
  const words = 3 + 4 + 3 + 4 + countTokens('What is this?') + countTokens(JSON.stringify(tools))
  const expected = {
    totalTokens: words + 85,
    promptTokensDetails: [
      { modality: 'TEXT', tokenCount: words },
      { modality: 'IMAGE', tokenCount: 85 }
    ]
  }
  t.same(
    await json('/v1beta/models/m:countTokens', { generateContentRequest: { model: 'models/m', ...body } }),
    expected
  )
  t.same(await json('/v1/models/m:countTokens', body), expected)
  t.same(stats.counted, {})
  t.equal((await json(path, body)).usageMetadata.promptTokenCount, words + 85)
})

t.test('contents are embedded, one or many', async (t) => {
  const { json, stats } = await start(t)
  const content = (text: string): object => ({ content: { parts: [{ text }] }, outputDimensionality: 5 })
  const { embedding } = await json('/v1beta/models/e:embedContent', {
    ...content('one'),
    model: 'models/e',
    taskType: 'RETRIEVAL_QUERY'
  })
  t.equal(embedding.values.length, 5)
  const batch = await json('/v1/models/e:batchEmbedContents', {
    requests: [{ model: 'models/e', ...content('one') }, content('two')]
  })
  t.same(batch.embeddings[0], embedding)
  t.notSame(batch.embeddings[1], embedding)
  t.same(batch.usageMetadata, { promptTokenCount: 2 })
  t.same(stats.counted, { prompt: 3 })
  t.equal(
    (await json('/v1beta/models/e:embedContent', { content: { parts: [{ text: 'x' }] } })).embedding.values.length,
    3072
  )
})

t.test('what Gemini refuses is refused, in its envelope', async (t) => {
  const { send } = await start(t, { key: 'right', models: ['m', 'org/name:1'] })
  const headers = { 'x-goog-api-key': 'right' }
  const plain = { contents: [{ role: 'user', parts: [{ text: 'Hi' }] }] }
  const say = (...contents: unknown[]): object => ({ contents })
  const user = (...parts: unknown[]): object => ({ role: 'user', parts })
  const model = (...parts: unknown[]): object => ({ role: 'model', parts })
  const config = (generationConfig: object): object => ({ ...plain, generationConfig })
  const declare = (...functionDeclarations: object[]): object => ({ ...plain, tools: [{ functionDeclarations }] })
  const call = { functionCall: { name: 'f', args: {} } }
  const cases: [body: object, message: RegExp][] = [
    [{}, /contents is not specified/],
    [{ ...plain, stream: true }, /Unknown name "stream": Cannot find field/],
    [{ ...plain, messages: [] }, /Unknown name "messages"/],
    [say({ role: 'assistant', parts: [{ text: 'x' }] }), /use a valid role/],
    [say(user()), /parts must not be empty/],
    [say(user({ text: '' })), /text must not be empty/],
    [say(user({})), /required oneof field 'data'/],
    [say(user({ text: 'x', inlineData: {} })), /required oneof field 'data'/],
    [say(user({ text: 'x', type: 'text' })), /Unknown name "type" at/],
    [say(user({ inlineData: { mimeType: 'image/png', data: '%' } })), /Base64 decoding failed/],
    [say(user({ text: 'x' }), model({ text: 'y' })), /end with a user role/],
    [say(user({ text: 'x' }), model(call), user({ text: 'y' })), /number of function response parts/],
    [say(model(call), user({ functionResponse: { name: 'f', response: {} } })), /immediately after a user turn/],
    [
      say(user({ text: 'x' }), model(call), user({ functionResponse: { name: 'f', response: 'x' } })),
      /Expected an object/
    ],
    [config({ maxOutputTokens: 0 }), /maxOutputTokens/],
    [config({ temperature: 3 }), /temperature/],
    [config({ stopSequences: ['1', '2', '3', '4', '5', '6'] }), /stop_sequences/],
    [config({ max_tokens: 5 }), /Unknown name "max_tokens" at 'generation_config'/],
    [config({ responseSchema: { type: 'OBJECT' } }), /application\/json/],
    [
      config({ responseMimeType: 'application/json', responseSchema: { type: 'OBJECT' }, responseJsonSchema: {} }),
      /may not both/
    ],
    [config({ responseModalities: ['SMELL'] }), /modalities/],
    [declare({ name: '1st' }), /Invalid function name/],
    [
      declare({ name: 'f', parameters: { type: 'object', additionalProperties: false } }),
      /Unknown name "additionalProperties" at 'tools\[0\]\.function_declarations\[0\]\.parameters'/
    ],
    [declare({ name: 'f', parameters: { type: 'OBJECT', properties: { a: { $ref: '#' } } } }), /Unknown name "\$ref"/],
    [
      { ...declare(time), toolConfig: { functionCallingConfig: { allowedFunctionNames: ['get_time'] } } },
      /without a mode of ANY/
    ],
    [
      { ...declare(time), toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['x'] } } },
      /not declared/
    ],
    [request({ tokens: -1 }), /Simulator directive/]
  ]
  for (const [body, message] of cases) {
    const reply = await send(path, body, { headers })
    t.match(reply.json(), { error: { code: 400, message, status: 'INVALID_ARGUMENT' } }, String(message))
    t.equal(reply.status, 400)
    t.match(
      (await send(inChunks, body, { headers })).json(),
      [{ error: { code: 400, message } }],
      'as a list where the answer would be one'
    )
  }
  t.match((await send(inChunks, request({ status: 429 }), { headers })).json(), [
    { error: { code: 429, status: 'RESOURCE_EXHAUSTED' } }
  ])
  t.match((await send(`${inChunks}?alt=sse`, request({ status: 503 }), { headers })).json(), {
    error: { code: 503, status: 'UNAVAILABLE' }
  })
  for (const fine of [
    declare({
      name: 'f',
      parametersJsonSchema: { type: 'object', additionalProperties: false, properties: { a: { $ref: '#' } } }
    }),
    config({
      responseMimeType: 'application/json',
      responseSchema: { type: 'OBJECT', properties: { a: { type: 'STRING', nullable: true } } }
    }),
    {
      ...declare(time),
      tool_config: { function_calling_config: { mode: 'ANY', allowed_function_names: ['get_time'] } }
    },
    {
      ...plain,
      safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'OFF' }],
      system_instruction: { parts: [{ text: 'x' }] }
    }
  ])
    t.equal((await send(path, fine, { headers })).status, 200)

  t.match(await send(path, plain), { status: 400, text: /API_KEY_INVALID/ })
  t.equal((await send(`${path}?key=right`, plain)).status, 200)
  t.equal((await send('/v1beta/models/org%2Fname:1:generateContent', plain, { headers })).status, 200)
  t.match((await send('/v1beta/models/x:generateContent', plain, { headers })).json(), {
    error: { code: 404, status: 'NOT_FOUND', message: /models\/x is not found for API version v1beta/ }
  })
  t.match((await send('/v1beta/files', plain, { headers })).json(), { error: { status: 'NOT_FOUND' } })

  const list = (await send('/v1beta/models?pageSize=1', undefined, { headers })).json()
  t.match(list, { models: [{ name: 'models/m', supportedGenerationMethods: Array }], nextPageToken: '1' })
  t.match((await send('/v1/models?key=right&pageToken=1')).json(), { models: [{ name: 'models/org/name:1' }] })
  t.match((await send('/v1/models/m', undefined, { headers })).json(), { name: 'models/m' })
  t.equal(
    (await send('/v1/models/m:generateContent', plain, { headers: { ...headers, 'anthropic-version': '2023-06-01' } }))
      .status,
    200,
    'a verb is plain enough'
  )
})

t.test('a stream breaks off with an error of its own kind', async (t) => {
  const { send } = await start(t)
  const cut: Directive = { cut: 'error', after_events: 2 }
  const events = readEvents((await send(`${inChunks}?alt=sse`, request(cut))).body)
  t.match(JSON.parse(events.at(-1)!.data), { error: { code: 503, status: 'UNAVAILABLE' } })
  const elements = (await send(inChunks, request(cut))).json()
  t.equal(elements.length, 3)
  t.match(elements[2], { error: { code: 503 } })
  t.match((await send(inChunks, request({ cut: 'error' }))).json(), [{ error: { code: 503 } }])
  const open = readEvents((await send(`${inChunks}?alt=sse`, request({ done: false, tokens: 3 }))).body)
  t.notOk(open.some(({ data }) => data.includes('finishReason')))
  t.notMatch((await send(path, request({ usage: null, text: 'x' }))).text, /usageMetadata/)
})
