// Signatures and encrypted thoughts: how they are wrapped for clients of other protocols, kept, and put back.
import t from 'tap'
import type { AnswerEvent } from '../../core/protocols/canonical/answer.ts'
import {
  isSealed,
  Keeper,
  mayBeSealed,
  restore,
  seal,
  sealThoughts,
  unproven,
  unseal,
  unsealThoughts
} from '../../core/protocols/canonical/proofs.ts'
import type { Keepsake, KeptThought } from '../../core/protocols/canonical/proofs.ts'
import { emptyRequest } from '../../core/protocols/canonical/request.ts'
import type { AssistantPart, ModelRequest, Proof } from '../../core/protocols/canonical/request.ts'

type Json = any

const proof: Proof = { family: 'openai', kind: 'encrypted', value: 'a.b', id: 'rs.1 é' }

t.test('a proof is wrapped where it is of another family, and told from what a client sends of its own', async (t) => {
  t.equal(seal('openai', proof), 'a.b')
  const sealed = seal('anthropic', proof)
  t.equal(sealed, 'sluice1.openai.encrypted.rs%2E1%20%C3%A9.a.b')
  t.strictSame(unseal('anthropic', sealed), proof)
  const { id: _id, ...nameless } = proof
  t.strictSame(unseal('anthropic', seal('anthropic', nameless)), nameless)
  t.equal(seal('gemini', undefined), 'sluice1.')
  t.equal(seal('gemini', { ...proof, id: '\ud83d' }), 'sluice1.openai.encrypted.%EF%BF%BD.a.b')
  t.strictSame(unseal('gemini', 'own'), { family: 'gemini', kind: 'signature', value: 'own' })
  t.strictSame(unseal('gemini', 'own', 'call'), { family: 'gemini', kind: 'call', value: 'own' })
  for (const value of [
    '',
    'sluice1.',
    'sluice1.openai.encrypted.id.',
    'sluice1.openai.encrypted.id',
    'sluice1.openai.other.id.a',
    'sluice1.other.encrypted.id.a'
  ])
    t.equal(unseal('gemini', value), undefined, value)
  t.strictSame(unseal('gemini', 'sluice1.openai.encrypted.%.a'), { ...proof, id: '%', value: 'a' })
  for (const family of ['openai', 'anthropic', 'gemini', 'bedrock'])
    for (const kind of ['signature', 'call', 'redacted', 'encrypted'])
      t.match(unseal('gemini', `sluice1.${family}.${kind}..a`), { family, kind, value: 'a' })
  t.strictSame([isSealed(sealed), isSealed('own'), isSealed('sluice2.')], [true, false, false])
})

t.test('a body may be sealed where the mark is in it, as it is or in base64', async (t) => {
  const may = (text: string): boolean => mayBeSealed(Buffer.from(text))
  t.ok(may(`{"signature":"${seal('gemini', proof)}"}`))
  for (const text of ['sluice1.', 'sluice1.thoughts.[]', 'sluice1.\u00ff'])
    t.ok(may(`{"data":"${Buffer.from(text).toString('base64')}"}`), text)
  for (const text of ['a sluice of version 1. or 2', 'chapter 1.', 'sluice1', 'c2x', 'bHVp']) t.notOk(may(text), text)
  const inBase64 = Buffer.from('sluice1.').toString('base64')
  t.ok(may(`x${inBase64.slice(1, 7)}x`), 'without what depends on its neighbours')
  for (const part of [inBase64.slice(1, 6), inBase64.slice(2, 8)]) t.notOk(may(part))
})

t.test('thoughts that were put on a call are read, but for what is none', async (t) => {
  const thought: KeptThought = { type: 'reasoning', text: 'Hm', proof }
  const first: KeptThought = { ...thought, first: true }
  t.strictSame(unsealThoughts(sealThoughts([thought, first])), [thought, first])
  const read = (value: Json): KeptThought[] => unsealThoughts(`sluice1.thoughts.${JSON.stringify(value)}`)
  t.strictSame(read([{ text: 'Hm', proof: { ...proof, id: 5 }, first: 1 }]), [
    { type: 'reasoning', text: 'Hm', proof: { family: 'openai', kind: 'encrypted', value: 'a.b' } }
  ])
  for (const value of [
    { text: 'Hm', proof },
    [{ text: 5, proof }],
    [{ text: 'Hm' }],
    [{ text: 'Hm', proof: { ...proof, family: 'other' } }],
    [{ text: 'Hm', proof: { ...proof, kind: 'other' } }],
    [{ text: 'Hm', proof: { ...proof, value: '' } }]
  ])
    t.strictSame(read(value), [], JSON.stringify(value))
  for (const value of [
    'sluice1.thoughts.{',
    '',
    JSON.stringify([thought]).padStart(200),
    `sluice1 thoughts.${JSON.stringify([thought])}`
  ])
    t.strictSame(unsealThoughts(value), [], value)
})

const signed = (value: string): Proof => ({ family: 'anthropic', kind: 'signature', value })
const thinks = (part: number, text: string, value?: string, candidate = 0): AnswerEvent[] => [
  { type: 'open', candidate, part, opening: { type: 'reasoning' } },
  { type: 'delta', part, text },
  { type: 'close', part, text: '', ...(value !== undefined && { proof: signed(value) }) }
]
const speaks = (part: number, candidate = 0): AnswerEvent[] => [
  { type: 'open', candidate, part, opening: { type: 'text' } },
  { type: 'delta', part, text: 'said' },
  { type: 'close', part, text: '', proof: signed('of the text') }
]
const calls = (part: number, id: string, proven?: Proof, candidate = 0): AnswerEvent[] => [
  {
    type: 'open',
    candidate,
    part,
    opening: { type: 'tool_call', id, name: 'f', custom: false, ...(proven && { proof: proven }) }
  },
  { type: 'close', part, text: '{}' }
]

t.test(
  'what led to a call is kept under its id: proven thoughts since the call before, and its own proof',
  async (t) => {
    const kept = (...events: AnswerEvent[][]): Json => {
      const keeper = new Keeper()
      for (const event of events.flat()) keeper.see(event)
      return Object.fromEntries(keeper.kept)
    }
    const thought = (text: string, value: string, first = false): KeptThought => ({
      type: 'reasoning',
      text,
      ...(first && { first: true }),
      proof: signed(value)
    })
    t.strictSame(
      kept(
        thinks(0, 'a', 's'),
        thinks(1, 'b'),
        thinks(2, 'c', 't'),
        speaks(3),
        thinks(4, 'd', 'u'),
        calls(5, '1'),
        calls(6, '2')
      ),
      {
        1: { thoughts: [thought('a', 's', true), thought('c', 't', true), thought('d', 'u')] }
      }
    )
    t.strictSame(kept(calls(0, '1', proof), thinks(1, 'a', 's'), calls(2, '2', proof)), {
      1: { thoughts: [], proof },
      2: { thoughts: [thought('a', 's')], proof }
    })
    t.strictSame(kept(thinks(0, 'a', 's'), thinks(1, 'b', 't', 1), calls(2, '1', undefined, 1)), {
      1: { thoughts: [thought('b', 't', true)] }
    })
    const open: AnswerEvent[] = [{ type: 'open', candidate: 0, part: 0, opening: { type: 'reasoning' } }]
    const usage = { type: 'finish', candidate: 0, finish: { reason: 'stop' } } as const
    const late: AnswerEvent[] = [
      usage,
      { type: 'delta', part: 0, text: 'a' },
      { type: 'close', part: 0, text: '', proof: signed('s') }
    ]
    t.strictSame(kept(open, late, late.slice(2), calls(1, '1')), { 1: { thoughts: [thought('a', 's', true)] } })
  }
)

const call = (id: string, more: Json = {}): AssistantPart => ({
  type: 'tool_call',
  id,
  name: 'f',
  custom: false,
  input: '{}',
  ...more
})
const text: AssistantPart = { type: 'text', text: 'said' }
const request = (...parts: AssistantPart[]): ModelRequest => ({
  ...emptyRequest('m', false),
  turns: [
    { role: 'user', parts: [{ type: 'text', text: 'Hi' }] },
    { role: 'assistant', parts }
  ]
})

t.test('calls are unproven in a turn that has no proof of the upstream', async (t) => {
  const bare: AssistantPart = { type: 'reasoning', text: 'Hm' }
  const of = (...parts: AssistantPart[]): string[] => unproven(request(...parts), 'anthropic')
  t.strictSame(of(bare, text, call('1'), call('2')), ['1', '2'])
  t.strictSame(of(bare, text, call('1', { proof })), ['1'], 'as a proof of another is none')
  t.strictSame(of(text, call('1'), call('2', { proof: signed('s') })), [])
  t.strictSame(of({ ...bare, proof: signed('s') }, call('1')), [])
  t.strictSame(of({ type: 'image', source: { kind: 'url', url: 'https://a.example' } }, call('1')), ['1'])
})

t.test('what was kept is put back where it was, and nothing of another family', async (t) => {
  const back = (kept: Record<string, Keepsake>, ...parts: AssistantPart[]): Json => {
    const asked = request(...parts)
    const { turns } = restore(asked, new Map(Object.entries(kept)), 'anthropic')
    t.strictSame(turns[0], asked.turns[0])
    return (turns[1] as Json).parts
  }
  const thought = (value: string, more: Json = {}): KeptThought => ({
    type: 'reasoning',
    text: value,
    proof: signed(value),
    ...more
  })
  const bare: AssistantPart = { type: 'reasoning', text: 'Hm' }
  const kept = {
    1: { thoughts: [thought('a', { first: true }), thought('b')] },
    2: { thoughts: [thought('c')], proof: signed('d') }
  }
  t.strictSame(back(kept, bare, text, call('1'), call('2'), call('3')), [
    thought('a'),
    text,
    thought('b'),
    call('1'),
    thought('c'),
    call('2', { proof: signed('d') }),
    call('3')
  ])
  const given = { ...bare, proof } as AssistantPart
  t.strictSame(back({ 1: { thoughts: [thought('a', { first: true })] } }, given, bare, call('1')), [
    thought('a'),
    given,
    call('1')
  ])
  t.strictSame(back({ 1: { thoughts: [thought('a')] } }, bare, call('1')), [thought('a'), call('1')])
  t.strictSame(back({ 1: { thoughts: [], proof: signed('d') } }, bare, call('1')), [
    bare,
    call('1', { proof: signed('d') })
  ])
  t.strictSame(back({ 1: { thoughts: [thought('a', { proof })], proof } }, bare, call('1')), [bare, call('1')])
  t.strictSame(back({ 1: { thoughts: [{ type: 'reasoning', text: 'a' }] } }, bare, call('1')), [bare, call('1')])
  t.strictSame(back(kept, bare, call('1', { proof: signed('e') })), [bare, call('1', { proof: signed('e') })])
  t.strictSame(back({ undefined: kept[1] }, bare, text, call('1')), [bare, text, call('1')])
})
