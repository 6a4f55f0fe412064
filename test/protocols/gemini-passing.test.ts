// Gemini's protocol where it is passed on untranslated: answers, counts, streams, lists of chunks, errors and texts.
import t from 'tap'
import { Message } from '../../core/contract/message.ts'
import { geminiModel, modelOfToken, pageToken } from '../../core/protocols/gemini/models.ts'
import { ListFraming } from '../../core/protocols/gemini/shape.ts'
import { protocols } from '../../core/protocols/index.ts'
import type { TextBlock, TextPart } from '../../core/protocols/protocol.ts'
import { seal } from '../../core/protocols/canonical/proofs.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'

type Json = any

const { gemini } = protocols
const json = (value: unknown): Message => new Message('json', Buffer.from(JSON.stringify(value)))
const event = (value: unknown, name = ''): Message =>
  Message.event(typeof value === 'string' ? value : JSON.stringify(value), name)
const asking = (body: Json): Json => ({ json: (key: string) => body[key] })
const said = (text: string, more: Json = {}): Json => ({ candidates: [{ content: { parts: [{ text }] }, ...more }] })

t.test('a model is listed with the limits that are known', async (t) => {
  const base = { name: 'models/m', displayName: 'm', supportedGenerationMethods: ['countTokens'] }
  t.strictSame(geminiModel({ name: 'm' } as Json, ['countTokens']), base)
  t.strictSame(geminiModel({ name: 'm', contextWindow: 10, maxOutputTokens: 5 } as Json, ['countTokens']), {
    ...base,
    inputTokenLimit: 10,
    outputTokenLimit: 5
  })
  t.equal(modelOfToken(pageToken({ name: 'a/b é' } as Json)), 'a/b é')
})

t.test('what never streams is an answer by its own member, and has usage of its own', async (t) => {
  const { 'gemini-count': count, 'gemini-embed': embed, 'gemini-predict': predict } = protocols as Json
  t.strictSame(
    [count.isAnswer(json({ totalTokens: 5 })), count.isAnswer(json({ totalTokens: 'x' })), count.isAnswer(json({}))],
    [true, false, false]
  )
  t.equal(count.readUsage(json({ totalTokens: 5 })), undefined)
  for (const answer of [{ embedding: {} }, { embeddings: [] }]) t.ok(embed.isAnswer(json(answer)))
  for (const answer of [{ embedding: [] }, { embeddings: {} }, {}]) t.notOk(embed.isAnswer(json(answer)))
  t.match(embed.readUsage(json({ usageMetadata: { promptTokenCount: 4 } })), { input: 4, output: 0 })
  t.strictSame([predict.isAnswer(json({ answers: [] })), predict.isAnswer(json({ answers: {} }))], [true, false])
  const counted = (...counts: Json[]): Json =>
    predict.readUsage(json({ answers: counts.map((token_count) => ({ token_count })) }))
  t.match(counted(3), { input: 3, output: 0 })
  t.match(predict.readUsage(json({ answers: [{ token_count: 3 }, { usageMetadata: { promptTokenCount: 4 } }] })), {
    input: 7
  })
  t.equal(counted(), undefined)
  t.match(counted(0), { input: 0 })
  t.equal(counted(-1), 'insane')
})

t.test('a body is an answer where it has candidates or says why there are none, and no error', async (t) => {
  const is = (value: unknown): boolean => gemini.isAnswer(json(value))
  for (const body of [
    { candidates: [] },
    { promptFeedback: {} },
    { candidates: [], error: null },
    [{ usageMetadata: {} }, { candidates: [] }]
  ])
    t.ok(is(body), JSON.stringify(body))
  for (const body of [
    {},
    { candidates: {} },
    { candidates: [], error: {} },
    [],
    [{ candidates: [] }, {}],
    [{ candidates: [], error: {} }]
  ])
    t.notOk(is(body), JSON.stringify(body))
  t.equal(gemini.breaksOff, true)
})

t.test('a prompt was blocked where nothing else is said', async (t) => {
  const block = (value: unknown): string | undefined => gemini.blockOf?.(json(value))
  const promptFeedback = { blockReason: 'SAFETY' }
  t.equal(block({ promptFeedback }), 'SAFETY')
  t.equal(block([{ promptFeedback }]), 'SAFETY')
  for (const body of [
    {},
    { promptFeedback, ...said('a') },
    { promptFeedback: { blockReason: 5 } },
    { other: promptFeedback },
    [{}, { promptFeedback }]
  ])
    t.equal(block(body), undefined, JSON.stringify(body))
})

t.test('usage is of the chunk, or of the last one in a list that has some', async (t) => {
  const usageMetadata = { promptTokenCount: 3, candidatesTokenCount: 4, totalTokenCount: 7 }
  for (const message of [
    json({ usageMetadata }),
    event({ usageMetadata }),
    json([{ usageMetadata: { promptTokenCount: 1 } }, { usageMetadata }, {}])
  ])
    t.match(gemini.readUsage(message), { input: 3, output: 4 })
  t.equal(gemini.readUsage(json({})), undefined)
  const large = `{"usageMetadata":${JSON.stringify({ ...usageMetadata, more: 'x'.repeat(70_000) })}}`
  t.equal(gemini.readUsage(new Message('json', Buffer.from(large))), undefined, 'what is too large is not parsed')
  const escaped = '{"usage\\u004detadata":{"promptTokenCount":3}}'
  t.equal(gemini.readUsage(event(escaped)), undefined)
})

t.test('a stream is complete when all candidates that were asked for have ended', async (t) => {
  const end = (index?: number): Json => said('', { finishReason: 'STOP', index })
  const seen = (body: Json, ...events: Json[]): [string[], boolean, boolean] => {
    const watch = gemini.watch(asking(body))
    const kinds = events.map((one) => watch.see(one instanceof Message ? one : event(one)))
    return [kinds, watch.finished, watch.complete]
  }
  t.strictSame(seen({}, said(''), said('a'), end()), [['opening', 'content', 'content'], true, true])
  t.strictSame(seen({}), [[], false, false])
  t.strictSame(seen({}, said('a'), said('', { finishReason: 'FINISH_REASON_UNSPECIFIED' })), [
    ['content', 'content'],
    false,
    false
  ])
  t.strictSame(seen({}, { candidates: [{ content: { parts: [{ text: '' }, { functionCall: {} }] } }] })[0], ['content'])
  for (const [key, member] of [
    ['generationConfig', 'candidateCount'],
    ['generation_config', 'candidate_count'],
    ['generationConfig', 'candidate_count']
  ] as const) {
    t.strictSame(seen({ [key]: { [member]: 2 } }, end()).slice(1), [true, false])
    t.strictSame(seen({ [key]: { [member]: 2 } }, end(), end(1)).slice(1), [true, true])
  }
  for (const candidateCount of [0, -1, 0.5, 1.5, 'many', 1])
    t.ok(seen({ generationConfig: { candidateCount } }, end())[2])
  t.strictSame(seen({}, end(1), said('a')).slice(1), [false, false], 'a candidate without a number is the first')
  t.strictSame(seen({}, end(0), said('a')).slice(1), [true, true])
  t.strictSame(seen({ generationConfig: { candidateCount: 2 } }, { promptFeedback: { blockReason: 'X' } }), [
    ['content'],
    true,
    true
  ])
  t.strictSame(seen({}, { promptFeedback: {} })[0], ['opening'])
  for (const failed of [
    event({}, 'error'),
    { error: {} },
    { candidates: [], error: {} },
    { code: 500, message: 'No.', status: 'INTERNAL' }
  ])
    t.strictSame(seen({}, failed)[0], ['error'])
  t.strictSame(seen({}, { error: null }, { candidates: [], code: 500, message: 'x' })[0], ['opening', 'opening'])
  t.strictSame(seen({}, event('none'))[0], ['invalid'])
  const many = Array.from({ length: 129 }, (_, index) => end(index))
  t.strictSame(seen({}, ...many)[0].slice(-2), ['content', 'invalid'])
  t.equal(seen({}, ...many.slice(0, 128), end(5))[0].at(-1), 'content')
})

t.test('chunks are one answer, and an answer is one chunk', async (t) => {
  const collected = (...chunks: Json[]): Json => {
    const collector = gemini.collect()
    for (const chunk of chunks) collector.add(chunk)
    return collector.result()
  }
  const parts = (...made: Json[]): Json =>
    collected(...made.map((part) => ({ candidates: [{ content: { parts: [part] } }] }))).candidates[0].content.parts
  const signed = { text: 'b', thoughtSignature: 's' }
  t.strictSame(parts({ text: 'a' }, signed, { text: 'c' }, { text: '' }), [{ ...signed, text: 'ab' }, { text: 'c' }])
  t.strictSame(parts({ text: 'a' }, { text: 'b', thought: true }, { text: 'c', thought: true }), [
    { text: 'a' },
    { text: 'bc', thought: true }
  ])
  t.strictSame(parts({ functionCall: {} }, { text: '' }, { text: '', thoughtSignature: 's' }, { text: 'a' }), [
    { functionCall: {} },
    { text: '', thoughtSignature: 's' },
    { text: 'a' }
  ])
  t.strictSame(parts({ text: '' }, { functionCall: {} }), [{ text: '' }, { functionCall: {} }])
  t.strictSame(parts({ text: 5 }, { text: 'a' }), [{ text: 5 }, { text: 'a' }])
  const order = collected({ candidates: [{ index: 2 }, { index: 1 }], a: 1 }, said('x'), 'none', { b: 2, a: 3 })
  t.strictSame(order, {
    candidates: [
      { index: 0, content: { role: 'model', parts: [{ text: 'x' }] } },
      { index: 1, content: { role: 'model', parts: [] } },
      { index: 2, content: { role: 'model', parts: [] } }
    ],
    a: 3,
    b: 2
  })
  t.strictSame(collected({ promptFeedback: {} }), { promptFeedback: {} })
  t.strictSame([gemini.chunksOf({ a: 1 }), gemini.chunksOf([{ a: 1 }, 2])], [['{"a":1}'], ['{"a":1}', '2']])
  const list = new ListFraming()
  t.equal(list.event('1') + list.event('2') + list.event('3') + list.end(), '[1,\r\n2,\r\n3]')
  t.equal(new ListFraming().end(), '[]')
  t.strictSame(list.errorBody({ a: 1 }), [{ a: 1 }])
  t.equal(
    gemini.answerBytes({
      candidates: [{ content: { parts: [{ text: 'ab' }] } }, { content: { parts: [{ text: 'c' }] } }, {}]
    }),
    3
  )
})

t.test('errors say how long to wait, in whole seconds or milliseconds and never less', async (t) => {
  const error = (status: number, retryAfterMs?: number): Json =>
    (
      gemini.errorBody({
        type: 't',
        code: 'c',
        message: 'No.',
        status,
        ...(retryAfterMs !== undefined && { retryAfterMs })
      } as Json) as Json
    ).error
  t.strictSame(error(400), { code: 400, message: 'No.', status: 'INVALID_ARGUMENT' })
  t.strictSame(
    [418, 500, 599, 429].map((status) => error(status).status),
    ['INVALID_ARGUMENT', 'INTERNAL', 'INTERNAL', 'RESOURCE_EXHAUSTED']
  )
  t.equal(error(429, 1001).details[0].retryDelay, '2s')
  const read = (details: Json, status: unknown = 'S'): Json =>
    gemini.readError({ error: { message: 'No.', status, details } })
  const info = '@type'
  const retry = (retryDelay: string): Json => [
    { reason: 5 },
    { [info]: 'type.googleapis.com/google.rpc.RetryInfo', retryDelay },
    { reason: 'R' }
  ]
  t.match(read(retry('1.0001s')), { type: 'S', reason: 'R', retryAfterMs: 1001, message: 'No.' })
  for (const delay of ['1', 's', '-1s', '1234567890s']) t.notOk('retryAfterMs' in read(retry(delay)), delay)
  t.strictSame(Object.keys(read([])).includes('reason'), false)
  t.match(gemini.readError([{ error: { message: 'No.', status: 'S' } }]), { type: 'S', message: 'No.' })
})

t.test('what the gateway sealed is taken out of a request that is passed on', async (t) => {
  const base64 = (text: string): string => Buffer.from(text).toString('base64')
  const thoughtSignature = base64(seal('gemini', { family: 'anthropic', kind: 'signature', value: 's' }))
  const out = (contents: unknown): Json => codecs.gemini.withoutSealed!({ contents } as Json)?.value
  const user = { role: 'user', parts: [{ text: 'Hi' }] }
  const own = { text: 'a', thoughtSignature: 'c2ln' }
  for (const contents of [
    undefined,
    'none',
    [],
    [user, { role: 'model' }, 5, { parts: [own, 'x', { thoughtSignature: '' }] }]
  ])
    t.equal(out(contents), undefined)
  t.strictSame(out([user, { role: 'model', parts: [own, { text: 'b', thoughtSignature }, own] }]), [
    user,
    { role: 'model', parts: [own, { text: 'b' }, own] }
  ])
  t.strictSame(out([{ role: 'model', parts: [{ text: 'b', thought: true, thoughtSignature }, own] }]), [
    { role: 'model', parts: [own] }
  ])
  t.strictSame(out([{ role: 'model', parts: [{ text: 'b', thought: true, thoughtSignature }] }, user]), [user])
  t.strictSame(out([{ parts: [own, { functionCall: {}, thoughtSignature }] }]), [
    { parts: [own, { functionCall: {}, thoughtSignature: 'skip_thought_signature_validator' }] }
  ])
  t.strictSame(out([{ parts: [{ text: 'b', thoughtSignature }] }, user]), [{ parts: [{ text: 'b' }] }, user])
})

/** Puts every text in brackets, and says where each was. */
function edited(): { text(part: TextPart): string; end(block: TextBlock): string; readonly places: string[] } {
  const places: string[] = []
  return {
    places,
    text: ({ block, kind, role, text }) => (
      places.push([block, kind, role, text].filter(Boolean).join(' ')),
      `<${text}`
    ),
    end: ({ kind }) => (kind === 'arguments' ? '' : '>')
  }
}
const arguing = { text: ({ kind, text }: TextPart) => (kind === 'arguments' ? '{"b":2}' : text), end: () => '' }

t.test('every text of a prompt is found, under both spellings and wherever a request holds another', async (t) => {
  const found = (body: Json): [string[], Json] => {
    const editor = edited()
    const set: Json = {}
    gemini.text!.prompt({ json: (key) => body[key], set: (key, value) => void (set[key] = value) }, (part) =>
      editor.text(part)
    )
    return [editor.places, set]
  }
  const parts = [{ text: 'a', thought: true }, { functionResponse: { response: { b: 'c' } } }, 5, { text: '' }]
  t.strictSame(found({ contents: [{ role: 'model', parts: [{ text: 'a' }] }, { parts: [{ text: 'b' }] }] }), [
    ['0.0 text model a', '1.0 text user b'],
    { contents: [{ role: 'model', parts: [{ text: '<a' }] }, { parts: [{ text: '<b' }] }] }
  ])
  for (const name of ['systemInstruction', 'system_instruction'])
    t.strictSame(found({ [name]: { parts: [{ text: 'a' }] } }), [
      ['system.0 text system a'],
      { [name]: { parts: [{ text: '<a' }] } }
    ])
  t.strictSame(found({ content: { parts: [{ text: 'a' }] } })[0], ['content.0 text user a'])
  t.strictSame(found({ contents: { parts: [{ text: 'a' }] } })[0], ['0.0 text user a'])
  t.strictSame(found({ requests: [{ content: { parts: [{ text: 'a' }] } }] })[0], ['requests.0.content.0 text user a'])
  t.strictSame(found({ generateContentRequest: { contents: [{ parts: [{ text: 'a' }] }] } })[0], ['0.0 text user a'])
  for (const key of ['systemInstruction', 'content', 'contents', 'requests', 'generateContentRequest'])
    t.strictSame(found({ [key]: 'none' }), [[], {}])
  t.strictSame(found({ contents: [{ parts: [{ text: '' }, 5] }] }), [[], {}])
  t.throws(() => found({ contents: [{ parts }] }), /no JSON object/)
  const seen: string[] = []
  const call = [
    { functionCall: { name: 'f', args: { a: 1 } } },
    { function_call: { args: 'none' } },
    { functionResponse: 'none' },
    { executableCode: { code: 'x' } },
    { code_execution_result: { output: 'y' } },
    { executable_code: 'none' }
  ]
  const set: Json = {}
  gemini.text!.prompt(
    {
      json: (key) => (key === 'contents' ? [{ role: 'model', parts: call }] : undefined),
      set: (key, value) => void (set[key] = value)
    },
    ({ block, kind, role, text }) => (seen.push(`${block} ${kind} ${role} ${text}`), text)
  )
  t.strictSame(
    [seen, set],
    [['0.0.args arguments model {"a":1}', '0.3.code arguments model x', '0.4.output text tool y'], {}]
  )
})

t.test('every text of an answer is found, in chunks as in a list, and what counted it is taken out', async (t) => {
  const through = (chunks: Json[], editor: Json = edited()): Json[] => {
    const answer = gemini.text!.answer()
    const made = chunks.map((chunk) => {
      const changed = answer.event(event(chunk), editor)
      return changed ? JSON.parse(String(changed.data)) : 'same'
    })
    return [...made, ...answer.end(editor).map(({ data }) => JSON.parse(data))]
  }
  const partsOf = (chunk: Json): Json => chunk.candidates?.[0].content.parts ?? chunk
  const texts = (...parts: Json[]): Json[] =>
    through([{ candidates: [{ content: { role: 'model', parts } }] }], edited()).map(partsOf)
  t.strictSame(texts({ text: 'a' }, { text: 'b', thought: true }), [
    [{ text: '<a>' }, { text: '<b', thought: true }],
    [{ text: '>', thought: true }]
  ])
  t.strictSame(texts({ text: 'a', thoughtSignature: 's' }, { text: 'b' }), [
    [{ text: '<a>', thoughtSignature: 's' }, { text: '<b' }],
    [{ text: '>' }]
  ])
  t.strictSame(texts({ text: 'a' }, { text: '', thoughtSignature: 's' }), [
    [{ text: '<a>' }, { text: '', thoughtSignature: 's' }]
  ])
  t.strictSame(texts({ text: 'a' }, { text: '' }, { text: 'b' }), [
    [{ text: '<a' }, { text: '' }, { text: '<b' }],
    [{ text: '>' }]
  ])
  t.strictSame(texts(5, { text: 'a' }), [[5, { text: '<a' }], [{ text: '>' }]])
  const kept = { text: ({ text }: TextPart) => text, end: () => '' }
  const counted = {
    avgLogprobs: 1,
    logprobsResult: {},
    groundingMetadata: { groundingSupports: [], groundingChunks: [] }
  }
  const metadata = (key: string): Json => ({
    citationMetadata: { [key]: [{ startIndex: 1, endIndex: 2, uri: 'u' }, 5], other: 1 }
  })
  t.strictSame(through([said('a', { ...counted, index: 1 })], kept), ['same'])
  for (const key of ['citationSources', 'citations'])
    t.strictSame(through([said('a', { ...counted, ...metadata(key), finishReason: 'STOP' })])[0].candidates[0], {
      content: { role: 'model', parts: [{ text: '<a>' }] },
      groundingMetadata: { groundingChunks: [] },
      citationMetadata: { [key]: [{ uri: 'u' }, 5], other: 1 },
      finishReason: 'STOP'
    })
  t.strictSame(
    through([said('a'), { candidates: [{ avgLogprobs: 1 }] }, { candidates: [{ index: 1, avgLogprobs: 1 }] }])[1]
      .candidates,
    [{}],
    'also later, where a text was changed'
  )
  t.strictSame(through([said('a', { avgLogprobs: 2 }), { usageMetadata: {}, responseId: 'r' }]).at(-1), {
    responseId: 'r',
    candidates: [{ index: 0, content: { role: 'model', parts: [{ text: '>' }] } }]
  })
  const call = {
    candidates: [
      {
        content: {
          parts: [{ text: 'a' }, { functionCall: { name: 'f', args: { a: 1 } } }, { executableCode: { code: 'x' } }]
        }
      }
    ]
  }
  t.strictSame(through([call], arguing)[0].candidates[0].content.parts, [
    { text: 'a' },
    { functionCall: { name: 'f', args: { b: 2 } } },
    { executableCode: { code: '{"b":2}' } }
  ])
  const places = edited()
  through([said('a', { index: 3 }), said('b')], places)
  t.strictSame(places.places, ['3.0 text a', '0.0 text b'])
  const whole = (body: Json, editor: Json = edited()): Json => {
    const made = gemini.text!.answer().whole(json(body), editor)
    return made && JSON.parse(made.toString())
  }
  t.strictSame(whole(said('a')), { candidates: [{ content: { role: 'model', parts: [{ text: '<a>' }] } }] })
  t.strictSame(whole([said('a'), { b: 1 }, said('c')]).map(partsOf), [[{ text: '<a' }], { b: 1 }, [{ text: '<c>' }]])
  t.equal(whole([said('a')], kept), undefined)
  t.equal(whole(said('a'), kept), undefined)
})
