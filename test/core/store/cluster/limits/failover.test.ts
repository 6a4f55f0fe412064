// A fail-over of Redis to a replica that has missed what the master had acknowledged.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { LimitSet } from '../../../../../core/catalogue/caller.ts'
import type { SharedLimits } from '../../../../../core/store/cluster/limits/limits.ts'
import type { Lease } from '../../../../../core/store/limits.ts'
import { DatabaseProxy } from '../../../../kit/database-proxy.ts'
import { sharedLimits } from '../../../../kit/limits.ts'
import { eventually } from '../../../../kit/probe.ts'
import { RedisServer, redisMissing } from '../../../../kit/redis.ts'

const limit = 8
const key: LimitSet = {
  id: 'key:k',
  home: 'tenant:acme',
  level: 'key',
  scope: 'key:k',
  models: null,
  rates: { concurrency: limit }
}

t.test(
  'ends and renewals that are lost cost a lease at most, and admissions let in as many',
  { skip: redisMissing },
  async (t) => {
    const master = await RedisServer.start(t, '--repl-diskless-sync-delay', '0')
    const way = await DatabaseProxy.start(t, master.port)
    const replica = await RedisServer.start(t, '--replicaof', '127.0.0.1', String(way.port))
    const info = async (server: RedisServer, section: string): Promise<string> =>
      String(await server.run(['INFO', section]))
    await eventually(async () => (await info(replica, 'replication')).includes('master_link_status:up'), 20_000)
    const file = join(t.testdir(), 'sentinel.conf')
    writeFileSync(
      file,
      `sentinel monitor main 127.0.0.1 ${master.port} 1\nsentinel down-after-milliseconds main 500\n` +
        'sentinel failover-timeout main 3000\n'
    )
    const sentinel = await RedisServer.startSentinel(t, file)
    await eventually(async () => (await info(sentinel, 'sentinel')).includes('slaves=1'), 20_000)
    const open = (): Promise<SharedLimits> => sharedLimits(t, { url: 'redis://main', sentinels: [sentinel.url] })
    const nodes = [await open(), await open()] as const
    const running = new Set<Lease>()
    const admit = async (node: SharedLimits): Promise<Lease | undefined> => {
      const decision = await node.decide([key], 0)
      if (!decision.admitted) return undefined
      running.add(decision.lease)
      return decision.lease
    }
    const end = (lease: Lease | undefined): void => {
      running.delete(lease!)
      lease!.release(undefined)
    }
    /** Those that have not ended. */
    const slots = async (server: RedisServer): Promise<number> => {
      const [seconds] = (await server.run(['TIME'])) as [string]
      return (await server.run(['ZCOUNT', 'sluice:{tenant:acme}:slots:key:k', `${seconds}000000`, '+inf'])) as number
    }

    const first = [await admit(nodes[0]), await admit(nodes[0]), await admit(nodes[0]), await admit(nodes[0])]
    await admit(nodes[1])
    await eventually(async () => (await slots(replica)) === 5, 20_000)
    // From here on the replica hears nothing.
    way.stand()
    end(first[0])
    end(first[1])
    await eventually(async () => (await slots(master)) === 3)
    const lost = [await admit(nodes[1]), await admit(nodes[1]), await admit(nodes[1])].length
    t.equal(await slots(master), 6)
    t.equal(await slots(replica), 5)

    await master.kill()
    way.cut()
    await eventually(() => nodes.every(({ health }) => !health.usable), 20_000)
    await eventually(() => nodes.some(({ health }) => health.usable), 60_000)
    // Whoever is back first admits what it can at once, while the other has not told its slots yet.
    const back = nodes.find(({ health }) => health.usable)!
    while (await admit(back));
    t.ok(running.size <= limit + lost, `${running.size} run, and ${lost} admissions were lost`)
    await eventually(() => nodes.every(({ health }) => health.usable), 30_000)
    t.match(await replica.run(['ROLE']), ['master'])
    // All that runs is known again, and the slots of the two that had ended go with their lease.
    await eventually(async () => (await slots(replica)) === running.size, 20_000)
    if (running.size >= limit) for (const node of nodes) t.equal(await admit(node), undefined)
    while (running.size > limit - 2) end([...running][0])
    await eventually(async () => (await nodes[0].look([key], 0)).states[0]!.remaining === 2, 20_000)
    t.ok(await admit(nodes[1]))
    t.ok(await admit(nodes[0]))
    t.equal(await admit(nodes[1]), undefined)
  }
)
