// Lets a store with a journal in segments live for long, with kills, and with records that are let go of:
// node test/core/store/embedded/segments/soak.ts [minutes, default 60] [requests a second, default 300] [seed]
// Each life is verified, and holds what was acknowledged in it. A line for each life says what the store takes,
// by kind of file, what its process took, and how long the verification did. What is wrong ends it with code 1.
import { spawn } from 'node:child_process'
import { randomUUIDv7 } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { formatDollars } from '../../../../../core/money/money.ts'
import { costOf } from '../../../../../core/money/price.ts'
import { verify } from '../../../../../core/store/embedded/care/verify/verify.ts'
import { Volume } from '../../../../../core/store/embedded/segments/volume.ts'
import { openStore } from '../../../../../core/store/embedded/store.ts'
import type { StoreOptions } from '../../../../../core/store/embedded/store.ts'
import type { Reservation } from '../../../../../core/store/ledger.ts'
import { chance } from '../../../../kit/chance.ts'
import { chatPrice, chatRecord, chatScopes } from '../chats.ts'
import { query } from '../sample.ts'

const keys = 500
/** Small, so that there is a volume each few thousand requests, and records go within minutes. */
const options = {
  durability: 'process',
  form: 'segments',
  segments: { least: 256 * 1024, most: 1024 * 1024 },
  keeping: {
    requests: { age: 365 * 86_400_000, size: 8 * 2 ** 20 },
    journal: { age: 365 * 86_400_000, size: 2 ** 40, rows: 65_536 },
    patience: 1000,
    lag: 20_000
  }
} as const satisfies Partial<StoreOptions>

/** Charges requests until it is killed, or told to end. Says how many of them are on disk, and what they come to. */
async function serve(file: string, rate: number): Promise<void> {
  const store = await openStore({ file, ...options })
  const scopes = Array.from({ length: keys }, (_, key) => chatScopes(key))
  let ended = false
  process.once('SIGTERM', () => (ended = true))
  console.log('ready')
  const began = performance.now()
  let [count, amount] = [0, 0n]
  for (let done = 0; !ended; done++) {
    const ahead = (done / rate) * 1000 - (performance.now() - began)
    if (ahead > 1) await sleep(ahead)
    const [requestId, time, key] = [randomUUIDv7(), Date.now(), done % keys]
    const usage = { input: 1200, cached_input: 0, cache_write: 0, output: 100 + (done % 97), reasoning: 0 }
    const cost = costOf(usage, chatPrice)
    const held = store.ledger.reserve({
      requestId,
      scopes: scopes[key]!,
      amount: 4n * cost,
      model: 'gpt-5',
      price: chatPrice,
      estimate: { input: 1200, maxOutput: 400 },
      time
    }) as Reservation
    held.dispatched('openai')
    const settled = held.settle({ usage, amount: cost, source: 'upstream', channel: 'openai' })
    store.requests.append(
      chatRecord(requestId, key, time, { usage, cost_usd: formatDollars(cost), cost_nano: String(cost) })
    )
    void settled.then(() => {
      amount += cost
      if (++count % 50 === 0) console.log(`done ${count} ${amount}`)
    })
  }
  await store.flush()
  console.log(`done ${count} ${amount}`)
  await store.close()
}

/** What a life left: how many requests were acknowledged and what they come to. */
interface Life {
  readonly count: number
  readonly amount: bigint
  readonly peak: number
}

async function live(file: string, rate: number, ms: number, kill: boolean): Promise<Life> {
  const child = spawn(process.execPath, [import.meta.filename, 'serve', file, String(rate)], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  let [count, amount, peak] = [0, 0n, 0]
  const ended = once(child, 'close')
  const look = setInterval(() => {
    try {
      const [, kib = '0'] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8')) ?? []
      peak = Math.max(peak, Number(kib) * 1024)
    } catch {
      // It has just ended.
    }
  }, 500)
  const ready = Promise.withResolvers<void>()
  createInterface(child.stdout).on('line', (line) => {
    const [word, done, sum] = line.split(' ')
    if (word === 'ready') ready.resolve()
    else [count, amount] = [Number(done), BigInt(sum!)]
  })
  await Promise.race([ready.promise, ended])
  await sleep(ms)
  child.kill(kill ? 'SIGKILL' : 'SIGTERM')
  await ended
  clearInterval(look)
  return { count, amount, peak }
}

const mib = (bytes: number): string => (bytes / 2 ** 20).toFixed(1).padStart(7)

/** The MiB of a store by kind of file, and how many of its volumes were thinned. */
function sizes(file: string): string {
  const folder = `${file}.journal`
  const of = (kind: string): number =>
    readdirSync(folder)
      .filter((name) => name.startsWith(kind))
      .reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)
  const volumes = readdirSync(folder).filter((name) => /^volume-\d+$/.test(name))
  const thinned = volumes.filter((name) => new Volume(join(folder, name)).contents.unrecorded > 0).length
  const database = readdirSync(dirname(file))
    .filter((name) => name === basename(file) || name === `${basename(file)}-wal`)
    .reduce((sum, name) => sum + statSync(join(dirname(file), name)).size, 0)
  return `${mib(database)} ${mib(of('segment'))} ${mib(of('volume'))} ${mib(of('checkpoint'))} ${String(thinned).padStart(7)}/${volumes.length}`
}

async function soak(minutes: number, rate: number, seed: number): Promise<boolean> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-soak-'))
  const file = join(folder, 'sluice.db')
  const dice = chance(seed)
  const until = performance.now() + minutes * 60_000
  let [charged, asked, faults] = [0n, 0, 0]
  console.log('life  how      requests database segment  volume checkp. thinned  RSS MiB verify s load')
  try {
    for (let life = 1; performance.now() < until; life++) {
      const kill = dice.below(2) === 0
      const { count, amount, peak } = await live(file, rate, 20_000 + dice.below(40_000), kill)
      asked += count
      // What was begun in the moment of a kill may be charged too, by the next start.
      await (await openStore({ file, ...options })).close()
      const began = performance.now()
      const wrong = verify(file)
      const took = (performance.now() - began) / 1000
      const posted = query(
        file,
        `SELECT sum(posted) AS sum FROM balance WHERE scope LIKE 'tenant:%' AND window = 'total'`
      )
      const sum = BigInt((posted[0]?.['sum'] as bigint | null) ?? 0n)
      if (sum < charged + amount) {
        faults++
        console.log(`of ${charged + amount} acknowledged nano-dollars ${sum} are charged`)
      }
      charged = sum
      faults += wrong.length
      for (const one of wrong.slice(0, 10)) console.log(JSON.stringify(one))
      console.log(
        `${String(life).padEnd(5)} ${(kill ? 'killed' : 'ended').padEnd(6)} ${String(asked).padStart(10)}  ${sizes(file)} ${mib(peak)} ${took.toFixed(1).padStart(7)} ${loadavg()[0]!.toFixed(0).padStart(5)}`
      )
    }
    return faults === 0
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const [first = '60', second = '300', third = '1'] = process.argv.slice(2)
if (first === 'serve') await serve(second, Number(third))
else if (!(await soak(Number(first), Number(second), Number(third)))) process.exitCode = 1
