// What one protocol takes for granted and another wants to be told: that an answer is JSON, that thoughts are shown,
// whose document it is.
import t from 'tap'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import { answered, asking, refusal, sent, streamed } from '../kit/pairs.ts'

type Json = any

t.test('who asks OpenAI for JSON says so in words, too', async (t) => {
  const gemini = (text: string): Json => ({
    contents: [{ parts: [{ text }] }],
    generationConfig: { responseMimeType: 'application/json' }
  })
  t.match(sent('G→C', gemini('List three cities.')).body, {
    response_format: { type: 'json_object' },
    messages: [{ role: 'system', content: /JSON/ }, { role: 'user' }]
  })
  t.match(sent('G→R', gemini('List three cities.')).body, {
    text: { format: { type: 'json_object' } },
    input: [{ role: 'system', content: /JSON/ }, { role: 'user' }]
  })
  t.equal(sent('G→C', gemini('List three cities as json.')).body.messages.length, 1, 'once is enough')
})

t.test('thoughts that are asked for are shown, where a model hides them unless it is told otherwise', async (t) => {
  const thinking = (pair: string, more: Json, traits = {}): Json =>
    sent(pair, { ...asking[pair[0]!], ...more }, traits).body.thinking
  t.same(thinking('C→M', { reasoning_effort: 'high' }), { type: 'adaptive', display: 'summarized' })
  t.same(thinking('R→M', { reasoning: { effort: 'high' } }), { type: 'adaptive', display: 'summarized' })
  t.same(
    thinking('G→M', { generationConfig: { thinkingConfig: { thinkingLevel: 'HIGH' } } }),
    { type: 'adaptive', display: 'omitted' },
    'Gemini does not show them unasked'
  )
  t.same(
    thinking('C→M', { reasoning_effort: 'high', max_tokens: 9000 }, { thinking: 'budget' }),
    { type: 'enabled', budget_tokens: 5400 },
    'older models know no such wish'
  )
  t.equal(thinking('C→M', {}), undefined)
})

t.test(
  'thoughts without a proof come back through a client of Responses, which keeps only those that look proven',
  async (t) => {
    const { body } = answered('C⇒R', {
      choices: [{ index: 0, message: { content: 'a', reasoning_content: 'Hm' }, finish_reason: 'stop' }]
    })
    const [thoughts] = body.output
    t.match(thoughts, { type: 'reasoning', summary: [{ text: 'Hm' }], encrypted_content: /^sluice1\./ })
    const again = {
      model: 'm',
      input: [{ role: 'user', content: 'Hi' }, ...body.output, { role: 'user', content: 'b' }]
    }
    t.match(sent('R→C', again, { replaysReasoning: true }), {
      body: { messages: [{}, { content: 'a', reasoning_content: 'Hm' }, {}] },
      dropped: []
    })
    t.match(
      codecs['openai-responses'].withoutSealed!(again),
      { key: 'input', value: { length: 3 } },
      'and are not shown to the vendor'
    )
  }
)

t.test('nobody is asked for a longer answer than the model can give', async (t) => {
  const limits: Readonly<Record<string, (body: Json) => unknown>> = {
    C: (body) => body.max_completion_tokens,
    R: (body) => body.max_output_tokens,
    M: (body) => body.max_tokens,
    G: (body) => body.generationConfig.maxOutputTokens
  }
  for (const upstream of 'CRG')
    t.equal(
      limits[upstream]!(
        sent(`M→${upstream}`, { ...asking['M'], max_tokens: 32_000 }, { maxOutputTokens: 16_384 }).body
      ),
      16_384,
      upstream
    )
  t.equal(limits['M']!(sent('C→M', { ...asking['C'], max_tokens: 32_000 }, { maxOutputTokens: 8192 }).body), 8192)
  t.equal(
    limits['M']!(sent('C→M', { ...asking['C'], max_tokens: 32_000 }).body),
    32_000,
    'where it is not known, the client is believed'
  )
  t.match(
    sent(
      'C→M',
      { ...asking['C'], max_tokens: 32_000, reasoning_effort: 'max' },
      { maxOutputTokens: 8192, thinking: 'budget' }
    ).body,
    { max_tokens: 8192, thinking: { budget_tokens: 7782 } }
  )
})

t.test('a document has a name by which OpenAI knows what is in it', async (t) => {
  const named = (title?: string): Json => ({
    ...asking['M'],
    messages: [
      {
        role: 'user',
        content: [
          { type: 'document', title, source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' } }
        ]
      }
    ]
  })
  for (const [title, filename] of [
    ['Our rules', 'Our rules.pdf'],
    ['rules.pdf', 'rules.pdf'],
    [undefined, 'document.pdf']
  ] as const) {
    t.equal(sent('M→C', named(title)).body.messages[0].content[0].file.filename, filename)
    t.equal(sent('M→R', named(title)).body.input[0].content[0].filename, filename)
  }
})

t.test('a document of text keeps its name', async (t) => {
  const body = {
    ...asking['M'],
    messages: [
      {
        role: 'user',
        content: [
          { type: 'document', title: 'Rules', source: { type: 'text', media_type: 'text/plain', data: 'Be kind.' } }
        ]
      }
    ]
  }
  t.equal(sent('M→C', body).body.messages[0].content, 'Rules\nBe kind.')
  t.equal(sent('M→R', body).body.input[0].content[0].text, 'Rules\nBe kind.')
  t.equal(sent('M→G', body).body.contents[0].parts[0].text, 'Rules\nBe kind.')
})

t.test('an answer that its model could not finish is none', async (t) => {
  const chunk = (parts: Json[], finishReason?: string): Json => ({
    candidates: [{ content: { parts }, ...(finishReason && { finishReason }) }]
  })
  const thought = { text: 'Hm', thought: true }
  t.throws(() => streamed('G⇒C', [chunk([thought]), chunk([], 'MALFORMED_FUNCTION_CALL')]), {
    code: 'upstream_bad_response'
  })
  t.throws(() => answered('G⇒M', chunk([thought], 'UNEXPECTED_TOOL_CALL')), { code: 'upstream_bad_response' })
  const cut = [chunk([thought, { text: 'a' }]), chunk([], 'MALFORMED_FUNCTION_CALL')]
  t.throws(() => streamed('G⇒C', cut), { code: 'upstream_bad_response' }, 'whatever was said before')
})

t.test('words for how much to think are shares of the answer, and tokens are the word of their share', (t) => {
  const older = { thinking: 'budget' } as const
  const thinking = (effort: string, max_tokens = 20_480, more: Json = {}, traits: Json = older): Json =>
    sent('C→M', { ...asking['C'], reasoning_effort: effort, max_tokens, ...more }, traits)
  const budgets = { minimal: 1024, low: 2048, medium: 6144, high: 12_288, xhigh: 18_432, max: 19_456 }
  for (const [effort, budget_tokens] of Object.entries(budgets))
    t.match(thinking(effort).body.thinking, { type: 'enabled', budget_tokens }, effort)
  t.same(thinking('none').body.thinking, { type: 'disabled' })
  t.match(thinking('high', 1025).body.thinking, { budget_tokens: 1024 }, 'the least, and less than the answer')
  const small = thinking('high', 1024)
  t.same([small.body.thinking, small.dropped], [undefined, ['reasoning_effort']], 'there is no room for it')
  const tools = [{ type: 'function', function: { name: 'f' } }]
  for (const tool_choice of ['required', { type: 'function', function: { name: 'f' } }]) {
    const forced = thinking('high', 9000, { tools, tool_choice })
    t.same([forced.body.thinking, forced.dropped], [undefined, ['reasoning_effort']], 'no call is forced on a thinker')
    const newer = thinking('high', 9000, { tools, tool_choice }, {})
    t.same([newer.body.thinking, newer.body.output_config], [undefined, { effort: 'high' }])
  }
  t.match(thinking('high', 9000, { tools, tool_choice: 'auto' }).body.thinking, { budget_tokens: 5400 })
  t.match(thinking('minimal', 9000, {}, {}).body.output_config, { effort: 'low' }, 'the least word that there is')

  const level = (budget_tokens: number, traits: Json = {}): Json =>
    sent('M→G', { ...asking['M'], max_tokens: 10_000, thinking: { type: 'enabled', budget_tokens } }, traits).body
      .generationConfig.thinkingConfig
  t.same(
    [1499, 1500, 4499, 4500].map((tokens) => level(tokens).thinkingLevel),
    ['LOW', 'MEDIUM', 'MEDIUM', 'HIGH']
  )
  t.same(level(1499, older), { thinkingBudget: 1499, includeThoughts: true })
  const gemini = (thinkingConfig: Json, traits: Json = {}): Json =>
    sent('G→M', { ...asking['G'], generationConfig: { thinkingConfig, maxOutputTokens: 10_000 } }, traits).body
  t.same(gemini({ thinkingBudget: 0 }).thinking, { type: 'disabled' })
  t.same(gemini({ thinkingBudget: -1 }).thinking, undefined, 'the model is to decide')
  t.same(gemini({ thinkingBudget: -1 }).output_config, undefined)
  t.same(gemini({ thinkingBudget: -1 }, older).thinking, undefined)
  t.match(gemini({ thinkingBudget: 1499 }).output_config, { effort: 'low' })
  t.match(gemini({ thinkingBudget: 500 }, older).thinking, { budget_tokens: 1024 })
  t.match(gemini({ thinkingBudget: 50_000 }, older).thinking, { budget_tokens: 9999 })
  for (const pair of ['C→M', 'C→G'])
    t.match(refusal(pair, { ...asking['C'], reasoning_effort: 'a lot' }), { param: 'reasoning_effort' }, pair)
  t.end()
})

t.test('what is the usual anyway is not told, and no loss', (t) => {
  const sampled = (more: Json): Json => {
    const { body, dropped } = sent('C→G', { ...asking['C'], ...more })
    return [body.generationConfig ?? {}, dropped]
  }
  t.same(sampled({ presence_penalty: 0, frequency_penalty: 0, n: 1 }), [{}, []])
  t.same(sampled({ presence_penalty: 0.5, frequency_penalty: -1, n: 3, temperature: 0, seed: 0 }), [
    { temperature: 0, presencePenalty: 0.5, frequencyPenalty: -1, seed: 0, candidateCount: 3 },
    []
  ])
  t.same(sampled({ logprobs: true }), [{ responseLogprobs: true }, []])
  t.same(sampled({ logprobs: true, top_logprobs: 1 }), [{ responseLogprobs: true, logprobs: 1 }, []])
  const five = ['1', '2', '3', '4', '5']
  t.same(sampled({ stop: five }), [{ stopSequences: five }, []])
  t.match(refusal('M→G', { ...asking['M'], stop_sequences: [...five, '6'] }), { param: 'stop_sequences' })
  const tier = (service_tier: string): Json => sent('C→M', { ...asking['C'], service_tier })
  t.same([tier('default').body.service_tier, tier('default').dropped], ['standard_only', []])
  t.same([tier('auto').body.service_tier, tier('auto').dropped], [undefined, []])
  t.same([tier('flex').body.service_tier, tier('flex').dropped], [undefined, ['service_tier']])
  t.equal(sent('C→M', { ...asking['C'], user: 'u', safety_identifier: 's' }).body.metadata.user_id, 'u')
  t.equal(sent('C→M', { ...asking['C'], safety_identifier: 's' }).body.metadata.user_id, 's')
  t.end()
})

t.test('citations that a document asks for are named where nobody can give them', (t) => {
  const asked = (citations?: Json): boolean => {
    const source = { type: 'text', media_type: 'text/plain', data: 'x' }
    const content = [{ type: 'document', source, ...(citations && { citations }) }]
    const { dropped } = sent('M→C', { ...asking['M'], messages: [{ role: 'user', content }] })
    return dropped.includes('messages.content.citations')
  }
  t.equal(asked({ enabled: true }), true)
  t.equal(asked(), false)
  t.end()
})

t.test('a schema keeps in Gemini what it allows', (t) => {
  const made = (schema: Json, more: Json = {}): Json => {
    const parameters = { type: 'object', properties: { a: schema }, ...more }
    const tools = [{ type: 'function', function: { name: 'f', parameters } }]
    const { body, dropped } = sent('C→G', { ...asking['C'], tools })
    const [{ functionDeclarations }] = body.tools
    return { ...functionDeclarations[0].parameters?.properties.a, ...(dropped.length > 0 && { dropped }) }
  }
  const single = ['STRING', 'NUMBER', 'BOOLEAN', 'OBJECT'].map((type) => ({ type }))
  const any = { anyOf: [...single, { type: 'ARRAY', items: { anyOf: single } }] }
  const text = { type: 'string' }
  const cases: readonly [Json, Json][] = [
    [{}, any],
    [{ type: 'array' }, { type: 'ARRAY', items: any }],
    [{ minItems: 1 }, { type: 'ARRAY', minItems: 1, items: any }],
    [{ maxProperties: 1 }, { type: 'OBJECT', maxProperties: 1 }],
    [{ maxLength: 1 }, { type: 'STRING', maxLength: 1 }],
    [{ type: 'null' }, { type: 'STRING', nullable: true }],
    [
      { type: 'string', nullable: true },
      { type: 'STRING', nullable: true }
    ],
    [
      { type: 'integer', exclusiveMinimum: 2.5, exclusiveMaximum: 9.5 },
      { type: 'INTEGER', minimum: 3, maximum: 9 }
    ],
    [
      { type: 'integer', exclusiveMaximum: 9 },
      { type: 'INTEGER', maximum: 8 }
    ],
    [
      { type: 'number', exclusiveMinimum: 2 },
      { type: 'NUMBER', dropped: ['tools.exclusiveMinimum'] }
    ],
    [
      { type: 'string', format: 'date-time' },
      { type: 'STRING', format: 'date-time' }
    ],
    [
      { type: 'string', format: 'email' },
      { type: 'STRING', dropped: ['tools.format'] }
    ],
    [{ enum: ['a', 'b', null] }, { type: 'STRING', enum: ['a', 'b'] }],
    [
      { enum: ['a', ''], description: 'D' },
      { type: 'STRING', description: 'D One of ["a",""].' }
    ],
    [{ enum: [1, 2] }, { type: 'NUMBER', description: 'One of [1,2].' }],
    [{ const: true }, { type: 'BOOLEAN', description: 'One of [true].' }],
    [
      { type: 'integer', enum: [1, 2] },
      { type: 'INTEGER', description: 'One of [1,2].' }
    ],
    [
      { anyOf: [text, { type: 'null' }], description: 'D' },
      { type: 'STRING', nullable: true, description: 'D' }
    ],
    [{ oneOf: [text, { type: 'integer' }] }, { anyOf: [{ type: 'STRING' }, { type: 'INTEGER' }] }],
    [
      { type: ['string', 'array'], items: text, maxLength: 5, title: 'T' },
      {
        title: 'T',
        anyOf: [
          { type: 'STRING', maxLength: 5 },
          { type: 'ARRAY', items: { type: 'STRING' } }
        ]
      }
    ],
    [
      { type: ['object', 'number'], properties: { b: text } },
      { anyOf: [{ type: 'OBJECT', properties: { b: { type: 'STRING' } } }, { type: 'NUMBER' }] }
    ],
    [
      { type: 'string', anyOf: [text, { minLength: 1 }] },
      { anyOf: [{ type: 'STRING' }, { type: 'STRING', minLength: 1 }] }
    ],
    [
      { type: 'object', additionalProperties: text },
      {
        type: 'OBJECT',
        description: 'It has members of any name, each of this schema: {"type":"string"}.',
        dropped: ['tools.additionalProperties']
      }
    ],
    [
      { type: 'array', prefixItems: [text, { type: 'integer' }], items: false },
      {
        type: 'ARRAY',
        description: 'Its items are, in this order: [{"type":"string"},{"type":"integer"}].',
        items: { anyOf: [{ type: 'STRING' }, { type: 'INTEGER' }] },
        maxItems: 2
      }
    ],
    [
      { type: 'array', items: [text, text], additionalItems: text },
      {
        type: 'ARRAY',
        description: 'Its items are, in this order: [{"type":"string"},{"type":"string"}].',
        items: { type: 'STRING' }
      }
    ],
    [
      { type: 'array', items: [text, text], description: { toString: 0 } },
      {
        type: 'ARRAY',
        description: 'Its items are, in this order: [{"type":"string"},{"type":"string"}].',
        items: { type: 'STRING' }
      }
    ],
    [
      { type: 'object', additionalProperties: text, description: { toString: 0 } },
      {
        type: 'OBJECT',
        description: 'It has members of any name, each of this schema: {"type":"string"}.',
        dropped: ['tools.additionalProperties']
      }
    ],
    [
      {
        allOf: [
          { type: 'object', properties: { b: text }, required: ['b'] },
          { properties: { c: text }, required: ['c', 'b'] }
        ]
      },
      { type: 'OBJECT', properties: { b: { type: 'STRING' }, c: { type: 'STRING' } }, required: ['b', 'c'] }
    ]
  ]
  for (const [schema, wanted] of cases) t.same(made(schema), wanted, JSON.stringify(schema))
  t.same(
    made({ $ref: '#/$defs/a~1b', description: 'beside' }, { $defs: { 'a/b': { ...text, description: 'there' } } }),
    { type: 'STRING', description: 'beside' },
    'what stands beside a reference holds'
  )
  t.same(made({ $ref: '#/$defs/a' }, { $defs: { a: { $ref: '#/$defs/a' } } }), {
    type: 'OBJECT',
    dropped: ['tools.$ref']
  })
  const nested = (depth: number): Json => (depth === 0 ? text : { type: 'array', items: nested(depth - 1) })
  t.notOk(made(nested(31)).dropped, 'as deep as that')
  t.same(made(nested(32)).dropped, ['tools.$ref'])
  const none = sent('C→G', { ...asking['C'], tools: [{ type: 'function', function: { name: 'f', parameters: {} } }] })
  t.same(none.body.tools, [{ functionDeclarations: [{ name: 'f' }] }], 'an object without properties is none')
  t.end()
})

t.test('a stream may say much at once, and call with much, up to a bound', (t) => {
  const choice = (delta: Json, finish_reason: string | null = null): Json => ({
    id: 'x',
    choices: [{ index: 0, delta, finish_reason }]
  })
  const said = (length: number): unknown => {
    try {
      return streamed('C⇒M', [choice({ content: 'a'.repeat(length) }), choice({}, 'stop'), '[DONE]']).events.length > 0
    } catch (error) {
      return (error as Error).message
    }
  }
  t.equal(said(3 * 1024 * 1024), true)
  t.match(said(3 * 1024 * 1024 + 1), /more in one event/)
  const call = (...pieces: string[]): unknown => {
    const begun = choice({ tool_calls: [{ index: 0, id: 'a', function: { name: 'f', arguments: '' } }] })
    const more = pieces.map((piece) => choice({ tool_calls: [{ index: 0, function: { arguments: piece } }] }))
    try {
      return streamed('C⇒M', [begun, ...more, choice({}, 'tool_calls'), '[DONE]']).events.length > 0
    } catch (error) {
      return (error as Error).message
    }
  }
  const text = (length: number): string => `{"a":"${'x'.repeat(length - 8)}"}`
  t.equal(call(text(2 * 1024 * 1024)), true)
  t.match(call(text(2 * 1024 * 1024 + 1)), /too involved/)
  const numbers = (count: number): string =>
    `{"a":[${Array(count - 1)
      .fill('1')
      .join(',')}]}`
  t.equal(call(numbers(50_000)), true, 'an object, a list and what follows 49,998 commas')
  t.match(call(numbers(50_001)), /too involved/)
  t.equal(call('{"a":[', ...Array(4).fill('1,'.repeat(15_000)), '1]}'), true, 'the first of it is free')
  t.end()
})

t.test('the same id is one call alone, and as long as the upstream takes it', (t) => {
  const called = (...ids: string[]): Json => ({
    role: 'assistant',
    content: null,
    tool_calls: ids.map((id) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } }))
  })
  const results = (...ids: string[]): Json[] =>
    ids.map((id) => ({ role: 'tool', tool_call_id: id, content: `of ${id}` }))
  const made = (...messages: Json[]): Json => {
    const { body } = sent('C→M', { model: 'm', messages: [{ role: 'user', content: 'Hi' }, ...messages] })
    return body.messages.flatMap(({ content }: Json) =>
      content.flatMap((block: Json) => (block.type === 'text' ? [] : [block.id ?? block.tool_use_id]))
    )
  }
  t.same(made(called('a', 'a', 'a'), ...results('a', 'a', 'a')), ['a', 'a_2', 'a_3', 'a', 'a_2', 'a_3'])
  t.same(made(called('a'), ...results('a'), called('a'), ...results('a')), ['a', 'a', 'a_2', 'a_2'])
  t.same(made(called('a', 'a_2', 'a'), ...results('a', 'a_2', 'a')), ['a', 'a_2', 'a_3', 'a', 'a_2', 'a_3'])
  t.same(made(called('a', 'a', 'a_2'), ...results('a', 'a', 'a_2')), ['a', 'a_2', 'a_2_2', 'a', 'a_2', 'a_2_2'])
  t.same(made(called(''), ...results('')), ['call', 'call'])
  t.same(made(called('a.b'), ...results('a.b')), ['a_b', 'a_b'])
  t.end()
})
