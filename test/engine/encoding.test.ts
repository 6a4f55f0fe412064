// Bodies that come encoded, from clients and from upstreams: which encodings are known, and what becomes of others.
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { gateway, testKey, testModel } from '../kit/gateway.ts'
import { connect } from '../kit/client.ts'
import { askHttp2, openSession } from '../kit/http2.ts'
import { figures, stopwatch } from '../kit/probe.ts'
import { bytes, head, Upstream } from '../kit/upstream.ts'
import { chatAnswer } from '../kit/workbench.ts'

const unknown = ['constructor', '__proto__', 'toString', 'hasOwnProperty', 'compress', 'gzip, gzip', 'identity, gzip']

t.test('an encoding that is not known is refused by its name, whatever the name is', async (t) => {
  const upstream = await Upstream.start(t)
  const { ask, chat, lines } = await gateway(t, {}, { upstreams: { upstream } })
  for (const encoding of unknown) {
    for (const stream of [false, true]) {
      upstream.script(
        head(200, { 'content-type': 'application/json', 'content-encoding': encoding, 'content-length': '2' }),
        bytes('{}')
      )
      const reply = await chat({ stream })
      t.match([reply.status, reply.json().error.code], [502, 'upstream_bad_response'], `an answer in ${encoding}`)
    }
    const reply = await ask({ path: '/v1/chat/completions', headers: { 'content-encoding': encoding }, body: '{}' })
    t.match([reply.status, reply.json().error.code], [415, 'unsupported_media_type'], `a request in ${encoding}`)
  }
  t.strictSame(
    lines.filter(({ level }) => level === 'error'),
    []
  )
})

const path = '/v1/chat/completions'
const packed = { 'content-encoding': 'gzip' }

t.test('a gzipped request reaches the upstream unpacked, however it is framed and cut', async (t) => {
  const upstream = await Upstream.start(t)
  const { ask, url } = await gateway(t, {}, { upstreams: { upstream } })
  for (const length of [10, 100_000, 3_000_000]) {
    const text = JSON.stringify({
      model: testModel,
      messages: [{ role: 'user', content: Array.from({ length: length / 5 }, (_, at) => at % 7919).join(' ') }]
    })
    const body = gzipSync(text)
    for (let n = 0; n < 4; n++) upstream.json(chatAnswer())
    t.equal((await ask({ path, headers: packed, body })).status, 200)
    t.equal(
      (
        await ask({
          path,
          headers: { 'content-encoding': 'X-GZIP' },
          body: Buffer.concat([gzipSync(text.slice(0, 20)), gzipSync(text.slice(20))])
        })
      ).status,
      200,
      'in two parts'
    )
    const client = await connect(t, url)
    client.write(
      `POST ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${testKey}\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n`
    )
    for (let at = 0; at < body.length; at += 1000)
      client
        .write(`${Math.min(1000, body.length - at).toString(16)}\r\n`)
        .write(body.subarray(at, at + 1000))
        .write('\r\n')
    t.equal((await client.write('0\r\n\r\n').reply()).status, 200)
    const headers = {
      ':method': 'POST',
      ':path': path,
      authorization: `Bearer ${testKey}`,
      'content-type': 'application/json',
      ...packed
    }
    t.equal((await askHttp2(openSession(t, url), headers, body)).headers[':status'], 200)
    for (const request of upstream.requests.splice(0)) {
      t.ok(request.body.toString() === text, `${length} characters`)
      t.notOk(request.headers['content-encoding'])
    }
  }
})

t.test('what a gzipped request unpacks to is bounded as any other body, and nothing of it is left', async (t) => {
  const local = await gateway(t, { limits: { json_body: '1MiB', body_memory: '4MiB' } })
  const refused = async (body: Buffer): Promise<[number, string]> => {
    const reply = await local.ask({ path, headers: packed, body })
    return [reply.status, reply.json().error.code]
  }
  const layer = gzipSync(Buffer.alloc(16 * 1024 * 1024))
  const bomb = Buffer.alloc(layer.length * 50, layer)
  const began = stopwatch()
  t.strictSame(await refused(bomb), [413, 'request_too_large'], `${bomb.length} bytes that would be 800 MiB`)
  t.ok(began.ms < 5000)
  const empty = gzipSync('')
  t.strictSame(
    await refused(Buffer.alloc(empty.length * 60_000, empty)),
    [413, 'request_too_large'],
    'parts without anything in them'
  )
  t.strictSame(await refused(gzipSync(Buffer.alloc(1024 * 1024 + 1, ' '))), [413, 'request_too_large'])
  const small = gzipSync('{"model":"demo","messages":[]}')
  for (const [what, body] of Object.entries({
    'no gzip': Buffer.from('{"model":"demo"}'),
    nothing: Buffer.alloc(0),
    cut: small.subarray(0, small.length - 6),
    damaged: Buffer.from(small).fill(7, 12, 16)
  }))
    t.strictSame(await refused(body), [400, 'invalid_request'], what)
  t.strictSame(await refused(gzipSync('{"model"')), [400, 'invalid_json'])
  for (let n = 0; n < 20; n++) {
    const leaver = await connect(t, local.url)
    leaver
      .write(
        `POST ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${testKey}\r\ncontent-encoding: gzip\r\ncontent-length: 5000\r\n\r\n`
      )
      .write(small)
      .close()
  }
  t.equal(
    (
      await local.ask({
        path,
        headers: packed,
        body: gzipSync(`{"model":"demo","messages":[{"role":"user","content":"Hi"}],"x":"${'x'.repeat(900_000)}"}`)
      })
    ).status,
    200,
    'there is room for one still'
  )
  t.equal((await figures(t, local)).get('sluice_exchanges_running'), 0)
})
