// Measures the shared book: requests at a steady rate over three nodes with one tenant, each held and settled.
// node .tools/node.mjs test/core/store/cluster/money/measure.ts [requests a second] [seconds] [keys]
// With `--write` at the end the page of slices has the figures.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { usualSizing } from '../../../../../core/store/cluster/money/slices/slice.ts'
import { writeFigures } from '../../../../kit/figures.ts'
import type { Sizing } from '../../../../../core/store/cluster/money/slices/slice.ts'
import { brokenIn, logFolder, moneyBook, moneyNode } from '../../../../kit/cluster-money.ts'
import { sharedPostgres } from '../../../../kit/postgres.ts'
import { scope } from '../../embedded/sample.ts'
import { charge, requestFor } from './oracle.ts'

const [rate = 500, seconds = 5, keys = 100] = process.argv.slice(2).map(Number).filter(Number.isFinite)
const page = join(import.meta.dirname, '../../../../../core/store/cluster/money/slices/README.md')

async function measure(t: Test, name: string, sizing: Sizing): Promise<string> {
  const url = await moneyBook()
  const nodes = await Promise.all(
    ['one', 'two', 'three'].map((node) => moneyNode(t, url, node, { folder: logFolder(t), sizing }))
  )
  const budgets = [scope('tenant', 'acme', 10n ** 15n, 'month'), scope('project', 'acme/web', 10n ** 15n, 'day')]
  const callers = Array.from({ length: keys }, (_, i) => [...budgets, scope('key', `key${i}`, 10n ** 15n)])
  const [inMemory, holding, shown, settling]: number[][] = [[], [], [], []]
  const running: Promise<void>[] = []
  const one = async (i: number): Promise<void> => {
    const request = requestFor(callers[(i * 7919) % keys]!, 1000n, { time: Date.now() })
    const began = performance.now()
    const asked = nodes[i % 3]!.ledger.reserve(request)
    if (!(asked instanceof Promise)) inMemory!.push(performance.now() - began)
    const made = await asked
    holding!.push(performance.now() - began)
    made.dispatched('openai')
    await made.durable
    shown!.push(performance.now() - began)
    await sleep(20)
    const ends = performance.now()
    await made.settle(charge(10))
    settling!.push(performance.now() - ends)
  }
  const cpu = process.cpuUsage()
  const began = performance.now()
  for (let i = 0; i < rate * seconds;) {
    for (const due = Math.min(((performance.now() - began) / 1000) * rate, rate * seconds); i < due; i++)
      running.push(one(i))
    await sleep(1)
  }
  await Promise.all(running)
  const took = (performance.now() - began) / 1000
  const { user, system } = process.cpuUsage(cpu)
  const server = await sharedPostgres()
  const [{ batches }] = await server.sql(`select sum(batch)::int as batches from sluice.node`, url)
  t.same(await brokenIn(url), [])
  await Promise.all(nodes.map((node) => node.close()))
  const figures = (times: number[], digits = 1): string => {
    if (times.length === 0) return '–'
    times.sort((a, b) => a - b)
    return [0.5, 0.99].map((q) => times[Math.floor(q * times.length)]!.toFixed(digits)).join(' / ')
  }
  return `| ${[
    name,
    (running.length / took).toFixed(0),
    `${((100 * inMemory!.length) / running.length).toFixed(1)} %`,
    figures(inMemory!, 3),
    figures(holding!),
    figures(shown!),
    figures(settling!),
    (batches / running.length).toFixed(2),
    ((user + system) / running.length).toFixed(0)
  ].join(' | ')} |`
}

t.test('measure', { timeout: 300_000 }, async (t) => {
  const rows = [await measure(t, 'no slices', { ...usualSizing, idle: -1 }), await measure(t, 'slices', usualSizing)]
  const table = `\`node .tools/node.mjs test/core/store/cluster/money/measure.ts ${rate} ${seconds} ${keys} --write\` has written this: three nodes in one
process, ${rate} requests a second together, ${keys} keys of one tenant, three budgets each, far from their edge. Times are p50 / p99
in ms; CPU is that of the process, with the load itself, without PostgreSQL.

| | requests/s | in memory | admitted in memory after | admitted after | in the database after | settled after | batches a request | CPU µs a request |
|---|---|---|---|---|---|---|---|---|
${rows.join('\n')}`
  t.comment(table)
  writeFigures(page, 'measured', table)
})
