// Request bodies are read within their bounds of size, time and memory, however they are framed.
import t from 'tap'
import { definePlugin } from '../../core/contract/contract.ts'
import { plugins } from '../../plugins/index.ts'
import { connect } from '../kit/client.ts'
import { gateway, testKey, testModel } from '../kit/gateway.ts'
import { askHttp2, openSession } from '../kit/http2.ts'
import { eventually, figures, stopwatch } from '../kit/probe.ts'
import { reset, Upstream } from '../kit/upstream.ts'
import { chatAnswer } from '../kit/workbench.ts'

const start = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${testKey}\r\ncontent-type: application/json\r\n`
const body = (size: number): string => {
  const text = `{"model":"${testModel}","messages":[{"role":"user","content":"`
  return `${text}${'x'.repeat(size - text.length - 4)}"}]}`
}
const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`

t.test('a body of the largest size passes, one byte more is refused before it is read', async (t) => {
  const upstream = await Upstream.start(t)
  const running = await gateway(t, { limits: { json_body: '64KiB' } }, { upstreams: { up: upstream } })
  for (const chunked of [false, true]) {
    const send = async (text: string, declared = text.length): Promise<number> => {
      const client = await connect(t, running.url)
      if (chunked)
        client.write(
          `${start}transfer-encoding: chunked\r\n\r\n${chunk(text.slice(0, 1000))}${chunk(text.slice(1000))}0\r\n\r\n`
        )
      else client.write(`${start}content-length: ${declared}\r\n\r\n${text}`)
      const { status, text: reply } = await client.reply()
      if (status !== 200) t.match(JSON.parse(reply), { error: { code: 'request_too_large', message: /65536 bytes/ } })
      return status
    }
    upstream.json(chatAnswer())
    t.equal(await send(body(64 * 1024)), 200)
    t.equal(await send(body(64 * 1024 + 1)), 413)
    if (!chunked) t.equal(await send('', 10 * 1024 ** 3), 413, 'ten gigabytes are refused by their announcement')
  }
  t.equal(upstream.requests.length, 2)
})

t.test('a body that comes too slowly is given up', async (t) => {
  const running = await gateway(t, { limits: { client_body: '300ms' } })
  for (const framing of ['content-length: 1000\r\n\r\n{', 'transfer-encoding: chunked\r\n\r\n1\r\n{\r\n']) {
    const client = await connect(t, running.url)
    const began = stopwatch()
    client.write(start + framing)
    const { status, text } = await client.reply()
    t.match([status, JSON.parse(text)], [408, { error: { code: 'request_timeout' } }])
    t.ok(began.ms < 2000)
  }
})

t.test('a slow body that keeps coming is waited for', async (t) => {
  const upstream = await Upstream.start(t)
  const running = await gateway(t, { limits: { client_body: '1500ms' } }, { upstreams: { up: upstream } })
  upstream.json(chatAnswer())
  const text = body(4000)
  const client = await connect(t, running.url)
  client.write(`${start}content-length: ${text.length}\r\n\r\n`)
  for (let at = 0; at < text.length; at += 1000) {
    client.write(text.slice(at, at + 1000))
    await new Promise((resolve) => setTimeout(resolve, 450))
  }
  t.equal((await client.reply()).status, 200)
  t.equal(upstream.requests[0]!.body.toString(), text)
})

t.test('large bodies sent at the same time reach the upstream byte for byte, however they are framed', async (t) => {
  const upstream = await Upstream.start(t)
  const running = await gateway(t, {}, { upstreams: { up: upstream } })
  // No two pieces of them are equal, so that one in the wrong place, or of another body, shows.
  const texts = Array.from({ length: 9 }, (_, number) => {
    const content = Array.from({ length: 30_000 }, (_, at) => `${number}-${at}`).join(' ')
    upstream.json(chatAnswer())
    return JSON.stringify({ model: testModel, messages: [{ role: 'user', content }] })
  })
  const session = openSession(t, running.url)
  const http2 = {
    ':method': 'POST',
    ':path': '/v1/chat/completions',
    authorization: `Bearer ${testKey}`,
    'content-type': 'application/json'
  }
  await Promise.all(
    texts.map(async (text, number) => {
      if (number % 3 === 2) {
        t.equal(
          (await askHttp2(session, { ...http2, ...(number % 2 && { 'content-length': text.length }) }, text)).headers[
            ':status'
          ],
          200
        )
        return
      }
      const client = await connect(t, running.url)
      if (number % 3 === 0) client.write(`${start}content-length: ${text.length}\r\n\r\n${text}`)
      else
        client.write(
          `${start}transfer-encoding: chunked\r\n\r\n${chunk(text.slice(0, 150_000))}${chunk(text.slice(150_000))}0\r\n\r\n`
        )
      t.equal((await client.reply()).status, 200)
    })
  )
  const received = new Set(upstream.requests.map(({ body }) => body.toString()))
  t.strictSame(
    texts.map((text) => received.has(text)),
    texts.map(() => true)
  )
})

t.test('bodies that would not fit in memory together are refused, and the memory comes back', async (t) => {
  const upstream = await Upstream.start(t)
  const running = await gateway(
    t,
    { limits: { body_memory: '256KiB', client_body: '2s' } },
    { upstreams: { up: upstream } }
  )
  const holding = await Promise.all(Array.from({ length: 4 }, () => connect(t, running.url)))
  for (const client of holding) client.write(`${start}content-length: 65536\r\n\r\n{`)
  await new Promise((resolve) => setTimeout(resolve, 300))
  const refused = await running.chat()
  t.match([refused.status, refused.json().error.code], [503, 'overloaded'])
  t.ok(refused.headers['retry-after'])
  await Promise.all(holding.map((client) => client.reply()))
  upstream.json(chatAnswer())
  t.equal((await running.chat()).status, 200)
})

t.test('what is not JSON by its own account is refused', async (t) => {
  const running = await gateway(t)
  for (const [headers, status, code] of [
    [{ 'content-type': 'text/plain' }, 415, 'unsupported_media_type'],
    [{ 'content-type': 'multipart/form-data; boundary=x' }, 415, 'unsupported_media_type'],
    [{ 'content-type': 'application/json', 'content-encoding': 'br' }, 415, 'unsupported_media_type']
  ] as const) {
    const reply = await running.ask({ path: '/v1/chat/completions', headers, body: Buffer.from('{"model":"demo"}') })
    t.match([reply.status, reply.json().error.code], [status, code])
  }
  const plus = await running.ask({
    path: '/v1/chat/completions',
    headers: { 'content-type': 'application/vnd.api+json' },
    body: Buffer.from('{"model":"demo","messages":[{"role":"user","content":"x"}]}')
  })
  t.equal(plus.status, 200)
})

t.test('a string that is no JSON is the fault of the client, whether anybody reads it or not', async (t) => {
  const running = await gateway(t)
  for (const text of [
    `{"model":"demo\\q","messages":[]}`,
    `{"model":"demo\n","messages":[]}`,
    `{"model":"demo","messages":[],"stream":true,"stream_options":{"x":"\\q"}}`,
    `{"model":"demo","messages":[{"role":"user","content":"two\nlines"}]}`,
    `{"model":"demo","messages":[{"role":"user","content":"C:\\dir"}]}`
  ]) {
    const reply = await running.ask({
      path: '/v1/chat/completions',
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(text)
    })
    t.match([reply.status, reply.json().error.code], [400, 'invalid_json'], text)
  }
})

t.test(
  'a body whose memory is used again is never seen by another request, also when clients leave and upstreams fail',
  async (t) => {
    const [first, second] = [await Upstream.start(t), await Upstream.start(t)]
    const running = await gateway(t, {}, { upstreams: { first, second } })
    for (let number = 0; number < 60; number++) {
      // Of some requests the head is read alone, and the connection broken while the body is on its way.
      if (number % 3 === 0) first.scriptFromHead(reset())
      else first.json(chatAnswer())
      second.json(chatAnswer())
    }
    const texts = Array.from({ length: 48 }, (_, number) => {
      const content = `${number}:`.repeat(20_000 + 1000 * (number % 7))
      return JSON.stringify({ model: testModel, messages: [{ role: 'user', content }] })
    })
    const lane = async (from: number): Promise<void> => {
      for (let number = from; number < texts.length; number += 8) {
        const text = texts[number]!
        const client = await connect(t, running.url)
        client.write(`${start}content-length: ${text.length}\r\n\r\n${text}`)
        if (number % 5 === 4) client.close()
        else t.equal((await client.reply()).status, 200)
      }
    }
    await Promise.all(Array.from({ length: 8 }, (_, from) => lane(from)))
    const sent = new Set(texts)
    const arrived = [...first.requests, ...second.requests].filter(({ complete }) => complete)
    t.ok(
      arrived.every(({ body }) => sent.has(body.toString())),
      `${arrived.length} bodies arrived whole, each as somebody sent it`
    )
    t.ok(arrived.length >= 38)
  }
)

t.test('what a stage puts into an answer of the request body stays as it was while its client is slow', async (t) => {
  const upstream = await Upstream.start(t)
  const append = definePlugin({
    name: 'append',
    summary: 'Adds what was asked to the answer.',
    options: {},
    setup: () => ({
      onResponse: (exchange) => ({ map: (message, emit) => emit(message.withData(exchange.body.bytes)) })
    })
  })
  const chain = [{ auth: {} }, { route: {} }, { append: {} }]
  const running = await gateway(
    t,
    { chain },
    { upstreams: { upstream }, plugins: new Map([...plugins, ['append', append]]) }
  )
  const textOf = (letter: string): string =>
    JSON.stringify({ model: testModel, messages: [{ role: 'user', content: letter.repeat(8_000_000) }] })
  for (let i = 0; i < 4; i++) upstream.json(chatAnswer())
  const slow = await connect(t, running.url)
  slow.stopReading()
  const text = textOf('a')
  slow.write(`${start}content-length: ${text.length}\r\n\r\n${text}`)
  await eventually(
    async () => upstream.requests.length === 1 && (await figures(t, running)).get('sluice_exchanges_running') === 0
  )
  for (const letter of 'bcd') {
    const other = textOf(letter)
    const client = await connect(t, running.url)
    client.write(`${start}content-length: ${other.length}\r\n\r\n${other}`)
    t.ok((await client.reply()).text === other)
  }
  slow.socket.resume()
  t.ok((await slow.reply()).text === text, 'not a byte of another request')
})

t.test('a reply that a plugin makes of the request body stays as it was while its client is slow', async (t) => {
  const upstream = await Upstream.start(t)
  let asked = 0
  const echo = definePlugin({
    name: 'echo',
    summary: 'Answers with what was asked.',
    options: {},
    setup: () => ({
      onRequest(exchange) {
        asked++
        return { status: 200, body: exchange.body.bytes }
      }
    })
  })
  const chain = [{ auth: {} }, { echo: {} }, { route: {} }]
  const running = await gateway(
    t,
    { chain },
    { upstreams: { upstream }, plugins: new Map([...plugins, ['echo', echo]]) }
  )
  const textOf = (letter: string): string =>
    JSON.stringify({ model: testModel, messages: [{ role: 'user', content: letter.repeat(8_000_000) }] })
  const slow = await connect(t, running.url)
  slow.stopReading()
  const text = textOf('a')
  slow.write(`${start}content-length: ${text.length}\r\n\r\n${text}`)
  await eventually(async () => asked === 1 && (await figures(t, running)).get('sluice_exchanges_running') === 0)
  for (const letter of 'bcd') {
    const other = textOf(letter)
    const client = await connect(t, running.url)
    client.write(`${start}content-length: ${other.length}\r\n\r\n${other}`)
    t.ok((await client.reply()).text === other)
  }
  slow.socket.resume()
  t.ok((await slow.reply()).text === text, 'not a byte of another request')
})
