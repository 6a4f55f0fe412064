// Answers of upstreams that mean harm or have lost their way: nested, repeated and grown without end.
import t from 'tap'
import { Message } from '../../core/contract/message.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import type { CodecName } from '../../core/protocols/translation/codecs.ts'
import { protocols } from '../../core/protocols/index.ts'
import type { Payload } from '../../core/protocols/protocol.ts'
import { translateRequest } from '../../core/protocols/translation/request-bytes.ts'
import { Asked, parseAnswer, StreamTranslation, translateAnswer } from '../../core/protocols/translation/translation.ts'
import type { AnswerPlan } from '../../core/protocols/translation/translation.ts'
import { answerHead } from '../kit/conversations.ts'

type Json = any

const names = Object.keys(codecs) as CodecName[]
const asked: Readonly<Record<CodecName, Record<string, unknown>>> = {
  'openai-chat': { model: 'm', messages: [{ role: 'user', content: 'Hi' }] },
  'openai-responses': { model: 'm', input: 'Hi', reasoning: { summary: 'auto' } },
  anthropic: { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }] },
  gemini: {
    contents: [{ role: 'user', parts: [{ text: 'Hi' }] }],
    generationConfig: { thinkingConfig: { includeThoughts: true } }
  }
}
const planOf = (client: CodecName, upstream: CodecName): AnswerPlan =>
  new Asked(codecs[client], asked[client], { model: 'm', streaming: true }).for(codecs[upstream], {
    model: 'up',
    traits: {}
  }).answer
const others = (upstream: CodecName): CodecName[] => names.filter((name) => name !== upstream)

/** Brings a stream to a client, to its end if it comes there; returns what the client has by then. */
function stream(client: CodecName, upstream: CodecName, events: Iterable<string>): string {
  const written: string[] = []
  const translation = new StreamTranslation(planOf(client, upstream), answerHead, (data) => written.push(data))
  for (const event of events) translation.push(Message.event(event))
  translation.end()
  return written.join('\n')
}

const whole = (client: CodecName, upstream: CodecName, text: string): string =>
  JSON.stringify(translateAnswer(planOf(client, upstream), parseAnswer(text), answerHead).body)
const nested = (depth: number, inner = '1'): string => `{"a":${'['.repeat(depth - 1)}${inner}${']'.repeat(depth - 1)}}`

/** An answer that calls a tool with these arguments, JSON text, whole and as the events of a stream. */
const calling: Readonly<Record<CodecName, (args: string) => { whole: string; events: string[] }>> = {
  'openai-chat': (args) => ({
    whole: `{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":${args}}}]},"finish_reason":"tool_calls"}]}`,
    events: [
      `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":${JSON.stringify(args)}}}]},"finish_reason":"tool_calls"}]}`
    ]
  }),
  'openai-responses': (args) => {
    const item = `{"type":"function_call","id":"fc_1","call_id":"a","name":"f","arguments":${JSON.stringify(args)}}`
    const response = `{"status":"completed","output":[${item}]}`
    return {
      whole: response,
      events: [
        `{"type":"response.created","response":{}}`,
        `{"type":"response.output_item.done","output_index":0,"item":${item}}`,
        `{"type":"response.completed","response":${response}}`
      ]
    }
  },
  anthropic: (args) => {
    const block = `{"type":"tool_use","id":"a","name":"f","input":${args}}`
    return {
      whole: `{"content":[${block}],"stop_reason":"tool_use"}`,
      events: [
        '{"type":"message_start","message":{}}',
        `{"type":"content_block_start","index":0,"content_block":${block}}`,
        '{"type":"content_block_stop","index":0}',
        '{"type":"message_delta","delta":{"stop_reason":"tool_use"}}',
        '{"type":"message_stop"}'
      ]
    }
  },
  gemini: (args) => {
    const chunk = `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":${args}}}]},"finishReason":"STOP"}]}`
    return { whole: chunk, events: [chunk] }
  }
}

t.test('arguments that are nested without end are an error of the upstream, and no overflow of ours', async (t) => {
  for (const upstream of names) {
    for (const client of others(upstream)) {
      const way = `${upstream} to ${client}`
      const deepest = calling[upstream](nested(500))
      t.match(whole(client, upstream, deepest.whole), /\[\[\[/, `${way}: as deep as requests may be`)
      t.match(stream(client, upstream, deepest.events), /\[\[\[/, way)
      for (const inner of ['1', '12345678901234567890']) {
        const deep = calling[upstream](nested(20_000, inner))
        // Where arguments are text on both sides, nobody looks into them.
        if (upstream.startsWith('openai') && client.startsWith('openai')) {
          t.match(stream(client, upstream, deep.events), /\[\[\[/, way)
          continue
        }
        t.throws(
          () => whole(client, upstream, deep.whole),
          { name: 'Untranslatable', code: 'upstream_bad_response' },
          `${way}, whole`
        )
        t.throws(
          () => stream(client, upstream, deep.events),
          { name: 'Untranslatable', code: 'upstream_bad_response' },
          `${way}, streamed`
        )
      }
    }
  }
  t.throws(() => parseAnswer(nested(20_000, '12345678901234567890')), { code: 'upstream_bad_response' })
})

t.test('arguments that a client nests without end are an error of the client', async (t) => {
  const args = JSON.stringify(nested(20_000))
  const conversations: Partial<Record<CodecName, string>> = {
    'openai-chat': `{"model":"m","messages":[{"role":"user","content":"Hi"},{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":${args}}}]},{"role":"tool","tool_call_id":"a","content":"x"}]}`,
    'openai-responses': `{"model":"m","input":[{"role":"user","content":"Hi"},{"type":"function_call","call_id":"a","name":"f","arguments":${args}},{"type":"function_call_output","call_id":"a","output":"x"}]}`
  }
  for (const [client, body] of Object.entries(conversations) as [CodecName, string][]) {
    for (const upstream of ['anthropic', 'gemini'] as const) {
      const task = { client, upstream, head: { model: 'm', streaming: false }, target: { model: 'up', traits: {} } }
      t.throws(
        () => translateRequest(Buffer.from(body), task, () => new Map()),
        { name: 'Untranslatable', code: 'invalid_field' },
        `${client} to ${upstream}`
      )
    }
  }
})

/** More than a function can be called with. */
const many = 130_000
const list = (item: Json, count = many): Json[] => Array<Json>(count).fill(item)
const user = { role: 'user', content: 'Hi' }

t.test('requests of as many parts as fit into them are brought over', async (t) => {
  const texts = (type: string): Json[] => list({ type, text: 'a' })
  const call = [
    { type: 'function_call', call_id: 'a', name: 'f', arguments: '{}' },
    { role: 'assistant', content: texts('output_text') },
    { type: 'function_call_output', call_id: 'a', output: 'x' }
  ]
  for (const [client, upstream, body] of [
    ['openai-chat', 'anthropic', { messages: [user, { role: 'user', content: texts('text') }] }],
    ['openai-chat', 'gemini', { messages: [user, { role: 'user', content: texts('text') }] }],
    ['openai-responses', 'openai-chat', { input: [user, ...call] }],
    [
      'openai-responses',
      'openai-chat',
      { input: [user, { type: 'additional_tools', tools: list({ type: 'function', name: 'f' }) }] }
    ],
    [
      'openai-chat',
      'anthropic',
      {
        messages: [
          user,
          {
            role: 'assistant',
            tool_calls: list({ id: 'a', type: 'function', function: { name: 'f', arguments: '' } }, 50_000)
          },
          ...list({ role: 'tool', tool_call_id: 'a', content: 'x' }, 50_000),
          user
        ]
      }
    ],
    [
      'anthropic',
      'openai-chat',
      {
        messages: [
          { role: 'user', content: [{ type: 'document', source: { type: 'content', content: texts('text') } }] }
        ]
      }
    ]
  ] as [CodecName, CodecName, Json][]) {
    t.doesNotThrow(
      () =>
        new Asked(codecs[client], body, { model: 'm', streaming: false }).for(codecs[upstream], {
          model: 'up',
          traits: {}
        }),
      `${client} to ${upstream}`
    )
  }
})

t.test('lists that are longer than any stack are read, or refused by a word', async (t) => {
  const choice = (message: Json, more?: Json): Json => ({ choices: [{ message, finish_reason: 'stop', ...more }] })
  const answers: [what: string, upstream: CodecName, answer: Json, refused?: string][] = [
    ['calls', 'openai-chat', choice({ tool_calls: list({ id: 'a', function: { name: 'f', arguments: '{}' } }) })],
    [
      'probabilities',
      'openai-chat',
      choice({ content: 'x' }, { logprobs: { content: list({ token: 'a', logprob: -1 }) } })
    ],
    ['pictures', 'openai-chat', choice({ content: 'x', images: list({ image_url: { url: 'https://a.example' } }) })],
    [
      'choices',
      'openai-chat',
      { choices: list({ message: { content: 'x' }, finish_reason: 'stop' }) },
      'upstream_bad_response'
    ],
    ['blocks', 'anthropic', { content: list({ type: 'text', text: 'a' }), stop_reason: 'end_turn' }],
    [
      'items',
      'openai-responses',
      { status: 'completed', output: list({ type: 'message', content: [{ type: 'output_text', text: 'a' }] }) }
    ],
    [
      'parts',
      'gemini',
      { candidates: [{ content: { parts: list({ functionCall: { name: 'f' } }) }, finishReason: 'STOP' }] },
      'answer_too_large'
    ]
  ]
  for (const [what, upstream, answer, refused] of answers) {
    const [client] = others(upstream)
    const translate = (): unknown => translateAnswer(planOf(client!, upstream), answer, answerHead)
    if (refused) t.throws(translate, { name: 'Untranslatable', code: refused }, what)
    else t.doesNotThrow(translate, what)
  }
})

const messageStart = { type: 'message_start', message: { id: 'm' } }
const created = { type: 'response.created', response: {} }
const piece = 'x'.repeat(1024 * 1024)
/** An event as its text would have been parsed. */
const parsed = (value: Json): Payload => ({
  kind: 'event',
  data: Buffer.from('{}'),
  event: '',
  parsed: true,
  json: () => value as unknown,
  shallow: () => value as unknown,
  plain: false,
  lens: undefined,
  inside: () => undefined
})
const chat = (delta: Json, index = 0, more?: Json): Json => ({ choices: [{ index, delta, ...more }] })
const toolCall = (index: number, more: Json, fn: Json): Json => ({
  tool_calls: [{ index, id: 'a', ...more, function: { name: 'f', arguments: '{}', ...fn } }]
})
const begin = (index: number, content_block: Json): Json => ({ type: 'content_block_start', index, content_block })
const item = (output_index: number, more: Json): Json => ({
  type: 'response.output_item.done',
  output_index,
  item: { type: 'function_call', id: `fc_${output_index}`, call_id: 'a', name: 'f', arguments: '{}', ...more }
})
const chunk = (part: Json, more?: Json): Json => ({ candidates: [{ content: { parts: [part] }, ...more }] })

/** What a decoder has to remember, sent again and again. */
const growing: [what: string, upstream: CodecName, before: Json[], more: (count: number) => Json[]][] = [
  [
    'calls side by side',
    'openai-chat',
    [],
    (count) => [chat(toolCall(count % 128, { id: `${count}` }, { arguments: `{"a":"${piece}` }), count >> 7)]
  ],
  ['thoughts', 'openai-chat', [], () => [chat({ reasoning_content: piece })]],
  ['ids', 'openai-chat', [], (count) => [chat(toolCall(count, { id: piece }, {}))]],
  ['names', 'openai-chat', [], (count) => [chat(toolCall(count, { id: '' }, { name: piece, arguments: '' }))]],
  [
    'signatures',
    'openai-chat',
    [],
    (count) => [
      chat(
        toolCall(
          count,
          { id: '', extra_content: { google: { thought_signature: piece } } },
          { name: '', arguments: '' }
        )
      )
    ]
  ],
  [
    'what comes before a name',
    'openai-chat',
    [],
    (count) => [chat(toolCall(count & 127, {}, { name: '', arguments: piece.slice(0, 60_000) }), count >> 7)]
  ],
  ['stop sequences', 'openai-chat', [], (count) => [chat({}, count, { finish_reason: 'stop', stop_reason: piece })]],
  [
    'addresses',
    'openai-chat',
    [],
    () => [chat({ annotations: list({ url_citation: { url: 'https://a.example', title: '' } }, 10_000) })]
  ],
  [
    "blocks of the provider's tools",
    'anthropic',
    [messageStart],
    (count) => Array.from({ length: 1000 }, (_, more) => begin(count * 1000 + more, { type: 'server_tool_use' }))
  ],
  [
    'inputs',
    'anthropic',
    [messageStart],
    (count) => [begin(count, { type: 'tool_use', id: 'a', name: 'f', input: { a: piece } })]
  ],
  ['signatures', 'anthropic', [messageStart], (count) => [begin(count, { type: 'thinking', signature: piece })]],
  [
    'signatures that come late',
    'anthropic',
    [messageStart],
    (count) => [
      begin(count, { type: 'thinking', signature: '' }),
      { type: 'content_block_delta', index: count, delta: { type: 'signature_delta', signature: piece } }
    ]
  ],
  [
    'signatures of blocks that are whole',
    'anthropic',
    [messageStart],
    (count) => [begin(count, { type: 'redacted_thinking', data: piece }), { type: 'content_block_stop', index: count }]
  ],
  [
    'addresses',
    'anthropic',
    [messageStart, begin(0, { type: 'text', text: '' })],
    () => [
      {
        type: 'content_block_delta',
        index: 0,
        delta: { type: 'citations_delta', citation: { url: `https://a.example/${piece}`, title: '' } }
      }
    ]
  ],
  ['ids', 'openai-responses', [created], (count) => [item(count, { type: 'message', id: `${count}${piece}` })]],
  ['ids of calls', 'openai-responses', [created], (count) => [item(count, { call_id: piece })]],
  [
    'thoughts',
    'openai-responses',
    [created, { type: 'response.output_item.added', output_index: 0, item: { type: 'reasoning', id: 'r' } }],
    () => [
      { type: 'response.reasoning_summary_text.delta', item_id: 'r', output_index: 0, summary_index: 0, delta: piece }
    ]
  ],
  ['signatures', 'gemini', [], () => [chunk({ text: 'x', thought: true, thoughtSignature: piece })]],
  [
    'addresses',
    'gemini',
    [],
    () => [
      chunk(
        { text: 'x' },
        { groundingMetadata: { groundingChunks: list({ web: { uri: 'https://a.example', title: '' } }, 10_000) } }
      )
    ]
  ]
]

t.test('whatever an upstream makes us remember comes to an end', async (t) => {
  for (const [what, upstream, before, more] of growing) {
    const decoder = codecs[upstream].decodeStream('id')
    const push = (event: Json): void => decoder.push(parsed(event), () => {})
    before.forEach(push)
    t.throws(
      () => {
        for (let count = 0; count < 1000; count++) more(count).forEach(push)
      },
      { name: 'Untranslatable', code: 'answer_too_large', message: /more in calls and thoughts|too many parts/ },
      `${what} of ${upstream}`
    )
  }
  const translation = new StreamTranslation(planOf('openai-responses', 'openai-chat'), answerHead, () => {})
  const tokens = chat({ content: '' }, 0, { logprobs: { content: list({ token: 'a', logprob: -1 }, 10_000) } })
  t.throws(
    () => {
      for (let count = 0; count < 1000; count++) translation.push(parsed(tokens))
    },
    { code: 'answer_too_large' },
    'probabilities that a response repeats'
  )
})

t.test('arguments that come before the name of their call are kept up to 64 KiB', async (t) => {
  const decoder = codecs['openai-chat'].decodeStream('id')
  const more = parsed(chat({ tool_calls: [{ index: 0, id: 'a', function: { arguments: ' '.repeat(1024) } }] }))
  const push = (): void => decoder.push(more, () => {})
  for (let count = 0; count < 64; count++) push()
  t.throws(push, { name: 'Untranslatable', message: /without a name/ })
})

t.test('what is passed on has no more answers than can be asked for either', async (t) => {
  for (const [name, of] of [
    ['openai-chat', (index: number) => chat({ content: 'x' }, index)],
    ['gemini', (index: number) => ({ candidates: [{ index, content: { parts: [{ text: 'x' }] } }] })]
  ] as const) {
    const watch = protocols[name].watch(new Message('json', Buffer.from('{}')).lens!)
    const see = (index: number): string => watch.see(Message.event(JSON.stringify(of(index))))
    const kinds = Array.from({ length: 200 }, (_, index) => see(index))
    t.same([kinds.indexOf('invalid'), kinds.lastIndexOf('content')], [128, 127], name)
    t.equal(see(0), 'content', `${name}: those that there are go on`)
  }
})

t.test('half of a character in the id of a thought is no mistake of ours', async (t) => {
  const item = {
    type: 'reasoning',
    id: 'rs_\ud83d',
    summary: [{ type: 'summary_text', text: 'Hm' }],
    encrypted_content: 'blob'
  }
  const response = { status: 'completed', output: [item] }
  for (const client of ['anthropic', 'gemini'] as const) {
    t.match(
      JSON.stringify(translateAnswer(planOf(client, 'openai-responses'), response, answerHead).body),
      'Hm',
      client
    )
    t.match(
      stream(client, 'openai-responses', [
        JSON.stringify(created),
        JSON.stringify({ type: 'response.output_item.done', output_index: 0, item }),
        JSON.stringify({ type: 'response.completed', response })
      ]),
      'Hm',
      client
    )
  }
})

t.test('holes in lists are nothing, whoever puts a stream together or takes an answer apart', async (t) => {
  const whole: Readonly<Record<CodecName, Json>> = {
    'openai-chat': {
      choices: [
        null,
        7,
        {
          index: 0,
          message: { content: 'x', tool_calls: [null, 'f', { id: 'a', function: { name: 'f', arguments: '{}' } }] },
          finish_reason: 'stop'
        }
      ]
    },
    'openai-responses': {
      status: 'completed',
      output: [null, 7, { type: 'message', content: [null, { type: 'output_text', text: 'x', annotations: [null] }] }]
    },
    anthropic: { content: [null, 7, { type: 'text', text: 'x', citations: [null] }], stop_reason: 'end_turn' },
    gemini: { candidates: [null, 7, { content: { parts: [null, 7, { text: 'x' }] }, finishReason: 'STOP' }] }
  }
  for (const name of names) {
    const chunks = protocols[name].chunksOf(whole[name])
    const collector = protocols[name].collect()
    for (const payload of chunks) collector.add(JSON.parse(payload))
    t.match(JSON.stringify(collector.result()), '"x"', name)
  }
  const collector = protocols['openai-chat'].collect()
  for (const choices of [
    [null, { index: 0, delta: { tool_calls: [null, { index: 0, id: 'a', function: { name: 'f' } }] } }],
    [{ index: 0, delta: { tool_calls: ['x', { index: 0, function: { arguments: '{}' } }] } }]
  ])
    collector.add({ choices })
  t.match(collector.result(), {
    choices: [{ message: { tool_calls: [{ id: 'a', function: { name: 'f', arguments: '{}' } }] } }]
  })
})

t.test(
  'what was brought to the client is not remembered: of calls one after the other there may be any number',
  async (t) => {
    for (const [upstream, before, more] of [
      [
        'openai-chat',
        [],
        (count: number) => chat(toolCall(count, { id: `${count}` }, { arguments: `{"a":"${piece}"}` }))
      ],
      [
        'openai-responses',
        [created],
        (count: number) => item(count, { call_id: `${count}`, arguments: `{"a":"${piece}"}` })
      ]
    ] as const) {
      const translation = new StreamTranslation(planOf('anthropic', upstream), answerHead, () => {})
      before.forEach((event) => translation.push(parsed(event)))
      t.doesNotThrow(() => {
        for (let count = 0; count < 20; count++) translation.push(parsed(more(count)))
      }, upstream)
    }
  }
)
