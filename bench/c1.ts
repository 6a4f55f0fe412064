// C1: what a store of many gateways costs one of them: small requests on a SQLite file, and on PostgreSQL and Redis.
import { join } from 'node:path'
import { Postgres, postgresMissing } from '../test/kit/postgres.ts'
import { redisMissing, RedisServer } from '../test/kit/redis.ts'
import { contest, cpuReport, run as put } from './contest.ts'
import type { Rig, Workload } from './contest.ts'
import { smallJson } from './j1.ts'
import { start } from './line-up.ts'
import type { Report } from './report.ts'
import { startSluice } from './sluice.ts'
import { show, spread } from './spread.ts'

export const title = 'C1 shared store: J1 on a SQLite file, and on PostgreSQL and Redis, at the same rates'

/**
 * Requests a second. What one costs depends on how many come at a time, so both gateways get as many. The highest is
 * one that both reach with room, where the load, PostgreSQL and Redis share a CPU.
 */
const rates = [100, 300, 1000, 2000] as const
/** A window has at least so many requests. */
const fewest = 1000
/** How many requests each has had before, without pause: after fewer of them V8 compiles while it is measured. */
const warmRequests = 60_000
/** With less rounds few requests a second say little. */
const fewestRounds = 5

/** J1 at a rate. */
function smallJsonAt(rate: number): Workload {
  const { unit, behaviour, job } = smallJson
  return { unit, behaviour, job: (rig, to) => ({ ...job(rig, to), rate }) as ReturnType<typeof job> }
}

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
    // Code is compiled by how often it runs, which is not the same in windows of the same length.
    for (const gateway of gateways.list)
      for (let done = 0; done < (rig.quick ? 1 : warmRequests);) done += (await put(rig, smallJson, gateway)).count
    const reports: Report[] = []
    for (const rate of rates) reports.push(await compare(rig, rate, gateways.list))
    return {
      id: 'c1',
      title,
      columns: reports[0]!.columns,
      rows: reports.flatMap(({ rows }) => rows),
      notes: [
        ...reports.flatMap(({ notes }) => notes),
        'PostgreSQL and Redis: µs of CPU time of these servers per request, on the CPU of the rest.',
        `Windows have ${fewest} requests at least, and rounds are ${fewestRounds} at least.`,
        `Each gateway has had ${warmRequests} requests before, without pause.`
      ],
      problems: reports.flatMap(({ problems }) => problems)
    }
  } finally {
    for (const end of ends) await end()
  }
}

async function compare(rig: Rig, rate: number, list: Parameters<typeof contest>[3]): Promise<Report> {
  const workload = smallJsonAt(rate)
  const longer = rig.quick
    ? rig
    : { ...rig, rounds: Math.max(rig.rounds, fewestRounds), seconds: Math.max(rig.seconds, fewest / rate) }
  const outcome = await contest(longer, `c1 at ${rate}/s`, workload, list, false)
  const report = cpuReport('c1', title, workload, outcome)
  const servers = [...outcome.samples.values()].map((samples) =>
    [0, 1].map((at) => {
      const used = samples.flatMap(({ servers: all }) => all[at] ?? [])
      return used.length === 0 ? '' : show(spread(used), 1)
    })
  )
  return {
    ...report,
    columns: ['asked for', ...report.columns, 'PostgreSQL', 'Redis'],
    rows: report.rows.map((row, at) => [`${rate}/s`, ...row, ...servers[at]!])
  }
}
