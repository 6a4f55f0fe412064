// Pages of listed origins may call from a browser, by the rules that browsers go by, and nobody else's page may.
import t from 'tap'
import { connect } from '../../kit/client.ts'
import { gateway } from '../../kit/gateway.ts'
import { askHttp2, openSession } from '../../kit/http2.ts'

const page = 'https://app.example.com'
const path = '/v1/chat/completions'
const question = {
  origin: page,
  'access-control-request-method': 'POST',
  'access-control-request-headers': 'authorization, content-type,x-stainless-os'
}

t.test('a browser asks without a key and is told what its page may do', async (t) => {
  const { url } = await gateway(t, { listen: { cors: [page, 'http://localhost:3000'] } })
  for (const origin of [page, 'http://localhost:3000']) {
    const client = await connect(t, url)
    const answer = await client.send({ method: 'OPTIONS', path, headers: { ...question, origin } }).reply()
    t.match(answer, { status: 204, text: '' })
    t.match(answer.headers, {
      'access-control-allow-origin': origin,
      'access-control-allow-methods': 'GET, POST, DELETE',
      'access-control-allow-headers': 'authorization, content-type, x-stainless-os',
      'access-control-max-age': /^\d+$/,
      vary: 'origin'
    })
    t.notOk(answer.headers['access-control-allow-credentials'])
    t.equal(
      (
        await client
          .send({
            method: 'OPTIONS',
            path: '/v1/models',
            headers: { ...question, 'access-control-request-method': 'GET' }
          })
          .reply(1)
      ).status,
      204,
      'the connection goes on'
    )
  }
  const http2 = await askHttp2(openSession(t, url), { ':method': 'OPTIONS', ':path': path, ...question })
  t.match(http2.headers, { ':status': 204, 'access-control-allow-origin': page })
})

t.test('every answer says so: a whole one, a stream, a refusal and a path that is not there', async (t) => {
  const { ask, url } = await gateway(t, { listen: { cors: [page] } })
  const body = { model: 'demo', messages: [{ role: 'user', content: 'Hi' }] }
  const answers = [
    await ask({ path, headers: { origin: page }, body }),
    await ask({ path, headers: { origin: page }, body: { ...body, stream: true } }),
    await ask({ path, headers: { origin: page, authorization: 'Bearer sk-wrong' }, body }),
    await ask({ path: '/nothing', headers: { origin: page } })
  ]
  t.strictSame(
    answers.map(({ status }) => status),
    [200, 200, 401, 404]
  )
  for (const { headers } of answers) {
    t.match(headers, { 'access-control-allow-origin': page, vary: /origin/ })
    for (const name of ['x-request-id', 'retry-after', 'retry-after-ms', 'x-ratelimit-remaining', 'x-should-retry'])
      t.ok(headers['access-control-expose-headers']!.includes(name), name)
  }
  const stream = openSession(t, url).request({
    ':method': 'POST',
    ':path': path,
    origin: page,
    authorization: 'Bearer sk-wrong'
  })
  const headers = await new Promise((resolve) => stream.on('response', resolve).end('{}'))
  t.match(headers, { ':status': 401, 'access-control-allow-origin': page })
})

t.test('an origin that is not exactly one of those is told nothing', async (t) => {
  const { ask } = await gateway(t, { listen: { cors: [page] } })
  for (const origin of [
    'https://app.example.com.evil.example',
    'https://evil.example',
    'http://app.example.com',
    'https://APP.example.com',
    'https://app.example.com:443',
    'https://app.example.com/',
    'null',
    '*',
    '',
    `${page}, ${page}`,
    ` ${page} x`
  ]) {
    const asked = await ask({ method: 'OPTIONS', path, headers: { ...question, origin } })
    t.match([asked.status, asked.json().error.code], [403, 'origin_not_allowed'], origin)
    const sent = await ask({ path: '/v1/models', headers: { origin } })
    t.equal(sent.status, 200, 'who is no browser may send what it likes')
    for (const { headers } of [asked, sent]) {
      t.notOk(headers['access-control-allow-origin'])
      t.equal(headers['vary'], 'origin')
    }
  }
  const none = await ask({ path: '/v1/models' })
  t.match([none.status, none.headers['access-control-allow-origin'], none.headers['vary']], [200, undefined, 'origin'])
})

t.test('without a list no page is thought of, and what is no origin is refused in the file', async (t) => {
  const { ask } = await gateway(t)
  const asked = await ask({ method: 'OPTIONS', path, headers: question })
  t.equal(asked.status, 405)
  const sent = await ask({ path: '/v1/models', headers: { origin: page } })
  for (const { headers } of [asked, sent])
    t.strictSame([headers['access-control-allow-origin'], headers['vary']], [undefined, undefined])
  for (const wrong of [
    '*',
    'app.example.com',
    `${page}/`,
    `${page}/app`,
    'https://App.example.com',
    'null',
    'file://x'
  ]) {
    await t.rejects(
      gateway(t, { listen: { cors: [wrong] } }),
      { message: /an origin like https:\/\/app\.example\.com/ },
      wrong
    )
  }
})
