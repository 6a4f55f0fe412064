// Measures what the store costs per request, both threads together: node test/core/store/embedded/measure.ts [folder]
import { randomUUIDv7 } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Scope } from '../../../../core/catalogue/caller.ts'
import { formatDollars } from '../../../../core/money/money.ts'
import { costOf } from '../../../../core/money/price.ts'
import type { Reservation, ReserveRequest } from '../../../../core/store/ledger.ts'
import type { RequestRecord } from '../../../../core/store/requests.ts'
import { entryColumns } from '../../../../core/store/embedded/rows/batch.ts'
import { migrate } from '../../../../core/store/embedded/database/migration.ts'
import { openDatabase } from '../../../../core/store/embedded/files/sqlite.ts'
import { openStore } from '../../../../core/store/embedded/store.ts'
import type { OwnStore } from '../../../../core/store/embedded/store.ts'
import { chatPrice, chatRecord, chatScopes } from './chats.ts'

interface Scenario {
  /** Requests that begin, and as many that end, per commit. */
  batch: number
  keys: number
  /** Reserve and settle meet in one commit. */
  short: boolean
  durability: 'power' | 'process'
}

/** What the gateway hands over for one request. */
interface Sample {
  request: ReserveRequest
  record: RequestRecord
}

const folder = mkdtempSync(join(process.argv[2] ?? tmpdir(), 'sluice-measure-'))
const usage = { input: 1234, cached_input: 256, cache_write: 0, output: 345, reasoning: 128 }
const amount = costOf(usage, chatPrice)
const requests = 30_000

function sample(key: number, scopes: Scope[]): Sample {
  const time = Date.now()
  const requestId = randomUUIDv7()
  return {
    request: {
      requestId,
      scopes,
      amount: amount * 10n,
      model: 'gpt-5',
      price: chatPrice,
      estimate: { input: 1400, maxOutput: 4096 },
      time
    },
    record: chatRecord(requestId, key, time, {
      usage,
      cost_usd: formatDollars(amount),
      cost_nano: String(amount),
      reserved_nano: String(amount * 10n),
      attempts: [{ channel: 'openai', status: 200, first_byte_ms: 211, duration_ms: 2345 }],
      first_byte_ms: 212,
      duration_ms: 2346
    })
  }
}

/** Microseconds of CPU since the process began: of all threads, of this one, and of the kernel for all. */
function clock(): [all: number, main: number, kernel: number] {
  const all = process.cpuUsage()
  const main = process.threadCpuUsage()
  return [all.user + all.system, main.user + main.system, all.system]
}

/** What making the samples costs, which is not the store's. */
function baseline(): number {
  const scopes = chatScopes(0)
  let began = clock()
  for (let i = 0; i < 3 * requests; i++) {
    if (i === requests) began = clock()
    sample(i % 10, scopes)
  }
  return (clock()[1] - began[1]) / (2 * requests)
}

async function run({ batch, keys, short, durability }: Scenario, samples: number): Promise<void> {
  const store: OwnStore = await openStore({
    file: join(folder, `${[batch, keys, short, durability].join('-')}.db`),
    durability
  })
  const scopes = Array.from({ length: keys }, (_, i) => chatScopes(i))
  const open: { reservation: Reservation; record: RequestRecord }[] = []
  let turn = 0
  const begin = (): void => {
    const key = turn++ % keys
    const { request, record } = sample(key, scopes[key]!)
    const reservation = store.ledger.reserve(request)
    reservation.dispatched('openai')
    open.push({ reservation, record })
  }
  const end = ({ reservation, record }: (typeof open)[number]): Promise<void> => {
    const settled = reservation.settle({ usage, amount, source: 'upstream', channel: 'openai' })
    store.requests.append(record)
    return settled
  }
  const round = async (): Promise<void> => {
    let durable: Promise<void> | undefined
    if (short) for (let i = 0; i < batch; i++) begin()
    for (const one of open.splice(0, batch)) durable = end(one)
    if (!short) for (let i = 0; i < batch; i++) begin()
    await durable
  }
  if (!short) for (let i = 0; i < batch; i++) begin()
  for (let done = 0; done < requests / 2; done += batch) await round()
  const before = clock()
  const began = performance.now()
  const commits = store.health().commits
  let done = 0
  for (; done < requests; done += batch) await round()
  const [all, main, kernel] = clock().map((micros, i) => (micros - before[i]!) / done) as [number, number, number]
  const rate = done / ((performance.now() - began) / 1000)
  const perCommit = done / (store.health().commits - commits)
  for (const one of open.splice(0)) void end(one)
  await store.close()
  const figures = [all - samples, main - samples, all - main, kernel].map((micros) => micros.toFixed(1))
  console.log(
    `| ${[durability, keys, short ? 'one' : 'two', perCommit.toFixed(0), ...figures, Math.round(rate)].join(' | ')} |`
  )
}

/**
 * Requests that arrive at a steady rate and take 5 ms: what the writer thread spends, and how long a hold takes to be
 * durable.
 */
async function steady(rate: number, durability: Scenario['durability']): Promise<void> {
  const store = await openStore({ file: join(folder, `steady-${rate}-${durability}.db`), durability })
  const scopes = chatScopes(0)
  const open: { due: number; reservation: Reservation; record: RequestRecord }[] = []
  const waits: number[] = []
  const began = performance.now()
  let before: { clock: ReturnType<typeof clock>; commits: number; started: number } | undefined
  let started = 0
  for (let now = began; now - began < 3000; now = performance.now()) {
    if (!before && now - began > 1000) before = { clock: clock(), commits: store.health().commits, started }
    for (; started < ((now - began) / 1000) * rate; started++) {
      const { request, record } = sample(0, scopes)
      const reservation = store.ledger.reserve(request)
      reservation.dispatched('openai')
      void reservation.durable.then(() => waits.push(performance.now() - now))
      open.push({ due: now + 5, reservation, record })
    }
    while (open.length > 0 && open[0]!.due < now) {
      const { reservation, record } = open.shift()!
      void reservation.settle({ usage, amount, source: 'upstream', channel: 'openai' })
      store.requests.append(record)
    }
    await new Promise((resolve) => setImmediate(resolve))
  }
  const [all, main] = clock().map((micros, i) => (micros - before!.clock[i]!) / (started - before!.started)) as [
    number,
    number
  ]
  const perCommit = (started - before!.started) / (store.health().commits - before!.commits)
  waits.sort((a, b) => a - b)
  const wait = (share: number): string => waits[Math.floor(waits.length * share)]!.toFixed(1)
  for (const { reservation } of open) void reservation.void()
  await store.close()
  console.log(
    `| ${[durability, rate, perCommit.toFixed(1), (all - main).toFixed(1), wait(0.5), wait(0.99)].join(' | ')} |`
  )
}

/** Ways to hand rows over and to insert them, in µs per journal row of a batch of 30. */
function alternatives(): void {
  const batch = 30
  const rows = Array.from({ length: batch }, () => {
    const { request, record } = sample(0, chatScopes(0))
    const scopes =
      '{"tenant:acme-0":"month","project:acme-0/web":"month","member:acme-0/web/m0":"day","key:laptop-0":"total"}'
    return [
      'settle',
      request.requestId,
      '',
      'terminal',
      scopes,
      amount,
      amount,
      JSON.stringify(record.usage),
      'gpt-5',
      'openai',
      'gpt-5:1',
      'upstream',
      request.time
    ]
  })
  const flat = rows.flat()
  const objects = rows.map((row) => Object.fromEntries(entryColumns.map((name, i) => [name, row[i]])))
  const file = join(folder, 'rows.db')
  const database = openDatabase(file, 'process')
  migrate(database, file)
  const columns = [...entryColumns, 'boot_id', 'prev_hash', 'hash']
  const one = database.prepare(`INSERT INTO journal (${columns.join()}) VALUES (${columns.map(() => '?').join()})`)
  const each = database.prepare(
    `INSERT INTO journal (${columns.join()}) SELECT ${entryColumns.map((_, i) => `value ->> ${i}`).join()}, 1, zeroblob(32), zeroblob(32) FROM json_each(?)`
  )
  const zero = Buffer.alloc(32)
  const time = (name: string, run: () => void): void => {
    let began = clock()
    for (let i = 0; i < 3000; i++) {
      if (i === 1000) began = clock()
      run()
    }
    console.log(`| ${name} | ${((clock()[1] - began[1]) / 2000 / batch).toFixed(2)} |`)
  }
  let last = 0
  const fresh = (): (string | bigint | number)[][] =>
    rows.map(
      (row) =>
        row.with(1, `01a1fd99-17af-7000-8000-${String(++last).padStart(12, '0')}`) as (string | bigint | number)[]
    )
  console.log('| per journal row | µs |\n|---|---|')
  time('structured clone of a flat array', () => void structuredClone(flat))
  time('structured clone of an object per row', () => void structuredClone(objects))
  time('insert: a prepared statement per row', () => {
    database.exec('BEGIN')
    for (const row of fresh()) one.run(...row, 1, zero, zero)
    database.exec('COMMIT')
  })
  time('insert: one statement from json_each', () => {
    database.exec('BEGIN')
    each.run(JSON.stringify(fresh(), (_, value: unknown) => (typeof value === 'bigint' ? Number(value) : value)))
    database.exec('COMMIT')
  })
  database.close()
}

const samples = baseline()
console.log(
  `CPU in µs per request: reserve + settle + request record (${samples.toFixed(1)} µs for making up the requests are taken off)\n`
)
console.log(
  '| durability | keys | commits a request meets | requests per commit | total | main thread | other threads | kernel (in total) | requests/s |'
)
console.log('|---|---|---|---|---|---|---|---|---|')
for (const durability of ['process', 'power'] as const) {
  for (const keys of durability === 'power' ? [1] : [1, 1000]) {
    for (const batch of [30, 100])
      for (const short of [true, false]) await run({ batch, keys, short, durability }, samples)
  }
}
console.log(
  '\n| durability | requests/s | requests per commit | other threads, µs CPU per request | ms until a hold is durable, p50 | p99 |\n|---|---|---|---|---|---|'
)
for (const durability of ['process', 'power'] as const) {
  for (const rate of [200, 1000, 5000]) await steady(rate, durability)
}
console.log()
alternatives()
rmSync(folder, { recursive: true })
