// What is in the memory of a process alone goes on in the next one.
import t from 'tap'
import { completion, delta, done, finish, opening, sse, usage } from '../../faults/vendor.ts'
import { ask, connect } from '../../kit/client.ts'
import type { RequestParts } from '../../kit/client.ts'
import { spawnGateway, testKey, testModel } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { endOfBody, events, until, Upstream } from '../../kit/upstream.ts'

t.setTimeout(600_000)
const upgrade = { method: 'POST', path: '/admin/v1/upgrade' }

t.test('a request is run once, whichever process its repetition comes to', async (t) => {
  const vendor = await Upstream.start(t)
  const chain = ['auth', 'idempotency', 'quota', 'ratelimit', 'route', 'protocol-translate', 'usage-meter']
  const running = await spawnGateway(t, { chain: chain.map((name) => ({ [name]: {} })) }, { upstreams: { vendor } })
  const asking = (key: string): RequestParts => ({
    path: '/v1/chat/completions',
    headers: { authorization: `Bearer ${testKey}`, 'idempotency-key': key },
    body: { model: testModel, messages: [{ role: 'user', content: 'Hi' }], stream: true }
  })
  const { promise, resolve: goOn } = Promise.withResolvers<void>()
  const { promise: sent, resolve: send } = Promise.withResolvers<void>()
  vendor.script(sse, events([opening, delta('So')]), until(promise), events([finish, usage, done]), endOfBody())
  const before = (await connect(t, running.url)).send(asking('before'))
  await before.body('So')
  vendor.script(sse, events([opening, delta('So')]), until(new Promise(() => {})))
  await (await connect(t, running.url)).send(asking('killed')).body('So')
  // The rest of this one comes when its process has handed over.
  const during = await connect(t, running.url)
  const body = JSON.stringify(asking('during').body)
  const [first, rest] = [body.slice(0, 10), body.slice(10)]
  const lines = Object.entries(asking('during').headers!).map(([name, value]) => `${name}: ${value}\r\n`)
  during.write(
    `POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n${lines.join('')}Content-Length: ${body.length}\r\n\r\n${first}`
  )
  t.match((await ask(t, running.adminUrl, upgrade)).json(), { ok: true, generation: 2 })

  const busy = { error: { code: 'idempotency_in_progress' } }
  t.match((await ask(t, running.url, asking('before'))).json(), busy)
  const other = { ...asking('before'), body: { model: testModel, messages: [{ role: 'user', content: 'Other' }] } }
  t.match((await ask(t, running.url, other)).json(), { error: { code: 'idempotency_conflict' } })
  goOn()
  const whole = await before.reply()
  t.match(whole.text, /\[DONE\]/)
  t.match(await ask(t, running.url, asking('before')), {
    text: whole.text,
    headers: { 'idempotency-replayed': 'true' }
  })
  t.equal(vendor.requests.length, 2)

  vendor.script(sse, events([opening, delta('So')]), until(sent), events([finish, usage, done]), endOfBody())
  during.write(rest)
  await during.body('So')
  t.match((await ask(t, running.url, asking('during'))).json(), busy)
  send()
  const late = await during.reply()
  t.match(await ask(t, running.url, asking('during')), { text: late.text, headers: { 'idempotency-replayed': 'true' } })
  t.equal(vendor.requests.length, 3)

  // What was claimed by a process that is gone is free.
  vendor.json(completion)
  running.process.kill('SIGKILL')
  await eventually(async () => (await ask(t, running.url, asking('killed'))).status === 200, 30_000)
})

t.test('a channel that is out is out in the next process too', async (t) => {
  const [first, second] = [await Upstream.start(t), await Upstream.start(t)]
  first.json({ error: { message: 'Who are you?' } }, { status: 401 })
  second.json(completion)
  const running = await spawnGateway(t, {}, { upstreams: { first, second } })
  t.equal((await running.chat()).status, 200)
  t.equal(first.requests.length, 1)
  const healthOf = async (): Promise<any> => {
    const { data } = await running.admin('/admin/v1/channels')
    return data.find(({ name }: { name: string }) => name === 'first').health
  }
  const before = await healthOf()
  t.match(before, { state: 'ejected', reason: /credential/, failures: 1 })
  t.match((await ask(t, running.adminUrl, upgrade)).json(), { ok: true, generation: 2 })
  const after = await healthOf()
  t.match(after, { state: 'ejected', reason: before.reason, since: before.since, failures: 1 })
})
