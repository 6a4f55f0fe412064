// Redis killed, asleep, slow, demoted, emptied: no request waits longer than one timeout, and the limits come back.
import t from 'tap'
import type { Test } from 'tap'
import type { LimitSet, Rates } from '../../../../../core/catalogue/caller.ts'
import { openSharedLimits } from '../../../../../core/store/cluster/limits/open.ts'
import { releaseCall } from '../../../../../core/store/cluster/limits/figures.ts'
import { renew } from '../../../../../core/store/cluster/limits/scripts.ts'
import { placeOf } from '../../../../../core/store/cluster/redis/address.ts'
import { connect } from '../../../../../core/store/cluster/redis/connection.ts'
import { run } from '../../../../../core/store/cluster/redis/script.ts'
import type { Call } from '../../../../../core/store/cluster/redis/script.ts'
import type { SharedLimits } from '../../../../../core/store/cluster/limits/limits.ts'
import type { Decision, Lease } from '../../../../../core/store/limits.ts'
import { createLogger, silentLog } from '../../../../../core/telling/log.ts'
import { DatabaseProxy } from '../../../../kit/database-proxy.ts'
import { redisOptions, sharedLimits } from '../../../../kit/limits.ts'
import { eventually, stopwatch } from '../../../../kit/probe.ts'
import { RedisServer, redisMissing } from '../../../../kit/redis.ts'

const skip = redisMissing
/** A timeout that this machine keeps, and that is noticed when it is waited for twice. */
const command_timeout = 1000

function set(id: string, rates: Rates): LimitSet {
  return { id, home: 'tenant:acme', level: 'key', scope: id, models: null, rates }
}

function leaseOf(decision: Decision): Lease {
  if (!decision.admitted) throw new Error(`refused by ${decision.refusedBy.name}`)
  return decision.lease
}

/** A decision that is made at once, without Redis. */
function atOnce(t: Test, limits: SharedLimits, sets: readonly LimitSet[]): Decision {
  const decision = limits.decide(sets, 0)
  if (decision instanceof Promise) {
    t.fail('nothing waits for a Redis that is gone')
    throw new Error('waits')
  }
  return decision
}

async function slotsLeft(limits: SharedLimits, one: LimitSet): Promise<number> {
  const { states } = await limits.look([one], 0)
  return states[0]!.remaining
}

void t.test('Redis is killed and comes back empty', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const first = await sharedLimits(t, { url: redis.url })
  const second = await sharedLimits(t, { url: redis.url })
  await eventually(() => first.health.nodes === 2, 20_000)
  const key = set('key:k', { concurrency: 8 })
  const before = [leaseOf(await first.decide([key], 0)), leaseOf(await first.decide([key], 0))]
  leaseOf(await second.decide([key], 0))

  await redis.kill()
  await eventually(() => !first.health.usable && !second.health.usable)
  const during = [atOnce(t, first, [key]), atOnce(t, first, [key]), atOnce(t, first, [key])]
  t.same(
    during.map(({ admitted }) => admitted),
    [true, true, false],
    'a node has its half of the eight slots, two of which it has already'
  )
  t.match(during[2], { refusedBy: { name: 'concurrency', set: key, limit: 8, remaining: 0 }, retryAfterMs: 1000 })
  before[0]!.release(undefined)
  const next = atOnce(t, first, [key])
  t.equal(next.admitted, true, 'a slot that is given back during the gap is free')
  for (let i = 0; i < 20; i++) t.equal(atOnce(t, first, [key]).admitted, false)

  await redis.resume()
  await eventually(() => first.health.usable && second.health.usable, 20_000)
  // Each node tells on a connection of its own.
  await eventually(async () => (await slotsLeft(second, key)) === 3, 20_000)
  t.pass('Redis is told of the four slots of one and the slot of the other')
  before[1]!.release(undefined)
  for (const one of [...during.slice(0, 2), next]) leaseOf(one).release(undefined)
  await eventually(async () => (await slotsLeft(second, key)) === 7)
})

void t.test('Redis is asleep', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const limits = await sharedLimits(t, { url: redis.url, command_timeout })
  const other = await sharedLimits(t, { url: redis.url, command_timeout })
  await eventually(() => limits.health.nodes === 2, 20_000)
  const key = set('key:k', { tpm: 10_000, concurrency: 30 })
  const watch = stopwatch()
  redis.signal('SIGSTOP')
  const decisions = await Promise.all(Array.from({ length: 40 }, async () => limits.decide([key], 100)))
  t.ok(watch.ms < 1.5 * command_timeout, `they took ${watch.ms} ms`)
  t.equal(decisions.filter(({ admitted }) => admitted).length, 15, 'the half of the slots')
  t.equal(atOnce(t, limits, [key]).admitted, false)
  t.match(limits.health, { usable: false, running: 15 })

  redis.signal('SIGCONT')
  await eventually(() => limits.health.usable && other.health.usable, 20_000)
  // Redis has admitted thirty by now.
  await eventually(async () => (await slotsLeft(other, key)) === 15)
  const tokensLeft = async (): Promise<number> => (await other.look([key], 1)).states[1]!.remaining
  await eventually(async () => (await tokensLeft()) >= 8500)
  const admitted = decisions.filter((one) => one.admitted)
  for (const one of admitted) leaseOf(one).release(0)
  await eventually(async () => (await slotsLeft(other, key)) === 30)
  await eventually(async () => (await tokensLeft()) >= 9990)
})

void t.test('Redis is asleep until its connection is given up', { skip }, async (t) => {
  const redis = await RedisServer.start(t, '--requirepass', 'secret')
  const url = `redis://:secret@127.0.0.1:${redis.port}`
  const limits = await sharedLimits(t, { url, command_timeout: 100, connect_timeout: 500 })
  redis.signal('SIGSTOP')
  await limits.decide([set('key:k', { rpm: 100 })], 0)
  // New connections are taken by the system, and nobody answers to the password.
  await eventually(() => limits.health.reason === 'TIMEOUT', 20_000)
  redis.signal('SIGCONT')
  await eventually(() => limits.health.usable, 20_000)
})

void t.test('a node that is busy itself blames nobody', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const limits = await sharedLimits(t, { url: redis.url, command_timeout: 300 })
  const { since } = limits.health
  const key = set('key:k', { rpm: 2 })
  t.match(await limits.decide([key], 0), { states: [{ remaining: 1 }] })
  const asked = limits.decide([key], 0)
  // It is sent in this turn, and its answer lies there long after its time.
  await new Promise(process.nextTick)
  await new Promise(setImmediate)
  for (const until = performance.now() + 2000; performance.now() < until;);
  t.match(await asked, { admitted: true, states: [{ remaining: 0 }] })
  t.match(limits.health, { usable: true, since })
})

void t.test('a node that has never seen Redis shares with those that the book knows', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  await redis.kill()
  const limits = await openSharedLimits({ ...redisOptions, url: redis.url }, 'share', silentLog, { liveNodes: () => 4 })
  t.teardown(() => limits.close())
  const key = set('key:k', { concurrency: 9 })
  const admitted = Array.from({ length: 9 }, () => atOnce(t, limits, [key])).filter((one) => one.admitted)
  t.equal(admitted.length, 2)
})

void t.test('Redis pauses its clients', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const limits = await sharedLimits(t, { url: redis.url, command_timeout: 200 })
  await redis.run(['CLIENT', 'PAUSE', '1500', 'ALL'])
  const key = set('key:k', { concurrency: 2 })
  const first = await limits.decide([key], 0)
  t.equal(limits.health.usable, false)
  t.equal(atOnce(t, limits, [key]).admitted, true)
  t.equal(atOnce(t, limits, [key]).admitted, false)
  await eventually(() => limits.health.usable, 20_000)
  t.equal(await slotsLeft(limits, key), 0)
  leaseOf(first).release(undefined)
  await eventually(async () => (await slotsLeft(limits, key)) === 1)
})

void t.test('Redis becomes a replica', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const limits = await sharedLimits(t, { url: redis.url })
  const [, id] = /\bid=(\d+)/.exec(String(await redis.run(['CLIENT', 'LIST'])))!
  await redis.run(['REPLICAOF', '127.0.0.1', '1'])
  const decision = await limits.decide([set('key:k', { rpm: 5 })], 0)
  t.equal(decision.admitted, true, 'by the share of the node')
  t.match(limits.health, { usable: false, reason: 'READONLY' })
  await eventually(async () => !new RegExp(`\\bid=${id}\\b`).test(String(await redis.run(['CLIENT', 'LIST']))), 20_000)
  await redis.run(['REPLICAOF', 'NO', 'ONE'])
  await eventually(() => limits.health.usable, 20_000)
})

void t.test('what is no answer of a script decides nothing, and its connection is left', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const port = Number(new URL(redis.url).port)
  const others = ['+OK\r\n', ':1\r\n', '$-1\r\n', '*0\r\n', '$8\r\n12345678\r\n']
  const proxy = await DatabaseProxy.start(t, port)
  for (const other of others)
    await t.test(JSON.stringify(other), async (t) => {
      const limits = await sharedLimits(t, { url: `redis://127.0.0.1:${proxy.port}` })
      proxy.changes = () => Buffer.from(other)
      const decision = await limits.decide([set('key:k', { rpm: 50, concurrency: 9 })], 0)
      t.equal(decision.admitted, true, 'by the share of the node')
      t.match(limits.health, { usable: false, reason: 'PROTOCOL' })
      leaseOf(decision).release(undefined)
      proxy.changes = (answer) => answer
      await eventually(() => limits.health.usable, 20_000)
      await eventually(async () => (await slotsLeft(limits, set('key:k', { concurrency: 9 }))) === 9, 20_000)
    })
})

void t.test('Redis forgets the scripts', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const limits = await sharedLimits(t, { url: redis.url })
  const { since } = limits.health
  const key = set('key:k', { tpm: 1000, concurrency: 5 })
  const lease = leaseOf(await limits.decide([key], 600))
  await redis.run(['SCRIPT', 'FLUSH'])
  lease.release(100)
  await redis.run(['SCRIPT', 'FLUSH'])
  const { admitted, states } = await limits.decide([key], 100)
  t.equal(admitted, true)
  t.match(states, [{ remaining: 4 }, { name: 'tpm' }])
  t.ok(states[1]!.remaining >= 800, `${states[1]!.remaining} tokens are left`)
  t.match(limits.health, { usable: true, since }, 'nothing was decided without it')
})

void t.test('no renewal that Redis does not know yet comes after the release behind it', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const signal = new AbortController().signal
  const connection = await connect({ place: placeOf({ url: redis.url }), timeout: 20_000, lost: () => {}, signal })
  t.teardown(() => connection.destroy())
  const ask = (call: Call): Promise<unknown> => new Promise((done, failed) => run(connection, call, { done, failed }))
  const slots = 'sluice:slots'
  const released = releaseCall('one', [slots], undefined, undefined)
  await ask(released)
  await Promise.all([ask({ script: renew, keys: [slots], args: ['5000000', '1', 'one'] }), ask(released)])
  t.equal(await redis.run(['ZCARD', slots]), 0)
})

void t.test('Redis is lost with all its data, and slots are told again', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const limits = await sharedLimits(t, { url: redis.url })
  const key = set('key:k', { concurrency: 5 })
  for (let i = 0; i < 3; i++) leaseOf(await limits.decide([key], 0))
  await redis.run(['FLUSHALL'])
  t.equal(await slotsLeft(limits, key), 5)
  await eventually(async () => (await slotsLeft(limits, key)) === 2, 20_000)
})

void t.test('a Redis that comes and goes gives nobody a share each time', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const limits = await sharedLimits(t, { url: redis.url })
  const other = await sharedLimits(t, { url: redis.url })
  await eventually(() => limits.health.nodes === 2, 20_000)
  const key = set('key:k', { rpm: 6, concurrency: 20 })
  const watch = stopwatch()
  let admitted = 0
  const leases: Lease[] = []
  for (let gap = 0; gap < 4; gap++) {
    await redis.kill()
    await eventually(() => !limits.health.usable, 20_000)
    for (let i = 0; i < 5; i++) {
      const decision = atOnce(t, limits, [key])
      if (!decision.admitted) continue
      admitted++
      leases.push(decision.lease)
    }
    await redis.resume()
    await eventually(() => limits.health.usable && other.health.usable, 20_000)
    t.equal(limits.health.nodes, 2, 'a Redis that is back empty has not seen the others yet')
  }
  // Its share is three a minute, and they leak out one after another.
  t.ok(admitted >= 3 && admitted <= 3 + Math.ceil(watch.ms / 20_000), `${admitted} in ${watch.ms} ms`)
  t.equal(await slotsLeft(limits, key), 20 - admitted)
  for (const lease of leases) lease.release(undefined)
  await eventually(async () => (await slotsLeft(limits, key)) === 20)
})

void t.test('a key that has something else in it concerns nobody but those that it is of', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  let log = ''
  const logger = createLogger({ level: 'debug', write: (line) => void (log += line) })
  const limits = await openSharedLimits({ ...redisOptions, url: redis.url }, 'share', logger)
  t.teardown(() => limits.close())
  await eventually(() => limits.health.usable, 20_000)
  const { since } = limits.health
  const [good, bad] = [set('key:good', { rpm: 9, concurrency: 5 }), set('key:bad', { rpm: 9, concurrency: 5 })]
  const held = [leaseOf(await limits.decide([good], 0)), leaseOf(await limits.decide([good, bad], 0))]
  const keys = ((await redis.run(['KEYS', '*bad*'])) as string[]).sort()
  t.same(keys, ['sluice:{tenant:acme}:rates:key:bad', 'sluice:{tenant:acme}:slots:key:bad'])
  await redis.run(['SET', keys[1]!, 'something else'], ['SET', keys[0]!, 'something else'])
  for (let i = 0; i < 5; i++) {
    const { admitted } = await limits.decide([bad], 0)
    t.equal(admitted, i < 4, 'by the share of this node, which is the whole, and has a slot of it')
  }
  t.equal(await slotsLeft(limits, good), 3, 'others are decided by Redis')
  t.match(limits.health, { usable: true, since })
  t.match(log, /does not keep some keys of the limits.*WRONGTYPE/)
  // The slots of both are renewed for longer than their lease.
  await redis.run(['DEL', 'sluice:{tenant:acme}:slots:key:good'])
  await eventually(async () => (await slotsLeft(limits, good)) === 3, 20_000)
  held[1]!.release(undefined)
  await eventually(async () => (await slotsLeft(limits, good)) === 4)
  await redis.run(['DEL', keys[1]!])
  await eventually(async () => (await limits.look([bad], 0)).states[0]!.remaining === 1, 20_000)
  t.match(limits.health, { usable: true, since })
})

void t.test(
  'what somebody else keeps in a key of rates stays as it is, and nothing is taken of others',
  { skip },
  async (t) => {
    const redis = await RedisServer.start(t)
    let log = ''
    const logger = createLogger({ level: 'debug', write: (line) => void (log += line) })
    const limits = await openSharedLimits({ ...redisOptions, url: redis.url }, 'share', logger)
    t.teardown(() => limits.close())
    await eventually(() => limits.health.usable, 20_000)
    const good = set('key:good', { rpm: 9, tpm: 10_000, concurrency: 9 })
    const remaining = async (): Promise<Record<string, number>> =>
      Object.fromEntries((await limits.look([good], 1)).states.map((state) => [state.name, state.remaining]))
    const kinds = {
      hash: ['HSET', 'field', 'theirs'],
      list: ['RPUSH', 'theirs'],
      text: ['SET', 'theirs'],
      empty: ['SET', '']
    }
    const before = new Map<string, unknown>()
    for (const [kind, [command, ...rest]] of Object.entries(kinds)) {
      const bad = set(`key:${kind}`, { rpm: 9, tpm: 10_000, concurrency: 9 })
      const key = `sluice:{tenant:acme}:rates:key:${kind}`
      const lease = leaseOf(await limits.decide([bad, good], 10))
      const taken = await remaining()
      await redis.run(['DEL', key], [command!, key, ...rest])
      before.set(key, await redis.run(['DUMP', key]))
      // The slots of both are freed, and the tokens of the other are corrected.
      lease.release(2000)
      await eventually(async () => {
        const now = await remaining()
        return now['concurrency']! > taken['concurrency']! && now['tpm']! < taken['tpm']!
      }, 20_000)
      t.equal((await limits.decide([bad], 10)).admitted, true, `by the share of this node: ${kind}`)
      await limits.look([bad], 10)
      t.same(await redis.run(['DUMP', key]), before.get(key), kind)
    }
    t.match(log, /does not keep some keys of the limits.*WRONGTYPE/)
    t.equal(limits.health.usable, true)
  }
)

void t.test('no key of one set is one of another, whatever sets are called', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const limits = await sharedLimits(t, { url: redis.url })
  const { since } = limits.health
  const ids = ['key:a', 'key:a:slots', 'slots:key:a', 'rates:key:a', 'key:a:rates']
  const sets = ids.map((id) => set(id, { rpm: 9, tpm: 1000, concurrency: 5 }))
  for (const one of sets) leaseOf(await limits.decide([one], 10))
  for (const one of sets) t.match((await limits.look([one], 0)).states, [{ remaining: 4 }, { remaining: 8 }])
  t.equal(((await redis.run(['KEYS', '*key:a*'])) as string[]).length, 2 * ids.length)
  t.match(limits.health, { usable: true, since })
})

void t.test('Redis takes no writes', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const limits = await sharedLimits(t, { url: redis.url })
  await redis.run(['CONFIG', 'SET', 'maxmemory', '1'])
  const decision = await limits.decide([set('key:k', { rpm: 5 })], 0)
  t.equal(decision.admitted, true, 'by the share of the node')
  t.match(limits.health, { usable: false, reason: 'OOM' })
  await redis.run(['CONFIG', 'SET', 'maxmemory', '0'])
  await eventually(() => limits.health.usable, 20_000)
})

void t.test('without Redis from the start', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  await redis.kill()
  const open = async (mode: 'share' | 'refuse' | 'allow'): Promise<SharedLimits> => {
    const limits = await openSharedLimits({ ...redisOptions, url: redis.url }, mode, silentLog)
    t.teardown(() => limits.close())
    return limits
  }
  const key = set('key:k', { rpm: 1, concurrency: 3 })
  const [share, refuse, allow] = [await open('share'), await open('refuse'), await open('allow')]
  t.equal(atOnce(t, share, [key]).admitted, true)
  t.match(atOnce(t, share, [key]), { admitted: false, refusedBy: { name: 'rpm' } })
  const refusal = { code: 'limits_unavailable', status: 503, details: { retryAfterMs: 1000 } }
  t.throws(() => refuse.decide([key], 0), refusal)
  t.throws(() => refuse.look([key], 0), refusal)
  for (let i = 0; i < 5; i++) t.match(atOnce(t, allow, [key]), { admitted: true, states: [] })
  t.match(refuse.decide([], 0), { admitted: true }, 'who has no limits is not refused')
  await redis.resume()
  await eventually(() => [share, refuse, allow].every(({ health }) => health.usable), 20_000)
  await eventually(() => share.health.nodes === 3, 20_000)
  // Each node tells on a connection of its own.
  await eventually(async () => (await slotsLeft(share, key)) === 0, 20_000)
  t.pass('six requests run, though three may')
  t.match(await refuse.decide([key], 0), { admitted: false, refusedBy: { name: 'concurrency' } })
})

void t.test('all that Redis is told goes by itself', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const limits = await sharedLimits(t, { url: redis.url })
  const leases: Lease[] = []
  for (let i = 0; i < 200; i++) {
    const rates = { rps: 10, rpm: 1000, tpm: 1_000_000, concurrency: 10 }
    leases.push(leaseOf(await limits.decide([set(`key:${i}`, rates)], 100)))
  }
  const keys = (await redis.run(['KEYS', '*'])) as string[]
  t.ok(keys.length > 200, 'slots of each, the nodes, and rates that have not leaked out')
  const ends = await Promise.all(keys.map(async (key) => (await redis.run(['PTTL', key])) as number))
  t.same(
    ends.filter((ms) => ms === -1 || ms > 6000),
    [],
    'none stays, and slots stay longest'
  )
  for (const lease of leases) lease.release(0)
  await eventually(async () => ((await redis.run(['KEYS', '*'])) as string[]).length <= 1, 20_000)
})
