// Measures what each question to PostgreSQL and Redis costs a gateway by itself, by how far apart they come:
// node .tools/node.mjs test/core/store/cluster/measure-trips.ts [rounds]
// With `--write` at the end the page of figures has them.
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Lane } from '../../../../core/store/cluster/database/lane.ts'
import { readAddress } from '../../../../core/store/cluster/database/address.ts'
import { loadPackage } from '../../../../core/store/cluster/database/package.ts'
import { openSharedLimits } from '../../../../core/store/cluster/limits/open.ts'
import { openStore } from '../../../../core/store/embedded/store.ts'
import type { Ledger } from '../../../../core/store/ledger.ts'
import { silentLog } from '../../../../core/telling/log.ts'
import { moneyNode } from '../../../kit/cluster-money.ts'
import { writeFigures } from '../../../kit/figures.ts'
import { redisOptions } from '../../../kit/limits.ts'
import { Postgres } from '../../../kit/postgres.ts'
import { eventually } from '../../../kit/probe.ts'
import { RedisServer } from '../../../kit/redis.ts'
import { scope } from '../embedded/sample.ts'
import { charge, requestFor } from './money/oracle.ts'

const [rounds = 5] = process.argv.slice(2).map(Number).filter(Number.isFinite)
const page = join(import.meta.dirname, '../../../../core/store/cluster/FIGURES.md')
/** Milliseconds between two, how many at a time, and how many of these in one window. */
const paces = [
  { name: '10 ms apart', pause: 10, atOnce: 1, times: 60 },
  { name: '3 ms apart', pause: 3, atOnce: 1, times: 100 },
  { name: 'one after another', pause: 0, atOnce: 1, times: 300 },
  { name: '32 at a time', pause: 0, atOnce: 32, times: 30 }
]
const ends: (() => unknown)[] = []
const owner = { teardown: (last: () => unknown) => void ends.unshift(last) }

try {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-trips-'))
  owner.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const postgres = await Postgres.start(owner as never, { settings: { fsync: 'on' } })
  const redis = await RedisServer.start(owner as never)
  const url = await postgres.database()
  await loadPackage()
  const lane = new Lane(readAddress(url), 'trips', 1)
  owner.teardown(() => lane.close())
  const node = await moneyNode(owner, url, 'trips', { folder: join(folder, 'node'), durability: 'power' })
  const store = await openStore({ file: join(folder, 'sluice.db'), durability: 'power' })
  owner.teardown(() => store.close())
  const limits = await openSharedLimits({ ...redisOptions, url: redis.url }, 'share', silentLog)
  owner.teardown(() => limits.close())
  await eventually(() => limits.health.usable, 20_000)
  const rates = { rps: 1e6, rpm: 6e7, tpm: 1e9, concurrency: 100_000 }
  const sets = [{ id: 'key:k', home: 'tenant:acme', level: 'key' as const, scope: 'k', models: null, rates }]
  const budgets = [scope('tenant', 'acme', 10n ** 15n, 'month'), scope('key', 'acme/k', 10n ** 15n)]
  const charged = async (ledger: Ledger, shown = false): Promise<void> => {
    const made = await ledger.reserve(requestFor(budgets, 1000n, { time: Date.now() }))
    made.dispatched('openai')
    if (shown) await made.durable
    await made.settle(charge(10))
  }
  const socket = connect(Number(new URL(redis.url).port), '127.0.0.1').setNoDelay()
  await once(socket, 'connect')
  owner.teardown(() => socket.destroy())
  const waiting: (() => void)[] = []
  socket.on('data', (bytes) => {
    for (const byte of bytes) if (byte === 0x0a) waiting.shift()?.()
  })
  const operations: Record<string, () => unknown> = {
    'nothing but its pause': () => {},
    'a ping of Redis by a bare socket': () =>
      new Promise<void>((resolve) => {
        waiting.push(resolve)
        socket.write('PING\r\n')
      }),
    'a decision of limits and its release: two questions': async () => {
      const decision = await limits.decide(sets, 500)
      if (decision.admitted) decision.lease.release(300)
    },
    'a statement that does nothing': () => lane.query('select $1::int', [1]),
    'a hold that ends at once in PostgreSQL: one batch': () => charged(node.ledger),
    'a hold that ends at once in SQLite: one commit': () => charged(store.ledger),
    'a hold that is waited for, and its end, in PostgreSQL: two batches': () => charged(node.ledger, true),
    'a hold that is waited for, and its end, in SQLite: two commits': () => charged(store.ledger, true)
  }
  const figures = new Map<string, number[]>()
  // Code is compiled by how often it runs.
  for (const run of Object.values(operations)) for (let i = 0; i < 100; i++) await atOnce(run, 10)
  for (let round = 0; round < rounds; round++)
    for (const [name, run] of Object.entries(operations))
      for (const pace of paces) {
        const cpu = process.cpuUsage()
        for (let i = 0; i < pace.times; i++) {
          await atOnce(run, pace.atOnce)
          if (pace.pause > 0) await sleep(pace.pause)
        }
        const { user, system } = process.cpuUsage(cpu)
        const key = `${name} ${pace.name}`
        figures.set(key, [...(figures.get(key) ?? []), (user + system) / pace.times / pace.atOnce])
      }
  const lines = Object.keys(operations).map((name) => {
    const cells = paces.map((pace) => {
      const all = figures.get(`${name} ${pace.name}`)!.sort((a, b) => a - b)
      return `${all[all.length >> 1]!.toFixed(0)} (${all[0]!.toFixed(0)}–${all.at(-1)!.toFixed(0)})`
    })
    return `| ${[name, ...cells].join(' | ')} |`
  })
  const table = `\`node .tools/node.mjs test/core/store/cluster/measure-trips.ts ${rounds} --write\` has written this, at a load of
${loadavg()[0]!.toFixed(1)}: µs of CPU time of the process, all threads, for each; the median (range) of ${rounds} windows in turns.

| | ${paces.map(({ name }) => name).join(' | ')} |
|---|${paces.map(() => '--:|').join('')}
${lines.join('\n')}`
  process.stdout.write(`${table}\n`)
  writeFigures(page, 'trips', table)
} finally {
  for (const last of ends) await last()
}

async function atOnce(run: () => unknown, count: number): Promise<void> {
  await Promise.all(Array.from({ length: count }, run))
}
