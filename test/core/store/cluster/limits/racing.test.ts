// Three processes race for what one key may have: together they get what one process would.
import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import type { LimitSet, Rates } from '../../../../../core/catalogue/caller.ts'
import { sharedLimits } from '../../../../kit/limits.ts'
import { ArrivalOracle } from '../../../../kit/oracle.ts'
import { eventually } from '../../../../kit/probe.ts'
import { RedisServer, redisMissing } from '../../../../kit/redis.ts'
import type { Task } from './node.ts'

const second = 1_000_000
const minute = 60 * second

function set(id: string, rates: Rates): LimitSet {
  return { id, home: 'tenant:acme', level: 'key', scope: id, models: null, rates }
}

async function startNode(t: Test, url: string): Promise<ChildProcess> {
  const node = fork(join(import.meta.dirname, 'node.ts'), [url], { execArgv: [] })
  t.teardown(() => node.kill('SIGKILL'))
  await once(node, 'message')
  return node
}

async function tell(node: ChildProcess, task: Task | 'release'): Promise<number> {
  node.send(task)
  const [admitted] = (await once(node, 'message')) as [number]
  return admitted
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one)

async function timeOf(redis: RedisServer): Promise<number> {
  const [seconds, rest] = (await redis.run(['TIME'])) as [string, string]
  return Number(seconds) * second + Number(rest)
}

/** The most that may pass from one time to the other. */
function most(limit: number, window: number, units: number, from: number, to: number): number {
  const oracle = new ArrivalOracle(limit, window)
  let passed = 0
  for (const now of [from, to]) for (; oracle.admits(now, units); passed++) oracle.take(now, units)
  return passed
}

void t.test('nodes that race', { skip: redisMissing }, async (t) => {
  const redis = await RedisServer.start(t)
  const nodes = await Promise.all([0, 1, 2].map(() => startNode(t, redis.url)))
  // No node can have all alone, as it asks 400 times.
  const race = (sets: readonly LimitSet[], tokens: number): Promise<number[]> => {
    return Promise.all(nodes.map((node) => tell(node, { sets, tokens, count: 400 })))
  }
  const tenant = set('tenant:acme', { rpm: 1_000_000, concurrency: 1_000_000 })

  for (const [name, window, limit, units] of [
    ['rps', second, 600, 1],
    ['rpm', minute, 600, 1],
    ['tpm', minute, 12_000, 20]
  ] as const)
    await t.test(`get as many ${name} as one`, async (t) => {
      const from = await timeOf(redis)
      const admitted = sum(await race([tenant, set(`key:${name}`, { [name]: limit, concurrency: 100_000 })], units))
      const to = await timeOf(redis)
      const least = Math.floor(limit / units)
      const bound = most(limit, window, units, from, to)
      t.ok(admitted >= least && admitted <= bound, `${admitted}, from ${least} to ${bound}`)
    })

  await t.test('get as many slots as there are, and those of one that dies come back', async (t) => {
    const key = set('key:slots', { concurrency: 100 })
    for (const node of nodes) t.equal(await tell(node, { sets: [tenant, key], tokens: 0, count: 20 }), 20)
    const raced = await race([tenant, key], 0)
    t.equal(sum(raced), 40)
    const [first, , third] = raced.map((more) => 20 + more) as [number, number, number]
    const watcher = await sharedLimits(t, { url: redis.url })
    const left = async (): Promise<number> => {
      const { states } = await watcher.look([key], 0)
      return states[0]!.remaining
    }
    t.equal(await left(), 0)
    t.equal(watcher.health.nodes, 4)
    await tell(nodes[0]!, 'release')
    await eventually(async () => (await left()) === first)
    t.equal(await tell(nodes[1]!, { sets: [key], tokens: 0, count: 200 }), first)
    nodes[2]!.kill('SIGKILL')
    await eventually(async () => (await left()) > 0, 30_000)
    await eventually(async () => (await left()) === third, 10_000)
    t.equal(await tell(nodes[1]!, { sets: [key], tokens: 0, count: 200 }), third)
    await tell(nodes[1]!, 'release')
    await eventually(async () => (await left()) === 100)
    await eventually(() => watcher.health.nodes === 3, 30_000)
  })
})

void t.test('what is left falls from node to node', { skip: redisMissing }, async (t) => {
  const redis = await RedisServer.start(t)
  const nodes = await Promise.all([0, 1, 2].map(() => sharedLimits(t, { url: redis.url })))
  const key = set('key:one', { rpm: 6 })
  const shown: number[] = []
  const resets: number[] = []
  for (let i = 0; i < 6; i++) {
    const { states } = await nodes[i % 3]!.decide([key], 0)
    shown.push(states[0]!.remaining)
    resets.push(states[0]!.resetMs)
  }
  t.same(shown, [5, 4, 3, 2, 1, 0])
  t.same(
    resets,
    [...resets].sort((a, b) => a - b)
  )
})
