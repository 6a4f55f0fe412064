// Measures what the store costs per request, both threads together: node test/core/store/measure.ts [file]
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { randomUUIDv7 } from 'node:crypto'
import { openStore } from '../../../core/store/store.ts'
import { costOf } from '../../../core/price.ts'
import { formatDollars } from '../../../core/money.ts'
import type { Scope } from '../../../core/caller.ts'
import type { Reservation } from '../../../core/store/ledger.ts'
import type { RequestRecord } from '../../../core/store/requests.ts'

interface Scenario {
  name: string
  /** Requests that begin, and as many that end, per batch. */
  batch: number
  keys: number
  /** Reserve and settle meet in one batch. */
  short: boolean
  durability: 'power' | 'process'
}

const folder = mkdtempSync(join(process.argv[2] ? dirname(process.argv[2]) : tmpdir(), 'sluice-measure-'))
const price = { version: 'gpt-5:1', perMillion: { input: 1_250_000_000n, cached_input: 125_000_000n, output: 10_000_000_000n } }
const usage = { input: 1234, cached_input: 256, cache_write: 0, output: 345, reasoning: 128 }

function scopesOf(i: number): Scope[] {
  const limit = 10n ** 15n
  return [
    { kind: 'tenant', id: `tenant:acme-${i % 10}`, budget: { limit, per: 'month' } },
    { kind: 'project', id: `project:acme-${i % 10}/web`, budget: { limit, per: 'month' } },
    { kind: 'member', id: `member:acme-${i % 10}/web/m${i}`, budget: { limit, per: 'day' } },
    { kind: 'key', id: `key:laptop-${i}` }
  ]
}

function recordOf(id: string, key: number, time: number, amount: bigint): RequestRecord {
  return {
    request_id: id, time: new Date(time).toISOString(), tenant: `acme-${key % 10}`, project: 'web', member: `m${key}`, key: `laptop-${key}`, model: 'gpt-5',
    endpoint: 'chat', client_protocol: 'openai-chat', channel: 'openai', channel_protocol: 'openai', status: 200, error_code: null, outcome: 'completed',
    streamed: true, usage, usage_source: 'upstream', cost_usd: formatDollars(amount), cost_nano: String(amount),
    attempts: [{ channel: 'openai', status: 200, first_byte_ms: 211, duration_ms: 2345 }], first_byte_ms: 212, duration_ms: 2346, client_request_id: null
  }
}

async function run({ name, batch, keys, short, durability }: Scenario): Promise<void> {
  const store = await openStore({ file: join(folder, `${name.replaceAll(' ', '-')}.db`), durability })
  const scopes = Array.from({ length: keys }, (_, i) => scopesOf(i))
  const amount = costOf(usage, price)
  const waiting: { id: string; key: number; time: number; reservation: Reservation }[] = []
  let turn = 0
  const begin = (): void => {
    const key = turn++ % keys
    const time = Date.now()
    const id = randomUUIDv7()
    const reservation = store.ledger.reserve({
      requestId: id, scopes: scopes[key]!, amount: amount * 10n, model: 'gpt-5', price, estimate: { input: 1400, maxOutput: 4096 }, time
    })
    reservation.dispatched('openai')
    waiting.push({ id, key, time, reservation })
  }
  const finish = (): Promise<void> => {
    const { id, key, time, reservation } = waiting.shift()!
    const settled = reservation.settle({ usage, amount, source: 'upstream', channel: 'openai' })
    store.requests.append(recordOf(id, key, time, amount))
    return settled
  }
  const round = async (): Promise<void> => {
    let durable: Promise<void> | undefined
    if (short) for (let i = 0; i < batch; i++) begin()
    for (let i = 0; i < batch; i++) durable = finish()
    if (!short) for (let i = 0; i < batch; i++) begin()
    await durable
  }
  if (!short) for (let i = 0; i < batch; i++) begin()
  for (let done = 0; done < 20_000; done += batch) await round()
  const before = { all: process.cpuUsage(), main: process.threadCpuUsage(), wall: performance.now(), health: store.health() }
  let done = 0
  for (; done < 40_000; done += batch) await round()
  const all = process.cpuUsage(before.all)
  const main = process.threadCpuUsage(before.main)
  const wall = performance.now() - before.wall
  const health = store.health()
  const per = (micros: number): string => (micros / done).toFixed(1).padStart(6)
  console.log(
    `${name.padEnd(34)}${per(all.user + all.system)} µs  (main thread ${per(main.user + main.system)}, kernel ${per(all.system)})` +
      `  ${Math.round(done / (wall / 1000)).toString().padStart(6)} req/s  ${((done / (health.commits - before.health.commits)) || 0).toFixed(0)} per commit`
  )
  if (!short) while (waiting.length > 0) void finish()
  await store.close()
}

console.log('CPU per request: reserve + settle + request record, both threads')
for (const batch of [30, 100]) {
  for (const durability of ['process', 'power'] as const) {
    for (const keys of [1, 1000]) {
      for (const short of [true, false]) {
        if (durability === 'power' && keys > 1) continue
        await run({ name: `${batch} ${durability} ${keys} keys ${short ? 'one batch' : 'two batches'}`, batch, keys, short, durability })
      }
    }
  }
}
rmSync(folder, { recursive: true })
