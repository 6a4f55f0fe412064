// Bytes that need no change are not touched: requests and answers of one protocol pass as they came, splices apart.
import t from 'tap'
import { ask } from '../kit/client.ts'
import { gateway, testKey, testModel } from '../kit/gateway.ts'
import { checkChatStream } from '../kit/sse.ts'
import { bytes, chunk, endOfBody, events, fin, head, Upstream } from '../kit/upstream.ts'
import type { Step } from '../kit/upstream.ts'
import { chatAnswer, chatEvents } from '../kit/workbench.ts'

const path = '/v1/chat/completions'
/** Everything that a parser would change on the way through. */
const odd = `"messages":[ {"role" : "user",\n"content":"\\u00e9 é \\ud83d\\ude00 \\/ <"}\t],"temperature":1.0,"seed":9007199254740993,"x_vendor":{"a":1e400,"b":[1.10 ]},"user":"u"`

t.test('an odd body reaches the upstream byte for byte, and its odd answer the client', async (t) => {
  const upstream = await Upstream.start(t)
  const { url } = await gateway(t, {}, { upstreams: { up: upstream } })
  const body = ` { ${odd} , "model" :"${testModel}" } `
  const answer = `{ "id":"c" ,"object":"chat.completion","created":1.0, "model":"${testModel}","choices":[ {"index":0,"message":{"role":"assistant","content":"\\u00e9\\ud83d\\ude00"},"finish_reason":"stop"}], "big":9007199254740993, "usage":{"prompt_tokens":3 ,"completion_tokens":1,"total_tokens":4 } }\n`
  upstream.json(answer)
  const reply = await ask(t, url, {
    path,
    headers: { authorization: `Bearer ${testKey}`, 'content-type': 'application/json; charset=utf-8' },
    body
  })
  t.equal(upstream.requests[0]!.body.toString(), body)
  t.equal(reply.text, answer)
  t.equal(reply.headers['content-length'], String(Buffer.byteLength(answer)))
})

t.test('with an alias only the two model names differ, in bodies and in every event', async (t) => {
  const upstream = await Upstream.start(t)
  const { url, record } = await gateway(
    t,
    { channels: { up: { models: { [testModel]: 'Vendor/Model-X-0613' } } } },
    { upstreams: { up: upstream } }
  )
  const headers = { authorization: `Bearer ${testKey}` }
  const body = `{"model":"${testModel}",${odd}}`
  const answer = `{"id":"c","model":"Vendor/Model-X-0613-snapshot","choices":[{"index":0,"message":{"role":"assistant","content":"I am \\"model\\":\\"x\\""},"finish_reason":"stop"}]}`
  upstream.json(answer)
  const reply = await ask(t, url, { path, headers, body })
  t.equal(upstream.requests[0]!.body.toString(), `{"model":"Vendor/Model-X-0613",${odd}}`)
  t.equal(reply.text, answer.replace('Vendor/Model-X-0613-snapshot', testModel))
  t.match(await record(reply), { model: testModel, channel: 'up' })

  const stream = chatEvents(2).map((event) => ({ ...event, model: 'Vendor/Model-X-0613' }))
  upstream.sse(stream, { cut: 'byte' })
  const streamed = await ask(t, url, {
    path,
    headers,
    body: `{"stream":true,"stream_options":{"include_usage":true},"model":"${testModel}",${odd}}`
  })
  const wanted = [
    ...stream.map((event) => `data: ${JSON.stringify({ ...event, model: testModel })}\n\n`),
    'data: [DONE]\n\n'
  ].join('')
  t.equal(streamed.text, wanted)
})

t.test('usage is asked for when the client did not, and then seen by nobody but the gateway', async (t) => {
  const upstream = await Upstream.start(t)
  const { url, record } = await gateway(t, {}, { upstreams: { up: upstream } })
  const headers = { authorization: `Bearer ${testKey}` }
  const stream = chatEvents(3, 7)
  const wire = (list: readonly object[]): string =>
    `${list.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')}data: [DONE]\n\n`
  const cases: [string, string, readonly object[]][] = [
    ['', '"stream_options":{"include_usage":true},', stream.slice(0, -1)],
    ['"stream_options":null,', '"stream_options":{"include_usage":true},', stream.slice(0, -1)],
    [
      '"stream_options":{"include_usage":false,"x":1},',
      '"stream_options":{"include_usage":true,"x":1},',
      stream.slice(0, -1)
    ],
    ['"stream_options":{"include_usage":true,"x":1},', '"stream_options":{"include_usage":true,"x":1},', stream]
  ]
  for (const [asked, sent, shown] of cases) {
    upstream.sse(stream)
    const reply = await ask(t, url, {
      path,
      headers,
      body: `{${asked}"stream":true,"model":"${testModel}","messages":[]}`
    })
    t.equal(
      upstream.requests.at(-1)!.body.toString(),
      `{${sent}"stream":true,"model":"${testModel}","messages":[]}`,
      `asked ${asked || 'nothing'}`
    )
    t.equal(reply.text, wire(shown))
    t.match(await record(reply), { usage: { input: 7, output: 3 }, usage_source: 'upstream', outcome: 'completed' })
  }
})

t.test('a body that two parsers could read differently never leaves', async (t) => {
  const upstream = await Upstream.start(t)
  const { url } = await gateway(
    t,
    { models: { other: { price: 'free' } }, channels: { up: { models: { other: 'other' } } } },
    { upstreams: { up: upstream } }
  )
  const headers = { authorization: `Bearer ${testKey}` }
  const bodies = [
    `{"model":"${testModel}","model":"other"}`,
    `{"model":"${testModel}","\\u006dodel":"other"}`,
    `{"model":"${testModel}"}{"model":"other"}`,
    `{"model":"${testModel}",}`,
    `{"model":"${testModel}","messages":[}`,
    `{"model":"${testModel}","x":NaN}`,
    `[{"model":"${testModel}"}]`,
    `"${testModel}"`,
    'null',
    '',
    `{'model':'${testModel}'}`,
    `{"model":"${testModel}","deep":${'['.repeat(10_000)}${']'.repeat(10_000)}}`,
    Buffer.from(`{"model":"${testModel}"}`, 'utf16le'),
    Buffer.concat([Buffer.from('{"model":"'), Buffer.from([0xff, 0xfe]), Buffer.from('"}')])
  ]
  for (const body of bodies) {
    const reply = await ask(t, url, { path, headers: { ...headers, 'content-type': 'application/json' }, body })
    t.match(
      reply.json(),
      { error: { type: 'invalid_request_error', message: String, code: 'invalid_json' } },
      String(body).slice(0, 50)
    )
    t.equal(reply.status, 400)
  }
  for (const body of ['{}', '{"model":5}', '{"model":""}', '{"model":null}', '{"model":["x"]}']) {
    const reply = await ask(t, url, { path, headers, body: JSON.parse(body) as object })
    t.match(reply, { status: 400 }, body)
    t.match(reply.json().error, { param: 'model' }, body)
  }
  t.equal(upstream.requests.length, 0)
})

t.test("neither the client's credential nor its other headers go upstream", async (t) => {
  const upstream = await Upstream.start(t)
  const { url } = await gateway(t, {}, { upstreams: { up: upstream } })
  upstream.json(chatAnswer())
  await ask(t, `${url}`, {
    path: `${path}?key=${testKey}&x=1`,
    headers: {
      authorization: `Bearer ${testKey}`,
      'x-api-key': testKey,
      'x-goog-api-key': testKey,
      cookie: 'a=b',
      'x-forwarded-for': '1.2.3.4',
      'openai-organization': 'org',
      'x-stainless-lang': 'js',
      'accept-encoding': 'gzip, br',
      'x-request-id': 'mine'
    },
    body: { model: testModel, messages: [] }
  })
  const [request] = upstream.requests
  t.notMatch(JSON.stringify(request!.headers) + request!.target, new RegExp(testKey))
  t.strictSame(Object.keys(request!.headers).sort(), [
    'accept',
    'accept-encoding',
    'authorization',
    'connection',
    'content-length',
    'content-type',
    'host',
    'user-agent'
  ])
  t.match(request!.headers, { authorization: 'Bearer upstream-secret-of-up', 'accept-encoding': 'identity' })
  t.equal(request!.target, '/v1/chat/completions')
})

t.test("upstream headers that are not the client's business stay behind", async (t) => {
  const upstream = await Upstream.start(t)
  const { url } = await gateway(t, {}, { upstreams: { up: upstream } })
  upstream.script(
    head(200, {
      'content-type': 'text/event-stream',
      'set-cookie': 'a=b',
      'x-ratelimit-remaining-requests': '1',
      'x-request-id': 'theirs',
      'openai-organization': 'org',
      server: 'secret'
    }),
    events([...chatEvents(1), 'data: [DONE]\n\n']),
    endOfBody()
  )
  const reply = await ask(t, url, {
    path,
    headers: { authorization: `Bearer ${testKey}` },
    body: { model: testModel, messages: [], stream: true }
  })
  for (const name of ['set-cookie', 'x-ratelimit-remaining-requests', 'openai-organization', 'server'])
    t.notOk(name in reply.headers, name)
  t.match(reply.headers['x-request-id'], /^[0-9a-f-]{36}$/)
  t.equal(reply.headers['request-id'], reply.headers['x-request-id'])
  t.equal(reply.headers['content-type'], 'text/event-stream')
})

t.test('an answer too large to be held passes in runs, and its usage is read from its end', async (t) => {
  const upstream = await Upstream.start(t)
  const { url, record } = await gateway(t, {}, { upstreams: { up: upstream } })
  const content = 'x'.repeat(3_000_000)
  const body = JSON.stringify({
    id: 'c',
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 5, completion_tokens: 6, total_tokens: 11 }
  })
  upstream.json(body)
  const headers = { authorization: `Bearer ${testKey}` }
  const reply = await ask(t, url, { path, headers, body: { model: testModel, messages: [] } })
  t.ok(reply.text === body, 'the same bytes')
  t.match(await record(reply), { usage: { input: 5, output: 6 }, usage_source: 'upstream' })

  upstream.script(
    head(200, { 'content-type': 'application/json', 'content-length': String(body.length) }),
    bytes(body.slice(0, 2_000_000)),
    ({ socket }) => void socket.destroySoon()
  )
  const cut = await ask(t, url, { path, headers, body: { model: testModel, messages: [] } })
  t.notOk(cut.complete, 'a cut body does not look whole')
  t.match(await record(cut), { outcome: 'failed', error_code: 'upstream_stream_interrupted', usage_source: 'partial' })

  const ends: Record<string, [Record<string, string>, Step[]]> = {
    'ends with its connection': [{ connection: 'close' }, [bytes(body.slice(0, 2_000_000)), fin()]],
    'comes to the end of its chunks': [{}, [chunk(body.slice(0, 2_000_000)), endOfBody()]],
    'ends behind a member': [{}, [chunk(body.slice(0, body.indexOf(',"usage"'))), endOfBody()]]
  }
  for (const [how, [more, steps]] of Object.entries(ends)) {
    upstream.script(head(200, { 'content-type': 'application/json', ...more }), ...steps)
    const half = await ask(t, url, { path, headers, body: { model: testModel, messages: [] } })
    t.notOk(half.complete, `half of an answer that ${how} does not look whole`)
    t.match(await record(half), {
      outcome: 'failed',
      error_code: 'upstream_stream_interrupted',
      usage_source: 'partial'
    })
  }
  upstream.script(head(200, { 'content-type': 'application/json', connection: 'close' }), bytes(body), fin())
  t.ok(
    (await ask(t, url, { path, headers, body: { model: testModel, messages: [] } })).text === body,
    'a whole one does'
  )
  upstream.script(
    head(200, { 'content-type': 'application/json' }),
    chunk(body.replace('"index":0', '"index":zero')),
    endOfBody()
  )
  const odd = await ask(t, url, { path, headers, body: { model: testModel, messages: [] } })
  t.match(odd, { status: 502, complete: true }, 'what is no JSON is no answer, however long')
})

t.test('an upstream that leaves the role out is completed, and nothing else of it is touched', async (t) => {
  const upstream = await Upstream.start(t)
  const { chat } = await gateway(t, {}, { upstreams: { up: upstream } })
  const [, ...list] = chatEvents(2)
  upstream.sse(list)
  const reply = await chat({ stream: true })
  t.match(checkChatStream(reply.body).choices, [{ role: 'assistant', content: 'word0 word1 ', finish: 'stop' }])
  t.ok(
    reply.text.endsWith(
      list
        .slice(0, -1)
        .map((event) => `data: ${JSON.stringify(event)}\n\n`)
        .join('') + 'data: [DONE]\n\n'
    )
  )
})
