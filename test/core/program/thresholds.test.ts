// Thresholds of budgets: each is told once in a window, by whatever is charged, over restarts and reloads.
import { join } from 'node:path'
import t from 'tap'
import type { Scope } from '../../../core/catalogue/caller.ts'
import { startAlerts } from '../../../core/program/alerts.ts'
import { openStore } from '../../../core/store/embedded/store.ts'
import type { Store } from '../../../core/store/store.ts'
import { createLogger } from '../../../core/telling/log.ts'
import { Metrics } from '../../../core/telling/metrics.ts'
import { Transports } from '../../../core/transport/transports.ts'
import { noon, reserve, settle } from '../store/embedded/sample.ts'

/** A store with the alerts of its budgets alone, at the noon after that of the samples. */
async function watched(
  file: string,
  scopes: readonly Scope[] = []
): Promise<{ store: Store; told: unknown[]; close(): Promise<void> }> {
  const told: unknown[] = []
  const log = createLogger({
    write: (line) => {
      const { msg, window, threshold } = JSON.parse(line)
      if (/reached a threshold/.test(msg)) told.push([window, threshold])
    }
  })
  const store = await openStore({ file, durability: 'process', now: () => noon + day })
  const parts = {
    store,
    transport: new Transports(),
    metrics: new Metrics(),
    log,
    settings: () => undefined,
    scope: (id: string) => scopes.find((one) => one.id === id)
  }
  const stop = startAlerts(parts)
  return { store, told, close: () => stop().then(() => store.close()) }
}

const hour = 3_600_000
const day = 24 * hour
const tenant: Scope = { kind: 'tenant', id: 'tenant:acme', budgets: [{ limit: 100n, per: 'day', alerts: [50, 90] }] }

t.test('what an earlier day is charged late tells nothing of the present one again', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const first = await watched(file)
  const late = reserve(first.store.ledger, [tenant], 60n, { time: noon })
  const present = reserve(first.store.ledger, [tenant], 60n, { time: noon + day })
  await settle(first.store, present, 60)
  await settle(first.store, late, 60)
  t.same(first.told, [
    ['2026-11-22', 50],
    ['2026-11-21', 50]
  ])
  await first.close()

  const second = await watched(file)
  for (const time of [noon + day, noon])
    await settle(second.store, reserve(second.store.ledger, [tenant], 20n, { time }), 20)
  t.same(second.told, [], 'what was told of both days is remembered')
  await second.close()
})

t.test('keys of a tenant tell its thresholds once, also around midnight', async (t) => {
  const { store, told, close } = await watched(join(t.testdir(), 'sluice.db'))
  const keyed = (id: string): Scope[] => [tenant, { kind: 'key', id: `key:${id}`, budgets: [] }]
  const early = reserve(store.ledger, keyed('a'), 50n, { time: noon + day })
  const late = reserve(store.ledger, keyed('b'), 10n, { time: noon })
  const other = reserve(store.ledger, keyed('c'), 40n, { time: noon + day })
  await settle(store, early, 50)
  await settle(store, other, 40)
  await settle(store, late, 10)
  t.same(told, [
    ['2026-11-22', 50],
    ['2026-11-22', 90]
  ])
  await close()
})

t.test('a rolling budget tells a threshold by the present hours, whichever hour a charge is of', async (t) => {
  const { store, told, close } = await watched(join(t.testdir(), 'sluice.db'))
  const rolling: Scope = { kind: 'tenant', id: 'tenant:acme', budgets: [{ limit: 100n, per: '1d', alerts: [50] }] }
  const keyed = (id: string): Scope[] => [rolling, { kind: 'key', id: `key:${id}`, budgets: [] }]
  const spend = async (id: string, time: number, amount: number): Promise<void> =>
    settle(store, reserve(store.ledger, keyed(id), BigInt(amount), { time }), amount)
  await spend('a', noon - 23 * hour, 20)
  const late = reserve(store.ledger, keyed('b'), 10n, { time: noon })
  await spend('a', noon, 35)
  t.same(told, [['1d', 50]], '55 within a day')
  // The 20 have gone, so that what is spent again is told again.
  await spend('c', noon + hour, 1)
  await settle(store, late, 10)
  t.equal(told.length, 1, 'with what is charged late there are 46')
  await spend('c', noon + hour, 4)
  t.same(told, [
    ['1d', 50],
    ['1d', 50]
  ])
  // Somebody whose request arrived an hour ago is admitted now.
  await spend('d', noon, 1)
  await spend('c', noon + hour, 1)
  t.equal(told.length, 2)
  await close()
})

t.test('requests of an earlier configuration tell the thresholds of the present one', async (t) => {
  const { store, told, close } = await watched(join(t.testdir(), 'sluice.db'))
  const scopes = (id: string, limit: bigint, generation: number): Scope[] => [
    { kind: 'tenant', id: 'tenant:acme', budgets: [{ limit, per: 'day', alerts: [50, 100] }], generation },
    { kind: 'key', id: `key:${id}`, budgets: [], generation }
  ]
  const spend = async (of: Scope[], amount: number): Promise<void> =>
    settle(store, reserve(store.ledger, of, BigInt(amount), { time: noon + day }), amount)
  await spend(scopes('a', 100n, 1), 60)
  t.same(told, [['2026-11-22', 50]])
  await spend(scopes('b', 300n, 2), 10)
  // It arrived before the limit was raised, and is admitted now.
  await spend(scopes('c', 100n, 1), 30)
  t.same(told, [['2026-11-22', 50]], 'a third of the raised budget')
  await spend(scopes('d', 300n, 2), 50)
  t.same(told, [
    ['2026-11-22', 50],
    ['2026-11-22', 50]
  ])
  await close()
})

t.test('what goes on from an earlier start tells the thresholds that it reaches', async (t) => {
  const rolling: Scope = {
    kind: 'project',
    id: 'project:acme/web',
    budgets: [{ limit: 100n, per: '1d', alerts: [60] }]
  }
  const gone: Scope = { kind: 'key', id: 'key:gone', budgets: [{ limit: 100n, per: 'day', alerts: [50] }] }
  const file = join(t.testdir(), 'sluice.db')
  const first = await watched(file)
  const held = reserve(first.store.ledger, [tenant, rolling, gone], 70n, { requestId: 'video', time: noon + day })
  held.dispatched('openai')
  await held.detach(noon + 9 * day)
  await first.close()

  const second = await watched(file, [tenant, rolling])
  await settle(second.store, second.store.ledger.detached('video')!, 70)
  t.same(second.told, [
    ['2026-11-22', 50],
    ['1d', 60]
  ])
  await settle(second.store, reserve(second.store.ledger, [tenant, rolling], 1n, { time: noon + day }), 1)
  t.equal(second.told.length, 2, 'once each')
  await second.close()
})

t.test('a budget of nothing tells no threshold, and the least of others is one percent', async (t) => {
  const { store, told, close } = await watched(join(t.testdir(), 'sluice.db'))
  const alerts = [1, 50]
  const scopes = (limit: bigint): Scope[] => [
    { kind: 'tenant', id: 'tenant:none', budgets: [{ limit: 0n, per: 'day', alerts }] },
    { kind: 'key', id: 'key:laptop', budgets: [{ limit, per: 'month', alerts }] }
  ]
  const spend = async (limit: bigint, amount: number): Promise<void> =>
    settle(store, reserve(store.ledger, scopes(limit), 0n, { time: noon + day }), amount)
  await spend(100n, 1)
  t.same(told, [['2026-11', 1]])
  await spend(200n, 1)
  t.same(told, [
    ['2026-11', 1],
    ['2026-11', 1]
  ])
  await close()
})

t.test('a threshold that could not be told is told with the next charge, and those behind it after it', async (t) => {
  const store = await openStore({ file: join(t.testdir(), 'sluice.db'), durability: 'process', now: () => noon })
  const told: [number, bigint][] = []
  let takes = false
  store.ledger.watch({
    told: () => 0,
    scope: () => undefined,
    reached: ({ threshold, posted }) => {
      told.push([threshold, posted])
      return takes
    }
  })
  const spend = async (amount: number): Promise<void> =>
    settle(store, reserve(store.ledger, [tenant], BigInt(amount)), amount)
  await spend(49)
  t.same(told, [])
  await spend(42)
  await spend(1)
  t.same(told, [
    [50, 91n],
    [50, 92n]
  ])
  takes = true
  await spend(1)
  await spend(1)
  t.same(told.slice(2), [
    [50, 93n],
    [90, 93n]
  ])
  await store.close()
})
