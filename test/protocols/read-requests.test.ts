// What requests of chats and of Messages are read as, member by member, and which features they are said to ask for.
import t from 'tap'
import { Losses } from '../../core/protocols/canonical/losses.ts'
import { emptyRequest } from '../../core/protocols/canonical/request.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import { Untranslatable } from '../../core/protocols/translation/translation.ts'

type Json = any
type Asker = 'openai-chat' | 'anthropic'

/** Notes each feature with the place that asks for it. */
class Noting extends Losses {
  readonly seen: string[] = []

  override see(...[feature, place]: Parameters<Losses['see']>): void {
    this.seen.push(place === undefined ? feature : `${feature} ${place}`)
  }
}

/** What is read of a request besides what every request has, what it asks for; or why it is refused. */
function read(name: Asker, body: Json): { request: Json; seen: string[]; refused?: string } {
  const { conversation, capabilities } = codecs[name]
  const losses = new Noting(conversation, capabilities.asks)
  const empty: Json = emptyRequest('m', false)
  try {
    const request: Json = codecs[name].decodeRequest(body, { model: 'm', streaming: false }, losses)
    const said = Object.entries(request).filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(empty[key]))
    return { request: JSON.parse(JSON.stringify(Object.fromEntries(said))), seen: losses.seen }
  } catch (error) {
    if (!(error instanceof Untranslatable)) throw error
    return { request: {}, seen: losses.seen, refused: `${error.code} ${error.param}` }
  }
}

/** A request of a chat or of Messages that says Hi, with more members. */
const saying = (more: Json): Json => ({ model: 'm', messages: [{ role: 'user', content: 'Hi' }], ...more })
const hi = { role: 'user', parts: [{ type: 'text', text: 'Hi' }] }

/** What members of a request are read as, besides what it says. */
function members(name: Asker, more: Json): [Json, string[]] {
  const { request, seen, refused } = read(name, saying(more))
  const { turns: _turns, ...rest } = request
  return [refused ?? rest, seen]
}

t.test('chat: settings are read by their names, and ask for something only where they say something', async (t) => {
  for (const [body, request, ...seen] of [
    [{}, {}],
    [{ stream: true, stream_options: { include_usage: true } }, {}],
    [{ max_tokens: 5 }, { maxOutputTokens: 5 }, 'max_output_tokens max_tokens'],
    [{ max_tokens: 5, max_completion_tokens: 6 }, { maxOutputTokens: 6 }, 'max_output_tokens max_completion_tokens'],
    [{ max_tokens: 1 }, { maxOutputTokens: 1 }, 'max_output_tokens max_tokens'],
    [{ max_tokens: 0 }, 'invalid_field max_tokens'],
    [{ max_completion_tokens: 1 }, { maxOutputTokens: 1 }, 'max_output_tokens max_completion_tokens'],
    [{ max_completion_tokens: 0 }, 'invalid_field max_completion_tokens'],
    [{ top_k: 3 }, { topK: 3 }, 'top_k'],
    [{ stop: 'a' }, { stop: ['a'] }, 'stop'],
    [{ stop: ['a', 'b'] }, { stop: ['a', 'b'] }, 'stop'],
    [{ stop: [] }, {}],
    [{ logprobs: true }, { logprobs: 0 }, 'logprobs'],
    [{ logprobs: true, top_logprobs: 2 }, { logprobs: 2 }, 'logprobs'],
    [{ logprobs: false, top_logprobs: 2 }, {}],
    [{ reasoning_effort: 'low' }, { reasoning: { effort: 'low' } }, 'reasoning_effort'],
    [{ metadata: { a: 'b' } }, { metadata: { a: 'b' } }, 'metadata'],
    [{ metadata: {} }, {}],
    [{ parallel_tool_calls: false }, { parallelToolCalls: false }, 'parallel_tool_calls'],
    [{ parallel_tool_calls: true }, { parallelToolCalls: true }],
    [{ logit_bias: { 1: 1 }, store: true }, {}, 'hint logit_bias', 'hint store'],
    [{ store: false }, {}],
    [{ store: 'x' }, {}, 'hint store'],
    [{ audio: {} }, {}, 'special audio'],
    [{ modalities: ['text'] }, {}],
    [{ modalities: ['text', 'audio'] }, {}, 'special modalities'],
    [{ other: 1 }, {}, 'unknown other']
  ] as [Json, Json, ...string[]][])
    t.strictSame(members('openai-chat', body), [request, seen], JSON.stringify(body))
})

t.test('chat: tools, the choice of one and the form of the answer', async (t) => {
  const f = { name: 'f', parameters: { type: 'object' } }
  const tool = { name: 'f', custom: false }
  const tools = (...tools: Json[]): [Json, string[]] => members('openai-chat', { tools })
  t.strictSame(tools({ type: 'function', function: f }), [
    { tools: [{ ...tool, parameters: f.parameters }] },
    ['tools']
  ])
  t.strictSame(tools({ function: { name: 'f', description: 'd', strict: true } }), [
    { tools: [{ name: 'f', description: 'd', strict: true, custom: false }] },
    ['tools', 'tool_strict']
  ])
  t.strictSame(tools({ function: { name: 'f', strict: false } }), [
    { tools: [{ name: 'f', strict: false, custom: false }] },
    ['tools']
  ])
  const cache = { cache_control: { type: 'ephemeral' } }
  t.match(tools({ function: { name: 'f' }, ...cache })[0].tools[0].cache, cache.cache_control)
  t.match(tools({ function: { name: 'f', ...cache } })[0].tools[0].cache, cache.cache_control)
  t.strictSame(tools({ type: 'web_search' }), [
    { tools: [{ name: 'web_search', custom: false }] },
    ['server_tool tools[0]']
  ])
  t.strictSame(tools({ type: 'custom', custom: { name: 'g', description: 'd', format: { type: 'text' } } }), [
    { tools: [{ name: 'g', description: 'd', custom: true }] },
    ['custom_tool']
  ])
  const grammar = { syntax: 'lark', definition: 'x' }
  t.strictSame(tools({ type: 'custom', custom: { name: 'g', format: { type: 'grammar', grammar } } }), [
    { tools: [{ name: 'g', custom: true, grammar }] },
    ['custom_tool', 'custom_tool_grammar tools[0].custom.format']
  ])
  const named = { toolChoice: { mode: 'named', name: 'f' } }
  for (const [tool_choice, request, ...seen] of [
    ['auto', { toolChoice: { mode: 'auto' } }],
    ['none', { toolChoice: { mode: 'none' } }, 'tool_choice'],
    ['required', { toolChoice: { mode: 'required' } }, 'tool_choice'],
    [{ type: 'function', function: { name: 'f' } }, named, 'tool_choice'],
    [{ type: 'custom', custom: { name: 'f' } }, named, 'tool_choice'],
    [{ type: 'other' }, 'invalid_field tool_choice'],
    ['other', 'invalid_field tool_choice'],
    [
      {
        type: 'allowed_tools',
        allowed_tools: {
          mode: 'required',
          tools: [
            { type: 'function', function: { name: 'f' } },
            { type: 'custom', custom: { name: 'g' } },
            { name: 'h' }
          ]
        }
      },
      { toolChoice: { mode: 'required', allowed: ['f', 'g', 'h'] } },
      'allowed_tools'
    ],
    [
      { type: 'allowed_tools', allowed_tools: { mode: 'auto' } },
      { toolChoice: { mode: 'auto', allowed: [] } },
      'allowed_tools'
    ]
  ] as [Json, Json, ...string[]][])
    t.strictSame(members('openai-chat', { tool_choice }), [request, seen], JSON.stringify(tool_choice))
  for (const [response_format, request, ...seen] of [
    [{ type: 'text' }, {}],
    [{ type: 'json_object' }, { format: { type: 'json_object' } }, 'json_object'],
    [{ type: 'other' }, 'invalid_field response_format.type'],
    [
      { type: 'json_schema', json_schema: { name: 'a', description: 'd', schema: { type: 'object' }, strict: true } },
      { format: { type: 'json_schema', name: 'a', description: 'd', schema: { type: 'object' }, strict: true } },
      'json_schema'
    ],
    [
      { type: 'json_schema', json_schema: { name: 'a' } },
      { format: { type: 'json_schema', name: 'a', schema: {} } },
      'json_schema'
    ]
  ] as [Json, Json, ...string[]][])
    t.strictSame(members('openai-chat', { response_format }), [request, seen], JSON.stringify(response_format))
})

/** The turns that messages are read as. */
function turns(name: Asker, messages: Json[], more: Json = {}): [Json, string[]] {
  const { request, seen, refused } = read(name, { model: 'm', messages, ...more })
  return [refused ?? request.turns, seen]
}
const text = (text: string): Json => ({ type: 'text', text })
const mark = { cache_control: { type: 'ephemeral' } }

t.test('chat: every message is a turn of its role', async (t) => {
  for (const [messages, made, ...seen] of [
    [
      [{ role: 'system', content: 'a' }, { role: 'user' }, { role: 'developer', content: [text('b')] }],
      [
        { role: 'system', parts: [text('a')], developer: false },
        { role: 'user', parts: [] },
        { role: 'system', parts: [text('b')], developer: true }
      ],
      'system messages[0]',
      'system_later messages[2]'
    ],
    [
      [{ role: 'user', name: 'n', content: 'a' }],
      [{ role: 'user', parts: [text('a')] }],
      'message_name messages[0].name'
    ],
    [[{ role: 'function', content: 'a' }], 'unsupported_parameter messages[0].role'],
    [[{ content: 'a' }], 'missing_field messages[0].role'],
    [[{ role: 'system' }], [{ role: 'system', parts: [], developer: false }], 'system messages[0]'],
    [
      [{ role: 'system', content: [{ type: 'image' }] }],
      'invalid_field messages[0].content[0].type',
      'system messages[0]'
    ],
    [
      [{ role: 'system', content: [{ type: 'refusal', refusal: 'a' }] }],
      [{ role: 'system', parts: [text('a')], developer: false }],
      'system messages[0]'
    ],
    [[{ role: 'user', content: [{ type: 'other' }] }], 'unsupported_parameter messages[0].content[0]']
  ] as [Json[], Json, ...string[]][])
    t.strictSame(turns('openai-chat', messages), [made, seen], JSON.stringify(messages))
  t.strictSame(read('openai-chat', { model: 'm' }).refused, 'missing_field messages')
})

t.test('chat: media are read with their sources', async (t) => {
  const part = (one: Json): Json => {
    const [made, seen] = turns('openai-chat', [{ role: 'user', content: [one] }])
    return typeof made === 'string' ? [made, seen] : [made[0].parts[0], seen]
  }
  const url = 'https://a.example/x.png'
  const data = 'data:image/png;base64,AAAA'
  const inline = { kind: 'data', mimeType: 'image/png', data: 'AAAA' }
  const place = 'messages[0].content[0]'
  t.strictSame(part({ type: 'image_url', image_url: { url } }), [
    { type: 'image', source: { kind: 'url', url } },
    [`image_url ${place}`]
  ])
  t.match(part({ type: 'image_url', image_url: url })[0], { source: { url } })
  t.strictSame(part({ type: 'image_url', image_url: { url: data, detail: 'auto' } }), [
    { type: 'image', source: inline },
    [`image ${place}`]
  ])
  t.strictSame(part({ type: 'image_url', image_url: { url: data, detail: 'low' } }), [
    { type: 'image', source: inline, detail: 'low' },
    [`image ${place}`, `image_detail ${place}.image_url.detail`]
  ])
  t.equal(part({ type: 'image_url', image_url: { url: 'none' } })[0], `invalid_field ${place}.image_url.url`)
  t.equal(part({ type: 'image_url', image_url: 'none' })[0], `invalid_field ${place}.image_url`)
  t.strictSame(part({ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }), [
    { type: 'audio', source: { kind: 'data', mimeType: 'audio/wav', data: 'AAAA' } },
    [`audio ${place}`]
  ])
  const pdf = { file_data: 'data:application/pdf;base64,AAAA' }
  const source = { kind: 'data', mimeType: 'application/pdf', data: 'AAAA' }
  t.strictSame(part({ type: 'file', file: { ...pdf, filename: 'n' } }), [
    { type: 'document', source, name: 'n' },
    [`document ${place}.file`]
  ])
  t.strictSame(part({ type: 'file', file: pdf })[0], { type: 'document', source })
  t.strictSame(part({ type: 'file', file: { file_data: 'data:text/plain;base64,AAAA' } })[1], [
    `text_document ${place}.file`
  ])
  t.equal(part({ type: 'file', file: { file_data: url } })[0], `invalid_field ${place}.file.file_data`)
  t.strictSame(part({ type: 'file', file: { file_id: 'f', filename: 'n' } }), [
    { type: 'document', source: { kind: 'stored', family: 'openai', id: 'f' }, name: 'n' },
    [`stored_file ${place}.file.file_id`]
  ])
})

t.test('chat: what the model said is read with its thoughts, its calls and their signatures', async (t) => {
  const said = (message: Json): [Json, string[]] => {
    const [made, seen] = turns('openai-chat', [{ role: 'assistant', ...message }])
    return [typeof made === 'string' ? made : made[0].parts, seen]
  }
  const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }
  const made = { type: 'tool_call', id: 'a', name: 'f', custom: false, input: '{}' }
  const google = (thought_signature: string): Json => ({ extra_content: { google: { thought_signature } } })
  for (const [message, parts, ...seen] of [
    [{ content: null }, []],
    [{ content: '' }, [text('')]],
    [
      { reasoning_content: 'a', content: 'b' },
      [{ type: 'reasoning', text: 'a' }, text('b')],
      'reasoning_replay messages[0].reasoning_content'
    ],
    [{ reasoning: 'a' }, [{ type: 'reasoning', text: 'a' }], 'reasoning_replay messages[0].reasoning_content'],
    [{ reasoning: '' }, []],
    [
      { content: [text('a'), { type: 'refusal', refusal: 'b' }] },
      [text('a'), { type: 'refusal', text: 'b' }],
      'refusal_replay messages[0]'
    ],
    [{ content: [{ type: 'image_url' }] }, 'invalid_field messages[0].content[0].type'],
    [{ refusal: 'a' }, [{ type: 'refusal', text: 'a' }], 'refusal_replay messages[0]'],
    [{ refusal: '' }, []],
    [
      { images: [{ type: 'image_url', index: 0, image_url: { url: 'https://a.example' } }] },
      [{ type: 'image', source: { kind: 'url', url: 'https://a.example' } }],
      'image_replay messages[0].images[0]',
      'image_url messages[0].images[0]'
    ],
    [{ audio: { id: 'a' } }, [], 'special messages[0].audio'],
    [{ function_call: { name: 'f' } }, [], 'special messages[0].function_call'],
    [{ tool_calls: [{ ...call, index: 0 }] }, [made]],
    [{ tool_calls: [{ ...call, function: { name: 'f', arguments: { a: 1 } } }] }, [{ ...made, input: '{"a":1}' }]],
    [{ tool_calls: [{ ...call, function: { name: 'f' } }] }, [{ ...made, input: '' }]],
    [
      { tool_calls: [{ id: 'a', type: 'custom', custom: { name: 'f', input: 'x' } }] },
      [{ ...made, custom: true, input: 'x' }]
    ],
    [
      { tool_calls: [{ ...call, ...google('s') }] },
      [{ ...made, proof: { family: 'gemini', kind: 'call', value: 's' } }],
      'reasoning_proof messages[0].tool_calls[0].extra_content'
    ],
    [{ tool_calls: [{ ...call, ...google('') }] }, [made]]
  ] as [Json, Json, ...string[]][]) {
    const [got, noted] = said(message)
    t.strictSame([got, noted], [parts, seen], JSON.stringify(message))
  }
})

t.test('chat: a result belongs to its call, and takes its name from there', async (t) => {
  const calls = (...ids: string[]): Json => ({
    role: 'assistant',
    tool_calls: ids.map((id) => ({ id, type: 'custom', custom: { name: `f${id}`, input: 'x' } }))
  })
  const results = (...messages: Json[]): Json => {
    const [made] = turns('openai-chat', messages)
    return typeof made === 'string' ? made : made.filter(({ role }: Json) => role === 'tool')
  }
  const result = (id: string, name: string): Json => ({
    id,
    name,
    custom: name !== '',
    parts: [text('r')],
    error: false
  })
  const told = (id?: string): Json => ({ role: 'tool', ...(id && { tool_call_id: id }), content: 'r' })
  t.strictSame(results(calls('a', 'b'), told('a'), told('b')), [
    { role: 'tool', results: [result('a', 'fa'), result('b', 'fb')] }
  ])
  t.strictSame(results(told('x')), [{ role: 'tool', results: [result('x', '')] }])
  t.strictSame(results(calls('a'), told()), [{ role: 'tool', results: [result('a', 'fa')] }])
  t.equal(results(calls('a', 'b'), told()), 'missing_field messages[1].tool_call_id')
  t.equal(results(told()), 'missing_field messages[0].tool_call_id')
  const picture = { type: 'image_url', image_url: 'https://a.example' }
  t.strictSame(turns('openai-chat', [{ ...told('a'), content: [picture] }])[1], [
    'image_url messages[0].content[0]',
    'tool_result_media messages[0].content'
  ])
})

t.test('chat: marks for the cache are on what they stand at, and one of a message on its last part', async (t) => {
  const cache = mark.cache_control
  const parts = (message: Json): Json => turns('openai-chat', [message])[0][0].parts
  t.strictSame(parts({ role: 'user', content: [{ ...text('a'), ...mark }, text('b')] }), [
    { ...text('a'), cache },
    text('b')
  ])
  t.strictSame(parts({ role: 'user', content: [text('a'), text('b')], ...mark }), [text('a'), { ...text('b'), cache }])
  t.strictSame(parts({ role: 'system', content: [text('a')], ...mark })[0].cache, cache)
  t.strictSame(parts({ role: 'system', content: [{ ...text('a'), ...mark }] })[0].cache, cache)
  t.strictSame(parts({ role: 'assistant', content: [{ ...text('a'), ...mark }] })[0].cache, cache)
  t.strictSame(parts({ role: 'user', ...mark }), [])
  const call = { id: 'a', function: { name: 'f', arguments: '{}' } }
  t.strictSame(parts({ role: 'assistant', tool_calls: [call], ...mark })[0].cache, cache)
  const picture = { type: 'image_url', image_url: 'https://a.example' }
  t.strictSame(parts({ role: 'user', content: [picture], ...mark })[0].cache, cache)
  t.strictSame(parts({ role: 'user', content: [{ ...picture, ...mark }] })[0].cache, cache)
  const file = { type: 'file', file: { file_id: 'f' }, ...mark }
  t.strictSame(parts({ role: 'user', content: [file] })[0].cache, cache)
  t.notOk('cache' in parts({ role: 'assistant', refusal: 'a', ...mark })[0])
  t.strictSame(
    turns('openai-chat', [{ role: 'tool', tool_call_id: 'a', content: 'r', ...mark }])[0][0].results[0].cache,
    cache
  )
  t.strictSame(members('openai-chat', mark)[0], { cache })
})

t.test('messages: settings are read by their names, and ask for something only where they say something', async (t) => {
  for (const [body, request, ...seen] of [
    [{ max_tokens: 5 }, { maxOutputTokens: 5 }, 'max_output_tokens'],
    [{ stream: true }, {}],
    [{ stop_sequences: ['a'] }, { stop: ['a'] }, 'stop'],
    [{ stop_sequences: [] }, {}],
    [{ metadata: { user_id: 'u' } }, { user: 'u' }, 'user'],
    [{ service_tier: 'auto' }, {}],
    [{ service_tier: 'standard_only' }, { serviceTier: 'default' }, 'service_tier'],
    [{ tool_choice: { type: 'auto' } }, { toolChoice: { mode: 'auto' } }],
    [{ tool_choice: { type: 'any' } }, { toolChoice: { mode: 'required' } }, 'tool_choice'],
    [{ tool_choice: { type: 'none' } }, { toolChoice: { mode: 'none' } }, 'tool_choice'],
    [{ tool_choice: { type: 'tool', name: 'f' } }, { toolChoice: { mode: 'named', name: 'f' } }, 'tool_choice'],
    [{ tool_choice: { type: 'other' } }, 'invalid_field tool_choice.type', 'tool_choice'],
    [
      { tool_choice: { type: 'auto', disable_parallel_tool_use: true } },
      { toolChoice: { mode: 'auto' }, parallelToolCalls: false },
      'parallel_tool_calls'
    ],
    [{ tool_choice: { type: 'auto', disable_parallel_tool_use: false } }, { toolChoice: { mode: 'auto' } }],
    [{ output_config: { effort: 'low' } }, { reasoning: { effort: 'low' } }, 'reasoning_effort'],
    [{ output_config: {} }, {}],
    [
      { output_config: { format: { type: 'json_schema', schema: { type: 'object' } } } },
      { format: { type: 'json_schema', name: 'answer', schema: { type: 'object' } } },
      'json_schema'
    ],
    [{ output_config: { format: { type: 'other' } } }, 'invalid_field output_config.format.type'],
    [{ speed: 'fast' }, {}, 'hint speed'],
    [{ container: 'c' }, {}, 'special container'],
    [{ other: 1 }, {}, 'unknown other'],
    [mark, { cache: mark.cache_control }, 'cache_control cache_control']
  ] as [Json, Json, ...string[]][]) {
    const [made, noted] = members('anthropic', body)
    if (made.format) delete made.format.strict
    if (made.format && request.format) request.format.name = made.format.name
    t.strictSame([made, noted], [request, seen], JSON.stringify(body))
  }
  const off = members('anthropic', { thinking: { type: 'disabled' }, output_config: { effort: 'low' } })
  t.equal(off[0].reasoning.effort, 'none')
  t.strictSame(off[1].at(-1), 'hint output_config.effort')
})

t.test('messages: tools are read with their schemas, and those of the provider by their types', async (t) => {
  const tools = (...tools: Json[]): [Json, string[]] => {
    const [made, seen] = members('anthropic', { tools })
    return [typeof made === 'string' ? made : made.tools, seen]
  }
  const input_schema = { type: 'object', properties: {} }
  const plain = { name: 'f', custom: false, parameters: input_schema }
  t.strictSame(tools({ name: 'f', input_schema }), [[plain], ['tools']])
  t.strictSame(tools({ type: 'custom', name: 'f', description: 'd', input_schema, strict: false })[0], [
    { ...plain, description: 'd', strict: false }
  ])
  t.match(tools({ name: 'f', input_schema, ...mark })[0], [{ cache: mark.cache_control }])
  const closed = { ...input_schema, additionalProperties: false }
  const strict = tools({ name: 'f', input_schema: closed, strict: true })
  t.equal(strict[0][0].strict, true)
  t.strictSame(strict[1], ['tools', 'tool_strict tools[0].strict'])
  t.strictSame(tools({ name: 'f', input_schema, strict: true })[0][0].parameters, closed)
  const bare = tools({ name: 'f', strict: true })
  t.notOk('strict' in bare[0][0])
  t.strictSame(bare[1], ['tools', 'hint tools[0].strict'])
  t.strictSame(tools({ type: 'web_search_20250305', name: 'web_search' }), [
    [{ name: 'web_search', custom: false }],
    ['server_tool tools[0]']
  ])
  t.equal(tools({ type: 'web_search_20250305' })[0][0].name, 'web_search_20250305')
  t.equal(tools({})[0], 'missing_field tools[0].name')
})

t.test('messages: every message is a turn of its role, and results are one of their own', async (t) => {
  const result = (id: string, more: Json = {}): Json => ({
    id,
    name: '',
    custom: false,
    parts: [text('r')],
    error: false,
    ...more
  })
  const told = (id: string, more: Json = {}): Json => ({ type: 'tool_result', tool_use_id: id, content: 'r', ...more })
  for (const [messages, made, ...seen] of [
    [[{ role: 'user', content: 'Hi' }], [hi]],
    [[{ role: 'user', content: [] }], [{ role: 'user', parts: [] }]],
    [[{ role: 'assistant', content: 'a' }], [{ role: 'assistant', parts: [text('a')] }]],
    [
      [{ role: 'system', content: [text('a')] }],
      [{ role: 'system', parts: [text('a')], developer: false }],
      'system_later messages[0]'
    ],
    [[{ role: 'other' }], 'invalid_field messages[0].role'],
    [
      [{ role: 'user', content: [text('a'), told('x')] }],
      [
        { role: 'tool', results: [result('x')] },
        { role: 'user', parts: [text('a')] }
      ]
    ],
    [[{ role: 'user', content: [told('x', { is_error: false })] }], [{ role: 'tool', results: [result('x')] }]],
    [
      [{ role: 'user', content: [told('x', { is_error: true, content: [text('r')] })] }],
      [{ role: 'tool', results: [result('x', { error: true })] }],
      'tool_result_error messages[0].content[0].is_error'
    ],
    [
      [{ role: 'user', content: [told('x', { ...mark, content: [] })] }],
      [{ role: 'tool', results: [result('x', { parts: [], cache: mark.cache_control })] }],
      'cache_control messages[0].content[0].cache_control'
    ],
    [
      [
        {
          role: 'user',
          content: [told('x', { content: [{ type: 'image', source: { type: 'url', url: 'https://a.example' } }] })]
        }
      ],
      [
        {
          role: 'tool',
          results: [result('x', { parts: [{ type: 'image', source: { kind: 'url', url: 'https://a.example' } }] })]
        }
      ],
      'image_url messages[0].content[0].content[0].source',
      'tool_result_media messages[0].content[0].content'
    ]
  ] as [Json[], Json, ...string[]][])
    t.strictSame(turns('anthropic', messages), [made, seen], JSON.stringify(messages))
  t.strictSame(read('anthropic', { model: 'm' }).refused, 'missing_field messages')
  for (const system of ['a', [text('a')]])
    t.strictSame(turns('anthropic', [{ role: 'user', content: 'Hi' }], { system }), [
      [{ role: 'system', parts: [text('a')], developer: false }, hi],
      ['system']
    ])
  t.strictSame(turns('anthropic', [], { system: [{ type: 'image' }] })[0], 'invalid_field system[0].type')
  const named = turns('anthropic', [
    { role: 'assistant', content: [{ type: 'tool_use', id: 'x', name: 'f', input: {} }] },
    { role: 'user', content: [told('x')] }
  ])
  t.equal(named[0][1].results[0].name, 'f')
})

t.test('messages: what a turn holds is read with its sources and its marks', async (t) => {
  const blocks = (...content: Json[]): [Json, string[]] => {
    const [made, seen] = turns('anthropic', [{ role: 'user', content }])
    return [typeof made === 'string' ? made : made[0].parts, seen]
  }
  const at = 'messages[0].content[0]'
  const cache = mark.cache_control
  const inline = (media_type: string): Json => ({ type: 'base64', media_type, data: 'AAAA' })
  const image = { type: 'image', source: { kind: 'data', mimeType: 'image/png', data: 'AAAA' } }
  for (const [block, parts, ...seen] of [
    [{ ...text('a'), ...mark }, [{ ...text('a'), cache }], `cache_control ${at}.cache_control`],
    [{ ...text('a'), citations: [1] }, [text('a')], `hint ${at}.citations`],
    [{ type: 'image', source: inline('image/png') }, [image], `image ${at}.source`],
    [
      { type: 'image', source: { type: 'file', file_id: 'f' } },
      [{ type: 'image', source: { kind: 'stored', family: 'anthropic', id: 'f' } }],
      `stored_file ${at}.source`
    ],
    [{ type: 'image', source: { type: 'other' } }, `invalid_field ${at}.source.type`],
    [{ type: 'other' }, `unsupported_parameter ${at}`],
    [
      { type: 'search_result', title: 'a', source: 'b', content: [text('c'), {}] },
      [text('a\nb\nc')],
      `text_document ${at}`
    ],
    [
      { type: 'document', title: 'n', context: 'c', source: { type: 'text', media_type: 'text/plain', data: 'a' } },
      [{ type: 'document', source: { kind: 'data', mimeType: 'text/plain', data: 'YQ==' }, name: 'n' }],
      `hint ${at}.context`,
      `text_document ${at}.source`
    ],
    [{ type: 'document', source: { type: 'content', content: 'a' } }, [text('a')], `text_document ${at}.source`],
    [
      { type: 'document', title: 'n', source: { type: 'content', content: [text('a'), text('b')] }, ...mark },
      [text('n'), text('a'), { ...text('b'), cache }],
      `cache_control ${at}.cache_control`,
      `text_document ${at}.source`
    ],
    [
      { type: 'document', source: inline('application/pdf') },
      [{ type: 'document', source: { kind: 'data', mimeType: 'application/pdf', data: 'AAAA' } }],
      `document ${at}.source`
    ],
    [
      { type: 'document', source: { type: 'url', url: 'https://a.example' } },
      [{ type: 'document', source: { kind: 'url', url: 'https://a.example' } }],
      `document_url ${at}.source`
    ],
    [
      { type: 'document', source: { type: 'file', file_id: 'f' } },
      [{ type: 'document', source: { kind: 'stored', family: 'anthropic', id: 'f' } }],
      `stored_file ${at}.source`
    ]
  ] as [Json, Json, ...string[]][])
    t.strictSame(blocks(block), [parts, seen], JSON.stringify(block))
})

t.test('messages: what the model said is read with its thoughts, its calls and their signatures', async (t) => {
  const said = (...content: Json[]): [Json, string[]] => {
    const [made, seen] = turns('anthropic', [{ role: 'assistant', content }])
    return [typeof made === 'string' ? made : made[0].parts, seen]
  }
  const at = 'messages[0].content'
  const own = (kind: string): Json => ({ family: 'anthropic', kind, value: 's' })
  const use = { type: 'tool_use', id: 'a', name: 'f', input: { a: 1 } }
  const call = { type: 'tool_call', id: 'a', name: 'f', custom: false, input: '{"a":1}' }
  const ofCall = { type: 'thinking', thinking: '', signature: 'sluice1.gemini.call..s' }
  for (const [content, parts, ...seen] of [
    [[text('a')], [text('a')]],
    [
      [{ type: 'thinking', thinking: 'a', signature: 's' }],
      [{ type: 'reasoning', text: 'a', proof: own('signature') }],
      `reasoning_proof ${at}[0].thinking`
    ],
    [[{ type: 'thinking', thinking: 'a' }], [{ type: 'reasoning', text: 'a' }], `reasoning_replay ${at}[0].thinking`],
    [[{ type: 'thinking', thinking: '', signature: '' }], [], `reasoning_replay ${at}[0].thinking`],
    [
      [{ type: 'thinking', thinking: '', signature: 's' }],
      [{ type: 'reasoning', text: '', proof: own('signature') }],
      `reasoning_proof ${at}[0].thinking`
    ],
    [
      [{ type: 'redacted_thinking', data: 's', thinking: 'x' }],
      [{ type: 'reasoning', text: '', proof: own('redacted') }],
      `reasoning_proof ${at}[0].data`,
      `unknown ${at}[0].thinking`
    ],
    [[use], [call]],
    [[{ ...use, caller: { type: 'direct' } }], [call]],
    [
      [{ type: 'thinking', thinking: 'a', ...mark }],
      [{ type: 'reasoning', text: 'a' }],
      `cache_control ${at}[0].cache_control`,
      `reasoning_replay ${at}[0].thinking`
    ],
    [[{ ...use, input: null }], [{ ...call, input: '{}' }]],
    [[{ ...use, ...mark }], [{ ...call, cache: mark.cache_control }], `cache_control ${at}[0].cache_control`],
    [
      [ofCall, use, use],
      [{ ...call, proof: { family: 'gemini', kind: 'call', value: 's' } }, call],
      `reasoning_proof ${at}[0].thinking`
    ],
    [[{ type: 'server_tool_use' }], [], `server_tool ${at}[0]`],
    [[{ type: 'web_search_tool_result', ...mark }], [], `cache_control ${at}[0].cache_control`, `server_tool ${at}[0]`],
    [[{ type: 'other' }], `unsupported_parameter ${at}[0]`]
  ] as [Json[], Json, ...string[]][]) {
    const [made, noted] = said(...content)
    t.strictSame([made, noted], [parts, seen], JSON.stringify(content))
  }
})
