// Measures queries of spend in a book of a million requests in PostgreSQL:
// node .tools/node.mjs test/core/store/cluster/measure-spend.ts [keys] [days] [requests]
// With `--write` at the end the page of figures has them.
import { getPriority, loadavg } from 'node:os'
import { join } from 'node:path'
import { Database } from '../../../../core/store/cluster/database/database.ts'
import { SpendBook } from '../../../../core/store/cluster/spend/spend-book.ts'
import { writeFigures } from '../../../kit/figures.ts'
import type { SpendGroup, SpendQuery } from '../../../../core/store/spend.ts'
import { Postgres } from '../../../kit/postgres.ts'
import { familyCpuOf } from '../../../../bench/proc.ts'

const [keys = 200, days = 30, requests = 1_000_000] = process.argv.slice(2).map(Number).filter(Number.isFinite)
const page = join(import.meta.dirname, '../../../../core/store/cluster/FIGURES.md')
const [models, channels, nodes] = [5, 3, 3]
const start = Date.UTC(2026, 5, 1)
const dayMs = 86_400_000
const ends: (() => unknown)[] = []
const owner = { teardown: (last: () => unknown) => void ends.unshift(last) }

/** Every key uses every model at every channel, by way of every node. */
const rows = `insert into sluice.journal select date '2026-06-01' + d.day, 'node' || n % ${nodes}, 1, n / ${nodes} + 1, '', '',
    'settle', 'r' || n, '', 'terminal', json_build_object('tenant:t' || k.key % 10, 'month', 'project:t' || k.key % 10 || '/p',
    'total', 'key:k' || k.key, 'total'), n % 9999, 9999, json_build_object('input', n % 999, 'cached_input', 0, 'cache_write',
    0, 'output', n % 777, 'reasoning', 0), 'model-' || n / ${keys} % ${models}, 'channel-' || n / ${keys * models} % ${channels},
    'p:1', 'upstream', ${start} + d.day::bigint * ${dayMs}, json_build_object('team', 'team-' || k.key % 7), n % 999, 'p:2'
  from generate_series($1::int, $2::int) n, lateral (select n % ${keys} as key) k,
    lateral (select (n::bigint * ${days} / ${requests})::int as day) d`

const groups: SpendGroup[][] = [
  [],
  ['tenant'],
  ['tenant', 'project', 'key'],
  ['tag:team', 'model'],
  ['month', 'channel'],
  ['day'],
  ['key', 'day'],
  ['tenant', 'project', 'member', 'key', 'model', 'channel', 'tag', 'day'],
  ['model', 'channel', 'tag', 'day', 'tenant', 'project', 'member', 'key']
]
const choices: Partial<SpendQuery>[] = [{}, { equal: { key: 'k3' } }, { since: start / dayMs + days - 7 }]

try {
  const server = await Postgres.start(owner as never, { settings: { shared_buffers: '128MB' } })
  const url = await server.database()
  const database = await Database.open({ url, name: 'measure' })
  ends.unshift(() => database.close())
  for (let day = 0; day < days; day++) await server.sql(`select sluice.journal_day_1(date '2026-06-01' + ${day})`, url)
  for (let from = 0; from < requests; from += 50_000)
    await server.sql(rows, url, [from, Math.min(from + 50_000, requests) - 1])
  await server.sql(
    `insert into sluice.journal_chain select node, epoch, max(seq), '' from sluice.journal group by node, epoch`,
    url
  )
  const spend = new SpendBook(database)
  const gathering = performance.now()
  while (await spend.gather());
  const gathered = performance.now() - gathering
  await server.sql('vacuum analyze sluice.spend_day, sluice.spend_month, sluice.spender', url)
  const [{ count }] = await server.sql('select count(*)::int as count from sluice.spend_day', url)
  const lines: string[] = []
  for (const by of groups) {
    const cells: string[] = []
    let cpu = 0
    for (const choice of choices) {
      const before = familyCpuOf(server.pid)
      const times: number[] = []
      for (let round = 0; round < 5; round++) {
        const began = performance.now()
        const { sums } = await spend.query({ by, equal: {}, limit: 1000, ...choice })
        if (sums.length === 0) throw new Error(`nothing by ${by.join()}`)
        times.push(performance.now() - began)
      }
      if (choice === choices[0]) cpu = (familyCpuOf(server.pid) - before) / times.length / 1000
      times.sort((a, b) => a - b)
      cells.push(`${times[2]!.toFixed(0)} (${times.at(-1)!.toFixed(0)})`)
    }
    lines.push(`| ${by.join(', ') || 'nothing'} | ${cells.join(' | ')} | ${cpu.toFixed(0)} |`)
  }
  const table = `\`node .tools/node.mjs test/core/store/cluster/measure-spend.ts ${keys} ${days} ${requests} --write\` has written this, at a load of
${loadavg()[0]!.toFixed(1)} and a priority of ${getPriority()}: ${requests.toLocaleString('en')} requests of ${keys} keys over ${days} days are ${count.toLocaleString('en')} rows of days. Adding the
journal up took ${(gathered / 1000).toFixed(0)} s, ${((gathered * 1000) / requests).toFixed(0)} µs a request. Times are the median (longest) of five, in ms.

| by | all | one key | the last week | CPU of PostgreSQL for all, ms |
|---|--:|--:|--:|--:|
${lines.join('\n')}`
  process.stdout.write(`${table}\n`)
  writeFigures(page, 'spend', table)
} finally {
  for (const last of ends) await last()
}
