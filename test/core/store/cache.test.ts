// The cache of plugins: tenants apart, bounded, expiring.
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import { definePlugin } from '../../../core/contract/contract.ts'
import type { PluginCache } from '../../../core/contract/contract.ts'
import { caller } from '../../../core/contract/slots.ts'
import { MemoryCache } from '../../../core/store/memory/cache.ts'
import { Upstream } from '../../kit/upstream.ts'
import { channelTo, defaultChain, key, Workbench } from '../../kit/workbench.ts'

const acme = { plugin: 'cache', tenant: 'acme' }
const other = { plugin: 'cache', tenant: 'other' }

t.test('a value is kept as a copy until its time is over, for its tenant and plugin alone', async (t) => {
  const cache = new MemoryCache(100_000)
  const value = Buffer.from('value')
  cache.set(acme, 'key', value, 60_000)
  value.fill(0)
  t.equal(cache.get(acme, 'key')?.toString(), 'value')
  t.equal(cache.get(other, 'key'), undefined)
  t.equal(cache.get({ ...acme, plugin: 'another' }, 'key'), undefined)
  cache.set(acme, 'key', 'newer', 60_000)
  t.equal(cache.get(acme, 'key')?.toString(), 'newer')
  cache.delete(other, 'key')
  t.equal(cache.get(acme, 'key')?.toString(), 'newer')
  cache.delete(acme, 'key')
  t.equal(cache.get(acme, 'key'), undefined)
  for (const ttl of [0, -1, NaN]) {
    cache.set(acme, 'gone', 'x', ttl)
    t.equal(cache.get(acme, 'gone'), undefined, `${ttl} ms are none`)
  }
  cache.set(acme, 'short', 'x', 1000)
  t.equal(cache.get(acme, 'short')?.toString(), 'x')
  await sleep(1010)
  t.equal(cache.get(acme, 'short'), undefined)
  cache.set(acme, 'large', Buffer.alloc(20_000), 60_000)
  t.equal(cache.get(acme, 'large'), undefined, 'what is too large is not kept')
  t.equal(cache.bytes, 0, 'and nothing is left')
})

t.test('a tenant that fills the cache pushes out its own, what was used longest ago first', (t) => {
  const cache = new MemoryCache(10_000)
  cache.set(other, 'small', 'x', 60_000)
  for (let i = 0; i < 100; i++) {
    cache.set(acme, `k${i}`, Buffer.alloc(500), 60_000)
    cache.get(acme, 'k0')
    t.ok(cache.bytes <= 10_000)
  }
  t.equal(cache.get(other, 'small')?.toString(), 'x')
  t.ok(cache.get(acme, 'k0'), 'it was used all the time')
  t.ok(cache.get(acme, 'k99'))
  t.notOk(cache.get(acme, 'k50'))
  t.end()
})

t.test('whatever is done to it, it is a map that forgets, within its bounds', (t) => {
  const scopes = [acme, other, { plugin: 'second', tenant: 'acme' }]
  const step = fc.record({
    scope: fc.constantFrom(...scopes),
    key: fc.constantFrom('a', 'b', 'c'),
    size: fc.option(fc.integer({ min: 0, max: 500 }))
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const cache = new MemoryCache(4_000)
      const known = new Map<string, number>()
      for (const { scope, key, size } of steps) {
        const name = `${scope.plugin} ${scope.tenant} ${key}`
        if (size === null) {
          cache.delete(scope, key)
          known.delete(name)
        } else {
          cache.set(scope, key, Buffer.alloc(size), 60_000)
          known.set(name, size)
        }
        if (cache.bytes > 4_000) return false
        for (const one of scopes)
          for (const name of ['a', 'b', 'c']) {
            const found = cache.get(one, name)
            if (found && found.length !== known.get(`${one.plugin} ${one.tenant} ${name}`)) return false
          }
      }
      for (const one of scopes) for (const name of ['a', 'b', 'c']) cache.delete(one, name)
      return cache.bytes === 0
    })
  )
  t.end()
})

t.test('a plugin reaches the entries of the tenant that asks, and no others', async (t) => {
  const upstream = await Upstream.start(t)
  const kept = (name: string): ReturnType<typeof definePlugin> =>
    definePlugin({
      name,
      summary: 'Answers with what it kept before.',
      options: {},
      needs: [caller],
      setup: (_config, { cache }: { cache: PluginCache }) => ({
        async onRequest(exchange) {
          const before = await cache.get(exchange, 'last')
          await cache.set(exchange, 'last', exchange.get(caller).key, 60_000)
          return { status: 200, body: before?.toString() ?? 'nothing' }
        }
      })
    })
  const keys = [
    key({}),
    { name: 'second', key: 'sk-second', tenant: 'acme' },
    { name: 'third', key: 'sk-third', tenant: 'umbrella' }
  ]
  const sections = (name: string): Parameters<typeof Workbench.open>[1] => ({
    channels: { a: channelTo(upstream) },
    tenants: { acme: {}, umbrella: {} },
    keys,
    chain: [...defaultChain.slice(0, 1), name, ...defaultChain.slice(1)]
  })
  const bench = await Workbench.open(t, sections('keeper'), { more: [kept('keeper'), kept('other')] })
  const ask = async (secret: string): Promise<string> =>
    (await bench.send({ headers: { authorization: `Bearer ${secret}` } })).body
  t.equal(await ask('sk-test-key'), 'nothing')
  t.equal(await ask('sk-second'), 'test-key')
  t.equal(await ask('sk-third'), 'nothing')
  await bench.reload(sections('keeper'))
  t.equal(await ask('sk-test-key'), 'second', 'a reload forgets nothing')
  await bench.reload(sections('other'))
  t.equal(await ask('sk-test-key'), 'nothing', 'another plugin knows nothing of it')
})
