// Calls and their results on the way to another protocol: their ids, and the thoughts that led to them.
import t from 'tap'
import { answered, refusal, sent, streamed } from '../kit/pairs.ts'

type Json = any

const user = { role: 'user', content: 'Hi' }
const call = (id: string, name: string): Json => ({ id, type: 'function', function: { name, arguments: '{}' } })
const calls = (...made: Json[]): Json => ({ role: 'assistant', content: null, tool_calls: made })
const result = (id: string, content: string): Json => ({ role: 'tool', tool_call_id: id, content })
const chat = (...messages: Json[]): Json => ({ model: 'm', messages: [user, ...messages] })
/**
 * Of each call its id and its name, and of each result the id and the text, in the order in which an upstream gets
 * them.
 */
const pairing: Readonly<Record<string, (body: Json) => string[]>> = {
  C: ({ messages }) =>
    messages.flatMap((message: Json) =>
      message.role === 'tool'
        ? [`${message.tool_call_id}: ${message.content}`]
        : (message.tool_calls ?? []).map((made: Json) => `${message.tool_calls && made.id} ${made.function.name}`)
    ),
  R: ({ input }) =>
    input.flatMap((item: Json) =>
      item.type === 'function_call'
        ? [`${item.call_id} ${item.name}`]
        : item.type === 'function_call_output'
          ? [`${item.call_id}: ${item.output}`]
          : []
    ),
  M: ({ messages }) =>
    messages.flatMap(({ content }: Json) =>
      content.flatMap((block: Json) =>
        block.type === 'tool_use'
          ? [`${block.id} ${block.name}`]
          : block.type === 'tool_result'
            ? [`${block.tool_use_id}: ${block.content[0].text}`]
            : []
      )
    ),
  G: ({ contents }) =>
    contents.flatMap(({ parts }: Json) =>
      parts.flatMap(({ functionCall: made, functionResponse: given }: Json) =>
        made ? [`${made.id} ${made.name}`] : given ? [`${given.id}: ${given.response.output}`] : []
      )
    )
}

t.test('ids that are used again are the id of one call each, and results find theirs', async (t) => {
  const conversation = chat(
    calls(call('a', 'f'), call('a', 'g')),
    result('a', '1'),
    result('a', '2'),
    calls(call('a', 'h')),
    result('a', '3')
  )
  for (const upstream of 'RMG')
    t.same(
      pairing[upstream]!(sent(`C→${upstream}`, conversation).body),
      ['a f', 'a_2 g', 'a: 1', 'a_2: 2', 'a_3 h', 'a_3: 3'],
      upstream
    )
  const { contents } = sent('C→G', conversation).body
  t.same(
    contents[2].parts.map((part: Json) => part.functionResponse.name),
    ['f', 'g'],
    "each result is told as its own tool's"
  )
  const messages = {
    model: 'm',
    max_tokens: 9,
    messages: [
      user,
      { role: 'assistant', content: ['f', 'g'].map((name) => ({ type: 'tool_use', id: 'a', name, input: {} })) },
      { role: 'user', content: ['1', '2'].map((content) => ({ type: 'tool_result', tool_use_id: 'a', content })) }
    ]
  }
  t.same(pairing['C']!(sent('M→C', messages).body), ['a f', 'a_2 g', 'a: 1', 'a_2: 2'])
  t.match(
    refusal('C→M', chat(calls(call('a', 'f'), call('a', 'g')), result('a', '1'))),
    { code: 'invalid_field' },
    'one result is not enough for two'
  )
  t.match(
    refusal('C→M', chat(calls(call('a', 'f')), result('a', '1'), result('a', '2'))),
    { code: 'invalid_field' },
    'and two are too many for one'
  )
})

t.test('ids have characters and a length that the upstream takes, and stay different', async (t) => {
  const long = (end: string): string => `functions.read:${'x'.repeat(200)}${end}`
  const conversation = chat(
    calls(call(long('1'), 'f'), call(long('2'), 'g'), call('', 'h')),
    result(long('2'), '2'),
    result(long('1'), '1'),
    result('', '3')
  )
  for (const [upstream, rule] of Object.entries({ R: /^.{1,64}$/, M: /^[\w-]{1,64}$/, G: /^.{1,256}$/ })) {
    const { body } = sent(`C→${upstream}`, conversation)
    const told = pairing[upstream]!(body)
    const ids = Object.fromEntries(told.slice(0, 3).map((line) => line.split(' ').reverse() as [string, string]))
    t.equal(new Set(Object.values(ids)).size, 3)
    for (const id of Object.values(ids)) t.match(id, rule, upstream)
    t.same(told.slice(3).sort(), [`${ids['f']}: 1`, `${ids['g']}: 2`, `${ids['h']}: 3`].sort(), upstream)
    t.same(sent(`C→${upstream}`, conversation).body, body)
  }
  const gemini = {
    contents: [
      { role: 'user', parts: [{ text: 'Hi' }] },
      { role: 'model', parts: [{ functionCall: { id: `call_${'0'.repeat(32)}_0_0`, name: 'f', args: {} } }] },
      {
        role: 'user',
        parts: [{ functionResponse: { id: `call_${'0'.repeat(32)}_0_0`, name: 'f', response: { output: '1' } } }]
      }
    ]
  }
  const [made, given] = pairing['C']!(sent('G→C', gemini).body)
  t.match(made, /^\S{1,40} f$/, 'ids of the gateway itself, too')
  t.equal(given, `${made!.split(' ')[0]}: 1`)
})

t.test('calls of one answer have an id each, whatever the upstream gave them', async (t) => {
  const block = (index: number, name: string): Json[] => [
    { type: 'content_block_start', index, content_block: { type: 'tool_use', id: 'a', name, input: {} } },
    { type: 'content_block_stop', index }
  ]
  const start = { type: 'message_start', message: { id: 'msg', usage: { input_tokens: 1, output_tokens: 1 } } }
  const end = [
    { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 1 } },
    { type: 'message_stop' }
  ]
  const { events } = streamed('M⇒R', [start, ...block(0, 'f'), ...block(1, 'g'), ...end])
  t.same(
    events.at(-1).response.output.map(({ call_id, name }: Json) => [call_id, name]),
    [
      ['a', 'f'],
      ['a_2', 'g']
    ]
  )
  const { body } = answered('C⇒M', {
    choices: [{ index: 0, message: { tool_calls: [call('a', 'f'), call('a', 'g')] }, finish_reason: 'tool_calls' }]
  })
  t.same(
    body.content.map(({ id, name }: Json) => [id, name]),
    [
      ['a', 'f'],
      ['a_2', 'g']
    ]
  )
})

const thinking = (text: string): Json => ({ type: 'thinking', thinking: text, signature: `sig of ${text}` })
const use = (id: string): Json => ({ type: 'tool_use', id, name: 'f', input: {} })

t.test(
  'thoughts that were kept for a client stand where the model had them: the first of them before its text',
  async (t) => {
    const content = [
      thinking('one'),
      { type: 'text', text: 'Let me look.' },
      thinking('two'),
      use('a'),
      thinking('three'),
      use('b')
    ]
    const { body, kept } = answered('M⇒C', {
      type: 'message',
      content,
      stop_reason: 'tool_use',
      usage: { input_tokens: 1, output_tokens: 1 }
    })
    const again = chat(body.choices[0].message, result('a', '1'), result('b', '2'))
    const { body: request, dropped } = sent('C→M', again, {}, new Map(JSON.parse(JSON.stringify([...kept]))))
    t.same(request.messages[1].content, content)
    t.same(dropped, [], 'what the client has of them is not missed')

    const item = (id: string): Json => ({
      type: 'function_call',
      id: `fc_${id}`,
      call_id: id,
      name: 'f',
      arguments: '{}'
    })
    const output = [
      { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'one' }], encrypted_content: 'blob' },
      {
        type: 'message',
        id: 'msg_1',
        role: 'assistant',
        content: [{ type: 'output_text', text: 'Let me look.', annotations: [] }]
      },
      item('a')
    ]
    const responses = answered('R⇒C', {
      id: 'r',
      status: 'completed',
      output,
      usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
    })
    const replayed = sent('C→R', chat(responses.body.choices[0].message, result('a', '1')), {}, responses.kept)
    t.same(
      replayed.body.input.slice(1, 4).map(({ type }: Json) => type),
      ['reasoning', 'message', 'function_call']
    )
    t.same(replayed.dropped, [])
  }
)

t.test('thoughts that nobody kept are named by the member that holds them', async (t) => {
  const turn = [
    { type: 'thinking', thinking: 'Hm', signature: 'sig' },
    { type: 'text', text: 'a' }
  ]
  const messages = { model: 'm', max_tokens: 9, messages: [user, { role: 'assistant', content: turn }, user] }
  t.same(sent('M→C', messages).dropped, ['messages.content.thinking'])
  const input = [
    { role: 'user', content: 'Hi' },
    { type: 'reasoning', id: 'rs', summary: [{ type: 'summary_text', text: 'Hm' }] },
    { role: 'assistant', content: 'a' },
    { role: 'user', content: 'b' }
  ]
  t.same(sent('R→C', { model: 'm', input }).dropped, ['input.summary'])
  t.same(
    sent('R→M', {
      model: 'm',
      input: input.map((item) => ('summary' in item ? { ...item, encrypted_content: 'blob' } : item))
    }).dropped,
    ['input.encrypted_content']
  )
})
