// What nobody has counted is estimated from what was said, and not from how it was sent.
import fc from 'fast-check'
import t from 'tap'
import { RequestBody } from '../../core/bodies/body.ts'
import { textBytes } from '../../core/protocols/text/text-bytes.ts'
import { answers, outputLimit } from '../../plugins/estimate.ts'
import { promptOf } from '../../plugins/prompt.ts'
import { endOfBody, events, head, stall, Upstream } from '../kit/upstream.ts'
import { channelTo, chatEvents, Workbench } from '../kit/workbench.ts'

const picture = `data:image/png;base64,${'iVBORw0KGgo'.repeat(140_000)}`
const messages = [
  {
    role: 'user',
    content: [
      {
        type: 'text',
        text: 'What is in this picture, and where was it taken? Say it in one sentence, please, and in English.'
      },
      { type: 'image_url', image_url: { url: picture, detail: 'auto' } }
    ]
  }
]
const sse = head(200, { 'content-type': 'text/event-stream' })

t.test(
  'a picture counts as one, however large, when a stream is stopped, and when the upstream counts nothing',
  async (t) => {
    const upstream = await Upstream.start(t)
    const bench = await Workbench.open(t, {
      channels: { a: channelTo(upstream) },
      models: { demo: { price: { input: 1, output: 2 }, context_window: 8192 } },
      limits: { disconnect_drain: { time: '50ms' } }
    })
    const answers: number[] = []
    const forms = [
      { messages },
      { messages, stream_options: { include_usage: true } },
      { messages, user: 'x'.repeat(1000), temperature: 1 }
    ]
    for (const form of forms) {
      for (const spaced of [false, true]) {
        const body = JSON.stringify({ model: 'demo', stream: true, ...form }, undefined, spaced ? 8 : undefined)
        upstream.script(sse, events(chatEvents(3).slice(0, 3)), stall())
        const { client, answer } = bench.start({ body })
        await client.began
        client.leave()
        await answer
        const { settled, request } = bench.ledger.rows.at(-1)!
        t.equal(settled!.source, 'partial')
        t.ok(settled!.amount <= request.amount, 'never more than was held')
        answers.push(settled!.usage.input)
        upstream.sse(chatEvents(3).slice(0, -1))
        await bench.send({ body })
        const counted = bench.ledger.rows.at(-1)!.settled!
        t.equal(counted.source, 'estimated')
        answers.push(counted.usage.input)
      }
    }
    t.same(
      new Set(answers),
      new Set([Math.ceil(messages[0]!.content[0]!.text!.length / 4) + 85]),
      'whatever else is in the body, and however it is spaced'
    )
  }
)

t.test('an estimate is never above the context window', async (t) => {
  const upstream = await Upstream.start(t)
  const bench = await Workbench.open(t, {
    channels: { a: channelTo(upstream) },
    models: { demo: { price: { input: 1, output: 2 }, context_window: 100 } }
  })
  upstream.sse(chatEvents(3).slice(0, -1))
  await bench.send({ body: { stream: true, messages: [{ role: 'user', content: 'word '.repeat(10_000) }] } })
  t.match(bench.ledger.rows[0]!.settled, { source: 'estimated', usage: { input: 100 } })
})

t.test('each text of a list may be as long as the context window, and so may be each document', async (t) => {
  const upstream = await Upstream.start(t)
  const bench = await Workbench.open(t, {
    channels: { a: channelTo(upstream, { endpoints: ['embeddings', 'rerank'] }) },
    models: { demo: { price: { input: 1, output: 2 }, context_window: 100 } }
  })
  const texts = Array.from({ length: 10 }, () => 'x'.repeat(200))
  upstream.json({ object: 'list', model: 'demo', data: [{ object: 'embedding', index: 0, embedding: [0.5] }] })
  await bench.send({ target: '/v1/embeddings', body: { input: texts } })
  t.match(bench.ledger.rows[0]!.settled, { source: 'estimated', usage: { input: 500 } })
  upstream.json({ id: 'r', results: [{ index: 0, relevance_score: 0.9 }] })
  await bench.send({ target: '/v1/rerank', body: { query: 'y', documents: texts } })
  t.match(bench.ledger.rows[1]!.settled, { source: 'estimated' })
  t.ok(bench.ledger.rows[1]!.settled!.usage.input >= 500)
})

t.test('pictures and sound in an answer are no text, and it is never longer than its limit', async (t) => {
  const upstream = await Upstream.start(t)
  const bench = await Workbench.open(t, { channels: { a: channelTo(upstream) } })
  const [opening, word, , , finish] = chatEvents(3) as any[]
  const drawn = {
    ...word,
    choices: [
      { index: 0, delta: { images: [{ type: 'image_url', image_url: { url: picture } }] }, finish_reason: null }
    ]
  }
  upstream.sse([opening, word, drawn, finish])
  await bench.send({ body: { stream: true } })
  t.ok(bench.ledger.rows.at(-1)!.settled!.usage.output < 20)
  upstream.sse([opening, ...Array.from({ length: 200 }, () => word), finish])
  await bench.send({ body: { stream: true, max_tokens: 50 } })
  t.equal(bench.ledger.rows.at(-1)!.settled!.usage.output, 50)
  upstream.script(
    head(200, { 'content-type': 'application/json' }),
    events([
      `{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"Here"},"finish_reason":"stop"}],"image":"${picture}"}`
    ]),
    endOfBody()
  )
  await bench.send({})
  const { output } = bench.ledger.rows.at(-1)!.settled!.usage
  t.ok(output < 200_000, `${output} of a body of ${picture.length} bytes`)
})

t.test('the text of any prompt is found as it is said, however it is spelled', async () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 40 })
  fc.assert(
    fc.property(
      fc.array(text, { maxLength: 8 }),
      fc.nat(3),
      fc.constantFrom(undefined, 4),
      (texts, pictures, space) => {
        const content = [
          ...texts.map((text) => ({ type: 'text', text })),
          ...Array.from({ length: pictures }, () => ({
            type: 'image_url',
            image_url: { url: 'data:image/png;base64,AAAA' }
          }))
        ]
        const body = RequestBody.json(
          Buffer.from(
            JSON.stringify({ model: 'm', messages: [{ role: 'user', content }], user: 'nobody' }, undefined, space)
          )
        )
        const { text: bytes, media } = promptOf(body)
        const said = Buffer.byteLength(texts.join(''))
        return media === pictures && Math.abs(bytes - said) <= said / 10 + texts.length
      }
    ),
    { numRuns: 500 }
  )
})

t.test('what a member is called does not make its text a picture, nor a picture text', async (t) => {
  const text = 'Der Wald ist still, und der Weg ist weit. '.repeat(500)
  const csv = 'name;year\nÅsa;1987\n'.repeat(500)
  const drawn = 'iVBORw0KGgo'.repeat(5000)
  const said: Record<string, object> = {
    'a document of text': {
      messages: [
        {
          role: 'user',
          content: [{ type: 'document', source: { type: 'text', media_type: 'text/plain', data: text } }]
        }
      ]
    },
    'what a tool is told': {
      messages: [{ role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'write', input: { data: text } }] }]
    },
    'what a tool answers': {
      contents: [{ role: 'user', parts: [{ functionResponse: { name: 'read', response: { data: text, url: csv } } }] }]
    },
    'lines without a space': {
      messages: [{ role: 'user', content: [{ type: 'document', source: { type: 'text', data: csv } }] }]
    },
    JSON: {
      contents: [
        {
          role: 'user',
          parts: [{ functionResponse: { name: 'read', response: { data: JSON.stringify(Array(500).fill({ a: 1 })) } } }]
        }
      ]
    }
  }
  for (const [what, body] of Object.entries(said)) {
    const { text: bytes, media } = promptOf(RequestBody.json(Buffer.from(JSON.stringify({ model: 'm', ...body }))))
    t.ok(bytes > 4000 && media === 0, `${what}: ${bytes} bytes, ${media} pieces`)
  }
  const shown: Record<string, object> = {
    'a picture that was made': {
      input: [{ type: 'image_generation_call', id: 'ig_1', status: 'completed', result: drawn }]
    },
    'a PDF in lines': {
      messages: [
        {
          role: 'user',
          content: [{ type: 'document', source: { type: 'base64', data: drawn.replace(/.{76}/g, '$&\n') } }]
        }
      ]
    },
    'an address': {
      messages: [
        { role: 'user', content: [{ type: 'image', source: { type: 'url', url: 'https://example.com/a.png?x={1}' } }] }
      ]
    }
  }
  for (const [what, body] of Object.entries(shown)) {
    const { text: bytes, media } = promptOf(RequestBody.json(Buffer.from(JSON.stringify({ model: 'm', ...body }))))
    t.ok(bytes < 100 && media === 1, `${what}: ${bytes} bytes, ${media} pieces`)
  }
  t.equal(
    textBytes([
      { type: 'message', content: [{ type: 'output_text', text: 'Here it is.' }] },
      { type: 'image_generation_call', result: drawn }
    ]),
    11,
    'nor in an answer'
  )
  t.equal(textBytes({ result: text }), Buffer.byteLength(text))
  t.match(
    promptOf(
      RequestBody.json(
        Buffer.from('{"model":"m","contents":[{"parts":[{"functionResponse":{"response":{"result":"ok"}}}]}]}')
      )
    ),
    { text: 2, media: 0 }
  )
})

t.test('limits that stand inside of a member hold, however large its schemas are', async (t) => {
  const metering = { outputLimits: ['generationConfig.maxOutputTokens'], counts: ['generationConfig.candidateCount'] }
  const limits = (settings: string): unknown => {
    const body = RequestBody.json(Buffer.from(`{"generationConfig":${settings}}`))
    return [outputLimit(body, metering), answers(body, metering)]
  }
  t.same(
    limits(
      JSON.stringify({
        responseSchema: { description: 'x'.repeat(100_000) },
        maxOutputTokens: 50_000,
        candidateCount: 2
      })
    ),
    [50_000, 2]
  )
  for (const none of ['{}', 'null', '[]', '"x"', '{"maxOutputTokens":null}']) t.same(limits(none), [undefined, 1], none)
  for (const wrong of [
    '{"maxOutputTokens":5,"maxOutputTokens":50000}',
    '{"maxOutputTokens":0}',
    '{"candidateCount":1.5}'
  ])
    t.throws(() => limits(wrong), { code: 'invalid_field' }, wrong)
})
