// What one protocol takes for granted and another wants to be told: that an answer is JSON, that thoughts are shown,
// whose document it is.
import t from 'tap'
import { codecs } from '../../core/protocols/codecs.ts'
import { answered, asking, sent, streamed } from '../kit/pairs.ts'

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
