// Requests of Responses' clients and to its upstreams: their items, what they ask for, and what is told of that.
import t from 'tap'
import { seal } from '../../core/protocols/canonical/proofs.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import type { CodecName } from '../../core/protocols/translation/codecs.ts'
import { Asked } from '../../core/protocols/translation/translation.ts'
import { asking, refusal, sent, wishesOf } from '../kit/pairs.ts'

type Json = any

const R = (...items: Json[]): Json => ({ model: 'm', input: items })
const user = (content: Json): Json => ({ type: 'message', role: 'user', content })
const own = (content: Json): Json => ({ type: 'message', role: 'assistant', content })
const call = (id: string, more: Json = {}): Json => ({
  type: 'function_call',
  call_id: id,
  name: 'f',
  arguments: '{}',
  ...more
})
const output = (id: string, given: Json = '1'): Json => ({ type: 'function_call_output', call_id: id, output: given })

t.test('what a client of Responses asks for is known by its members', async (t) => {
  const tools = [
    { type: 'function', name: 'f', parameters: { type: 'object' }, strict: true },
    { type: 'custom', name: 'c', format: { type: 'grammar', syntax: 'lark', definition: 'x' } },
    { type: 'namespace', name: 'n', tools: [{ type: 'function', name: 'g' }] },
    { type: 'web_search' }
  ]
  const of = (more: Json, ...items: Json[]): Record<string, string[]> =>
    wishesOf('R', { ...R(user('Hi'), ...items), ...more })
  t.strictSame(of({ tools, parallel_tool_calls: false, instructions: 'i' }), {
    system: ['instructions'],
    tools: ['tools'],
    tool_strict: ['tools.strict'],
    tool_namespace: ['tools'],
    custom_tool: ['tools'],
    custom_tool_grammar: ['tools.format'],
    server_tool: ['tools'],
    parallel_tool_calls: ['parallel_tool_calls']
  })
  for (const [choice, features] of [
    ['auto', {}],
    ['none', { tool_choice: ['tool_choice'] }],
    ['required', { tool_choice: ['tool_choice'] }],
    [{ type: 'function', name: 'f' }, { tool_choice: ['tool_choice'] }],
    [{ type: 'custom', name: 'f' }, { tool_choice: ['tool_choice'] }],
    [{ type: 'web_search' }, { server_tool: ['tool_choice'] }],
    [
      { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'f' }] },
      { allowed_tools: ['tool_choice'] }
    ]
  ] as const)
    t.strictSame(of({ tool_choice: choice }), features)
  t.strictSame(
    of({
      store: true,
      truncation: 'auto',
      include: ['x'],
      top_logprobs: 1,
      image: {},
      reasoning: { effort: 'low', summary: 'auto' }
    }),
    {
      reasoning_effort: ['reasoning.effort'],
      reasoning_visible: ['reasoning.summary'],
      hint: ['top_logprobs', 'include', 'store', 'truncation', 'image']
    }
  )
  t.strictSame(
    of({
      store: false,
      truncation: 'disabled',
      include: ['reasoning.encrypted_content'],
      top_logprobs: 0,
      background: false,
      other: null
    }),
    {}
  )
  t.strictSame(of({ include: ['message.output_text.logprobs'], top_logprobs: 2 }), { logprobs: ['top_logprobs'] })
  t.strictSame(
    of({
      background: true,
      prompt: { id: 'p' },
      previous_response_id: 'r',
      conversation: 'c',
      other: 1,
      text: { format: { type: 'json_object' }, verbosity: 'low' }
    }),
    {
      json_object: ['text.format'],
      verbosity: ['text.verbosity'],
      stored_state: ['previous_response_id', 'conversation'],
      special: ['background', 'prompt'],
      unknown: ['other']
    }
  )
  t.strictSame(of({ text: { format: { type: 'json_schema', name: 'o' } } }), { json_schema: ['text.format'] })
  t.strictSame(of({ text: { format: { type: 'text' } }, max_output_tokens: 1 }), {
    max_output_tokens: ['max_output_tokens']
  })
})

t.test('what the items of a client ask for is known by their members', async (t) => {
  const of = (...items: Json[]): Record<string, string[]> => wishesOf('R', R(...items))
  const system = (role: string): Json => ({ role, content: 'a' })
  t.strictSame(of(system('system'), system('developer'), user('a')), { system: ['input'] })
  t.strictSame(of(user('a'), system('developer')), { system_later: ['input'] })
  t.strictSame(of({ id: 'x' }, { type: 'item_reference', id: 'y' }), { stored_state: ['input'] })
  const encrypted = (value: string, more: Json = {}): Json => ({
    type: 'reasoning',
    encrypted_content: value,
    summary: [{ type: 'summary_text', text: 'Hm' }],
    ...more
  })
  t.strictSame(of(encrypted('s')), { reasoning_proof: ['input.encrypted_content'] })
  t.strictSame(of(encrypted('sluice1.')), { reasoning_replay: ['input.summary'] })
  t.strictSame(of({ ...output('a'), name: 'f', namespace: 'n', status: 'completed', id: 'x' }), {})
  const image = { type: 'input_image', image_url: 'data:image/png;base64,AAAA' }
  t.strictSame(of(output('a', [image])), { image: ['input.output.image_url'], tool_result_media: ['input.output'] })
  const file = (more: Json): Record<string, string[]> => of(user([{ type: 'input_file', ...more }]))
  t.strictSame(file({ file_data: 'JVBERi0=' }), { document: ['input.content.file_data'] })
  t.strictSame(file({ file_data: 'data:text/plain;base64,SGk=' }), { text_document: ['input.content.file_data'] })
  t.strictSame(file({ file_url: 'https://a.example' }), { document_url: ['input.content.file_url'] })
  t.strictSame(file({ file_id: 'f' }), { stored_file: ['input.content.file_id'] })
  t.strictSame(of(user([{ ...image, file_id: 'f' }])), {
    stored_file: ['input.content.file_id'],
    unknown: ['input.content.image_url']
  })
  t.strictSame(of(user([{ type: 'input_image', image_url: 'https://a.example', detail: 'low' }])), {
    image_url: ['input.content.image_url'],
    image_detail: ['input.content.detail']
  })
  const said = { type: 'output_text', text: 'a', logprobs: [1], annotations: [], prompt_cache_breakpoint: {} }
  t.strictSame(of(own([said, { type: 'refusal', refusal: 'No.' }])), {
    refusal_replay: ['input.content'],
    hint: ['input.content.prompt_cache_breakpoint']
  })
})

t.test('an item that cannot be brought over is refused by its place', async (t) => {
  const refused = (body: Json, wanted: Json): void => void t.match(refusal('R→M', body), wanted)
  refused({ model: 'm' }, { code: 'missing_field', param: 'input' })
  for (const input of ['', []]) refused({ model: 'm', input }, { code: 'invalid_field', param: 'input' })
  for (const type of ['web_search_call', 'computer_call_output'])
    refused(R({ type }), { code: 'unsupported_parameter', param: 'input[0]', message: /tools that the provider runs/ })
  refused(R({ type: 'compaction' }), { param: 'input[0]', message: /options of its own/ })
  refused(R({ role: 'tool', content: 'a' }), { code: 'invalid_field', param: 'input[0].role' })
  refused(R({ role: 'user' }), { code: 'missing_field', param: 'input[0].content' })
  refused(R({ id: 'x' }), { code: 'protocol_mismatch', param: 'input[0]' })
  refused(R(user([{ type: 'input_audio' }])), { code: 'unsupported_parameter', param: 'input[0].content[0]' })
  refused({ ...R(user('a')), text: { format: { type: 'yaml' } } }, { code: 'invalid_field', param: 'text.format.type' })
})

t.test('items of the model are one turn up to its next message', async (t) => {
  const roles = (...items: Json[]): string[] =>
    sent('R→C', R(user('a'), ...items)).body.messages.map(
      ({ role, content, tool_calls: calls }: Json) => `${role} ${content ?? ''}${calls ? ` ${calls.length}` : ''}`
    )
  const thought = { type: 'reasoning', summary: [{ type: 'summary_text', text: 'Hm' }] }
  t.strictSame(roles(thought, call('a'), own('b'), output('a')), ['user a', 'assistant b 1', 'tool 1'])
  t.strictSame(roles(thought, own('b'), own('c'), user('d')), ['user a', 'assistant b', 'assistant c', 'user d'])
  t.strictSame(roles(own('b'), call('a'), call('b'), output('b'), output('a')), [
    'user a',
    'assistant b 2',
    'tool 1',
    'tool 1'
  ])
  t.equal(roles({ type: 'reasoning', summary: [] }, user('b')).length, 2, 'a thought that is empty is none')
  const more = { type: 'additional_tools', tools: [{ type: 'function', name: 'g' }] }
  t.strictSame(
    sent('R→C', { ...R(user('a'), more), tools: [{ type: 'function', name: 'f' }] }).body.tools.map(
      (tool: Json) => tool.function.name
    ),
    ['f', 'g']
  )
})

t.test('proofs come back to whom they are of, with the id that they had', async (t) => {
  const encrypted = (value: string, more: Json = {}): Json => ({
    type: 'reasoning',
    encrypted_content: value,
    summary: [],
    ...more
  })
  const proof = (kind: 'signature' | 'call'): string => seal('openai', { family: 'gemini', kind, value: 'c2ln' })
  const calls = [call('a'), call('b'), output('a'), output('b')]
  const parts = (...items: Json[]): Json[] =>
    sent('R→G', R(user('a'), ...items, ...calls)).body.contents[1].parts.map(
      ({ functionCall: _call, ...part }: Json) => part
    )
  t.strictSame(parts(encrypted(proof('call'))), [{ thoughtSignature: 'c2ln' }, {}], 'the next call alone has it')
  t.strictSame(parts(encrypted(proof('signature'), { id: 'x', content: [{ type: 'text', text: 'Hm' }] }))[0], {
    text: 'Hm',
    thought: true,
    thoughtSignature: 'c2ln'
  })
  const both = { summary: [{ text: 'A' }, { text: 'B' }], content: [{ text: 'C' }] }
  t.equal(parts(encrypted(proof('signature'), both))[0].text, 'A\n\nB')
  const input = (...items: Json[]): Json[] => sent('R→R', R(user('a'), ...items)).body.input.slice(1)
  const thoughts = [encrypted('s', { id: 'x' }), encrypted('s', { summary: [{ type: 'summary_text', text: 'Hm' }] })]
  t.strictSame(input(own('b'), ...thoughts, call('a'), output('a')), [own('b'), ...thoughts, call('a'), output('a')])
  const nameless = { type: 'reasoning', id: 'x', summary: [{ text: 'Hm' }] }
  t.strictSame(sent('R→C', R(user('a'), nameless, call('a'), output('a'))).dropped, ['input.summary'])
})

t.test('an upstream of Responses is sent items as it knows them', async (t) => {
  const M = (...content: Json[]): Json =>
    sent('M→R', { ...asking['M'], messages: [{ role: 'user', content }] }).body.input[0].content
  const url = { type: 'url', url: 'https://a.example/d' }
  t.strictSame(M({ type: 'document', source: url, title: 'T' }), [
    { type: 'input_file', file_url: url.url, filename: 'T' }
  ])
  t.strictSame(M({ type: 'document', source: url }), [{ type: 'input_file', file_url: url.url }])
  t.strictSame(M({ type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'Hi' } }), [
    { type: 'input_text', text: 'Hi' }
  ])
  t.strictSame(
    M({ type: 'document', title: 'T', source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' } }),
    [{ type: 'input_file', filename: 'T.pdf', file_data: 'data:application/pdf;base64,JVBERi0=' }]
  )
  const results = (...parts: Json[]): Json =>
    sent('M→R', {
      ...asking['M'],
      messages: [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'f', input: {} }] },
        {
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: 'a', content: parts.map((text) => ({ type: 'text', text })) }]
        }
      ]
    }).body.input[2].output
  t.equal(results('1', '2'), '1\n\n2')
  const drew = sent('G→R', {
    contents: [
      { role: 'user', parts: [{ text: 'a' }] },
      { role: 'model', parts: [{ text: 'b' }, { inlineData: { mimeType: 'image/png', data: 'AAAA' } }] },
      { role: 'user', parts: [{ text: 'c' }] }
    ]
  }).body.input
  t.match(drew, [
    user('a'),
    own('b'),
    { role: 'user', content: [{ type: 'input_text' }, { type: 'input_image' }, { text: 'c' }] }
  ])
})

t.test('an upstream of Responses is asked for what the client asked for, and no more', async (t) => {
  const body = (more: Json, traits: Json = {}): Json => sent('C→R', { ...asking['C'], ...more }, traits).body
  t.strictSame(body({}), { model: 'up', input: [user('Hi')], store: false, include: ['reasoning.encrypted_content'] })
  t.notOk('include' in body({}, { thinks: false }))
  t.strictSame(
    [1, 16, 17].map((max_tokens) => body({ max_tokens }).max_output_tokens),
    [16, 16, 17]
  )
  t.match(body({ logprobs: true, top_logprobs: 2 }), {
    top_logprobs: 2,
    include: ['reasoning.encrypted_content', 'message.output_text.logprobs']
  })
  t.strictSame(body({ reasoning_effort: 'low' }).reasoning, { effort: 'low', summary: 'auto' })
  t.strictSame(body({ reasoning_effort: 'none' }).reasoning, { effort: 'none' })
  t.strictSame(body({ response_format: { type: 'json_object' }, verbosity: 'low' }).text, {
    format: { type: 'json_object' },
    verbosity: 'low'
  })
  const schema = { type: 'object' }
  t.strictSame(body({ response_format: { type: 'json_schema', json_schema: { name: 'o', schema } } }).text, {
    format: { type: 'json_schema', name: 'o', schema }
  })
  t.strictSame(
    body({
      response_format: { type: 'json_schema', json_schema: { name: 'o', description: 'd', schema, strict: true } }
    }).text,
    {
      format: { type: 'json_schema', name: 'o', description: 'd', schema, strict: true }
    }
  )
  const tools = [{ type: 'function', function: { name: 'f' } }]
  t.strictSame(
    body({ tools, parallel_tool_calls: false, tool_choice: { type: 'function', function: { name: 'f' } } }),
    {
      ...body({}),
      tools: [{ type: 'function', name: 'f', parameters: { type: 'object', properties: {} }, strict: false }],
      tool_choice: { type: 'function', name: 'f' },
      parallel_tool_calls: false
    }
  )
  t.strictSame(sent('R→G', { ...R(user('a')), reasoning: { summary: 'auto' } }).body.generationConfig, {
    thinkingConfig: { includeThoughts: true }
  })
  const streaming = (client: 'C' | 'M', upstream: CodecName): Json =>
    new Asked(codecs[client === 'C' ? 'openai-chat' : 'anthropic'], asking[client], {
      model: 'm',
      streaming: true
    }).for(codecs[upstream], { model: 'up', traits: {} }).body
  for (const upstream of ['openai-responses', 'openai-chat', 'anthropic'] as const)
    t.equal(streaming('C', upstream)['stream'], true)
  t.notOk('stream' in body({}))
})
