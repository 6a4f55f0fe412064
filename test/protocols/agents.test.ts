// What coding agents ask, and how it reaches channels that have no word for it.
import t from 'tap'
import { answered, refusal, sent, streamed } from '../kit/pairs.ts'

type Json = any

const user = { role: 'user', content: 'Hi' }
const schemaOf = (properties: Json): Json => {
  const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object', properties } } }
  const { body, dropped } = sent('C→G', { model: 'm', messages: [user], tools: [tool] })
  return { properties: body.tools[0].functionDeclarations[0].parameters.properties, dropped }
}

const single = ['STRING', 'NUMBER', 'BOOLEAN', 'OBJECT'].map((type) => ({ type }))
const anything = { anyOf: [...single, { type: 'ARRAY', items: { anyOf: single } }] }

t.test('values of any kind, tuples and maps are for Gemini what they are, and no strings', async (t) => {
  const { properties, dropped } = schemaOf({
    free: {},
    described: { description: 'Whatever it takes' },
    anyhow: true,
    list: { type: 'array' },
    tuple: { type: 'array', prefixItems: [{ type: 'string' }, { type: 'number' }, { type: 'string' }], items: false },
    old: { items: [{ type: 'integer' }, { type: 'integer' }] },
    map: { additionalProperties: { type: 'number' }, description: 'Sizes' },
    union: { type: ['string', 'object', 'null'], additionalProperties: { type: 'string' } },
    bounded: { minLength: 2 },
    nothing: { type: 'null' }
  })
  t.same(properties.free, anything)
  t.same(properties.described, { description: 'Whatever it takes', ...anything })
  t.same(properties.anyhow, anything)
  t.same(properties.list, { type: 'ARRAY', items: anything })
  t.match(properties.tuple, { type: 'ARRAY', maxItems: 3, items: { anyOf: [{ type: 'STRING' }, { type: 'NUMBER' }] } })
  t.equal(properties.tuple.items.anyOf.length, 2)
  t.match(properties.tuple.description, 'in this order: [{"type":"string"},{"type":"number"},{"type":"string"}]')
  t.match(properties.old, { type: 'ARRAY', items: { type: 'INTEGER' } })
  t.match(properties.map, { type: 'OBJECT', description: /^Sizes It has members of any name.*"number"/ })
  t.match(properties.union, {
    nullable: true,
    anyOf: [{ type: 'STRING' }, { type: 'OBJECT', description: /any name/ }]
  })
  t.match(properties.bounded, { type: 'STRING', minLength: 2 })
  t.match(properties.nothing, { type: 'STRING', nullable: true })
  t.same(dropped, ['tools.additionalProperties'])
})

t.test('an empty text among the values of an enumeration is told in words, as Gemini refuses it', async (t) => {
  const { properties } = schemaOf({
    mode: { enum: ['', 'fast'], type: 'string', description: 'How.' },
    other: { type: 'string', enum: ['slow', 'fast'] }
  })
  t.same(properties.mode, { type: 'STRING', description: 'How. One of ["","fast"].' })
  t.same(properties.other, { type: 'STRING', enum: ['slow', 'fast'] })
})

t.test('base64 in the letters for addresses becomes what every vendor takes', async (t) => {
  const safe = '-_-_-_8'
  const standard = '+/+/+/8='
  const url = `data:image/png;base64,${safe}`
  const chat = { model: 'm', messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }] }
  const gemini = { contents: [{ role: 'user', parts: [{ inlineData: { mimeType: 'image/png', data: safe } }] }] }
  t.equal(sent('C→M', chat).body.messages[0].content[0].source.data, standard)
  t.equal(sent('C→G', chat).body.contents[0].parts[0].inlineData.data, standard)
  t.equal(sent('G→M', gemini).body.messages[0].content[0].source.data, standard)
  t.equal(sent('G→C', gemini).body.messages[0].content[0].image_url.url, `data:image/png;base64,${standard}`)
  t.equal(sent('G→R', gemini).body.input[0].content[0].image_url, `data:image/png;base64,${standard}`)
  const picture = { candidates: [{ content: { parts: [gemini.contents[0]!.parts[0]] }, finishReason: 'STOP' }] }
  t.match(answered('G⇒C', picture).body.choices[0].message.images[0].image_url.url, standard)
  t.match(JSON.stringify(streamed('G⇒R', [picture]).events), standard)
})

const grammar = { syntax: 'lark', definition: 'start: "a"+' }
const responses = (more: object): Json => ({ model: 'm', input: 'Hi', ...more })

t.test('a grammar that a channel does not know is told in the description, and named', async (t) => {
  const tools = [
    { type: 'custom', name: 'apply_patch', description: 'Edits files.', format: { type: 'grammar', ...grammar } }
  ]
  const chat = {
    model: 'm',
    messages: [user],
    tools: [{ type: 'custom', custom: { name: 'apply_patch', format: { type: 'grammar', grammar } } }]
  }
  const described: Record<string, (body: Json) => Json> = {
    C: (body) => body.tools[0].function,
    M: (body) => body.tools[0],
    G: (body) => body.tools[0].functionDeclarations[0]
  }
  for (const [upstream, tool] of Object.entries(described)) {
    const { body, dropped, plan } = sent(`R→${upstream}`, responses({ tools }))
    t.match(tool(body), { name: 'apply_patch', description: /^Edits files\.\n\n.*\(lark\):\nstart: "a"\+$/s }, upstream)
    t.same(dropped, ['tools.format'], upstream)
    if (upstream !== 'C') t.match(tool(sent(`C→${upstream}`, chat).body).description, 'start: "a"+')
    t.match(refusal(`R→${upstream}`, responses({ tools }), { grammars: 'refuse' }), { param: 'tools[0].format' })
    const call = {
      choices: [
        {
          index: 0,
          message: {
            tool_calls: [{ id: 'a', type: 'function', function: { name: 'apply_patch', arguments: '{"input":"aa"}' } }]
          },
          finish_reason: 'tool_calls'
        }
      ]
    }
    if (upstream === 'C') t.match(answered('C⇒R', call, plan).body.output[0], { type: 'custom_tool_call', input: 'aa' })
  }
  const { body, dropped } = sent('C→R', chat)
  t.match(body.tools[0], { type: 'custom', format: { syntax: 'lark' } })
  t.same(dropped, [])
})

t.test('thoughts stand on the call that they led to, for clients that give back nothing else of them', async (t) => {
  const thinking = { type: 'thinking', thinking: 'Hm', signature: 'sig' }
  const use = (id: string): Json => ({ type: 'tool_use', id, name: 'f', input: {} })
  const whole: Json = {
    type: 'message',
    content: [thinking, { type: 'text', text: 'Let me see.' }, use('a'), use('b')],
    stop_reason: 'tool_use',
    usage: { input_tokens: 1, output_tokens: 1 }
  }
  const streamedParts = streamed('M⇒G', [
    { type: 'message_start', message: { id: 'm', usage: { input_tokens: 1, output_tokens: 1 } } },
    ...whole.content.flatMap((block: Json, index: number) => {
      const { thinking: thought, signature, text, ...rest } = block
      const delta = (more: object): Json => ({ type: 'content_block_delta', index, delta: more })
      return [
        {
          type: 'content_block_start',
          index,
          content_block: { ...rest, ...(thought && { thinking: '' }), ...(text && { text: '' }) }
        },
        ...(thought
          ? [delta({ type: 'thinking_delta', thinking: thought }), delta({ type: 'signature_delta', signature })]
          : []),
        ...(text ? [delta({ type: 'text_delta', text })] : []),
        { type: 'content_block_stop', index }
      ]
    }),
    { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 1 } },
    { type: 'message_stop' }
  ]).events.flatMap(({ candidates }) => candidates[0].content.parts)
  const results = ['a', 'b'].map((id) => ({ functionResponse: { id, name: 'f', response: { output: '1' } } }))
  for (const parts of [answered('M⇒G', whole).body.candidates[0].content.parts, streamedParts]) {
    const calls = parts.filter((part: Json) => part.functionCall)
    t.ok(calls[0].thoughtSignature, 'on the first')
    t.notOk(calls[1].thoughtSignature, 'and on no other')
    const without = parts.filter((part: Json) => !part.thought)
    const unsigned = parts.map((part: Json) => (part.thought ? { text: part.text, thought: true } : part))
    for (const given of [parts, without, unsigned]) {
      const contents = [
        { role: 'user', parts: [{ text: 'Hi' }] },
        { role: 'model', parts: given },
        { role: 'user', parts: results }
      ]
      const { body, dropped } = sent('G→M', { contents })
      t.same(body.messages[1].content, whole.content, 'the thought is where it was, once')
      t.same(dropped, [])
      const other = sent('G→C', { contents })
      t.notMatch(JSON.stringify(other.body), 'sig', 'nobody else sees it')
    }
  }
  const forged = Buffer.from('sluice1.thoughts.[{"text":1},{"text":"a","proof":{"family":"x"}},null').toString('base64')
  const call = { functionCall: { id: 'a', name: 'f', args: {} }, thoughtSignature: forged }
  const contents = [
    { role: 'user', parts: [{ text: 'Hi' }] },
    { role: 'model', parts: [call] },
    { role: 'user', parts: [results[0]] }
  ]
  t.same(sent('G→M', { contents }).body.messages[1].content, [use('a')])
})

t.test(
  'a conversation that ends with the beginning of the answer is gone on with where that can be, else told to be',
  async (t) => {
    const asked: Record<string, Json> = {
      C: { model: 'm', messages: [user, { role: 'assistant', content: '{"a"' }] },
      R: { model: 'm', input: [user, { role: 'assistant', content: '{"a"' }] },
      M: { model: 'm', max_tokens: 9, messages: [user, { role: 'assistant', content: '{"a"' }] },
      G: {
        contents: [
          { role: 'user', parts: [{ text: 'Hi' }] },
          { role: 'model', parts: [{ text: '{"a"' }] }
        ]
      }
    }
    const turns: Record<string, (body: Json) => Json[]> = {
      C: ({ messages }) => messages,
      R: ({ input }) => input,
      M: ({ messages }) => messages,
      G: ({ contents }) => contents
    }
    for (const client of 'CRMG')
      for (const upstream of 'CRMG') {
        if (client === upstream) continue
        const pair = `${client}→${upstream}`
        const told = turns[upstream]!(sent(pair, asked[client]).body)
        t.equal(told.length, 3, pair)
        t.match(told[2].role, 'user', pair)
        t.match(JSON.stringify(told[2]), 'Go on with your last message', pair)
        const gone = turns[upstream]!(sent(pair, asked[client], { prefill: true }).body)
        t.equal(gone.length, 2, pair)
        t.match(JSON.stringify(gone[1]), '{\\"a\\"', pair)
      }
    const nothing = { model: 'm', messages: [user, { role: 'assistant', content: ' ' }] }
    for (const upstream of 'RMG') t.equal(turns[upstream]!(sent(`C→${upstream}`, nothing).body).length, 1, upstream)
    const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }
    const open = { model: 'm', messages: [user, { role: 'assistant', content: null, tool_calls: [call] }] }
    for (const upstream of 'RMG')
      t.match(refusal(`C→${upstream}`, open), { code: 'invalid_field' }, 'nor is a call answered')
  }
)

t.test('a schema that is asked for with a tool leaves the choice of tools as it is', async (t) => {
  const fn = { type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }
  const schema = { type: 'object', properties: { a: { type: 'string' } } }
  const format = { type: 'json_schema', json_schema: { name: 'x', schema } }
  const ask = (tool_choice?: Json, tools: Json[] = [fn]): Json =>
    sent('C→M', { model: 'm', messages: [user], tools, tool_choice, response_format: format }, { jsonSchema: 'tool' })
      .body
  const names = (body: Json): string[] => body.tools.map(({ name }: Json) => name)
  for (const choice of [undefined, 'auto'])
    t.match([names(ask(choice)), ask(choice).tool_choice], [['f', '__json'], { type: 'any' }])
  t.match([names(ask('none')), ask('none').tool_choice], [['f', '__json'], { type: 'tool', name: '__json' }])
  t.match([names(ask('required')), ask('required').tool_choice], [['f'], { type: 'any' }], 'a call is demanded')
  const named = ask({ type: 'function', function: { name: 'f' } })
  t.match([names(named), named.tool_choice, named.output_config], [['f'], { type: 'tool', name: 'f' }, undefined])
  const some = {
    type: 'allowed_tools',
    allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'f' } }] }
  }
  t.same(names(ask(some, [fn, { type: 'function', function: { name: 'g' } }])), ['f', '__json'])
})

t.test('objects with members of any name are not closed for Anthropic: named or refused', async (t) => {
  const maps = {
    a: { type: 'object', additionalProperties: { type: 'number' } },
    b: { type: 'object', patternProperties: { '^x': { type: 'number' } } },
    c: { type: 'object' },
    d: { type: 'array', items: { type: ['object', 'null'], additionalProperties: true } },
    e: { anyOf: [{ type: 'string' }, { additionalProperties: { type: 'string' } }] }
  }
  for (const [name, map] of Object.entries(maps)) {
    const schema = { type: 'object', properties: { map }, required: ['map'], additionalProperties: false }
    const tools = [{ type: 'function', function: { name: 'f', parameters: schema, strict: true } }]
    const { body, dropped } = sent('C→M', { model: 'm', messages: [user], tools })
    t.same(body.tools[0], { name: 'f', input_schema: schema }, name)
    t.same(dropped, ['tools.function.strict'], name)
    const format = { type: 'json_schema', json_schema: { name: 'x', schema } }
    const asked = { model: 'm', messages: [user], response_format: format }
    t.match(refusal('C→M', asked), { code: 'unsupported_parameter', message: /members of any name/ }, name)
    t.same(sent('C→M', asked, { jsonSchema: 'tool' }).body.tools[0].input_schema, schema, 'a tool can say it')
  }
  const closed = { type: 'object', properties: { none: { type: 'object', additionalProperties: false } } }
  const format = { type: 'json_schema', json_schema: { name: 'x', schema: closed } }
  t.match(sent('C→M', { model: 'm', messages: [user], response_format: format }).body.output_config.format, {
    schema: { additionalProperties: false }
  })
})

t.test('marks for the cache, and how much to think, reach Anthropic from chat clients in its words', async (t) => {
  const mark = { cache_control: { type: 'ephemeral' } }
  const hour = { cache_control: { type: 'ephemeral', ttl: '1h' } }
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }
  const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }
  const chat = {
    model: 'm',
    messages: [
      { role: 'system', content: [{ type: 'text', text: 'Be brief.', ...hour }] },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Hi', ...mark },
          { ...image, ...mark }
        ]
      },
      { role: 'assistant', content: 'Look', tool_calls: [call], ...mark },
      { role: 'tool', tool_call_id: 'a', content: '1', ...mark },
      { role: 'user', content: 'Go on', ...mark }
    ],
    tools: [
      { type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } }, ...mark },
      { type: 'function', function: { name: 'g', ...mark } }
    ],
    thinking: { type: 'enabled', budget_tokens: 2000 },
    max_tokens: 9000,
    ...mark
  }
  const { body } = sent('C→M', chat, { thinking: 'budget' })
  t.match(body, {
    ...mark,
    system: [{ text: 'Be brief.', ...hour }],
    messages: [
      {
        content: [
          { text: 'Hi', ...mark },
          { type: 'image', ...mark }
        ]
      },
      { content: [{ text: 'Look' }, { type: 'tool_use', ...mark }] },
      {
        content: [
          { type: 'tool_result', ...mark },
          { text: 'Go on', ...mark }
        ]
      }
    ],
    tools: [mark, mark]
  })
  const { body: thinking } = sent('C→M', { ...chat, messages: [user], tools: undefined }, { thinking: 'budget' })
  t.match(thinking.thinking, { type: 'enabled', budget_tokens: 2000 })
  t.same(sent('C→M', { model: 'm', messages: [user], thinking: { type: 'disabled' } }).body.thinking, {
    type: 'disabled'
  })
  for (const upstream of 'RG')
    t.match(sent(`C→${upstream}`, chat).dropped.join(), 'messages.content.cache_control', upstream)
  t.match(sent('M→C', { model: 'm', max_tokens: 9, messages: [user], ...mark }).dropped, ['cache_control'])
})
