// Measures admission at the edge: requests that race over three nodes for a budget that carries half of them.
// node .tools/node.mjs test/core/store/cluster/money/measure-edge.ts [requests] [at a time]
// With `--write` at the end the page of figures has them.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism, getPriority, loadavg } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { writeFigures } from '../../../../kit/figures.ts'
import { familyCpuOf } from '../../../../../bench/proc.ts'
import { brokenIn, logFolder, moneyBook } from '../../../../kit/cluster-money.ts'
import { sharedPostgres } from '../../../../kit/postgres.ts'
import type { Outcome, Part } from './edge-node.ts'

const [wanted = 10_000, atOnce = 192] = process.argv.slice(2).map(Number).filter(Number.isFinite)
/** A whole number for each node. */
const requests = Math.ceil(wanted / 6) * 6
const cpus = availableParallelism()
const program = join(import.meta.dirname, 'edge-node.ts')
const page = join(import.meta.dirname, '../../../../../core/store/cluster/FIGURES.md')

/** Has the database note when each batch came, and when it had its turn at the balances. */
async function noteTurns(url: string): Promise<void> {
  const server = await sharedPostgres()
  await server.sql(
    `create table turn (number serial, node text, came timestamptz, at timestamptz);
     create function note() returns trigger language plpgsql as $$ begin
       insert into turn (node, came, at) values (new.name, statement_timestamp(), clock_timestamp());
       return new;
     end $$;
     create trigger note after update of verdicts on sluice.node for each row execute function note()`,
    url
  )
}

/** How many batches of others had their turn between the coming of a batch and its own turn: mean / most. */
async function passedBy(url: string): Promise<string> {
  const server = await sharedPostgres()
  const [{ mean, most }] = await server.sql(
    `select avg(n) as mean, max(n) as most from turn t cross join lateral (
       select count(*) as n from turn o where o.node <> t.node and o.at > t.came and o.at < t.at) as passed`,
    url
  )
  return `${Number(mean).toFixed(1)} / ${most}`
}

async function measure(t: Test, name: string, slices: boolean, room: number): Promise<string> {
  const url = await moneyBook()
  const server = await sharedPostgres()
  const nodes = ['one', 'two', 'three'].map((node) => {
    const share = { url, node, folder: logFolder(t), requests: requests / 3, atOnce: atOnce / 3, room, slices }
    return fork(program, [JSON.stringify(share satisfies Part)])
  })
  await Promise.all(nodes.map((node) => once(node, 'message')))
  const batches = async (): Promise<number> =>
    Number((await server.sql('select sum(batch) as sum from sluice.node', url))[0].sum)
  const before = await batches()
  await noteTurns(url)
  const used = familyCpuOf(server.pid)
  const began = performance.now()
  for (const node of nodes) node.send('go')
  const parts = (await Promise.all(nodes.map((node) => once(node, 'message')))).map(([part]) => part as Outcome)
  const whole = performance.now() - began
  const took = Math.max(...parts.map(({ done }) => done))
  const ofServer = familyCpuOf(server.pid) - used
  const sent = (await batches()) - before
  const passed = await passedBy(url)
  for (const node of nodes) node.send('end')
  await Promise.all(nodes.map((node) => once(node, 'exit')))
  t.same(await brokenIn(url), [])
  const decided = parts.flatMap((part) => part.decided)
  const refused = parts.flatMap((part) => part.refused)
  const written = parts.flatMap((part) => part.written)
  const inMemory = parts.reduce((sum, part) => sum + part.inMemory, 0)
  const cpu = parts.reduce((sum, part) => sum + part.cpu, 0)
  t.equal(inMemory + decided.length, Math.min(room, requests), `${name}: as many as there is room for`)
  const figures = (times: number[]): string => {
    if (times.length === 0) return '–'
    times.sort((a, b) => a - b)
    return [0.5, 0.99, 1].map((q) => times[Math.ceil(q * times.length) - 1]!.toFixed(1)).join(' / ')
  }
  return `| ${[
    name,
    ((1000 * requests) / took).toFixed(0),
    `${inMemory}: ${figures(written)}`,
    `${decided.length}: ${figures(decided)}`,
    `${refused.length}: ${figures(refused)}`,
    sent,
    passed,
    ((3 * whole) / sent).toFixed(1),
    (ofServer / sent / 1000).toFixed(1),
    (cpu / requests).toFixed(0),
    (((cpu + ofServer) / requests / 1000 / cpus) * atOnce).toFixed(1)
  ].join(' | ')} |`
}

t.test('measure', { timeout: 300_000 }, async (t) => {
  const rows = [
    await measure(t, 'no slices, room for all', false, requests),
    await measure(t, 'no slices, room for half', false, requests / 2),
    await measure(t, 'slices, room for half', true, requests / 2)
  ]
  const table = `\`node .tools/node.mjs test/core/store/cluster/money/measure-edge.ts ${requests} ${atOnce} --write\` has written this at a load of
${loadavg()[0]!.toFixed(1)} and a priority of ${getPriority()}: three nodes, ${requests.toLocaleString('en')} requests of one key, ${atOnce} at a time, each in three budgets,
of which that of the tenant ends. Times are p50 / p99 / longest in ms; CPU of a request is that
of the nodes, without PostgreSQL. The last column is what all that is asked at once takes of ${cpus} processors, with PostgreSQL.
Turns of others are those between the coming of a batch and its own: mean / most.

| | requests/s | in memory, in the database after | decided by the database | refused | batches | turns of others before one's own | ms a batch | CPU ms of PostgreSQL a batch | CPU µs a request | CPU ms of all at once |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
${rows.join('\n')}`
  t.comment(table)
  writeFigures(page, 'edge', table)
})
