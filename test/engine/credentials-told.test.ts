// Credentials of every kind, by way of everything that the gateway tells: the log with its bodies, traces, the admin
// API, metrics and the commands have none of them, also while the upstream quotes them and after they were replaced.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { ask } from '../kit/client.ts'
import { gateway } from '../kit/gateway.ts'
import { collector } from '../kit/otlp.ts'
import { eventually } from '../kit/probe.ts'
import { tokenServer } from '../kit/token-server.ts'
import type { Answer, Asked } from '../kit/token-server.ts'

t.setTimeout(600_000)

/** Every credential of this test has this in it. */
const canary = /canary/i

const carried = ({ headers }: Asked): string => String(headers.authorization).replace('Bearer ', '')

/** Answers with what it was sent: whole, as an error, or in a stream. */
function quoting(asked: Asked): Answer {
  const quoted = carried(asked)
  const { model, stream } = JSON.parse(asked.body.toString())
  if (model === 'refused')
    return {
      status: 400,
      body: { error: { message: `not with ${quoted}`, type: quoted, code: quoted, param: quoted } }
    }
  if (model === 'failed') return { status: 500, body: { error: { message: `not with ${quoted}` } } }
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
  const common = { id: 'chatcmpl-1', created: 1, model: 'm' }
  if (stream) {
    const chunk = { ...common, object: 'chat.completion.chunk' }
    const events = [
      { ...chunk, choices: [{ index: 0, delta: { role: 'assistant', content: quoted } }] },
      { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
      { ...chunk, choices: [], usage }
    ].map((event) => `data: ${JSON.stringify(event)}\n\n`)
    return { headers: { 'content-type': 'text/event-stream' }, body: `${events.join('')}data: [DONE]\n\n` }
  }
  const message = { role: 'assistant', content: quoted }
  return {
    body: { ...common, object: 'chat.completion', choices: [{ index: 0, message, finish_reason: 'stop' }], usage }
  }
}

t.test('no credential of any kind is told by anything, before and after it was replaced', async (t) => {
  const to = await collector(t)
  const folder = mkdtempSync(join(tmpdir(), 'sluice-told-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'key'), 'canary-of-a-file-1111\n')
  writeFileSync(join(folder, 'printed'), 'canary-of-a-command-1111\n')
  let n = 0
  const server = await tokenServer(t, () => ({ body: { access_token: `canary-of-oauth-${++n}`, expires_in: 3 } }))
  const upstream = await tokenServer(t, quoting)
  const kinds: Record<string, unknown> = {
    file: { credential: { file: join(folder, 'key') } },
    command: {
      credential: {
        command: ['sh', '-c', `echo can''ary-on-the-error-output >&2; cat ${join(folder, 'printed')}`],
        every: '1s'
      }
    },
    oauth2: {
      credential: {
        oauth2: { token_url: `${server.url}/token`, client_id: 'sluice', client_secret: 'canary-of-the-client' }
      }
    },
    several: { credentials: [{ key: 'canary-of-a-list-1111' }, { file: join(folder, 'key'), name: 'second' }] }
  }
  const channels = Object.fromEntries(
    Object.entries(kinds).map(([name, how]) => [
      name,
      {
        protocol: 'openai',
        base_url: `${upstream.url}/v1`,
        private: true,
        models: { [name]: 'well', [`${name}-refused`]: 'refused', [`${name}-failed`]: 'failed' },
        ...(how as object)
      }
    ])
  )
  const names = Object.keys(kinds).flatMap((name) => [name, `${name}-refused`, `${name}-failed`])
  const running = await gateway(t, {
    channels,
    models: Object.fromEntries(names.map((name) => [name, { price: { input: 1, output: 1 } }])),
    telemetry: { otlp: to.url, interval: '1s', timeout: '60s' },
    chain: [
      { auth: {} },
      { quota: {} },
      { ratelimit: {} },
      { route: {} },
      { 'protocol-translate': {} },
      { 'usage-meter': {} },
      { log: { sink: join(folder, 'requests.log'), bodies: true } }
    ]
  })
  let told = ''
  let asked = 0
  const askAll = async (): Promise<void> => {
    for (const model of names) {
      for (const stream of [false, true]) {
        const reply = await running.chat({ model, stream })
        asked++
        // An answer is the client's as it came; an error is not.
        if (reply.status !== 200) told += reply.text
        told += JSON.stringify(reply.headers)
      }
    }
    const pages = [
      '/readyz',
      '/healthz',
      '/metrics',
      '/admin/v1/channels',
      '/admin/v1/config',
      '/admin/v1/configuration',
      '/admin/v1/requests?limit=1000',
      '/admin/v1/troubles',
      '/admin/v1/audit',
      '/admin/v1/spend',
      '/admin/v1/models'
    ].concat(Object.keys(kinds).map((name) => `/admin/v1/channels/${name}`))
    for (const path of pages) told += (await ask(t, running.adminUrl, { path })).text
    const headers = { 'content-type': 'application/json' }
    const posted = async (path: string, body: object): Promise<void> => {
      const { status, text } = await ask(t, running.adminUrl, { method: 'POST', path, headers, body })
      t.equal(status, 200, `${path}: ${text.slice(0, 200)}`)
      told += text
    }
    for (const name of Object.keys(kinds)) {
      for (const model of [name, `${name}-refused`, `${name}-failed`])
        await posted(`/admin/v1/channels/${name}/test`, { model, endpoint: 'chat' })
      const body = { model: name, messages: [{ role: 'user', content: 'Hi' }] }
      await posted('/admin/v1/explain', { key: 'test', path: '/v1/chat/completions', body })
    }
    const { data } = await running.admin('/admin/v1/requests?limit=1000')
    for (const { request_id: id } of data.slice(0, 24))
      told += JSON.stringify(await running.admin(`/admin/v1/requests/${id}`))
  }
  await askAll()
  writeFileSync(join(folder, 'key'), 'canary-of-a-file-2222\n')
  writeFileSync(join(folder, 'printed'), 'canary-of-a-command-2222\n')
  const seen = (key: string): boolean => upstream.asked.some((one) => carried(one) === key)
  await eventually(async () => {
    for (const model of ['file', 'command']) await running.chat({ model })
    return seen('canary-of-a-file-2222') && seen('canary-of-a-command-2222')
  }, 30_000)
  await eventually(() => n >= 3, 30_000)
  await askAll()

  server.answering = () => ({ status: 400, body: { error: 'canary_of_the_client', error_description: 'canary' } })
  writeFileSync(join(folder, 'key'), 'canary of two words\n')
  writeFileSync(join(folder, 'printed'), 'canary of two words\n')
  await eventually(async () => {
    const { text } = await ask(t, running.adminUrl, { path: '/readyz' })
    return ['file', 'command', 'oauth2'].every((name) => text.includes(`credential of ${name}`))
  }, 30_000)
  await askAll()

  await eventually(() => to.spans.length > 0)
  const log = (): string[] => readFileSync(join(folder, 'requests.log'), 'utf8').split('\n')
  await eventually(() => log().length > asked)
  t.ok(log().filter((line) => line.includes('chatcmpl-1')).length > asked / 6, 'the log has bodies')
  const found = [...log(), ...running.lines.map((line) => JSON.stringify(line))].filter((line) => canary.test(line))
  t.same(found.slice(0, 2), [])
  t.notOk(canary.test(told), told.slice(Math.max(0, told.search(canary) - 100)).slice(0, 200))
  t.notOk(canary.test(Buffer.concat(to.raw).toString('latin1')), 'nor in what the collector gets')
  t.ok(
    upstream.asked.every((one) => canary.test(carried(one))),
    'and each request had one'
  )
})
