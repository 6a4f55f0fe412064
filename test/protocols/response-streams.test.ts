// What upstreams of Responses tell in their streams' corners, and what clients of Responses are told, event by event.
import t from 'tap'
import type { AnswerEvent, PartOpening } from '../../core/protocols/canonical/answer.ts'
import { Assembler } from '../../core/protocols/canonical/assemble.ts'
import { mostKept } from '../../core/protocols/canonical/codec.ts'
import { Parts } from '../../core/protocols/canonical/parts.ts'
import type { Proof } from '../../core/protocols/canonical/request.ts'
import { StreamedItem } from '../../core/protocols/openai-responses/streamed-item.ts'
import { sortedJson, Told, trimmed } from '../../core/protocols/openai-responses/told.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import { answerHead } from '../kit/conversations.ts'
import { told } from '../kit/decoded.ts'

type Json = any

const created = { type: 'response.created', response: { id: 'r', output: [] } }
const completed = (...output: Json[]): Json => ({
  type: 'response.completed',
  response: { id: 'r', status: 'completed', output }
})
const about = (type: string, more: Json, at = 0): Json => ({
  type: `response.${type}`,
  item_id: `i${at}`,
  output_index: at,
  ...more
})
const added = (item: Json, at = 0): Json => about('output_item.added', { item: { id: `i${at}`, ...item } }, at)
const done = (item: Json, at = 0): Json => about('output_item.done', { item: { id: `i${at}`, ...item } }, at)
const message = (...texts: string[]): Json => ({
  type: 'message',
  content: texts.map((text) => ({ type: 'output_text', text }))
})
const said = (delta: string, at = 0): Json => about('output_text.delta', { content_index: 0, delta }, at)
const partDone = (part: Json, at = 0): Json => about('content_part.done', { content_index: 0, part }, at)
/** What a stream tells between its begin and its end; its last line, where that refuses it. */
function lines(events: Json[], output: Json[] = []): string[] {
  const all = told('openai-responses', [created, ...events, completed(...output)]).slice(1)
  return all.at(-1) === 'end' ? all.slice(0, -2) : all
}
const tokens = [{ token: 'a', logprob: -1 }]

t.test('a text that is longer where it is repeated goes on, though its part was over', async (t) => {
  const begun = [added({ type: 'message' }), said('a'), partDone({ type: 'output_text', text: 'a' })]
  const first = ['open 0/0 text', '0: a', 'close 0']
  const both = [...first, 'open 0/1 text', '1: b', 'close 1']
  t.same(lines([...begun, done(message('ab'))], [message('ab')]), both)
  t.same(lines(begun, [{ id: 'i0', ...message('ab') }]), both)
  t.same(lines([...begun, done(message('a '))], [message('a')]), first, 'white space is nothing new')
  t.match(lines([...begun, done(message('x'))]).at(-1), /contradicts/)
  const silent = [added({ type: 'message' }), about('output_text.done', { text: '', logprobs: tokens })]
  t.same(lines(silent), [])
  t.same(lines([added({ type: 'message' }), partDone({ type: 'output_text', text: '' })]), [])
  t.same(lines([added({ type: 'reasoning' }), partDone({ type: 'reasoning_text', text: 'x' })]), [])
  t.same(
    lines([
      added({ type: 'message' }),
      said('a'),
      done({ type: 'message', content: [] }),
      added(message(), 1),
      said('b', 1)
    ]),
    [...first, 'open 0/1 text', '1: b', 'close 1']
  )
})

const call = (input: string): Json => ({ type: 'function_call', call_id: 'c', name: 'f', arguments: input })
const free = (input: string): Json => ({ type: 'custom_tool_call', call_id: 'c', name: 'f', input })

t.test('a call whose input is missing or incomplete may be repeated with more', async (t) => {
  const whole = ['open 0/0 tool_call c f', '0: {"a":1}', 'close 0 {"a":1}']
  const other = ['open 0/1 text', '1: b', 'close 1']
  const then = [done(message('b'), 1)]
  t.same(lines([done(call('{"a":1}')), ...then]), [...whole, ...other])
  t.same(lines([done(call('')), ...then], [call('{"a":1}')]).slice(-2), whole.slice(1))
  t.same(lines([done(call('{"a"'))], [call('{"a":1}')]), [whole[0], '0: {"a"', '0: :1}', whole[2]])
  const input = about('function_call_arguments.delta', { delta: '{"a":1}' })
  t.same(lines([added(call('')), input, done(call('')), ...then]), [...whole, ...other])
  t.same(lines([added(call('{"a"')), about('function_call_arguments.delta', { delta: '{"a":1}' })]), whole)
  t.same(lines([added(call('{"a":1}')), about('function_call_arguments.delta', { delta: '{"a"' })]).slice(2), [
    '0: :1}',
    whole[2]
  ])
  t.match(
    lines([added(call('{"b":1}')), about('function_call_arguments.delta', { delta: '{"a":1}' })]).at(-1),
    /contradicts/
  )
  t.same(lines([added({ type: 'new' }), done(call('{"a":1}'))], [call('{"a":1}')]), whole)
  const custom = ['open 0/0 tool_call c f custom', '0: x', 'close 0 x']
  t.same(lines([done(free('x')), ...then]), [...custom, ...other])
  t.same(lines([done(free(''))], [free('x')]), custom)
  t.same(lines([done(call('{"a":1}')), about('function_call_arguments.done', { arguments: '{"a":1} ' })]), whole)
  t.match(
    lines([done(call('{"a":1}')), about('function_call_arguments.done', { arguments: '{"a":1}x' })]).at(-1),
    /complete/
  )
  for (const arguments_ of ['', '{}'])
    t.match(
      lines([added({ type: 'message' }), about('function_call_arguments.done', { arguments: arguments_ })]).at(-1),
      /no call/
    )
})

t.test('thoughts are told in sections of their first form, with what proves them', async (t) => {
  const thoughts = (more: Json): Json => ({ type: 'reasoning', summary: [], ...more })
  const summary = (delta: string, section: number): Json =>
    about('reasoning_summary_text.delta', { summary_index: section, delta })
  t.same(lines([added(thoughts({})), summary('A', 0), summary('B', 1), summary('C', 1)]), [
    'open 0/0 reasoning',
    '0: A',
    '0:',
    '0: B',
    '0: C',
    'close 0'
  ])
  t.same(lines([done(thoughts({ content: [{ text: 'A' }] }))]), ['open 0/0 reasoning', '0: A', 'close 0'])
  t.same(lines([done(thoughts({ encrypted_content: 's' }))]), ['open 0/0 reasoning', 'close 0 (encrypted s)'])
  t.same(lines([done(thoughts({}))]), [])
  t.same(lines([done(thoughts({ content: [{ text: 'A' }], encrypted_content: 's' }))]), [
    'open 0/0 reasoning',
    '0: A',
    'close 0 (encrypted s)'
  ])
  t.same(
    lines([
      added(thoughts({})),
      summary('A', 0),
      done(thoughts({ summary: [{ text: 'A' }], encrypted_content: 's' })),
      done(message('b'), 1)
    ]),
    ['open 0/0 reasoning', '0: A', 'close 0 (encrypted s)', 'open 0/1 text', '1: b', 'close 1']
  )
  t.same(lines([done(thoughts({}))], [thoughts({ encrypted_content: 's' })]), [], 'nothing after its end')
  t.same(lines([done(thoughts({ content: [{ text: 'A' }] }))], [thoughts({ content: [{ text: 'X' }] })]), [
    'open 0/0 reasoning',
    '0: A',
    'close 0'
  ])
})

t.test('items are found by their id, or by their place where they have none', async (t) => {
  const nameless = (type: string, more: Json, at: number): Json => ({ ...about(type, more, at), item_id: '' })
  const begin = (at: number): Json => nameless('output_item.added', { item: { id: '', type: 'message' } }, at)
  t.same(
    lines([
      begin(0),
      begin(1),
      nameless('output_text.delta', { delta: 'a' }, 0),
      nameless('output_text.delta', { delta: 'b' }, 1)
    ]),
    ['open 0/0 text', '0: a', 'open 0/1 text', '1: b', 'close 0', 'close 1']
  )
  const both = [done(message('a'), 0), done(message('b'), 1)]
  t.equal(
    lines(both, [
      { id: 'i1', ...message('b') },
      { id: 'i0', ...message('a') }
    ]).length,
    6
  )
  t.equal(
    told('openai-responses', [added({ type: 'message' }), said('a'), completed()])[0],
    'start',
    'the begin may be missing'
  )
  const many = (count: number): string[] => lines(Array.from({ length: count }, (_, at) => added({ type: 'new' }, at)))
  t.same(many(4096), [])
  t.match(many(4097), [/too many parts/])
})

t.test('what is told again is compared, in whichever form does not matter', async (t) => {
  const of = (form: (text: string) => string, text: string, over = false): Told => {
    const one = new Told(form)
    one.text = text
    if (over) one.forget()
    return one
  }
  for (const over of [false, true]) {
    t.equal(of(trimmed, 'ab', over).rest('abc'), 'c')
    t.equal(of(trimmed, 'ab ', over).rest('ab'), '')
    t.equal(of(trimmed, ' ab', over).rest('ab '), '')
    t.equal(of(trimmed, 'ab', over).rest(''), '')
    for (const whole of ['a', 'ba', 'xbc']) t.throws(() => of(trimmed, 'ab', over).rest(whole), /contradicts/)
    t.equal(
      of(sortedJson, '{"a":1,"b":{"d":[{"f":1,"e":2}],"c":2}}', over).rest(
        '{ "b": {"c":2,"d":[{"e":2,"f":1}]}, "a": 1 }'
      ),
      ''
    )
    t.throws(() => of(sortedJson, '{"a":1}', over).rest('{"a":2}'), /contradicts/)
  }
  const twice = of(trimmed, 'ab', true)
  t.equal(twice.text, '')
  twice.forget()
  t.equal(twice.rest('abc'), 'c')
  t.strictSame(
    [sortedJson('none'), sortedJson('[2, 1]'), sortedJson('{"b":1,"a":[]}')],
    ['none', '[2, 1]', '{"a":[],"b":1}']
  )
})

t.test('what an item keeps is counted, and given back when it ends', async (t) => {
  const drop = (): void => {}
  /** Asks for `left` characters of room, and for one less. */
  const fits = (left: number, use: (parts: Parts) => void): void => {
    const parts = (room: number): Parts => {
      const made = new Parts()
      made.count(mostKept - room)
      return made
    }
    use(parts(left))
    t.throws(() => use(parts(left - 1)), { code: 'answer_too_large' })
  }
  fits(2, (parts) => void new StreamedItem({ type: 'message', id: 'ab' }, parts, drop))
  fits(3, (parts) => new StreamedItem({ type: 'message' }, parts, drop).say('text', 0, 'abc', drop))
  fits(3, (parts) => new StreamedItem({ type: 'message' }, parts, drop).say('refusal', 0, 'abc', drop))
  fits(3, (parts) => new StreamedItem({ type: 'reasoning' }, parts, drop).think('summary', 0, 'abc', drop))
  const early = { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' }
  fits(4, (parts) => void new StreamedItem(early, parts, drop))
  fits(6, (parts) => new StreamedItem(early, parts, drop).input('{}', drop))
  fits(6, (parts) => {
    const item = new StreamedItem(early, parts, drop)
    item.close(drop)
    item.close(drop)
    parts.count(4)
  })
  fits(3, (parts) => {
    const item = new StreamedItem({ type: 'message' }, parts, drop)
    item.say('text', 0, 'abc', drop)
    item.close(drop)
    item.close(drop)
    parts.count(3)
  })
  fits(4, (parts) => {
    const item = new StreamedItem({ type: 'message' }, parts, drop)
    item.say('text', 0, 'ab', drop)
    item.close(drop)
    item.said('text', 0, 'abcd', drop)
  })
})

const decoded = (output: Json[], more: Json = {}): Json =>
  codecs['openai-responses'].decodeAnswer({ id: 'r', status: 'completed', output, ...more }, '')

t.test('a whole response is read by its items, and what is none of them is left out', async (t) => {
  const parts = (...output: Json[]): Json[] => decoded(output).candidates[0].parts
  t.strictSame(
    parts({
      type: 'message',
      content: [
        { type: 'new', text: 'x' },
        { type: 'refusal', refusal: 'No.' }
      ]
    }),
    [{ type: 'refusal', text: 'No.' }]
  )
  const annotations = [
    { type: 'url_citation', url: 'https://a.example', title: 5, start_index: 1, end_index: 2 },
    { type: 'url_citation', url: 5 },
    { type: 'file_citation', url: 'https://b.example' },
    { type: 'url_citation', url: 'https://c.example', start_index: 'x' }
  ]
  t.strictSame(parts({ type: 'message', content: [{ type: 'output_text', text: 'a', annotations }] })[0].citations, [
    { url: 'https://a.example', title: '', start: 1, end: 2 },
    { url: 'https://c.example', title: '' }
  ])
  for (const item of [call('{}'), free('x')])
    for (const missing of ['call_id', 'name'])
      t.throws(() => parts({ ...item, [missing]: '' }), {
        code: 'upstream_bad_response',
        message: /without a name or an id/
      })
  const encrypted = (id: unknown): Json => parts({ type: 'reasoning', id, encrypted_content: 's' })[0].proof
  t.strictSame([encrypted(''), encrypted(5), encrypted('x').id], [encrypted(undefined), encrypted(undefined), 'x'])
  t.notOk('id' in encrypted(''))
  for (const encrypted_content of ['', 5]) t.notOk('proof' in parts({ type: 'reasoning', encrypted_content })[0])
  for (const result of ['', 5, null]) t.strictSame(parts({ type: 'image_generation_call', result }), [])
  t.match(parts({ type: 'image_generation_call', result: 'AA_A', output_format: 'webp' }), [
    { source: { mimeType: 'image/webp', data: 'AA/A' } }
  ])
  t.equal(decoded([], { usage: { input_tokens: -1, output_tokens: 1 } }).usage, undefined)
  t.match(decoded([], { usage: { input_tokens: 1, output_tokens: 2 } }).usage, { input: 1, output: 2 })
  for (const [more, message] of [
    [{ status: 'in_progress' }, /before it was complete/],
    [{ status: 'cancelled' }, /before it was complete/],
    [{ status: 'failed', error: { message: 'No.' } }, 'No.'],
    [{ status: 'failed' }, /reported an error/]
  ] as const)
    t.throws(() => decoded([], more), { code: 'upstream_bad_response', message })
  const finish = (reason?: string): Json =>
    decoded([], { status: 'incomplete', incomplete_details: reason && { reason } }).candidates[0].finish
  t.strictSame(finish('max_output_tokens'), { reason: 'length' })
  t.strictSame(finish(), { reason: 'other', word: 'incomplete' })
  t.strictSame(decoded([call('{}')]).candidates[0].finish, { reason: 'tool_calls' })
  for (const body of [{}, { output: 5 }, 5])
    t.throws(() => codecs['openai-responses'].decodeAnswer(body, ''), /without output/)
})

const open = (part: number, opening: PartOpening, candidate = 0): AnswerEvent => ({
  type: 'open',
  candidate,
  part,
  opening
})
const delta = (part: number, text: string, more: Json = {}): AnswerEvent => ({ type: 'delta', part, text, ...more })
const close = (part: number, text = '', proof?: Proof): AnswerEvent => ({
  type: 'close',
  part,
  text,
  ...(proof && { proof })
})
const cite = (part: number, more: Json = {}): AnswerEvent => ({
  type: 'cite',
  part,
  citation: { url: 'u', title: 't', ...more }
})
const opening = (id: string, more: Json = {}): PartOpening => ({
  type: 'tool_call',
  id,
  name: 'f',
  custom: false,
  ...more
})
const ended = (reason: Json = { reason: 'stop' }): AnswerEvent[] => [
  { type: 'finish', candidate: 0, finish: reason },
  { type: 'end' }
]

/** The events that a client is sent, without what is checked of all: their numbers and the ids of their items. */
function events(t: { fail(message: string): void }, given: readonly AnswerEvent[]): string[] {
  const encoder = codecs['openai-responses'].encodeStream(answerHead)
  const ids = new Map<number, string>()
  const made: string[] = []
  let number = 0
  const write = (data: string, name: string): void => {
    const { type, sequence_number: sequence, item_id: id, output_index: at, response, ...rest } = JSON.parse(data)
    if (type !== name || sequence !== number++) t.fail(`${type} as ${name}, ${sequence}`)
    if (rest.item) ids.set(at, rest.item.id)
    if (id !== undefined && ids.get(at) !== id) t.fail(`${type} of ${id} at ${at}`)
    const { item, ...others } = rest
    const { id: _id, ...shown } = item ?? {}
    const said = response
      ? { status: response.status, output: response.output.length }
      : { ...others, ...(item && { item: shown }) }
    made.push(`${type.replace('response.', '')}${at === undefined ? '' : ` ${at}`} ${JSON.stringify(said)}`)
  }
  for (const event of given) encoder.push(event, write)
  return made
}
/** The items of the whole response, without their ids. */
function items(given: readonly AnswerEvent[], request: Json = {}): Json[] {
  const assembler = new Assembler()
  for (const event of given) assembler.see(event)
  const body = codecs['openai-responses'].encodeAnswer(assembler.result(), { ...answerHead, request }) as Json
  return body.output.map(({ id: _id, ...item }: Json) => item)
}
const likely = [{ token: 'a', logprob: -1, top: [{ token: 'b', logprob: -2 }] }]
const shownLikely = [{ token: 'a', logprob: -1, bytes: null, top_logprobs: [{ token: 'b', logprob: -2, bytes: null }] }]

t.test('texts that follow each other are one message of Responses, with what cites and counts them', async (t) => {
  const given = [
    open(0, { type: 'text' }),
    delta(0, 'ab', { logprobs: likely }),
    cite(0, { start: 0, end: 2 }),
    close(0),
    open(1, { type: 'text' }),
    delta(1, 'c', { logprobs: likely }),
    cite(1, { start: 0, end: 1 }),
    cite(1),
    close(1),
    ...ended()
  ]
  const annotation = (start_index: number, end_index: number): Json => ({
    type: 'url_citation',
    url: 'u',
    title: 't',
    start_index,
    end_index
  })
  const annotations = [annotation(0, 2), annotation(2, 3), annotation(0, 0)]
  const logprobs = [...shownLikely, ...shownLikely]
  const part = { type: 'output_text', text: 'abc', annotations, logprobs }
  const item = { type: 'message', status: 'completed', role: 'assistant', content: [part] }
  const cited = (annotation_index: number): string =>
    `output_text.annotation.added 0 ${JSON.stringify({ content_index: 0, annotation_index, annotation: annotations[annotation_index] })}`
  t.same(events(t, given), [
    `output_item.added 0 ${JSON.stringify({ item: { ...item, status: 'in_progress', content: [] } })}`,
    `content_part.added 0 ${JSON.stringify({ content_index: 0, part: { ...part, text: '', annotations: [], logprobs: [] } })}`,
    `output_text.delta 0 ${JSON.stringify({ content_index: 0, delta: 'ab', logprobs: shownLikely })}`,
    cited(0),
    `output_text.delta 0 ${JSON.stringify({ content_index: 0, delta: 'c', logprobs: shownLikely })}`,
    cited(1),
    cited(2),
    `output_text.done 0 ${JSON.stringify({ content_index: 0, text: 'abc', logprobs })}`,
    `content_part.done 0 ${JSON.stringify({ content_index: 0, part })}`,
    `output_item.done 0 ${JSON.stringify({ item })}`,
    'completed {"status":"completed","output":1}'
  ])
  t.strictSame(items(given), [item])
  const apart = [
    open(0, { type: 'text' }),
    delta(0, 'a'),
    close(0),
    open(1, { type: 'refusal' }),
    delta(1, 'No'),
    close(1),
    ...ended()
  ]
  t.same(
    events(t, apart).filter((line) => /refusal|1 \{"item/.test(line)),
    [
      'output_item.added 1 {"item":{"type":"message","status":"in_progress","role":"assistant","content":[]}}',
      'content_part.added 1 {"content_index":0,"part":{"type":"refusal","refusal":""}}',
      'refusal.delta 1 {"content_index":0,"delta":"No"}',
      'refusal.done 1 {"content_index":0,"refusal":"No"}',
      'content_part.done 1 {"content_index":0,"part":{"type":"refusal","refusal":"No"}}',
      'output_item.done 1 {"item":{"type":"message","status":"completed","role":"assistant","content":[{"type":"refusal","refusal":"No"}]}}'
    ]
  )
  t.equal(items(apart).length, 2)
  t.same(
    events(t, [open(0, { type: 'text' }), cite(0), close(0)]).map((line) => line.split(' ')[0]),
    ['output_item.added', 'content_part.added', 'output_text.annotation.added'],
    'what is cited has begun'
  )
})

t.test('thoughts and signatures are items of Responses of their own, where they hold anything', async (t) => {
  const proof: Proof = { family: 'anthropic', kind: 'signature', value: 's' }
  const given = [
    open(0, { type: 'reasoning' }),
    delta(0, 'Hm'),
    close(0, '', proof),
    open(1, { type: 'reasoning' }),
    close(1, '', proof),
    open(2, { type: 'reasoning' }),
    close(2),
    open(3, opening('a', { proof: { ...proof, kind: 'call' }, namespace: 'n' })),
    delta(3, '{}'),
    close(3, '{}'),
    open(4, opening('b', { custom: true })),
    delta(4, 'x'),
    close(4, 'x'),
    open(5, { type: 'text' }, 1),
    delta(5, 'never'),
    cite(5),
    close(5),
    ...ended({ reason: 'tool_calls' })
  ]
  const summary = [{ type: 'summary_text', text: 'Hm' }]
  const thought = (of: Json[], sealed: string | null): Json => ({
    type: 'reasoning',
    summary: of,
    encrypted_content: sealed
  })
  const head = { call_id: 'a', name: 'f', namespace: 'n' }
  const made = [
    thought(summary, 'sluice1.anthropic.signature..s'),
    thought([], 'sluice1.anthropic.signature..s'),
    thought([], 'sluice1.anthropic.call..s'),
    { type: 'function_call', status: 'completed', ...head, arguments: '{}' },
    { type: 'custom_tool_call', status: 'completed', call_id: 'b', name: 'f', input: 'x' }
  ]
  t.strictSame(items(given.filter((event) => !('part' in event) || event.part !== 5)), made)
  const at = (index: number, type: string, more: Json): string => `${type} ${index} ${JSON.stringify(more)}`
  t.same(events(t, given), [
    at(0, 'output_item.added', { item: thought([], null) }),
    at(0, 'reasoning_summary_part.added', { summary_index: 0, part: { type: 'summary_text', text: '' } }),
    at(0, 'reasoning_summary_text.delta', { summary_index: 0, delta: 'Hm' }),
    at(0, 'reasoning_summary_text.done', { summary_index: 0, text: 'Hm' }),
    at(0, 'reasoning_summary_part.done', { summary_index: 0, part: summary[0] }),
    at(0, 'output_item.done', { item: made[0] }),
    at(1, 'output_item.added', { item: thought([], null) }),
    at(1, 'output_item.done', { item: made[1] }),
    at(2, 'output_item.added', { item: thought([], null) }),
    at(2, 'output_item.done', { item: made[2] }),
    at(3, 'output_item.added', { item: { ...made[3], status: 'in_progress', arguments: '' } }),
    at(3, 'function_call_arguments.delta', { delta: '{}' }),
    at(3, 'function_call_arguments.done', { arguments: '{}', name: 'f' }),
    at(3, 'output_item.done', { item: made[3] }),
    at(4, 'output_item.added', { item: { ...made[4], status: 'in_progress', input: '' } }),
    at(4, 'custom_tool_call_input.delta', { delta: 'x' }),
    at(4, 'custom_tool_call_input.done', { input: 'x' }),
    at(4, 'output_item.done', { item: made[4] }),
    'completed {"status":"completed","output":5}'
  ])
})

const media = (source: Json, type = 'image'): PartOpening => ({ type: 'media', media: { type, source } as never })
const data = { kind: 'data', mimeType: 'image/webp', data: 'AAAA' }

t.test('pictures are calls of image generation, and what is no picture in data is left out', async (t) => {
  const given = [
    open(0, media(data)),
    close(0),
    open(1, media({ kind: 'url', url: 'https://a.example' })),
    close(1),
    open(2, media({ ...data, mimeType: 'audio/wav' }, 'audio')),
    close(2),
    open(3, { type: 'text' }),
    close(3),
    ...ended()
  ]
  const item = { type: 'image_generation_call', status: 'completed', result: 'AAAA', output_format: 'webp' }
  t.strictSame(items(given), [item])
  t.same(events(t, given), [
    `output_item.added 0 ${JSON.stringify({ item: { ...item, status: 'in_progress', result: null } })}`,
    'image_generation_call.completed 0 {}',
    `output_item.done 0 ${JSON.stringify({ item })}`,
    'completed {"status":"completed","output":1}'
  ])
})

t.test('what was cut off is incomplete: the last item, and calls whose arguments are', async (t) => {
  const statuses = (reason: Json, ...given: AnswerEvent[]): [string[], string[]] => {
    const all = [...given, ...ended(reason)]
    const streamed = events(t, all)
      .filter((line) => line.startsWith('output_item.done'))
      .map((line) => /"status":"(\w+)"/.exec(line)?.[1] ?? '')
    return [streamed, items(all).map(({ status }) => status)]
  }
  const texts = [
    open(0, { type: 'text' }),
    delta(0, 'a'),
    close(0),
    open(1, { type: 'refusal' }),
    delta(1, 'b'),
    close(1)
  ]
  for (const reason of ['length', 'content_filter', 'other'])
    t.strictSame(statuses({ reason }, ...texts), [
      ['completed', 'incomplete'],
      ['completed', 'incomplete']
    ])
  t.strictSame(statuses({ reason: 'stop' }, ...texts), [
    ['completed', 'completed'],
    ['completed', 'completed']
  ])
  const calls = ['{}', '{"a"', ''].flatMap((input, part) => [
    open(part, opening(`${part}`)),
    ...(input === '' ? [] : [delta(part, input)]),
    close(part, input)
  ])
  const parallel = [...calls.filter(({ type }) => type === 'open'), ...calls.filter(({ type }) => type !== 'open')]
  t.strictSame(statuses({ reason: 'length' }, ...parallel), [
    ['completed', 'incomplete', 'incomplete'],
    ['completed', 'incomplete', 'incomplete']
  ])
  const custom = [open(0, opening('a', { custom: true })), delta(0, 'x'), close(0, 'x')]
  t.strictSame(statuses({ reason: 'length' }, ...custom), [['completed'], ['completed']])
  const last = (reason: Json): string => events(t, [...texts, ...ended(reason)]).at(-1)!
  t.match(last({ reason: 'length' }), /^incomplete .*"incomplete"/)
  t.match(last({ reason: 'pause' }), /^completed .*"completed"/)
  const other = { type: 'finish', candidate: 1, finish: { reason: 'length' } } as const
  t.match(events(t, [...texts, ...ended().slice(0, 1), other, { type: 'end' }]).at(-1), /^completed/)
})

t.test('a response repeats 2 Mi characters at most, and keeps 16 Mi', async (t) => {
  const push = (...given: AnswerEvent[]): void => {
    const encoder = codecs['openai-responses'].encodeStream(answerHead)
    for (const event of given) encoder.push(event, () => {})
  }
  const refused = (...given: AnswerEvent[]): void => void t.throws(() => push(...given), { code: 'answer_too_large' })
  const half = 'a'.repeat(1024 * 1024)
  const text = open(0, { type: 'text' })
  push(text, delta(0, half), delta(0, half))
  refused(text, delta(0, half), delta(0, half), delta(0, 'a'))
  push(text, delta(0, half), delta(0, half.slice(64), { logprobs: likely }))
  refused(text, delta(0, half), delta(0, half.slice(63), { logprobs: likely }))
  const large = media({ ...data, data: 'A'.repeat(mostKept - 5) })
  push(open(0, large), open(1, media({ kind: 'url', url: half })), open(2, { type: 'text' }), delta(2, 'abc'), cite(2))
  refused(open(0, large), open(2, { type: 'text' }), delta(2, 'abcd'), cite(2))
  refused(open(0, large), open(2, { type: 'text' }), delta(2, 'abc'), cite(2, { title: 'tt' }))
})

t.test('a response repeats what was asked, with what applies where nothing was said', async (t) => {
  const whole = (request: Json): Json =>
    codecs['openai-responses'].encodeAnswer(
      { id: '', candidates: [{ parts: [], finish: { reason: 'stop' } }], usage: undefined },
      { ...answerHead, request }
    )
  const { id, created_at: at, usage, ...rest } = whole({})
  t.strictSame([id, at, usage.total_tokens], [`resp_${answerHead.id}`, answerHead.created, 0])
  const usual = {
    object: 'response',
    status: 'completed',
    incomplete_details: null,
    background: false,
    error: null,
    instructions: null,
    max_output_tokens: null,
    model: 'public-model',
    output: [],
    parallel_tool_calls: true,
    previous_response_id: null,
    reasoning: { effort: null, summary: null },
    store: false,
    temperature: null,
    text: { format: { type: 'text' } },
    tool_choice: 'auto',
    tools: [],
    top_p: null,
    truncation: 'disabled',
    access_programs: null,
    user: null,
    metadata: {}
  }
  t.strictSame(rest, usual)
  const asked = {
    instructions: 'i',
    max_output_tokens: 5,
    parallel_tool_calls: false,
    reasoning: { effort: 'low', summary: 'auto' },
    temperature: 0,
    text: { format: { type: 'json_object' }, verbosity: 'low' },
    tool_choice: 'none',
    tools: [{ type: 'function' }],
    top_p: 0.5,
    truncation: 'auto',
    user: 'u',
    metadata: { a: 'b' }
  }
  t.match(whole(asked), asked)
})
