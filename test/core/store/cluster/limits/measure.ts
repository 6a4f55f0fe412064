// Measures decisions by Redis, for the table of core/store/cluster/limits/README.md:
// `node test/core/store/cluster/limits/measure.ts --write`. Two gateways would share what one Redis decides.
import { cpus, loadavg } from 'node:os'
import { join } from 'node:path'
import type { LimitSet, Rates } from '../../../../../core/catalogue/caller.ts'
import { openSharedLimits } from '../../../../../core/store/cluster/limits/open.ts'
import type { Limits } from '../../../../../core/store/limits.ts'
import { MemoryLimits } from '../../../../../core/store/memory/limits.ts'
import { silentLog } from '../../../../../core/telling/log.ts'
import { writeFigures } from '../../../../kit/figures.ts'
import { redisOptions } from '../../../../kit/limits.ts'
import { eventually } from '../../../../kit/probe.ts'
import { RedisServer } from '../../../../kit/redis.ts'

const ends: (() => unknown)[] = []
const redis = await RedisServer.start({ teardown: (end: () => unknown) => void ends.unshift(end) } as never)
const shared = await openSharedLimits({ ...redisOptions, url: redis.url }, 'share', silentLog)
ends.unshift(() => shared.close())
await eventually(() => shared.health.usable, 20_000)

function set(id: string, rates: Rates): LimitSet {
  return { id, home: 'tenant:acme', level: 'key', scope: id, models: null, rates }
}
const many = 1_000_000_000
const sets = [
  set('tenant:acme', { rpm: many }),
  set('key:k', { rps: many, rpm: many, tpm: many, concurrency: 100_000 })
]

/** Microseconds of CPU that Redis has used. */
async function serverCpu(): Promise<number> {
  const info = String(await redis.run(['INFO', 'cpu']))
  const of = (name: string): number => Number(new RegExp(`${name}:([\\d.]+)`).exec(info)![1])
  return (of('used_cpu_user') + of('used_cpu_sys')) * 1e6
}

/** Decides and releases, some at a time. Times are milliseconds. */
async function run(limits: Limits, count: number, atOnce: number): Promise<number[]> {
  const times: number[] = []
  let begun = 0
  const one = async (): Promise<void> => {
    while (begun++ < count) {
      const start = performance.now()
      const asked = limits.decide(sets, 500)
      const decision = asked instanceof Promise ? await asked : asked
      times.push(performance.now() - start)
      if (!decision.admitted) throw new Error(`refused by ${decision.refusedBy.name}`)
      decision.lease.release(300)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, one))
  return times.sort((a, b) => a - b)
}

async function row(name: string, limits: Limits, count: number, atOnce: number): Promise<string> {
  await run(limits, count / 4, atOnce)
  const server = await serverCpu()
  const client = process.cpuUsage()
  const start = performance.now()
  const times = await run(limits, count, atOnce)
  const seconds = (performance.now() - start) / 1000
  const { user, system } = process.cpuUsage(client)
  const at = (share: number): string => times[Math.floor(share * (times.length - 1))]!.toFixed(3)
  const perSecond = Math.round(count / seconds / 100) * 100
  const used = (await serverCpu()) - server
  const cost = (total: number): string => (total / count).toFixed(total / count < 10 ? 1 : 0)
  return `| ${name} | ${at(0.5)} / ${at(0.99)} | ${perSecond} | ${cost(user + system)} | ${cost(Math.max(0, used))} |\n`
}

const rows = [
  await row('Redis, one at a time', shared, 4000, 1),
  await row('Redis, 100 at a time', shared, 40_000, 100),
  await row('memory of one process', new MemoryLimits(), 200_000, 1)
]
for (const end of ends) await end()
const figures = `
| | p50 / p99 ms | requests/s | µs of the gateway | µs of Redis |
|---|---|---|---|---|
${rows.join('')}
As of ${new Date().toISOString().slice(0, 10)}, on ${cpus().length} cores at a load of ${Math.round(loadavg()[0]!)}, Node ${process.version}.
`
process.stdout.write(figures)
writeFigures(join(import.meta.dirname, '../../../../../core/store/cluster/limits/README.md'), 'figures', figures)
