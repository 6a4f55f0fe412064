// What is read of answers of Converse, whole, streamed and framed, and how Bedrock is asked to count tokens.
import t from 'tap'
import { converseTokens, countTarget, invokeTokens } from '../../core/protocols/bedrock/count.ts'
import { Message } from '../../core/contract/message.ts'
import { protocols } from '../../core/protocols/index.ts'
import { upstreamCodecs } from '../../core/protocols/translation/codecs.ts'
import { told } from '../kit/decoded.ts'
import { eventFrame, exceptionFrame } from '../kit/event-stream.ts'

type Json = any

const read = (content: Json, more: Json = {}): Json =>
  upstreamCodecs.bedrock.decodeAnswer({ output: { message: { content } }, ...more }, '')

t.test('a whole answer tells only what it has', async (t) => {
  const parts = (...content: Json[]): Json => read(content).candidates[0].parts
  for (const none of [[], {}, { output: {} }, { output: { message: {} } }, { output: { message: { content: 'a' } } }])
    t.throws(() => upstreamCodecs.bedrock.decodeAnswer(none, ''), /without content/)
  const proof = (kind: string): Json => ({ family: 'bedrock', kind, value: 's' })
  const page = (url: string): Json => ({ title: 'A', location: { web: { url } } })
  const call = { toolUseId: 'a', name: 'f' }
  const made = { type: 'tool_call', id: 'a', name: 'f', custom: false }
  for (const [block, part] of [
    [{ text: '' }, { type: 'text', text: '' }],
    [{ toolUse: { ...call, input: { a: 1 } } }, { ...made, input: '{"a":1}' }],
    [{ toolUse: call }, { ...made, input: '{}' }],
    [{ toolUse: { ...call, type: 'server_tool_use' } }, undefined],
    [{ reasoningContent: { reasoningText: { text: 'a' } } }, { type: 'reasoning', text: 'a' }],
    [
      { reasoningContent: { reasoningText: { text: 'a', signature: 's' } } },
      { type: 'reasoning', text: 'a', proof: proof('signature') }
    ],
    [{ reasoningContent: { redactedContent: 's' } }, { type: 'reasoning', text: '', proof: proof('redacted') }],
    [
      {
        citationsContent: {
          content: [{ text: 'a' }, { text: 'b' }],
          citations: [page('https://a.example'), page('none'), {}]
        }
      },
      { type: 'text', text: 'ab', citations: [{ url: 'https://a.example', title: 'A', start: 0, end: 2 }] }
    ],
    [{ citationsContent: { content: [{ text: 'a' }] } }, { type: 'text', text: 'a' }],
    [
      { image: { format: 'jpeg', source: { bytes: 'AAAA' } } },
      { type: 'image', source: { kind: 'data', mimeType: 'image/jpeg', data: 'AAAA' } }
    ],
    [
      { image: { source: { bytes: 'AAAA' } } },
      { type: 'image', source: { kind: 'data', mimeType: 'image/png', data: 'AAAA' } }
    ],
    [{ image: { format: 'png', source: { s3Location: {} } } }, undefined],
    [{ toolResult: {} }, undefined]
  ] as [Json, Json][])
    t.strictSame(parts(block), part ? [part] : [], JSON.stringify(block))
  for (const missing of [{ toolUseId: '' }, { name: '' }, { toolUseId: '', name: '' }])
    t.throws(() => parts({ toolUse: { ...call, ...missing } }), /without a name or an id/)
  const usage = { inputTokens: 3, outputTokens: 2, totalTokens: 5 }
  t.match(read([], { usage }).usage, { input: 3, output: 2 })
  t.equal(read([], { usage: { ...usage, inputTokens: -1 } }).usage, undefined)
  const finish = (content: Json[], stopReason?: string): Json => read(content, { stopReason }).candidates[0].finish
  t.strictSame(finish([]), { reason: 'stop' })
  t.strictSame(finish([], ''), { reason: 'stop' })
  t.strictSame(finish([{ toolUse: call }, { text: 'a' }], 'end_turn'), { reason: 'tool_calls' })
  t.strictSame(finish([{ text: 'a' }], 'end_turn'), { reason: 'stop' })
  t.strictSame(finish([], 'max_tokens'), { reason: 'length' })
})

const at = (more: Json, contentBlockIndex?: number): Json => ({ ...more, contentBlockIndex })

t.test('a stream tells what was said of each block, and why it failed', async (t) => {
  const stream = (events: Json[], stopReason = 'end_turn', usage?: Json): string[] =>
    told('bedrock', [{ role: 'assistant' }, ...events, { stopReason }, { usage, metrics: {} }]).slice(1)
  const ended = ['finish 0 stop', 'end']
  t.strictSame(stream([]), ended)
  t.strictSame(stream([], 'max_tokens'), ['finish 0 length', 'end'])
  t.strictSame(stream([], 'end_turn', { inputTokens: -1, outputTokens: 1, totalTokens: 0 }), ended)
  t.strictSame(stream([], 'end_turn', { inputTokens: 1, outputTokens: 1, totalTokens: 2 }), ['usage', ...ended])
  t.strictSame(stream([{ __type: 'A', message: 'No.' }]), ['refused: No.'])
  t.strictSame(stream([{ __type: 'A' }]), ['refused: The upstream reported an error.'])
  const hosted = at({ start: { toolUse: { toolUseId: 'a', name: 'f', type: 'server_tool_use' } } }, 0)
  t.strictSame(stream([hosted, at({ delta: { toolUse: { input: '{}' } } }, 0), at({}, 0)]), ended)
  const citation = at({ delta: { citation: { location: { web: { url: 'https://a.example' } } } } }, 0)
  t.strictSame(stream([citation, at({}, 0)]), ended, 'a citation of no text')
  const call = at({ start: { toolUse: { toolUseId: 'a', name: 'f' } } })
  const input = at({ delta: { toolUse: { input: '{}' } } }, 0)
  t.strictSame(stream([call, input])[1], '0: {}', 'a block without a number is the first')
})

t.test('frames of events and of failures are told apart', async (t) => {
  const events: string[][] = []
  const cutter = protocols.bedrock.framing!.cutter((data, name, bytes) => {
    t.equal(data, bytes)
    events.push([name, String(data)])
  })
  cutter.push(
    Buffer.concat([eventFrame('messageStart', { role: 'a' }), exceptionFrame('throttlingException', 'Slow.')])
  )
  t.strictSame(events[0], ['messageStart', '{"role":"a"}'])
  t.equal(events[1]![0], 'error')
  t.match(JSON.parse(events[1]![1]!), { __type: 'throttlingException', message: 'Slow.' })
})

t.test('vectors are charged by the tokens that the answers tell', async (t) => {
  const usage = (heads: Json): unknown =>
    protocols['bedrock-embed'].readUsage(new Message('json', Buffer.from(JSON.stringify({ answers: [], heads }))))
  t.match(usage([{ 'x-amzn-bedrock-input-token-count': '3' }]), { input: 3, output: 0 })
  t.equal(usage([{}]), undefined)
})

t.test('tokens are counted of what is sent, at the model itself', async (t) => {
  t.equal(countTarget('eu.anthropic.claude:0'), '/model/anthropic.claude%3A0/count-tokens')
  t.equal(countTarget('anthropic.claude'), '/model/anthropic.claude/count-tokens')
  const asked = (count: typeof converseTokens, body: Record<string, Json>): Json => {
    const members = new Map(Object.entries(body).map(([key, value]) => [key, Buffer.from(JSON.stringify(value))]))
    let sent = ''
    count({
      raw: (key) => members.get(key),
      set: (key, value) => void members.set(key, Buffer.from(JSON.stringify(value))),
      render: () => [
        Buffer.from('{'),
        ...[...members].map(([key, value], at) => Buffer.from(`${at > 0 ? ',' : ''}"${key}":${String(value)}`)),
        Buffer.from('}')
      ],
      replace: (bytes) => void (sent = String(bytes))
    })
    return JSON.parse(sent)
  }
  t.strictSame(asked(converseTokens, { inferenceConfig: {}, system: [1], messages: [2] }), {
    input: { converse: { messages: [2], system: [1] } }
  })
  t.strictSame(asked(converseTokens, { toolConfig: { a: 1 } }), { input: { converse: { toolConfig: { a: 1 } } } })
  t.strictSame(asked(converseTokens, {}), { input: { converse: {} } })
  const invoked = (body: Json): Json => {
    const { input } = asked(invokeTokens, body)
    return JSON.parse(Buffer.from(input.invokeModel.body, 'base64').toString())
  }
  t.strictSame(invoked({ messages: [] }), { messages: [], max_tokens: 1 })
  t.strictSame(invoked({ max_tokens: 5 }), { max_tokens: 5 })
})
