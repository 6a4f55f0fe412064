// Measures admission at the edge: requests that race over three nodes for a budget that carries half of them.
// node .tools/node.mjs test/core/store/cluster/money/measure-edge.ts [requests] [at a time]
// With `--write` at the end the page of figures has them.
import { readFileSync, writeFileSync } from 'node:fs'
import { getPriority, loadavg } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { familyCpuOf } from '../../../../../bench/proc.ts'
import { usualSizing } from '../../../../../core/store/cluster/money/slice.ts'
import type { Sizing } from '../../../../../core/store/cluster/money/slice.ts'
import { brokenIn, logFolder, moneyBook, moneyNode } from '../../../../kit/cluster-money.ts'
import { sharedPostgres } from '../../../../kit/postgres.ts'
import { scope } from '../../embedded/sample.ts'
import { requestFor } from './oracle.ts'

const [requests = 10_000, atOnce = 192] = process.argv.slice(2).map(Number).filter(Number.isFinite)
const page = join(import.meta.dirname, '../../../../../core/store/cluster/FIGURES.md')
const [begin, end] = ['<!-- edge -->', '<!-- /edge -->']

async function measure(t: Test, name: string, sizing: Sizing, room: number): Promise<string> {
  const url = await moneyBook()
  const nodes = await Promise.all(
    ['one', 'two', 'three'].map((node) => moneyNode(t, url, node, { folder: logFolder(t), sizing }))
  )
  const others = scope('project', 'acme/web', 10n ** 15n, 'day')
  const scopes = [scope('tenant', 'acme', BigInt(room) * 10n, 'month'), others, scope('key', 'laptop', 10n ** 15n)]
  // Balances are made, and statements are compiled.
  for (const { ledger } of nodes)
    for (let i = 0; i < 3; i++)
      await (await ledger.reserve(requestFor([others, scopes[2]!], 0n, { time: Date.now() }))).void()
  const batches = async (): Promise<number> => {
    const server = await sharedPostgres()
    return Number((await server.sql('select sum(batch) as sum from sluice.node', url))[0].sum)
  }
  const [decided, refused]: [number[], number[]] = [[], []]
  let [inMemory, next] = [0, 0]
  const before = await batches()
  const { pid } = await sharedPostgres()
  const server = familyCpuOf(pid)
  const cpu = process.cpuUsage()
  const began = performance.now()
  const client = async (): Promise<void> => {
    while (next < requests) {
      const { ledger } = nodes[next++ % 3]!
      const asked = performance.now()
      try {
        const made = ledger.reserve(requestFor(scopes, 10n, { time: Date.now() }))
        if (!(made instanceof Promise)) inMemory++
        else {
          await made
          decided.push(performance.now() - asked)
        }
      } catch {
        refused.push(performance.now() - asked)
      }
    }
  }
  await Promise.all(Array.from({ length: atOnce }, client))
  const took = performance.now() - began
  const { user, system } = process.cpuUsage(cpu)
  const ofServer = familyCpuOf(pid) - server
  const sent = (await batches()) - before
  t.equal(inMemory + decided.length, Math.min(room, requests), `${name}: as many as there is room for`)
  await Promise.all(nodes.map((node) => node.flush()))
  t.same(await brokenIn(url), [])
  await Promise.all(nodes.map((node) => node.close()))
  const figures = (times: number[]): string => {
    if (times.length === 0) return '–'
    times.sort((a, b) => a - b)
    return [0.5, 0.99, 1].map((q) => times[Math.ceil(q * times.length) - 1]!.toFixed(1)).join(' / ')
  }
  return `| ${[
    name,
    ((1000 * requests) / took).toFixed(0),
    inMemory,
    `${decided.length}: ${figures(decided)}`,
    `${refused.length}: ${figures(refused)}`,
    sent,
    ((3 * took) / sent).toFixed(1),
    (ofServer / sent / 1000).toFixed(1),
    ((user + system) / requests).toFixed(0)
  ].join(' | ')} |`
}

t.test('measure', { timeout: 300_000 }, async (t) => {
  const none = { ...usualSizing, idle: -1 }
  const rows = [
    await measure(t, 'no slices, room for all', none, requests),
    await measure(t, 'no slices, room for half', none, requests / 2),
    await measure(t, 'slices, room for half', usualSizing, requests / 2)
  ]
  const table = `${begin}
\`node .tools/node.mjs test/core/store/cluster/money/measure-edge.ts ${requests} ${atOnce} --write\` has written this at a load of
${loadavg()[0]!.toFixed(1)} and a priority of ${getPriority()}: three nodes in one process, ${requests.toLocaleString('en')} requests of one key, ${atOnce} at a time, each in three budgets,
of which that of the tenant ends. Times are p50 / p99 / longest in ms; CPU is that of the process, without PostgreSQL.

| | requests/s | in memory | decided by the database | refused | batches | ms a batch | CPU ms of PostgreSQL a batch | CPU µs a request |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
${rows.join('\n')}
${end}`
  t.comment(table)
  if (!process.argv.includes('--write')) return
  const text = readFileSync(page, 'utf8')
  writeFileSync(page, text.slice(0, text.indexOf(begin)) + table + text.slice(text.indexOf(end) + end.length))
})
