// C1: what a store of many gateways costs one of them: the load of J1 on a SQLite file, and on PostgreSQL and Redis.
import { join } from 'node:path'
import { Postgres, postgresMissing } from '../test/kit/postgres.ts'
import { redisMissing, RedisServer } from '../test/kit/redis.ts'
import { contest, cpuReport } from './contest.ts'
import type { Rig } from './contest.ts'
import { smallJson } from './j1.ts'
import { start } from './line-up.ts'
import type { Report } from './report.ts'
import { startSluice } from './sluice.ts'
import { show, spread } from './spread.ts'

export const title = 'C1 shared store: the load of J1 on a SQLite file, and on PostgreSQL and Redis'

/** Runs it. Where the servers are not installed, it says so. */
export async function run(rig: Rig): Promise<Report> {
  const missing = postgresMissing || redisMissing
  if (missing) return { id: 'c1', title, columns: ['gateway'], rows: [], notes: [], problems: [missing] }
  const ends: (() => unknown)[] = []
  const owner = { teardown: (end: () => unknown) => void ends.unshift(end) }
  try {
    // As an operator has it: what is acknowledged is on the disk.
    const settings = { fsync: 'on', shared_buffers: '128MB', autovacuum_naptime: '1min' }
    const postgres = await Postgres.start(owner as never, { settings })
    const redis = await RedisServer.start(owner as never)
    const store = { postgres: await postgres.database(), redis: redis.url, folder: join(rig.directory, 'node') }
    await using gateways = await start([
      () => startSluice(rig, { name: 'SQLite' }),
      () => startSluice(rig, { name: 'PostgreSQL and Redis', store, servers: [postgres.pid, redis.pid] })
    ])
    const outcome = await contest(rig, 'c1', smallJson, gateways.list)
    const report = cpuReport('c1', title, smallJson, outcome)
    const servers = [...outcome.samples.values()].map((samples) =>
      [0, 1].map((at) => {
        const used = samples.flatMap(({ servers: all }) => all[at] ?? [])
        return used.length === 0 ? '' : show(spread(used), 1)
      })
    )
    return {
      ...report,
      columns: [...report.columns, 'PostgreSQL', 'Redis'],
      rows: report.rows.map((row, at) => [...row, ...servers[at]!]),
      notes: [
        ...report.notes,
        'PostgreSQL and Redis: µs of CPU time of these servers per request, on the CPU of the rest.'
      ]
    }
  } finally {
    for (const end of ends) await end()
  }
}
