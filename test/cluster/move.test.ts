// A gateway that moves with its store from a file to PostgreSQL and back, as its clients and its operator see it.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { startSimulator } from '../../core/simulator/simulator.ts'
import { verify } from '../../core/store/embedded/care/verify/verify.ts'
import { moveStore } from '../../core/store/move/move.ts'
import { ask } from '../kit/client.ts'
import { brokenIn } from '../kit/cluster-money.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { Installation, nodesMissing } from '../kit/nodes.ts'
import { eventually } from '../kit/probe.ts'

t.setTimeout(600_000)

t.test('what clients and operators have stays theirs, wherever the store goes', { skip: nodesMissing }, async (t) => {
  const upstream = await startSimulator({ port: 0 })
  t.teardown(() => upstream.close())
  const channel = (endpoints: string[], models: object): object => ({
    protocol: 'openai',
    base_url: new URL('/v1', upstream.url).href,
    private: true,
    credential: 'secret',
    endpoints,
    models
  })
  const price = { input: 1, output: 2, second: 3 }
  const overrides = {
    channels: {
      demo: channel(['chat', 'videos', 'responses'], { demo: 'demo' }),
      chat: channel(['chat'], { own: 'demo' })
    },
    models: { demo: { price }, own: { price, state: 'gateway' } },
    tenants: { acme: { budget: { usd: 1000, per: 'month' } } },
    keys: [{ name: 'test', key: testKey, tenant: 'acme' }],
    state: { key: 'a secret of the operator that nobody else knows' },
    tasks: { poll: { first: '60s', most: '60s' } },
    chain: [
      { auth: {} },
      { idempotency: {} },
      { quota: {} },
      { ratelimit: {} },
      { route: { repeats: 0 } },
      { 'protocol-translate': {} },
      { 'usage-meter': {} },
      { log: { sink: 'none' } }
    ]
  }
  const all = await Installation.make(t, overrides)
  const folder = mkdtempSync(join(tmpdir(), 'sluice-moved-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const [first, last] = [join(folder, 'first.db'), join(folder, 'last.db')]
  const onFile = (sqlite: string): Promise<LocalGateway> =>
    gateway(t, { ...overrides, store: { sqlite, durability: 'process' } }, { folder: mkdtempSync(join(folder, 'g-')) })

  const one = await onFile(first)
  for (let i = 0; i < 3; i++) t.equal((await one.chat()).status, 200)
  const once = { 'idempotency-key': 'once' }
  const messages = [{ role: 'user', content: 'Tell me.' }]
  const chat = { path: '/v1/chat/completions', headers: once, body: { model: 'demo', messages } }
  const answered = await one.ask(chat)
  const kept = (await one.ask({ path: '/v1/responses', body: { model: 'own', input: 'Tell me.' } })).json() as {
    id: string
  }
  const film = (
    await one.ask({ path: '/v1/video/generations', body: { model: 'demo', prompt: 'A cat.', seconds: 2 } })
  ).json() as { id: string }
  const made = await ask(t, one.adminUrl, { path: '/admin/v1/keys', body: { tenant: 'acme', name: 'made' } })
  const { key } = made.json() as { key: string }
  await one.gateway.close()
  t.same(verify(first), [])

  /** What is there on each gateway in turn, each of which adds a chat. */
  const look = async (at: LocalGateway, chats: number): Promise<void> => {
    const replayed = await at.ask(chat)
    t.equal(replayed.headers['idempotency-replayed'], 'true')
    t.equal(replayed.text, answered.text)
    t.match((await at.ask({ path: `/v1/responses/${kept.id}` })).json(), { id: kept.id, status: 'completed' })
    // A gateway of the shared store takes it over within moments.
    await eventually(
      async () => (await at.ask({ path: `/v1/video/generations/${film.id}` })).json().status === 'succeeded',
      60_000
    )
    t.equal(
      (
        await at.ask({
          path: '/v1/chat/completions',
          headers: { authorization: `Bearer ${key}` },
          body: { model: 'demo', messages }
        })
      ).status,
      200
    )
    const { data } = await at.admin('/admin/v1/requests?endpoint=chat&limit=100')
    t.equal(data.length, chats, 'the request log has all before')
    const { data: audit } = await at.admin('/admin/v1/audit')
    t.match(audit, [{ action: 'key.create', object: 'made' }])
    const { data: spend } = await at.admin('/admin/v1/spend')
    t.ok(spend[0].requests >= chats, 'spend goes on')
  }

  await moveStore({ from: first, to: all.database })
  const two = await all.node()
  await look(two, 6)
  await two.gateway.close()
  t.same(await brokenIn(all.database), [])

  await moveStore({ from: all.database, to: last })
  t.same(verify(last), [])
  const three = await onFile(last)
  await look(three, 8)
  await three.gateway.close()
  t.same(verify(last), [])
})
