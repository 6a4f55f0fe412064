// What is revoked, disabled, closed or expires ends open streams and whole answers within a second; nothing else does.
import t from 'tap'
import type { Test } from 'tap'
import { ask, connect } from '../../kit/client.ts'
import type { Client } from '../../kit/client.ts'
import { gateway, testModel } from '../../kit/gateway.ts'
import type { LocalGateway } from '../../kit/gateway.ts'
import { readEvents } from '../../kit/sse.ts'
import { events, head, stall, until, Upstream } from '../../kit/upstream.ts'
import { chatEvents } from '../../kit/workbench.ts'

const admin = (t: Test, { adminUrl }: LocalGateway, method: string, path: string, body?: unknown): Promise<any> =>
  ask(t, adminUrl, { method, path: `/admin/v1${path}`, ...(body !== undefined && { body }) }).then((reply) =>
    reply.json()
  )

/** A gateway with an upstream whose answers begin, and go on when `goOn` resolves. */
async function waiting(t: Test): Promise<{ local: LocalGateway; goOn(): void; key: string }> {
  const upstream = await Upstream.start(t)
  const go = Promise.withResolvers<void>()
  const list = chatEvents(20, 7)
  upstream.always(
    head(200, { 'content-type': 'text/event-stream' }),
    events(list.slice(0, 10)),
    until(go.promise),
    events(list.slice(10)),
    events(['data: [DONE]\n\n']),
    ({ write }) => write('0\r\n\r\n')
  )
  const local = await gateway(t, { tenants: { acme: {} } }, { upstreams: { up: upstream } })
  await admin(t, local, 'POST', '/tenants', { name: 'late' })
  await admin(t, local, 'POST', '/projects', { tenant: 'late', name: 'app' })
  const { key } = await admin(t, local, 'POST', '/keys', { tenant: 'late', project: 'app', name: 'ci' })
  return { local, goOn: go.resolve, key }
}

/** A stream whose first events were read. */
async function stream(t: Test, { url }: LocalGateway, key: string): Promise<Client> {
  const body = JSON.stringify({ model: testModel, stream: true, messages: [{ role: 'user', content: 'Hi' }] })
  const client = await connect(t, url)
  client.write(
    `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  )
  await client.body('word5')
  return client
}

const ends: Record<string, [method: string, path: string, body: unknown, code: string]> = {
  'a key is revoked': ['DELETE', '/keys/ci', undefined, 'invalid_api_key'],
  'a key is disabled': ['PATCH', '/keys/ci', { enabled: false }, 'invalid_api_key'],
  'a key is rotated without an overlap': ['POST', '/keys/ci/rotate', {}, 'invalid_api_key'],
  'a key loses the endpoint': ['PATCH', '/keys/ci', { endpoints: ['models'] }, 'endpoint_not_allowed'],
  'a key loses the model': ['PATCH', '/keys/ci', { models: ['other'] }, 'model_not_found'],
  'a project is disabled': ['PATCH', '/projects/late/app', { enabled: false }, 'invalid_api_key'],
  'a tenant loses the model': ['PATCH', '/tenants/late', { models: ['other'] }, 'model_not_found'],
  'a tenant is closed': ['DELETE', '/tenants/late', undefined, 'invalid_api_key']
}

for (const [name, [method, path, body, code]] of Object.entries(ends)) {
  t.test(`a stream ends when ${name}`, async (t) => {
    const { local, key } = await waiting(t)
    const client = await stream(t, local, key)
    await admin(t, local, method, path, body)
    const reply = await client.reply()
    const last = readEvents(reply.body).at(-1)!
    t.match(JSON.parse(last.data), { error: { code } })
    const record = await local.record(reply)
    t.match(record, { error_code: code, key: 'ci', tenant: 'late' })
    t.ok(Number(record.cost_nano) > 0, 'what was delivered is charged')
  })
}

t.test('a stream goes on when what changes leaves it what it needs', async (t) => {
  const { local, goOn, key } = await waiting(t)
  const client = await stream(t, local, key)
  await admin(t, local, 'PATCH', '/keys/ci', { models: [testModel], tags: { a: 'b' }, budget: { usd: 5, per: 'day' } })
  await admin(t, local, 'PATCH', '/tenants/late', { endpoints: ['chat'] })
  await admin(t, local, 'POST', '/keys/ci/rotate', { overlap: '1h' })
  await admin(t, local, 'POST', '/keys', { tenant: 'late', name: 'other' })
  await admin(t, local, 'DELETE', '/keys/other')
  const next = await stream(t, local, key)
  // Both streams were inspected after these changes when one that began after them was.
  const { key: third } = await admin(t, local, 'POST', '/keys', { tenant: 'late', name: 'third' })
  const other = await stream(t, local, third)
  await admin(t, local, 'DELETE', '/keys/third')
  await other.reply()
  goOn()
  for (const open of [client, next]) {
    const reply = await open.reply()
    t.match(readEvents(reply.body).at(-1), { data: '[DONE]' })
    t.match(await local.record(reply), { outcome: 'completed' })
  }
})

t.test(
  'what an upstream has got is not free because its key is switched off while the answer is awaited',
  async (t) => {
    const upstream = await Upstream.start(t)
    upstream.always(stall())
    const local = await gateway(t, { tenants: { acme: {} } }, { upstreams: { up: upstream } })
    const { key } = await admin(t, local, 'POST', '/keys', { tenant: 'acme', name: 'ci' })
    for (const stream of [false, true]) {
      const answer = ask(t, local.url, {
        path: '/v1/chat/completions',
        headers: { authorization: `Bearer ${key}` },
        body: { model: testModel, stream, messages: [{ role: 'user', content: 'Tell me of the sea.' }] }
      })
      await upstream.request()
      await admin(t, local, 'PATCH', '/keys/ci', { enabled: false })
      const reply = await answer
      t.equal(reply.status, 401)
      const record = await local.record(reply)
      t.match(record, { error_code: 'invalid_api_key', usage_source: 'estimated', usage: { output: 0 } })
      t.ok(Number(record.cost_nano) > 0, 'the prompt is charged, as for a client that leaves')
      await admin(t, local, 'PATCH', '/keys/ci', { enabled: true })
    }
  }
)
