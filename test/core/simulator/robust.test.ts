// No request makes the simulator fail, whichever endpoint it is for: good ones in which something is replaced or left
// out.
import fc from 'fast-check'
import t from 'tap'
import { connect } from '../../kit/client.ts'
import { changed, placesOf, start } from './kit.ts'

const call = { id: 'c', name: 'f', args: { a: 1 } }
const schema = {
  type: 'object',
  properties: { a: { type: 'integer', minimum: 1 }, b: { type: 'array', items: { enum: ['x'] } } },
  required: ['a'],
  additionalProperties: false
}
const picture = { type: 'base64', media_type: 'image/png', data: 'AAAA' }

const bodies: Readonly<Record<string, object>> = {
  '/v1/chat/completions': {
    model: 'm',
    n: 2,
    stop: ['x'],
    max_tokens: 9,
    stream: true,
    stream_options: { include_usage: true },
    response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Hi [[simulator {"cached_tokens": 2}]]' },
          { type: 'image_url', image_url: { url: 'data:,' } }
        ]
      }
    ],
    tools: [{ type: 'function', function: { name: 'f', parameters: schema } }],
    tool_choice: { type: 'function', function: { name: 'f' } }
  },
  '/v1/completions': {
    model: 'm',
    prompt: ['a', 'b'],
    n: 1,
    best_of: 2,
    echo: true,
    max_tokens: 5,
    stop: 'x',
    logprobs: 1
  },
  '/v1/embeddings': { model: 'm', input: [[1, 2], [3]], dimensions: 4, encoding_format: 'base64' },
  '/v1/moderations': {
    model: 'm',
    input: [
      { type: 'text', text: 'hate' },
      { type: 'image_url', image_url: { url: 'data:,' } }
    ]
  },
  '/v1/rerank': { model: 'm', query: 'a b', documents: ['a', { text: 'b' }], top_n: 1, return_documents: true },
  '/v1/images/generations': {
    model: 'm',
    prompt: 'x',
    n: 2,
    size: '8x8',
    quality: 'low',
    output_format: 'webp',
    stream: true,
    partial_images: 1
  },
  '/v1/images/edits': { model: 'm', prompt: 'x', size: '8x8', images: [{ image_url: 'data:,' }, { file_id: 'f' }] },
  '/v1/audio/speech': {
    model: 'm',
    input: 'Hi [[simulator {"chunks": 2}]]',
    voice: { id: 'v' },
    response_format: 'opus',
    speed: 2,
    stream_format: 'sse'
  },
  '/v1/videos': {
    model: 'm',
    prompt: 'x [[simulator {"work_ms": 1, "later": [{"status": 500}]}]]',
    seconds: '4',
    size: '8x8'
  },
  '/v1/video/generations': { model: 'm', prompt: 'x', duration: 4, width: 8, height: 8 },
  '/v1/images/generations/async': { model: 'm', prompt: 'x', size: '8x8', n: 2 },
  '/v1/responses': {
    model: 'm',
    instructions: 'x',
    stream: true,
    background: false,
    store: true,
    text: { format: { type: 'json_schema', name: 'x', schema } },
    reasoning: { effort: 'low', summary: 'auto' },
    tools: [
      { type: 'function', name: 'f', parameters: schema },
      { type: 'custom', name: 'g' }
    ],
    tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'f' }] },
    include: ['reasoning.encrypted_content'],
    metadata: { a: 'b' },
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'x' },
          { type: 'input_image', image_url: 'data:,' }
        ]
      },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'y' }] },
      { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_text', text: 'z' }] }
    ]
  },
  '/v1/responses/compact': { model: 'm', input: [{ role: 'user', content: 'x' }] },
  '/v1/messages': {
    model: 'm',
    max_tokens: 2000,
    system: [{ type: 'text', text: 'x', cache_control: { type: 'ephemeral', ttl: '1h' } }],
    stream: true,
    stop_sequences: ['x'],
    metadata: { user_id: 'u' },
    thinking: { type: 'adaptive', display: 'omitted' },
    tools: [{ name: 'f', input_schema: schema }],
    tool_choice: { type: 'any' },
    output_config: { effort: 'low', format: { type: 'json_schema', schema } },
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'x' },
          { type: 'image', source: picture },
          { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'y' } }
        ]
      },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'f', input: {} }] },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'c', content: [{ type: 'text', text: 'z' }], is_error: false },
          { type: 'text', text: 'y' }
        ]
      }
    ]
  },
  '/v1beta/models/m:generateContent': {
    contents: [
      {
        role: 'user',
        parts: [
          { text: 'x' },
          { inlineData: { mimeType: 'image/png', data: 'AAAA' } },
          { fileData: { fileUri: 'files/x' } }
        ]
      },
      { role: 'model', parts: [{ functionCall: call }] },
      { role: 'user', parts: [{ functionResponse: { id: 'c', name: 'f', response: { output: 'z' } } }] }
    ],
    systemInstruction: { parts: [{ text: 'x' }] },
    tools: [
      {
        functionDeclarations: [
          { name: 'f', parameters: { type: 'OBJECT', properties: { a: { type: 'STRING', nullable: true } } } }
        ]
      }
    ],
    toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['f'] } },
    generationConfig: {
      maxOutputTokens: 50,
      candidateCount: 2,
      stopSequences: ['x'],
      responseMimeType: 'application/json',
      responseSchema: { type: 'OBJECT' },
      thinkingConfig: { includeThoughts: true, thinkingBudget: -1 }
    }
  },
  '/v1/models/m:streamGenerateContent': {
    contents: [{ parts: [{ text: 'x' }] }],
    generationConfig: { responseModalities: ['TEXT', 'IMAGE'] }
  },
  '/v1beta/models/m:batchEmbedContents': {
    requests: [{ model: 'models/m', content: { parts: [{ text: 'x' }] }, outputDimensionality: 4 }]
  }
}
/** What JavaScript can make no text of. */
const textless = { toString: 0 }

const headers = { 'anthropic-version': '2023-06-01' }

t.test('whatever is changed in a good request, it is answered or refused', async (t) => {
  const { url } = await start(t)
  const client = await connect(t, url)
  let n = 0
  const odd = fc.oneof(
    fc.constant(undefined),
    fc.constantFrom<unknown>(null, '', 0, -1, 1e9, [], {}, true, 'x', [[]], [{}], ['x'], { type: 'x' }),
    fc.jsonValue({ maxDepth: 2 })
  )
  for (const [path, body] of Object.entries(bodies)) {
    const whole = await client.send({ path, body, headers }).reply(n++)
    t.equal(whole.status, 200, `${path}: ${whole.text.slice(0, 300)}`)
    const places = placesOf(body)
    for (const place of places) {
      for (const other of [textless, [textless]]) {
        const reply = await client.send({ path, body: changed(body, place, other), headers }).reply(n++)
        t.ok([200, 400, 404].includes(reply.status), `${path}: ${JSON.stringify(other)} at ${place.join('.')}`)
      }
    }
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...places), odd, async (place, other) => {
        const reply = await client.send({ path, body: changed(body, place, other), headers }).reply(n++)
        return [200, 400, 404].includes(reply.status) && reply.complete
      }),
      { numRuns: 60 }
    )
  }
  t.ok(n > 60 * Object.keys(bodies).length)
})
