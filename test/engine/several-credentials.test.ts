// Channels with several credentials and with limits, as clients, operators and a scripted upstream see them.
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { ask } from '../kit/client.ts'
import { gateway } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'
import { tokenServer } from '../kit/token-server.ts'
import type { Answer, Asked, TokenServer } from '../kit/token-server.ts'

const keys = { a: 'sk-up-aaaaaaaaaaaa', b: 'sk-up-bbbbbbbbbbbb', c: 'sk-up-cccccccccccc' } as const
type Name = keyof typeof keys

const answer: Answer = {
  body: {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
  }
}
const unauthorized: Answer = {
  status: 401,
  body: { error: { message: 'Incorrect API key provided', code: 'invalid_api_key' } }
}

function limited(headers: Record<string, string> = {}): Answer {
  return { status: 429, headers, body: { error: { message: 'Slow down', type: 'rate_limit_error' } } }
}

/** Which of the keys a request carried. */
function carried({ headers }: Asked): Name {
  const found = Object.entries(keys).find(([, key]) => headers.authorization === `Bearer ${key}`)
  return (found?.[0] ?? 'none') as Name
}

function credentials(...names: readonly Name[]): object[] {
  return names.map((name) => ({ key: keys[name], name }))
}

interface ChannelParts {
  readonly [name: string]: unknown
}

function overrides(upstream: TokenServer, channel: ChannelParts, more: object = {}): Record<string, unknown> {
  return {
    channels: {
      up: { protocol: 'openai', base_url: `${upstream.url}/v1`, private: true, models: { m: 'm' }, ...channel }
    },
    models: { m: { price: { input: 1, output: 1 } } },
    ...more
  }
}

async function health(running: LocalGateway, name = 'up'): Promise<any> {
  return (await running.admin(`/admin/v1/channels/${name}`)).health
}

/** Everything that a gateway says of itself must not have a key in it. */
async function holdsNoKey(t: Test, running: LocalGateway): Promise<void> {
  const pages = [
    '/readyz',
    '/metrics',
    '/admin/v1/channels',
    '/admin/v1/config',
    '/admin/v1/configuration',
    '/admin/v1/requests',
    '/admin/v1/troubles'
  ]
  const texts = await Promise.all(pages.map(async (path) => (await ask(t, running.adminUrl, { path })).text))
  const all = JSON.stringify(running.lines) + texts.join('\n')
  for (const key of Object.values(keys)) t.notOk(all.includes(key), 'no key is shown')
}

t.test('a 429 of one credential rests that one alone, and the request goes out with another', async (t) => {
  const upstream = await tokenServer(t, (one) => (carried(one) === 'a' ? limited({ 'retry-after': '60' }) : answer))
  const running = await gateway(t, overrides(upstream, { credentials: credentials('a', 'b', 'c') }))
  for (let i = 0; i < 30; i++) t.equal((await running.chat({ model: 'm' })).status, 200)
  const used = upstream.asked.map(carried)
  t.equal(used.filter((one) => one === 'a').length, 1, 'it was asked once, and then it rested')
  t.ok(used.includes('b') && used.includes('c'), 'the others share the requests')
  const seen = await health(running)
  t.equal(seen.state, 'healthy', 'the channel is well')
  const rests = seen.credentials.find(({ name }: { name: string }) => name === 'a')
  t.match(rests, { state: 'cooling', reason: /pause of 60000 ms/ })
  t.ok(Date.parse(rests.until) > Date.now() + 30_000, 'until when is shown')
  await holdsNoKey(t, running)
})

t.test('a 401 of one rests that one, the log names it, and the record says which was used and why', async (t) => {
  const upstream = await tokenServer(t, (one) => (carried(one) === 'a' ? unauthorized : answer))
  const running = await gateway(
    t,
    overrides(upstream, {
      credentials: [
        { key: keys.a, name: 'a', weight: 1000 },
        { key: keys.b, name: 'b' }
      ]
    })
  )
  await eventually(async () => {
    t.equal((await running.chat({ model: 'm' })).status, 200)
    return upstream.asked.some((one) => carried(one) === 'a')
  })
  const reply = await running.chat({ model: 'm' })
  t.equal(reply.status, 200)
  const record = await running.record(reply)
  t.match(record.attempts, [{ channel: 'up', credential: 'b' }])
  t.match(record.decision, { excluded: [{ channel: 'up', credential: 'a', by: 'route', code: 'ejected' }] })
  const line = running.lines.find(({ message }) => message === 'a channel refused our credential')
  t.match(line, { fields: { channel: 'up', credential: 'a', hint: /check a in channels\.up\.credentials/ } })
  const { text } = await ask(t, running.adminUrl, { path: '/metrics' })
  t.match(text, /sluice_credential_state\{channel="up",credential="a",state="ejected"\} 1/)
  t.match(text, /sluice_credential_attempts_total\{channel="up",credential="a",outcome="failed"\} [1-9]/)
  await holdsNoKey(t, running)
})

t.test('when all rest, the channel is out, and another channel serves', async (t) => {
  const upstream = await tokenServer(t, () => limited({ 'retry-after': '60' }))
  const other = await tokenServer(t, () => answer)
  const base = overrides(upstream, { credentials: credentials('a', 'b') })
  const running = await gateway(t, {
    ...base,
    channels: {
      ...(base['channels'] as object),
      spare: { protocol: 'openai', base_url: `${other.url}/v1`, private: true, models: { m: 'm' }, priority: 1 }
    }
  })
  for (let i = 0; i < 5; i++) t.equal((await running.chat({ model: 'm' })).status, 200)
  t.same(upstream.asked.map(carried).sort(), ['a', 'b'], 'each credential was asked once')
  t.match(await health(running), { state: 'cooling', reason: 'all of its 2 credentials rest' })
})

t.test('a failure of the upstream is of all credentials: no other one is tried', async (t) => {
  const upstream = await tokenServer(t, () => ({ status: 500, body: { error: { message: 'broken' } } }))
  const running = await gateway(
    t,
    overrides(upstream, { credentials: credentials('a', 'b', 'c') }, { chain: chainWith({ repeats: 0 }) })
  )
  t.equal((await running.chat({ model: 'm' })).status, 502)
  t.equal(upstream.asked.length, 1)
})

function chainWith(route: object): unknown[] {
  return [
    { auth: {} },
    { quota: {} },
    { ratelimit: {} },
    { route },
    { 'protocol-translate': {} },
    { 'usage-meter': {} },
    { log: { sink: 'none' } }
  ]
}

t.test('what an upstream tells of is shown, and a told zero rests the credential until its reset', async (t) => {
  let left = '7'
  const upstream = await tokenServer(t, (one) =>
    carried(one) === 'a'
      ? {
          ...answer,
          headers: {
            'x-ratelimit-limit-requests': '10',
            'x-ratelimit-remaining-requests': left,
            'x-ratelimit-reset-requests': '6m0s'
          }
        }
      : answer
  )
  const running = await gateway(t, overrides(upstream, { credentials: credentials('a', 'b') }))
  const count = (): number => upstream.asked.filter((one) => carried(one) === 'a').length
  await eventually(async () => ((await running.chat({ model: 'm' })).status, count() > 0))
  const told = (await health(running)).credentials[0].limits
  t.match(told, [{ name: 'requests', by: 'upstream', models: 'm', limit: 10, left: 7 }])
  left = '0'
  const before = count()
  await eventually(async () => ((await running.chat({ model: 'm' })).status, count() > before))
  const spent = count()
  for (let i = 0; i < 20; i++) t.equal((await running.chat({ model: 'm' })).status, 200)
  t.equal(count(), spent, 'it is not used while nothing is left')
  const record = await running.record(await running.chat({ model: 'm' }))
  t.match(record.decision, { excluded: [{ credential: 'a', code: 'spent' }] })
})

t.test('hostile headers change nothing', async (t) => {
  const values = ['-1', 'NaN', '1e309', '9'.repeat(400), '', '0x0', '🦊'.replace(/./gu, '?'), 'A'.repeat(1000)]
  let at = 0
  const upstream = await tokenServer(t, () => {
    const value = values[at++ % values.length]!
    return {
      ...answer,
      headers: Object.fromEntries(
        ['limit', 'remaining', 'reset'].flatMap((what) => [
          [`x-ratelimit-${what}-requests`, value],
          [`anthropic-ratelimit-tokens-${what}`, value]
        ])
      )
    }
  })
  const running = await gateway(t, overrides(upstream, { credentials: credentials('a', 'b') }))
  for (const value of values) t.equal((await running.chat({ model: 'm' })).status, 200, value.slice(0, 20))
  t.equal((await health(running)).state, 'healthy')
})

t.test('requests at one time never exceed the limits of channel and credentials, and no slot is lost', async (t) => {
  let now = 0
  let most = 0
  const ofEach = { a: 0, b: 0, c: 0, none: 0 }
  const mostOf = { a: 0, b: 0, c: 0, none: 0 }
  const upstream = await tokenServer(t, async (one) => {
    const name = carried(one)
    most = Math.max(most, ++now)
    mostOf[name] = Math.max(mostOf[name], ++ofEach[name])
    await sleep(5)
    now--
    ofEach[name]--
    return answer
  })
  const running = await gateway(
    t,
    overrides(
      upstream,
      {
        limits: { concurrency: 3 },
        credentials: [
          { key: keys.a, name: 'a', concurrency: 1 },
          { key: keys.b, name: 'b', concurrency: 5 }
        ]
      },
      { chain: chainWith({ wait: '60s' }) }
    )
  )
  const replies = await Promise.all(Array.from({ length: 60 }, () => running.chat({ model: 'm' })))
  t.ok(replies.every(({ status }) => status === 200))
  t.ok(most <= 3, `at most three at one time: ${most}`)
  t.ok(mostOf.a <= 1 && mostOf.b <= 3, JSON.stringify(mostOf))
  const { limits, credentials: each } = await health(running)
  t.match(limits, [{ name: 'concurrency', limit: 3, left: 3 }], 'all slots are back')
  t.match(each, [{ limits: [{ left: 1 }] }, { limits: [{ left: 5 }] }])
})

t.test(
  'a full channel is skipped; without another the request waits, and then gets 429 with Retry-After',
  async (t) => {
    const upstream = await tokenServer(t, () => answer)
    const other = await tokenServer(t, () => answer)
    const base = overrides(upstream, { limits: { rpm: 2 } }, { chain: chainWith({ wait: '50ms' }) })
    const spare = {
      protocol: 'openai',
      base_url: `${other.url}/v1`,
      private: true,
      models: { m: 'm' },
      priority: 1,
      limits: { rpm: 1 }
    }
    const running = await gateway(t, { ...base, channels: { ...(base['channels'] as object), spare } })
    const statuses = []
    for (let i = 0; i < 3; i++) statuses.push((await running.chat({ model: 'm' })).status)
    t.same(statuses, [200, 200, 200])
    t.equal(upstream.asked.length, 2)
    t.equal(other.asked.length, 1)
    const refused = await running.chat({ model: 'm' })
    t.equal(refused.status, 429)
    t.match(JSON.parse(refused.text), { error: { type: 'rate_limit_error', code: 'upstream_rate_limited' } })
    t.ok(Number(refused.headers['retry-after']) >= 1)
    t.notMatch(refused.text, /up\b.*spare|spare/, 'no channel is named')
    const record = await running.record(refused)
    t.equal(record.outcome, 'rejected')
    t.match(record.reason, { by: 'channel', remedy: /raise the limits/ })
  }
)

t.test('a limit of one model leaves the others alone', async (t) => {
  const upstream = await tokenServer(t, () => answer)
  const running = await gateway(t, {
    ...overrides(
      upstream,
      { models: { m: 'm', n: 'n' }, limits: { models: { m: { rpm: 1 } } } },
      { chain: chainWith({ wait: '0s' }) }
    ),
    models: { m: { price: { input: 1, output: 1 } }, n: { price: { input: 1, output: 1 } } }
  })
  t.equal((await running.chat({ model: 'm' })).status, 200)
  t.equal((await running.chat({ model: 'm' })).status, 429)
  for (let i = 0; i < 3; i++) t.equal((await running.chat({ model: 'n' })).status, 200)
})

t.test('a reload keeps what is known of a credential that stays, and begins anew with another one', async (t) => {
  const upstream = await tokenServer(t, (one) => (carried(one) === 'a' ? limited({ 'retry-after': '200' }) : answer))
  const running = await gateway(t, overrides(upstream, { credential: keys.a }))
  t.equal((await running.chat({ model: 'm' })).status, 429, 'the only one is told to wait')
  const asked = upstream.asked.length
  running.configure(overrides(upstream, { credentials: credentials('b', 'a') }))
  t.equal((await ask(t, running.adminUrl, { method: 'POST', path: '/admin/v1/reload' })).status, 200)
  for (let i = 0; i < 10; i++) t.equal((await running.chat({ model: 'm' })).status, 200)
  t.ok(
    upstream.asked.slice(asked).every((one) => carried(one) === 'b'),
    'the one that rests still does'
  )
  running.configure(overrides(upstream, { credentials: credentials('c', 'b') }))
  t.equal((await ask(t, running.adminUrl, { method: 'POST', path: '/admin/v1/reload' })).status, 200)
  await eventually(async () => {
    await running.chat({ model: 'm' })
    return upstream.asked.some((one) => carried(one) === 'c')
  })
  t.pass('a new one is used')
})

t.test('no credential of a list is shown in the text of the file, in comments and anchors neither', async (t) => {
  const secrets = ['sk-clear-one-00000000', 'sk-clear-two-00000000', 'sk-clear-three-000000']
  const running = await gateway(
    t,
    `x-old: { credentials: [${secrets[2]}] }
# credentials: [${secrets[0]}]
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
store: { sqlite: ./store.db, durability: process }
channels:
  up: { protocol: openai, base_url: "https://api.example.com/v1", models: { m: m }, credentials: [ ${secrets[0]}, { key: ${secrets[1]}, name: b } ] }
models: { m: { price: free } }
tenants: { acme: {} }
chain: [auth, route]
`
  )
  for (const path of ['/admin/v1/config', '/admin/v1/config/file', '/admin/v1/channels/up']) {
    const { text, status } = await ask(t, running.adminUrl, { path })
    t.equal(status, 200)
    for (const secret of secrets) t.notOk(text.includes(secret), `${path} does not show ${secret}`)
  }
})

t.test('a credential that is refused is a trouble of its own', async (t) => {
  const upstream = await tokenServer(t, (one) => (carried(one) === 'a' ? unauthorized : answer))
  const running = await gateway(t, overrides(upstream, { credentials: credentials('a', 'b') }))
  await eventually(async () => {
    await running.chat({ model: 'm' })
    return upstream.asked.some((one) => carried(one) === 'a')
  })
  const { data } = await running.admin('/admin/v1/troubles')
  t.match(
    data.filter(({ kind }: { kind: string }) => kind === 'credential'),
    [{ severity: 'warning', text: /^The credential a of the channel up is left out/, link: 'channels/up' }]
  )
})
