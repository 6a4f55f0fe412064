// What decoders tell of OpenAI's streams, event by event: the whole of it and in its order, and each thing once.
import t from 'tap'
import { cut, foreign, told } from '../kit/decoded.ts'

type Json = Record<string, unknown>

const created = { type: 'response.created', response: { id: 'resp_1', output: [] } }
const completed = (...output: Json[]): Json => ({
  type: 'response.completed',
  response: { id: 'resp_1', status: 'completed', output, usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 } }
})
const about = (type: string, more: Json): Json => ({ type: `response.${type}`, item_id: 'i', output_index: 0, ...more })
const added = (item: Json): Json => about('output_item.added', { item: { id: 'i', ...item } })
const done = (item: Json): Json => about('output_item.done', { item: { id: 'i', ...item } })
const args = '{"a":1}'
const call = (input: string): Json => ({ type: 'function_call', call_id: 'c', name: 'f', arguments: input })
/** What a stream of responses tells between its begin and its end. */
function inResponse(events: Json[], output: Json[] = []): string[] {
  const lines = told('openai-responses', [created, ...events, completed(...output)])
  const [start, ...rest] = lines
  t.equal(start, 'start resp_1')
  return rest.at(-1) === 'end' ? rest.slice(0, -3) : rest
}
const tokens = [{ token: 'a', logprob: -1, top_logprobs: [] }]

t.test('responses: the input that a call begins with is told once, at its end', async (t) => {
  const once = ['open 0/0 tool_call c f', `0: ${args}`, `close 0 ${args}`]
  t.same(inResponse([added(call(args))]), once)
  t.same(inResponse([added(call(args)), done(call(''))]), once)
  t.same(inResponse([added(call(args)), about('function_call_arguments.delta', { delta: args })]), once)
  t.same(inResponse([added(call('')), done(call(args))], [call(`${args}\n`)]), once, 'white space adds nothing')
  t.same(inResponse([added({ type: 'new' }), done(call(args))]), once, 'an item may become a call when it is done')
})

t.test('responses: of two forms of thoughts the first is told, and none after their end', async (t) => {
  const summary = about('reasoning_summary_text.delta', { summary_index: 0, delta: 'A' })
  const content = about('reasoning_text.delta', { content_index: 0, delta: 'B' })
  const thoughts = {
    type: 'reasoning',
    summary: [{ text: 'A' }],
    content: [{ text: 'B' }],
    encrypted_content: 'sealed'
  }
  const begun = [added({ type: 'reasoning' }), summary]
  const once = ['open 0/0 reasoning', '0: A', 'close 0']
  t.same(inResponse([...begun, content]), once)
  t.same(inResponse([...begun, about('reasoning_text.done', { content_index: 0, text: 'B' })]), once)
  t.same(inResponse([...begun, about('reasoning_summary_part.done', { part: { text: 'A' } })]), once)
  t.same(inResponse([...begun, done(thoughts), summary], [thoughts]), [
    ...once.slice(0, 2),
    'close 0 (encrypted sealed)'
  ])
  t.same(
    inResponse([added({ type: 'reasoning' }), content, about('reasoning_summary_text.done', { text: 'A' })]),
    ['open 0/0 reasoning', '0: B', 'close 0'],
    'the other one, where it is first'
  )
  t.same(
    inResponse([...begun, about('reasoning_summary_text.delta', { summary_index: 1, delta: 'C' })]),
    ['open 0/0 reasoning', '0: A', '0:', '0: C', 'close 0'],
    'sections stay apart'
  )
})

t.test('responses: a citation is told once, and only while its text is open', async (t) => {
  const url = { type: 'url_citation', url: 'https://a.example', start_index: 0, end_index: 1 }
  const other = { ...url, url: 'https://b.example' }
  const cite = about('output_text.annotation.added', { content_index: 0, annotation: url })
  const part = about('content_part.done', { part: { type: 'output_text', text: 'A', annotations: [url, other] } })
  const said = about('output_text.delta', { delta: 'A' })
  const message = added({ type: 'message', content: [] })
  t.same(inResponse([message, cite]), [], 'there is no text to cite')
  t.same(inResponse([message, said, cite, part, cite]), [
    'open 0/0 text',
    '0: A',
    'cite 0 https://a.example 0-1',
    'cite 0 https://b.example 0-1',
    'close 0'
  ])
})

t.test('responses: the likeliness of words is told once, with or without words', async (t) => {
  const message = added({ type: 'message', content: [] })
  const whole = about('output_text.done', { text: 'ab', logprobs: tokens })
  t.same(inResponse([message, whole]), ['open 0/0 text', '0: ab (a)', 'close 0'])
  const said = about('output_text.delta', { delta: 'a', logprobs: tokens })
  t.same(inResponse([message, said, whole]), ['open 0/0 text', '0: a (a)', '0: b', 'close 0'])
  const silent = about('output_text.delta', { delta: '', logprobs: tokens })
  t.same(inResponse([message, silent]), ['open 0/0 text', '0:  (a)', 'close 0'])
  t.same(inResponse([message, about('output_text.delta', { delta: '' })]), [])
})

t.test('responses: items are told apart by their type, their call and what was repeated', async (t) => {
  const message = (text: string): Json => ({ type: 'message', content: [{ type: 'output_text', text }] })
  const both = ['open 0/0 text', '0: A', 'close 0', 'open 0/1 text', '1: B', 'close 1']
  t.same(inResponse([], [message('A'), message('B')]), both, 'two that come at the end')
  t.same(inResponse([done(message('A')), done(message('B'))], [message('A'), message('B')]), both, 'two with one id')
  const picture = { type: 'image_generation_call', result: 'AAAA' }
  t.same(inResponse([added(picture), done(picture)], [picture]), [
    'open 0/0 media {"kind":"data","mimeType":"image/png","data":"AAAA"}',
    'close 0'
  ])
  const other = { ...call('{"b":2}'), call_id: 'd' }
  t.same(
    inResponse([done({ ...call(args), id: 'x' }), done({ ...other, id: 'y' })], [other, call(args)]),
    [
      'open 0/0 tool_call c f',
      `0: ${args}`,
      `close 0 ${args}`,
      'open 0/1 tool_call d f',
      '1: {"b":2}',
      'close 1 {"b":2}'
    ],
    'calls in another order'
  )
  const mixed = [added(message('')), about('output_text.delta', { delta: 'A' }), about('refusal.delta', { delta: 'B' })]
  t.match(inResponse(mixed).at(-1), /as if it were another/)
  t.match(inResponse([added(message('')), about('function_call_arguments.delta', { delta: 'A' })]).at(-1), /no call/)
  t.match(inResponse([about('output_text.delta', { delta: 'A' })]).at(-1), /had not begun/)
})

t.test('responses: what is before an answer, between its events and after them', async (t) => {
  const whole = ['start resp_1', 'usage', 'finish 0 stop', 'end']
  const ping = { type: 'keepalive' }
  const read = (...events: (Json | string)[]): string[] => told('openai-responses', events)
  t.same(read(ping, created, ping, created, { type: 'new' }, '[DONE]', completed()), whole)
  t.same(read(completed(), created, '[DONE]', 'none', { type: 'error' }), whole, 'nothing after the end is read')
  t.same(read('[DONE]'), [foreign])
  t.same(read({ type: 'new' }), [foreign])
  t.same(read(created, 'none'), ['start resp_1', foreign])
  t.same(read(created), ['start resp_1', cut])
  for (const error of [{ error: { message: 'No.' } }, { type: 'error', message: 'No.' }])
    t.same(read(error), ['refused: No.'])
  t.same(read({ type: 'error', message: 'Yes.', error: { message: 'No.' } }), ['refused: No.'])
  for (const error of [{ error: {} }, { type: 'error' }])
    t.same(read(error), ['refused: The upstream reported an error.'])
})

const chunk = (delta: Json, more: Json = {}, ...others: Json[]): Json => ({
  id: 'c',
  choices: [{ index: 0, delta, ...more }, ...others]
})
const stop = chunk({}, { finish_reason: 'stop' })

t.test('chat: what a chunk has besides its text is told, however like the chunks before it is', async (t) => {
  const thinking = [...'abc'].map((content) => chunk({ content, reasoning_content: 'x' }))
  t.same(
    told('openai-chat', [...thinking, stop]).filter((line) => line.endsWith(': x')),
    ['0: x', '2: x', '4: x']
  )
  const likely = [...'abc'].map((content) => chunk({ content }, { logprobs: { content: tokens } }))
  t.same(
    told('openai-chat', [...likely, stop]).filter((line) => line.startsWith('0:')),
    ['0: a (a)', '0: b (a)', '0: c (a)']
  )
  const two = [...'abc'].map((content) => chunk({ content }, {}, { index: 1, delta: { content: 'x' } }))
  const lines = told('openai-chat', [
    ...two,
    chunk({}, { finish_reason: 'stop' }, { index: 1, finish_reason: 'length' })
  ])
  t.same(
    lines.filter((line) => line.startsWith('1:')),
    ['1: x', '1: x', '1: x']
  )
  t.same(lines.slice(-3), ['finish 0 stop', 'finish 1 length', 'end'])
  const refused = [
    chunk({ content: 'a' }),
    chunk({ content: 'b' }),
    chunk({ refusal: 'No.' }),
    chunk({ content: 'c' }),
    stop
  ]
  t.same(told('openai-chat', refused).slice(1, -2), [
    'open 0/0 text',
    '0: a',
    '0: b',
    'close 0',
    'open 0/1 refusal',
    '1: No.',
    'close 1',
    'open 0/2 text',
    '2: c',
    'close 2'
  ])
})

t.test('chat: a citation is of the text that is open, wherever that begins', async (t) => {
  const found = { type: 'url_citation', url_citation: { url: 'https://a.example', start_index: 4, end_index: 6 } }
  const events = [
    ...['a', 'b', 'c'].map((content) => chunk({ content })),
    chunk({ refusal: 'No.' }),
    chunk({ content: 'def', annotations: [found] }),
    stop
  ]
  t.same(
    told('openai-chat', events).filter((line) => line.startsWith('cite')),
    ['cite 2 https://a.example 1-3']
  )
})

t.test('chat: a call begins when its name is known, with the input that came before it', async (t) => {
  const piece = (more: Json, id?: string): Json =>
    chunk({ tool_calls: [{ index: 0, ...(id && { id }), function: more }] })
  const end = chunk({}, { finish_reason: 'stop' })
  const whole = [
    'start c',
    'open 0/0 tool_call a f',
    '0: {"a"',
    '0: :1}',
    `close 0 ${args}`,
    'finish 0 tool_calls',
    'end'
  ]
  t.same(told('openai-chat', [piece({ arguments: '{"a"' }, 'a'), piece({ name: 'f', arguments: ':1}' }), end]), whole)
  t.same(
    told('openai-chat', [
      piece({ name: 'f', arguments: '{"a"' }, 'a'),
      piece({ name: 'g', arguments: ':1}' }, ''),
      end
    ]),
    whole
  )
  t.same(told('openai-chat', [piece({ name: 'f' }), end]).slice(1, 3), ['open 0/0 tool_call call_id_0_0 f', 'close 0'])
  const nameless = [piece({ name: 'f', arguments: '{"a"' }), piece({ arguments: ':1}' }), end]
  t.same(told('openai-chat', nameless).slice(2, 4), whole.slice(2, 4), 'nor does it wait for an id')
  t.same(told('openai-chat', [piece({}, 'a'), end]), ['start c', 'finish 0 stop', 'end'], 'neither name nor input')
  t.match(told('openai-chat', [piece({ arguments: '{' }, 'a'), end]).at(-1), /without a name/)
  const next = chunk({ tool_calls: [{ index: 1, id: 'b', function: { name: 'g', arguments: '' } }] })
  const first = piece({ name: 'f', arguments: args }, 'a')
  t.match(told('openai-chat', [first, next, piece({ arguments: ' ' }), end]).at(-1), /^end$/)
  t.match(told('openai-chat', [first, next, piece({ arguments: '1' }), end]).at(-1), /was complete/)
  t.same(told('openai-chat', [first, next, end]).slice(3, 5), [`close 0 ${args}`, 'open 0/1 tool_call b g'])
})

t.test('chat: what is no answer, and where one ends', async (t) => {
  for (const index of [-1, 0.5, 128])
    t.match(told('openai-chat', [{ id: 'c', choices: [{ index, delta: {} }] }]).at(-1), /impossible number/)
  t.same(told('openai-chat', [{ id: 'c', choices: [{ index: 127, finish_reason: 'stop' }] }]), [
    'start c',
    'finish 127 stop',
    'end'
  ])
  t.same(told('openai-chat', [stop, '[DONE]', 'none']), ['start c', 'finish 0 stop', 'end'])
  t.same(told('openai-chat', ['none']), [foreign])
  t.same(told('openai-chat', ['[DONE]']), [cut])
  t.same(told('openai-chat', [chunk({}, { finish_reason: '' })]), ['start c', cut])
  t.same(told('openai-chat', [chunk({}, { finish_reason: 'error' })]), [
    'start c',
    'refused: The upstream reported an error.'
  ])
  t.same(told('openai-chat', [chunk({}, { error: { message: 'No.' } })]), ['start c', 'refused: No.'])
})
