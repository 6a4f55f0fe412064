// Conversations of Gemini's clients: which results belong to which calls, what is joined, put back and refused.
import t from 'tap'
import { sealThoughts, seal } from '../../core/protocols/canonical/proofs.ts'
import type { KeptThought } from '../../core/protocols/canonical/proofs.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import { asking, refusal, sent } from '../kit/pairs.ts'

type Json = any

const user = (...parts: Json[]): Json => ({ role: 'user', parts })
const model = (...parts: Json[]): Json => ({ role: 'model', parts })
const hi = user({ text: 'Hi' })
const contents = (...turns: Json[]): Json => ({ contents: [hi, ...turns] })
const configured = (generationConfig: Json): Json => ({ contents: [hi], generationConfig })
const call = (name: string, more: Json = {}): Json => ({ functionCall: { name, args: {}, ...more } })
const result = (name: string, output: string, more: Json = {}): Json => ({
  functionResponse: { name, response: { output }, ...more }
})

t.test('a result of Gemini belongs to the call with its id, or to the first open one with its name', async (t) => {
  /** The results in order of what they answer: `id: text` for each. */
  const told = (...turns: Json[]): string[] =>
    sent('G→C', contents(...turns, user({ text: 'on' })))
      .body.messages.filter(({ role }: Json) => role === 'tool')
      .map(({ tool_call_id: id, content }: Json) => `${id}: ${content}`)
  const two = model(call('f', { id: 'a' }), call('f', { id: 'b' }))
  t.same(told(two, user(result('f', '1', { id: 'b' }), result('f', '2', { id: 'a' }))), ['b: 1', 'a: 2'])
  t.same(told(two, user(result('f', '1'), result('f', '2'))), ['a: 1', 'b: 2'])
  t.same(told(two, user(result('f', '1', { id: 'a' }), result('f', '2'))), ['a: 1', 'b: 2'])
  t.same(told(model(call('f'), call('g')), user(result('g', '1')), user(result('f', '2'))), [
    'call_1_1: 1',
    'call_1_0: 2'
  ])
  const twice = model(call('f', { id: 'a' }), call('f', { id: 'a' }))
  const both = user(result('f', '1', { id: 'a' }), result('f', '2', { id: 'a' }))
  t.same(told(twice, both, model(call('f')), user(result('f', '3'))), ['a: 1', 'a_2: 2', 'call_3_0: 3'])
  t.match(refusal('G→C', contents(user(result('f', '1')))), {
    code: 'invalid_field',
    message: /result of the call "f"/
  })
  t.strictSame(
    sent('G→M', contents(model(call('f')), user({ functionResponse: { name: 'f' } }))).body.messages[2].content[0]
      .content,
    []
  )
})

t.test('results go to Gemini in the order of their calls', async (t) => {
  const tool = (id: string): Json => ({ role: 'tool', tool_call_id: id, content: id })
  const made = (id: string): Json => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } })
  const { body } = sent('C→G', {
    ...asking['C'],
    messages: [
      ...asking['C'].messages,
      { role: 'assistant', content: null, tool_calls: ['a', 'b', 'c'].map(made) },
      ...['c', 'a', 'b'].map(tool)
    ]
  })
  t.same(
    body.contents[2].parts.map(({ functionResponse }: Json) => functionResponse.id),
    ['a', 'b', 'c']
  )
})

t.test('what the model said in chunks is one, up to the signature of each part', async (t) => {
  const own = (...parts: Json[]): Json =>
    sent('G→G', contents(...parts.map((part) => model(part)), user({ text: 'on' }))).body.contents[1].parts
  const [thought, signature] = [{ thought: true }, { thoughtSignature: 'c2ln' }]
  t.strictSame(
    own({ text: 'a', ...thought }, { text: 'b', ...thought, ...signature }, { text: 'c', ...thought, ...signature }),
    [
      { text: 'ab', ...thought, ...signature },
      { text: 'c', ...thought, ...signature }
    ]
  )
  t.strictSame(own({ text: 'a' }, { text: '', ...signature }, { text: '' }, { text: 'b' }), [
    { text: 'a', ...signature },
    { text: 'b' }
  ])
  t.strictSame(own({ text: '', ...thought, ...signature }, { text: 'b' }), [
    { text: '', ...thought, ...signature },
    { text: 'b' }
  ])
  const skip = { thoughtSignature: 'skip_thought_signature_validator' }
  t.strictSame(sent('G→C', contents(model({ text: 'a', ...skip }), hi)).dropped, [], 'what stands for none is none')
  t.strictSame(sent('G→C', contents(model({ text: 'a', ...signature }), hi)).dropped, [
    'contents.parts.thoughtSignature'
  ])
})

t.test('thoughts on a call of Gemini are put back before it, once', async (t) => {
  const proof = (value: string): Json => ({ family: 'anthropic', kind: 'signature', value })
  const thought = (text: string, value: string, more: Json = {}): KeptThought => ({
    type: 'reasoning',
    text,
    proof: proof(value),
    ...more
  })
  const base64 = (text: string): string => Buffer.from(text).toString('base64')
  const led = (...thoughts: KeptThought[]): Json => ({ ...call('f'), thoughtSignature: base64(sealThoughts(thoughts)) })
  const back = (...parts: Json[]): Json =>
    sent('G→M', {
      ...contents(model(...parts), user(result('f', '1'))),
      generationConfig: { maxOutputTokens: 100 }
    }).body.messages[1].content.map(({ type, thinking, text, signature }: Json) =>
      [type, thinking ?? text, signature].filter(Boolean).join(' ')
    )
  const plain = (text: string): Json => ({ text, thought: true })
  const spoken = { text: 'said' }
  const [a, b] = [thought('A', 's', { first: true }), thought('B', 't')]
  t.same(back(spoken, led(a, b)), ['thinking A s', 'text said', 'thinking B t', 'tool_use'])
  t.same(
    back(plain('A'), spoken, led(a)),
    ['thinking A s', 'text said', 'tool_use'],
    'the client has it, without its proof'
  )
  const sealed = { ...plain('A'), thoughtSignature: base64(seal('gemini', proof('s'))) }
  t.same(back(sealed, spoken, led(a)), ['thinking A s', 'text said', 'tool_use'], 'the client has all of it')
  t.same(back(plain('X'), spoken, led(a)).slice(0, 1), ['thinking A s'])
  t.strictSame(sent('G→C', contents(model(led(a)), user(result('f', '1')))).dropped, [
    'contents.parts.thoughtSignature'
  ])
})

t.test('what Gemini alone has in its contents is refused by its place', async (t) => {
  t.match(refusal('G→C', { contents: [{ role: 'tool', parts: [] }] }), {
    code: 'invalid_field',
    param: 'contents[0].role'
  })
  t.equal(sent('G→C', { contents: [{ parts: [{ text: 'a' }] }] }).body.messages[0].role, 'user')
  t.match(refusal('G→C', {}), { code: 'missing_field', param: 'contents' })
  const code = { executableCode: { code: 'x' } }
  t.match(refusal('G→C', contents(model(code))), { code: 'unsupported_parameter', param: 'contents[1].parts[0]' })
  t.match(refusal('G→C', contents(user(code))), { param: 'contents[1].parts[0]' })
  const picture = { inlineData: { mimeType: 'image/png', data: 'AAAA' } }
  t.match(refusal('G→C', contents(model(call('f')), user(result('f', '1', { parts: [code] })))), {
    param: 'contents[2].parts[0].functionResponse.parts[0]'
  })
  t.match(sent('G→R', contents(model(call('f')), user(result('f', '1', { parts: [picture] })))).body.input[2].output, [
    { type: 'input_text', text: '1' },
    { type: 'input_image' }
  ])
  t.strictSame(sent('G→C', { ...contents(), model: 'models/m' }).dropped, [])
})

t.test('what Gemini is asked for is told by its members', async (t) => {
  const dropped = (body: Json, pair = 'G→R'): string[] => sent(pair, body).dropped
  t.match(refusal('G→R', configured({ stopSequences: ['a'] })), { param: 'generationConfig.stopSequences' })
  t.equal(refusal('G→R', configured({ stopSequences: [] })), undefined)
  t.equal(refusal('G→R', configured({ responseModalities: ['TEXT', 'text'] })), undefined)
  t.match(refusal('G→R', configured({ responseModalities: ['TEXT', 'IMAGE'] })), {
    param: 'generationConfig.responseModalities'
  })
  t.match(refusal('G→R', configured({ responseMimeType: 'text/x.enum' })), {
    param: 'generationConfig.responseMimeType'
  })
  t.equal(sent('G→R', configured({ responseMimeType: 'text/plain', responseSchema: {} })).body.text, undefined)
  const tools = [{ functionDeclarations: [{ name: 'f' }, { name: 'g' }] }]
  const choosing = (mode: string, ...allowedFunctionNames: string[]): Json => ({
    ...contents(),
    tools,
    toolConfig: { functionCallingConfig: { mode, allowedFunctionNames } }
  })
  t.match(refusal('G→C', { ...choosing('ANY'), tools: [] }), { param: 'toolConfig.functionCallingConfig' })
  t.strictSame(sent('G→C', choosing('ANY', 'f')).body.tool_choice, { type: 'function', function: { name: 'f' } })
  t.equal(sent('G→C', choosing('ANY', 'f', 'g')).body.tool_choice.allowed_tools?.mode ?? 'required', 'required')
  t.match(refusal('G→C', { ...contents(), tools: [{ googleSearch: {} }] }), { param: 'tools[0].googleSearch' })
  t.strictSame(
    dropped({ ...contents(), labels: { a: 'b' }, other: 1, generationConfig: { speechConfig: { a: 1 }, own: 1 } }),
    ['generationConfig.speechConfig', 'labels', 'other', 'generationConfig.own']
  )
  t.match(refusal('G→R', { ...contents(), cachedContent: 'c' }), { param: 'cachedContent' })
})

t.test('names of tools and ids of calls are as long as each upstream takes them', async (t) => {
  const named = (upstream: string, name: string): string =>
    JSON.stringify(sent(`M→${upstream}`, { ...asking['M'], tools: [{ name, input_schema: { type: 'object' } }] }).body)
  for (const upstream of ['C', 'R', 'G']) {
    t.ok(named(upstream, 'n'.repeat(64)).includes(`"${'n'.repeat(64)}"`), upstream)
    t.notOk(named(upstream, 'n'.repeat(65)).includes('n'.repeat(65)), upstream)
  }
  const called = (upstream: string, id: string): string =>
    JSON.stringify(
      sent(`M→${upstream}`, {
        ...asking['M'],
        messages: [
          ...asking['M'].messages,
          { role: 'assistant', content: [{ type: 'tool_use', id, name: 'f', input: {} }] },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: '1' }] }
        ]
      }).body
    )
  for (const [upstream, longest] of [
    ['R', 64],
    ['G', 256]
  ] as const) {
    t.ok(called(upstream, 'i'.repeat(longest)).includes(`"${'i'.repeat(longest)}"`), upstream)
    t.notOk(called(upstream, 'i'.repeat(longest + 1)).includes('i'.repeat(longest + 1)), upstream)
  }
  t.strictSame([codecs['openai-responses'].customTools, codecs.gemini.customTools], [true, false])
})
