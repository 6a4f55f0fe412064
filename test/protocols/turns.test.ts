// What encoders make of the turns of a conversation, whatever the protocol: what is joined, checked, added and moved.
import t from 'tap'
import {
  checkCalls,
  checkChoice,
  endsPartially,
  Front,
  isBlank,
  joinTexts,
  jsonOnly,
  leadingSystem,
  mediaToUser,
  resultText,
  sayingJson,
  spoken,
  withLastWord
} from '../../core/protocols/canonical/conversation.ts'
import { Losses } from '../../core/protocols/canonical/losses.ts'
import { emptyRequest, offered } from '../../core/protocols/canonical/request.ts'
import type {
  AssistantPart,
  MediaPart,
  ModelRequest,
  SystemTurn,
  ToolResult,
  Turn
} from '../../core/protocols/canonical/request.ts'

type Json = any

const text = (said: string): { type: 'text'; text: string } => ({ type: 'text', text: said })
const user = (...parts: Json[]): Turn => ({ role: 'user', parts })
const said = (...parts: AssistantPart[]): Turn => ({ role: 'assistant', parts })
const system = (word: string): SystemTurn => ({ role: 'system', parts: [text(word)], developer: false })
const call = (id: string): AssistantPart => ({ type: 'tool_call', id, name: 'f', custom: false, input: '{}' })
const result = (id: string, parts: Json[] = [], more: Partial<ToolResult> = {}): ToolResult => ({
  id,
  name: 'f',
  custom: false,
  parts,
  error: false,
  ...more
})
const told = (...results: ToolResult[]): Turn => ({ role: 'tool', results })
const asked = (...turns: Turn[]): ModelRequest => ({ ...emptyRequest('m', false), turns })
const image: MediaPart = { type: 'image', source: { kind: 'url', url: 'https://a.example' } }

t.test('texts are joined by blank lines, but for those that say nothing', async (t) => {
  const parts = [text('a'), { type: 'image' }, text(''), { type: 'text' }, { type: 'reasoning', text: 'x' }, text('b')]
  t.equal(joinTexts(parts), 'a\n\nb')
  t.equal(joinTexts([]), '')
  t.equal(spoken([text('a'), { type: 'reasoning', text: 'x' }, text('b')]), 'ab')
  t.equal(spoken([text('a'), { type: 'refusal', text: 'x' }, { type: 'refusal', text: 'y' }], 'refusal'), 'xy')
  for (const blank of ['', ' \n\t', '\u200b\u200c\u200d\u2060\ufeff']) t.ok(isBlank(blank))
  t.notOk(isBlank(' \u200ea'))
  t.equal(resultText(result('1', [text('a'), image, text('b')])), 'a\n\nb')
  t.equal(resultText(result('1', [text('a')], { error: true })), 'Error: a')
})

t.test('the word JSON is said where an object is asked for and nobody says it', async (t) => {
  const spoke = (...turns: Turn[]): number =>
    sayingJson({ ...asked(...turns), format: { type: 'json_object' } }).length - turns.length
  t.strictSame(sayingJson({ ...asked(user(text('a'))), format: { type: 'json_object' } })[0], system(jsonOnly))
  t.equal(spoke(user(text('a')), said(call('1')), told(result('1', [image, text('b')]))), 1)
  t.equal(spoke(user(text('a')), user(image, text('as Json'))), 0)
  t.equal(spoke(user(text('a')), said(call('1')), told(result('1'), result('2', [image, text('json')]))), 0)
  t.equal(spoke(user(image)), 1)
  t.equal(sayingJson(asked(user(text('a')))).length, 1)
  t.equal(sayingJson({ ...asked(user(text('a'))), format: { type: 'json_schema' } as Json }).length, 1)
})

t.test('instructions at the front are told from later ones', async (t) => {
  const [a, b] = [system('a'), system('b')]
  t.strictSame(leadingSystem(asked(a, b, user(), a)), { system: [a, b], rest: [user(), a] })
  t.strictSame(leadingSystem(asked(a, b)), { system: [a, b], rest: [] })
  t.strictSame(leadingSystem(asked(user(), a)), { system: [], rest: [user(), a] })
  const front = new Front()
  const turns: Turn[] = []
  t.ok(front.has(turns))
  turns.push(a, b)
  t.ok(front.has(turns))
  turns.push(user())
  t.notOk(front.has(turns))
  turns.push(a)
  t.notOk(front.has(turns))
})

t.test('calls and results that do not match are refused, with the id and what is wrong', async (t) => {
  const [long, shown] = ['i'.repeat(65), 'i'.repeat(64)]
  const check = (...turns: Turn[]): void => checkCalls(asked(...turns), 'messages')
  const both = said(text('b'), call('1'), call('1'), call('2'))
  const results = told(result('1'), result('2'), result('1'))
  t.doesNotThrow(() => check(user(text('a')), both, results, both, results, said(text('c'))))
  for (const turns of [
    [both, told(result('1'), result('2'))],
    [both, told(result('1'), result('2')), user(), told(result('1'))],
    [both],
    [said(text('b'), call('1')), said(text('c'))]
  ])
    t.throws(() => check(...turns), {
      code: 'invalid_field',
      param: 'messages',
      message: /has a call "1" without a result/
    })
  for (const turns of [
    [told(result('1'))],
    [said(call('1')), told(result('1'), result('1'))],
    [said(call('1')), told(result('1')), told(result('1'))],
    [both, told(result('1'), result('1'), result('1'))]
  ])
    t.throws(() => check(...turns), {
      code: 'invalid_field',
      param: 'messages',
      message: /has a result of the call "1"/
    })
  t.throws(() => check(said(call(long))), {
    message: `messages has a call "${shown}" without a result right after it.`
  })
})

t.test('a call is demanded of a request with tools alone', async (t) => {
  const check = (toolChoice: Json, tools: Json[] = []): void =>
    checkChoice({ ...asked(), tools, toolChoice }, new Losses('messages', { tool_choice: 'choice' }))
  for (const toolChoice of [undefined, { mode: 'auto' }, { mode: 'none' }]) check(toolChoice)
  for (const toolChoice of [{ mode: 'required' }, { mode: 'named', name: 'f' }]) {
    check(toolChoice, [{ name: 'f' }])
    t.throws(() => check(toolChoice), { code: 'invalid_field', param: 'choice' })
  }
  const names = (toolChoice: Json): string[] =>
    offered({ ...asked(), tools: [{ name: 'f' }, { name: 'g' }] as Json, toolChoice }).map(({ name }) => name)
  t.strictSame(names({ mode: 'auto', allowed: ['g', 'h'] }), ['g'])
  t.strictSame(names({ mode: 'named', name: 'f' }), ['f', 'g'])
  for (const toolChoice of [undefined, { mode: 'auto' }]) t.strictSame(names(toolChoice), ['f', 'g'])
})

t.test('a conversation that the model ends is gone on with, unless it said nothing', async (t) => {
  const [last, first] = [said(text('a')), user(text('Hi'))]
  t.strictSame(
    [endsPartially(asked(first, last)), endsPartially(asked(last, first)), endsPartially(asked())],
    [true, false, false]
  )
  const same = asked(last, first)
  t.equal(withLastWord(same), same)
  const thought: AssistantPart = { type: 'reasoning', text: 'Hm' }
  for (const parts of [[text('a')], [thought, text('a')], [text(''), image], [call('1')]]) {
    const { turns } = withLastWord(asked(first, said(...parts)))
    t.match(turns, [
      first,
      said(...parts),
      { role: 'user', parts: [{ type: 'text', text: /^Go on with your last message/ }] }
    ])
  }
  for (const parts of [[], [thought], [text(' '), thought]])
    t.strictSame(withLastWord(asked(first, said(...parts))).turns, [first])
})

t.test('what is no text goes to the next user turn where it has no place, with a word on whose it is', async (t) => {
  const moved = (turns: Turn[], results = true, own = true): Turn[] => mediaToUser(turns, { results, own })
  const shown = 'The result follows in the next message.'
  const turns = [
    user(text('Hi')),
    said(call('1')),
    told(result('1', [image]), result('2', [text('a'), image], { name: '' })),
    user(text('b'))
  ]
  const of1 = [text('Of the result of f (1):'), image]
  const of2 = [text('Of the result of the call (2):'), image]
  const without = told(result('1', [text(shown)]), result('2', [text('a')], { name: '' }))
  t.strictSame(moved(turns), [...turns.slice(0, 2), without, user(...of1, ...of2, text('b'))])
  t.strictSame(moved(turns.slice(0, 3)), [...turns.slice(0, 2), without, user(...of1, ...of2)])
  t.strictSame(moved([...turns.slice(0, 3), said(text('c'))]), [
    ...turns.slice(0, 2),
    without,
    user(...of1, ...of2),
    said(text('c'))
  ])
  t.strictSame(moved([turns[2]!, told(result('3'))]), [without, told(result('3')), user(...of1, ...of2)])
  t.strictSame(moved([turns[2]!, user(text('b')), user(text('c'))]), [
    without,
    user(...of1, ...of2, text('b')),
    user(text('c'))
  ])
  t.strictSame(moved(turns, false), turns)
  const drew = [said(text('a'), image, call('1')), user(text('b'))]
  t.strictSame(moved(drew), [said(text('a'), call('1')), user(text("Of the assistant's answer:"), image, text('b'))])
  t.strictSame(moved(drew, true, false), drew)
  const plain = [user(image), said(text('a'))]
  t.strictSame(moved(plain), plain, 'a user may show pictures, and a text is left as it is')
  t.equal(moved(plain)[1], plain[1])
})
