// What single members of requests say that few clients send: each of them means the same to every upstream.
import t from 'tap'
import { protocols } from '../../core/protocols/index.ts'
import { codecNameOf, codecs, upstreamCodecNameOf } from '../../core/protocols/translation/codecs.ts'
import { asking, refusal, sent } from '../kit/pairs.ts'

type Json = any

const user = (content: Json): Json => ({ role: 'user', content })
const chat = (content: Json, more: Json = {}): Json => ({ model: 'm', messages: [user(content)], ...more })
const gemini = (more: Json, ...parts: Json[]): Json => ({
  contents: [{ role: 'user', parts: parts.length > 0 ? parts : [{ text: 'Hi' }] }],
  ...more
})
const wav = { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } }

t.test('clients speak only what can be answered in, and channels more', async (t) => {
  for (const name of Object.keys(codecs) as (keyof typeof codecs)[])
    t.same([codecNameOf(protocols[name]), upstreamCodecNameOf(protocols[name])], [name, name])
  t.same([codecNameOf(protocols.bedrock), upstreamCodecNameOf(protocols.bedrock)], [undefined, 'bedrock'])
  t.same(
    [codecNameOf(protocols['bedrock-count']), upstreamCodecNameOf(protocols['bedrock-count'])],
    [undefined, 'bedrock']
  )
  for (const [count, name] of [
    ['anthropic-count', 'anthropic'],
    ['invoke-count', 'anthropic'],
    ['gemini-count', 'gemini']
  ] as const)
    t.same([codecNameOf(protocols[count]), upstreamCodecNameOf(protocols[count])], [name, name])
  t.same(
    [codecNameOf(protocols['openai-embeddings']), upstreamCodecNameOf(protocols['openai-embeddings'])],
    [undefined, undefined]
  )
})

t.test('Gemini chooses tools by words of any case, and by some that nobody else has', async (t) => {
  const chosen = (mode: string | undefined, ...allowedFunctionNames: string[]): Json => {
    const { body } = sent('G→R', {
      ...gemini({}),
      tools: [{ functionDeclarations: [{ name: 'f' }, { name: 'g' }, { name: 'h' }] }],
      toolConfig: { functionCallingConfig: { mode, allowedFunctionNames } }
    })
    return body.tool_choice
  }
  const only = (mode: string): Json => ({
    type: 'allowed_tools',
    mode,
    tools: [
      { type: 'function', name: 'f' },
      { type: 'function', name: 'h' }
    ]
  })
  t.equal(chosen(undefined), undefined)
  t.equal(chosen('MODE_UNSPECIFIED'), undefined)
  t.equal(chosen('any'), 'required')
  t.equal(chosen('None'), 'none')
  t.equal(chosen('VALIDATED'), 'auto')
  t.same(chosen('VALIDATED', 'f', 'h'), only('auto'))
  t.same(chosen('AUTO', 'f', 'h'), only('auto'))
  t.same(chosen('ANY', 'f', 'h'), only('required'))
  t.match(refusal('G→R', gemini({ toolConfig: { functionCallingConfig: { mode: 'SOME' } } })), {
    code: 'invalid_field',
    param: 'toolConfig.functionCallingConfig.mode'
  })
})

t.test('how much Gemini is to think is a level, a budget, or left to the model', async (t) => {
  const thought = (thinkingConfig: Json): Json =>
    sent('G→C', gemini({ generationConfig: { maxOutputTokens: 10_000, thinkingConfig } })).body.reasoning_effort
  t.equal(thought({ thinkingLevel: 'LOW' }), 'low')
  t.equal(thought({ thinkingLevel: 'THINKING_LEVEL_UNSPECIFIED' }), undefined)
  t.equal(thought({ thinkingBudget: -1 }), undefined)
  t.equal(thought({ thinkingBudget: 0 }), 'none')
  t.same(
    [1499, 1500, 4499, 4500].map((thinkingBudget) => thought({ thinkingBudget })),
    ['low', 'medium', 'medium', 'high']
  )
  const shown = (more: Json): Json =>
    sent('G→R', gemini({ generationConfig: { thinkingConfig: { thinkingLevel: 'HIGH', ...more } } })).body.reasoning
  t.same(shown({}), { effort: 'high' })
  t.same(shown({ includeThoughts: true }), { effort: 'high', summary: 'auto' })
})

t.test('a schema of Gemini is one of JSON Schema', async (t) => {
  const own = {
    type: 'OBJECT',
    propertyOrdering: ['a', 'b'],
    description: 'd',
    properties: {
      a: { type: 'ARRAY', minItems: '1', maxItems: '9', items: { type: 'STRING', minLength: '2', maxLength: '3' } },
      b: { anyOf: [{ type: 'INTEGER' }, { type: 'OBJECT', nullable: true, minProperties: '1', maxProperties: '4' }] },
      c: { type: 'NUMBER', nullable: false, example: 1.5 },
      type: { type: 'BOOLEAN' }
    }
  }
  const tool = (more: Json): Json =>
    sent('G→C', gemini({ tools: [{ functionDeclarations: [{ name: 'f', description: 'F', ...more }] }] })).body.tools
  t.strictSame(tool({ parameters: own })[0].function, {
    name: 'f',
    description: 'F',
    parameters: {
      type: 'object',
      description: 'd',
      properties: {
        a: { type: 'array', minItems: 1, maxItems: 9, items: { type: 'string', minLength: 2, maxLength: 3 } },
        b: { anyOf: [{ type: 'integer' }, { type: ['object', 'null'], minProperties: 1, maxProperties: 4 }] },
        c: { type: 'number', examples: [1.5] },
        type: { type: 'boolean' }
      }
    }
  })
  t.strictSame(
    tool({ parameters: own, parametersJsonSchema: { type: 'object', properties: {} } })[0].function.parameters,
    { type: 'object', properties: {} },
    'the schema that is one already comes first'
  )
  const { dropped } = sent(
    'G→C',
    gemini({
      tools: [{ functionDeclarations: [{ name: 'f', response: {}, responseJsonSchema: {}, behavior: 'BLOCKING' }] }]
    })
  )
  t.same(dropped, [
    'tools.functionDeclarations.response',
    'tools.functionDeclarations.responseJsonSchema',
    'tools.functionDeclarations.behavior'
  ])
})

t.test('files of Gemini are what their type and their address say', async (t) => {
  const file = (fileUri: string, mimeType?: string): Json => gemini({}, { fileData: { fileUri, mimeType } })
  const stored = 'https://generativelanguage.googleapis.com/v1beta/files/x'
  for (const uri of [stored, 'gs://bucket/x.png'])
    t.match(refusal('G→M', file(uri, 'image/png')), {
      code: 'unsupported_parameter',
      param: 'contents[0].parts[0].fileData'
    })
  t.same(sent('G→M', file('https://a.example/x', 'image/png')).body.messages[0].content, [
    { type: 'image', source: { type: 'url', url: 'https://a.example/x' } }
  ])
  t.same(sent('G→M', file('HTTPS://a.example/x')).body.messages[0].content, [
    { type: 'document', source: { type: 'url', url: 'HTTPS://a.example/x' } }
  ])
  t.match(refusal('G→M', file('https://a.example/x', 'video/mp4')), { param: 'contents[0].parts[0].fileData' })
  t.same(
    sent('G→G', gemini({}, { inlineData: { mimeType: 'application/pdf', data: 'JVBERi0=', displayName: 'd.pdf' } }))
      .body.contents[0].parts[0],
    { inlineData: { mimeType: 'application/pdf', data: 'JVBERi0=', displayName: 'd.pdf' } }
  )
  t.same(sent('G→M', gemini({}, { text: 'Hi', videoMetadata: { fps: 1 } })).dropped, ['contents.parts.videoMetadata'])
})

t.test('results of Gemini are texts or objects, and errors where they say so alone', async (t) => {
  const told = (response: Json): Json =>
    sent('G→C', {
      contents: [
        { role: 'user', parts: [{ text: 'Hi' }] },
        { role: 'model', parts: [{ functionCall: { name: 'f', args: {} } }] },
        { role: 'function', parts: [{ functionResponse: { name: 'f', response } }] }
      ]
    }).body.messages[2]
  t.match(told({ output: 'a' }), { role: 'tool', tool_call_id: 'call_1_0', content: 'a' })
  for (const [response, content] of [
    [{}, ''],
    [{ output: { a: 1 } }, '{"a":1}'],
    [{ error: 'no' }, 'Error: no'],
    [{ error: { code: 5 } }, 'Error: {"code":5}'],
    [{ output: 'a', error: 'b' }, '{"output":"a","error":"b"}'],
    [{ other: 'a' }, '{"other":"a"}']
  ] as const)
    t.equal(told(response).content, content)
})

t.test('sound has a format that the upstream knows, by whichever of its names', async (t) => {
  for (const [mimeType, format] of [
    ['audio/wav', 'wav'],
    ['audio/x-wav', 'wav'],
    ['audio/wave', 'wav'],
    ['audio/mp3', 'mp3'],
    ['audio/mpeg', 'mp3']
  ])
    t.same(sent('G→C', gemini({}, { inlineData: { mimeType, data: 'UklGRg==' } })).body.messages[0].content, [
      { type: 'input_audio', input_audio: { data: 'UklGRg==', format } }
    ])
  t.match(refusal('G→C', gemini({}, { inlineData: { mimeType: 'audio/flac', data: 'AAAA' } })), {
    code: 'unsupported_parameter',
    param: 'contents[0].parts[0]',
    message: /format/
  })
  t.same(sent('C→G', chat([wav])).body.contents[0].parts, [{ inlineData: { mimeType: 'audio/wav', data: 'UklGRg==' } }])
})

t.test('files of OpenAI are addresses, data or names of stored ones', async (t) => {
  const R = (part: Json): Json => ({ model: 'm', input: [user([part])] })
  const read = (part: Json): Json => sent('R→M', R({ type: 'input_file', ...part })).body.messages[0].content
  t.same(read({ file_url: 'https://a.example/d.pdf' }), [
    { type: 'document', source: { type: 'url', url: 'https://a.example/d.pdf' } }
  ])
  const pdf = { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' } }
  t.same(read({ filename: 'd.pdf', file_data: 'JVBERi0=' }), [{ ...pdf, title: 'd.pdf' }], 'bare data are a PDF')
  t.same(read({ file_data: 'DATA:application/pdf;base64,JVBERi0=' }), [pdf])
  t.same(read({ file_data: 'data:text/plain;base64,SGk=' }), [
    { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'Hi' } }
  ])
  for (const part of [
    { type: 'input_file', file_id: 'f' },
    { type: 'input_image', file_id: 'f' }
  ])
    t.match(refusal('R→M', R(part)), { param: 'input[0].content[0].file_id' })
  t.match(refusal('C→M', chat([{ type: 'file', file: { file_id: 'f' } }])), {
    param: 'messages[0].content[0].file.file_id'
  })
  t.match(refusal('C→M', chat([{ type: 'file', file: { file_data: 'https://a.example/d' } }])), {
    code: 'invalid_field',
    param: 'messages[0].content[0].file.file_data'
  })
  t.same(
    sent('C→R', chat([{ type: 'image_url', image_url: { url: 'https://a.example/x', detail: 'low' } }])).body.input[0]
      .content,
    [{ type: 'input_image', image_url: 'https://a.example/x', detail: 'low' }]
  )
  t.equal(
    sent('C→R', chat([{ type: 'image_url', image_url: 'https://a.example/x' }])).body.input[0].content[0].detail,
    'auto',
    'an address alone is a picture too'
  )
})

t.test('what a tool of Responses has besides is named, where it asks for something', async (t) => {
  const tool = { type: 'function', name: 'f', parameters: {} }
  const members = { defer_loading: true, async: true, output_schema: {}, allowed_callers: ['direct'] }
  t.same(
    sent('R→C', { model: 'm', input: 'Hi', tools: [{ ...tool, ...members }] }).dropped,
    Object.keys(members).map((name) => `tools.${name}`)
  )
  t.same(sent('R→C', { model: 'm', input: 'Hi', tools: [{ ...tool, defer_loading: false }] }).dropped, [])
  for (const wish of ['summary', 'generate_summary'])
    t.match(sent('R→M', { model: 'm', input: 'Hi', reasoning: { effort: 'low', [wish]: 'auto' } }).body.thinking, {
      display: 'summarized'
    })
  t.same(
    sent('R→C', { model: 'm', input: 'Hi', include: ['reasoning.encrypted_content', 'file_search_call.results'] })
      .dropped,
    ['include']
  )
})

t.test('no more sequences to stop at are sent than the upstream takes', async (t) => {
  const stops = (count: number): string[] => Array.from({ length: count }, (_, at) => `s${at}`)
  t.same(sent('M→C', { ...asking['M'], stop_sequences: stops(4) }).body.stop, stops(4))
  t.match(refusal('M→C', { ...asking['M'], stop_sequences: stops(5) }), {
    param: 'stop_sequences',
    message: /more than 4/
  })
  t.same(sent('C→G', chat('Hi', { stop: stops(5) })).body.generationConfig.stopSequences, stops(5))
  t.match(refusal('C→G', chat('Hi', { stop: stops(6) })), { param: 'stop', message: /more than 5/ })
})

t.test('what the model said comes back as it was, whichever of its parts are empty', async (t) => {
  const refused = { role: 'assistant', content: null, refusal: 'No.' }
  t.strictSame(sent('C→C', { model: 'm', messages: [user('a'), refused, user('b')] }).body.messages[1], refused)
  const silent = { role: 'assistant', content: '' }
  t.strictSame(sent('C→C', { model: 'm', messages: [user('a'), silent, user('b')] }).body.messages[1], silent)
  const thinking = (block: Json): Json =>
    sent('M→M', {
      ...asking['M'],
      messages: [
        user('a'),
        {
          role: 'assistant',
          content: [
            { type: 'thinking', ...block },
            { type: 'text', text: 'b' }
          ]
        },
        user('c')
      ]
    }).body.messages[1].content
  const text = { type: 'text', text: 'b' }
  const signed = { type: 'thinking', thinking: '', signature: 'c2ln' }
  t.strictSame(thinking(signed), [signed, text], 'a signature alone is kept')
  t.strictSame(thinking({ thinking: 'Hm', signature: 'c2ln' }), [{ ...signed, thinking: 'Hm' }, text])
  const replayed = sent(
    'M→C',
    {
      ...asking['M'],
      messages: [user('a'), { role: 'assistant', content: [{ type: 'thinking', thinking: 'Hm' }, text] }, user('c')]
    },
    { replaysReasoning: true }
  )
  t.equal(replayed.body.messages[1].reasoning_content, 'Hm', 'thoughts without one are, too')
})

t.test('a model that decides itself how much it thinks shows its thoughts', async (t) => {
  const thinking = (type: string, more: Json = {}): Json =>
    sent('M→M', { ...asking['M'], thinking: { type, ...more } }).body.thinking
  t.strictSame(thinking('adaptive'), { type: 'adaptive', display: 'summarized' })
  t.equal(thinking('adaptive', { display: 'omitted' }), undefined)
  t.strictSame(thinking('disabled'), { type: 'disabled' })
})

t.test('texts with a signature of Gemini stay apart, and those without become one', async (t) => {
  const parts = [{ text: 'a' }, { text: 'b', thoughtSignature: 'c2ln' }, { text: 'c' }, { text: 'd' }]
  const { contents } = sent('G→G', {
    contents: [{ parts: [{ text: 'Hi' }] }, { role: 'model', parts }, { role: 'user', parts: [{ text: 'on' }] }]
  }).body
  t.strictSame(contents[1].parts, [{ text: 'ab', thoughtSignature: 'c2ln' }, { text: 'cd' }])
})

t.test('a failed tool says so in words where no member does', async (t) => {
  const use = (id: string): Json => ({ type: 'tool_use', id, name: 'f', input: {} })
  const failed = {
    ...asking['M'],
    messages: [
      user('Hi'),
      { role: 'assistant', content: [use('a')] },
      user([{ type: 'tool_result', tool_use_id: 'a', content: 'no', is_error: true }])
    ]
  }
  t.equal(sent('M→R', failed).body.input[2].output, 'Error: no')
  t.equal(sent('M→C', failed).body.messages[2].content, 'Error: no')
})

t.test('how many alternatives of a token are wanted is told where it is more than none', async (t) => {
  const wanted = (logprobs?: number): Json => {
    const { body } = sent('G→C', gemini({ generationConfig: { responseLogprobs: true, logprobs } }))
    return [body.logprobs, body.top_logprobs]
  }
  t.strictSame(wanted(), [true, undefined])
  t.strictSame(wanted(0), [true, undefined])
  t.strictSame(wanted(3), [true, 3])
})

t.test('what the user says after a picture of a result is said once, behind the picture', async (t) => {
  const picture = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }
  const { messages } = sent('M→C', {
    ...asking['M'],
    messages: [
      user('Hi'),
      { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'f', input: {} }] },
      user([
        { type: 'tool_result', tool_use_id: 'a', content: [picture] },
        { type: 'text', text: 'Look.' }
      ])
    ]
  }).body
  t.equal(messages.length, 4)
  t.strictSame(messages[3].content, [
    { type: 'text', text: 'Of the result of f (a):' },
    { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
    { type: 'text', text: 'Look.' }
  ])
})
