// Hands a gateway over again and again under load, and counts what its clients noticed: nothing is the only good count.
// As a script: node test/chaos/restarts.ts [hand-overs, default 100] [requests a second, default 300] [drain_timeout,
// default 20s]. It says what it does, ends with a table of what was noticed and why, and takes twelve minutes at most.
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { stringify } from 'yaml'
import { query } from '../core/store/embedded/sample.ts'
import { makeCertificate } from '../kit/certificate.ts'
import { key, Load } from './load.ts'
import type { Noticed, Processes } from './load.ts'

const root = join(import.meta.dirname, '..', '..')
/** Processes that drain at one time, at most. */
const mostDraining = 8
/** How long is waited for anything to come from the gateway, in milliseconds. */
const patienceMs = 150_000
/** No hand-over is begun later than this, in milliseconds. */
const longestMs = 270_000

/** What became of the requests, and of the money. */
export interface Tally {
  handOvers: number
  /** Upgrades after which the old process served on; they were asked for again. */
  failedUpgrades: number
  answered: number
  refused: number
  reset: number
  cut: number
  /**
   * Connections that the kernel of this machine did not take because too many waited; undefined where it does not tell.
   * Their clients notice after minutes, by a reset.
   */
  overflows: number | undefined
  /** Answers that the processes cut, as they say themselves. */
  cutByProcesses: number
  /** Answers that the ledger has no charge for, and those that it has several for. */
  lost: number
  doubled: number
  /** Charges for what no client was answered. */
  unasked: number
  /** Nano-dollars: what the answers come to, and what the ledger has. */
  due: bigint
  charged: bigint
  /** Requests that a client of HTTP/2 took back by itself, unsent, and sent in a new session. */
  takenBack: number
  slowestMs: number
  /** How long no process had the store, for each hand-over. */
  gapsMs: number[]
  verified: boolean
  noticed: readonly Noticed[]
  /** The versions of the program that answered, as far as they say so. */
  codes: ReadonlySet<string>
}

/** A gateway as a row of processes. */
class Row implements Processes {
  readonly #child: ChildProcess
  readonly #waiting: (() => void)[] = []
  readonly #ends = new Map<number, number>()
  pid = 0
  generation = 0
  failedUpgrades = 0
  cutByProcesses = 0
  url = ''
  output = ''
  readonly gapsMs: number[] = []

  constructor(file: string, main: string) {
    this.#child = spawn(process.execPath, [main, 'start', '--config', file], { stdio: ['ignore', 'pipe', 'pipe'] })
    for (const stream of [this.#child.stdout!, this.#child.stderr!]) {
      let rest = ''
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.output += text
        const lines = (rest + text).split('\n')
        rest = lines.pop()!
        for (const line of lines) this.#read(line)
      })
    }
  }

  endOf(generation: number): number | undefined {
    return this.#ends.get(generation)
  }

  /** The processes that have handed over and are still there. */
  get draining(): number {
    return this.generation - 1 - this.#ends.size
  }

  /** Resolves when something has happened for which this is true. */
  async until(condition: () => boolean): Promise<void> {
    const { promise: late, reject } = Promise.withResolvers<never>()
    const timer = setTimeout(
      () => reject(new Error(`nothing comes after generation ${this.generation}: ${this.output.slice(-2000)}`)),
      patienceMs
    )
    try {
      while (!condition()) await Promise.race([new Promise<void>((resolve) => void this.#waiting.push(resolve)), late])
    } finally {
      clearTimeout(timer)
    }
  }

  /** Hands over to the next process; resolves when that is ready. */
  async handOver(): Promise<void> {
    const next = this.generation + 1
    while (this.generation < next) {
      const failed = this.failedUpgrades
      process.kill(this.pid, 'SIGUSR2')
      await this.until(() => this.generation === next || this.failedUpgrades > failed)
    }
  }

  /** Stops the present process; resolves when its output has ended, and so those before it. */
  async stop(): Promise<void> {
    const closed = Promise.all([this.#child.stdout!, this.#child.stderr!].map((stream) => once(stream, 'close')))
    process.kill(this.pid, 'SIGTERM')
    await closed
  }

  kill(): void {
    try {
      if (this.pid > 0) process.kill(this.pid, 'SIGKILL')
    } catch {
      // It is gone already, which is why nothing came.
    }
  }

  #read(line: string): void {
    if (!line.startsWith('{')) return
    const said = JSON.parse(line)
    if (said.gap_ms !== undefined) this.gapsMs.push(said.gap_ms)
    if (said.msg === 'the gateway has stopped') {
      this.#ends.set(said.generation, performance.now())
      this.cutByProcesses += said.cut
    }
    if (/could not take the place/.test(said.msg)) this.failedUpgrades++
    if (said.message === 'ready') Object.assign(this, { pid: said.pid, generation: said.generation, url: said.url })
    for (const tell of this.#waiting.splice(0)) tell()
  }
}

/** What is tried. */
export interface Trial {
  handOvers: number
  /** Requests a second. */
  rate: number
  tls?: boolean
  /** How many workers each process has, in turn. Default: 1. */
  workers?: readonly number[]
  /** `limits.drain_timeout`; by default long, as some answers take minutes on a busy machine. */
  drain?: string
  /** The program. */
  main?: string
  /** Called before each hand-over. */
  before?: (next: number) => void
  /** Called after each hand-over. */
  progress?: (done: number, load: Load, row: { readonly draining: number }) => void
}

/** Runs the load over so many hand-overs, or as many as there is time for, or as come at all. */
export async function restarts(options: Trial): Promise<Tally> {
  const { handOvers, rate, tls = false, workers = [1], drain = '300s', ...trial } = options
  const folder = mkdtempSync(join(tmpdir(), 'restarts-'))
  const ended = [(): void => rmSync(folder, { recursive: true, force: true })]
  const write = configure(folder, tls, drain, ended)
  const row = new Row(write(workers[0]!), trial.main ?? join(root, 'core/main.ts'))
  const began = performance.now()
  try {
    await row.until(() => row.generation === 1)
    const overflowed = overflows()
    const load = new Load(row.url, rate, row)
    let done = 0
    for (; done < handOvers && performance.now() - began < longestMs; done++) {
      await sleep(200)
      await row.until(() => row.draining < mostDraining)
      write(workers[(done + 1) % workers.length]!)
      trial.before?.(done + 2)
      try {
        await row.handOver()
      } catch (error) {
        // What was seen until then is worth more than nothing.
        console.error((error as Error).message)
        break
      }
      trial.progress?.(done + 1, load, row)
    }
    await sleep(500)
    await load.end()
    await row.stop()
    const now = overflows()
    const more = now === undefined || overflowed === undefined ? undefined : now - overflowed
    const { gapsMs, failedUpgrades, cutByProcesses } = row
    const { tally, noticed, codes } = load
    return {
      ...tally,
      handOvers: done,
      failedUpgrades,
      overflows: more,
      cutByProcesses,
      gapsMs,
      noticed,
      codes,
      ...judge(folder, load)
    }
  } catch (error) {
    row.kill()
    throw error
  } finally {
    for (const clean of ended) clean()
  }
}

/** Connections that the kernel did not take since its start because too many waited. */
function overflows(): number | undefined {
  if (process.platform !== 'linux') return undefined
  const [names = '', values = ''] = readFileSync('/proc/net/netstat', 'utf8').split('\n')
  return Number(values.split(' ')[names.split(' ').indexOf('ListenOverflows')])
}

/** Returns what writes the file for so many workers. */
function configure(folder: string, tls: boolean, drain: string, ended: (() => void)[]): (workers: number) => string {
  const file = join(folder, 'gateway.yaml')
  const listen: Record<string, unknown> = { host: '127.0.0.1', port: 0 }
  if (tls) {
    const { cert, key: secret } = makeCertificate({ teardown: (done) => void ended.push(done as () => void) })
    listen['tls'] = { cert, key: secret }
  }
  const limits = { rpm: 1_000_000, tpm: 1_000_000_000, concurrency: 5000 }
  const config = {
    listen,
    admin: { host: '127.0.0.1', port: 0 },
    store: { sqlite: join(folder, 'sluice.db'), durability: 'process' },
    limits: { drain_timeout: drain },
    channels: { demo: { protocol: 'simulator', models: { demo: 'demo' } } },
    models: { demo: { price: { input: 1, output: 2 }, context_window: 100_000 } },
    tenants: { acme: { budget: { usd: 1_000_000, per: 'month' } } },
    keys: [{ name: 'test', key, tenant: 'acme', limits }],
    chain: ['auth', 'quota', 'ratelimit', 'route', 'protocol-translate', 'usage-meter', 'log'].map((name) => ({
      [name]: name === 'log' ? { sink: 'none' } : {}
    }))
  }
  return (workers) => {
    writeFileSync(file, stringify({ ...config, ...(workers > 1 && { workers }) }))
    return file
  }
}

/** Compares the ledger with what the clients were told. */
function judge(
  folder: string,
  load: Load
): Pick<Tally, 'lost' | 'doubled' | 'unasked' | 'due' | 'charged' | 'verified'> {
  const ends = query(
    join(folder, 'sluice.db'),
    "SELECT request_id AS id, part, amount FROM journal WHERE kind = 'settle'"
  )
  const charges = new Map<string, bigint[]>()
  const turns: bigint[] = []
  for (const { id, part, amount } of ends as { id: string; part: string; amount: bigint }[]) {
    if (part !== '') turns.push(amount)
    else charges.set(id, [...(charges.get(id) ?? []), amount])
  }
  const sum = (amounts: Iterable<bigint>): bigint => [...amounts].reduce((total, amount) => total + amount, 0n)
  const missing = [...load.due].filter(([id, amount]) => charges.get(id)?.[0] !== amount).length
  const doubled = [...charges.values()].filter(({ length }) => length > 1).length
  return {
    lost: missing + Math.max(0, load.turns.length - turns.length),
    doubled,
    unasked:
      [...charges.keys()].filter((id) => !load.due.has(id)).length + Math.max(0, turns.length - load.turns.length),
    due: sum(load.due.values()) + sum(load.turns),
    charged: sum([...charges.values()].flat()) + sum(turns),
    verified: verify(folder)
  }
}

function verify(folder: string): boolean {
  const { spawnSync } = process.getBuiltinModule('node:child_process')
  const command = [join(root, 'core/main.ts'), 'ledger', 'verify', '--db', join(folder, 'sluice.db')]
  const { status, stdout, stderr } = spawnSync(process.execPath, command, { encoding: 'utf8' })
  if (status !== 0) process.stderr.write(`${stdout}${stderr}`)
  return status === 0
}

if (process.argv[1] === import.meta.filename) {
  const [handOvers = 100, rate = 300] = process.argv.slice(2, 4).map(Number)
  const drain = process.argv[4] ?? '20s'
  const half = Math.ceil(handOvers / 2)
  const table: Record<string, Record<string, unknown>> = {}
  const reasons: Record<string, unknown>[] = []
  for (const [name, tls, count] of [
    ['clear text', false, half],
    ['TLS', true, handOvers - half]
  ] as const) {
    if (count === 0) continue
    const began = performance.now()
    const progress: Trial['progress'] = (done, { tally }, { draining }) => {
      const seconds = Math.round((performance.now() - began) / 1000)
      const noticed = tally.refused + tally.reset + tally.cut
      const state = `${tally.answered} answered, ${noticed} noticed something, ${draining} processes drain`
      if (done % 5 === 0 || done === count) console.error(`${name}: ${done} of ${count} after ${seconds} s: ${state}`)
    }
    const {
      gapsMs,
      noticed,
      codes: _codes,
      ...tally
    } = await restarts({ handOvers: count, rate, tls, drain, progress })
    const sorted = gapsMs.toSorted((one, other) => one - other)
    const gaps = { gapMedianMs: sorted[Math.floor(sorted.length / 2)], gapMostMs: sorted.at(-1) }
    table[name] = { wanted: count, ...tally, slowestMs: Math.round(tally.slowestMs), ...gaps }
    reasons.push(...noticed.map((one) => ({ listener: name, ...one })))
  }
  const rows = Object.keys(Object.values(table)[0]!)
  const columns = Object.keys(table)
  console.table(
    Object.fromEntries(rows.map((row) => [row, Object.fromEntries(columns.map((c) => [c, table[c]![row]]))]))
  )
  for (const { listener, client, what, times, leastMs, mostMs, reason } of reasons)
    console.log(`${times} × ${listener}, ${client}: ${what} after ${leastMs} to ${mostMs} ms: ${reason}`)
  if (reasons.length === 0) console.log('Nobody noticed anything.')
}
