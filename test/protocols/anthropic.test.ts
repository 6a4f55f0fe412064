// What belongs to Messages alone: the catalogue in its form, what platforms want otherwise, the events that a platform
// wraps, and what the gateway sealed.
import t from 'tap'
import { anthropicModel, anthropicModels } from '../../core/protocols/anthropic/models.ts'
import { invokeBody, predictBody, predictCount } from '../../core/protocols/anthropic/platforms.ts'
import { protocols } from '../../core/protocols/index.ts'
import type { ListedModel } from '../../core/protocols/protocol.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import { told } from '../kit/decoded.ts'
import { eventFrame, exceptionFrame } from '../kit/event-stream.ts'

type Json = any

t.test('a model of the catalogue has its limits and the days of its end', async (t) => {
  const model: ListedModel = {
    name: 'm',
    ownedBy: 'o',
    created: 1,
    contextWindow: 1000,
    maxOutputTokens: 100,
    deprecated: undefined
  }
  const shown = {
    type: 'model',
    id: 'm',
    display_name: 'm',
    created_at: '1970-01-01T00:00:01Z',
    lifecycle: 'active',
    deprecated_at: null,
    retires_at: null,
    line: null,
    max_input_tokens: 1000,
    max_tokens: 100,
    capabilities: null
  }
  t.strictSame(anthropicModel(model, 0), shown)
  const bare = { ...model, contextWindow: undefined, maxOutputTokens: undefined }
  t.strictSame(anthropicModel(bare, 0), { ...shown, max_input_tokens: null, max_tokens: null })
  const ending = { since: 2000, sunset: 5000, replacement: undefined }
  for (const [now, lifecycle] of [
    [1999, 'active'],
    [2000, 'deprecated'],
    [4999, 'deprecated'],
    [5000, 'retired']
  ] as const)
    t.strictSame(anthropicModel({ ...model, deprecated: ending }, now), {
      ...shown,
      lifecycle,
      deprecated_at: '1970-01-01T00:00:02Z',
      retires_at: '1970-01-01T00:00:05Z'
    })
  t.match(anthropicModel({ ...model, deprecated: { ...ending, sunset: undefined } }, 9000), {
    lifecycle: 'deprecated',
    retires_at: null
  })
  t.match(anthropicModels([model, { ...model, name: 'n' }], true, 0), {
    data: [{ id: 'm' }, { id: 'n' }],
    has_more: true,
    first_id: 'm',
    last_id: 'n'
  })
  t.strictSame(anthropicModels([], false, 0), { data: [], has_more: false, first_id: null, last_id: null })
})

t.test('platforms are told the version in the body, and the model in the path', async (t) => {
  const sent = (write: typeof invokeBody, betas?: string): Json => {
    const members: Json = { model: 'm', stream: true, max_tokens: 1 }
    const headers: Record<string, string> = {
      'anthropic-version': '2023-06-01',
      ...(betas !== undefined && { 'anthropic-beta': betas })
    }
    const body = {
      json: (key: string): unknown => members[key],
      set: (key: string, value: unknown) => void (members[key] = value),
      remove: (key: string) => void delete members[key]
    }
    write(body, headers)
    return { members, headers }
  }
  const bedrock = { max_tokens: 1, anthropic_version: 'bedrock-2023-05-31' }
  t.strictSame(sent(invokeBody), { members: bedrock, headers: {} })
  t.strictSame(sent(invokeBody, 'a, b,,'), { members: { ...bedrock, anthropic_beta: ['a', 'b'] }, headers: {} })
  t.strictSame(sent(invokeBody, 'a').members.anthropic_beta, ['a'])
  t.strictSame(sent(invokeBody, ' , '), { members: bedrock, headers: {} })
  t.strictSame(sent(predictBody, 'a'), {
    members: { stream: true, max_tokens: 1, anthropic_version: 'vertex-2023-10-16' },
    headers: { 'anthropic-beta': 'a' }
  })
  t.strictSame(sent(predictCount, 'a'), {
    members: { model: 'm', stream: true, max_tokens: 1, anthropic_version: 'vertex-2023-10-16' },
    headers: { 'anthropic-beta': 'a' }
  })
})

t.test('events that come wrapped become those of the protocol, each in one line', async (t) => {
  const cut = (...frames: Buffer[]): string[][] => {
    const events: string[][] = []
    const cutter = protocols.anthropic.framing!.cutter((data, name, bytes) =>
      events.push([String(data), name, String(bytes)])
    )
    for (const one of frames) cutter.push(one)
    return events
  }
  const wrapped = (event: string): Buffer => eventFrame('chunk', { bytes: Buffer.from(event).toString('base64') })
  const framed = (data: string, name: string): string[] => [data, name, `event: ${name}\ndata: ${data}\n\n`]
  const ping = '{"type":"ping","text":"é"}'
  t.strictSame(cut(wrapped(ping)), [framed(ping, 'ping')])
  t.strictSame(cut(wrapped('{"a":1,"type":"ping"}')), [framed('{"a":1,"type":"ping"}', 'ping')])
  const long = 'x'.repeat(64)
  t.strictSame(cut(wrapped(`{"type":"${long}"}`)), [framed(`{"type":"${long}"}`, long)])
  for (const end of ['\n', '\r', '\r\n'])
    t.strictSame(cut(wrapped(`{"type":${end}"ping"}`)), [framed('{"type":"ping"}', 'ping')])
  const measured = `{"type":"message_stop","amazon-bedrock-invocationMetrics":{"a":1}}`
  t.strictSame(cut(wrapped(measured)), [framed('{"type":"message_stop"}', 'message_stop')])
  t.strictSame(cut(wrapped('[\n1]')), [framed('{}', '')])
  t.strictSame(cut(wrapped('[1]')), [framed('[1]', '')])
  const [error] = cut(exceptionFrame('throttlingException', 'Slow.'))
  t.match(JSON.parse(error![0]!), { __type: 'throttlingException', message: 'Slow.' })
  t.strictSame(error!.slice(1), ['error', error![0]])
  t.throws(() => cut(wrapped('none')), /is no JSON/)
  t.throws(() => cut(eventFrame('chunk', {})), /is no JSON/)
})

t.test('what the gateway sealed is taken out of a conversation that is passed on', async (t) => {
  const own = { type: 'thinking', thinking: 'a', signature: 's' }
  const sealed = { type: 'thinking', thinking: 'b', signature: 'sluice1.gemini.signature..s' }
  const hidden = { type: 'redacted_thinking', data: 'sluice1.openai.encrypted..s' }
  const text = { type: 'text', text: 'c', data: 'sluice1.x' }
  const without = (...messages: Json[]): Json => codecs.anthropic.withoutSealed!({ messages })
  const said = (...content: Json[]): Json => ({ role: 'assistant', content })
  const user = { role: 'user', content: 'Hi' }
  for (const kept of [[], [user], [user, said(own, text)], ['none'], [said('sluice1.', null)]])
    t.equal(without(...kept), undefined, JSON.stringify(kept))
  t.equal(codecs.anthropic.withoutSealed!({ messages: 'none' }), undefined)
  t.strictSame(without(user, said(own, sealed, hidden, text)), { key: 'messages', value: [user, said(own, text)] })
  t.strictSame(without(said(sealed, text)), { key: 'messages', value: [said(text)] })
  t.strictSame(without(user, said(sealed), user), { key: 'messages', value: [user, user] })
  t.strictSame(without(said(hidden)), { key: 'messages', value: [] })
})

t.test('a whole message tells only what it has', async (t) => {
  const read = (content: Json[], more: Json = {}): Json =>
    codecs.anthropic.decodeAnswer({ id: 'a', content, ...more }, '')
  const parts = (...content: Json[]): Json => read(content).candidates[0].parts
  t.throws(() => codecs.anthropic.decodeAnswer([], ''), /without content/)
  t.throws(() => codecs.anthropic.decodeAnswer({ content: 'a' }, ''), /without content/)
  t.strictSame(parts({ type: 'text', text: 'a' }), [{ type: 'text', text: 'a' }])
  t.strictSame(
    parts({
      type: 'text',
      text: 'ab',
      citations: [
        { url: 'https://a.example', title: 'A' },
        { source: 'https://b.example' },
        { url: 'none' },
        { url: 1 },
        {}
      ]
    }),
    [
      {
        type: 'text',
        text: 'ab',
        citations: [
          { url: 'https://a.example', title: 'A', start: 0, end: 2 },
          { url: 'https://b.example', title: '', start: 0, end: 2 }
        ]
      }
    ]
  )
  const proof = (kind: string): Json => ({ family: 'anthropic', kind, value: 's' })
  t.strictSame(
    parts(
      { type: 'thinking', thinking: 'a', signature: 's' },
      { type: 'redacted_thinking', data: 's' },
      { type: 'thinking', thinking: 'b' },
      { type: 'server_tool_use', id: 'a', name: 'f' }
    ),
    [
      { type: 'reasoning', text: 'a', proof: proof('signature') },
      { type: 'reasoning', text: '', proof: proof('redacted') },
      { type: 'reasoning', text: 'b' }
    ]
  )
  const call = { type: 'tool_use', id: 'a', name: 'f' }
  t.strictSame(parts(call), [{ type: 'tool_call', id: 'a', name: 'f', custom: false, input: '{}' }])
  for (const missing of [{ id: '' }, { name: '' }, { id: '', name: '' }])
    t.throws(() => parts({ ...call, ...missing }), /without a name or an id/)
  const usage = { input_tokens: 3, output_tokens: 2 }
  t.match(read([], { usage }), { id: 'a', usage: { input: 3, output: 2 } })
  t.equal(read([], { usage: { ...usage, input_tokens: -1 } }).usage, undefined)
  const finish = (more: Json, ...content: Json[]): Json => read(content, more).candidates[0].finish
  t.strictSame(finish({}), { reason: 'stop' })
  t.strictSame(finish({ stop_reason: 'end_turn' }, call, { type: 'text' }), { reason: 'tool_calls' })
  t.strictSame(finish({ stop_reason: 'stop_sequence', stop_sequence: '!' }), { reason: 'sequence', sequence: '!' })
  const refused = read([], { stop_reason: 'refusal', stop_details: { explanation: 'No.' } })
  t.strictSame(refused.candidates[0].parts, [{ type: 'refusal', text: 'No.' }])
})

t.test('a stream tells its usage, its end and the input of its calls only where they were said', async (t) => {
  const started = (usage?: Json): Json => ({ type: 'message_start', message: { id: 'm', usage } })
  const call = { type: 'content_block_start', content_block: { type: 'tool_use', id: 'a', name: 'f', input: {} } }
  const reason = (stop_reason: string): Json => ({ type: 'message_delta', delta: { stop_reason } })
  const read = (...events: Json[]): string[] => told('anthropic', [...events, { type: 'message_stop' }]).slice(1, -1)
  t.strictSame(read(started()), ['finish 0 stop'])
  t.strictSame(read(started({ input_tokens: -1, output_tokens: 1 })), ['finish 0 stop'])
  t.strictSame(read(started({ input_tokens: 1, output_tokens: 1 })), ['usage', 'finish 0 stop'])
  t.strictSame(read(started(), reason('max_tokens'), { type: 'message_delta', delta: {} }), ['finish 0 length'])
  t.strictSame(read(started(), call), ['open 0/0 tool_call a f', 'close 0', 'finish 0 tool_calls'])
  const input = { type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: '{}' } }
  t.strictSame(read(started(), call, input)[1], '0: {}', 'a block without a number is the first')
})
