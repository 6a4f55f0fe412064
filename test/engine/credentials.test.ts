// Credentials that change while the gateway runs, as an upstream sees them.
import { SignatureV4 } from '@smithy/signature-v4'
import { createHash, createHmac } from 'node:crypto'
import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { ask } from '../kit/client.ts'
import type { ReceivedReply } from '../kit/client.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'
import { tokenServer, tokens } from '../kit/token-server.ts'
import type { Answer, Asked, TokenServer } from '../kit/token-server.ts'

const answer: Answer = {
  body: {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
  }
}
const refusal: Answer = {
  status: 401,
  body: { error: { message: 'Incorrect API key provided', code: 'invalid_api_key' } }
}

/** The credential that a request carried. */
function carried({ headers }: Asked): string {
  return String(headers.authorization).replace('Bearer ', '')
}

/** The file of a gateway whose channel `up` has this credential. */
function overrides(upstream: TokenServer, credential: unknown, more: object = {}): Record<string, unknown> {
  return {
    channels: {
      up: { protocol: 'openai', base_url: `${upstream.url}/v1`, private: true, credential, models: { m: 'm' }, ...more }
    },
    models: { m: { price: { input: 1, output: 1 } } }
  }
}

function chat({ chat }: LocalGateway): Promise<ReceivedReply> {
  return chat({ model: 'm' })
}

function oauth2(server: TokenServer, secret = 'hunter-secret'): unknown {
  return { oauth2: { token_url: `${server.url}/token`, client_id: 'sluice', client_secret: secret } }
}

/**
 * Asks `perSecond` times a second, or as often as `workers` at a time can, until `stop` is called. Who is late asks at
 * once.
 */
function load(running: LocalGateway, workers: number, perSecond: number): { stop(): Promise<number[]> } {
  const statuses: number[] = []
  const began = performance.now()
  let going = true
  const work = async (_: unknown, worker: number): Promise<void> => {
    for (let n = 0; going; n++) {
      const reply = await fetch(`${running.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${testKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hi' }] })
      })
      await reply.arrayBuffer()
      statuses.push(reply.status)
      await sleep(Math.max(0, began + ((n + 1) * workers + worker) * (1000 / perSecond) - performance.now()))
    }
  }
  const all = Array.from({ length: workers }, work)
  return {
    async stop() {
      going = false
      await Promise.all(all)
      return statuses
    }
  }
}

/** Everything that a gateway says of itself. */
async function said(t: Test, running: LocalGateway): Promise<string> {
  const pages = ['/readyz', '/metrics', '/admin/v1/channels', '/admin/v1/config', '/admin/v1/requests']
  const texts = await Promise.all(pages.map(async (path) => (await ask(t, running.adminUrl, { path })).text))
  return JSON.stringify(running.lines) + texts.join('\n')
}

async function metric(t: Test, running: LocalGateway, name: string): Promise<number> {
  const { text } = await ask(t, running.adminUrl, { path: '/metrics' })
  const line = text.split('\n').find((one) => one.startsWith(`sluice_${name} `))
  return Number(line?.split(' ')[1])
}

t.test('a rotated file reaches the upstream within two seconds under load, and no request fails', async (t) => {
  const upstream = await tokenServer(t, () => answer)
  const file = join(t.testdir(), '..', 'rotated-key')
  writeFileSync(file, 'sk-old-0000\n')
  const running = await gateway(t, overrides(upstream, { file }))
  const requests = load(running, 8, 100)
  await eventually(() => upstream.asked.length > 20)
  t.ok(upstream.asked.every((one) => carried(one) === 'sk-old-0000'))

  writeFileSync(`${file}.new`, 'sk-new-1111\n')
  renameSync(`${file}.new`, file)
  await eventually(() => upstream.asked.some((one) => carried(one) === 'sk-new-1111'))
  const from = upstream.asked.length
  await eventually(() => upstream.asked.length > from + 30, 10_000)
  const statuses = await requests.stop()
  t.same(
    statuses.filter((status) => status !== 200),
    []
  )
  t.ok(
    upstream.asked.slice(from + 8).every((one) => carried(one) === 'sk-new-1111'),
    'the old one is not used again'
  )
})

t.test('a key that is revoked with its rotation is replaced by the first refusal', async (t) => {
  let valid = 'sk-old-0000'
  const upstream = await tokenServer(t, (one) => (carried(one) === valid ? answer : refusal))
  const file = join(t.testdir(), '..', 'revoked-key')
  writeFileSync(file, valid)
  const running = await gateway(t, overrides(upstream, { file }))
  t.equal((await chat(running)).status, 200)
  writeFileSync(file, 'sk-new-1111')
  valid = 'sk-new-1111'
  const replies = await Promise.all(Array.from({ length: 10 }, () => chat(running)))
  t.same(new Set(replies.map(({ status }) => status)), new Set([200]))
  t.equal((await running.admin('/admin/v1/channels')).data.find((one: any) => one.name === 'up').state, 'healthy')
})

t.test('a token of three seconds under load: one question for each, and no request fails', async (t) => {
  const ends = new Map<string, number>()
  const give = tokens(3, (n) => {
    ends.set(`token-number-${n}`, Date.now() + 3000)
    return `token-number-${n}`
  })
  const server = await tokenServer(t, give)
  let late = 0
  const upstream = await tokenServer(t, (one) => {
    if (Date.now() <= (ends.get(carried(one)) ?? 0)) return answer
    late++
    return refusal
  })
  const running = await gateway(t, overrides(upstream, oauth2(server)))
  const began = Date.now()
  const requests = load(running, 20, 200)
  await eventually(() => server.asked.length >= 4, 60_000)
  const statuses = await requests.stop()
  const seconds = (Date.now() - began) / 1000
  t.same(
    statuses.filter((status) => status !== 200),
    []
  )
  t.ok(server.asked.length <= 1 + seconds / 1.8 + late, `${server.asked.length} questions in ${seconds} s`)
  t.equal(await metric(t, running, 'credential_requests_total{channel="up",outcome="given"}'), server.asked.length)
})

t.test('those that wait for the first token wait for one question', async (t) => {
  const first = Promise.withResolvers<Answer>()
  const server = await tokenServer(t, () => first.promise)
  const upstream = await tokenServer(t, () => answer)
  const running = await gateway(t, overrides(upstream, oauth2(server)))
  const clients = await Promise.all(Array.from({ length: 10 }, () => running.openChat({ model: 'm' })))
  await eventually(async () => (await metric(t, running, 'exchanges_running')) === 10)
  t.equal(upstream.asked.length, 0)
  first.resolve({ body: { access_token: 'the-first', expires_in: 3600 } })
  const replies = await Promise.all(clients.map((client) => client.reply()))
  t.same(new Set(replies.map(({ status }) => status)), new Set([200]))
  t.equal(server.asked.length, 1)
  t.ok(upstream.asked.every((one) => carried(one) === 'the-first'))
})

t.test('ten refusals of one token are one question, and a fresh one that is refused too is the answer', async (t) => {
  const server = await tokenServer(t, tokens(3600))
  let valid = 'token-number-1'
  const upstream = await tokenServer(t, (one) => (carried(one) === valid ? answer : refusal))
  const running = await gateway(t, overrides(upstream, oauth2(server)))
  t.equal((await chat(running)).status, 200)
  valid = 'token-number-2'
  const replies = await Promise.all(Array.from({ length: 10 }, () => chat(running)))
  t.same(new Set(replies.map(({ status }) => status)), new Set([200]))
  t.equal(server.asked.length, 2)

  valid = 'none'
  const refused = await chat(running)
  t.equal(refused.status, 502)
  t.equal(refused.json().error.code, 'upstream_auth_failed')
  t.ok(server.asked.length <= 3)
  t.notMatch(refused.text, /token-number/)
})

t.test(
  'while the token server fails the old token is used to its end, then requests are told; nothing leaks',
  async (t) => {
    const server = await tokenServer(
      t,
      tokens(3, (n) => `eyJtoken-of-hunter-${n}`)
    )
    const upstream = await tokenServer(t, (one) => ({
      status: 400,
      body: { error: { message: `you sent ${carried(one)}`, type: 'invalid_request_error' } }
    }))
    const running = await gateway(t, overrides(upstream, oauth2(server)))
    const give = server.answering
    const quoted = await chat(running)
    t.equal(quoted.status, 400)
    t.notMatch(quoted.text, /hunter/, 'what an upstream says of the token is not shown')
    t.equal(await metric(t, running, 'credential_healthy{channel="up"}'), 1)
    const { data } = await running.admin('/admin/v1/channels')
    const { credential_expires: ends } = data.find((one: any) => one.name === 'up')
    t.ok(Math.abs(Date.parse(ends) - Date.now()) < 60_000)

    server.answering = () => ({ body: '<html>hunter</html>' })
    await eventually(() => running.lines.some(({ message }) => message.includes('could not be renewed')), 10_000)
    await eventually(async () => (await chat(running)).status === 503, 10_000)
    const refused = await chat(running)
    t.match(refused.json().error, { code: 'upstream_credential_unavailable', type: 'upstream_error' })
    t.match(refused.headers, { 'retry-after': /^\d+$/ })
    const ready = await ask(t, running.adminUrl, { path: '/readyz' })
    t.equal(ready.status, 200)
    t.match(ready.json(), {
      status: 'degraded',
      reasons: [
        /^credential of up: the token server answered with something that is no JSON object, since .*; there is none$/
      ]
    })
    t.equal(await metric(t, running, 'credential_healthy{channel="up"}'), 0)
    const troubles = async (): Promise<any[]> =>
      (await running.admin('/admin/v1/troubles')).data.filter((one: any) => one.kind === 'credential')
    await eventually(async () => (await troubles())[0]?.severity === 'critical')
    t.match(await troubles(), [{ severity: 'critical', text: /^The credential of the channel up cannot be renewed: / }])
    t.ok((await metric(t, running, 'credential_requests_total{channel="up",outcome="failed"}')) >= 1)

    server.answering = () => ({ body: { access_token: 'hunter-expired', expires_in: -1 } })
    await eventually(
      async () => (await ask(t, running.adminUrl, { path: '/readyz' })).text.includes('ended already'),
      60_000
    )
    t.notMatch(await said(t, running), /hunter/)

    server.answering = give
    await eventually(async () => (await chat(running)).status === 400, 60_000)
    t.same((await ask(t, running.adminUrl, { path: '/readyz' })).json(), { status: 'ok' })
    await eventually(async () => (await troubles()).length === 0)
    t.ok(running.lines.some(({ message }) => message === 'the credential of channels is fresh again'))
  }
)

t.test('another channel answers while the token of the first cannot be had', async (t) => {
  const server = await tokenServer(t, () => ({ status: 500, body: {} }))
  const upstream = await tokenServer(t, () => answer)
  const second = { protocol: 'openai', base_url: `${upstream.url}/v1`, private: true, priority: 1, models: { m: 'm' } }
  const parts = overrides(upstream, oauth2(server)) as { channels: object }
  const running = await gateway(t, { ...parts, channels: { ...parts.channels, second } })
  await eventually(() => running.lines.some(({ message }) => message.includes('could not be renewed')))
  for (let n = 0; n < 10; n++) t.equal((await chat(running)).status, 200)
  t.equal((await running.admin('/admin/v1/channels')).data.find((one: any) => one.name === 'up').state, 'healthy')
})

t.test('a reload asks for a credential anew only where it changes what is asked', async (t) => {
  const server = await tokenServer(t, tokens(3600))
  const upstream = await tokenServer(t, () => answer)
  const running = await gateway(t, overrides(upstream, oauth2(server)))
  t.equal((await chat(running)).status, 200)
  running.configure(overrides(upstream, oauth2(server), { weight: 7 }))
  t.match(await running.gateway.reload('test'), { ok: true })
  t.equal((await chat(running)).status, 200)
  t.equal(server.asked.length, 1)
  running.configure(overrides(upstream, oauth2(server, 'another-secret')))
  t.match(await running.gateway.reload('test'), { ok: true })
  t.equal((await chat(running)).status, 200)
  t.equal(server.asked.length, 2)
  t.equal(carried(upstream.asked.at(-1)!), 'token-number-2')
})

/** The hash that the library wants. */
class Sha256 {
  readonly #hash
  constructor(secret?: string | Uint8Array) {
    this.#hash = secret === undefined ? createHash('sha256') : createHmac('sha256', secret)
  }
  update(data: string | Uint8Array): void {
    this.#hash.update(data)
  }
  async digest(): Promise<Uint8Array> {
    return this.#hash.digest()
  }
}

t.test('requests are signed over the body as it goes; a clock that is wrong is said and made up for', async (t) => {
  const nowhere = join(t.testdirName, '..', 'none')
  const names = {
    AWS_ACCESS_KEY_ID: 'AKIDEXAMPLE',
    AWS_SECRET_ACCESS_KEY: 'hunter-key',
    AWS_SESSION_TOKEN: 'hunter-session'
  }
  const set = { ...names, AWS_CONFIG_FILE: nowhere, AWS_SHARED_CREDENTIALS_FILE: nowhere }
  const before = Object.fromEntries(Object.keys(set).map((name) => [name, process.env[name]]))
  Object.assign(process.env, set)
  t.teardown(() => {
    for (const [name, value] of Object.entries(before)) if (value === undefined) delete process.env[name]
  })
  /** How far the clock of the upstream is ahead, in milliseconds. */
  let ahead = 0
  const upstream = await tokenServer(t, ({ headers }) => {
    const [, y, mo, d, h, mi, s] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(String(headers['x-amz-date']))!
    const sent = Date.parse(`${y}-${mo}-${d}T${h}:${mi}:${s}Z`)
    if (Math.abs(sent - Date.now() - ahead) < 300_000) return answer
    const message = 'Signature expired: hunter is now earlier than hunter'
    return {
      status: 403,
      headers: { 'x-amzn-errortype': 'InvalidSignatureException', date: new Date(Date.now() + ahead).toUTCString() },
      body: { message }
    }
  })
  const credential = { aws: { region: 'us-east-1' } }
  const running = await gateway(t, overrides(upstream, credential))
  const big = { model: 'm', messages: [{ role: 'user', content: 'ä'.repeat(1_500_000) }] }
  for (const body of [undefined, big]) {
    t.equal((await running.chat(body ?? { model: 'm' })).status, 200)
    const { method, target, headers, body: sent } = upstream.asked.at(-1)!
    const signed = /SignedHeaders=([^,]*)/.exec(headers.authorization!)![1]!.split(';')
    t.strictSame(signed, ['content-type', 'host', 'x-amz-content-sha256', 'x-amz-date', 'x-amz-security-token'])
    const { 'x-amz-date': date, 'x-amz-content-sha256': hash } = headers
    t.equal(hash, createHash('sha256').update(sent).digest('hex'))
    const theirs = await new SignatureV4({
      service: 'bedrock',
      region: 'us-east-1',
      sha256: Sha256 as never,
      credentials: { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'hunter-key', sessionToken: 'hunter-session' },
      applyChecksum: true
    }).sign(
      {
        method,
        protocol: 'http:',
        hostname: upstream.host,
        path: target,
        headers: { host: upstream.host, 'content-type': headers['content-type']! },
        body: sent
      },
      { signingDate: new Date(String(date).replace(/^(....)(..)(..T..)(..)(..Z)$/, '$1-$2-$3:$4:$5')) }
    )
    t.equal(theirs.headers['authorization'], headers.authorization)
  }

  ahead = 600_000
  t.equal((await chat(running)).status, 200)
  t.equal(upstream.asked.length, 4, 'one was sent once more')
  t.equal((await chat(running)).status, 200)
  t.equal(upstream.asked.length, 5, 'the time of the upstream is remembered')
  const line = running.lines.find(({ message }) => message.startsWith('the clock of this machine differs'))
  t.match(line, { level: 'error', fields: { channels: ['up'] } })
  t.ok(Math.abs(Number(line?.fields['seconds']) - 600) < 60)
  t.notMatch(await said(t, running), /hunter/)
})
