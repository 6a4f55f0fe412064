// What single members of requests become in Converse: labels, tools, media, cache points, budgets.
import t from 'tap'
import { codecs, upstreamCodecs } from '../../core/protocols/translation/codecs.ts'
import { Asked } from '../../core/protocols/translation/translation.ts'
import type { Traits } from '../../core/protocols/translation/translation.ts'

type Json = any

const user = (content: Json): Json => ({ role: 'user', content })
const chat = (content: Json, more: Json = {}): Json => ({ model: 'm', messages: [user(content)], ...more })

/** What Converse is sent for a chat request, and what was dropped. */
function converse(body: Json, traits: Traits = {}): Json {
  const made = new Asked(codecs['openai-chat'], body, { model: 'm', streaming: false }).for(upstreamCodecs.bedrock, {
    model: 'up',
    traits
  })
  return { ...JSON.parse(JSON.stringify(made.body)), dropped: made.dropped }
}

t.test('Converse is told the labels that it takes, and its own tiers', async (t) => {
  const labels = (count: number): Json => Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 'v']))
  t.match(converse(chat('Hi', { metadata: labels(16) })), { requestMetadata: labels(16), dropped: [] })
  t.strictSame(converse(chat('Hi', { metadata: labels(17) })).requestMetadata, labels(16))
  t.strictSame(converse(chat('Hi', { metadata: labels(17) })).dropped, ['metadata'])
  for (const wrong of [{ 'a?': 'v' }, { a: 'v?' }, { a: 1 }, { a: 'v'.repeat(257) }])
    t.match(converse(chat('Hi', { metadata: { ok: 'v', ...wrong } })), {
      requestMetadata: { ok: 'v' },
      dropped: ['metadata']
    })
  t.strictSame(converse(chat('Hi', { service_tier: 'flex' })).serviceTier, { type: 'flex' })
  const scale = converse(chat('Hi', { service_tier: 'scale' }))
  t.strictSame([scale.serviceTier, scale.dropped], [undefined, ['service_tier']])
})

t.test('Converse hears of tools that may not be called only what the conversation needs', async (t) => {
  const tools = ['f', 'g'].map((name) => ({ type: 'function', function: { name, parameters: { type: 'object' } } }))
  const none = converse(chat('Hi', { tools, tool_choice: 'none' }))
  t.strictSame([none.toolConfig, none.system], [undefined, undefined])
  const call = { id: 'a', type: 'function', function: { name: 'g', arguments: '{}' } }
  const messages = [
    user('Hi'),
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', tool_call_id: 'a', content: '1' }
  ]
  const called = converse({ model: 'm', messages, tools, tool_choice: 'none' })
  t.strictSame(called.toolConfig, { tools: [{ toolSpec: { name: 'g', inputSchema: { json: { type: 'object' } } } }] })
  t.match(called.system, [{ text: /not call/ }])
  t.strictSame(converse({ model: 'm', messages, tools, tool_choice: 'required' }).toolConfig.toolChoice, { any: {} })
  t.strictSame(converse({ model: 'm', messages, tools, tool_choice: 'auto' }).toolConfig.toolChoice, { auto: {} })
  t.strictSame(converse({ model: 'm', messages, tools }).toolConfig.toolChoice, undefined)
})

t.test('Converse knows media by their formats, or by the end of an address', async (t) => {
  const block = (url: string): Json =>
    converse(chat([{ type: 'image_url', image_url: { url } }])).messages[0].content[0]
  for (const [written, format] of [
    ['jpg', 'jpeg'],
    ['webp', 'webp'],
    ['GIF', 'gif']
  ])
    t.equal(block(`s3://b/x.${written}`).image.format, format)
  for (const url of ['s3://b/x', 's3://b/x.pdf'])
    t.throws(() => block(url), { code: 'invalid_field', param: 'messages' })
  const file = (mime: string): Json =>
    converse(chat([{ type: 'file', file: { filename: ' ', file_data: `data:${mime};base64,SGk=` } }])).messages[0]
      .content
  t.strictSame(file('text/x-log'), [
    { document: { format: 'txt', source: { bytes: 'SGk=' }, name: 'document-1' } },
    { text: '.' }
  ])
  t.equal(file('text/csv')[0].document.format, 'csv')
})

t.test('Converse is told of a cache for as long as was asked, once for a result', async (t) => {
  const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }
  const points = (onResult: Json, onPart: Json): Json => {
    const mark = (cache_control: Json): Json => cache_control && { cache_control }
    const result = { role: 'tool', tool_call_id: 'a', content: [{ type: 'text', text: '1', ...mark(onPart) }] }
    const { messages } = converse({
      model: 'm',
      messages: [user('Hi'), { role: 'assistant', content: null, tool_calls: [call] }, { ...result, ...mark(onResult) }]
    })
    return messages[2].content.slice(1).map(({ cachePoint }: Json) => cachePoint.ttl)
  }
  t.strictSame(points({ type: 'ephemeral', ttl: '5m' }, undefined), ['5m'])
  t.strictSame(points(undefined, { type: 'ephemeral', ttl: '1h' }), ['1h'])
  t.strictSame(points({ type: 'ephemeral', ttl: '5m' }, { type: 'ephemeral', ttl: '1h' }), ['5m'])
  t.strictSame(points({ type: 'ephemeral', ttl: '2h' }, undefined), [undefined])
  t.strictSame(points(undefined, undefined), [])
})

t.test('a budget leaves room for an answer, also where nobody said how long it may be', async (t) => {
  const told = (budget_tokens: number): Json =>
    converse(chat('Hi', { thinking: { type: 'enabled', budget_tokens } }), { thinking: 'budget' }).inferenceConfig
      .maxTokens
  t.equal(told(2000), 8192)
  t.equal(told(4096), 8192)
  t.equal(told(6000), 12_000)
})

t.test('JSON without a schema is asked of Converse in words, and only then', async (t) => {
  t.match(converse(chat('Hi', { response_format: { type: 'json_object' } })).system, [{ text: /JSON/ }])
  t.equal(converse(chat('Hi')).system, undefined)
})
