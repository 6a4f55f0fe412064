// A Redis whose clock goes back, as one that took over with a clock behind: its keys are as a clock ahead left them.
import t from 'tap'
import type { LimitSet, Rates } from '../../../../../core/catalogue/caller.ts'
import type { SharedLimits } from '../../../../../core/store/cluster/limits/limits.ts'
import { sharedLimits } from '../../../../kit/limits.ts'
import { eventually } from '../../../../kit/probe.ts'
import { RedisServer, redisMissing } from '../../../../kit/redis.ts'

const skip = redisMissing
/** In microseconds: by so much the clock was ahead. */
const ahead = 300_000_000

function set(rates: Rates): LimitSet {
  return { id: 'key:k', home: 'tenant:acme', level: 'key', scope: 'k', models: null, rates }
}

const slots = 'sluice:{tenant:acme}:slots:key:k'
const rates = 'sluice:{tenant:acme}:rates:key:k'

/** Adds to a sorted set what the clock of before gave a lease. */
async function leave(redis: RedisServer, key: string, ...names: string[]): Promise<void> {
  const [seconds] = (await redis.run(['TIME'])) as [string]
  const ends = String(Number(seconds) * 1_000_000 + ahead + 5_000_000)
  await redis.run(['ZADD', key, ...names.flatMap((name) => [ends, name])])
}

async function admits(limits: SharedLimits, key: LimitSet): Promise<boolean> {
  return (await limits.decide([key], 0)).admitted
}

void t.test('slots of a node that is gone are free within a lease, and those of others count', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const limits = await sharedLimits(t, { url: redis.url })
  const key = set({ concurrency: 4 })
  t.ok(await admits(limits, key))
  const [living] = (await redis.run(['ZRANGE', slots, '0', '-1'])) as [string]
  await leave(redis, slots, living, 'gone', 'gone too', 'as well')
  t.notOk(await admits(limits, key), 'nobody knows yet which of them are gone')
  await eventually(async () => (await limits.look([key], 0)).states[0]!.remaining === 3, 20_000)
  for (let free = 3; free > 0; free--) t.ok(await admits(limits, key))
  t.notOk(await admits(limits, key))
})

void t.test('nobody has to be refused before', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const limits = await sharedLimits(t, { url: redis.url })
  const key = set({ concurrency: 4 })
  t.ok(await admits(limits, key))
  await leave(redis, slots, 'gone', 'gone too')
  await eventually(async () => (await limits.look([key], 0)).states[0]!.remaining === 3, 20_000)
})

void t.test('very many slots of nodes that are gone are free as soon', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const limits = await sharedLimits(t, { url: redis.url })
  const key = set({ concurrency: 20_000 })
  await leave(redis, slots, ...Array.from({ length: 20_000 }, (_, at) => `gone ${at}`))
  t.notOk(await admits(limits, key))
  await eventually(async () => (await limits.look([key], 0)).states[0]!.remaining === 20_000, 20_000)
})

void t.test('what was taken of rates leaks out from now on', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const limits = await sharedLimits(t, { url: redis.url })
  for (const key of [set({ rps: 2 }), set({ rpm: 120 }), set({ rps: 2, concurrency: 1000 })]) {
    while (await admits(limits, key));
    await redis.run([
      'EVAL',
      `local state = {struct.unpack('<ddddddddd', redis.call('GET', KEYS[1]))}
      for at = 3, 9, 3 do state[at] = state[at] + ARGV[1] end
      redis.call('SET', KEYS[1], struct.pack('<ddddddddd', unpack(state, 1, 9)))`,
      '1',
      rates,
      String(ahead)
    ])
    await eventually(() => admits(limits, key), 20_000)
    t.pass(JSON.stringify(key.rates))
    await redis.run(['DEL', rates, slots])
  }
})

void t.test('nodes that are gone share nothing within a lease', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const limits = await sharedLimits(t, { url: redis.url })
  await leave(redis, 'sluice:nodes', 'gone', 'gone too')
  await eventually(() => limits.health.nodes === 3, 20_000)
  await eventually(() => limits.health.nodes === 1, 30_000)
})
