// Very many slots of one node: they are renewed in portions, between which others are asked, and none is lost.
import t from 'tap'
import type { Test } from 'tap'
import type { LimitSet } from '../../../../../core/catalogue/caller.ts'
import { SharedLimits } from '../../../../../core/store/cluster/limits/limits.ts'
import { placeOf } from '../../../../../core/store/cluster/redis/address.ts'
import { silentLog } from '../../../../../core/telling/log.ts'
import { redisOptions } from '../../../../kit/limits.ts'
import { eventually } from '../../../../kit/probe.ts'
import { RedisServer, redisMissing } from '../../../../kit/redis.ts'

const skip = redisMissing
const count = 50_000
/** In how many sets they are. */
const sets = 5
const lease = 15_000

function setOf(at: number): LimitSet {
  const rates = { concurrency: count / sets }
  return { id: `key:${at}`, home: 'tenant:a', level: 'key', scope: `${at}`, models: null, rates }
}

const keyOf = (at: number): string => `sluice:{tenant:a}:slots:key:${at}`

/** A node that has all slots of each set. */
async function full(t: Test, { url }: RedisServer): Promise<SharedLimits> {
  const { command_timeout: command, connect_timeout: connect } = redisOptions
  const more = { prefix: 'sluice', onUnavailable: 'share', liveNodes: () => 1 } as const
  const limits = new SharedLimits({ place: placeOf({ url }), times: { command, connect }, lease, ...more }, silentLog)
  t.teardown(() => limits.close())
  await eventually(() => limits.health.usable, 20_000)
  for (let at = 0; at < sets; at++)
    for (let taken = 0; taken < count / sets; taken += 1000)
      await Promise.all(Array.from({ length: 1000 }, async () => limits.decide([setOf(at)], 0)))
  t.equal(limits.health.running, count)
  return limits
}

/** How many slots end later than a lease from a time by the clock of Redis, in microseconds. */
async function renewedSince(redis: RedisServer, time: number): Promise<number> {
  let sum = 0
  for (let at = 0; at < sets; at++) sum += await redis.run(['ZCOUNT', keyOf(at), `(${time + lease * 1000}`, '+inf'])
  return sum
}

async function timeOf(redis: RedisServer): Promise<number> {
  const [seconds, micros] = (await redis.run(['TIME'])) as [string, string]
  return Number(seconds) * 1_000_000 + Number(micros)
}

/** What Redis has done since its log was emptied, in order: commands, microseconds, and how many arguments. */
async function logged(redis: RedisServer): Promise<{ name: string; micros: number; size: number }[]> {
  const entries = (await redis.run(['SLOWLOG', 'GET', '-1'])) as [number, number, number, string[]][]
  return entries
    .toSorted(([one], [other]) => one - other)
    .map(([, , micros, args]) => {
      const more = /^\.\.\. \((\d+) more arguments\)$/.exec(args.at(-1)!)
      return { name: args[0]!.toUpperCase(), micros, size: args.length + Number(more?.[1] ?? 0) }
    })
}

void t.test('they are renewed in portions, and whoever asks meanwhile waits for few of them', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const limits = await full(t, redis)
  await redis.run(
    ['CONFIG', 'SET', 'slowlog-max-len', '100000'],
    ['SLOWLOG', 'RESET'],
    ['CONFIG', 'SET', 'slowlog-log-slower-than', '0']
  )
  const began = await timeOf(redis)
  let asking = true
  const asked = (async () => {
    while (asking) await limits.look([setOf(0)], 0)
  })()
  await eventually(async () => (await renewedSince(redis, began)) === count)
  asking = false
  await asked
  const done = await logged(redis)
  const renewals = done.filter(({ name }) => name === 'EVAL')
  t.ok(renewals.length >= count / 500)
  t.ok(Math.max(...renewals.map(({ size }) => size)) < 600, 'no script renews very many')
  let [run, longest] = [0, 0]
  for (const { name } of done) {
    run = name === 'EVAL' ? run + 1 : name === 'EVALSHA' ? 0 : run
    longest = Math.max(longest, run)
  }
  const micros = renewals.map((one) => one.micros).toSorted((one, other) => one - other)
  t.comment(
    `${renewals.length} renewals, ${longest} at once; ${micros.at(-1)} µs at most, ${micros[micros.length >> 1]}`
  )
  t.ok(longest <= 12, `${longest} renewals came before a question`)
})

void t.test('a Redis that comes back empty has all of them before it is asked anything', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  const limits = await full(t, redis)
  await redis.run(['REPLICAOF', '127.0.0.1', '1'])
  await limits.decide([setOf(0)], 0)
  await eventually(() => !limits.health.usable)
  await redis.run(['REPLICAOF', 'NO', 'ONE'], ['FLUSHALL'])
  while (!limits.health.usable) await new Promise(setImmediate)
  const answers = await Promise.all(Array.from({ length: sets }, async (_, at) => limits.decide([setOf(at)], 0)))
  t.same(
    answers.map(({ admitted }) => admitted),
    answers.map(() => false)
  )
  t.equal(limits.health.running, count)
})

void t.test(
  'where a portion is refused, or Redis goes meanwhile, the others are renewed all the same',
  { skip },
  async (t) => {
    const redis = await RedisServer.start(t)
    const limits = await full(t, redis)
    await redis.run(['DEL', keyOf(2)], ['SET', keyOf(2), 'of somebody else'])
    const began = await timeOf(redis)
    const others = (count / sets) * (sets - 1)
    const renewed = async (since: number): Promise<number> => {
      let sum = 0
      for (const at of [0, 1, 3, 4]) sum += await redis.run(['ZCOUNT', keyOf(at), `(${since + lease * 1000}`, '+inf'])
      return sum
    }
    await eventually(async () => (await renewed(began)) === others)
    t.ok(limits.health.usable, 'that concerns nobody else')
    await redis.run(['DEL', keyOf(2)])
    // Redis goes while they are renewed, and is back with what it had.
    const again = await timeOf(redis)
    await eventually(async () => (await renewed(again)) > 0)
    await redis.run(['CLIENT', 'KILL', 'TYPE', 'normal'])
    await eventually(async () => limits.health.usable && (await renewedSince(redis, again)) === count)
  }
)
