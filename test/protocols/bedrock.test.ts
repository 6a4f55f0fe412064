// Converse as the protocol of a channel: what clients of all protocols get of it, and what it is sent for them.
import { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { converseCodec } from '../../core/protocols/bedrock/codec.ts'
import { bedrock } from '../../core/protocols/bedrock/protocol.ts'
import type { Codec } from '../../core/protocols/canonical/codec.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import type { CodecName } from '../../core/protocols/translation/codecs.ts'
import { Asked, translateAnswer } from '../../core/protocols/translation/translation.ts'
import type { AnswerPlan, Traits } from '../../core/protocols/translation/translation.ts'
import { Message } from '../../core/contract/message.ts'
import { answerHead, answers, readStream, translateStream } from '../kit/conversations.ts'
import { converseAnswer, converseBytes, converseEvents, converseMessages } from '../kit/converse.ts'
import type { ConverseEvent } from '../kit/converse.ts'

type Json = Record<string, any>

const runs = { numRuns: process.env['SLUICE_LONG'] === '1' ? 20_000 : 80 }
const means = { proofs: 'bedrock', refusals: false, images: true } as const
const names = Object.keys(codecs) as CodecName[]

const asking: Readonly<Record<CodecName, Json>> = {
  'openai-chat': { model: 'm', messages: [{ role: 'user', content: 'Hi' }] },
  'openai-responses': { model: 'm', input: 'Hi', reasoning: { summary: 'auto' } },
  anthropic: { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }] },
  gemini: {
    contents: [{ role: 'user', parts: [{ text: 'Hi' }] }],
    generationConfig: { thinkingConfig: { includeThoughts: true } }
  }
}

const planOf = (client: CodecName): AnswerPlan =>
  new Asked(codecs[client], asking[client], { model: 'm', streaming: true }).for(converseCodec, {
    model: 'm',
    traits: {}
  }).answer

/** What a client's request becomes. */
function sent(client: CodecName, body: Json, traits: Traits = {}): { body: Json; dropped: string[] } {
  const { body: made, dropped } = new Asked(codecs[client], body, { model: 'm', streaming: true }).for(converseCodec, {
    model: 'm',
    traits
  })
  return { body: JSON.parse(JSON.stringify(made)) as Json, dropped }
}

/** The events that a cutter makes of the bytes in these pieces. */
function cut(...chunks: readonly Buffer[]): Message[] {
  const events: Message[] = []
  const cutter = bedrock.framing!.cutter((data, name, bytes) => events.push(new Message('event', bytes, data, name)))
  for (const chunk of chunks) cutter.push(chunk)
  cutter.close()
  return events
}

/** Whether a stream is whole, as the gateway sees it. */
function isWhole(events: readonly Message[]): boolean {
  const watch = bedrock.watch({} as never)
  for (const event of events) if (['error', 'invalid'].includes(watch.see(event))) return false
  return watch.finished
}

t.test('what is streamed is what is answered whole, in pieces of any size', async (t) => {
  const property = fc.property(answers(means), fc.integer({ min: 1, max: 9 }), (answer, piece) => {
    const events = cut(converseBytes(converseEvents(answer, piece)))
    deepStrictEqual(
      { ...readStream(converseCodec as Codec, events), id: '' },
      converseCodec.decodeAnswer(converseAnswer(answer), answerHead.id)
    )
    deepStrictEqual(isWhole(events), true)
  })
  t.doesNotThrow(() => fc.assert(property, runs))
})

t.test('the events put together are the whole, and the other way round', async (t) => {
  const property = fc.property(answers({ ...means, proofs: undefined }), (answer) => {
    const whole = converseAnswer(answer)
    const collected = (payloads: readonly unknown[]): unknown => {
      const collector = bedrock.collect()
      for (const payload of payloads) collector.add(payload)
      return (JSON.parse(JSON.stringify(collector.result())) as Json)['output']
    }
    deepStrictEqual(collected(converseEvents(answer).map(([, payload]) => payload)), whole['output'])
    deepStrictEqual(collected(bedrock.chunksOf(whole).map((text) => JSON.parse(text) as unknown)), whole['output'])
    const named = bedrock.chunksOf(whole).map((text) => Message.event(text, bedrock.eventName!(text)))
    deepStrictEqual(isWhole(named), true)
  })
  t.doesNotThrow(() => fc.assert(property, runs))
})

for (const client of names) {
  t.test(`a client of ${client} gets the same streamed and whole`, async (t) => {
    const plan = planOf(client)
    const property = fc.property(answers(means), (answer) => {
      const { body } = translateAnswer(plan, converseAnswer(answer), answerHead)
      const stream = translateStream(plan, converseMessages(converseEvents(answer)))
      deepStrictEqual(readStream(codecs[client], stream), codecs[client].decodeAnswer(body, answerHead.id))
    })
    t.doesNotThrow(() => fc.assert(property, runs))
  })
}

t.test('a stream that is cut anywhere between two events is not whole', async (t) => {
  const property = fc.property(answers(means), (answer) => {
    const events = converseEvents(answer)
    for (let count = 0; count < events.length; count++) {
      const messages = converseMessages(events.slice(0, count))
      deepStrictEqual(isWhole(messages), false)
      for (const client of names) {
        let ended = true
        try {
          translateStream(planOf(client), messages)
        } catch {
          ended = false
        }
        deepStrictEqual(ended, false)
      }
    }
  })
  t.doesNotThrow(() => fc.assert(property, { numRuns: 10 }))
})

const weather: ConverseEvent[] = [
  ['messageStart', { role: 'assistant', p: 'abcd' }],
  ['contentBlockDelta', { contentBlockIndex: 0, delta: { reasoningContent: { text: 'Wörter, ' } }, p: 'a' }],
  ['contentBlockDelta', { contentBlockIndex: 0, delta: { reasoningContent: { text: '漢字 😀' } } }],
  ['contentBlockDelta', { contentBlockIndex: 0, delta: { reasoningContent: { signature: 'c2ln' } } }],
  ['contentBlockStop', { contentBlockIndex: 0 }],
  ['contentBlockDelta', { contentBlockIndex: 1, delta: { text: 'Let me look.' } }],
  ['contentBlockStop', { contentBlockIndex: 1 }],
  ['contentBlockStart', { contentBlockIndex: 2, start: { toolUse: { toolUseId: 't1', name: 'weather' } } }],
  ['contentBlockDelta', { contentBlockIndex: 2, delta: { toolUse: { input: '{"id":12345678901234567890,' } } }],
  ['contentBlockDelta', { contentBlockIndex: 2, delta: { toolUse: { input: '"city":"Ulm"}' } } }],
  ['contentBlockStop', { contentBlockIndex: 2 }],
  ['contentBlockStart', { contentBlockIndex: 3, start: { toolUse: { toolUseId: 't2', name: 'now' } } }],
  ['contentBlockStop', { contentBlockIndex: 3 }],
  ['messageStop', { stopReason: 'tool_use' }],
  [
    'metadata',
    {
      usage: {
        inputTokens: 10,
        outputTokens: 7,
        totalTokens: 77,
        cacheReadInputTokens: 20,
        cacheWriteInputTokens: 40,
        cacheDetails: [
          { ttl: '5m', inputTokens: 10 },
          { ttl: '1h', inputTokens: 30 }
        ]
      },
      metrics: { latencyMs: 5 }
    }
  ]
]

t.test('thoughts, text and calls reach every client, at every byte that the stream is cut at', async (t) => {
  const bytes = converseBytes(weather)
  const events = cut(bytes)
  const shown = (list: readonly Message[]): string =>
    list.map(({ event, data }) => `${event} ${data.toString()}`).join('\n')
  const whole = shown(events)
  for (let at = 1; at < bytes.length; at++)
    if (shown(cut(bytes.subarray(0, at), bytes.subarray(at))) !== whole) t.fail(`cut at ${at}`)
  for (const client of names) {
    const { candidates, usage } = readStream(codecs[client], translateStream(planOf(client), events))
    const said = candidates[0]!.parts.map((part) => (part.type === 'tool_call' ? [part.name, part.input] : [part.type]))
    t.strictSame(
      said.slice(-3),
      [['text'], ['weather', '{"id":12345678901234567890,"city":"Ulm"}'], ['now', '{}']],
      client
    )
    t.equal(candidates[0]!.finish.reason, 'tool_calls', client)
    t.match(usage, { cached_input: 20, output: 7 }, client)
  }
  t.same(bedrock.readUsage(events.at(-1)!), {
    input: 10,
    cached_input: 20,
    cache_write: 10,
    cache_write_long: 30,
    output: 7,
    reasoning: 0
  })
  t.equal(bedrock.answerBytes(weather[5]![1]), 'Let me look.'.length, 'the filler is no text')
})

t.test('what ends a Converse answer ends it for every client', async (t) => {
  const stops: Readonly<Record<string, string>> = {
    end_turn: 'stop',
    stop_sequence: 'stop',
    max_tokens: 'length',
    model_context_window_exceeded: 'length',
    guardrail_intervened: 'content_filter',
    content_filtered: 'content_filter'
  }
  for (const [stopReason, reason] of Object.entries(stops)) {
    const answer = { output: { message: { role: 'assistant', content: [{ text: 'Hm.' }] } }, stopReason }
    const { body } = translateAnswer(planOf('openai-chat'), answer, answerHead)
    t.match(body, { choices: [{ finish_reason: reason }] }, stopReason)
  }
  for (const stopReason of ['malformed_model_output', 'malformed_tool_use'])
    t.throws(
      () => translateAnswer(planOf('anthropic'), { output: { message: { content: [] } }, stopReason }, answerHead),
      { code: 'upstream_bad_response' },
      stopReason
    )
})

t.test('thoughts of Converse come back to it as they were, and those of others do not', async (t) => {
  const events = cut(converseBytes(weather))
  const thoughts = { reasoningContent: { reasoningText: { text: 'Wörter, 漢字 😀', signature: 'c2ln' } } }
  const stream = readStream(codecs.anthropic, translateStream(planOf('anthropic'), events))
  const content = codecs.anthropic.encodeAnswer(stream, answerHead)['content'] as Json[]
  const results = content
    .filter(({ type }) => type === 'tool_use')
    .map(({ id }) => ({ type: 'tool_result', tool_use_id: id as string, content: '21 degrees', is_error: true }))
  const { body } = sent('anthropic', {
    model: 'm',
    max_tokens: 100,
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content },
      { role: 'user', content: results }
    ]
  })
  t.strictSame(body['messages'][1].content[0], thoughts)
  t.match(body['messages'][2].content[0], {
    toolResult: { toolUseId: 't1', content: [{ text: '21 degrees' }], status: 'error' }
  })
  t.match(
    body['toolConfig'],
    { tools: [{ toolSpec: { name: 'weather' } }, { toolSpec: { name: 'now' } }] },
    'calls are not taken without their tools'
  )
  t.match(body['system'], [{ text: 'Do not call any tool.' }])
  const others = sent('anthropic', {
    model: 'm',
    max_tokens: 100,
    messages: [
      { role: 'user', content: 'Hi' },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'Hm', signature: 'theirs' },
          { type: 'text', text: 'a' }
        ]
      },
      { role: 'user', content: 'b' }
    ]
  })
  t.strictSame(others.body['messages'][1].content, [{ text: 'a' }])
  t.strictSame(others.dropped, ['messages.content.thinking'])
})

t.test('a request with all that Converse can be told', async (t) => {
  const { body, dropped } = sent(
    'anthropic',
    {
      model: 'm',
      max_tokens: 2000,
      temperature: 0.5,
      stop_sequences: ['END', ' '],
      system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral', ttl: '1h' } }],
      tools: [
        { name: 'weather', description: '', input_schema: { type: 'object' }, cache_control: { type: 'ephemeral' } }
      ],
      tool_choice: { type: 'tool', name: 'weather' },
      messages: [
        {
          role: 'user',
          content: [
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } },
            {
              type: 'document',
              title: 'Ledger',
              source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' }
            },
            { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'Hi' } },
            { type: 'text', text: ' ' },
            { type: 'text', text: 'Look.', cache_control: { type: 'ephemeral' } }
          ]
        }
      ]
    },
    { guardrail: 'arn:aws:bedrock:us-east-1:1:guardrail/g:3' }
  )
  t.strictSame(body, {
    messages: [
      {
        role: 'user',
        content: [
          { image: { format: 'png', source: { bytes: 'iVBORw0KGgo=' } } },
          { text: 'Ledger:' },
          { document: { format: 'pdf', source: { bytes: 'JVBERi0=' }, name: 'document-1' } },
          { document: { format: 'txt', source: { bytes: 'SGk=' }, name: 'document-2' } },
          { text: 'Look.' },
          { cachePoint: { type: 'default' } }
        ]
      }
    ],
    system: [{ text: 'Be brief.' }, { cachePoint: { type: 'default', ttl: '1h' } }],
    inferenceConfig: { maxTokens: 2000, temperature: 0.5, stopSequences: ['END'] },
    toolConfig: {
      tools: [
        { toolSpec: { name: 'weather', inputSchema: { json: { type: 'object' } } } },
        { cachePoint: { type: 'default' } }
      ],
      toolChoice: { tool: { name: 'weather' } }
    },
    guardrailConfig: { guardrailIdentifier: 'arn:aws:bedrock:us-east-1:1:guardrail/g', guardrailVersion: '3' }
  })
  t.strictSame(dropped, ['stop_sequences'])
})

t.test('how much to think is told in a word or a budget, and a schema as text', async (t) => {
  const chat = {
    model: 'm',
    messages: [{ role: 'user', content: 'Hi' }],
    temperature: 1,
    max_completion_tokens: 10_000
  }
  const schema = { type: 'object', properties: { a: { type: 'string' } } }
  const format = { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } }
  const word = sent('openai-chat', { ...chat, reasoning_effort: 'minimal', response_format: format })
  t.match(word.body, {
    outputConfig: {
      effort: 'low',
      textFormat: {
        type: 'json_schema',
        structure: {
          jsonSchema: { name: 'answer', schema: JSON.stringify({ ...schema, additionalProperties: false }) }
        }
      }
    },
    inferenceConfig: { maxTokens: 10_000 }
  })
  t.strictSame(word.dropped, ['temperature'])
  const budget = sent('openai-chat', { ...chat, reasoning_effort: 'medium' }, { thinking: 'budget' })
  t.strictSame(budget.body['additionalModelRequestFields'], { thinking: { type: 'enabled', budget_tokens: 3000 } })
  t.strictSame(budget.body['inferenceConfig'], { maxTokens: 10_000 }, 'and then not how to sample')
  t.strictSame(budget.dropped, ['temperature'])
})

t.test('models with a budget think only where the calls before have thoughts that they signed', async (t) => {
  const thoughts = { reasoningContent: { reasoningText: { text: 'Hm', signature: 'c2ln' } } }
  const call = { toolUse: { toolUseId: 'call_1', name: 'look', input: {} } }
  const said = {
    output: { message: { role: 'assistant', content: [thoughts, call] } },
    stopReason: 'tool_use',
    usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 }
  }
  const answered = translateAnswer(planOf('anthropic'), said, answerHead).body as Json
  const asked = (content: unknown, more: readonly Json[] = []): ReturnType<typeof sent> =>
    sent(
      'anthropic',
      {
        model: 'm',
        max_tokens: 10_000,
        temperature: 0.5,
        thinking: { type: 'enabled', budget_tokens: 2000 },
        tools: [{ name: 'look', input_schema: { type: 'object' } }],
        messages: [
          { role: 'user', content: 'Hi' },
          { role: 'assistant', content },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: 'Found' }] },
          ...more
        ]
      },
      { thinking: 'budget' }
    )
  const thinking = { thinking: { type: 'enabled', budget_tokens: 2000 } }
  const bare = answered['content'].filter(({ type }: Json) => type === 'tool_use')
  t.strictSame(asked(answered['content']).body['additionalModelRequestFields'], thinking)
  const without = asked(bare)
  t.equal(without.body['additionalModelRequestFields'], undefined, 'calls without thoughts are refused beside it')
  t.strictSame(without.body['inferenceConfig'], { maxTokens: 10_000, temperature: 0.5 })
  t.ok(without.dropped.length > 0, 'which is told')
  const later = [
    { role: 'assistant', content: 'Done' },
    { role: 'user', content: 'And now?' }
  ]
  t.strictSame(asked(bare, later).body['additionalModelRequestFields'], thinking, 'what is behind the user is past')
})

t.test('addresses are those of S3, and files are of a known type', async (t) => {
  const picture = (url: string): Json => ({
    model: 'm',
    messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }]
  })
  t.throws(() => sent('openai-chat', picture('https://example.com/a.png')), {
    code: 'unsupported_parameter',
    param: 'messages[0].content[0]'
  })
  t.match(sent('openai-chat', picture('s3://bucket/a.JPG')).body['messages'][0].content, [
    { image: { format: 'jpeg', source: { s3Location: { uri: 's3://bucket/a.JPG' } } } }
  ])
  t.throws(() => sent('openai-chat', picture('data:image/tiff;base64,AAAA')), {
    code: 'invalid_field',
    message: /webp/
  })
})

t.test('errors of AWS are read by their names, wherever these stand', async (t) => {
  const named = bedrock.readError(
    { message: 'Slow down' },
    { 'x-amzn-errortype': 'ThrottlingException:http://internal/' }
  )
  t.match(named, { message: 'Slow down', code: 'ThrottlingException', status: 429 })
  t.match(bedrock.readError({ __type: 'com.amazon.coral#ValidationException', Message: 'Input is too long.' }), {
    code: 'context_length_exceeded',
    status: 400
  })
  t.match(bedrock.readError({ __type: 'modelStreamErrorException', message: 'x' }), { status: 502 })
  t.match(bedrock.readError({ message: 'plain' }), { message: 'plain', code: undefined })
})

t.test('hidden thoughts are kept, whether they come in one piece or in several', (t) => {
  for (const pieces of [['AAEC'], ['AA==', 'AQI=']]) {
    const { candidates } = readStream(
      converseCodec as Codec,
      converseMessages([
        ['messageStart', { role: 'assistant' }],
        ...pieces.map((redactedContent): ConverseEvent => [
          'contentBlockDelta',
          { contentBlockIndex: 0, delta: { reasoningContent: { redactedContent } } }
        ]),
        ['contentBlockStop', { contentBlockIndex: 0 }],
        ['messageStop', { stopReason: 'end_turn' }],
        ['metadata', {}]
      ])
    )
    t.match(candidates[0]!.parts, [{ type: 'reasoning', text: '', proof: { kind: 'redacted', value: 'AAEC' } }])
  }
  t.end()
})

t.test('usage that comes before the answer has stopped ends no stream', (t) => {
  const decoder = converseCodec.decodeStream(answerHead.id)
  const events: ConverseEvent[] = [
    ['messageStart', { role: 'assistant' }],
    ['contentBlockDelta', { contentBlockIndex: 0, delta: { text: 'Half' } }],
    ['metadata', { usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 } }]
  ]
  for (const event of converseMessages(events)) decoder.push(event, () => {})
  t.notOk(decoder.finished())
  t.throws(() => decoder.end(() => {}), { code: 'upstream_bad_response' })
  t.end()
})
