// What becomes of a client's request in another protocol: member by member, what is refused by its name, and what is
// named as dropped.
import t from 'tap'
import { parseJson } from '../../core/protocols/canonical/json.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import type { CodecName } from '../../core/protocols/translation/codecs.ts'
import { capabilityMatrix } from '../../core/protocols/translation/matrix.ts'
import { Asked, Untranslatable } from '../../core/protocols/translation/translation.ts'
import type { Traits } from '../../core/protocols/translation/translation.ts'
import { leastUsed } from '../kit/turns.ts'

type Json = any

const short: Readonly<Record<string, CodecName>> = {
  C: 'openai-chat',
  R: 'openai-responses',
  M: 'anthropic',
  G: 'gemini'
}

/** `C→M`: what an upstream is sent, and what was dropped. */
function sent(pair: string, body: Json, traits: Traits = {}): Json {
  const [client, upstream] = pair.split('→').map((name) => codecs[short[name]!])
  const { body: made, dropped } = new Asked(client!, body, { model: 'm', streaming: false }).for(upstream!, {
    model: 'up',
    traits
  })
  return { ...JSON.parse(JSON.stringify(made)), dropped }
}

function refused(pair: string, body: Json, traits: Traits = {}): Pick<Untranslatable, 'code' | 'param'> {
  try {
    sent(pair, body, traits)
  } catch (error) {
    if (error instanceof Untranslatable) return { code: error.code, param: error.param }
    throw error
  }
  throw new Error('it was not refused')
}

const chat = (more: Json, ...messages: Json[]): Json => ({
  model: 'm',
  messages: messages.length > 0 ? messages : [{ role: 'user', content: 'Hi' }],
  ...more
})
const messages = (more: Json, ...turns: Json[]): Json => ({
  model: 'm',
  max_tokens: 100,
  messages: turns.length > 0 ? turns : [{ role: 'user', content: 'Hi' }],
  ...more
})
const user = (content: Json): Json => ({ role: 'user', content })
const fn = (name: string, parameters?: Json): Json => ({ type: 'function', function: { name, parameters } })
const called = (...ids: string[]): Json => ({
  role: 'assistant',
  content: null,
  tool_calls: ids.map((id) => ({ id, type: 'function', function: { name: `f_${id}`, arguments: '{"a":"é\\n"}' } }))
})
const png = 'data:image/PNG;base64,iVBORw0KGgo='

t.test('who makes calls gets their results in the order and the place that the upstream wants', async (t) => {
  const conversation = [
    user('Hi'),
    called('a', 'b'),
    { role: 'tool', tool_call_id: 'b', content: '2' },
    { role: 'tool', tool_call_id: 'a', content: '[1]' },
    user('go on')
  ]
  const { contents } = sent('C→G', chat({}, ...conversation))
  t.match(contents.slice(2), [
    {
      role: 'user',
      parts: [
        { functionResponse: { id: 'a', name: 'f_a', response: { output: '[1]' } } },
        { functionResponse: { id: 'b', name: 'f_b', response: { output: '2' } } }
      ]
    },
    { role: 'user', parts: [{ text: 'go on' }] }
  ])
  t.match(contents[1].parts[0].functionCall.args, { a: 'é\n' })
  const { messages: turns } = sent('C→M', chat({}, ...conversation))
  t.same(
    turns.map(({ role }: Json) => role),
    ['user', 'assistant', 'user']
  )
  t.same(
    turns[2].content.map(({ type }: Json) => type),
    ['tool_result', 'tool_result', 'text']
  )
  t.equal(
    sent('C→R', chat({}, ...conversation)).input[1].arguments,
    '{"a":"é\\n"}',
    'arguments that are text stay as they are'
  )

  const mixed = messages(
    {},
    user('Hi'),
    {
      role: 'assistant',
      content: [
        { type: 'tool_use', id: 'a', name: 'f', input: {} },
        { type: 'tool_use', id: 'b', name: 'f', input: {} }
      ]
    },
    user([
      { type: 'text', text: 'note' },
      { type: 'tool_result', tool_use_id: 'a', content: 'A' },
      { type: 'text', text: 'and' },
      { type: 'tool_result', tool_use_id: 'b', content: 'B', is_error: true },
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } }
    ])
  )
  t.same(
    sent('M→C', mixed)
      .messages.slice(2)
      .map(({ role, content }: Json) => [
        role,
        typeof content === 'string' ? content : content.map(({ type, text }: Json) => text ?? type)
      ]),
    [
      ['tool', 'A'],
      ['tool', 'Error: B'],
      ['user', ['note', 'and', 'image_url']]
    ]
  )
})

t.test(
  'a conversation whose calls and results do not belong together is refused before any upstream is asked',
  async (t) => {
    for (const conversation of [
      [user('Hi'), { role: 'tool', tool_call_id: 'x', content: '1' }],
      [user('Hi'), called('a'), user('and?')],
      [user('Hi'), called('a'), user('wait'), { role: 'tool', tool_call_id: 'a', content: '1' }]
    ])
      t.same(refused('C→M', chat({}, ...conversation)), { code: 'invalid_field', param: 'messages' })
    t.same(refused('C→M', chat({}, user('Hi'), called('a', 'b'), { role: 'tool', content: '1' })), {
      code: 'missing_field',
      param: 'messages[2].tool_call_id'
    })
    t.match(
      sent('C→M', chat({}, user('Hi'), called('a'), { role: 'tool', content: '1' })).messages[2].content,
      [{ tool_use_id: 'a' }],
      'there is only one that it can be of'
    )
  }
)

t.test("no empty text, no repeated role and no beginning but the user's reaches Messages", async (t) => {
  const { system, messages: turns } = sent(
    'C→M',
    chat(
      {},
      { role: 'system', content: 'A' },
      user(' '),
      user('one'),
      user([
        { type: 'text', text: '' },
        { type: 'text', text: 'two' }
      ]),
      { role: 'system', content: 'B' },
      { role: 'assistant', content: '\u200b' },
      { role: 'developer', content: 'C' },
      user('three')
    )
  )
  t.same(system, [{ type: 'text', text: 'A' }])
  t.same(turns, [{ role: 'user', content: ['one', 'two', 'B', 'C', 'three'].map((text) => ({ type: 'text', text })) }])
  t.same(refused('C→M', chat({}, { role: 'system', content: 'A' })), { code: 'invalid_field', param: 'messages' })
  t.same(
    sent('C→M', chat({}, user('A '), { role: 'assistant', content: 'B \n' }), { prefill: true }).messages,
    [
      { role: 'user', content: [{ type: 'text', text: 'A ' }] },
      { role: 'assistant', content: [{ type: 'text', text: 'B' }] }
    ],
    'what is to be continued has no white space at its end, which the vendor refuses'
  )
  t.same(refused('C→G', chat({}, { role: 'assistant', content: 'A' }, user('Hi'))), {
    code: 'invalid_field',
    param: 'messages'
  })
  t.same(
    sent(
      'M→C',
      messages({
        system: [
          { type: 'text', text: 'A', cache_control: { type: 'ephemeral' } },
          { type: 'text', text: 'B' }
        ]
      })
    ).messages[0],
    { role: 'system', content: 'A\n\nB' }
  )
})

t.test('pictures arrive, or are refused by their place', async (t) => {
  const image = (url: string): Json =>
    chat(
      {},
      user([
        { type: 'text', text: 'See' },
        { type: 'image_url', image_url: { url } }
      ])
    )
  t.match(sent('C→M', image(png)).messages[0].content[1], {
    type: 'image',
    source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' }
  })
  t.match(sent('C→M', image('https://a.example/x.png')).messages[0].content[1], {
    source: { type: 'url', url: 'https://a.example/x.png' }
  })
  t.same(refused('C→G', image('https://a.example/x.png')), {
    code: 'unsupported_parameter',
    param: 'messages[0].content[1]'
  })
  t.match(sent('C→G', image('https://a.example/x.png'), { fetchesUrls: true }).contents[0].parts[1], {
    fileData: { fileUri: 'https://a.example/x.png' }
  })
  t.same(refused('C→M', image('data:image/png,xyz')), {
    code: 'invalid_field',
    param: 'messages[0].content[1].image_url.url'
  })
  t.same(refused('C→M', chat({}, user([{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }]))), {
    code: 'unsupported_parameter',
    param: 'messages[0].content[0]'
  })
  const result = (content: Json): Json =>
    messages(
      {},
      user('Hi'),
      { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'shot', input: {} }] },
      user([{ type: 'tool_result', tool_use_id: 'a', content }])
    )
  const picture = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } }
  const [, , tool, after] = sent('M→C', result([picture])).messages
  t.match(
    [tool, after],
    [
      { role: 'tool', content: /next message/ },
      {
        role: 'user',
        content: [{ type: 'text' }, { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }]
      }
    ]
  )
  t.match(sent('M→R', result([picture])).input[2], { type: 'function_call_output', output: [{ type: 'input_image' }] })
})

t.test('the choice of tools means the same', async (t) => {
  const choices: [unknown, unknown, unknown, unknown][] = [
    ['auto', { type: 'auto' }, { mode: 'AUTO' }, 'auto'],
    ['none', { type: 'none' }, { mode: 'NONE' }, 'none'],
    ['required', { type: 'any' }, { mode: 'ANY' }, 'required'],
    [
      { type: 'function', function: { name: 'f' } },
      { type: 'tool', name: 'f' },
      { mode: 'ANY', allowedFunctionNames: ['f'] },
      { type: 'function', name: 'f' }
    ]
  ]
  for (const [tool_choice, anthropic, gemini, responses] of choices) {
    const body = chat({ tools: [fn('f')], tool_choice })
    t.same(sent('C→M', body).tool_choice, anthropic)
    t.same(sent('C→G', body).toolConfig.functionCallingConfig, gemini)
    t.same(sent('C→R', body).tool_choice, responses)
    t.same(
      sent('M→C', messages({ tools: [{ name: 'f', input_schema: { type: 'object' } }], tool_choice: anthropic }))
        .tool_choice,
      tool_choice
    )
    t.same(
      sent('G→C', {
        contents: [{ parts: [{ text: 'Hi' }] }],
        tools: [{ functionDeclarations: [{ name: 'f' }] }],
        toolConfig: { functionCallingConfig: gemini }
      }).tool_choice,
      tool_choice
    )
    t.same(
      sent('R→C', {
        model: 'm',
        input: 'Hi',
        tools: [{ type: 'function', name: 'f', parameters: {} }],
        tool_choice: responses
      }).tool_choice,
      tool_choice
    )
  }
  t.same(sent('C→M', chat({ tools: [fn('f')], parallel_tool_calls: false })).tool_choice, {
    type: 'auto',
    disable_parallel_tool_use: true
  })
  for (const [choice, one] of [
    ['required', { type: 'any', disable_parallel_tool_use: true }],
    [fn('f'), { type: 'tool', name: 'f', disable_parallel_tool_use: true }],
    ['none', { type: 'none' }]
  ] as const) {
    const asked = chat({ tools: [fn('f')], tool_choice: choice, parallel_tool_calls: false })
    t.same(sent('C→M', asked).tool_choice, one)
  }
  t.match(
    sent('C→M', chat({ tools: [fn('f'), fn('g', null), fn('h', {})] })).tools,
    ['f', 'g', 'h'].map((name) => ({ name, input_schema: { type: 'object' } }))
  )
})

t.test('tools have names that the upstream allows, each its own, everywhere in a request', async (t) => {
  const long = 'a'.repeat(70)
  const names = ['plain', 'with.dot', 'with/dot', `${long}1`, `${long}2`]
  const body = chat(
    { tools: names.map((name) => fn(name)), tool_choice: { type: 'function', function: { name: 'with.dot' } } },
    user('Hi'),
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'x:1', type: 'function', function: { name: 'with.dot', arguments: '{}' } }]
    },
    { role: 'tool', tool_call_id: 'x:1', content: '1' }
  )
  const { tools, tool_choice, messages: turns } = sent('C→M', body)
  const made = tools.map(({ name }: Json) => name)
  t.equal(new Set(made).size, names.length)
  t.ok(made.every((name: string) => /^[a-zA-Z0-9_-]{1,64}$/.test(name)))
  t.equal(made[0], 'plain')
  t.equal(tool_choice.name, made[1])
  t.match(turns[1].content[0], { name: made[1], id: 'x_1' })
  t.equal(turns[2].content[0].tool_use_id, 'x_1')
  t.same(sent('C→M', body), sent('C→M', body))
})

t.test('a schema reaches Gemini without what it refuses', async (t) => {
  const schema = {
    $schema: 'x',
    type: 'object',
    additionalProperties: false,
    required: ['a', 'missing'],
    $defs: { node: { type: 'object', properties: { next: { $ref: '#/$defs/node' } } } },
    properties: {
      a: { type: ['string', 'null'] },
      b: { type: 'integer', exclusiveMinimum: 3 },
      c: { $ref: '#/$defs/node' },
      d: { patternProperties: { x: {} }, type: 'object' },
      e: { oneOf: [{ type: 'string' }, { type: 'number' }] },
      f: { const: 'x' }
    }
  }
  const { tools, dropped } = sent('C→G', chat({ tools: [fn('f', schema)] }))
  const { parameters } = tools[0].functionDeclarations[0]
  t.notMatch(JSON.stringify(parameters), /\$|additionalProperties|patternProperties|exclusive|oneOf|const/)
  t.match(parameters, {
    type: 'OBJECT',
    required: ['a'],
    properties: {
      a: { type: 'STRING', nullable: true },
      b: { type: 'INTEGER', minimum: 4 },
      c: { type: 'OBJECT', properties: { next: { type: 'OBJECT' } } },
      e: { anyOf: [{ type: 'STRING' }, { type: 'NUMBER' }] },
      f: { enum: ['x'] }
    }
  })
  t.same(parameters.required, ['a'])
  t.same(dropped, ['tools.$ref', 'tools.patternProperties'])
})

t.test('limits, sampling and stops are in the words and the range of the upstream', async (t) => {
  t.match(
    sent(
      'C→M',
      chat({
        max_completion_tokens: 5,
        max_tokens: 9,
        temperature: 1.5,
        top_p: 0.9,
        stop: 'END',
        seed: 1,
        user: 'u',
        presence_penalty: 1
      })
    ),
    {
      max_tokens: 5,
      temperature: 1,
      stop_sequences: ['END'],
      metadata: { user_id: 'u' },
      dropped: ['presence_penalty', 'seed', 'top_p']
    }
  )
  t.match(sent('C→M', chat({ temperature: 0.5, top_p: 0.9 }), { sampling: 'both', maxOutputTokens: 777 }), {
    max_tokens: 777,
    temperature: 0.5,
    top_p: 0.9,
    dropped: []
  })
  t.match(sent('C→M', chat({ temperature: 0.5 }), { sampling: 'none' }), {
    temperature: undefined,
    dropped: ['temperature']
  })
  t.match(sent('C→M', chat({ stop: ['\n', ' ', 'END'] })).stop_sequences, ['END'])
  t.equal(sent('C→M', chat({ stop: [] })).stop_sequences, undefined)
  for (const max_tokens of [0, -1, 1.5, '100', 1e30])
    t.same(refused('C→M', chat({ max_tokens })), { code: 'invalid_field', param: 'max_tokens' })
  t.same(refused('C→M', chat({ n: 2 })), { code: 'unsupported_parameter', param: 'n' })
  t.equal(sent('C→G', chat({ n: 2 })).generationConfig.candidateCount, 2)
  t.same(refused('C→M', chat({ logprobs: true })), { code: 'unsupported_parameter', param: 'logprobs' })
  t.same(refused('C→R', chat({ stop: ['x'] })), { code: 'unsupported_parameter', param: 'stop' })
  t.equal(sent('C→R', chat({ max_tokens: 3 })).max_output_tokens, 16)
  t.match(sent('M→C', messages({ top_k: 5, stop_sequences: ['x'] })), {
    max_completion_tokens: 100,
    stop: ['x'],
    dropped: ['top_k']
  })
  t.equal(sent('M→C', messages({}), { maxTokensMember: 'max_tokens' }).max_tokens, 100)
})

t.test('how much to think rises with what was asked, and never takes the whole answer', async (t) => {
  const efforts = ['minimal', 'low', 'medium', 'high', 'xhigh', 'max']
  const budgets = efforts.map(
    (reasoning_effort) =>
      sent('C→M', chat({ reasoning_effort, max_tokens: 40_000 }), { thinking: 'budget' }).thinking.budget_tokens
  )
  t.same(
    [...budgets].sort((a: number, b: number) => a - b),
    budgets
  )
  t.ok(budgets.every((budget: number) => budget >= 1024 && budget < 40_000))
  t.match(sent('C→M', chat({ reasoning_effort: 'high', max_tokens: 500 }), { thinking: 'budget' }), {
    thinking: undefined,
    max_tokens: 500,
    dropped: ['reasoning_effort']
  })
  t.match(sent('C→M', chat({ reasoning_effort: 'high', temperature: 1 })), {
    thinking: { type: 'adaptive' },
    output_config: { effort: 'high' },
    dropped: ['temperature']
  })
  t.match(sent('C→M', chat({ reasoning_effort: 'high', tools: [fn('f')], tool_choice: 'required' })), {
    thinking: undefined,
    output_config: { effort: 'high' }
  })
  t.match(
    sent('C→M', chat({ reasoning_effort: 'high', max_tokens: 9000, tools: [fn('f')], tool_choice: 'required' }), {
      thinking: 'budget'
    }),
    { thinking: undefined, tool_choice: { type: 'any' }, dropped: ['reasoning_effort'] },
    'a model that has to call does not think before it'
  )
  const unproven = chat({ reasoning_effort: 'high', max_tokens: 9000 }, user('Hi'), called('a'), {
    role: 'tool',
    tool_call_id: 'a',
    content: '1'
  })
  t.match(
    sent('C→M', unproven, { thinking: 'budget' }),
    { thinking: undefined, dropped: ['reasoning_effort'] },
    'calls whose thoughts nobody has are not gone on with by thinking'
  )
  t.match(sent('C→M', chat({ reasoning_effort: 'none' })).thinking, { type: 'disabled' })
  t.match(sent('C→G', chat({ reasoning_effort: 'medium' })).generationConfig.thinkingConfig, {
    thinkingLevel: 'MEDIUM',
    includeThoughts: true
  })
  for (const pair of ['C→M', 'C→G'])
    t.same(refused(pair, chat({ reasoning_effort: 'enormous' })), { code: 'invalid_field', param: 'reasoning_effort' })
  t.match(
    sent('R→C', { model: 'm', input: 'Hi', reasoning: { effort: 'low', summary: 'auto' } }).reasoning_effort,
    'low'
  )
})

t.test('an answer of a form is asked for in the form that the upstream has', async (t) => {
  const schema = { type: 'object', properties: { a: { type: 'integer', minimum: 1 } } }
  const response_format = { type: 'json_schema', json_schema: { name: 'n', schema, strict: true } }
  t.match(sent('C→M', chat({ response_format })).output_config.format, {
    type: 'json_schema',
    schema: { additionalProperties: false, properties: { a: { type: 'integer', description: /minimum: 1/ } } }
  })
  t.match(sent('C→M', chat({ response_format }), { jsonSchema: 'tool' }), {
    tools: [{ input_schema: schema }],
    tool_choice: { type: 'tool' }
  })
  t.match(sent('C→G', chat({ response_format })).generationConfig, {
    responseMimeType: 'application/json',
    responseJsonSchema: schema
  })
  t.match(sent('C→R', chat({ response_format })).text.format, { type: 'json_schema', name: 'n', schema, strict: true })
  t.match(sent('C→M', chat({ response_format: { type: 'json_object' } })).system.at(-1).text, /JSON/)
  t.match(
    sent('G→C', {
      contents: [{ parts: [{ text: 'Hi' }] }],
      generation_config: {
        response_mime_type: 'application/json',
        response_schema: { type: 'OBJECT', properties: { a: { type: 'STRING', nullable: true } } }
      }
    }).response_format,
    {
      type: 'json_schema',
      json_schema: { name: 'output', schema: { type: 'object', properties: { a: { type: ['string', 'null'] } } } }
    }
  )
})

t.test('tools of Responses keep what they are on the way to an upstream that knows only functions', async (t) => {
  const body = {
    model: 'm',
    tools: [
      { type: 'custom', name: 'patch' },
      {
        type: 'namespace',
        name: 'crm',
        tools: [{ type: 'function', name: 'find', parameters: { type: 'object', properties: {} } }]
      }
    ],
    input: [
      { role: 'user', content: 'Hi' },
      { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'blob' },
      { type: 'custom_tool_call', id: 'ctc_1', call_id: 'c1', name: 'patch', input: 'raw "text"' },
      { type: 'function_call', id: 'fc_1', call_id: 'c2', name: 'find', namespace: 'crm', arguments: '{}' },
      { type: 'custom_tool_call_output', call_id: 'c1', output: 'ok' },
      { type: 'function_call_output', id: 'fco_3', call_id: 'c2', output: 'none' }
    ]
  }
  const { tools, messages: turns, dropped } = sent('R→C', body)
  t.match(tools, [
    { function: { name: 'patch', parameters: { properties: { input: { type: 'string' } } } } },
    { function: { name: 'crm__find' } }
  ])
  t.match(turns[1].tool_calls, [
    { id: 'c1', function: { name: 'patch', arguments: '{"input":"raw \\"text\\""}' } },
    { id: 'c2', function: { name: 'crm__find' } }
  ])
  t.same(
    turns.slice(2).map(({ tool_call_id }: Json) => tool_call_id),
    ['c1', 'c2']
  )
  t.notMatch(JSON.stringify(turns), 'blob')
  t.same(dropped, ['input.encrypted_content'])
})

t.test('what cannot be said is refused by its name, and what is only a hint is named', async (t) => {
  const R = (more: Json): Json => ({ model: 'm', input: 'Hi', ...more })
  for (const [pair, body, param] of [
    ['R→C', R({ previous_response_id: 'r' }), 'previous_response_id'],
    ['R→C', R({ input: [{ type: 'item_reference', id: 'x' }] }), 'input[0]']
  ] as const)
    t.same(refused(pair, body), { code: 'protocol_mismatch', param })
  for (const [pair, body, param] of [
    ['R→M', R({ tools: [{ type: 'web_search' }] }), 'tools[0]'],
    ['R→C', R({ background: true }), 'background'],
    ['C→M', chat({ functions: [{ name: 'f' }] }), 'functions'],
    ['C→M', chat({ modalities: ['text', 'audio'] }), 'modalities'],
    ['M→C', messages({ tools: [{ type: 'web_search_20250305', name: 'web_search' }] }), 'tools[0]'],
    ['M→C', messages({ thread: { type: 'create' } }), 'thread'],
    ['M→C', messages({}, user([{ type: 'container_upload', file_id: 'f' }])), 'messages[0].content[0]'],
    ['G→C', { contents: [{ parts: [{ text: 'x' }] }], cachedContent: 'c' }, 'cachedContent']
  ] as const)
    t.same(refused(pair, body), { code: 'unsupported_parameter', param }, param)
  t.same(refused('G→C', {}), { code: 'missing_field', param: 'contents' })
  for (const input of [[], '', [42], [{ type: 'message' }]])
    t.match(refused('R→C', R({ input })).code, /invalid_field|missing_field/)
  t.same(sent('C→M', chat({ logit_bias: { 1: 2 }, store: true, brand_new: 1, 'bad\r\nname': 1 })).dropped, [
    'logit_bias',
    'store',
    'brand_new',
    'bad??name'
  ])
  t.same(
    sent(
      'M→C',
      messages(
        { speed: 'fast', context_management: {} },
        user([{ type: 'text', text: 'x', cache_control: { type: 'ephemeral' } }])
      )
    ).dropped,
    ['messages.content.cache_control', 'speed', 'context_management']
  )
})

t.test('the same request is the same bytes, and its long numbers keep their digits', async (t) => {
  const text =
    '{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"b":12345678901234567890,"a":1.50}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x"}]}]}'
  const bytes = (): string =>
    JSON.stringify(
      new Asked(codecs.anthropic, parseJson(text) as Json, { model: 'm', streaming: true }).for(codecs.gemini, {
        model: 'u',
        traits: {}
      }).body
    )
  t.equal(bytes(), bytes())
  t.match(bytes(), '{"b":12345678901234567890,"a":1.5}')
})

t.test('the matrix has every pair and says nothing of what passes as it is', async (t) => {
  const pairs = capabilityMatrix()
  t.equal(pairs.length, 20)
  t.ok(pairs.filter(({ passed }) => passed).every(({ client, channel }) => client === channel))
  const pair = pairs.find(({ client, channel }) => client === 'openai-chat' && channel === 'anthropic')!
  t.match(pair.request, {
    candidates: { fate: 'refused', member: 'n' },
    seed: { fate: 'dropped', member: 'seed' },
    temperature: { fate: 'adapted' },
    tools: { fate: 'carried' }
  })
})

t.test('a Gemini request of very many contents takes no longer for each than a short one', async (t) => {
  const many = <Item>(make: (at: number) => Item): Item[] => Array.from({ length: 20_000 }, (_, at) => make(at))
  const call = (at: number): Json => ({ functionCall: { id: `call_${at}`, name: 'f', args: {} } })
  const result = (at: number): Json => ({
    functionResponse: { id: `call_${at}`, name: 'f', response: { output: 'a' } }
  })
  const user = (...parts: Json[]): Json => ({ role: 'user', parts })
  const model = (...parts: Json[]): Json => ({ role: 'model', parts })
  const shapes: Record<string, Json[]> = {
    texts: many(() => user({ text: 'a' })),
    'calls with their results': many((at) => (at % 2 ? user(result(at - 1)) : model(call(at)))),
    'calls in one content, their results in many': [
      model(...many(call)),
      ...many((at) => user(result(at))).toReversed()
    ]
  }
  for (const [name, contents] of Object.entries(shapes)) {
    const ms = leastUsed(1500, () => t.ok(sent('G→C', { contents }).messages.length >= contents.length, name))
    t.ok(ms < 1500, `${name}: ${ms} ms`)
  }
})

t.test('a result without an id is that of the first call with its name that has none yet', async (t) => {
  const call = (name: string, at: number): Json => ({ functionCall: { id: `${name}-${at}`, name, args: {} } })
  const result = (name: string, id?: string): Json => ({ functionResponse: { name, response: { output: name }, id } })
  const contents = [
    { role: 'model', parts: [call('f', 1), call('g', 1), call('f', 2)] },
    { role: 'user', parts: [result('f'), result('g')] },
    { role: 'user', parts: [result('f')] },
    { role: 'model', parts: [call('f', 3), call('f', 4)] },
    { role: 'user', parts: [result('f', 'f-3'), result('f')] }
  ]
  const { messages } = sent('G→C', { contents })
  t.same(
    messages.flatMap(({ tool_call_id: id }: Json) => id ?? []),
    ['f-1', 'g-1', 'f-2', 'f-3', 'f-4']
  )
})

t.test('what a request has very many of costs no more for each, in every protocol', async (t) => {
  const many = <Item>(make: (at: number) => Item): Item[] => Array.from({ length: 40_000 }, (_, at) => make(at))
  const ids = many((at) => `call_${at}`)
  const names = many((at) => `f${at}`)
  const members = { type: 'object', properties: Object.fromEntries(names.map((name) => [name, {}])), required: names }
  const results = ids.map((id) => ({ role: 'tool', tool_call_id: id, content: 'a' }))
  const tools = names.map((name) => fn(name, { type: 'object', properties: {} }))
  const allowed = {
    mode: 'auto',
    tools: tools.map(({ function: { name } }) => ({ type: 'function', function: { name } }))
  }
  const shapes: readonly [pairs: string, what: string, body: Json][] = [
    ['C→M C→G C→R', 'instructions', chat({}, ...many(() => ({ role: 'system', content: 'a' })), user('a'))],
    ['R→M R→G R→C', 'instructions', { input: [...many(() => ({ role: 'developer', content: 'a' })), user('a')] }],
    ['C→G', 'results', chat({}, user('a'), called(...ids), ...results)],
    ['C→G C→M', 'members of a schema', chat({ tools: [fn('f', members)] })],
    [
      'C→R',
      'members of a strict schema',
      chat({ response_format: { type: 'json_schema', json_schema: { name: 'a', schema: members } } })
    ],
    ['C→R C→M C→G', 'allowed tools', chat({ tools, tool_choice: { type: 'allowed_tools', allowed_tools: allowed } })]
  ]
  for (const [pairs, what, body] of shapes)
    for (const pair of pairs.split(' ')) {
      const ms = leastUsed(2500, () => sent(pair, body))
      t.ok(ms < 2500, `${pair}, ${what}: ${ms} ms`)
    }
})

t.test('tools that alone may be called are offered alone, and one of them has to be where that is said', (t) => {
  const two = ['f', 'g']
  for (const mode of ['auto', 'required']) {
    const inChat = { mode, tools: [{ type: 'function', function: { name: 'g' } }] }
    const ofChat = chat({
      tools: two.map((name) => fn(name)),
      tool_choice: { type: 'allowed_tools', allowed_tools: inChat }
    })
    const ofResponses = {
      model: 'm',
      input: 'Hi',
      tools: two.map((name) => ({ type: 'function', name })),
      tool_choice: { type: 'allowed_tools', mode, tools: [{ type: 'function', name: 'g' }] }
    }
    for (const [client, body] of [
      ['C', ofChat],
      ['R', ofResponses]
    ] as const) {
      const messages = sent(`${client}→M`, body)
      t.same(
        [messages.tools.map(({ name }: Json) => name), messages.tool_choice],
        [['g'], { type: mode === 'auto' ? 'auto' : 'any' }]
      )
      const { tools, toolConfig } = sent(`${client}→G`, body)
      t.same(
        [tools[0].functionDeclarations.map(({ name }: Json) => name), toolConfig.functionCallingConfig.mode],
        [['g'], mode === 'auto' ? 'AUTO' : 'ANY']
      )
    }
    t.match(sent('C→R', ofChat).tool_choice, { type: 'allowed_tools', mode, tools: [{ name: 'g' }] })
    const alone = sent('R→C', ofResponses)
    t.same([alone.tools.length, alone.tool_choice], [1, mode])
  }
  t.end()
})
