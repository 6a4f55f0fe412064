// What chats, Messages and Converse are sent for a request, member by member, and which of its features are left out.
import t from 'tap'
import { Losses } from '../../core/protocols/canonical/losses.ts'
import { emptyRequest } from '../../core/protocols/canonical/request.ts'
import type { ModelRequest } from '../../core/protocols/canonical/request.ts'
import { codecs, upstreamCodecs } from '../../core/protocols/translation/codecs.ts'
import { Asked as TranslatedRequest, Untranslatable } from '../../core/protocols/translation/translation.ts'
import type { Traits } from '../../core/protocols/translation/translation.ts'

type Json = any
type Asked = 'openai-chat' | 'anthropic' | 'bedrock'

/** Notes each feature that is dropped. */
class Noting extends Losses {
  readonly left: string[] = []

  override drop(...[feature]: Parameters<Losses['drop']>): void {
    this.left.push(feature)
  }
}

const hi: Json = { role: 'user', parts: [{ type: 'text', text: 'Hi' }] }

/** The body for a request that says Hi and has more members, and what is left out; or why it is refused. */
function written(name: Asked, more: Partial<ModelRequest> = {}, traits: Traits = {}): [Json, ...string[]] {
  const losses = new Noting('messages', {})
  const request = { ...emptyRequest('m', false), turns: [hi], ...more }
  try {
    const body = upstreamCodecs[name].encodeRequest(request, { model: 'up', traits }, losses)
    return [JSON.parse(JSON.stringify(body)), ...losses.left]
  } catch (error) {
    if (!(error instanceof Untranslatable)) throw error
    return [`${error.code} ${error.param}`]
  }
}

/** Some members of the body. */
const only = (body: Json, ...names: string[]): Json =>
  Object.fromEntries(names.filter((name) => name in body).map((name) => [name, body[name]]))

const text = (text: string): Json => ({ type: 'text', text })
const tool = (more: Json = {}): Json => ({
  name: 'f',
  description: undefined,
  parameters: undefined,
  strict: undefined,
  custom: false,
  ...more
})
const call = (id: string, more: Json = {}): Json => ({
  type: 'tool_call',
  id,
  name: 'f',
  custom: false,
  input: '{"a":1}',
  ...more
})
const result = (id: string, parts: Json[], more: Json = {}): Json => ({
  id,
  name: 'f',
  custom: false,
  parts,
  error: false,
  ...more
})
const inline = (mimeType: string, data = 'AAAA'): Json => ({ kind: 'data', mimeType, data })
const linked = { kind: 'url', url: 'https://a.example' }
const stored = { kind: 'stored', family: 'openai', id: 'f' }

/** What an upstream is sent for a request of Responses. */
const translated = (upstream: Asked, body: Json): Json =>
  new TranslatedRequest(codecs['openai-responses'], body, { model: 'm', streaming: false }).for(
    upstreamCodecs[upstream],
    { model: 'up', traits: {} }
  ).body

t.test('names of tools and ids of calls are sent as they are up to the length that the vendor takes', async (t) => {
  const sent = (upstream: Asked, name: string, id: string): string => {
    const input = [
      { role: 'user', content: 'Hi' },
      { type: 'function_call', call_id: id, name, arguments: '{}' },
      { type: 'function_call_output', call_id: id, output: 'r' }
    ]
    return JSON.stringify(translated(upstream, { input, tools: [{ type: 'function', name }] }))
  }
  for (const [upstream, longestName, longestId] of [
    ['openai-chat', 64, 40],
    ['anthropic', 64, 64],
    ['bedrock', 64, 64]
  ] as const) {
    const [name, id] = ['n'.repeat(longestName), 'i'.repeat(longestId)]
    const body = sent(upstream, name, id)
    t.ok(body.includes(`"${name}"`) && body.includes(`"${id}"`), upstream)
    t.notOk(sent(upstream, `${name}n`, 'i').includes(`${name}n`), `${upstream}: a longer name`)
    t.notOk(sent(upstream, 'n', `${id}i`).includes(`${id}i`), `${upstream}: a longer id`)
  }
})

t.test('a tool that takes free text is one with an argument', async (t) => {
  const body = { input: 'Hi', tools: [{ type: 'custom', name: 'g' }] }
  const schema = { type: 'object', required: ['input'] }
  t.match(translated('openai-chat', body).tools[0].function, { name: 'g', parameters: schema })
  t.match(translated('anthropic', body).tools[0], { name: 'g', input_schema: schema })
  t.match(translated('bedrock', body).toolConfig.tools[0].toolSpec, { name: 'g', inputSchema: { json: schema } })
})

t.test('chat: settings stand in the members of the vendor, and only those that are given', async (t) => {
  const messages = [{ role: 'user', content: 'Hi' }]
  for (const [request, traits, more] of [
    [{}, {}, {}],
    [{ streaming: true }, {}, { stream: true, stream_options: { include_usage: true } }],
    [{ streaming: true }, { streamOptions: false }, { stream: true }],
    [{ maxOutputTokens: 5 }, {}, { max_completion_tokens: 5 }],
    [{ maxOutputTokens: 5 }, { maxTokensMember: 'max_tokens' }, { max_tokens: 5 }],
    [{ temperature: 0, user: 'u' }, {}, { temperature: 0, user: 'u' }],
    [{ stop: ['a', 'b', 'c', 'd'] }, {}, { stop: ['a', 'b', 'c', 'd'] }],
    [{ logprobs: 0 }, {}, { logprobs: true }],
    [{ logprobs: 1 }, {}, { logprobs: true, top_logprobs: 1 }],
    [{ reasoning: { effort: 'low' } }, {}, { reasoning_effort: 'low' }],
    [{ reasoning: { tokens: 50 }, maxOutputTokens: 100 }, {}, { max_completion_tokens: 100, reasoning_effort: 'high' }],
    [{ reasoning: { tokens: 50 } }, { maxOutputTokens: 100 }, { reasoning_effort: 'high' }],
    [{ toolChoice: { mode: 'auto' }, parallelToolCalls: false }, {}, {}],
    [
      { format: { type: 'json_object' }, turns: [{ ...hi, parts: [text('JSON')] }] },
      {},
      { response_format: { type: 'json_object' } }
    ],
    [
      { format: { type: 'json_schema', name: 'n', schema: {} } },
      {},
      { response_format: { type: 'json_schema', json_schema: { name: 'n', schema: {} } } }
    ],
    [
      { format: { type: 'json_schema', name: 'n', description: 'd', schema: {}, strict: false } },
      {},
      {
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'n', description: 'd', schema: {}, strict: false }
        }
      }
    ]
  ] as [Json, Traits, Json][]) {
    const { messages: made, ...body } = written('openai-chat', request, traits)[0]
    t.strictSame(body, { model: 'up', ...more }, JSON.stringify(request))
    if (!request.turns) t.strictSame(made, messages)
  }
  t.strictSame(written('openai-chat', { stop: ['a', 'b', 'c', 'd', 'e'] }), ['unsupported_parameter stop'])
})

t.test('chat: tools are functions, and only those that may be called', async (t) => {
  const tools = (tools: Json[], more: Json = {}): Json =>
    only(written('openai-chat', { tools, ...more })[0], 'tools', 'tool_choice', 'parallel_tool_calls')
  const fn = (more: Json = {}): Json => ({
    type: 'function',
    function: { name: 'f', parameters: { type: 'object', properties: {} }, ...more }
  })
  t.strictSame(tools([tool()]), { tools: [fn()] })
  t.strictSame(tools([tool({ description: '', parameters: { a: 1 }, strict: false })]), {
    tools: [fn({ description: '', parameters: { a: 1 }, strict: false })]
  })
  t.strictSame(tools([tool()], { toolChoice: { mode: 'required' }, parallelToolCalls: false }), {
    tools: [fn()],
    tool_choice: 'required',
    parallel_tool_calls: false
  })
  t.strictSame(tools([tool()], { toolChoice: { mode: 'named', name: 'f' } }).tool_choice, {
    type: 'function',
    function: { name: 'f' }
  })
  t.strictSame(tools([tool(), tool({ name: 'g' })], { toolChoice: { mode: 'auto', allowed: ['f'] } }), {
    tools: [fn()],
    tool_choice: 'auto'
  })
})

t.test('chat: every turn is a message of its role', async (t) => {
  const messages = (turns: Json[], traits: Traits = {}): [Json, ...string[]] => {
    const [body, ...left] = written('openai-chat', { turns }, traits)
    return [typeof body === 'string' ? body : body.messages, ...left]
  }
  const system = (developer: boolean): Json => ({ role: 'system', parts: [text('a'), text(''), text('b')], developer })
  t.strictSame(messages([system(true), system(false)], { developerRole: true })[0], [
    { role: 'developer', content: 'a\n\nb' },
    { role: 'system', content: 'a\n\nb' }
  ])
  t.strictSame(messages([system(true)])[0], [{ role: 'system', content: 'a\n\nb' }])
  const user = (...parts: Json[]): Json => messages([{ role: 'user', parts }])[0]
  const content = (...parts: Json[]): Json => user(...parts)[0].content
  t.strictSame(content(text('a'), text(''), text('b')), 'a\n\nb')
  const image = { type: 'image_url', image_url: { url: 'https://a.example' } }
  t.strictSame(content(text('a'), text(''), { type: 'image', source: linked }), [text('a'), image])
  t.strictSame(content({ type: 'image', source: inline('image/png'), detail: 'low' }), [
    { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', detail: 'low' } }
  ])
  for (const [type, format] of [
    ['wav', 'wav'],
    ['x-wav', 'wav'],
    ['wave', 'wav'],
    ['mp3', 'mp3'],
    ['mpeg', 'mp3']
  ])
    t.strictSame(content({ type: 'audio', source: inline(`audio/${type}`) }), [
      { type: 'input_audio', input_audio: { data: 'AAAA', format } }
    ])
  t.strictSame(user({ type: 'audio', source: inline('audio/ogg') }), 'unsupported_parameter audio')
  t.strictSame(user({ type: 'image', source: stored }), 'unsupported_parameter stored_file')
  t.strictSame(user({ type: 'document', source: stored }), 'unsupported_parameter stored_file')
  t.strictSame(user({ type: 'document', source: linked }), 'unsupported_parameter document_url')
  t.strictSame(content({ type: 'document', source: inline('text/csv', 'YQ=='), name: 'n' }), 'n\na')
  t.strictSame(content({ type: 'document', source: inline('application/pdf'), name: 'n' }), [
    { type: 'file', file: { filename: 'n.pdf', file_data: 'data:application/pdf;base64,AAAA' } }
  ])
  const said = (parts: Json[], traits: Traits = {}): [Json, ...string[]] => {
    const [made, ...left] = messages([{ role: 'assistant', parts }], traits)
    return [made[0], ...left]
  }
  const fn = (id: string, args = '{"a":1}'): Json => ({
    id,
    type: 'function',
    function: { name: 'f', arguments: args }
  })
  for (const [parts, message, ...left] of [
    [[], { content: '' }],
    [[text('a'), text('b')], { content: 'ab' }],
    [[call('a')], { content: null, tool_calls: [fn('a')] }],
    [[text('a'), call('a'), call('b', { input: '' })], { content: 'a', tool_calls: [fn('a'), fn('b', '{}')] }],
    [[{ type: 'refusal', text: 'No.' }], { content: null, refusal: 'No.' }],
    [[{ type: 'reasoning', text: 'a' }], { content: '' }, 'reasoning_replay'],
    [[{ type: 'reasoning', text: '' }], { content: '' }]
  ] as [Json[], Json, ...string[]][])
    t.strictSame(said(parts), [{ role: 'assistant', ...message }, ...left], JSON.stringify(parts))
  t.strictSame(said([{ type: 'reasoning', text: 'a' }], { replaysReasoning: true }), [
    { role: 'assistant', content: '', reasoning_content: 'a' }
  ])
  const results = [result('a', [text('r')]), result('b', [text('r')], { error: true })]
  t.strictSame(messages([{ role: 'tool', results }])[0], [
    { role: 'tool', tool_call_id: 'a', content: 'r' },
    { role: 'tool', tool_call_id: 'b', content: 'Error: r' }
  ])
})

const cache = { type: 'ephemeral' }
const mark = { cache_control: cache }
const dropped = ['temperature', 'top_p', 'top_k']

t.test('messages: settings stand in the members of the vendor, and only those that are given', async (t) => {
  for (const [request, traits, more, ...left] of [
    [{}, {}, { max_tokens: 8192 }, ...dropped, 'service_tier'],
    [{}, { maxOutputTokens: 100 }, { max_tokens: 100 }, ...dropped, 'service_tier'],
    [{ maxOutputTokens: 5 }, { maxOutputTokens: 100 }, { max_tokens: 5 }, ...dropped, 'service_tier'],
    [{ streaming: true }, {}, { max_tokens: 8192, stream: true }, ...dropped, 'service_tier'],
    [{ serviceTier: 'default' }, {}, { max_tokens: 8192, service_tier: 'standard_only' }, ...dropped],
    [{ serviceTier: 'flex' }, {}, { max_tokens: 8192 }, ...dropped, 'service_tier'],
    [
      { user: 'u', safetyIdentifier: 's' },
      {},
      { max_tokens: 8192, metadata: { user_id: 'u' } },
      ...dropped,
      'service_tier'
    ],
    [{ safetyIdentifier: 's' }, {}, { max_tokens: 8192, metadata: { user_id: 's' } }, ...dropped, 'service_tier'],
    [{ stop: ['a', '\n'] }, {}, { max_tokens: 8192, stop_sequences: ['a'] }, ...dropped, 'stop', 'service_tier'],
    [{ stop: ['a'] }, {}, { max_tokens: 8192, stop_sequences: ['a'] }, ...dropped, 'service_tier'],
    [{ stop: [' '] }, {}, { max_tokens: 8192 }, ...dropped, 'stop', 'service_tier'],
    [{ cache }, {}, { max_tokens: 8192, ...mark }, ...dropped, 'service_tier']
  ] as [Json, Traits, Json, ...string[]][]) {
    const [{ messages: _messages, ...body }, ...noted] = written('anthropic', request, traits)
    t.strictSame([body, ...noted], [{ model: 'up', ...more }, ...left], JSON.stringify(request))
  }
  const format = (schema: Json): Json => written('anthropic', { format: { type: 'json_schema', schema } as never })[0]
  t.match(format({ type: 'object', properties: {} }).output_config, {
    format: { type: 'json_schema', schema: { additionalProperties: false } }
  })
  t.strictSame(
    format({ type: 'object', additionalProperties: { type: 'string' } }),
    'unsupported_parameter json_schema'
  )
  const both = {
    format: { type: 'json_schema', schema: { type: 'object', properties: {} } },
    reasoning: { effort: 'low' }
  }
  t.match(written('anthropic', both as never)[0].output_config, { effort: 'low', format: {} })
})

t.test('messages: how far words may stray depends on the model, and on whether it thinks', async (t) => {
  const sampled = (request: Json, traits: Traits = {}): Json => {
    const [body, ...left] = written('anthropic', request, traits)
    return [only(body, 'temperature', 'top_p', 'top_k'), ...left.filter((name) => dropped.includes(name))]
  }
  const all = { temperature: 1.5, topP: 0.5, topK: 3 }
  t.strictSame(sampled(all), [{ temperature: 1, top_k: 3 }, 'top_p'])
  t.strictSame(sampled({ topP: 0.5 }), [{ top_p: 0.5 }, 'temperature', 'top_k'])
  t.strictSame(sampled({ temperature: 0.5 }), [{ temperature: 0.5 }, 'top_p', 'top_k'])
  t.strictSame(sampled(all, { sampling: 'both' }), [{ temperature: 1, top_p: 0.5, top_k: 3 }])
  t.strictSame(sampled(all, { sampling: 'none' }), [{}, ...dropped])
  t.strictSame(sampled({ ...all, reasoning: { effort: 'low' } }), [{}, ...dropped])
  t.strictSame(sampled({ ...all, reasoning: { effort: 'none' } }), [{ temperature: 1, top_k: 3 }, 'top_p'])
  t.strictSame(sampled(all, { thinking: 'budget' }), [{ temperature: 1, top_k: 3 }, 'top_p'])
})

t.test('messages: how much is thought is an effort or a budget, as the model takes it', async (t) => {
  const thought = (request: Json, traits: Traits = {}): Json => {
    const [body, ...left] = written('anthropic', request, traits)
    const noted = left.filter((name) => name.startsWith('reasoning'))
    return typeof body === 'string' ? body : [only(body, 'thinking', 'output_config'), ...noted]
  }
  const adaptive = (display: string): Json => ({ type: 'adaptive', display })
  for (const [reasoning, made] of [
    [{}, {}],
    [{ visible: false }, {}],
    [{ visible: true }, { thinking: adaptive('summarized') }],
    [{ effort: 'low' }, { thinking: adaptive('summarized'), output_config: { effort: 'low' } }],
    [
      { effort: 'minimal', visible: false },
      { thinking: adaptive('omitted'), output_config: { effort: 'low' } }
    ],
    [{ effort: 'none' }, { thinking: { type: 'disabled' } }],
    [{ tokens: 5000 }, { thinking: adaptive('summarized'), output_config: { effort: 'medium' } }]
  ] as [Json, Json][])
    t.strictSame(thought({ reasoning, maxOutputTokens: 20_000 }), [made], JSON.stringify(reasoning))
  t.strictSame(thought({ reasoning: { tokens: 500 } }, { maxOutputTokens: 1000 })[0].output_config, { effort: 'high' })
  t.strictSame(thought({ reasoning: { effort: 'other' } }), 'invalid_field reasoning_effort')
  const forced = { tools: [tool()], toolChoice: { mode: 'required' } }
  t.strictSame(thought({ reasoning: { effort: 'low' }, ...forced }), [{ output_config: { effort: 'low' } }])
  const named = { tools: [tool()], toolChoice: { mode: 'named', name: 'f' } }
  t.strictSame(thought({ reasoning: { visible: true }, ...named }), [{}])
  const enabled = (budget_tokens: number, more: Json = {}): Json => ({
    thinking: { type: 'enabled', budget_tokens, ...more }
  })
  const lost = ['reasoning_effort', 'reasoning_budget']
  for (const [request, made, ...left] of [
    [{}, {}],
    [{ reasoning: { effort: 'none' } }, { thinking: { type: 'disabled' } }],
    [{ reasoning: { tokens: 2000 } }, enabled(2000)],
    [{ reasoning: { tokens: 10 } }, enabled(1024)],
    [{ reasoning: { tokens: 9000 } }, enabled(3999)],
    [{ reasoning: { tokens: 2000, visible: true } }, enabled(2000, { display: 'summarized' })],
    [{ reasoning: { tokens: 2000, visible: false } }, enabled(2000, { display: 'omitted' })],
    [{ reasoning: { effort: 'medium' } }, enabled(1200)],
    [{ reasoning: { tokens: 2000 }, maxOutputTokens: 1025 }, enabled(1024)],
    [{ reasoning: { tokens: 2000 }, maxOutputTokens: 1024 }, {}, ...lost],
    [{ reasoning: { tokens: 2000 }, ...forced }, {}, ...lost],
    [{ reasoning: { tokens: 2000 }, ...named }, {}, ...lost]
  ] as [Json, Json, ...string[]][])
    t.strictSame(
      thought({ maxOutputTokens: 4000, ...request }, { thinking: 'budget' }),
      [made, ...left],
      JSON.stringify(request)
    )
  const signed = { type: 'reasoning', text: 'a', proof: { family: 'anthropic', kind: 'signature', value: 's' } }
  const redacted = { type: 'reasoning', text: '', proof: { family: 'anthropic', kind: 'redacted', value: 's' } }
  const told: Json = { role: 'tool', results: [result('a', [text('r')])] }
  for (const [turns, thinks] of [
    [[hi, { role: 'assistant', parts: [signed, call('a')] }, told], true],
    [[hi, { role: 'assistant', parts: [redacted, call('a')] }, told], true],
    [[hi, { role: 'assistant', parts: [call('a')] }, told], false],
    [[hi, { role: 'assistant', parts: [text('b'), call('a')] }, told], false],
    [[hi, { role: 'assistant', parts: [call('a')] }, told, hi], false],
    [[hi, { role: 'assistant', parts: [call('a')] }, told, { role: 'assistant', parts: [text('b')] }, hi], true],
    [[hi, { role: 'assistant', parts: [text('b')] }, hi], true]
  ] as [Json[], boolean][])
    t.equal(
      'thinking' in thought({ turns, reasoning: { tokens: 2000 } }, { thinking: 'budget' })[0],
      thinks,
      JSON.stringify(turns)
    )
})

t.test('messages: tools have their schemas, closed where they are strict', async (t) => {
  const tools = (tools: Json[], more: Json = {}): Json => {
    const [body, ...left] = written('anthropic', { tools, ...more })
    return [only(body, 'tools', 'tool_choice'), ...left.filter((name) => name.startsWith('tool'))]
  }
  const bare = { name: 'f', input_schema: { type: 'object', properties: {} } }
  t.strictSame(tools([]), [{}])
  t.strictSame(tools([tool({ description: '' })]), [{ tools: [bare] }])
  t.strictSame(tools([tool({ description: 'd', cache })]), [{ tools: [{ ...bare, description: 'd', ...mark }] }])
  t.match(tools([tool({ strict: true })]), [
    { tools: [{ strict: true, input_schema: { additionalProperties: false } }] }
  ])
  const open = { type: 'object', additionalProperties: { type: 'string' } }
  t.strictSame(tools([tool({ strict: true, parameters: open })]), [
    { tools: [{ name: 'f', input_schema: open }] },
    'tool_strict'
  ])
  t.strictSame(tools([tool({ strict: false, parameters: open })]), [{ tools: [{ name: 'f', input_schema: open }] }])
  const one = { disable_parallel_tool_use: true }
  for (const [toolChoice, parallelToolCalls, tool_choice] of [
    [undefined, undefined, undefined],
    [undefined, true, undefined],
    [undefined, false, { type: 'auto', ...one }],
    [{ mode: 'auto' }, undefined, { type: 'auto' }],
    [{ mode: 'none' }, false, { type: 'none' }],
    [{ mode: 'required' }, undefined, { type: 'any' }],
    [{ mode: 'required' }, false, { type: 'any', ...one }],
    [{ mode: 'named', name: 'f' }, false, { type: 'tool', name: 'f', ...one }]
  ] as const)
    t.strictSame(tools([tool()], { toolChoice, parallelToolCalls })[0].tool_choice, tool_choice)
})

t.test('messages: every turn is blocks of its role, and roles alternate', async (t) => {
  const conversation = (turns: Json[], more: Json = {}): Json => {
    const [body, ...left] = written('anthropic', { turns, ...more })
    if (typeof body === 'string') return body
    return [body.system, body.messages, ...left.filter((name) => name.startsWith('reasoning'))]
  }
  const system: Json = { role: 'system', parts: [text('a'), text(' '), { ...text('b'), cache }], developer: false }
  const user = (...content: Json[]): Json => ({ role: 'user', content })
  const marked = { ...text('b'), ...mark }
  t.strictSame(conversation([system, hi]), [[text('a'), marked], [user(text('Hi'))]])
  t.strictSame(conversation([hi, system, hi]), [undefined, [user(text('Hi'), text('a'), marked, text('Hi'))]])
  t.match(conversation([hi], { format: { type: 'json_object' } })[0], [{ type: 'text', text: /JSON/ }])
  t.strictSame(conversation([]), 'invalid_field messages')
  t.strictSame(conversation([{ role: 'assistant', parts: [text('a')] }, hi]), 'invalid_field messages')
  const said = (...parts: Json[]): Json => {
    const made = conversation([hi, { role: 'assistant', parts }, hi])
    return typeof made === 'string' ? made : [made[1].slice(1, -1)[0]?.content, ...made.slice(2)]
  }
  const proof = (family: string, kind: string): Json => ({ family, kind, value: 's' })
  for (const [part, block, ...left] of [
    [text(' '), undefined],
    [text('a'), text('a')],
    [{ type: 'refusal', text: 'No.' }, text('No.')],
    [{ type: 'reasoning', text: 'a' }, undefined, 'reasoning_replay'],
    [{ type: 'reasoning', text: 'a', proof: proof('gemini', 'signature') }, undefined, 'reasoning_proof'],
    [
      { type: 'reasoning', text: 'a', proof: proof('anthropic', 'signature') },
      { type: 'thinking', thinking: 'a', signature: 's' }
    ],
    [
      { type: 'reasoning', text: '', proof: proof('anthropic', 'redacted') },
      { type: 'redacted_thinking', data: 's' }
    ],
    [call('a', { cache }), { type: 'tool_use', id: 'a', name: 'f', input: { a: 1 }, ...mark }]
  ] as [Json, Json, ...string[]][])
    t.strictSame(said(part), [block && [block], ...left], JSON.stringify(part))
  t.strictSame(said(call('a', { input: '[1]' })), 'invalid_field messages')
  t.strictSame(conversation([{ ...hi, parts: [text('a ')] }])[1], [user(text('a '))], 'what the user says stays')
  const made = { role: 'assistant', parts: [{ type: 'image', source: inline('image/png') }] }
  t.match(conversation([hi, made, hi])[1], [{ content: [text('Hi'), {}, { type: 'image' }, text('Hi')] }])
  const last = conversation([hi, { role: 'assistant', parts: [text('a '), text('b \n')] }])[1][1]
  t.strictSame(last.content, [text('a '), text('b')], 'white space at the end is refused')
  const called = conversation([hi, { role: 'assistant', parts: [text('b '), call('a')] }])[1][1]
  t.strictSame(called.content[0], text('b '))
  const results = [result('a', [text('r')], { cache }), result('b', [], { error: true })]
  t.strictSame(conversation([{ role: 'tool', results }, hi])[1], [
    user(
      { type: 'tool_result', tool_use_id: 'a', content: [text('r')], ...mark },
      { type: 'tool_result', tool_use_id: 'b', content: [], is_error: true },
      text('Hi')
    )
  ])
  const block = (part: Json): Json => conversation([{ role: 'user', parts: [part] }])[1][0].content[0]
  t.strictSame(block({ type: 'image', source: inline('image/png'), name: 'n', cache }), {
    type: 'image',
    source: { type: 'base64', media_type: 'image/png', data: 'AAAA' },
    ...mark
  })
  t.strictSame(block({ type: 'image', source: linked }), {
    type: 'image',
    source: { type: 'url', url: 'https://a.example' }
  })
  t.strictSame(block({ type: 'document', source: stored, name: 'n', cache }), {
    type: 'document',
    source: { type: 'file', file_id: 'f' },
    title: 'n',
    ...mark
  })
  t.strictSame(block({ type: 'document', source: inline('text/csv', 'YQ=='), name: 'n', cache }), {
    type: 'document',
    source: { type: 'text', media_type: 'text/plain', data: 'a' },
    title: 'n',
    ...mark
  })
  t.strictSame(block({ type: 'document', source: inline('application/pdf') }), {
    type: 'document',
    source: { type: 'base64', media_type: 'application/pdf', data: 'AAAA' }
  })
})

t.test('converse: settings stand where the vendor has them, and only those that are given', async (t) => {
  const messages = [{ role: 'user', content: [{ text: 'Hi' }] }]
  const usual = ['temperature', 'top_p', 'service_tier']
  for (const [request, traits, more, ...left] of [
    [{}, {}, {}, ...usual],
    [{ streaming: true, maxOutputTokens: 5 }, {}, { inferenceConfig: { maxTokens: 5 } }, ...usual],
    [
      { stop: ['a', ' '] },
      {},
      { inferenceConfig: { stopSequences: ['a'] } },
      'temperature',
      'top_p',
      'stop',
      'service_tier'
    ],
    [{ stop: [' '] }, {}, {}, 'temperature', 'top_p', 'stop', 'service_tier'],
    [{ temperature: 1.5, topP: 0.5 }, {}, { inferenceConfig: { temperature: 1 } }, 'top_p', 'service_tier'],
    [{ topP: 0.5 }, {}, { inferenceConfig: { topP: 0.5 } }, 'temperature', 'service_tier'],
    [
      { temperature: 0.5, topP: 0.5 },
      { sampling: 'both' },
      { inferenceConfig: { temperature: 0.5, topP: 0.5 } },
      'service_tier'
    ],
    [{ temperature: 0.5, topP: 0.5 }, { sampling: 'none' }, {}, ...usual],
    [{ temperature: 0.5 }, { thinking: 'budget' }, { inferenceConfig: { temperature: 0.5 } }, 'top_p', 'service_tier'],
    [{ serviceTier: 'flex' }, {}, { serviceTier: { type: 'flex' } }, 'temperature', 'top_p'],
    [{ serviceTier: 'other' }, {}, {}, ...usual],
    [
      {},
      { guardrail: 'arn:a:b:3' },
      { guardrailConfig: { guardrailIdentifier: 'arn:a:b', guardrailVersion: '3' } },
      ...usual
    ],
    [{ metadata: { a: 'b' } }, {}, { requestMetadata: { a: 'b' } }, ...usual],
    [{ metadata: { a: 1 } }, {}, {}, ...usual, 'metadata'],
    [{ metadata: { a: 1, b: 'c' } }, {}, { requestMetadata: { b: 'c' } }, ...usual, 'metadata']
  ] as [Json, Traits, Json, ...string[]][])
    t.strictSame(written('bedrock', request, traits), [{ messages, ...more }, ...left], JSON.stringify(request))
  const schema = { type: 'object', properties: {} }
  const format = (more: Json): Json => written('bedrock', { format: { type: 'json_schema', name: 'n', ...more } })[0]
  const closed = JSON.stringify({ ...schema, additionalProperties: false })
  t.strictSame(format({ schema, description: '' }).outputConfig, {
    textFormat: { type: 'json_schema', structure: { jsonSchema: { schema: closed, name: 'n' } } }
  })
  t.equal(format({ schema, description: 'd' }).outputConfig.textFormat.structure.jsonSchema.description, 'd')
  t.strictSame(
    format({ schema: { type: 'object', additionalProperties: schema } }),
    'unsupported_parameter json_schema'
  )
  const both = { format: { type: 'json_schema', name: 'n', schema }, reasoning: { effort: 'low' } }
  t.match(written('bedrock', both as never)[0].outputConfig, { effort: 'low', textFormat: {} })
})

t.test('converse: how much is thought is an effort or a budget, as the model takes it', async (t) => {
  const thought = (request: Json, traits: Traits = {}): Json => {
    const [body, ...left] = written('bedrock', request, traits)
    if (typeof body === 'string') return body
    const { messages: _messages, toolConfig: _tools, ...rest } = body
    return [rest, ...left.filter((name) => name.startsWith('reasoning'))]
  }
  t.strictSame(thought({ reasoning: { effort: 'other' } }), 'invalid_field reasoning_effort')
  for (const [effort, made] of [
    ['minimal', 'low'],
    ['low', 'low'],
    ['max', 'max']
  ])
    t.strictSame(thought({ reasoning: { effort } }), [{ outputConfig: { effort: made } }])
  t.strictSame(thought({ reasoning: { effort: 'none' } }), [{}])
  t.strictSame(thought({ reasoning: { tokens: 50 }, maxOutputTokens: 100 })[0].outputConfig, { effort: 'high' })
  t.strictSame(thought({ reasoning: { tokens: 50 } }, { maxOutputTokens: 100 })[0].outputConfig, { effort: 'high' })
  const enabled = (budget_tokens: number, maxTokens: number): Json => ({
    inferenceConfig: { maxTokens },
    additionalModelRequestFields: { thinking: { type: 'enabled', budget_tokens } }
  })
  const lost = ['reasoning_effort', 'reasoning_budget']
  const tools = [tool()]
  for (const [request, traits, made, ...left] of [
    [{}, {}, {}],
    [{ reasoning: { effort: 'none' } }, {}, {}],
    [{ reasoning: { tokens: 2000 } }, {}, enabled(2000, 8192)],
    [{ reasoning: { tokens: 5000 } }, {}, enabled(5000, 10_000)],
    [{ reasoning: { tokens: 10 } }, {}, enabled(1024, 8192)],
    [{ reasoning: { tokens: 9000 }, maxOutputTokens: 4000 }, {}, enabled(3999, 4000)],
    [{ reasoning: { tokens: 2000 } }, { maxOutputTokens: 3000 }, enabled(2000, 3000)],
    [{ reasoning: { tokens: 2000 }, maxOutputTokens: 1025 }, {}, enabled(1024, 1025)],
    [{ reasoning: { tokens: 2000 }, maxOutputTokens: 1024 }, {}, { inferenceConfig: { maxTokens: 1024 } }, ...lost],
    [{ reasoning: { tokens: 2000 }, tools, toolChoice: { mode: 'required' } }, {}, {}, ...lost],
    [{ reasoning: { tokens: 2000 }, tools, toolChoice: { mode: 'named', name: 'f' } }, {}, {}, ...lost],
    [{ reasoning: { tokens: 2000 }, tools, toolChoice: { mode: 'auto' } }, {}, enabled(2000, 8192)]
  ] as [Json, Traits, Json, ...string[]][])
    t.strictSame(thought(request, { thinking: 'budget', ...traits }), [made, ...left], JSON.stringify(request))
  const sampled = (request: Json, traits: Traits = {}): Json =>
    written('bedrock', { temperature: 0.5, ...request }, traits)[0].inferenceConfig?.temperature
  t.equal(sampled({ reasoning: { tokens: 2000 } }, { thinking: 'budget' }), undefined)
  t.equal(sampled({ reasoning: { tokens: 2000 }, maxOutputTokens: 5 }, { thinking: 'budget' }), 0.5)
  t.equal(sampled({ reasoning: { effort: 'low' } }), undefined)
  t.equal(sampled({ reasoning: { effort: 'none' } }), 0.5)
  const signed = { type: 'reasoning', text: 'a', proof: { family: 'bedrock', kind: 'signature', value: 's' } }
  const told: Json = { role: 'tool', results: [result('a', [text('r')])] }
  for (const [turns, thinks] of [
    [[hi, { role: 'assistant', parts: [signed, call('a')] }, told], true],
    [[hi, { role: 'assistant', parts: [call('a')] }, told], false],
    [[hi, { role: 'assistant', parts: [text('b'), call('a')] }, told], false],
    [[hi, { role: 'assistant', parts: [call('a')] }, told, hi], false],
    [[hi, { role: 'assistant', parts: [call('a')] }, told, { role: 'assistant', parts: [text('b')] }, hi], true],
    [[hi, { role: 'assistant', parts: [text('b')] }, hi], true]
  ] as [Json[], boolean][])
    t.equal(
      'additionalModelRequestFields' in thought({ turns, reasoning: { tokens: 2000 } }, { thinking: 'budget' })[0],
      thinks,
      JSON.stringify(turns)
    )
})

t.test('converse: tools have their schemas, and are only named where none may be called', async (t) => {
  const tools = (tools: Json[], more: Json = {}): Json => {
    const [body, ...left] = written('bedrock', { tools, ...more })
    return [body.toolConfig, body.system, ...left.filter((name) => name.startsWith('tool'))]
  }
  const spec = (more: Json = {}, json: Json = { type: 'object', properties: {} }): Json => ({
    toolSpec: { name: 'f', inputSchema: { json }, ...more }
  })
  t.strictSame(tools([]), [undefined, undefined])
  t.strictSame(tools([tool({ description: '' })]), [{ tools: [spec()] }, undefined])
  t.strictSame(tools([tool({ description: 'd', cache })])[0], {
    tools: [spec({ description: 'd' }), { cachePoint: { type: 'default' } }]
  })
  t.match(tools([tool({ strict: true })])[0].tools[0].toolSpec, {
    strict: true,
    inputSchema: { json: { additionalProperties: false } }
  })
  const open = { type: 'object', additionalProperties: { type: 'string' } }
  t.strictSame(tools([tool({ strict: true, parameters: open })]), [
    { tools: [spec({}, open)] },
    undefined,
    'tool_strict'
  ])
  t.strictSame(tools([tool({ strict: false, parameters: open })]), [{ tools: [spec({}, open)] }, undefined])
  for (const [toolChoice, choice] of [
    [undefined, undefined],
    [{ mode: 'auto' }, { auto: {} }],
    [{ mode: 'required' }, { any: {} }],
    [{ mode: 'named', name: 'f' }, { tool: { name: 'f' } }]
  ] as const)
    t.strictSame(tools([tool()], { toolChoice })[0].toolChoice, choice)
  t.strictSame(tools([tool()], { toolChoice: { mode: 'none' } }), [undefined, undefined])
  const turns = [hi, { role: 'assistant', parts: [text('a'), call('a')] }, { role: 'tool', results: [result('a', [])] }]
  const nothing = [{ text: 'Do not call any tool.' }]
  t.strictSame(tools([tool({ description: 'd' }), tool({ name: 'g' })], { turns, toolChoice: { mode: 'none' } }), [
    { tools: [spec({ description: 'd' })] },
    nothing
  ])
  t.strictSame(tools([], { turns }), [{ tools: [spec()] }, nothing])
})

t.test('converse: every turn is blocks of its role, and roles alternate', async (t) => {
  const conversation = (turns: Json[], more: Json = {}): Json => {
    const [body, ...left] = written('bedrock', { turns, ...more })
    if (typeof body === 'string') return body
    return [body.system, body.messages, ...left.filter((name) => name.startsWith('reasoning'))]
  }
  const point = { cachePoint: { type: 'default' } }
  const system: Json = { role: 'system', parts: [text('a'), text(' '), { ...text('b'), cache }], developer: false }
  const user = (...content: Json[]): Json => ({ role: 'user', content })
  t.strictSame(conversation([system, hi]), [[{ text: 'a' }, { text: 'b' }, point], [user({ text: 'Hi' })]])
  t.strictSame(conversation([hi, system, hi])[1], [
    user({ text: 'Hi' }, { text: 'a' }, { text: 'b' }, point, { text: 'Hi' })
  ])
  t.match(conversation([hi], { format: { type: 'json_object' } })[0], [{ text: /JSON/ }])
  t.strictSame(conversation([]), 'invalid_field messages')
  t.strictSame(conversation([{ role: 'assistant', parts: [text('a')] }, hi]), 'invalid_field messages')
  for (const [ttl, kept] of [
    ['5m', { ttl: '5m' }],
    ['1h', { ttl: '1h' }],
    ['2h', {}],
    [undefined, {}]
  ] as const)
    t.strictSame(conversation([hi], { cache: { type: 'ephemeral', ttl } })[1], [
      user({ text: 'Hi' }, { cachePoint: { type: 'default', ...kept } })
    ])
  const said = (...parts: Json[]): Json => {
    const made = conversation([hi, { role: 'assistant', parts }, hi])
    return typeof made === 'string' ? made : [made[1].slice(1, -1)[0]?.content, ...made.slice(2)]
  }
  const proof = (family: string, kind: string): Json => ({ family, kind, value: 's' })
  for (const [part, blocks, ...left] of [
    [text(' '), undefined],
    [{ ...text('a'), cache }, [{ text: 'a' }, point]],
    [{ type: 'refusal', text: 'No.' }, [{ text: 'No.' }]],
    [{ type: 'reasoning', text: 'a' }, undefined, 'reasoning_replay'],
    [{ type: 'reasoning', text: 'a', proof: proof('anthropic', 'signature') }, undefined, 'reasoning_proof'],
    [
      { type: 'reasoning', text: 'a', proof: proof('bedrock', 'signature') },
      [{ reasoningContent: { reasoningText: { text: 'a', signature: 's' } } }]
    ],
    [
      { type: 'reasoning', text: '', proof: proof('bedrock', 'redacted') },
      [{ reasoningContent: { redactedContent: 's' } }]
    ],
    [call('a', { cache }), [{ toolUse: { toolUseId: 'a', name: 'f', input: { a: 1 } } }, point]]
  ] as [Json, Json, ...string[]][])
    t.strictSame(said(part), [blocks, ...left], JSON.stringify(part))
  t.strictSame(said(call('a', { input: '[1]' })), 'invalid_field messages')
  const ends = (...parts: Json[]): Json => conversation([hi, { role: 'assistant', parts }])[1][1].content
  t.strictSame(ends(text('a '), { ...text('b \n'), cache }), [{ text: 'a ' }, { text: 'b' }, point])
  t.strictSame(ends(text('a '), call('a'))[0], { text: 'a ' })
  t.strictSame(conversation([{ ...hi, parts: [text('a ')] }])[1], [user({ text: 'a ' })], 'what the user says stays')
  t.strictSame(conversation([{ ...hi, parts: [{ ...text('a'), cache }] }])[1], [user({ text: 'a' }, point)])
  const made = { role: 'assistant', parts: [{ type: 'image', source: inline('image/png') }] }
  t.match(conversation([hi, made, hi])[1], [{ content: [{ text: 'Hi' }, {}, { image: {} }, { text: 'Hi' }] }])
  const results = [
    result('a', [text('r')], { cache }),
    result('b', [{ ...text('r'), cache }], { error: true }),
    result('c', [{ type: 'image', source: inline('image/png') }])
  ]
  t.strictSame(conversation([{ role: 'tool', results }, hi])[1], [
    user(
      { toolResult: { toolUseId: 'a', content: [{ text: 'r' }] } },
      point,
      { toolResult: { toolUseId: 'b', content: [{ text: 'r' }], status: 'error' } },
      point,
      { toolResult: { toolUseId: 'c', content: [{ image: { format: 'png', source: { bytes: 'AAAA' } } }] } },
      { text: 'Hi' }
    )
  ])
})

t.test('converse: media have formats, and documents names and something that is said of them', async (t) => {
  const content = (...parts: Json[]): Json => {
    const [body] = written('bedrock', { turns: [{ role: 'user', parts } as never] })
    return typeof body === 'string' ? body : body.messages[0].content
  }
  const point = { cachePoint: { type: 'default' } }
  const pdf = { type: 'document', source: inline('application/pdf') }
  t.strictSame(content({ type: 'image', source: inline('image/png'), cache }, text('a')), [
    { image: { format: 'png', source: { bytes: 'AAAA' } } },
    point,
    { text: 'a' }
  ])
  t.match(content(pdf), [{ document: { format: 'pdf', source: { bytes: 'AAAA' } } }, { text: '.' }])
  t.equal(content(pdf, text('a'), pdf).length, 3, 'which its text is')
  t.strictSame(content(pdf, { type: 'image', source: inline('image/png') }).at(-1), { text: '.' })
  t.equal(content({ type: 'image', source: inline('image/png') }).length, 1)
  t.match(content({ ...pdf, name: 'n' }, { ...pdf, name: ' ' }, pdf), [
    { text: 'n:' },
    { document: { name: 'document-1' } },
    { document: { name: 'document-2' } },
    { document: { name: 'document-3' } }
  ])
  const formatOf = (type: string, source: Json): Json => {
    const made = content({ type, source })
    return typeof made === 'string' ? made : made[0][type].format
  }
  const placed = (url: string): Json => ({ kind: 'url', url })
  for (const [type, source, format] of [
    ['document', inline('text/csv'), 'csv'],
    ['document', inline('text/other'), 'txt'],
    ['document', inline('application/other'), 'invalid_field messages'],
    ['image', inline('text/plain'), 'invalid_field messages'],
    ['image', placed('s3://b/a.JPG'), 'jpeg'],
    ['image', placed('s3://b/a.png'), 'png'],
    ['image', placed('s3://b/a'), 'invalid_field messages'],
    ['image', placed('s3://b/a.other'), 'invalid_field messages'],
    ['image', stored, 'invalid_field messages'],
    ['video', placed('s3://b/a.3gp'), 'three_gp'],
    ['image', placed('https://a.example/a.png'), 'unsupported_parameter image_url'],
    ['video', placed('https://a.example/a.mp4'), 'unsupported_parameter video'],
    ['document', placed('https://a.example/a.pdf'), 'unsupported_parameter document_url'],
    ['image', { ...stored, mimeType: 'image/png' }, 'unsupported_parameter image_url']
  ] as [string, Json, string][])
    t.equal(formatOf(type, source), format, `${type} ${JSON.stringify(source)}`)
  t.strictSame(content({ type: 'image', source: placed('s3://b/a.png') })[0].image.source, {
    s3Location: { uri: 's3://b/a.png' }
  })
})
