// When Redis is told that a request has ended: before its client can know of it, and in company where that is later.
import t from 'tap'
import type { Test } from 'tap'
import type { LimitSet } from '../../../../../core/catalogue/caller.ts'
import { limitNode, SharedLimits } from '../../../../../core/store/cluster/limits/limits.ts'
import { placeOf } from '../../../../../core/store/cluster/redis/address.ts'
import type { Lease } from '../../../../../core/store/limits.ts'
import { silentLog } from '../../../../../core/telling/log.ts'
import { redisOptions, sharedLimits } from '../../../../kit/limits.ts'
import { eventually } from '../../../../kit/probe.ts'
import { RedisServer, redisMissing } from '../../../../kit/redis.ts'

const skip = redisMissing
const one: LimitSet = {
  id: 'key:a',
  home: 'tenant:a',
  level: 'key',
  scope: 'a',
  models: null,
  rates: { concurrency: 1 }
}

async function take(limits: SharedLimits): Promise<Lease> {
  const decision = await limits.decide([one], 0)
  if (!decision.admitted) throw new Error('it was refused')
  return decision.lease
}

async function isFull(limits: SharedLimits): Promise<boolean> {
  return !(await limits.look([one], 0)).admitted
}

/** One whose slots do not end by themselves, however long a test takes. */
async function patient(t: Test, { url }: RedisServer): Promise<SharedLimits> {
  const { command_timeout: command, connect_timeout: connect } = redisOptions
  const times = { command, connect }
  const more = { prefix: 'sluice', onUnavailable: 'share', liveNodes: () => 1 } as const
  const limits = new SharedLimits({ place: placeOf({ url }), times, lease: 600_000, ...more }, silentLog)
  t.teardown(() => limits.close())
  await eventually(() => limits.health.usable, 20_000)
  return limits
}

void t.test('what nobody sees yet is told with the next question, and before it', { skip }, async (t) => {
  const { url } = await RedisServer.start(t)
  const limits = await sharedLimits(t, { url })
  // A server that has not seen a script yet is asked twice.
  ;(await take(limits)).release(0)
  await eventually(async () => !(await isFull(limits)))
  const first = await take(limits)
  t.ok(await isFull(limits))
  first.release(0, true)
  const second = await take(limits)
  t.pass('the slot was free for the next request of the same node')
  second.release(0, true)
})

void t.test('it is told when money leaves, and soon where none does', { skip }, async (t) => {
  const { url } = await RedisServer.start(t)
  const limits = await sharedLimits(t, { url })
  const other = await sharedLimits(t, { url })
  const first = await take(limits)
  first.release(0, true)
  limits.flush()
  await eventually(async () => !(await isFull(other)))
  const second = await take(limits)
  second.release(0, true)
  await eventually(async () => !(await isFull(other)))
  const third = await take(limits)
  t.ok(await isFull(other))
  third.release(0)
  await eventually(async () => !(await isFull(other)))
  t.equal(limits.health.running, 0)
})

void t.test('what waits for company is told before a gateway is gone', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const limits = await sharedLimits(t, { url: redis.url })
  // A server that has not seen a script yet is asked twice.
  ;(await take(limits)).release(0)
  await eventually(async () => !(await isFull(limits)))
  ;(await take(limits)).release(0, true)
  await limits.close()
  t.equal(await redis.run(['EXISTS', 'sluice:{tenant:a}:slots:key:a']), 0)
})

void t.test('what is owed after an outage lets questions in between', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const limits = await patient(t, redis)
  const many = { ...one, id: 'key:many', rates: { concurrency: 10_000 } }
  // A server that has not seen a script yet is asked twice.
  ;(await take(limits)).release(0)
  await eventually(async () => !(await isFull(limits)))
  const decided = await Promise.all(Array.from({ length: 5000 }, async () => limits.decide([many], 0)))
  await redis.run(['REPLICAOF', '127.0.0.1', '1'])
  await limits.decide([many], 0)
  t.match(limits.health, { usable: false, running: 5001 })
  for (const decision of decided) if (decision.admitted) decision.lease.release(undefined)
  await redis.run(['REPLICAOF', 'NO', 'ONE'])
  // In the turn of the loop in which it is back, or the next one.
  while (!limits.health.usable) await new Promise(setImmediate)
  const { states } = await limits.decide([many], 0)
  t.ok(states[0]!.remaining < 6000, `behind ${states[0]!.remaining - 4998} releases`)
  await eventually(async () => (await limits.look([many], 0)).states[0]!.remaining === 9998)
})

void t.test('what a node has that is gone is freed by another one, and what others have stays', { skip }, async (t) => {
  const { url } = await RedisServer.start(t)
  const two = { ...one, rates: { concurrency: 2 } }
  const slots = new Map<string, Set<string>>()
  const node = limitNode()
  const onSlots = (home: string, key: string): void => void slots.set(home, (slots.get(home) ?? new Set()).add(key))
  const gone = await sharedLimits(t, { url }, 'share', { node, onSlots })
  const other = await sharedLimits(t, { url })
  const own = await other.decide([two], 0)
  t.ok(own.admitted)
  t.ok((await gone.decide([two], 0)).admitted)
  t.same([...slots], [['tenant:a', new Set(['sluice:{tenant:a}:slots:key:a'])]])
  await gone.close()
  // A server that has not seen a script yet is asked twice: from then on everything is in order.
  other.free(limitNode(), slots)
  await other.look([two], 0)
  await other.look([two], 0)
  t.notOk((await other.look([two], 0)).admitted, 'its slot stays until its lease ends')
  other.free(node, slots)
  t.ok((await other.look([two], 0)).admitted, 'it is free')
  t.ok((await other.decide([two], 0)).admitted)
  t.notOk((await other.look([two], 0)).admitted, 'and the other one was not')
  await eventually(() => other.health.nodes === 1)
})

void t.test('a slot whose release was refused or lost is free when Redis is back', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const ways: Record<string, [string[], string[]]> = {
    'a replica': [
      ['REPLICAOF', '127.0.0.1', '1'],
      ['REPLICAOF', 'NO', 'ONE']
    ],
    full: [
      ['CONFIG', 'SET', 'maxmemory', '1'],
      ['CONFIG', 'SET', 'maxmemory', '0']
    ],
    'loses its clients': [['CLIENT', 'KILL', 'TYPE', 'normal'], ['PING']]
  }
  for (const [what, [gone, back]] of Object.entries(ways)) {
    const limits = await patient(t, redis)
    const lease = await take(limits)
    const tokens = { ...one, id: 'key:tokens', rates: { tpm: 1_000_000 } }
    const taken = await limits.decide([tokens], 1000)
    await redis.run(gone)
    lease.release(0)
    if (taken.admitted) taken.lease.release(500_000)
    await eventually(() => !limits.health.usable, 20_000)
    await redis.run(back)
    await eventually(() => limits.health.usable, 20_000)
    await eventually(async () => !(await isFull(limits)), 5000)
    const { states } = await limits.look([tokens], 1)
    t.ok(states[0]!.remaining >= 499_000, `${what}: tokens are corrected once at most`)
    await redis.run(['FLUSHALL'])
  }
})
