// Translations that gateways have got wrong: what an upstream is sent, and what a client gets to see.
import t from 'tap'
import { Message } from '../../core/contract/message.ts'
import { EventFramer } from '../../core/exchange/answers/sse.ts'
import type { ModelAnswer } from '../../core/protocols/canonical/answer.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import type { CodecName } from '../../core/protocols/translation/codecs.ts'
import { Asked, mayBeSealed, StreamTranslation, translateAnswer } from '../../core/protocols/translation/translation.ts'
import type { AnswerPlan, Keepsake, Traits } from '../../core/protocols/translation/translation.ts'
import { readAnthropicUsage, writeAnthropicUsage } from '../../core/protocols/usage/anthropic.ts'
import { readGeminiUsage, writeGeminiUsage } from '../../core/protocols/usage/gemini.ts'
import { readChatUsage, writeChatUsage } from '../../core/protocols/usage/openai-chat.ts'
import { readResponsesUsage, writeResponsesUsage } from '../../core/protocols/usage/openai-tokens.ts'
import { answerHead } from '../kit/conversations.ts'

type Json = any

const short: Readonly<Record<string, CodecName>> = {
  C: 'openai-chat',
  R: 'openai-responses',
  M: 'anthropic',
  G: 'gemini'
}

/** `C→M`: what an upstream is sent. */
function sent(pair: string, body: Json, traits: Traits = {}, kept?: ReadonlyMap<string, Keepsake>): Json {
  const [client, upstream] = pair.split('→').map((name) => codecs[short[name]!])
  const asked = new Asked(client!, body, { model: 'm', streaming: false })
  const { body: made, dropped, answer } = asked.for(upstream!, { model: 'up', traits }, kept)
  return { ...JSON.parse(JSON.stringify(made)), dropped, plan: answer }
}

const simplest: Readonly<Record<string, Json>> = {
  C: { model: 'm', messages: [{ role: 'user', content: 'Hi' }] },
  R: { model: 'm', input: 'Hi' },
  M: { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }] },
  G: {
    contents: [{ role: 'user', parts: [{ text: 'Hi' }] }],
    generationConfig: { thinkingConfig: { includeThoughts: true } }
  }
}

function planOf(pair: string): AnswerPlan {
  return sent(pair, simplest[pair[0]!]).plan
}

/** `M⇒C`: events of an upstream as its client sees them; `fail` when the answer was cut. */
function streamed(
  pair: string,
  events: readonly Json[],
  plan = planOf(pair.split('⇒').reverse().join('→'))
): { events: Json[]; names: string[]; end: () => void } {
  const seen: Json[] = []
  const names: string[] = []
  const translation = new StreamTranslation(plan, answerHead, (data, name) => {
    seen.push(data === '[DONE]' ? data : JSON.parse(data))
    names.push(name)
  })
  for (const event of events)
    translation.push(Message.event(typeof event === 'string' ? event : JSON.stringify(event), event.type))
  return { events: seen, names, end: () => translation.end() }
}

/** Likewise, of an answer that is whole. */
function whole(pair: string, events: readonly Json[], plan?: AnswerPlan): Json[] {
  const stream = streamed(pair, events, plan)
  stream.end()
  return stream.events
}

const user = { role: 'user', content: 'Hi' }
const chunk = (delta: Json, finish_reason: string | null = null): Json => ({
  id: 'c',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'up',
  choices: [{ index: 0, delta, finish_reason }]
})
const call = (index: number, id: string | undefined, name: string | undefined, args: Json): Json =>
  chunk({
    tool_calls: [
      {
        index,
        ...(id !== undefined && { id, type: 'function' }),
        function: { ...(name !== undefined && { name }), arguments: args }
      }
    ]
  })
const start = {
  type: 'message_start',
  message: {
    id: 'msg_u',
    type: 'message',
    role: 'assistant',
    model: 'up',
    content: [],
    stop_reason: null,
    usage: { input_tokens: 10, cache_creation_input_tokens: 100, cache_read_input_tokens: 1000, output_tokens: 1 }
  }
}
const block = (index: number, content_block: Json, ...deltas: Json[]): Json[] => [
  { type: 'content_block_start', index, content_block },
  ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
  { type: 'content_block_stop', index }
]
const stop = (stop_reason: string): Json[] => [
  {
    type: 'message_delta',
    delta: { stop_reason, stop_sequence: null },
    usage: { output_tokens: 50, output_tokens_details: { thinking_tokens: 20 } }
  },
  { type: 'message_stop' }
]
const gemini = (parts: Json[], finishReason?: string, usageMetadata?: Json): Json => ({
  candidates: [{ index: 0, content: { role: 'model', parts }, ...(finishReason && { finishReason }) }],
  ...(usageMetadata && { usageMetadata }),
  responseId: 'g'
})

const deltasOf = (events: Json[]): Json[] =>
  events.filter((event) => event.choices?.length > 0).map((event) => event.choices[0].delta)
const callsOf = (events: Json[]): Json[] => {
  const calls: Json[] = []
  for (const delta of deltasOf(events)) {
    for (const { index, id, function: fn } of delta.tool_calls ?? []) {
      calls[index] ??= { id, name: fn.name, arguments: '' }
      calls[index].arguments += fn.arguments ?? ''
    }
  }
  return calls
}
const finishOf = (events: Json[]): string =>
  events.findLast((event) => event.choices?.[0]?.finish_reason).choices[0].finish_reason
const blocksOf = (events: Json[]): Json[] => {
  const blocks: Json[] = []
  for (const event of events) {
    if (event.type === 'content_block_start') blocks[event.index] = { ...event.content_block, joined: '' }
    if (event.type === 'content_block_delta')
      blocks[event.index].joined += event.delta.text ?? event.delta.thinking ?? event.delta.partial_json ?? ''
  }
  return blocks
}
const reasonOf = (events: Json[]): string => events.find((event) => event.type === 'message_delta').delta.stop_reason

t.test(
  'a call that a chat upstream sends in one piece is one call for a client of Messages, with its arguments',
  async (t) => {
    for (const events of [
      [call(0, 'call_a', 'get', '{"q":1}'), chunk({}, 'tool_calls'), '[DONE]'],
      [call(0, 'call_a', 'get', '{"q"'), call(0, '', '', ':1}'), chunk({}, 'stop'), '[DONE]'],
      [call(0, 'call_a', 'get', ''), call(0, 'call_a', 'get', '{"q":1}'), chunk({ role: '' }, 'tool_calls')],
      [call(0, 'call_a', 'get', { q: 1 }), chunk({}, 'tool_calls')],
      // Arguments before the name, and a name without an id that another delta brings beside a blank name.
      [call(0, undefined, undefined, '{"q"'), call(0, 'call_a', 'get', ':1}'), chunk({}, 'tool_calls')],
      [call(0, undefined, 'get', ''), call(0, 'call_a', '', '{"q":1}'), chunk({}, 'tool_calls')],
      [call(0, 'call_a', undefined, ''), call(0, '', 'get', '{"q":1}'), chunk({}, 'tool_calls')]
    ]) {
      const seen = whole('C⇒M', events)
      t.match(blocksOf(seen), [{ type: 'tool_use', id: 'call_a', name: 'get', input: {}, joined: '{"q":1}' }])
      t.equal(reasonOf(seen), 'tool_use')
      t.equal(seen.at(-1).type, 'message_stop')
    }
  }
)

t.test('text and a call in one chunk both arrive, and blocks follow each other', async (t) => {
  const both = chunk({
    role: 'assistant',
    content: 'Let me look.',
    tool_calls: [{ index: 0, id: 'a', type: 'function', function: { name: 'get', arguments: '{}' } }]
  })
  const seen = whole('C⇒M', [both, chunk({}, 'tool_calls')])
  t.match(blocksOf(seen), [
    { type: 'text', joined: 'Let me look.' },
    { type: 'tool_use', name: 'get' }
  ])
  const order = seen
    .filter((event) => event.type.startsWith('content_block_'))
    .map(({ type, index }) => `${type.slice(14)}${index}`)
  t.same(order, ['start0', 'delta0', 'stop0', 'start1', 'delta1', 'stop1'])
})

t.test('calls that an upstream mixes are put in order for clients that take them one after the other', async (t) => {
  const mixed = [
    call(0, 'a', 'one', '{"x":'),
    call(1, 'b', 'two', '{"y":'),
    call(0, undefined, undefined, '1}'),
    call(1, undefined, undefined, '2}'),
    chunk({}, 'tool_calls')
  ]
  t.match(blocksOf(whole('C⇒M', mixed)), [
    { name: 'one', joined: '{"x":1}' },
    { name: 'two', joined: '{"y":2}' }
  ])
  const parts = whole('C⇒G', mixed)
    .flatMap((event) => event.candidates[0].content.parts)
    .filter((part: Json) => part.text !== '')
  t.equal(parts.length, 2, 'nothing of the pieces is shown')
  const later = [
    call(1, undefined, undefined, '{"y":'),
    call(0, 'a', 'one', '{"x":'),
    call(1, 'b', 'two', '2}'),
    call(0, undefined, undefined, '1}'),
    chunk({}, 'tool_calls')
  ]
  for (const client of ['C⇒G', 'C⇒M', 'C⇒R'])
    t.ok(
      JSON.stringify(whole(client, later)).indexOf('"one"') < JSON.stringify(whole(client, later)).indexOf('"two"'),
      `${client}: in the order in which they began`
    )
  t.match(parts, [{ functionCall: { id: 'a', args: { x: 1 } } }, { functionCall: { id: 'b', args: { y: 2 } } }])
})

t.test(
  'calls are counted by themselves, have all that they need at once, and never nothing for arguments',
  async (t) => {
    const seen = whole('M⇒C', [
      start,
      ...block(
        0,
        { type: 'thinking', thinking: '', signature: '' },
        { type: 'thinking_delta', thinking: 'Hm' },
        { type: 'signature_delta', signature: 'sig' }
      ),
      ...block(1, { type: 'text', text: '' }, { type: 'text_delta', text: 'Look' }),
      { type: 'ping' },
      ...block(
        2,
        { type: 'tool_use', id: 't1', name: 'one', input: {} },
        { type: 'input_json_delta', partial_json: '{"a":1}' }
      ),
      ...block(3, { type: 'tool_use', id: 't2', name: 'two', input: {} }),
      ...stop('tool_use')
    ])
    t.same(callsOf(seen), [
      { id: 't1', name: 'one', arguments: '{"a":1}' },
      { id: 't2', name: 'two', arguments: '{}' }
    ])
    t.equal(finishOf(seen), 'tool_calls')
    t.same(seen[0].choices[0].delta, { role: 'assistant', content: '' })
    t.same(
      deltasOf(seen).flatMap(({ reasoning_content: text }) => text ?? []),
      ['Hm']
    )
    t.match(seen.at(-2).usage, {
      prompt_tokens: 1110,
      completion_tokens: 50,
      total_tokens: 1160,
      prompt_tokens_details: { cached_tokens: 1000, cache_write_tokens: 100 },
      completion_tokens_details: { reasoning_tokens: 20 }
    })
    t.equal(seen.at(-1), '[DONE]')
    const responses = whole('M⇒R', [
      start,
      ...block(0, { type: 'tool_use', id: 't2', name: 'two', input: {} }),
      ...stop('tool_use')
    ])
    t.match(
      responses.find(({ type }) => type === 'response.function_call_arguments.done'),
      { arguments: '{}' }
    )
    t.match(responses.at(-1).response.output, [
      { type: 'function_call', call_id: 't2', arguments: '{}', status: 'completed' }
    ])
  }
)

t.test(
  "Gemini's calls come one an event without an id, and are calls all the same when the end says STOP",
  async (t) => {
    const events = [
      gemini([{ functionCall: { name: 'read', args: { p: 1 } } }]),
      gemini([{ functionCall: { name: 'read', args: { p: 2 } } }]),
      gemini([{ text: '' }], 'STOP', {
        promptTokenCount: 100,
        candidatesTokenCount: 20,
        thoughtsTokenCount: 300,
        toolUsePromptTokenCount: 40,
        cachedContentTokenCount: 60,
        totalTokenCount: 460
      })
    ]
    const chat = whole('G⇒C', events)
    const calls = callsOf(chat)
    t.match(calls, [
      { name: 'read', arguments: '{"p":1}' },
      { name: 'read', arguments: '{"p":2}' }
    ])
    t.not(calls[0].id, calls[1].id)
    t.equal(finishOf(chat), 'tool_calls')
    t.match(chat.at(-2).usage, {
      prompt_tokens: 140,
      completion_tokens: 320,
      completion_tokens_details: { reasoning_tokens: 300 },
      prompt_tokens_details: { cached_tokens: 60 }
    })
    t.equal(reasonOf(whole('G⇒M', events)), 'tool_use')
    t.match(whole('G⇒R', events).at(-1), { type: 'response.completed', response: { status: 'completed' } })
  }
)

t.test('a call that the limit cut off is never told as one that is whole', async (t) => {
  const cut = [call(0, 'a', 'write', '{"path":"/a'), chunk({}, 'length'), '[DONE]']
  t.equal(reasonOf(whole('C⇒M', cut)), 'max_tokens')
  t.match(whole('C⇒R', cut).at(-1), {
    type: 'response.incomplete',
    response: {
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output: [{ status: 'incomplete', arguments: '{"path":"/a' }]
    }
  })
  const chunks = whole('C⇒G', cut)
  t.notOk(chunks.some((event) => event.candidates[0].content.parts.some((part: Json) => part.functionCall)))
  t.equal(chunks.at(-1).candidates[0].finishReason, 'MAX_TOKENS')
  const { body } = translateAnswer(
    planOf('M→C'),
    {
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: null,
            tool_calls: [{ id: 'a', type: 'function', function: { name: 'write', arguments: '{"path":"/a' } }]
          },
          finish_reason: 'length'
        }
      ]
    },
    answerHead
  )
  t.same([body['content'], body['stop_reason']], [[], 'max_tokens'])
  const { body: other } = translateAnswer(
    planOf('G→C'),
    {
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: null,
            tool_calls: [{ id: 'a', type: 'function', function: { name: 'write', arguments: '{"path":"/a' } }]
          },
          finish_reason: 'length'
        }
      ]
    },
    answerHead
  )
  t.same((other as Json).candidates[0].content.parts, [])
})

t.test(
  'arguments that are no JSON, of a call that nothing cut off, are an error where arguments are an object',
  async (t) => {
    for (const broken of ['{bad', '[1]', '"x"', '7', '{"a":1}}']) {
      const message = {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: broken } }]
      }
      for (const client of 'MG') {
        t.throws(
          () => whole(`C⇒${client}`, [call(0, 'a', 'f', broken), chunk({}, 'tool_calls')]),
          { code: 'upstream_bad_response' },
          `${broken} to ${client}, streamed`
        )
        t.throws(
          () =>
            translateAnswer(
              planOf(`${client}→C`),
              { choices: [{ index: 0, message, finish_reason: 'tool_calls' }] },
              answerHead
            ),
          { code: 'upstream_bad_response' },
          `${broken} to ${client}, whole`
        )
      }
      t.equal(
        whole('C⇒R', [call(0, 'a', 'f', broken), chunk({}, 'tool_calls')]).at(-1).response.output[0].arguments,
        broken,
        'text stays text'
      )
    }
  }
)

t.test('what Responses say again when something is done is not told again', async (t) => {
  const item = { type: 'function_call', id: 'fc_1', call_id: 'call_9', name: 'get', arguments: '' }
  const at = { item_id: 'fc_1', output_index: 0 }
  const done = { ...item, arguments: '{"a":1}', status: 'completed' }
  const events = [
    { type: 'response.created', response: { id: 'resp_u', status: 'in_progress', output: [] } },
    { type: 'codex.rate_limits', limit_reached: true },
    { type: 'response.output_item.added', output_index: 0, item },
    { type: 'response.function_call_arguments.delta', ...at, delta: '{"a":' },
    { type: 'response.future_thing.delta', delta: 'x' },
    { type: 'response.function_call_arguments.delta', ...at, delta: '1}' },
    { type: 'response.function_call_arguments.done', ...at, arguments: '{"a":1}' },
    { type: 'response.output_item.done', output_index: 0, item: done },
    {
      type: 'response.completed',
      response: {
        id: 'resp_u',
        status: 'completed',
        output: [done],
        usage: { input_tokens: 5, output_tokens: 5, total_tokens: 10 }
      }
    }
  ]
  t.same(callsOf(whole('R⇒C', events)), [{ id: 'call_9', name: 'get', arguments: '{"a":1}' }])
  t.match(blocksOf(whole('R⇒M', events)), [{ id: 'call_9', joined: '{"a":1}' }])
})

t.test('what Responses say at the end alone is told all the same, and nothing of it twice', async (t) => {
  const item = {
    type: 'message',
    id: 'msg_1',
    role: 'assistant',
    status: 'completed',
    content: [{ type: 'output_text', text: 'Hi', annotations: [] }]
  }
  const made = {
    type: 'function_call',
    id: 'fc_1',
    call_id: 'call_9',
    name: 'get',
    arguments: '{"a":1}',
    status: 'completed'
  }
  const delta = (output_index: number, item_id: string): Json => ({
    type: 'response.output_text.delta',
    output_index,
    item_id,
    content_index: 0,
    delta: 'Hi'
  })
  const stream = (output: Json[], ...events: Json[]): Json[] => [
    { type: 'response.created', response: { id: 'r', status: 'in_progress', output: [] } },
    ...events,
    { type: 'response.completed', response: { id: 'r', status: 'completed', output } }
  ]
  const begun = (output_index: number, id: string): Json => ({
    type: 'response.output_item.added',
    output_index,
    item: { ...item, id, content: [] }
  })
  const said = (events: Json[]): Json => [
    deltasOf(events)
      .map(({ content }) => content ?? '')
      .join(''),
    callsOf(events).map(({ name, arguments: args }) => [name, args]),
    finishOf(events)
  ]
  const all = ['Hi', [['get', '{"a":1}']], 'tool_calls']
  t.same(said(whole('R⇒C', stream([item, made]))), all, 'nothing was streamed')
  t.same(said(whole('R⇒C', stream([item, made], begun(0, 'msg_1'), delta(0, 'msg_1')))), all, 'a call was not')
  t.same(
    said(whole('R⇒C', stream([item], begun(0, 'msg_other'), delta(0, 'msg_other')))),
    ['Hi', [], 'stop'],
    'the id is another at the end'
  )
  t.same(
    said(
      whole('R⇒C', stream([item, { ...item, id: 'msg_2' }], begun(0, 'a'), delta(0, 'a'), begun(0, 'b'), delta(0, 'b')))
    ),
    ['HiHi', [], 'stop'],
    'all places and all ids are wrong'
  )
})

t.test('an answer that was cut has no end in any pair', async (t) => {
  const begun: Readonly<Record<string, Json[]>> = {
    C: [chunk({ role: 'assistant', content: '' }), chunk({ content: 'He' })],
    M: [
      start,
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'He' } }
    ],
    G: [gemini([{ text: 'He' }])],
    R: [
      { type: 'response.created', response: { id: 'r', status: 'in_progress', output: [] } },
      {
        type: 'response.output_item.added',
        output_index: 0,
        item: { type: 'message', id: 'msg_1', role: 'assistant', content: [] }
      },
      { type: 'response.output_text.delta', item_id: 'msg_1', output_index: 0, content_index: 0, delta: 'He' }
    ]
  }
  const ends = /DONE|"finish_reason":"|message_stop|stop_reason":"|finishReason|response\.(completed|incomplete)/
  for (const [upstream, events] of Object.entries(begun)) {
    for (const client of 'CMGR') {
      if (client === upstream) continue
      const written: string[] = []
      const translation = new StreamTranslation(planOf(`${client}→${upstream}`), answerHead, (data) =>
        written.push(data)
      )
      for (const event of events) translation.push(Message.event(JSON.stringify(event), event.type))
      t.notOk(translation.finished())
      t.throws(() => translation.end(), { code: 'upstream_bad_response' }, `${upstream}⇒${client}`)
      t.notMatch(written.join('\n'), ends, `${upstream}⇒${client}`)
    }
  }
  t.throws(() => whole('C⇒M', [chunk({ content: 'He' }), { error: { message: 'overloaded', code: null } }]), {
    message: 'overloaded'
  })
  t.throws(() => whole('M⇒C', [start, { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }]), {
    message: 'Overloaded'
  })
  for (const event of [
    { choices: [{ index: 0, delta: {}, finish_reason: 'error', error: { message: 'overloaded' } }] },
    { choices: [{ index: 0, delta: {}, finish_reason: 'stop', error: { message: 'overloaded' } }] }
  ]) {
    t.throws(
      () => whole('C⇒M', [chunk({ content: 'He' }), event, chunk({}, 'stop')]),
      { message: 'overloaded' },
      'an error of a choice'
    )
  }
  t.throws(
    () =>
      whole('G⇒C', [
        gemini([{ text: 'He' }]),
        { error: { code: 503, message: 'overloaded', status: 'UNAVAILABLE' } },
        gemini([], 'STOP')
      ]),
    { message: 'overloaded' }
  )
  const created = { type: 'response.created', response: { id: 'r', status: 'in_progress', output: [] } }
  const completed = { type: 'response.completed', response: { id: 'r', status: 'completed', output: [] } }
  t.throws(() => whole('R⇒C', [created, { type: 'error', code: 'server_error', message: 'overloaded' }, completed]), {
    message: 'overloaded'
  })
  t.throws(
    () =>
      whole('R⇒M', [
        created,
        {
          type: 'response.failed',
          response: { status: 'failed', error: { code: 'server_error', message: 'overloaded' } }
        },
        completed
      ]),
    { message: 'overloaded' }
  )
  t.throws(
    () => whole('R⇒G', [created, { type: 'response.cancelled', response: { status: 'cancelled', output: [] } }]),
    { code: 'upstream_bad_response' }
  )
  t.throws(
    () => whole('C⇒R', [chunk({ content: 'He' }), '[DONE]']),
    { code: 'upstream_bad_response' },
    'an end marker without a reason is no end'
  )
})

t.test('reasons to stop keep their meaning, and those that nobody knows their name', async (t) => {
  const text = block(0, { type: 'text', text: '' }, { type: 'text_delta', text: 'x' })
  const reasons = {
    end_turn: 'stop',
    max_tokens: 'length',
    stop_sequence: 'stop',
    refusal: 'content_filter',
    pause_turn: 'stop',
    model_context_window_exceeded: 'length',
    brand_new_reason: 'brand_new_reason'
  }
  for (const [given, expected] of Object.entries(reasons))
    t.equal(finishOf(whole('M⇒C', [start, ...text, ...stop(given)])), expected, given)
  for (const [given, expected] of Object.entries({
    STOP: 'stop',
    SAFETY: 'content_filter',
    RECITATION: 'content_filter',
    MAX_TOKENS: 'length',
    OTHER: 'OTHER',
    NEW: 'NEW'
  })) {
    t.equal(finishOf(whole('G⇒C', [gemini([{ text: 'x' }], given)])), expected, given)
  }
  t.equal(reasonOf(whole('C⇒M', [chunk({ content: 'x' }, 'content_filter')])), 'refusal')
  for (const [reason, expected] of [
    ['content_filter', 'content_filter'],
    ['max_output_tokens', 'length'],
    [undefined, 'incomplete']
  ]) {
    t.equal(
      finishOf(
        whole('R⇒C', [
          { type: 'response.created', response: {} },
          {
            type: 'response.incomplete',
            response: { status: 'incomplete', incomplete_details: { reason }, output: [] }
          }
        ])
      ),
      expected,
      String(reason)
    )
  }
  t.throws(() => whole('G⇒C', [gemini([], 'MALFORMED_FUNCTION_CALL')]), { code: 'upstream_bad_response' })
  for (const [said, told] of [
    [{}, 'SAFETY'],
    [{ blockReasonMessage: 'Not that.' }, 'Not that.']
  ] as const) {
    const blocked = whole('G⇒C', [{ promptFeedback: { blockReason: 'SAFETY', ...said } }])
    t.equal(finishOf(blocked), 'content_filter')
    t.same(
      blocked.flatMap(({ choices }: Json) => choices?.[0]?.delta.refusal ?? []),
      [told]
    )
  }
})

t.test('what an upstream answers in odd forms is text all the same, and thoughts are not', async (t) => {
  const answer = (message: Json): Json => ({ choices: [{ index: 0, message, finish_reason: 'stop' }] })
  const text = (body: Json): string =>
    body.content
      .filter(({ type }: Json) => type === 'text')
      .map((part: Json) => part.text)
      .join('')
  const messages = (message: Json): Json => translateAnswer(planOf('M→C'), answer(message), answerHead).body
  t.equal(
    text(
      messages({
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' }
        ]
      })
    ),
    'ab'
  )
  t.equal(text(messages({ content: null, refusal: 'No.' })), 'No.')
  t.equal(messages({ content: null, refusal: 'No.' })['stop_reason'], 'refusal')
  t.same(messages({ role: 'assistant' })['content'], [])
  const thought = messages({ content: 'a', reasoning_content: 'Hm' })
  t.match(thought['content'], [
    { type: 'thinking', thinking: 'Hm', signature: /^sluice1\./ },
    { type: 'text', text: 'a' }
  ])
})

t.test(
  'signatures come back to the provider that made them, on the call that they were on, and nobody else sees them',
  async (t) => {
    const { body, kept } = translateAnswer(
      planOf('C→G'),
      {
        candidates: [
          {
            content: {
              parts: [
                { functionCall: { id: 'c1', name: 'get', args: {} }, thoughtSignature: 'U0lH' },
                { functionCall: { id: 'c2', name: 'get', args: {} } }
              ]
            },
            finishReason: 'STOP'
          }
        ]
      },
      answerHead
    )
    const { message } = (body as Json).choices[0]
    const again = (calls: Json): Json => ({
      model: 'm',
      messages: [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: null, tool_calls: calls },
        { role: 'tool', tool_call_id: 'c1', content: '1' },
        { role: 'tool', tool_call_id: 'c2', content: '2' }
      ]
    })
    const signatures = (request: Json): Json => request.contents[1].parts.map((part: Json) => part.thoughtSignature)
    t.same(signatures(sent('C→G', again(message.tool_calls))), ['U0lH', undefined])
    const stripped = message.tool_calls.map(({ extra_content: _extra, ...rest }: Json) => rest)
    t.same(signatures(sent('C→G', again(stripped), {}, kept)), ['U0lH', undefined], 'kept by the gateway')
    t.same(signatures(sent('C→G', again(stripped))), ['skip_thought_signature_validator', undefined])
    t.notMatch(JSON.stringify(sent('C→M', again(message.tool_calls))), 'U0lH')

    const messages = translateAnswer(
      planOf('M→G'),
      {
        candidates: [
          {
            content: { parts: [{ functionCall: { id: 'c1', name: 'get', args: {} }, thoughtSignature: 'U0lH' }] },
            finishReason: 'STOP'
          }
        ]
      },
      answerHead
    ).body as Json
    const replay = {
      ...simplest['M'],
      messages: [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: messages.content },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: '1' }] }
      ]
    }
    t.same(signatures(sent('M→G', replay)), ['U0lH'], 'through a protocol without a place for it')
    const events = whole('G⇒R', [
      gemini([{ functionCall: { id: 'c1', name: 'get', args: {} }, thoughtSignature: 'U0lH' }], 'STOP')
    ])
    const input = [
      { role: 'user', content: 'Hi' },
      ...events.at(-1).response.output,
      { type: 'function_call_output', call_id: 'c1', output: '1' }
    ]
    t.same(signatures(sent('R→G', { model: 'm', input })), ['U0lH'], 'and through another')
    const chunks = whole('G⇒C', [
      gemini([{ functionCall: { id: 'c1', name: 'get', args: {} }, thoughtSignature: 'U0lH' }], 'STOP')
    ])
    t.same(
      deltasOf(chunks).flatMap(({ tool_calls: calls = [] }) => calls.flatMap((made: Json) => made.extra_content ?? [])),
      [{ google: { thought_signature: 'U0lH' } }],
      'and a stream of chat'
    )
    const streamedBlocks = blocksOf(
      whole('G⇒M', [gemini([{ functionCall: { id: 'c1', name: 'get', args: {} }, thoughtSignature: 'U0lH' }], 'STOP')])
    )
    t.match(streamedBlocks, [{ type: 'thinking' }, { type: 'tool_use' }], 'a stream has it, too')
  }
)

t.test('thoughts of Messages are kept for a chat client and stand before the call again', async (t) => {
  const answer = {
    type: 'message',
    content: [
      { type: 'thinking', thinking: 'Hm', signature: 'sig' },
      { type: 'tool_use', id: 't1', name: 'get', input: {} }
    ],
    stop_reason: 'tool_use',
    usage: { input_tokens: 1, output_tokens: 1 }
  }
  const { kept } = translateAnswer(planOf('C→M'), answer, answerHead)
  const replay = {
    model: 'm',
    messages: [
      { role: 'user', content: 'Hi' },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 't1', type: 'function', function: { name: 'get', arguments: '' } }]
      },
      { role: 'tool', tool_call_id: 't1', content: 'ok' }
    ]
  }
  t.same(new Asked(codecs['openai-chat'], replay, { model: 'm', streaming: false }).missing(codecs.anthropic), ['t1'])
  const { messages } = sent(
    'C→M',
    replay,
    {},
    JSON.parse(JSON.stringify([...kept])).length ? new Map(JSON.parse(JSON.stringify([...kept]))) : undefined
  )
  t.same(messages[1].content, [
    { type: 'thinking', thinking: 'Hm', signature: 'sig' },
    { type: 'tool_use', id: 't1', name: 'get', input: {} }
  ])
  t.same(messages[2].content, [{ type: 'tool_result', tool_use_id: 't1', content: [{ type: 'text', text: 'ok' }] }])
})

t.test(
  'a provider that gets a request as it came sees no signature that the gateway made, and its own as they were',
  async (t) => {
    const own = [
      { type: 'thinking', thinking: 'a', signature: 'sig' },
      { type: 'redacted_thinking', data: 'x' },
      { type: 'text', text: 'b' }
    ]
    const mixed = {
      messages: [
        user,
        {
          role: 'assistant',
          content: [{ type: 'thinking', thinking: 'c', signature: 'sluice1.gemini.signature..U0lH' }, ...own]
        },
        { role: 'assistant', content: [{ type: 'thinking', thinking: 'd', signature: 'sluice1.' }] }
      ]
    }
    t.ok(mayBeSealed(Buffer.from(JSON.stringify(mixed))))
    t.same(codecs.anthropic.withoutSealed!(mixed), {
      key: 'messages',
      value: [user, { role: 'assistant', content: own }]
    })
    t.equal(codecs.anthropic.withoutSealed!({ messages: [user, { role: 'assistant', content: own }] }), undefined)
    const sealed = Buffer.from('sluice1.anthropic.signature..sig').toString('base64')
    const contents = [
      {
        role: 'model',
        parts: [
          { text: 'c', thought: true, thoughtSignature: sealed },
          { text: 'b', thoughtSignature: 'U0lH' },
          { functionCall: { name: 'f' }, thoughtSignature: sealed }
        ]
      }
    ]
    t.ok(mayBeSealed(Buffer.from(JSON.stringify(contents))))
    t.same((codecs.gemini.withoutSealed!({ contents }) as Json).value[0].parts, [
      { text: 'b', thoughtSignature: 'U0lH' },
      { functionCall: { name: 'f' }, thoughtSignature: 'skip_thought_signature_validator' }
    ])
    const input = [
      { type: 'reasoning', encrypted_content: 'blob' },
      { type: 'reasoning', encrypted_content: 'sluice1.anthropic.signature..sig' }
    ]
    t.same(codecs['openai-responses'].withoutSealed!({ input }), { key: 'input', value: input.slice(0, 1) })
  }
)

t.test('wherever the bytes of a stream are cut, the client gets the same', async (t) => {
  const streams: Readonly<Record<string, Json[]>> = {
    C: [
      chunk({ role: 'assistant', content: '漢😀é' }),
      call(0, 'a', 'get', '{"x":"😀'),
      call(0, undefined, undefined, '\u00e9"}'),
      chunk({}, 'tool_calls'),
      '[DONE]'
    ],
    M: [
      start,
      ...block(0, { type: 'text', text: '' }, { type: 'text_delta', text: '漢😀é' }),
      ...block(
        1,
        { type: 'tool_use', id: 'a', name: 'get', input: {} },
        { type: 'input_json_delta', partial_json: '{"x":"😀' },
        { type: 'input_json_delta', partial_json: '\u00e9"}' }
      ),
      ...stop('tool_use')
    ],
    G: [
      gemini([{ text: '漢😀' }]),
      gemini([{ text: 'é' }, { functionCall: { id: 'a', name: 'get', args: { x: '😀é' } } }]),
      gemini([{ text: '' }], 'STOP')
    ]
  }
  const bytesOf = (events: Json[]): Buffer =>
    Buffer.from(
      events
        .map((event) =>
          (typeof event === 'string'
            ? Message.event(event)
            : Message.event(JSON.stringify(event), event.type)
          ).bytes.toString()
        )
        .join('')
    )
  for (const [upstream, events] of Object.entries(streams)) {
    const bytes = bytesOf(events)
    for (const client of 'CRMG') {
      if (client === upstream) continue
      const plan = planOf(`${client}→${upstream}`)
      const read = (...parts: Buffer[]): string => {
        const written: string[] = []
        const translation = new StreamTranslation(plan, answerHead, (data, name) => written.push(`${name}:${data}`))
        const framer = new EventFramer((event: Message) => translation.push(event))
        for (const part of parts) framer.push(part)
        translation.end()
        return written.join('\n')
      }
      const expected = read(bytes)
      t.notMatch(expected, '\ufffd')
      let different = 0
      for (let at = 1; at < bytes.length; at++)
        if (read(bytes.subarray(0, at), bytes.subarray(at)) !== expected) different++
      t.equal(different, 0, `${upstream}⇒${client}`)
    }
  }
})

t.test('an answer that was asked for with a tool is text, and what the model really calls is a call', async (t) => {
  const request = {
    ...simplest['C'],
    tools: [{ type: 'function', function: { name: 'get', parameters: {} } }],
    response_format: { type: 'json_schema', json_schema: { name: 'n', schema: { type: 'object' } } }
  }
  const { tools, tool_choice, plan } = sent('C→M', request, { jsonSchema: 'tool' })
  t.same(tool_choice, { type: 'any' })
  const use = (index: number, name: string): Json[] =>
    block(
      index,
      { type: 'tool_use', id: `t${index}`, name, input: {} },
      { type: 'input_json_delta', partial_json: '{"a":1}' }
    )
  const answered = whole('M⇒C', [start, ...use(0, tools[1].name), ...stop('tool_use')], plan)
  t.equal(
    deltasOf(answered)
      .map(({ content }) => content ?? '')
      .join(''),
    '{"a":1}'
  )
  t.same([callsOf(answered), finishOf(answered)], [[], 'stop'])
  t.notMatch(JSON.stringify(answered), tools[1].name)
  const calling = whole('M⇒C', [start, ...use(0, 'get'), ...stop('tool_use')], plan)
  t.same([callsOf(calling), finishOf(calling)], [[{ id: 't0', name: 'get', arguments: '{"a":1}' }], 'tool_calls'])
})

t.test('free text and groups of tools come back to a client of Responses as they were offered', async (t) => {
  const body = {
    model: 'm',
    input: 'Hi',
    tools: [
      { type: 'custom', name: 'patch' },
      { type: 'namespace', name: 'crm', tools: [{ type: 'function', name: 'find', parameters: {} }] }
    ]
  }
  const { plan } = sent('R→C', body)
  const seen = whole(
    'C⇒R',
    [
      call(0, 'a', 'patch', '{"input":"raw'),
      call(0, undefined, undefined, ' \\"x\\""}'),
      call(1, 'b', 'crm__find', '{}'),
      chunk({}, 'tool_calls')
    ],
    plan
  )
  t.match(seen.at(-1).response.output, [
    { type: 'custom_tool_call', call_id: 'a', name: 'patch', input: 'raw "x"' },
    { type: 'function_call', call_id: 'b', name: 'find', namespace: 'crm', arguments: '{}' }
  ])
  t.same(
    seen.map(({ sequence_number }) => sequence_number),
    seen.map((_event, index) => index)
  )
})

t.test('usage that is written for a client reads as it was', async (t) => {
  const usage = { input: 10, cached_input: 1000, cache_write: 60, cache_write_long: 40, output: 50, reasoning: 20 }
  t.match(readAnthropicUsage(writeAnthropicUsage(usage)), usage)
  t.match(readResponsesUsage(writeResponsesUsage(usage)), usage)
  t.match(readChatUsage(writeChatUsage(usage)), {
    input: 10,
    cached_input: 1000,
    cache_write: 100,
    output: 50,
    reasoning: 20
  })
  t.match(readGeminiUsage(writeGeminiUsage(usage)), { input: 110, cached_input: 1000, output: 50, reasoning: 20 })
  t.match(writeGeminiUsage(usage), {
    promptTokenCount: 1110,
    cachedContentTokenCount: 1000,
    candidatesTokenCount: 30,
    thoughtsTokenCount: 20,
    totalTokenCount: 1160
  })
})

t.test('a response repeats what was asked for, and says what holds where nothing was', (t) => {
  const codec = codecs['openai-responses']
  const asked = {
    instructions: 'Be short.',
    max_output_tokens: 9,
    parallel_tool_calls: false,
    reasoning: { effort: 'low', summary: 'auto' },
    temperature: 0.5,
    text: { format: { type: 'json_object' }, verbosity: 'low' },
    tool_choice: 'none',
    tools: [{ type: 'function', name: 'f' }],
    top_p: 0.25,
    truncation: 'auto',
    user: 'u',
    metadata: { a: 'b' }
  }
  t.same([...codec.repeats!].sort(), Object.keys(asked).sort())
  const answer: ModelAnswer = {
    id: 'x',
    candidates: [{ parts: [{ type: 'text', text: 'Hi' }], finish: { reason: 'stop' } }],
    usage: undefined
  }
  t.match(codec.encodeAnswer(answer, { ...answerHead, request: asked }), asked)
  t.match(codec.encodeAnswer(answer, { ...answerHead, request: {} }), {
    instructions: null,
    max_output_tokens: null,
    parallel_tool_calls: true,
    reasoning: { effort: null, summary: null },
    temperature: null,
    text: { format: { type: 'text' } },
    tool_choice: 'auto',
    tools: [],
    top_p: null,
    truncation: 'disabled',
    user: null,
    metadata: {}
  })
  t.end()
})
