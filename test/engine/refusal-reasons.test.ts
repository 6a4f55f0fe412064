// Every refusal keeps its reason in its record: what, where that is said, and the remedy. No client sees it.
import t from 'tap'
import type { Test } from 'tap'
import type { Reason } from '../../core/errors.ts'
import { ask } from '../kit/client.ts'
import type { ReceivedReply, RequestParts } from '../kit/client.ts'
import { gateway, testKey, testModel } from '../kit/gateway.ts'
import type { LocalGateway, Overrides } from '../kit/gateway.ts'
import { chunk, endOfBody, head, Upstream } from '../kit/upstream.ts'
import { chatAnswer } from '../kit/workbench.ts'

const json = { 'content-type': 'application/json' }
const turns = [{ role: 'user', content: 'Hi' }]
const chain = [
  { auth: {} },
  { idempotency: {} },
  { quota: {} },
  { ratelimit: {} },
  { route: { repeats: 0 } },
  { 'protocol-translate': { strict: true } },
  { 'usage-meter': {} },
  { log: { sink: 'none' } }
]

interface Bench {
  local: LocalGateway
  a: Upstream
  /** Sends a request and gives the reason of its refusal, after it was looked for in what the client has seen. */
  why(parts?: Partial<RequestParts>): Promise<Record<string, unknown>>
  admin(method: string, path: string, body?: object): Promise<any>
}

async function open(t: Test, overrides: Overrides = {}): Promise<Bench> {
  const a = (await Upstream.start(t)).always(head(200, json), chunk(JSON.stringify(chatAnswer())), endOfBody())
  const local = await gateway(t, { chain, ...overrides }, { upstreams: { a } })
  return {
    local,
    a,
    async why(parts = {}) {
      const body = { model: testModel, messages: turns }
      const reply = await local.ask({ method: 'POST', path: '/v1/chat/completions', body, ...parts })
      t.ok(reply.status >= 400, reply.text)
      const { reason, error_code } = await local.record(reply)
      checkHidden(t, reply, reason)
      return { code: error_code, ...reason }
    },
    admin: async (method, path, body) =>
      (await ask(t, local.adminUrl, { method, path: `/admin/v1/${path}`, body })).json()
  }
}

function checkHidden(t: Test, reply: ReceivedReply, reason: Reason | undefined): void {
  if (!reason || !('what' in reason)) return void t.fail(`no reason: ${reply.text}`)
  for (const text of [reason.what, reason.where, reason.remedy])
    if (text !== null) t.notOk(reply.text.includes(text), `the client is not told: ${text}`)
}

const bearer = (key: string): Partial<RequestParts> => ({ headers: { authorization: `Bearer ${key}` } })
const keyOf = (name: string): string => `sk-${name}-0000000000000000000000`

t.test('a key that is not valid says why', async (t) => {
  const { why, admin } = await open(t, {
    tenants: {
      acme: { expires: '2020-01-01' },
      closed: {},
      off: { projects: { web: { enabled: false } } }
    },
    keys: [
      { name: 'test', key: testKey, tenant: 'acme' },
      { name: 'disabled', key: keyOf('disabled'), tenant: 'closed', enabled: false },
      { name: 'off', key: keyOf('off'), tenant: 'off', project: 'web' }
    ]
  })
  t.match(await why(bearer('sk-nobody-has-this')), {
    code: 'invalid_api_key',
    by: 'key',
    what: /^no key has this secret, whose SHA-256 begins with [0-9a-f]{8}$/
  })
  t.match(await why(), {
    code: 'expired_api_key',
    what: 'tenant:acme expired at 2020-01-01T00:00:00.000Z',
    where: 'tenants.acme.expires'
  })
  t.match(await why(bearer(keyOf('disabled'))), {
    code: 'invalid_api_key',
    what: 'the key disabled is disabled',
    where: 'keys[disabled].enabled'
  })
  t.match(await why(bearer(keyOf('off'))), {
    what: 'project:off/web is disabled',
    where: 'tenants.off.projects.web.enabled'
  })
  t.match(await why({ headers: { 'x-api-key': 'sk-another' } }), { code: 'conflicting_credentials', by: 'key' })

  const made = await admin('POST', 'keys', { name: 'ci', tenant: 'closed' })
  const rotated = await admin('POST', 'keys/ci/rotate', { overlap: '1ms' })
  t.match(await why(bearer(made.key)), { code: 'invalid_api_key', what: /^this secret of the key ci was replaced/ })
  await admin('DELETE', 'keys/ci')
  for (const key of [made.key, rotated.key])
    t.match(await why(bearer(key)), { what: /^the key ci was revoked at \d{4}-/, where: 'key:ci in the store' })
})

t.test('the level that does not allow a model or an endpoint is named', async (t) => {
  const { why } = await open(t, {
    models: { [testModel]: { price: 'free' }, 'gpt-5': { price: 'free' } },
    channels: { a: { models: { [testModel]: 'x', 'gpt-5': 'y' } } },
    tenants: {
      acme: { models: ['test-*'], projects: { web: { endpoints: ['chat'], members: { alice: { models: ['none'] } } } } }
    },
    keys: [
      { name: 'test', key: testKey, tenant: 'acme', project: 'web' },
      { name: 'alice', key: keyOf('alice'), tenant: 'acme', project: 'web', member: 'alice' },
      { name: 'narrow', key: keyOf('narrow'), tenant: 'acme', models: ['other'] }
    ]
  })
  const model = { code: 'model_not_found', by: 'model' }
  t.match(await why({ body: { model: 'gpt-5', messages: turns } }), {
    ...model,
    what: 'tenant:acme allows the models test-*, and not gpt-5',
    where: 'tenants.acme.models',
    remedy: 'add gpt-5 to them'
  })
  t.match(await why(bearer(keyOf('alice'))), {
    ...model,
    what: `member:acme/web/alice allows the models none, and not ${testModel}`,
    where: 'tenants.acme.projects.web.members.alice.models'
  })
  t.match(await why(bearer(keyOf('narrow'))), { ...model, where: 'keys[narrow].models' })
  t.match(await why({ body: { model: 'tset-model', messages: turns } }), {
    ...model,
    what: 'there is no model tset-model',
    where: 'models'
  })
  t.match(await why({ path: '/v1/embeddings', body: { model: testModel, input: 'Hi' } }), {
    code: 'endpoint_not_allowed',
    by: 'endpoint',
    what: 'project:acme/web allows the endpoints chat, and not embeddings',
    where: 'tenants.acme.projects.web.endpoints'
  })
})

t.test('prices, sizes, channels and what is left out are named by their place in the file', async (t) => {
  const { why } = await open(t, {
    limits: { json_body: '1KiB', multipart_body: '1KiB' },
    models: { dear: { price: { image: 1 } }, [testModel]: { price: { input: 1, output: 2 } } },
    channels: { a: { protocol: 'anthropic', models: { [testModel]: 'x', dear: 'y' } } }
  })
  t.match(await why({ body: { model: 'dear', messages: turns } }), {
    code: 'price_missing',
    by: 'price',
    where: 'models.dear.price',
    remedy: 'add it there, or say price: free'
  })
  t.match(await why({ body: { model: testModel, messages: turns, user: 'x'.repeat(2000) } }), {
    code: 'request_too_large',
    by: 'size',
    what: 'the body has more than 1024 bytes',
    where: 'limits.json_body'
  })
  const form = `--b\r\ncontent-disposition: form-data; name="model"\r\n\r\n${'x'.repeat(2000)}\r\n--b--\r\n`
  const headers = { 'content-type': 'multipart/form-data; boundary=b' }
  t.match(await why({ path: '/v1/audio/transcriptions', headers, body: form }), { where: 'limits.multipart_body' })
  t.match(await why({ path: '/v1/embeddings', body: { model: testModel, input: 'Hi' } }), {
    code: 'protocol_mismatch',
    by: 'channel',
    what: 'no channel of the model serves the endpoint embeddings: see decision',
    where: `models.${testModel}`
  })
  t.match(await why({ body: { model: testModel, messages: turns, seed: 5 } }), {
    code: 'unsupported_parameter',
    by: 'plugin',
    what: 'seed would be left out in translation',
    where: 'chain: protocol-translate.strict'
  })
  t.match(
    await why({
      method: 'GET',
      path: `/v1/realtime?model=${testModel}`,
      body: undefined,
      headers: { ...handshake, origin: 'https://x.example' }
    }),
    {
      code: 'origin_not_allowed',
      by: 'origin',
      what: 'pages of https://x.example are not listed',
      where: 'REALTIME_ALLOWED_ORIGINS'
    }
  )
})

const handshake = {
  connection: 'Upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ=='
}

t.test('references and repetitions say what they refer to', async (t) => {
  const { local, why } = await open(t, {
    channels: { a: { endpoints: ['chat', 'responses'] } },
    tenants: { acme: { foreign_references: 'refuse' } }
  })
  t.match(
    await why({ path: '/v1/responses', body: { model: testModel, input: 'Hi', previous_response_id: 'resp_1' } }),
    {
      code: 'response_not_found',
      by: 'reference',
      what: /nothing kept under this id/
    }
  )
  const file = { type: 'file', file: { file_id: 'file-abcdefgh' } }
  t.match(await why({ body: { model: testModel, messages: [{ role: 'user', content: [file] }] } }), {
    code: 'invalid_field',
    by: 'reference',
    what: /^file-abcdefgh was not made .*, and the tenant acme refuses such references$/,
    where: 'tenants.acme.foreign_references'
  })
  const once = { 'idempotency-key': 'once' }
  const body = { model: testModel, messages: turns }
  t.equal((await local.ask({ method: 'POST', path: '/v1/chat/completions', headers: once, body })).status, 200)
  t.match(await why({ headers: once, body: { ...body, n: 1 } }), { code: 'idempotency_conflict', by: 'repetition' })
})

t.test('a request for which no channel is left says so', async (t) => {
  const { why } = await open(t, { channels: { a: { enabled: false } } })
  t.match(await why(), {
    code: 'no_available_channel',
    by: 'channel',
    what: '1 channels were left out: see decision',
    where: `models.${testModel}`
  })
})
