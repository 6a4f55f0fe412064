// Nothing of a request is lost in silence, and nothing is called lost that is not: members at any depth, defaults,
// numbers, schemas.
import t from 'tap'
import { parseJson } from '../../core/protocols/translation/translation.ts'
import { asking, refusal, sent } from '../kit/pairs.ts'

type Json = any

const user = (content: Json): Json => ({ role: 'user', content })
const others = (client: string): string[] => [...'CRMG'].filter((upstream) => upstream !== client)

/** Of each protocol a request with a member that nobody knows in every object that a client writes. */
const strange: Readonly<Record<string, Json>> = {
  C: {
    ...asking['C'],
    x0: 1,
    response_format: { type: 'json_object', x1: 1 },
    stream_options: { include_usage: true },
    tools: [{ type: 'function', function: { name: 'f', parameters: {}, x2: 1 }, x3: 1 }],
    messages: [
      { role: 'system', content: [{ type: 'text', text: 'Be brief.', x4: 1 }] },
      {
        ...user([
          { type: 'text', text: 'Hi', x5: { deep: true } },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', x6: 1 } }
        ]),
        x7: 1
      },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'a', type: 'function', index: 0, function: { name: 'f', arguments: '{}', x8: 1 }, x9: 1 }]
      },
      { role: 'tool', tool_call_id: 'a', content: '1', x10: 1 },
      user('b')
    ]
  },
  R: {
    model: 'm',
    x0: 1,
    text: { verbosity: 'low', x1: 1 },
    reasoning: { effort: 'low', x2: 1 },
    tools: [{ type: 'function', name: 'f', parameters: {}, x3: 1 }],
    input: [
      { ...user([{ type: 'input_text', text: 'Hi', x4: 1 }]), x5: 1 },
      { type: 'function_call', id: 'fc', status: 'completed', call_id: 'a', name: 'f', arguments: '{}', x6: 1 },
      {
        type: 'function_call_output',
        id: 'fco',
        status: 'completed',
        call_id: 'a',
        output: [{ type: 'input_text', text: '1', x7: 1 }],
        x8: 1
      },
      user('b')
    ]
  },
  M: {
    model: 'm',
    max_tokens: 9000,
    x0: 1,
    metadata: { user_id: 'u', x1: 1 },
    thinking: { type: 'enabled', budget_tokens: 1024, x2: 1 },
    output_config: { effort: 'low', x3: 1 },
    tool_choice: { type: 'any', x4: 1 },
    tools: [{ name: 'f', input_schema: { type: 'object' }, x5: 1 }],
    system: [{ type: 'text', text: 'Be brief.', x6: 1 }],
    messages: [
      {
        ...user([
          { type: 'text', text: 'Hi', x7: 1 },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA', x8: 1 } }
        ]),
        x9: 1
      },
      {
        role: 'assistant',
        content: [{ type: 'tool_use', id: 'a', name: 'f', input: {}, caller: { type: 'direct' }, x10: 1 }]
      },
      user([{ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text: '1', x11: 1 }], x12: 1 }])
    ]
  },
  G: {
    x0: 1,
    systemInstruction: { role: 'user', parts: [{ text: 'Be brief.', x1: 1 }], x2: 1 },
    generationConfig: { x3: 1, thinkingConfig: { includeThoughts: true, x4: 1 } },
    toolConfig: { retrievalConfig: { languageCode: 'de' }, functionCallingConfig: { mode: 'AUTO', x5: 1 } },
    tools: [{ functionDeclarations: [{ name: 'f', x6: 1 }] }],
    contents: [
      {
        role: 'user',
        parts: [{ text: 'Hi', x7: 1 }, { inline_data: { mime_type: 'image/png', data: 'AAAA', x8: 1 } }],
        x9: 1
      },
      { role: 'model', parts: [{ functionCall: { id: 'a', name: 'f', args: {}, x10: 1 }, x11: 1 }] },
      { role: 'user', parts: [{ functionResponse: { id: 'a', name: 'f', response: {}, x12: 1 } }] }
    ]
  }
}

t.test('a member that nobody knows is named, wherever it stands', async (t) => {
  for (const [client, body] of Object.entries(strange)) {
    const names = [...JSON.stringify(body).matchAll(/"(x\d+)":/g)].map(([, name]) => name!)
    for (const upstream of others(client)) {
      const { dropped } = sent(`${client}→${upstream}`, body)
      t.same(
        names.filter((name) => !dropped.some((place) => place === name || place.endsWith(`.${name}`))),
        [],
        `${client}→${upstream}`
      )
    }
  }
  t.match(sent('C→M', strange['C']).dropped, /messages\.content\.x5/, 'by its place')
  t.ok(sent('G→C', strange['G']).dropped.includes('toolConfig.retrievalConfig'))
})

t.test('what means nothing to anybody else, and what everybody has who says nothing, is not called lost', async (t) => {
  const defaults: Readonly<Record<string, Json>> = {
    C: {
      ...asking['C'],
      store: false,
      n: 1,
      logprobs: false,
      presence_penalty: 0,
      stop: null,
      tools: [],
      parallel_tool_calls: true,
      modalities: ['text'],
      service_tier: 'auto',
      metadata: {},
      messages: [user([{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', detail: 'auto' } }])]
    },
    R: {
      model: 'm',
      input: [
        { role: 'user', content: 'Hi' },
        {
          id: 'msg',
          type: 'message',
          status: 'completed',
          role: 'assistant',
          content: [{ type: 'output_text', text: 'a', annotations: [], logprobs: [] }]
        },
        { role: 'user', content: 'b' }
      ],
      truncation: 'disabled',
      store: false,
      background: false,
      top_logprobs: 0,
      tools: [],
      metadata: {},
      reasoning: { effort: null },
      text: { format: { type: 'text' } }
    },
    M: {
      ...asking['M'],
      system: 'S',
      stop_sequences: [],
      tools: [],
      service_tier: 'auto',
      messages: [user('Hi'), { role: 'assistant', content: [{ type: 'text', text: 'a', citations: [] }] }, user('b')]
    },
    G: {
      ...asking['G'],
      safetySettings: [],
      tools: [],
      generationConfig: { candidateCount: 1, responseModalities: ['TEXT'], stopSequences: [] }
    }
  }
  for (const [client, body] of Object.entries(defaults))
    for (const upstream of others(client))
      t.same(sent(`${client}→${upstream}`, body).dropped, [], `${client}→${upstream}`)
  t.same(
    sent('M→C', { ...asking['M'], thinking: { type: 'disabled' }, output_config: { effort: 'high' } }).dropped,
    ['output_config.effort'],
    'unless it says what others have no words for'
  )
  t.same(sent('R→C', { model: 'm', input: 'Hi', top_logprobs: 2, truncation: 'auto' }).dropped, [
    'top_logprobs',
    'truncation'
  ])
})

t.test('numbers are numbers with all the digits that a client may write', async (t) => {
  const body = parseJson(
    '{"model":"m","messages":[{"role":"user","content":"Hi"}],"temperature":0.69999998807907104,"seed":9007199254740993}'
  )
  t.match(sent('C→G', body).body.generationConfig, {
    temperature: 0.69999998807907104,
    seed: Number('9007199254740993')
  })
  t.match(
    refusal(
      'C→M',
      parseJson('{"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":10000000000000000000}')
    ),
    { code: 'invalid_field', param: 'max_tokens' }
  )
})

t.test('a schema is as strict for OpenAI as it can be, and no stricter', async (t) => {
  const part = { type: 'OBJECT', properties: { b: { type: 'STRING' } }, required: ['b'] }
  const asked = (responseSchema: Json): Json => ({
    ...asking['G'],
    generationConfig: { responseMimeType: 'application/json', responseSchema }
  })
  const whole = sent(
    'G→C',
    asked({ type: 'OBJECT', properties: { a: { type: 'ARRAY', items: part } }, required: ['a'] })
  ).body.response_format.json_schema
  t.match(whole, {
    strict: true,
    schema: {
      additionalProperties: false,
      properties: { a: { items: { additionalProperties: false, required: ['b'] } } }
    }
  })
  const optional = { type: 'OBJECT', properties: { a: { type: 'STRING' }, b: { type: 'STRING' } }, required: ['a'] }
  t.match(
    sent('G→C', asked(optional)).body.response_format.json_schema,
    { strict: false, schema: { required: ['a'], additionalProperties: undefined } },
    'a member that may be missing cannot be demanded'
  )
  t.match(sent('G→R', asked(optional)).body.text.format, { strict: false })
  const schema = { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: false }
  const messages = (required: string[]): Json => ({
    ...asking['M'],
    output_config: { format: { type: 'json_schema', schema: { ...schema, required } } },
    tools: [{ name: 'f', strict: true, input_schema: { ...schema, required } }]
  })
  for (const [required, strict] of [
    [['a'], true],
    [[], false]
  ] as const) {
    const { body, dropped } = sent('M→C', messages([...required]))
    t.equal(body.response_format.json_schema.strict, strict)
    t.equal(body.tools[0].function.strict ?? false, strict)
    t.same(dropped, strict ? [] : ['tools.strict'])
  }
  const open = {
    type: 'object',
    properties: { a: { type: 'object', additionalProperties: { type: 'string' } } },
    required: ['a']
  }
  t.match(
    sent('M→C', { ...asking['M'], output_config: { format: { type: 'json_schema', schema: open } } }).body
      .response_format.json_schema,
    { strict: false, schema: open },
    'nor can what may have any members'
  )
  t.match(
    sent('R→C', { model: 'm', input: 'Hi', tools: [{ type: 'function', name: 'f', parameters: {} }] }).body.tools[0]
      .function,
    { strict: undefined },
    'an empty schema follows nothing'
  )
})

t.test('names of media that clients make up are those that providers know', async (t) => {
  const { body } = sent('C→M', {
    model: 'm',
    messages: [user([{ type: 'image_url', image_url: { url: 'data:image/jpg;base64,AAAA' } }])]
  })
  t.equal(body.messages[0].content[0].source.media_type, 'image/jpeg')
})

t.test('pictures in results of tools reach every upstream from a chat client too', async (t) => {
  const result = {
    role: 'tool',
    tool_call_id: 'a',
    content: [
      { type: 'text', text: 'See' },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }
    ]
  }
  const body = {
    model: 'm',
    messages: [
      user('Hi'),
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }]
      },
      result
    ]
  }
  t.match(sent('C→M', body).body.messages[2].content[0], {
    type: 'tool_result',
    content: [{ type: 'text', text: 'See' }, { type: 'image' }]
  })
  t.match(sent('C→R', body).body.input[2], {
    type: 'function_call_output',
    output: [{ type: 'input_text' }, { type: 'input_image' }]
  })
  t.match(sent('C→G', body).body.contents.slice(2), [
    { parts: [{ functionResponse: {} }] },
    { parts: [{ text: /f/ }, { inlineData: {} }] }
  ])
})

t.test('a tool in a group is chosen by its name, and a call is demanded only where there are tools', async (t) => {
  const body = {
    model: 'm',
    input: 'Hi',
    tools: [{ type: 'namespace', name: 'crm', tools: [{ type: 'function', name: 'find', parameters: {} }] }],
    tool_choice: { type: 'function', name: 'find' }
  }
  t.equal(sent('R→M', body).body.tool_choice.name, 'crm__find')
  for (const [pair, request, param] of [
    ['C→M', { ...asking['C'], tool_choice: 'required' }, 'tool_choice'],
    ['M→C', { ...asking['M'], tool_choice: { type: 'any' } }, 'tool_choice'],
    [
      'G→C',
      { ...asking['G'], toolConfig: { functionCallingConfig: { mode: 'ANY' } } },
      'toolConfig.functionCallingConfig'
    ]
  ] as const)
    t.match(refusal(pair, request), { code: 'invalid_field', param })
  t.equal(refusal('C→M', { ...asking['C'], tool_choice: 'none' }), undefined)
})

t.test('a budget is the same word for every upstream: its share of the longest answer', async (t) => {
  const body = { ...asking['M'], max_tokens: 20_000, thinking: { type: 'enabled', budget_tokens: 4000 } }
  t.equal(sent('M→C', body, { maxOutputTokens: 100_000 }).body.reasoning_effort, 'medium')
  t.equal(sent('M→R', body, { maxOutputTokens: 100_000 }).body.reasoning.effort, 'medium')
  t.equal(sent('M→G', body, { maxOutputTokens: 100_000 }).body.generationConfig.thinkingConfig.thinkingLevel, 'MEDIUM')
})
