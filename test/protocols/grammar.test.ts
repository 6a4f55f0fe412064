// The grammar of every protocol's streams, for clients of all of them, and the corners of translation that no other
// test has.
import t from 'tap'
import type { Test } from 'tap'
import { Message } from '../../core/contract/message.ts'
import type { ModelAnswer } from '../../core/protocols/canonical/answer.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import type { CodecName } from '../../core/protocols/translation/codecs.ts'
import { translateRequest } from '../../core/protocols/translation/request-bytes.ts'
import { Asked, StreamTranslation, translateAnswer } from '../../core/protocols/translation/translation.ts'
import type { AnswerPlan, Codec, Traits } from '../../core/protocols/translation/translation.ts'
import { answerHead, streamOf } from '../kit/conversations.ts'

type Json = any

const names = Object.keys(codecs) as CodecName[]

/** What clients ask that ask for nothing in particular, but to see thoughts. */
const simplest: Readonly<Record<CodecName, Json>> = {
  'openai-chat': { model: 'm', messages: [{ role: 'user', content: 'Hi' }] },
  'openai-responses': { model: 'm', input: 'Hi', reasoning: { summary: 'auto' } },
  anthropic: { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }] },
  gemini: {
    contents: [{ role: 'user', parts: [{ text: 'Hi' }] }],
    generationConfig: { thinkingConfig: { includeThoughts: true } }
  }
}

function sent(client: CodecName, upstream: CodecName, body: Json, traits: Traits = {}): Json {
  const made = new Asked(codecs[client], body, { model: 'm', streaming: false }).for(codecs[upstream], {
    model: 'up',
    traits
  })
  return { ...JSON.parse(JSON.stringify(made.body)), dropped: made.dropped }
}

const planOf = (client: CodecName, upstream: CodecName): AnswerPlan =>
  new Asked(codecs[client], simplest[client], { model: 'm', streaming: true }).for(codecs[upstream], {
    model: 'up',
    traits: {}
  }).answer

interface Written {
  data: Json
  name: string
}

/** A client's events of an upstream's. */
function streamed(client: CodecName, upstream: CodecName, events: readonly Message[]): Written[] {
  const written: Written[] = []
  const translation = new StreamTranslation(planOf(client, upstream), answerHead, (data, name) =>
    written.push({ data: data === '[DONE]' ? data : JSON.parse(data), name })
  )
  for (const event of events) translation.push(event)
  translation.end()
  return written
}

const raw = (events: readonly Json[]): Message[] =>
  events.map((event) => Message.event(typeof event === 'string' ? event : JSON.stringify(event), event.type))
const chunk = (delta: Json, finish_reason: string | null = null): Json => ({
  id: 'c',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'up',
  choices: [{ index: 0, delta, finish_reason }]
})

/** What a stream of each protocol has to be, whatever is in it. */
const grammars: Readonly<Record<CodecName, (t: Test, events: readonly Written[], way: string) => void>> = {
  'openai-chat'(t, events, way) {
    t.equal(events.at(-1)!.data, '[DONE]', way)
    const chunks = events.slice(0, -1).map(({ data }) => data)
    t.equal(
      new Set(chunks.map(({ id, created, model, object }) => `${id} ${created} ${model} ${object}`)).size,
      1,
      `${way}: one head`
    )
    const choices = chunks.filter((data) => data.choices.length > 0).map((data) => data.choices[0])
    t.match(choices[0].delta, { role: 'assistant' }, way)
    t.ok(
      choices.slice(1).every(({ delta }) => !('role' in delta)),
      `${way}: one role`
    )
    t.ok(
      choices.every(({ index }) => index === 0),
      way
    )
    t.same(
      choices.flatMap(({ finish_reason: reason }, at) => (reason === null ? [] : [at])),
      [choices.length - 1],
      `${way}: one reason, in the last`
    )
    t.same(choices.at(-1).delta, {}, way)
    let known = 0
    for (const { delta } of choices) {
      for (const call of delta.tool_calls ?? []) {
        if (call.id !== undefined) t.match(call, { index: known++, type: 'function', function: { name: /./ } }, way)
        t.ok(call.index < known, `${way}: a call that has begun`)
      }
    }
  },
  'openai-responses'(t, events, way) {
    t.ok(
      events.every(({ data, name }) => data.type === name),
      `${way}: names are types`
    )
    t.same(
      events.map(({ data }) => data.sequence_number),
      events.map((_event, at) => at),
      way
    )
    t.match(events[0]!.data, { type: 'response.created', response: { status: 'in_progress' } }, way)
    const { response } = events.at(-1)!.data
    t.match(
      events.at(-1)!.data,
      {
        type: 'response.completed',
        response: {
          id: events[0]!.data.response.id,
          object: 'response',
          status: 'completed',
          usage: { total_tokens: Number }
        }
      },
      way
    )
    const items = new Map<number, { id: string; type: string; said: string; done: boolean; parts: Set<string> }>()
    for (const { data } of events) {
      const { type, output_index: place, item, item_id: id } = data
      if (type === 'response.output_item.added') {
        t.notOk(items.has(place), `${way}: a new place`)
        items.set(place, { id: item.id, type: item.type, said: '', done: false, parts: new Set() })
      } else if (place !== undefined) {
        const known = items.get(place)!
        t.ok(known && !known.done && known.id === (id ?? item.id), `${way}: ${type} of an item that is open, by its id`)
        const part = `${data.content_index ?? ''}/${data.summary_index ?? ''}`
        if (type.endsWith('part.added')) known.parts.add(part)
        else if (type.endsWith('part.done')) t.ok(known.parts.delete(part), way)
        else if (/(output_text|refusal|summary_text)\.(delta|done)$/.test(type))
          t.ok(known.parts.has(part), `${way}: ${type} of a part that is open`)
        if (type.endsWith('.delta')) {
          known.said += data.delta
          t.equal(
            { message: 'output_text', reasoning: 'reasoning_summary_text', function_call: 'function_call_arguments' }[
              known.type
            ],
            type.split('.')[1],
            `${way}: ${type} of an item of its kind`
          )
        }
        if (type === 'response.output_item.done') {
          known.done = true
          t.equal(
            known.said,
            item.arguments ??
              item.content?.map(({ text }: Json) => text).join('') ??
              item.summary?.map(({ text }: Json) => text).join(''),
            `${way}: its deltas are all of it`
          )
          t.equal(known.parts.size, 0, `${way}: its parts are done`)
          t.same(item, response.output[place], `${way}: an item is in the end what it was when it was done`)
          if (item.type === 'reasoning') t.ok(Array.isArray(item.summary), way)
        }
      }
    }
    t.ok(
      [...items.values()].every(({ done }) => done),
      way
    )
    t.equal(response.output.length, items.size, way)
  },
  anthropic(t, events, way) {
    t.ok(
      events.every(({ data, name }) => data.type === name),
      `${way}: names are types`
    )
    const types = events.map(({ data }) => data.type as string)
    t.same(
      types.filter((type) => type.startsWith('message_')),
      ['message_start', 'message_delta', 'message_stop'],
      way
    )
    t.equal(types[0], 'message_start', way)
    t.same(types.slice(-2), ['message_delta', 'message_stop'], way)
    let open: number | undefined
    let next = 0
    for (const { data } of events) {
      if (data.type === 'content_block_start') {
        t.same([open, data.index], [undefined, next++], `${way}: blocks follow each other`)
        open = data.index
      } else if (data.type.startsWith('content_block_')) {
        t.equal(data.index, open, `${way}: ${data.type}`)
        if (data.type === 'content_block_stop') open = undefined
      }
    }
    t.equal(open, undefined, way)
  },
  gemini(t, events, way) {
    t.ok(
      events.every(({ data, name }) => name === '' && typeof data === 'object'),
      `${way}: no end marker`
    )
    t.same(
      events.flatMap(({ data }, at) => (data.candidates[0].finishReason === undefined ? [] : [at])),
      [events.length - 1],
      `${way}: one reason, in the last`
    )
    for (const { data } of events)
      for (const part of data.candidates[0].content.parts)
        t.ok(!part.functionCall || typeof part.functionCall.args === 'object', way)
    t.match(events.at(-1)!.data.usageMetadata, { totalTokenCount: Number }, way)
  }
}

const answers: Readonly<Record<string, ModelAnswer>> = {
  'thoughts, text and calls': {
    id: 'u',
    usage: { input: 9, cached_input: 1, cache_write: 0, output: 5, reasoning: 2 },
    candidates: [
      {
        parts: [
          { type: 'reasoning', text: 'Hm' },
          { type: 'text', text: 'Hello' },
          { type: 'tool_call', id: 'a', name: 'f', custom: false, input: '{"x":1}' },
          { type: 'tool_call', id: 'b', name: 'g', custom: false, input: '{}' }
        ],
        finish: { reason: 'tool_calls' }
      }
    ]
  },
  'text alone': {
    id: 'u',
    usage: { input: 1, cached_input: 0, cache_write: 0, output: 1, reasoning: 0 },
    candidates: [{ parts: [{ type: 'text', text: 'Hello' }], finish: { reason: 'stop' } }]
  },
  'a call without arguments': {
    id: 'u',
    usage: { input: 1, cached_input: 0, cache_write: 0, output: 1, reasoning: 0 },
    candidates: [
      { parts: [{ type: 'tool_call', id: 'a', name: 'f', custom: false, input: '' }], finish: { reason: 'tool_calls' } }
    ]
  },
  'nothing at all': {
    id: 'u',
    usage: { input: 1, cached_input: 0, cache_write: 0, output: 0, reasoning: 0 },
    candidates: [{ parts: [], finish: { reason: 'stop' } }]
  }
}

for (const client of names) {
  t.test(`streams for clients of ${client} keep to its grammar, whatever the upstream speaks`, async (t) => {
    for (const upstream of names) {
      if (upstream === client) continue
      for (const [kind, answer] of Object.entries(answers))
        grammars[client](
          t,
          streamed(client, upstream, streamOf(codecs[upstream] as Codec, answer)),
          `${upstream}, ${kind}`
        )
    }
  })
}

t.test('items of a response whose places collide are blocks of their own', async (t) => {
  const call = {
    type: 'function_call',
    id: 'fc_1',
    call_id: 'c1',
    name: 'f',
    arguments: '{"x":1}',
    status: 'completed'
  }
  const message = {
    type: 'message',
    id: 'msg_1',
    role: 'assistant',
    status: 'completed',
    content: [{ type: 'output_text', text: 'Done.', annotations: [] }]
  }
  const events = raw([
    { type: 'response.created', response: { id: 'r', status: 'in_progress', output: [] } },
    { type: 'response.output_item.added', output_index: 0, item: { type: 'reasoning', id: 'rs_1', summary: [] } },
    { type: 'response.reasoning_summary_text.delta', item_id: 'rs_1', output_index: 0, summary_index: 0, delta: 'Hm' },
    {
      type: 'response.output_item.done',
      output_index: 0,
      item: { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'Hm' }] }
    },
    { type: 'response.output_item.added', output_index: 0, item: { ...call, arguments: '', status: 'in_progress' } },
    { type: 'response.function_call_arguments.delta', item_id: 'fc_1', output_index: 0, delta: '{"x":1}' },
    { type: 'response.output_item.done', output_index: 0, item: call },
    { type: 'response.output_item.added', output_index: 0, item: { ...message, content: [], status: 'in_progress' } },
    { type: 'response.output_text.delta', item_id: 'msg_1', output_index: 0, content_index: 0, delta: 'Done.' },
    { type: 'response.output_item.done', output_index: 0, item: message },
    {
      type: 'response.completed',
      response: {
        id: 'r',
        status: 'completed',
        output: [call, message],
        usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
      }
    }
  ])
  const seen = streamed('anthropic', 'openai-responses', events)
  grammars.anthropic(t, seen, 'collision')
  t.same(
    seen.filter(({ data }) => data.type === 'content_block_start').map(({ data }) => data.content_block.type),
    ['thinking', 'tool_use', 'text']
  )
  t.same(
    seen.flatMap(({ data }) => data.delta?.thinking ?? data.delta?.partial_json ?? data.delta?.text ?? []),
    ['Hm', '{"x":1}', 'Done.']
  )
})

t.test(
  'items side by side at one place are told apart by their ids, and items without ids by their places',
  async (t) => {
    const added = (output_index: number, id: string | undefined, name: string): Json => ({
      type: 'response.output_item.added',
      output_index,
      item: { type: 'function_call', id, call_id: `call_${name}`, name, arguments: '' }
    })
    const delta = (output_index: number, item_id: string | undefined, text: string): Json => ({
      type: 'response.function_call_arguments.delta',
      output_index,
      item_id,
      delta: text
    })
    const done = (output_index: number, id: string | undefined, name: string, args: string): Json => ({
      type: 'response.output_item.done',
      output_index,
      item: { type: 'function_call', id, call_id: `call_${name}`, name, arguments: args, status: 'completed' }
    })
    const callsIn = (seen: Written[]): Json =>
      seen
        .flatMap(({ data }) => data.candidates[0].content.parts)
        .flatMap(({ functionCall: made }: Json) => (made ? [[made.name, made.args]] : []))
    for (const [places, ids] of [
      [
        [0, 0],
        ['fc_1', 'fc_2']
      ],
      [
        [0, 1],
        [undefined, undefined]
      ]
    ] as const) {
      const events = raw([
        { type: 'response.created', response: { id: 'r', status: 'in_progress', output: [] } },
        added(places[0], ids[0], 'f'),
        added(places[1], ids[1], 'g'),
        delta(places[0], ids[0], '{"x":'),
        delta(places[1], ids[1], '{"y":'),
        delta(places[0], ids[0], '1}'),
        delta(places[1], ids[1], '2}'),
        done(places[0], ids[0], 'f', '{"x":1}'),
        done(places[1], ids[1], 'g', '{"y":2}'),
        { type: 'response.completed', response: { id: 'r', status: 'completed', output: [] } }
      ])
      const seen = streamed('gemini', 'openai-responses', events)
      t.same(callsIn(seen), [
        ['f', { x: 1 }],
        ['g', { y: 2 }]
      ])
    }
    const oneAfterTheOther = ['f', 'g'].flatMap((name) => [
      added(0, undefined, name),
      delta(0, undefined, `{"of":"${name}"}`),
      done(0, undefined, name, `{"of":"${name}"}`)
    ])
    const after = streamed(
      'gemini',
      'openai-responses',
      raw([
        { type: 'response.created', response: { id: 'r', status: 'in_progress', output: [] } },
        ...oneAfterTheOther,
        { type: 'response.completed', response: { id: 'r', status: 'completed', output: [] } }
      ])
    )
    t.same(callsIn(after), [
      ['f', { of: 'f' }],
      ['g', { of: 'g' }]
    ])
  }
)

t.test('a response may end with a marker of another protocol, and does not end with that alone', async (t) => {
  const begun = [
    { type: 'response.created', response: { id: 'r', status: 'in_progress', output: [] } },
    {
      type: 'response.output_item.added',
      output_index: 0,
      item: { type: 'message', id: 'm', role: 'assistant', content: [] }
    },
    { type: 'response.output_text.delta', item_id: 'm', output_index: 0, content_index: 0, delta: 'Hi' }
  ]
  const end = {
    type: 'response.completed',
    response: {
      id: 'r',
      status: 'completed',
      output: [],
      usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
    }
  }
  t.equal(streamed('openai-chat', 'openai-responses', raw([...begun, end, '[DONE]'])).at(-1)!.data, '[DONE]')
  t.throws(() => streamed('openai-chat', 'openai-responses', raw([...begun, '[DONE]'])), {
    code: 'upstream_bad_response'
  })
})

t.test('what tools did that an upstream ran itself leaves the text whole', async (t) => {
  const start = {
    type: 'message_start',
    message: { id: 'msg_u', role: 'assistant', content: [], usage: { input_tokens: 1, output_tokens: 1 } }
  }
  const block = (index: number, content_block: Json, ...deltas: Json[]): Json[] => [
    { type: 'content_block_start', index, content_block },
    ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
    { type: 'content_block_stop', index }
  ]
  const events = raw([
    start,
    ...block(
      0,
      { type: 'server_tool_use', id: 's1', name: 'web_search', input: {} },
      { type: 'input_json_delta', partial_json: '{"query":"x"}' }
    ),
    ...block(1, {
      type: 'web_search_tool_result',
      tool_use_id: 's1',
      content: [{ type: 'web_search_result', url: 'https://a.example', title: 'A', encrypted_content: 'E' }]
    }),
    ...block(
      2,
      { type: 'text', text: '' },
      { type: 'text_delta', text: 'Found' },
      {
        type: 'citations_delta',
        citation: {
          type: 'web_search_result_location',
          url: 'https://a.example',
          title: 'A',
          cited_text: 'x',
          encrypted_index: 'i'
        }
      },
      { type: 'text_delta', text: ' it.' }
    ),
    { type: 'message_delta', delta: { stop_reason: 'pause_turn', stop_sequence: null }, usage: { output_tokens: 5 } },
    { type: 'message_stop' }
  ])
  for (const client of names) {
    if (client === 'anthropic') continue
    const seen = streamed(client, 'anthropic', events)
    grammars[client](t, seen, client)
    const texts = {
      'openai-chat': (data: Json) => data.choices?.[0]?.delta.content,
      'openai-responses': (data: Json) => (data.type === 'response.output_text.delta' ? data.delta : ''),
      gemini: (data: Json) => data.candidates[0].content.parts[0]?.text
    }
    t.equal(seen.map(({ data }) => texts[client](data) ?? '').join(''), 'Found it.', client)
    t.match(JSON.stringify(seen), /"ur[il]":"https:\/\/a\.example","title":"A"/, `${client}: where it was found`)
  }
})

t.test('thoughts that come behind a call stand before it when they are played back', async (t) => {
  const seen = streamed(
    'anthropic',
    'openai-chat',
    raw([
      chunk({
        role: 'assistant',
        tool_calls: [{ index: 0, id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }]
      }),
      chunk({ reasoning_content: 'Hm' }),
      chunk({}, 'tool_calls')
    ])
  )
  grammars.anthropic(t, seen, 'thoughts behind a call')
  const blocks = seen
    .filter(({ data }) => data.type === 'content_block_start')
    .map(({ data }) => data.content_block.type)
  t.same(blocks.toSorted(), ['thinking', 'tool_use'])
  const content = [
    { type: 'tool_use', id: 'a', name: 'f', input: {} },
    { type: 'thinking', thinking: 'Hm', signature: 'sig' }
  ]
  const played = sent('anthropic', 'openai-chat', {
    ...simplest.anthropic,
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: '1' }] }
    ]
  })
  t.match(played.messages.slice(1), [
    { role: 'assistant', tool_calls: [{ id: 'a' }] },
    { role: 'tool', tool_call_id: 'a' }
  ])
})

const fn = (strict?: boolean): Json => ({
  type: 'function',
  function: { name: 'f', parameters: { type: 'object', properties: {} }, ...(strict !== undefined && { strict }) }
})
const chat = (more: Json, ...messages: Json[]): Json => ({
  model: 'm',
  messages: messages.length > 0 ? messages : [{ role: 'user', content: 'Hi' }],
  ...more
})

t.test(
  'whether arguments follow their schema is as it was asked, and never what another protocol has by default',
  async (t) => {
    for (const [strict, expected] of [
      [true, true],
      [false, false],
      [undefined, false]
    ] as const)
      t.equal(sent('openai-chat', 'openai-responses', chat({ tools: [fn(strict)] })).tools[0].strict, expected)
    const responses = (strict?: boolean | null): Json => ({
      model: 'm',
      input: 'Hi',
      tools: [
        {
          type: 'function',
          name: 'f',
          parameters: { type: 'object', properties: {} },
          ...(strict !== undefined && { strict })
        }
      ]
    })
    t.equal(sent('openai-responses', 'openai-chat', responses(false)).tools[0].function.strict, false)
    t.equal(sent('openai-responses', 'openai-chat', responses(true)).tools[0].function.strict, true)
    // What Responses hold to the letter without being told: a schema that allows nothing else.
    const closed = {
      type: 'object',
      properties: { a: { type: 'string' } },
      required: ['a'],
      additionalProperties: false
    }
    const implied = (parameters: Json): Json =>
      sent('openai-responses', 'openai-chat', {
        model: 'm',
        input: 'Hi',
        tools: [{ type: 'function', name: 'f', parameters }]
      }).tools[0].function.strict
    t.equal(implied(closed), true)
    for (const open of [
      { ...closed, additionalProperties: true },
      { ...closed, required: [] },
      { ...closed, properties: { a: { type: 'object' } } }
    ])
      t.equal(implied(open), undefined)
    t.match(sent('openai-chat', 'anthropic', chat({ tools: [fn(true)] })).tools[0], {
      strict: true,
      input_schema: { additionalProperties: false }
    })
    t.same(Object.keys(sent('openai-chat', 'anthropic', chat({ tools: [fn(false)] })).tools[0].input_schema), [
      'type',
      'properties'
    ])
  }
)

t.test('whatever a tool answers is an object for Gemini, under the name of its function', async (t) => {
  const called = {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }]
  }
  for (const [content, response] of [
    ['plain', { output: 'plain' }],
    ['[1,2]', { output: '[1,2]' }],
    ['42', { output: '42' }],
    ['', { output: '' }],
    [
      [
        { type: 'text', text: 'a' },
        { type: 'text', text: 'b' }
      ],
      Object
    ]
  ] as const) {
    const { contents } = sent(
      'openai-chat',
      'gemini',
      chat({}, { role: 'user', content: 'Hi' }, called, { role: 'tool', tool_call_id: 'a', content })
    )
    t.match(contents.at(-1).parts, [{ functionResponse: { name: 'f', response } }], JSON.stringify(content))
  }
})

t.test('turns of one role keep every text, and alternate where they have to', async (t) => {
  const turns = [
    { role: 'user', content: 'one' },
    { role: 'user', content: 'two' },
    { role: 'assistant', content: 'three' },
    {
      role: 'assistant',
      content: 'four',
      tool_calls: ['a', 'b'].map((id) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } }))
    },
    { role: 'tool', tool_call_id: 'a', content: 'five' },
    { role: 'tool', tool_call_id: 'b', content: 'six' },
    { role: 'user', content: 'seven' }
  ]
  for (const upstream of ['anthropic', 'gemini'] as const) {
    const body = sent('openai-chat', upstream, chat({}, ...turns))
    const made: Json[] = upstream === 'anthropic' ? body.messages : body.contents
    const text = JSON.stringify(made)
    const places = ['one', 'two', 'three', 'four', 'five', 'six', 'seven'].map((word) => text.indexOf(`"${word}"`))
    t.ok(
      places.every((place, index) => place > (places[index - 1] ?? 0)),
      `${upstream}: all of them, in order`
    )
    if (upstream === 'anthropic')
      t.ok(
        made.every(({ role }, index) => role !== made[index - 1]?.role),
        'they alternate'
      )
  }
})

t.test('a developer is a system where the channel knows no developers', async (t) => {
  const body = {
    model: 'm',
    input: [
      { role: 'developer', content: 'Be brief.' },
      { role: 'user', content: 'Hi' }
    ]
  }
  t.equal(sent('openai-responses', 'openai-chat', body).messages[0].role, 'system')
  t.equal(sent('openai-responses', 'openai-chat', body, { developerRole: true }).messages[0].role, 'developer')
})

t.test('a limit that Messages demand is there when nobody gave one', async (t) => {
  for (const [client, body] of [
    ['openai-chat', chat({})],
    ['openai-responses', { model: 'm', input: 'Hi' }],
    ['gemini', { contents: [{ parts: [{ text: 'Hi' }] }] }]
  ] as const) {
    t.ok(
      Number.isSafeInteger(sent(client, 'anthropic', body).max_tokens) &&
        sent(client, 'anthropic', body).max_tokens > 0,
      client
    )
    t.equal(sent(client, 'anthropic', body, { maxOutputTokens: 777 }).max_tokens, 777, client)
  }
})

t.test('thoughts without what followed them are no trouble, and what is encrypted is never text', async (t) => {
  const input = [
    { role: 'user', content: 'Hi' },
    { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'Hm' }], encrypted_content: 'blob' }
  ]
  for (const upstream of ['openai-chat', 'anthropic', 'gemini'] as const) {
    t.notMatch(JSON.stringify(sent('openai-responses', upstream, { model: 'm', input })), 'blob', upstream)
    t.notMatch(
      JSON.stringify(
        sent('openai-responses', upstream, { model: 'm', input }, { replaysReasoning: true, prefill: true })
      ),
      'blob',
      `${upstream}, which takes thoughts back`
    )
  }
})

t.test('what a model thinks is never told as what it says', async (t) => {
  const answer: ModelAnswer = {
    id: 'u',
    usage: undefined,
    candidates: [
      {
        parts: [
          { type: 'reasoning', text: 'THOUGHT' },
          { type: 'text', text: 'SAID' }
        ],
        finish: { reason: 'stop' }
      }
    ]
  }
  const shown: Readonly<Record<CodecName, (body: Json) => string>> = {
    'openai-chat': ({ choices: [{ message, delta }] }) => (message ?? delta).content ?? '',
    'openai-responses': ({ output, type, delta }) =>
      type === 'response.output_text.delta'
        ? delta
        : output
          ? output.map(({ type: kind, content }: Json) => (kind === 'message' ? content[0].text : '')).join('')
          : '',
    anthropic: ({ content, delta }) =>
      content ? content.map(({ text }: Json) => text ?? '').join('') : (delta?.text ?? ''),
    gemini: ({ candidates: [{ content }] }) =>
      content.parts.map(({ text, thought }: Json) => (thought ? '' : text)).join('')
  }
  for (const upstream of names) {
    for (const client of names) {
      if (client === upstream) continue
      const way = `${upstream} to ${client}`
      const codec: Codec = codecs[upstream]
      const seen = streamed(client, upstream, streamOf(codec, answer)).filter(
        ({ data }) => data !== '[DONE]' && (client !== 'openai-chat' || data.choices.length > 0)
      )
      t.equal(seen.map(({ data }) => shown[client](data)).join(''), 'SAID', way)
      t.match(JSON.stringify(seen), 'THOUGHT', `${way}: and it is told`)
      const { body } = translateAnswer(
        planOf(client, upstream),
        JSON.parse(JSON.stringify(codec.encodeAnswer(answer, answerHead))),
        answerHead
      )
      t.equal(shown[client](body), 'SAID', `${way}, whole`)
      t.match(JSON.stringify(body), 'THOUGHT', `${way}, whole: and it is told`)
    }
  }
})

t.test('half of a character reaches no upstream of another protocol, and everything beside it does', async (t) => {
  const text = 'a\ud83db 😀 \\ud83d \\\ude00'
  const body = Buffer.from(JSON.stringify(chat({}, { role: 'user', content: text })))
  for (const upstream of ['anthropic', 'gemini', 'openai-responses'] as const) {
    const made = translateRequest(
      body,
      { client: 'openai-chat', upstream, head: { model: 'm', streaming: false }, target: { model: 'up', traits: {} } },
      () => new Map()
    ) as { body: Uint8Array }
    const written = Buffer.from(made.body).toString()
    t.ok(JSON.stringify(JSON.parse(written)).includes(JSON.stringify(text.toWellFormed()).slice(1, -1)), upstream)
    t.ok(
      written.isWellFormed() && !JSON.stringify(JSON.parse(written)).replaceAll('\\\\', '').includes('\\ud'),
      upstream
    )
  }
})

t.test("an error of a whole answer that is none is the upstream's", async (t) => {
  for (const upstream of names) {
    for (const body of [
      {},
      { choices: [] },
      { content: 1 },
      { candidates: 'x' },
      { output: null },
      { status: 'completed' },
      { status: 'completed', output: {} },
      { stop_reason: 'end_turn' },
      [],
      null,
      'x',
      7
    ]) {
      const client = upstream === 'openai-chat' ? 'anthropic' : 'openai-chat'
      try {
        translateAnswer(planOf(client, upstream), body, answerHead)
        t.fail(`${upstream}: ${JSON.stringify(body)} was translated`)
      } catch (error) {
        t.match(
          error,
          { name: 'Untranslatable', code: 'upstream_bad_response' },
          `${upstream}: ${JSON.stringify(body)}`
        )
      }
    }
  }
})
