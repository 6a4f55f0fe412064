// What an upstream says late or twice: nothing of an answer is lost, nothing is made up, and what contradicts itself is
// no answer.
import t from 'tap'
import type { Test } from 'tap'
import { protocols } from '../../core/protocols/index.ts'
import { Untranslatable } from '../../core/protocols/translation/translation.ts'
import { answered, streamed } from '../kit/pairs.ts'

type Json = any

const created = { type: 'response.created', response: { id: 'resp_1', status: 'in_progress', output: [] } }
const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
const ended = (output: Json[], status = 'completed', more: Json = {}): Json => ({
  type: `response.${status}`,
  response: { id: 'resp_1', status, output, usage, ...more }
})
const call = (args: string, id = 'fc_1'): Json => ({
  type: 'function_call',
  id,
  call_id: 'call_1',
  name: 'delete_file',
  arguments: args
})
const added = (item: Json, place = 0): Json => ({ type: 'response.output_item.added', output_index: place, item })
const done = (item: Json, place = 0): Json => ({ type: 'response.output_item.done', output_index: place, item })
const told = (what: string, rest: Json, place = 0, id = 'fc_1'): Json => ({
  type: `response.${what}`,
  item_id: id,
  output_index: place,
  ...rest
})
const path = '{"path":"/tmp/a"}'

/** What a client of each protocol sees of the calls and the text of an answer. */
const seen: Readonly<Record<string, (events: Json[]) => { calls: string[]; text: string }>> = {
  C: (events) => {
    const deltas = events.flatMap((event) =>
      event === '[DONE]' ? [] : event.choices.map((choice: Json) => choice.delta)
    )
    const args = deltas.flatMap(({ tool_calls: calls = [] }: Json) => calls)
    const joined: string[] = []
    for (const {
      index,
      function: { arguments: piece }
    } of args)
      joined[index] = (joined[index] ?? '') + piece
    return { calls: joined, text: deltas.map(({ content }: Json) => content ?? '').join('') }
  },
  M: (events) => {
    const calls: string[] = []
    let text = ''
    for (const { type, content_block: block, delta } of events) {
      if (type === 'content_block_start' && block.type === 'tool_use') calls.push('')
      if (delta?.type === 'input_json_delta') calls[calls.length - 1] += delta.partial_json
      if (delta?.type === 'text_delta') text += delta.text
    }
    return { calls, text }
  },
  G: (events) => {
    const parts = events.flatMap(({ candidates }) => candidates.flatMap(({ content }: Json) => content.parts))
    return {
      calls: parts.flatMap(({ functionCall: made }: Json) => (made ? [JSON.stringify(made.args)] : [])),
      text: parts.map(({ text = '' }: Json) => text).join('')
    }
  }
}

/** The calls and the text of an answer, the same for clients of all protocols. */
function shown(t: Test, events: Json[]): { calls: string[]; text: string } {
  const [first, ...others] = ['C', 'M', 'G'].map((client) => seen[client]!(streamed(`R⇒${client}`, events).events))
  for (const other of others) t.same(other, first)
  return first!
}

function refusal(events: Json[], client = 'C', upstream = 'R'): Pick<Untranslatable, 'code' | 'message'> | undefined {
  try {
    streamed(`${upstream}⇒${client}`, events)
    return undefined
  } catch (error) {
    if (!(error instanceof Untranslatable)) throw error
    return { code: error.code, message: error.message }
  }
}

t.test('arguments that come in one piece, and late, arrive', async (t) => {
  const begun = [created, added(call(''))]
  const ways: Record<string, Json[]> = {
    'in arguments.done': [told('function_call_arguments.done', { arguments: path }), done(call('')), ended([])],
    'in output_item.done': [done(call(path)), ended([call(path)])],
    'in response.completed': [ended([call(path)])],
    'in response.completed, after an item that was done without': [
      told('function_call_arguments.done', { arguments: '' }),
      done(call('')),
      ended([call(path)])
    ],
    'in response.completed, under another id': [done(call('')), ended([call(path, 'fc_other')])],
    'in part by deltas': [
      told('function_call_arguments.delta', { delta: '{"path"' }),
      told('function_call_arguments.done', { arguments: path }),
      ended([])
    ],
    'in part by deltas, and the rest at the end': [
      told('function_call_arguments.delta', { delta: '{"path"' }),
      done(call('')),
      ended([call(path)])
    ]
  }
  for (const [way, rest] of Object.entries(ways))
    t.same(shown(t, [...begun, ...rest]), { calls: [path], text: '' }, way)
  const custom = { type: 'custom_tool_call', id: 'fc_1', call_id: 'call_1', name: 'apply_patch', input: '' }
  const { events } = streamed('R⇒C', [
    created,
    added(custom),
    told('custom_tool_call_input.done', { input: '*** Begin' }),
    done(custom),
    ended([])
  ])
  t.equal(
    events
      .flatMap((event) => (event === '[DONE]' ? [] : event.choices))
      .flatMap(({ delta }: Json) => delta.tool_calls ?? [])
      .map((made: Json) => made.custom.input)
      .join(''),
    '*** Begin'
  )
})

t.test('arguments that were told are not told again, however they are written', async (t) => {
  const deltas = [created, added(call('')), told('function_call_arguments.delta', { delta: path })]
  const spaced = '{ "path": "/tmp/a" }'
  for (const whole of [path, spaced]) {
    t.same(
      shown(t, [
        ...deltas,
        told('function_call_arguments.done', { arguments: whole }),
        done(call(whole)),
        ended([call(whole)])
      ]).calls,
      [path]
    )
  }
})

t.test('what contradicts what was told is no answer', async (t) => {
  const other = '{"path":"/tmp/b"}'
  const begun = [created, added(call('')), told('function_call_arguments.delta', { delta: path })]
  const ways = [
    [told('function_call_arguments.done', { arguments: other }), done(call(other)), ended([])],
    [done(call(other)), ended([])],
    [done(call(path)), ended([call(other)])]
  ]
  for (const rest of ways)
    for (const client of 'CMG')
      t.match(refusal([...begun, ...rest], client), { code: 'upstream_bad_response', message: /contradicts/ })
  const message = (text: string): Json => ({
    type: 'message',
    id: 'msg_1',
    role: 'assistant',
    content: [{ type: 'output_text', text, annotations: [] }]
  })
  const said = [created, added(message('')), told('output_text.delta', { content_index: 0, delta: 'Yes.' }, 0, 'msg_1')]
  for (const rest of [
    [told('output_text.done', { content_index: 0, text: 'No.' }, 0, 'msg_1'), ended([])],
    [done(message('No.')), ended([])],
    [ended([message('No.')])]
  ]) {
    t.match(refusal([...said, ...rest]), { code: 'upstream_bad_response', message: /contradicts/ })
  }
})

t.test('text that comes in one piece, and late, arrives', async (t) => {
  const part = (text: string): Json => ({ type: 'output_text', text, annotations: [] })
  const message = (...texts: string[]): Json => ({
    type: 'message',
    id: 'msg_1',
    role: 'assistant',
    content: texts.map(part)
  })
  const begun = [created, added({ ...message(), content: [] })]
  const of = (what: string, rest: Json): Json => told(what, { content_index: 0, ...rest }, 0, 'msg_1')
  const ways: Record<string, Json[]> = {
    'in output_text.done': [of('output_text.done', { text: 'Hello' }), done(message()), ended([])],
    'in content_part.done': [of('content_part.done', { part: part('Hello') }), done(message()), ended([])],
    'in output_item.done': [done(message('Hello')), ended([])],
    'in response.completed': [ended([message('Hello')])],
    'in response.completed, after an item that was done without': [done(message()), ended([message('Hello')])],
    'in part by deltas': [
      of('output_text.delta', { delta: 'He' }),
      of('output_text.done', { text: 'Hello' }),
      ended([message('Hello')])
    ],
    'in part by deltas, and the rest at the end': [of('output_text.delta', { delta: 'He' }), ended([message('Hello')])],
    'once, where it is said again without the white space at its end': [
      of('output_text.delta', { delta: 'Hello' }),
      of('output_text.delta', { delta: '' }),
      of('output_text.done', { text: 'Hello\n' }),
      ended([message('Hello')])
    ],
    'in part by its part, then by its item, then again': [
      of('content_part.done', { part: part('He') }),
      done(message('Hello')),
      ended([message('Hello')])
    ],
    'of a second part': [
      of('output_text.delta', { delta: 'He' }),
      of('output_text.done', { text: 'He' }),
      done(message('He', 'llo')),
      ended([message('He', 'llo')])
    ]
  }
  for (const [way, rest] of Object.entries(ways)) t.equal(shown(t, [...begun, ...rest]).text.trim(), 'Hello', way)
  const refused = { type: 'message', id: 'msg_1', role: 'assistant', content: [] }
  const { events } = streamed('R⇒C', [
    created,
    added(refused),
    of('refusal.done', { refusal: 'I cannot.' }),
    done(refused),
    ended([])
  ])
  t.equal(events.map((event) => event.choices?.[0]?.delta.refusal ?? '').join(''), 'I cannot.')
  const thoughts = { type: 'reasoning', id: 'rs_1', summary: [] }
  const thinking = [
    created,
    added(thoughts),
    told('reasoning_summary_text.done', { summary_index: 0, text: 'Hm' }, 0, 'rs_1'),
    done(thoughts),
    added({ ...message(), content: [] }, 1),
    done(message('Yes'), 1)
  ]
  t.equal(
    streamed('R⇒C', [
      ...thinking,
      ended([{ ...thoughts, summary: [{ type: 'summary_text', text: 'Hm' }] }, message('Yes')])
    ])
      .events.map((event) => event.choices?.[0]?.delta.reasoning_content ?? '')
      .join(''),
    'Hm'
  )
})

t.test('a response whose end says nothing of its items is put together from them', async (t) => {
  const collector = protocols['openai-responses'].collect()
  for (const event of [created, added(call('')), done(call(path)), ended([])]) collector.add(event)
  t.match(collector.result(), { status: 'completed', output: [{ arguments: path }] })
})

t.test('arguments that are no object are no arguments, and never none', async (t) => {
  const wrong: Json[] = [5, true, ['a'], 'not json']
  const whole: Record<string, (args: Json) => Json> = {
    C: (args) => ({
      choices: [
        {
          index: 0,
          message: { tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: args } }] },
          finish_reason: 'tool_calls'
        }
      ]
    }),
    R: (args) => ({ id: 'r', status: 'completed', output: [call(args)], usage }),
    M: (args) => ({
      type: 'message',
      content: [{ type: 'tool_use', id: 'a', name: 'f', input: args }],
      stop_reason: 'tool_use',
      usage: { input_tokens: 1, output_tokens: 1 }
    }),
    G: (args) => ({
      candidates: [{ content: { parts: [{ functionCall: { name: 'f', args } }] }, finishReason: 'STOP' }]
    })
  }
  const argumentsIn: Record<string, (body: Json) => Json> = {
    C: (body) => JSON.parse(body.choices[0].message.tool_calls[0].function.arguments),
    M: (body) => body.content[0].input,
    G: (body) => body.candidates[0].content.parts[0].functionCall.args
  }
  for (const [upstream, make] of Object.entries(whole))
    for (const client of 'CMG') {
      if (upstream === client) continue
      for (const args of wrong) {
        // Text that is no JSON is the client's to see where its protocol has it as text.
        if (args === 'not json' && client === 'C' && upstream === 'R') continue
        t.throws(
          () => answered(`${upstream}⇒${client}`, make(args)),
          { code: 'upstream_bad_response' },
          `${upstream}⇒${client} ${JSON.stringify(args)}`
        )
      }
      for (const args of [{ a: 1 }, '{"a":1}'])
        t.same(
          argumentsIn[client]!(answered(`${upstream}⇒${client}`, make(args)).body),
          { a: 1 },
          `${upstream}⇒${client} ${JSON.stringify(args)}`
        )
    }
  const block = [
    { type: 'message_start', message: { id: 'msg', usage: { input_tokens: 1, output_tokens: 1 } } },
    { type: 'content_block_start', index: 0, content_block: { type: 'tool_use', id: 'a', name: 'f', input: 5 } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 1 } },
    { type: 'message_stop' }
  ]
  t.match(refusal(block, 'C', 'M'), { code: 'upstream_bad_response' })
  const pieces = {
    candidates: [
      {
        content: {
          parts: [
            { functionCall: { name: 'f', partialArgs: [{ jsonPath: '$.a', stringValue: 'b' }], willContinue: true } }
          ]
        },
        finishReason: 'STOP'
      }
    ]
  }
  t.match(refusal([pieces], 'C', 'G'), { code: 'upstream_bad_response' }, 'a call in pieces that nobody asked for')
})

t.test('a call that is cut before its arguments has none, and is not one with none', async (t) => {
  const cut = [
    created,
    added(call('')),
    ended([], 'incomplete', { incomplete_details: { reason: 'max_output_tokens' } })
  ]
  const chat = [
    {
      choices: [
        {
          index: 0,
          delta: {
            role: 'assistant',
            tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'delete_file', arguments: '' } }]
          }
        }
      ]
    },
    { choices: [{ index: 0, delta: {}, finish_reason: 'length' }] }
  ]
  t.same(seen['C']!(streamed('R⇒C', cut).events).calls, [''])
  const { events } = streamed('C⇒R', chat)
  t.match(events.at(-1), {
    type: 'response.incomplete',
    response: { output: [{ type: 'function_call', status: 'incomplete', arguments: '' }] }
  })
  for (const upstream of ['R', 'C']) {
    const made = streamed(`${upstream}⇒G`, upstream === 'R' ? cut : chat).events
    t.same(seen['G']!(made).calls, [], upstream)
  }
  const whole = {
    id: 'r',
    status: 'incomplete',
    incomplete_details: { reason: 'max_output_tokens' },
    output: [call('')],
    usage
  }
  t.equal(answered('R⇒C', whole).body.choices[0].message.tool_calls?.[0].function.arguments, '')
  for (const client of 'MG') t.notMatch(JSON.stringify(answered(`R⇒${client}`, whole).body), 'delete_file', client)
})

t.test(
  'calls that come without a number are put together by their ids, and what comes without either goes on with the last',
  async (t) => {
    const piece = (made: Json): Json => ({
      id: 'c',
      choices: [{ index: 0, delta: { tool_calls: [made] }, finish_reason: null }]
    })
    const collector = protocols['openai-chat'].collect()
    const pieces = [
      { id: 'a', type: 'function', function: { name: 'f', arguments: '{"a"' } },
      { function: { arguments: ':1}' } },
      { id: 'b', type: 'function', function: { name: 'g', arguments: '{}' } }
    ]
    for (const made of pieces) collector.add(piece(made))
    collector.add({ id: 'c', choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] })
    const {
      choices: [{ message }]
    } = collector.result() as Json
    t.same(
      message.tool_calls.map(({ id, function: inner }: Json) => [id, inner.arguments]),
      [
        ['a', '{"a":1}'],
        ['b', '{}']
      ]
    )
  }
)
