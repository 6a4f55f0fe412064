// `sluice explain` as an operator meets it: what would become of a request, and why a request of the log failed.
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { sluiceEach } from '../kit/command.ts'
import type { Ended } from '../kit/command.ts'
import { gateway, testKey, testModel } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { chunk, endOfBody, head, Upstream } from '../kit/upstream.ts'

t.setTimeout(600_000)

const turns = [{ role: 'user', content: 'Hi' }]

/** A gateway with two channels, of which one cannot do chats, and a file by which commands find it. */
async function open(
  t: Test
): Promise<{ local: LocalGateway; a: Upstream; run(...lines: string[][]): Promise<Ended[]> }> {
  const [a, b] = [await Upstream.start(t), await Upstream.start(t)]
  const overrides = {
    channels: { a: { protocol: 'anthropic' }, b: { endpoints: ['embeddings'] } },
    tenants: { acme: { budget: { usd: 5, per: 'day' } } },
    keys: [{ name: 'test', key: testKey, tenant: 'acme', limits: { rpm: 1 } }]
  }
  const local = await gateway(t, overrides, { upstreams: { a, b } })
  const { port } = new URL(local.adminUrl)
  local.configure({ ...overrides, admin: { host: '127.0.0.1', port: Number(port) } })
  const run = (...lines: string[][]): Promise<Ended[]> =>
    sluiceEach(lines.map((line) => ['explain', '--config', local.file, ...line]))
  return { local, a, run }
}

t.test('a request is explained in words, and for programs as the admin API does', async (t) => {
  const { local, run } = await open(t)
  const folder = dirname(local.file)
  const [body, whole, broken] = ['body.json', 'whole.json', 'broken.json'].map((name) => join(folder, name)) as [
    string,
    string,
    string
  ]
  writeFileSync(body, JSON.stringify({ model: testModel, messages: turns, seed: 5 }))
  writeFileSync(
    whole,
    JSON.stringify({ secret: testKey, path: '/v1/embeddings', body: { model: testModel, input: 'Hi' } })
  )
  writeFileSync(broken, '{')
  const [words, programs, other, typo, nothing, unreadable, help] = (await run(
    ['--key', 'test', '--file', body],
    ['--key', 'test', '--model', testModel, '--json'],
    ['--file', whole],
    ['--key', 'tset'],
    [],
    ['--file', broken],
    ['--help']
  )) as [Ended, Ended, Ended, Ended, Ended, Ended, Ended]
  t.equal(words.code, 0, words.err)
  for (const said of [
    /^Request +POST \/v1\/chat\/completions \(chat\)$/m,
    /^Key +test of acme$/m,
    /^Outcome +sent to the channel a$/m,
    /^ {2}tenant:acme +day +5 USD +0 USD +0 USD +5 USD +\d{4}-\d\d-\d\dT00:00:00/m,
    /^ {2}key:test +rpm +\* +1 +0 +1 /m,
    /^ {2}0\.00\d+ USD at the most, at the price \w+\n {2}prompt: \d+ at 1 USD per million\n {2}answer: 4096 at 2 USD per million$/m,
    /^ {2}a +0 +1 +healthy$/m,
    /^ {2}b +gateway +endpoint: channels\.b\.endpoints lists embeddings/m,
    /^ {2}POST http:\/\/127\.0\.0\.1:\d+\/v1\/messages in the protocol anthropic, translated$/m,
    /^ {2}x-api-key: \[redacted\]$/m,
    /^ {4}"max_tokens": 4096,$/m,
    /^Dropped in translation\n {2}seed$/m
  ])
    t.match(words.out, said)
  t.notMatch(words.out, /upstream-secret/)
  t.match(JSON.parse(programs.out), { outcome: 'sent', caller: { key: 'test' }, upstream: { channel: 'a' } })
  t.match(other.out, /^Outcome +sent to the channel b$/m)
  t.match(typo, { code: 1, err: /there is no key "tset", did you mean "test"\?/ })
  t.match(nothing, { code: 2, err: /say which request/ })
  t.match(unreadable, { code: 1, err: /broken\.json is no JSON/ })
  t.match(help.out, /nothing is sent, held, counted or recorded/)
})

t.test('a request of the log is explained by its record', async (t) => {
  const { local, a, run } = await open(t)
  const overloaded = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }
  a.always(head(503, { 'content-type': 'application/json' }), chunk(JSON.stringify(overloaded)), endOfBody())
  const failed = await local.record(await local.chat())
  const refused = await local.record(await local.chat())
  const [why, limit, programs, unknown] = (await run(
    ['--request', failed.request_id],
    ['--request', refused.request_id],
    ['--request', refused.request_id, '--json'],
    ['--request', 'nothing']
  )) as [Ended, Ended, Ended, Ended]
  for (const said of [
    new RegExp(`^Request +${failed.request_id} at ${failed.time} \\(chat\\)$`, 'm'),
    /^Outcome +failed 503 with upstream_bad_response$/m,
    /^Cost +0 USD; 0\.00\d+ USD were held$/m,
    /^ {2}a +503 +upstream_bad_response +[\d.]+ +overloaded_error: Overloaded$/m,
    /^No other was tried\n {2}no other channel is left$/m
  ])
    t.match(why.out, said)
  t.match(limit.out, /^Outcome +rejected 429 with rate_limit_rpm$/m)
  t.match(limit.out, /^Why\n {2}the limit rpm of 1 of key:test\n {2}asked 1, left 0\n {2}enough is free at \d{4}-/m)
  t.match(JSON.parse(programs.out), { request_id: refused.request_id, reason: { by: 'limit' } })
  t.match(unknown, { code: 1, err: /there is no request nothing in the log/ })
})

t.test('without a gateway it says so, and makes no store', async (t) => {
  const { local, run } = await open(t)
  await local.gateway.close()
  const [missing] = await run(['--key', 'test', '--model', testModel])
  t.match(missing, {
    code: 6,
    out: '',
    err: /No gateway with this store answers at http:\/\/127\.0\.0\.1:\d+: start it with/
  })
})

t.test('what clients and upstreams say is text in a terminal, and no command to it', async (t) => {
  const { local, a, run } = await open(t)
  const evil = '\u001b]0;owned\u0007\u009b2J\u202egpt\r\u2028'
  const error = { type: 'error', error: { type: 'overloaded_error', message: `no ${evil}` } }
  a.always(head(503, { 'content-type': 'application/json' }), chunk(JSON.stringify(error)), endOfBody())
  const failed = await local.record(await local.chat())
  t.equal(failed.status, 503)
  const refused = await local.record(await local.chat({ model: evil }))
  t.equal(refused.status, 404)
  const ended = await run(
    ['--request', failed.request_id],
    ['--request', refused.request_id],
    ['--key', 'test', '--model', evil]
  )
  for (const { code, out, err } of ended) {
    t.equal(code, 0, err)
    t.match(out, /gpt/)
    t.notMatch(out, /[^\P{C}\n]|[\u2028\u2029]/u)
  }
})
