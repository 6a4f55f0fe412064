// Measures whole stores of both forms:
// node test/core/store/embedded/segments/measure-store.ts [requests] [a second] [requests before] [--write]
// What a request writes and what the store has then, a start after a kill, and a verification. At no rate, as fast as
// it goes. Requests before are not counted: a new store writes zeros to its segments until it uses those of before
// again.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { randomUUIDv7 } from 'node:crypto'
import { formatDollars } from '../../../../../core/money/money.ts'
import { costOf } from '../../../../../core/money/price.ts'
import type { Reservation } from '../../../../../core/store/ledger.ts'
import type { RequestRecord } from '../../../../../core/store/requests.ts'
import { verifyInThreads } from '../../../../../core/store/embedded/care/verify/verify.ts'
import { openStore } from '../../../../../core/store/embedded/store.ts'
import type { Store } from '../../../../../core/store/store.ts'
import { writeFigures } from '../../../../kit/figures.ts'
import { chatPrice, chatRecord, chatScopes } from '../chats.ts'

type FormName = 'log' | 'journal'
const page = join(import.meta.dirname, '../../../../../core/store/embedded/FIGURES.md')
const keys = 1000
/** How many requests begin in each batch, and as many end. */
const together = 5
const scopes = Array.from({ length: keys }, (_, key) => chatScopes(key))

function open(file: string, form: FormName): Promise<Store> {
  return openStore({ file, durability: 'process', form: form === 'journal' ? 'segments' : 'database' })
}

/** A record as the gateway makes it of a streamed chat. */
function recordOf(requestId: string, key: number, time: number): RequestRecord {
  const usage = { input: 1234, cached_input: 256, cache_write: 0, output: 300 + (key % 97), reasoning: 128 }
  const amount = costOf(usage, chatPrice)
  const first = 200 + (key % 310) / 10
  return chatRecord(requestId, key, time, {
    usage,
    cost_usd: formatDollars(amount),
    cost_nano: String(amount),
    reserved_nano: String(amount * 10n),
    attempts: [
      { channel: 'openai', status: 200, head_ms: first - 3, first_byte_ms: first, duration_ms: 2000 + key, at_ms: 1.2 }
    ],
    first_byte_ms: first + 1.2,
    duration_ms: 2003.4 + key,
    times: { body_ms: 0.7, plugins_ms: 0.3 }
  })
}

/**
 * Runs requests through a store, those `before` as fast as it goes, says how many bytes the process wrote for the
 * others, and waits to be killed.
 */
async function serve(file: string, form: FormName, requests: number, rate: number, before: number): Promise<void> {
  const store = await open(file, form)
  const written = (): number => Number(/wchar: (\d+)/.exec(readFileSync('/proc/self/io', 'utf8'))![1])
  await run(store, before, 0)
  const [begun, cpu] = [written(), process.cpuUsage()]
  await run(store, requests, rate)
  const { user, system } = process.cpuUsage(cpu)
  console.log(JSON.stringify({ written: written() - begun, micros: user + system }))
  await new Promise(() => setInterval(() => {}, 60_000))
}

/** Runs requests through a store, and waits until all are in its database. */
async function run(store: Store, requests: number, rate: number): Promise<void> {
  const began = performance.now()
  let held: { reservation: Reservation; record: RequestRecord }[] = []
  for (let done = 0; done < requests; done += together) {
    const ahead = rate === 0 ? 0 : (done / rate) * 1000 - (performance.now() - began)
    if (ahead > 1) await sleep(ahead)
    let durable: Promise<void> | undefined
    for (const { reservation, record } of held) {
      const amount = BigInt(record.cost_nano)
      durable = reservation.settle({ usage: record.usage!, amount, source: 'upstream', channel: 'openai' })
      store.requests.append(record)
    }
    held = Array.from({ length: together }, (_, i) => {
      const [requestId, key, time] = [randomUUIDv7(), (done + i) % keys, Date.now()]
      const record = recordOf(requestId, key, time)
      const amount = BigInt(record.reserved_nano!)
      const reservation = store.ledger.reserve({
        requestId,
        scopes: scopes[key]!,
        amount,
        model: 'gpt-5',
        price: chatPrice,
        estimate: { input: 1400, maxOutput: 4096 },
        time
      }) as Reservation
      reservation.dispatched('openai')
      return { reservation, record }
    })
    await durable
  }
  await store.flush()
}

/** The bytes of all files of a store, by what they are for. */
function leftBy(file: string): { readonly total: number; readonly parts: string } {
  const parts = new Map<string, number>()
  for (const entry of readdirSync(dirname(file), { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const kind = entry.name.startsWith(basename(file)) ? entry.name : entry.name.split('-')[0]!
    parts.set(kind, (parts.get(kind) ?? 0) + statSync(join(entry.parentPath, entry.name)).size)
  }
  const large = [...parts].filter(([, size]) => size > 1024 * 1024).sort(([, one], [, other]) => other - one)
  return {
    total: [...parts.values()].reduce((sum, size) => sum + size, 0),
    parts: large.map(([kind, size]) => `${kind} ${Math.round(size / 1024 / 1024)} MiB`).join(', ')
  }
}

/** Returns a row of the table. */
async function measure(form: FormName, requests: number, rate: number, before: number): Promise<string> {
  const file = join(mkdtempSync(join(tmpdir(), 'sluice-forms-')), 'sluice.db')
  const child = spawn(
    process.execPath,
    [import.meta.filename, 'serve', file, form, ...[requests, rate, before].map(String)],
    {
      stdio: ['ignore', 'pipe', 'inherit']
    }
  )
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
  const { written, micros } = JSON.parse(line) as { written: number; micros: number }
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
  let began = performance.now()
  const store = await open(file, form)
  const start = performance.now() - began
  await store.close()
  const { total, parts } = leftBy(file)
  const cpu = process.cpuUsage()
  began = performance.now()
  const breaches = await verifyInThreads(file)
  const seconds = (performance.now() - began) / 1000
  const { user, system } = process.cpuUsage(cpu)
  if (breaches.length > 0) console.log(breaches.slice(0, 3))
  rmSync(dirname(file), { recursive: true })
  return `| ${[
    form,
    Math.round(written / requests),
    Math.round(total / (before + requests)),
    (micros / requests).toFixed(1),
    `${Math.round(start)} ms`,
    `${((user + system) / 1e6).toFixed(1)} s of CPU, in ${seconds.toFixed(1)} s`,
    parts
  ].join(' | ')} |`
}

if (process.argv[2] === 'serve') {
  const [file, form, requests, rate, before] = process.argv.slice(3)
  await serve(file!, form as FormName, Number(requests), Number(rate), Number(before))
} else {
  const [requests = 100_000, rate = 0, before = 0] = process.argv
    .slice(2)
    .filter((word) => word !== '--write')
    .map(Number)
  const rows: string[] = []
  for (const form of ['log', 'journal'] as const) rows.push(await measure(form, requests, rate, before))
  const figures = `\`node test/core/store/embedded/segments/measure-store.ts ${requests} ${rate} ${before} --write\` has written this, at a load of
${loadavg()[0]!.toFixed(0)}: whole stores of both forms with a thousand keys, ${rate === 0 ? 'as fast as it goes' : `${rate} requests a second`} behind ${before} as fast as it goes.

| form | bytes written a request | left | µs of CPU | a start after a kill | verify of all | what is left |
|---|---|---|---|---|---|---|
${rows.join('\n')}`
  console.log(figures)
  writeFigures(page, 'forms', figures)
}
