// Tools and calls as an upstream takes them, and as the client gets its calls back: names, ids, free text and the tool
// that stands for an answer of a schema.
import t from 'tap'
import type { AnswerEvent, PartOpening } from '../../core/protocols/canonical/answer.ts'
import { digest } from '../../core/protocols/canonical/digest.ts'
import { Offer } from '../../core/protocols/canonical/offer.ts'
import type { OfferRules, OfferedTools } from '../../core/protocols/canonical/offer.ts'
import { emptyRequest } from '../../core/protocols/canonical/request.ts'
import type { ModelRequest, Tool, ToolCall, ToolResult, Turn } from '../../core/protocols/canonical/request.ts'
import { withLegalIds, withOwnIds } from '../../core/protocols/canonical/tool-ids.ts'
import { ToolNames } from '../../core/protocols/canonical/tool-names.ts'

const rule = { illegal: /[^a-zA-Z0-9_-]/g, longest: 64 }

t.test('names and ids that are made are the same at all times, on every node', async (t) => {
  t.same(['', 'a', '漢'].map(digest), ['811c9dc5', 'e40c292c', '279261a5'], 'FNV-1a of 32 bits')
})

t.test('a tool keeps a name that is legal, and has a legal one of its own otherwise', async (t) => {
  const names = new ToolNames(rule)
  const [longest, long] = ['n'.repeat(64), 'n'.repeat(65)]
  const taken = `a_b_${digest('0a b')}`
  const given = ['f', longest, long, 'a b', 'a.b', '', taken]
  const made = given.map((name) => names.toUpstream(name))
  t.strictSame(made.slice(0, 2), ['f', longest])
  t.equal(made[2], `${'n'.repeat(55)}_${digest(`0${long}`)}`)
  t.equal(made[3], taken)
  t.equal(made[5], `_${digest('0')}`)
  t.equal(made[6], `${taken}_${digest(`0${taken}`)}`, 'one that was given away is not given twice')
  t.equal(new Set(made).size, given.length)
  t.ok(made.every((name) => /^[\w-]{1,64}$/.test(name)))
  t.strictSame(
    given.map((name) => names.toUpstream(name)),
    made,
    'each has one name'
  )
  t.strictSame(
    made.map((name) => names.toClient(name)),
    given.map((name) => ({ name }))
  )
  t.strictSame(names.toClient('other'), { name: 'other' })
  const first = new ToolNames(rule)
  first.toUpstream(taken)
  t.equal(first.toUpstream('a b'), `a_b_${digest('1a b')}`)
})

t.test('tools of one name are told apart by their group', async (t) => {
  const names = new ToolNames(rule)
  t.strictSame(
    [names.toUpstream('f'), names.toUpstream('f', 'a'), names.toUpstream('f', 'b'), names.toUpstream('f', 'undefined')],
    ['f', 'a__f', 'b__f', 'undefined__f']
  )
  t.equal(names.toUpstream('a__f'), `a__f_${digest('0a__f')}`)
  for (const known of [names, ToolNames.of(rule, structuredClone(names.table))]) {
    t.strictSame(known.toClient('f'), { name: 'f' })
    t.strictSame(known.toClient('b__f'), { name: 'f', namespace: 'b' })
    t.equal(known.unchanged, false)
  }
  const single = (name: string, namespace?: string): ToolNames => {
    const one = new ToolNames(rule)
    one.toUpstream('g')
    one.toUpstream(name, namespace)
    return one
  }
  t.strictSame([single('f').unchanged, single('a b').unchanged, single('f', 'a').unchanged], [true, false, false])
  t.equal(ToolNames.of(rule, [['f', 'f', 'a']]).unchanged, false)
  t.equal(ToolNames.of(rule, [['f', 'f', undefined]]).unchanged, true)
})

const call = (id: string, more: Partial<ToolCall> = {}): ToolCall => ({
  type: 'tool_call',
  id,
  name: 'f',
  custom: false,
  input: '{}',
  ...more
})
const result = (id: string, more: Partial<ToolResult> = {}): ToolResult => ({
  id,
  name: 'f',
  custom: false,
  parts: [],
  error: false,
  ...more
})
const said = (...parts: ToolCall[]): Turn => ({ role: 'assistant', parts })
const told = (...results: ToolResult[]): Turn => ({ role: 'tool', results })
const asked = (...turns: Turn[]): ModelRequest => ({ ...emptyRequest('m', false), turns })

/** The ids of all calls and results, in order. */
function idsOf({ turns }: ModelRequest): string[] {
  return turns.flatMap((turn) => {
    if (turn.role === 'tool') return turn.results.map(({ id }) => id)
    return turn.role === 'assistant' ? turn.parts.map((part) => (part as ToolCall).id) : []
  })
}

t.test('a result goes with its call, whatever becomes of the id', async (t) => {
  const legal = (...turns: Turn[]): ModelRequest => withLegalIds(asked(...turns), { illegal: /\W/g, longest: 16 })
  t.strictSame(idsOf(legal(said(call('a'), call('a')), told(result('a'), result('a')))), ['a', 'a_2', 'a', 'a_2'])
  t.strictSame(idsOf(legal(said(call('a')), told(result('a')), said(call('a')), told(result('a')))), [
    'a',
    'a',
    'a_2',
    'a_2'
  ])
  t.strictSame(idsOf(legal(said(call('a_2'), call('a'), call('a')))), ['a_2', 'a', 'a_3'])
  t.strictSame(idsOf(legal(said(call('a-b'), call('x'.repeat(16)), call(''), call('')))), [
    'a_b',
    'x'.repeat(16),
    'call',
    'call_2'
  ])
  const long = 'x'.repeat(17)
  t.strictSame(idsOf(legal(said(call(long), call(long)))), [
    `xxxxxxx_${digest(long)}`,
    `xxxxxxx_${digest(long)}`.slice(0, 14) + '_2'
  ])
  t.strictSame(idsOf(legal(said(call('a')), said(call('a')), told(result('a')))), ['a', 'a_2', 'a_2'], 'the latest')
  const whole = asked(said(call('a')), told(result('a'), result('b')))
  const same = legal(...whole.turns)
  t.equal((same.turns[0] as any).parts[0], (whole.turns[0] as any).parts[0])
  for (const at of [0, 1]) t.equal((same.turns[1] as any).results[at], (whole.turns[1] as any).results[at])
  const completed = (more: Partial<ToolCall>): unknown =>
    (legal(said(call('a', more)), told(result('a', { name: '' }))).turns[1] as any).results[0]
  t.strictSame(completed({ name: 'g', custom: true }), result('a', { name: 'g', custom: true }))
  t.strictSame(completed({ namespace: 'n' }), result('a', { namespace: 'n' }))
})

t.test('calls of an answer have an id each, and one that has it already is passed on as it is', async (t) => {
  const seen: AnswerEvent[] = []
  const emit = withOwnIds((event) => void seen.push(event))
  const events = ['a', 'a', '', 'an undefined id', 'a'].map((id, part): AnswerEvent => ({
    type: 'open',
    candidate: 0,
    part,
    opening: { type: 'tool_call', id, name: 'f', custom: false }
  }))
  const text: AnswerEvent = { type: 'open', candidate: 0, part: 5, opening: { type: 'text' } }
  for (const event of [...events, text]) emit(event)
  t.strictSame(
    seen.slice(0, 5).map((event) => ((event as any).opening as ToolCall).id),
    ['a', 'a_2', 'call', 'an undefined id', 'a_3']
  )
  t.strictSame(
    [0, 3].map((at) => seen[at] === events[at]),
    [true, true]
  )
  t.equal(seen[5], text)
})

const rules: OfferRules = { names: rule, customTools: false, schemaAsTool: true }
const tool = (name: string, more: Partial<Tool> = {}): Tool => ({
  name,
  description: undefined,
  parameters: { type: 'object' },
  strict: undefined,
  custom: false,
  ...more
})
const dotted = `a_b_${digest('0a.b')}`

t.test('a request names its tools in one way wherever it names them', async (t) => {
  const offer = new Offer(rules)
  const made = offer.request({
    ...asked(
      said(call('1', { name: 'a.b' }), call('2', { namespace: 'n' })),
      told(result('1', { name: 'a.b' }), result('2', { namespace: 'n' }), result('3', { name: '' }))
    ),
    tools: [tool('a.b'), tool('f', { namespace: 'n' }), tool('g')],
    toolChoice: { mode: 'auto', allowed: ['a.b', 'f'] }
  })
  t.strictSame(
    made.tools.map(({ name, namespace }) => [name, namespace]),
    [
      [dotted, undefined],
      ['n__f', undefined],
      ['g', undefined]
    ]
  )
  t.strictSame(made.toolChoice, { mode: 'auto', allowed: [dotted, 'n__f'] })
  t.strictSame((made.turns[0] as any).parts, [call('1', { name: dotted }), call('2', { name: 'n__f' })])
  t.strictSame(
    (made.turns[1] as any).results.map(({ name }: ToolResult) => name),
    [dotted, 'n__f', '']
  )
  const choice = (toolChoice: ModelRequest['toolChoice']): unknown =>
    new Offer(rules).request({ ...asked(), tools: [tool('a.b')], toolChoice }).toolChoice
  t.strictSame(choice({ mode: 'named', name: 'a.b' }), { mode: 'named', name: dotted })
  t.strictSame(choice({ mode: 'required' }), { mode: 'required' })
  t.equal(choice(undefined), undefined)
})

const freeText = { type: 'object', properties: { input: { type: 'string' } }, required: ['input'] }

t.test('a tool of free text is a function of one text where the upstream knows no other', async (t) => {
  const grammar = { syntax: 'lark', definition: 'start: "a"' }
  const rest = { custom: true, parameters: undefined }
  const request = {
    ...asked(said(call('1', { custom: true, input: 'say "a"' })), told(result('1', { custom: true }))),
    tools: [tool('f', { ...rest, description: 'F', grammar }), tool('g', rest), tool('h', { ...rest, grammar })]
  }
  const { tools, turns } = new Offer(rules).request(request)
  const rules2 = { ...rules, customTools: true }
  const words = 'The argument "input" is text that follows this grammar (lark):\nstart: "a"'
  t.strictSame(tools, [
    tool('f', { description: `F\n\n${words}`, parameters: freeText }),
    tool('g', { parameters: freeText }),
    tool('h', { description: words, parameters: freeText })
  ])
  t.strictSame(turns, [said(call('1', { input: '{"input":"say \\"a\\""}' })), told(result('1'))])
  const known = new Offer(rules2).request(request)
  t.strictSame([known.tools, known.turns], [request.tools, request.turns], 'and stays one where it does')
})

const schema = { type: 'object', properties: { a: {} } }
const format = { type: 'json_schema', name: 'o', description: undefined, schema, strict: undefined } as const

t.test('an answer of a schema is asked for by a tool where the upstream has no other way', async (t) => {
  const ask = (more: Partial<ModelRequest>, by: OfferRules = rules): ModelRequest =>
    new Offer(by).request({ ...asked(), format, ...more })
  const name = '__json'
  const answer = tool(name, {
    description: 'Gives the answer. Call this once, with the whole answer.',
    parameters: schema
  })
  t.match(ask({}), { tools: [answer], format: undefined, toolChoice: { mode: 'named', name } })
  t.equal(ask({ format: { ...format, description: 'D' } }).tools[0]!.description, 'D')
  const own = tool('f')
  t.strictSame(ask({ tools: [own] }).toolChoice, { mode: 'required' })
  t.strictSame(ask({ tools: [own], toolChoice: { mode: 'none' } }).toolChoice, { mode: 'named', name })
  t.strictSame(ask({ tools: [own], toolChoice: { mode: 'auto', allowed: ['f'] } }).toolChoice, {
    mode: 'required',
    allowed: ['f', name]
  })
  for (const toolChoice of [{ mode: 'required' }, { mode: 'named', name: 'f' }] as const)
    t.match(ask({ tools: [own], toolChoice }), { tools: { length: 1 }, format: undefined, toolChoice })
  t.match(ask({}, { ...rules, schemaAsTool: false }), { tools: { length: 0 }, format })
  t.match(ask({ format: { type: 'json_object' } }), { tools: { length: 0 }, format: { type: 'json_object' } })
})

const opened = (name: string, part = 0, custom = false): AnswerEvent => ({
  type: 'open',
  candidate: 0,
  part,
  opening: { type: 'tool_call', id: '1', name, custom }
})
const ended = { type: 'finish', candidate: 0, finish: { reason: 'tool_calls' } } as const

/** What the client sees of an upstream's events, by an offer that was made elsewhere. */
function back(made: OfferedTools, events: readonly AnswerEvent[], by: OfferRules = rules): AnswerEvent[] {
  const seen: AnswerEvent[] = []
  const emit = new Offer(by, structuredClone(made)).back((event) => void seen.push(event))
  for (const event of events) emit(event)
  return seen
}

t.test('calls come back under the names that the client gave, and all else as it is', async (t) => {
  const made = { names: [[dotted, 'a.b', undefined] as const], custom: [], answerTool: undefined }
  const others: AnswerEvent[] = [
    { type: 'open', candidate: 0, part: 1, opening: { type: 'reasoning' } },
    { type: 'delta', part: 1, text: 'b' },
    { type: 'close', part: 1, text: '' },
    { type: 'delta', part: 0, text: '{}' },
    { type: 'close', part: 0, text: '{}' },
    ended
  ]
  t.strictSame(back(made, [opened(dotted), ...others]), [opened('a.b'), ...others])
  t.strictSame(back(made, others.slice(0, 3)), others.slice(0, 3))
  t.match(back(made, [ended]), [{ finish: { reason: 'stop' } }], 'no call is left')
  const emit = (): void => {}
  for (const [more, by, same] of [
    [{}, rules, true],
    [{ custom: ['f'] }, rules, false],
    [{ custom: ['f'] }, { ...rules, customTools: true }, true],
    [{ answerTool: 'f' }, { ...rules, customTools: true }, false],
    [{ names: made.names }, rules, false],
    [{ names: made.names, custom: ['f'] }, { ...rules, customTools: true }, false]
  ] as const)
    t.equal(
      new Offer(by, { names: [], custom: [], answerTool: undefined, ...more }).back(emit) === emit,
      same,
      JSON.stringify([more, by.customTools])
    )
  const offer = new Offer(rules)
  offer.request({ ...asked(), format, tools: [tool('a.b'), tool('g', { custom: true })] })
  t.strictSame(offer.made, {
    names: [
      [dotted, 'a.b', undefined],
      ['g', 'g', undefined],
      ['__json', 'json', '']
    ],
    custom: ['g'],
    answerTool: '__json'
  })
})

t.test('free text comes back out of its argument at the end of the call, once', async (t) => {
  const made = { names: [], custom: ['f'], answerTool: undefined }
  const closed = (input: string): AnswerEvent[] => [
    opened('f'),
    { type: 'delta', part: 0, text: input },
    { type: 'close', part: 0, text: input }
  ]
  const free = opened('f', 0, true)
  t.strictSame(back(made, closed('{"input":"a"}')), [free, ...closed('a').slice(1)])
  for (const input of ['{"input":5}', '{"other":"a"}', '{"input":"a', '[]'])
    t.strictSame(back(made, closed(input)), [free, ...closed(input).slice(1)], 'the whole, where it is not there')
  t.strictSame(back(made, closed('{"input":""}')), [free, { type: 'close', part: 0, text: '' }])
  t.strictSame(back(made, [free, ...closed('a').slice(1)]), [free, ...closed('a').slice(1)], 'what is free already')
  t.strictSame(back(made, [opened('g'), ...closed('{"input":"a"}').slice(1)]), [
    opened('g'),
    ...closed('{"input":"a"}').slice(1)
  ])
})

t.test('the arguments of the tool that stands for the answer are its text', async (t) => {
  const made = { names: [], custom: [], answerTool: 'json' }
  const text = (part: number): PartOpening => ({ type: part === 0 ? 'text' : 'refusal' })
  const events: AnswerEvent[] = [
    opened('json'),
    { type: 'delta', part: 0, text: '{}' },
    { type: 'close', part: 0, text: '{}' },
    ended
  ]
  t.strictSame(back(made, events), [
    { type: 'open', candidate: 0, part: 0, opening: text(0) },
    events[1],
    { type: 'close', part: 0, text: '' },
    { ...ended, finish: { reason: 'stop' } }
  ])
  t.match(back(made, [opened('f', 1), ...events]).at(-1), { finish: { reason: 'tool_calls' } })
  const other = { ...ended, candidate: 1 }
  t.match(back(made, [opened('f', 1), other]).at(-1), { candidate: 1, finish: { reason: 'stop' } })
  const cut = { ...ended, finish: { reason: 'length' } } as const
  t.equal(back(made, [cut])[0], cut)
})
