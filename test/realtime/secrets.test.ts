// Client secrets: what a page in a browser may do with one, and at whose expense.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { settled } from '../kit/probe.ts'
import { openRealtime, refusedRealtime } from '../kit/realtime.ts'

const price = { input: 1, output: 2 }
const settings = {
  channels: { demo: { protocol: 'simulator', models: { demo: 'demo', other: 'other', costly: 'costly' } } },
  models: { demo: { price, context_window: 1000, max_output_tokens: 100 }, other: { price }, costly: { price } },
  keys: [
    {
      name: 'test',
      key: testKey,
      tenant: 'acme',
      models: ['demo', 'other'],
      limits: { concurrency: 2 },
      budget: { usd: '0.01', per: 'total' }
    }
  ]
}

const mint = (running: LocalGateway, body: unknown, headers: Record<string, string> = {}) =>
  running.ask({ path: '/v1/realtime/client_secrets', body, headers })
const withKey = (value: string) => ({ headers: {}, protocols: ['realtime', `openai-insecure-api-key.${value}`] })

async function secret(running: LocalGateway, more: Record<string, unknown> = {}): Promise<string> {
  return (await mint(running, { session: { type: 'realtime', model: 'demo' }, ...more })).json().value
}

t.test('a secret opens sessions of its model, with its settings, on the account of its key', async (t) => {
  const running = await gateway(t, settings)
  const began = Math.floor(Date.now() / 1000)
  const minted = await mint(running, {
    session: { type: 'realtime', model: 'demo', instructions: 'Be brief.', output_modalities: ['text'] },
    expires_after: { anchor: 'created_at', seconds: 60 }
  })
  t.equal(minted.status, 200)
  const { value, expires_at, session } = minted.json()
  t.match(value, /^ek_[\w-]{32}$/)
  t.match(session, { type: 'realtime', model: 'demo', instructions: 'Be brief.' })
  t.ok(expires_at >= began + 60 && expires_at <= Date.now() / 1000 + 61)
  const client = await openRealtime(t, running, withKey(value))
  t.match(await client.event('session.updated'), {
    session: { model: 'demo', instructions: 'Be brief.', output_modalities: ['text'] }
  })
  client.say('Hi').send({ type: 'response.create' })
  await client.event('response.done')
  client.socket.close(1000)
  const record = await running.record({ headers: client.headers as Record<string, string> })
  t.match(record, { key: 'test', tenant: 'acme', outcome: 'completed' })
  t.ok(BigInt(record.cost_nano) > 0n)
  await settled(t, running)
})

t.test('a secret is made for a model of a pattern too, and opens sessions of no other one', async (t) => {
  const running = await gateway(t, {
    ...settings,
    models: { ...settings.models, 'live/*': { channel: 'demo', price, context_window: 1000, max_output_tokens: 100 } },
    keys: [{ ...settings.keys[0], models: ['live/*'] }]
  })
  const made = await mint(running, { session: { type: 'realtime', model: 'live/new' } })
  t.equal(made.status, 200)
  t.equal((await mint(running, { session: { type: 'realtime', model: 'live/' } })).status, 404)
  t.equal((await mint(running, { session: { type: 'realtime', model: 'demo' } })).status, 404)
  const { value } = made.json()
  t.equal((await refusedRealtime(t, running, { ...withKey(value), model: 'live/other' })).status, 404)
  const client = await openRealtime(t, running, { ...withKey(value), model: 'live/new' })
  client.say('Hi').send({ type: 'response.create' })
  await client.event('response.done')
  client.socket.close(1000)
  const record = await running.record({ headers: client.headers as Record<string, string> })
  t.match(record, { model: 'live/new', outcome: 'completed' })
  t.ok(BigInt(record.cost_nano) > 0n)
  await settled(t, running)
})

t.test('a secret outlasts a restart, and so does what was spent with it', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-secrets-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const start = (): Promise<LocalGateway> =>
    gateway(t, { ...settings, store: { sqlite: join(folder, 'sluice.db'), durability: 'process' } })
  const usage = '"usage": {"input_tokens": 900, "output_tokens": 20, "total_tokens": 920}'
  const first = await start()
  const [poor, free] = [await secret(first, { budget: '0.0012' }), await secret(first)]
  const before = await openRealtime(t, first, withKey(poor))
  before.ask(`One [[simulator {"tokens": 20, ${usage}}]]`)
  await before.event('response.done')
  before.socket.close(1000)
  await settled(t, first)
  await first.gateway.close()
  const again = await start()
  const spent = await openRealtime(t, again, withKey(poor))
  spent.ask('Two')
  t.match(await spent.event('error'), { error: { code: 'quota_key_exceeded', message: /client secret/ } })
  spent.socket.close(1000)
  const after = await openRealtime(t, again, withKey(free))
  after.ask('Two')
  await after.event('response.done')
  after.socket.close(1000)
  await settled(t, again)
})

t.test('none is made of settings that could be read in two ways', async (t) => {
  const running = await gateway(t, settings)
  for (const session of [
    '{"type":"realtime","model":"demo","model":"costly"}',
    '{"type":"realtime","model":"demo","MODEL":"costly"}',
    '{"type":"realtime","model":"demo","model\\u0000":"costly"}'
  ]) {
    const refused = await running.ask({
      path: '/v1/realtime/client_secrets',
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(`{"session":${session}}`)
    })
    t.match([refused.status, refused.json()], [400, { error: { code: 'invalid_field', param: 'session' } }], session)
  }
})

t.test('it is good for nothing else', async (t) => {
  const running = await gateway(t, settings)
  const value = await secret(running)
  t.equal((await refusedRealtime(t, running, { ...withKey(value), model: 'other' })).status, 404)
  const bearer = { authorization: `Bearer ${value}` }
  t.match(
    (
      await running.ask({
        path: '/v1/chat/completions',
        headers: bearer,
        body: { model: 'demo', messages: [{ role: 'user', content: 'Hi' }] }
      })
    ).json(),
    { error: { code: 'endpoint_not_allowed' } }
  )
  t.match((await mint(running, { session: { model: 'demo' } }, bearer)).json(), {
    error: { code: 'endpoint_not_allowed' }
  })
  for (const [body, status, code] of [
    [{ session: { model: 'unknown' } }, 404, 'model_not_found'],
    [{ session: { model: 'costly' } }, 404, 'model_not_found'],
    [{}, 400, 'invalid_field'],
    [{ session: {} }, 400, 'invalid_field'],
    [{ session: { model: 'demo' }, expires_after: { seconds: 5 } }, 400, 'invalid_field'],
    [{ session: { model: 'demo' }, expires_after: { seconds: 7201 } }, 400, 'invalid_field'],
    ...[
      30,
      '30',
      [],
      [30],
      true,
      { seconds: '30' },
      { seconds: 10.5 },
      { seconds: null },
      { seconds: 30, more: 'x'.repeat(17_000) }
    ].map((expires_after) => [{ session: { model: 'demo' }, expires_after }, 400, 'invalid_field'] as const),
    [{ session: { model: 'demo' }, budget: 'much' }, 400, 'invalid_field'],
    [{ session: { model: 'demo' }, budget: -1 }, 400, 'invalid_field'],
    [{ session: { model: 'demo', instructions: 'x'.repeat(17_000) } }, 400, 'invalid_field']
  ] as const) {
    const refused = await mint(running, body)
    t.equal(refused.status, status, JSON.stringify(body).slice(0, 80))
    t.match(refused.json(), { error: { code } })
  }
})

t.test('what it may spend is less than its key may, and never more', async (t) => {
  const running = await gateway(t, settings)
  const usage = '"usage": {"input_tokens": 900, "output_tokens": 20, "total_tokens": 920}'
  const poor = await openRealtime(t, running, withKey(await secret(running, { budget: '0.0012' })))
  poor.ask(`One [[simulator {"tokens": 20, ${usage}}]]`)
  await poor.event('response.done')
  poor.ask('Two')
  t.match(await poor.event('error'), {
    error: { type: 'quota_error', code: 'quota_key_exceeded', message: /client secret/ }
  })
  poor.socket.close(1000)
  await poor.closed
  const value = await secret(running, { budget: 100 })
  const [one, two] = [await openRealtime(t, running, withKey(value)), await openRealtime(t, running, withKey(value))]
  t.match(
    (await refusedRealtime(t, running)).json,
    { error: { code: 'rate_limit_concurrency' } },
    'its sessions take the slots of the key'
  )
  for (let n = 1; n <= 12; n++) {
    one.ask(`More [[simulator {"tokens": 20, ${usage}}]]`)
    if (n <= 8) await one.event('response.done', n)
  }
  t.match(await one.event('error'), { error: { code: 'quota_key_exceeded', message: /key budget/ } })
  for (const client of [one, two]) client.socket.close(1000)
  await settled(t, running)
})

t.test('what is open goes on when it expires, and ends with its key', async (t) => {
  const running = await gateway(t, settings)
  const value = await secret(running)
  const client = await openRealtime(t, running, withKey(value))
  await client.event('session.created')
  running.configure({ ...settings, keys: [{ name: 'another', key: 'sk-another-00000000000000000', tenant: 'acme' }] })
  t.ok((await running.gateway.reload('test')).ok)
  t.equal((await refusedRealtime(t, running, withKey(value))).status, 401)
  t.equal((await client.closed).code, 1008)
  await settled(t, running)
})

t.test('a secret is good for nothing that its key has lost since, nor is what it opened', async (t) => {
  const running = await gateway(t, settings)
  const value = await secret(running)
  const client = await openRealtime(t, running, withKey(value))
  await client.event('session.created')
  const itself = await openRealtime(t, running)
  await itself.event('session.created')
  const [key] = settings.keys
  const lost = async (change: object): Promise<void> => {
    running.configure({ ...settings, keys: [{ ...key!, ...change }] })
    t.ok((await running.gateway.reload('test')).ok)
  }
  await lost({ models: ['other'] })
  t.equal((await refusedRealtime(t, running, withKey(value))).status, 404)
  for (const open of [client, itself]) {
    t.equal((await open.closed).code, 1008)
    t.match(open.events.at(-1), { type: 'error', error: { code: 'model_not_found' } })
  }
  await lost({})
  const again = await openRealtime(t, running, withKey(value))
  await again.event('session.created')
  await lost({ limits: { concurrency: 3 } })
  again.ask('Hi')
  await again.event('response.done')
  await lost({ expires: new Date(Date.now() - 60_000).toISOString() })
  t.equal((await refusedRealtime(t, running, withKey(value))).status, 401)
  t.equal((await again.closed).code, 1008)
  t.match(again.events.at(-1), { type: 'error', error: { code: 'expired_api_key' } })
  await settled(t, running)
})
