// Completions, embeddings, moderations and reranking: endpoints of the simulator that take texts and keep nothing.
import t from 'tap'
import { countTokens } from '../../../core/simulator/words/tokens.ts'
import { readEvents } from '../../kit/sse.ts'
import { start, tell } from './kit.ts'

t.test('a completion continues every prompt, streamed and not', async (t) => {
  const { send, json } = await start(t)
  const path = '/v1/completions'
  const body = { model: 'm', prompt: ['One', 'Two'], n: 2, max_tokens: 20 }
  const whole = await json(path, body)
  t.match(whole, { id: /^cmpl-/, object: 'text_completion', model: 'm' })
  t.same(
    whole.choices.map((choice: any) => choice.index),
    [0, 1, 2, 3]
  )
  t.match(whole.choices[2].text, /You wrote "Two"/)
  t.match(whole.usage, {
    prompt_tokens: 2,
    completion_tokens: whole.choices.reduce((sum: number, choice: any) => sum + countTokens(choice.text), 0)
  })

  const events = readEvents((await send(path, { ...body, stream: true, stream_options: { include_usage: true } })).body)
  t.equal(events.pop()!.data, '[DONE]')
  const chunks = events.map(({ data }) => JSON.parse(data))
  t.same(chunks.at(-1), {
    id: whole.id,
    object: 'text_completion',
    created: whole.created,
    model: 'm',
    choices: [],
    usage: whole.usage
  })
  const texts = ['', '', '', '']
  for (const {
    choices: [choice]
  } of chunks.slice(0, -1))
    texts[choice.index] += choice.text
  t.same(
    texts,
    whole.choices.map((choice: any) => choice.text)
  )
  t.same(
    chunks.slice(-5, -1).map(({ choices: [choice] }) => [choice.index, choice.finish_reason]),
    [
      [0, 'length'],
      [1, 'length'],
      [2, 'length'],
      [3, 'length']
    ]
  )
})

t.test(
  'a completion is as long as the API makes it unless it is told, echoes, and writes several to choose from',
  async (t) => {
    const { json, stats } = await start(t)
    const path = '/v1/completions'
    t.match(await json(path, { model: 'm', prompt: 'Hi' }), {
      usage: { completion_tokens: 16 },
      choices: [{ finish_reason: 'length' }]
    })
    t.equal(
      (await json(path, { model: 'm', prompt: tell({ text: ' two three' }, 'one'), echo: true })).choices[0].text,
      'one two three'
    )
    t.match(await json(path, { model: 'm', prompt: [1, 2, 3] }), { usage: { prompt_tokens: 3 } })
    t.match(await json(path, { model: 'm', prompt: [[1, 2], [3]] }), {
      usage: { prompt_tokens: 3 },
      choices: [{ index: 0 }, { index: 1 }]
    })
    const before = stats.counted.completion!
    const best = await json(path, { model: 'm', prompt: tell({ tokens: 5 }), n: 1, best_of: 3 })
    t.equal(best.choices.length, 1)
    t.equal(best.usage.completion_tokens, 15, 'what is not shown was written too')
    t.equal(stats.counted.completion! - before, 15)
  }
)

t.test('an embedding is the same for the same text, as numbers and as bytes', async (t) => {
  const { json, stats } = await start(t)
  const path = '/v1/embeddings'
  const { data, usage, ...rest } = await json(path, {
    model: 'm',
    input: ['Hello, world', 'Hello', 'Hello, world'],
    dimensions: 7
  })
  t.same(rest, { object: 'list', model: 'm' })
  t.same(usage, { prompt_tokens: 7, total_tokens: 7 })
  t.same(
    data.map(({ object, index }: any) => [object, index]),
    [
      ['embedding', 0],
      ['embedding', 1],
      ['embedding', 2]
    ]
  )
  t.same(data[0].embedding, data[2].embedding)
  t.notSame(data[0].embedding, data[1].embedding)
  t.equal(data[0].embedding.length, 7)
  t.ok(Math.abs(Math.hypot(...data[0].embedding) - 1) < 1e-6, 'of unit length')

  const [{ embedding: encoded }] = (
    await json(path, { model: 'm', input: 'Hello, world', dimensions: 7, encoding_format: 'base64' })
  ).data
  const bytes = Buffer.from(encoded, 'base64')
  t.same(
    Array.from({ length: 7 }, (_, i) => bytes.readFloatLE(i * 4)),
    data[0].embedding.map(Math.fround),
    'little-endian floats, exactly these'
  )

  t.equal((await json(path, { model: 'm', input: 'x' })).data[0].embedding.length, 1536)
  t.match(await json(path, { model: 'm', input: [5, 6, 7] }), { data: [{ index: 0 }], usage: { prompt_tokens: 3 } })
  t.match(await json(path, { model: 'm', input: [[5, 6], [7]] }), {
    data: [{ index: 0 }, { index: 1 }],
    usage: { prompt_tokens: 3 }
  })
  t.notOk('usage' in (await json(path, { model: 'm', input: ['x', tell({ usage: null })] })))
  t.equal(stats.counted.prompt, 7 + 3 + 1 + 3 + 3 + 1 + countTokens(tell({ usage: null })))
})

t.test('a text that names a category is flagged for it', async (t) => {
  const { json } = await start(t)
  const path = '/v1/moderations'
  const { id, model, results } = await json(path, { input: ['A calm morning', 'So much violence'] })
  t.match([id, model], [/^modr-/, 'omni-moderation-latest'])
  t.same(
    results.map((result: any) => result.flagged),
    [false, true]
  )
  const [, { categories, category_scores: scores, category_applied_input_types: types }] = results
  for (const verdicts of [categories, scores, types]) t.equal(Object.keys(verdicts).length, 13)
  t.same(
    Object.keys(categories).filter((name) => categories[name]),
    ['violence']
  )
  t.ok(scores.violence >= 0.9 && scores.hate < 0.1)
  const parts = [
    { type: 'text', text: 'hate' },
    { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }
  ]
  t.match((await json(path, { model: 'm', input: parts })).results, [
    { flagged: true, category_applied_input_types: { hate: ['text', 'image'] } }
  ])
})

t.test('documents are ranked by the words they share, in the shape of each vendor', async (t) => {
  const { json, stats } = await start(t)
  const documents = [
    'Trains run on rails',
    'A red boat at sea',
    'The sea is blue',
    ...Array<string>(98).fill('nothing')
  ]
  const body = { model: 'm', query: 'red boat sea', documents, top_n: 2 }
  const tokens = countTokens(body.query) + documents.reduce((sum, text) => sum + countTokens(text), 0)
  const indices = (results: any[]): unknown => results.map(({ index }) => index)
  const units = { billed_units: { search_units: 2 } }

  const plain = await json('/v1/rerank', body, { headers: { 'x-request-id': 'plain' } })
  t.same(Object.keys(plain), ['model', 'object', 'usage', 'results'])
  t.same(plain.usage, { total_tokens: tokens, prompt_tokens: tokens })
  t.same(indices(plain.results), [1, 2])
  t.ok(plain.results[0].relevance_score > plain.results[1].relevance_score && plain.results[0].relevance_score <= 1)
  t.same(plain.results[0].document, { text: 'A red boat at sea' })
  t.notOk('document' in (await json('/v1/rerank', { ...body, return_documents: false })).results[0])
  t.same(stats.byRequest.get('plain'), { prompt: tokens, searches: 2 })

  const older = await json('/cohere/v1/rerank', {
    ...body,
    documents: documents.map((text) => ({ text })),
    return_documents: true
  })
  t.match(older, {
    id: /^[0-9a-f-]{36}$/,
    meta: { api_version: { version: '1' }, ...units },
    results: [{ index: 1, document: { text: 'A red boat at sea' } }, { index: 2 }]
  })
  t.notOk('usage' in older)
  t.same(
    await json('/v1/rerank', body, { headers: { 'x-fern-sdk-name': 'cohere-ai' } }),
    await json('/cohere/v1/rerank', body)
  )

  const newer = await json('/v2/rerank', { ...body, return_documents: true })
  t.match(newer, { meta: { api_version: { version: '2' }, ...units } })
  t.same(
    newer.results,
    plain.results.map(({ document: _, ...rest }: any) => rest),
    'it never returns documents'
  )

  const other = await json('/voyage/v1/rerank', {
    model: 'm',
    query: body.query,
    documents,
    top_k: 1,
    return_documents: true
  })
  t.match(other, {
    object: 'list',
    model: 'm',
    usage: { total_tokens: tokens },
    data: [{ index: 1, document: 'A red boat at sea' }]
  })
  t.equal(other.data.length, 1)

  t.same(
    (await json('/v2/rerank', { ...body, query: tell({ usage: { search_units: 9 } }, 'red boat') })).meta.billed_units,
    { search_units: 9 }
  )
  t.notOk('usage' in (await json('/v1/rerank', { ...body, query: tell({ usage: null }, 'red boat') })))
})

t.test('bad requests are refused in the envelope of the one who was asked', async (t) => {
  const { send } = await start(t, { key: 'sk-right', models: ['m'] })
  const headers = { authorization: 'Bearer sk-right' }
  const cases: [path: string, body: unknown, status: number, param: string | null][] = [
    ['/v1/completions', { prompt: 'x' }, 400, null],
    ['/v1/completions', { model: 'x', prompt: 'x' }, 404, 'model'],
    ['/v1/completions', { model: 'm', prompt: 3 }, 400, 'prompt'],
    ['/v1/completions', { model: 'm', prompt: 'x', n: 3, best_of: 2 }, 400, 'best_of'],
    ['/v1/completions', { model: 'm', prompt: 'x', best_of: 2, stream: true }, 400, 'best_of'],
    ['/v1/completions', { model: 'm', prompt: '[[simulator {"x": 1}]]' }, 400, 'prompt'],
    ['/v1/embeddings', { model: 'm' }, 400, 'input'],
    ['/v1/embeddings', { model: 'm', input: [] }, 400, 'input'],
    ['/v1/embeddings', { model: 'm', input: '' }, 400, 'input'],
    ['/v1/embeddings', { model: 'm', input: ['x', [1]], encoding_format: 'hex' }, 400, 'encoding_format'],
    ['/v1/embeddings', { model: 'm', input: ['x', {}] }, 400, 'input'],
    ['/v1/embeddings', { model: 'm', input: 'x', dimensions: 0 }, 400, 'dimensions'],
    ['/v1/embeddings', { model: 'm', input: Array<string>(2048).fill('x'), dimensions: 4096 }, 400, 'dimensions'],
    ['/v1/moderations', { model: 'm' }, 400, 'input'],
    ['/v1/moderations', { model: 'm', input: [{ type: 'audio' }] }, 400, 'input[0]']
  ]
  for (const [path, body, status, param] of cases) {
    const reply = await send(path, body, { headers })
    t.equal(reply.status, status, JSON.stringify(body))
    t.match(reply.json(), { error: { message: /\S/, type: 'invalid_request_error', param } }, JSON.stringify(body))
  }
  const query = { model: 'm', query: 'x', documents: ['a'] }
  for (const [path, body, status, member] of [
    ['/v1/rerank', { ...query, documents: [] }, 400, 'detail'],
    ['/v1/rerank', { ...query, model: 'x' }, 404, 'detail'],
    ['/v2/rerank', { ...query, documents: [{ text: 'a' }] }, 400, 'message'],
    ['/v2/rerank', { ...query, top_n: 0 }, 400, 'message'],
    ['/cohere/v1/rerank', { ...query, query: '' }, 400, 'message'],
    ['/voyage/v1/rerank', { ...query, top_k: 'x' }, 400, 'detail'],
    ['/voyage/v1/nothing', query, 404, 'detail']
  ] as const) {
    const reply = await send(path, body, { headers })
    t.equal(reply.status, status)
    t.same(Object.keys(reply.json()), [member])
  }
  t.equal((await send('/v2/rerank', query)).status, 401)
  t.same(Object.keys((await send('/v2/rerank', { ...query, query: tell({ status: 429 }) }, { headers })).json()), [
    'message'
  ])
  t.match(await send('/v1/embeddings', { model: 'm', input: tell({ status: 503 }) }, { headers }), {
    status: 503,
    text: /server_error/
  })
})
