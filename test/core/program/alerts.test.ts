// Alerts of budgets: once for each threshold and window, signed, delivered until somebody takes them, over restarts.
import { createHmac } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import type { Scope } from '../../../core/catalogue/caller.ts'
import { startAlerts } from '../../../core/program/alerts.ts'
import { openStore } from '../../../core/store/embedded/store.ts'
import { createLogger } from '../../../core/telling/log.ts'
import { Metrics } from '../../../core/telling/metrics.ts'
import { Transports } from '../../../core/transport/transports.ts'
import { gateway, testKey } from '../../kit/gateway.ts'
import type { LocalGateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { Upstream } from '../../kit/upstream.ts'
import type { ReceivedRequest } from '../../kit/upstream.ts'
import { chatAnswer } from '../../kit/workbench.ts'
import { reserve, settle } from '../store/embedded/sample.ts'

t.setTimeout(600_000)

const secrets = ['the-older-of-two-secrets', 'the-newer-of-two-secrets']

interface Bench {
  webhook: Upstream
  /** Starts the gateway, or starts it again. */
  start(budget: object, more?: object): Promise<LocalGateway>
  /** Spends 0.1 dollars. */
  spend(running: LocalGateway): Promise<number>
}

async function open(t: Test): Promise<Bench> {
  const upstream = await Upstream.start(t)
  const webhook = (await Upstream.start(t)).always()
  // A gateway has the folder of the test for itself, and begins it anew.
  const folder = mkdtempSync(join(tmpdir(), 'sluice-alerts-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'sluice.db')
  return {
    webhook,
    start(budget, more = {}) {
      const alerts = { url: new URL('/hook?team=a', webhook.url).href, secrets, private: true }
      const keys = [{ name: 'test', key: testKey, tenant: 'acme', budget }]
      return gateway(
        t,
        { store: { sqlite: file }, tenants: { acme: {} }, keys, alerts, ...more },
        { upstreams: { a: upstream } }
      )
    },
    async spend(running) {
      upstream.json(chatAnswer(100_000, 0))
      const { status } = await running.chat({ max_tokens: 1 })
      return status
    }
  }
}

/** The alerts of a webhook, each as the threshold and what was spent; checks how they are signed. */
function alertsOf(t: Test, requests: readonly ReceivedRequest[]): [number, string][] {
  return requests.map(({ method, target, headers, body, json }) => {
    t.equal(`${method} ${target}`, 'POST /hook?team=a')
    const [time, ...signatures] = headers['sluice-signature']!.split(',')
    const signed = `${time!.slice(2)}.${body.toString()}`
    t.same(
      signatures,
      secrets.map((secret) => `v1=${createHmac('sha256', secret).update(signed).digest('hex')}`),
      'by both secrets'
    )
    const alert = json()
    t.match(alert, {
      type: 'budget.threshold_reached',
      scope: 'key:test',
      level: 'key',
      id: headers['sluice-event-id']
    })
    return [alert.threshold, alert.posted_usd]
  })
}

const budget = { usd: 1, per: 'month', alerts: [100, 50] }

t.test('each threshold is told once, also over a restart, and again when the limit was raised', async (t) => {
  const { webhook, start, spend } = await open(t)
  const first = await start(budget)
  for (let i = 0; i < 7; i++) {
    webhook.json({})
    t.equal(await spend(first), 200)
  }
  await eventually(() => webhook.requests.length === 1)
  t.same(alertsOf(t, webhook.requests), [[50, '0.5']])
  t.equal(first.lines.filter(({ message }) => /reached a threshold/.test(message)).length, 1)
  const metrics = await (await fetch(`${first.adminUrl}/metrics`)).text()
  t.match(metrics, /sluice_budget_alerts_total\{kind="key",threshold="50"\} 1/)
  await first.gateway.close()

  const second = await start(budget)
  for (let i = 0; i < 2; i++) t.equal(await spend(second), 200)
  // What was told before the restart would have come before this.
  await spend(second)
  await eventually(() => webhook.requests.length === 2)
  t.same(alertsOf(t, webhook.requests.slice(1)), [[100, '1']])
  t.equal(await spend(second), 429)
  await second.gateway.close()

  const third = await start({ ...budget, usd: 3 })
  for (let i = 0; i < 6; i++) t.equal(await spend(third), 200)
  await eventually(() => webhook.requests.length === 3)
  t.same(alertsOf(t, webhook.requests.slice(2)), [[50, '1.5']], 'half of the raised budget')
})

t.test('a threshold that is reached without a charge is told at the latest with what is refused', async (t) => {
  const { webhook, start, spend } = await open(t)
  const first = await start({ ...budget, alerts: [] })
  for (let i = 0; i < 6; i++) t.equal(await spend(first), 200)
  await first.gateway.close()
  const second = await start({ ...budget, usd: 0.6 })
  webhook.json({})
  t.equal(await spend(second), 429)
  webhook.json({})
  t.equal(await spend(second), 429)
  await eventually(() => webhook.requests.length === 2)
  t.same(alertsOf(t, webhook.requests), [
    [50, '0.6'],
    [100, '0.6']
  ])
  t.equal(second.lines.filter(({ message }) => /reached a threshold/.test(message)).length, 2, 'once each')
})

const day = 86_400_000
const tenant: Scope = { kind: 'tenant', id: 'tenant:acme', budgets: [{ limit: 100n, per: 'day', alerts: [50, 90] }] }

t.test('an alert that nobody takes is sent again, also after a restart', async (t) => {
  const { webhook, start, spend } = await open(t)
  webhook.json({ error: 'not now' }, { status: 503 })
  const first = await start({ usd: 0.1, per: '30d', alerts: [80] })
  t.equal(await spend(first), 200)
  await eventually(() => first.lines.some(({ message }) => /could not be delivered/.test(message)))
  await first.gateway.close()
  webhook.json({})
  const second = await start({ usd: 0.1, per: '30d', alerts: [80] })
  await eventually(() => webhook.requests.length === 2, 20_000)
  const [one, two] = webhook.requests
  t.equal(two!.headers['sluice-event-id'], one!.headers['sluice-event-id'], 'the same event')
  t.equal(two!.body.toString(), one!.body.toString())
  t.match(one!.json(), { per: '30d', window: '30d', threshold: 80, limit_usd: '0.1', posted_usd: '0.1' })
  await second.gateway.close()
})

t.test('an alert that waits is not held up by a clock that is set back', async (t) => {
  const { webhook, start } = await open(t)
  const { gateway } = await start({ usd: 1, per: 'day' })
  const { alerts } = gateway.config
  await gateway.close()
  const store = await openStore({ file: join(t.testdir(), 'sluice.db'), durability: 'process' })
  let failed = false
  const log = createLogger({ write: (line) => (failed ||= /could not be delivered/.test(line)) })
  const run = (ahead: number) => {
    const parts = { store, transport: new Transports(), metrics: new Metrics(), log, settings: () => alerts }
    return startAlerts({ ...parts, scope: () => undefined, now: () => Date.now() + ahead })
  }
  const early = run(10 * day)
  webhook.json({ error: 'not now' }, { status: 503 })
  await settle(store, reserve(store.ledger, [tenant], 60n, { time: Date.now() }), 60)
  await eventually(() => failed)
  await early()
  webhook.json({})
  const present = run(0)
  await eventually(() => webhook.requests.length === 2, 20_000)
  t.equal(webhook.requests[1]!.headers['sluice-event-id'], webhook.requests[0]!.headers['sluice-event-id'])
  await present()
  await store.close()
})

t.test('a private address has to be allowed, and a secret must be long enough', async (t) => {
  const { start } = await open(t)
  const alerts = { url: 'http://127.0.0.1:9/hook', secrets: ['short'] }
  await t.rejects(start(budget, { alerts }), /alerts\.secrets\[0\].*16/s)
  await t.rejects(start(budget, { alerts: { ...alerts, secrets } }), /127\.0\.0\.1 is a private or loopback address/)
})
