// Measures what live streams and figures over time cost, in processor time:
// `node test/core/admin/measure-live.ts [rounds] [requests]`. Rounds with and without five open consoles take turns, of
// so many requests each; 0 rounds measure the parts alone.
import { loadavg } from 'node:os'
import { Writable } from 'node:stream'
import { Audience } from '../../../core/admin/live/audience.ts'
import { streamOf } from '../../../core/admin/live/stream.ts'
import { migrate } from '../../../core/store/embedded/database/migration.ts'
import type { RequestRecord } from '../../../core/store/requests.ts'
import { RequestTap } from '../../../core/store/request-tap.ts'
import { openDatabase } from '../../../core/store/embedded/files/sqlite.ts'
import { measureConsoles } from './open-consoles.ts'
import type { Cost } from './open-consoles.ts'
import { TrafficTable } from '../../../core/store/embedded/database/traffic-table.ts'

const records: RequestRecord[] = Array.from({ length: 1000 }, (_, number) => ({
  request_id: `req_${number}`,
  time: '2026-11-20T10:00:00.000Z',
  tenant: `t${number % 10}`,
  project: 'web',
  member: null,
  key: `k${number % 50}`,
  model: `m${number % 5}`,
  requested_model: null,
  endpoint: 'chat',
  client_protocol: 'openai',
  channel: `c${number % 3}`,
  channel_protocol: 'openai',
  status: 200,
  error_code: null,
  outcome: 'completed',
  streamed: true,
  usage: { input: 10, cached_input: 5, cache_write: 1, output: 7, reasoning: 0 },
  usage_source: 'upstream',
  cost_usd: '0.000001',
  cost_nano: '1000',
  price_version: null,
  reserved_nano: null,
  attempts: [{ channel: `c${number % 3}`, duration_ms: 5 }],
  first_byte_ms: 100 + number,
  duration_ms: 120,
  client_request_id: null
}))

/** Microseconds of processor time of one call, after a warm-up. */
function cost(calls: number, work: (call: number) => void): number {
  for (let call = 0; call < calls / 4; call++) work(call)
  const before = process.cpuUsage()
  for (let call = 0; call < calls; call++) work(call)
  const { user, system } = process.cpuUsage(before)
  return (user + system) / calls
}

const us = (value: number): string => `${value.toFixed(2)} µs`
const nothing = { append: () => {}, list: async () => ({ data: [], next: null }) }
const deaf = new RequestTap().on(nothing as never)
console.log(`a record while nobody watches: ${us(cost(1_000_000, (call) => deaf.append(records[call % 1000]!)))}`)

const sights = { troubles: () => undefined, config: () => undefined }
const all = new Audience(null, sights)
const own = new Audience('t1', sights)
for (const audience of [all, own]) audience.want(['overview', 'requests'], Infinity)
const tap = new RequestTap()
tap.listen((record) => (all.hear(record), own.hear(record)))
const heard = tap.on(nothing as never)
const each = cost(1_000_000, (call) => {
  heard.append(records[call % 1000]!)
  // A second of a thousand requests.
  if (call % 1000 === 999) for (const audience of [all, own]) audience.tick(performance.now())
})
console.log(`a record while all and one tenant are watched, with the ticks of a thousand a second: ${us(each)}`)

const sink = (): Writable => new Writable({ write: (_chunk, _encoding, done) => done() })
const watched = new Audience(null, sights)
for (let reader = 0; reader < 10; reader++)
  void streamOf(watched, new Set(['overview', 'requests']), '', () => {})(sink(), new AbortController().signal)
const second = cost(2000, () => {
  for (let i = 0; i < 20; i++) watched.hear(records[i]!)
  watched.tick(performance.now())
})
console.log(`a second with ten streams, without the sockets: ${us(second)}`)

for (const kinds of [1, 150]) {
  const database = openDatabase(':memory:', 'process', (opened) => migrate(opened, ':memory:'))
  const table = new TrafficTable(database)
  const start = Date.UTC(2026, 10, 20)
  const written = cost(400_000, (call) => {
    const one = kinds === 1 ? 0 : call % 1000
    const record = records[one]!
    table.add(call, { ...record, time: start + call * 2, json: '' }, record)
    // A transaction each quarter of a second, of 125 records.
    if (call % 125 === 124) table.flush(125)
  })
  const mixed = kinds === 1 ? 'of one tenant, model and channel' : 'of ten tenants, five models and three channels'
  console.log(`a record ${mixed} in the sums by minute and hour, in the writer thread: ${us(written)}`)
}

const [rounds = 20, requests = 4000] = process.argv.slice(2).map(Number)
const consoles = 5
/** What an open console may cost the requests of clients at most, in percent. */
const target = 1

const quantile = (values: readonly number[], share: number): number =>
  values.toSorted((one, other) => one - other)[Math.min(values.length - 1, Math.floor(values.length * share))]!

if (rounds > 0) {
  const { without, with: open } = await measureConsoles(consoles, rounds, requests)
  const names = [...new Set([...without, ...open].flatMap((cost) => Object.keys(cost)))]
  const of = (costs: readonly Cost[], name: string): number[] => costs.map((cost) => cost[name] ?? 0)
  console.log(
    `\nprocessor time of a request, medians of ${rounds} rounds of ${requests} requests; load ${loadavg()[0]!.toFixed(1)}`
  )
  console.log(`| thread | no console | ${consoles} consoles |\n|---|---|---|`)
  for (const name of names.filter((one) => quantile(of(without, one), 0.5) >= 0.1))
    console.log(`| ${name} | ${us(quantile(of(without, name), 0.5))} | ${us(quantile(of(open, name), 0.5))} |`)
  // Each round with consoles is compared with the one beside it.
  const more = of(open, 'all').map((cost, round) => (cost / without[round]!['all']! - 1) * 100)
  // Of the order of the rounds two numbers are 95 % sure to have the true median between them, however rounds differ.
  const reach = 0.98 / Math.sqrt(rounds)
  const [least, middle, most] = [0.5 - reach, 0.5, 0.5 + reach].map((share) => quantile(more, share) / consoles)
  const told = `${middle!.toFixed(2)} % (95 % sure: ${least!.toFixed(2)} to ${most!.toFixed(2)} %)`
  const sure = most! < target ? 'yes' : least! < target ? 'not sure: make more rounds' : 'NO'
  console.log(`\n| an open console costs the data path | < ${target} % |\n|---|---|\n| ${told} | ${sure} |`)
}
