// Measures verify, backup and restore of a store with a million charges, what a regular backup costs the requests of
// clients meanwhile, and writes both into core/store/embedded/FIGURES.md:
// `node test/core/store/embedded/measure-backups.ts [charges] [seconds]`. It takes some minutes, and 4 GB of
// temporary files.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startGateway } from '../../../../core/container.ts'
import { bytesOf } from '../../../../core/store/embedded/care/backup.ts'
import { openStore } from '../../../../core/store/embedded/store.ts'
import { silentLog } from '../../../../core/telling/log.ts'
import { reserve, scope, settle } from './sample.ts'

const [charges = 1_000_000, seconds = 10] = process.argv.slice(2).map(Number)
const root = join(import.meta.dirname, '../../../..')
const folder = mkdtempSync(join(tmpdir(), 'sluice-backups-'))
const file = join(folder, 'sluice.db')
const key = 'sk-measure-000000000000'
const print = (text: string): void => void process.stdout.write(`${text}\n`)

async function fill(): Promise<void> {
  const store = await openStore({ file, durability: 'process' })
  const scopes = Array.from({ length: 100 }, (_, i) => [scope('tenant', `t${i % 10}`), scope('key', `k${i}`)])
  const now = Date.now()
  for (let made = 0; made < charges; made += 1000) {
    const round = Array.from({ length: 1000 }, (_, i) =>
      settle(store, reserve(store.ledger, scopes[(made + i) % 100]!, 50n, { time: now - charges + made + i }), 7)
    )
    await Promise.all(round)
  }
  await store.close()
}

interface Taken {
  seconds: number
  mebibytes: number
  /** Seconds until it first said what it does. */
  first: number
  out: string
}

/** Prints the memory of a process when it ends. */
const memory = `data:text/javascript,process.on('exit',()=>process.stderr.write('peak '+process.resourceUsage().maxRSS+'\\n'))`

async function run(args: readonly string[]): Promise<Taken> {
  const began = performance.now()
  const child = spawn(process.execPath, ['--import', memory, join(root, 'core/main.ts'), ...args], {
    stdio: ['ignore', 'pipe', 'pipe']
  })
  let [out, err, first] = ['', '', 0]
  child.stdout.on('data', (text: Buffer) => (out += text.toString()))
  child.stderr.on('data', (text: Buffer) => {
    if (err === '') first = (performance.now() - began) / 1000
    err += text.toString()
  })
  const [code] = (await once(child, 'close')) as [number | null]
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}: ${err}`)
  return {
    seconds: (performance.now() - began) / 1000,
    mebibytes: Number(/peak (\d+)/.exec(err)![1]) / 1024,
    first,
    out
  }
}

const quantile = (sorted: readonly number[], share: number): string =>
  sorted[Math.ceil(sorted.length * share) - 1]!.toFixed(1)

/** Latencies in milliseconds of four clients, while `beside` has not ended, or for some seconds. */
async function load(url: string, beside?: Promise<unknown>): Promise<number[]> {
  const body = JSON.stringify({ model: 'demo', messages: [{ role: 'user', content: 'Hi' }] })
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const until = performance.now() + seconds * 1000
  let over = false
  void beside?.then(() => (over = true))
  const times: number[] = []
  const client = async (): Promise<void> => {
    while (beside ? !over : performance.now() < until) {
      const began = performance.now()
      await (await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body })).arrayBuffer()
      times.push(performance.now() - began)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
  await Promise.all(Array.from({ length: 4 }, client))
  return times.sort((a, b) => a - b)
}

async function beside(): Promise<string[]> {
  const config = join(folder, 'gateway.yaml')
  const kept = { to: join(folder, 'regular'), every: '1h', keep: 2 }
  const sections = (backups?: object): string =>
    JSON.stringify({
      listen: { port: 0 },
      admin: { port: 0 },
      store: { sqlite: file, durability: 'process', ...(backups && { backups }) },
      channels: { demo: { protocol: 'simulator', models: { demo: 'demo' } } },
      models: { demo: { price: 'free' } },
      tenants: { acme: {} },
      keys: [{ name: 'measure', key, tenant: 'acme' }],
      chain: ['auth', 'quota', 'ratelimit', 'route', 'usage-meter', { log: { sink: 'none' } }]
    })
  writeFileSync(config, sections())
  const made = Promise.withResolvers<number>()
  const log = {
    ...silentLog,
    info: (message: string, fields: Record<string, unknown> = {}) => {
      if (message === 'a backup was made and checked') made.resolve(Number(fields['seconds']))
    }
  }
  const gateway = await startGateway({ config, log })
  const alone = await load(gateway.url)
  writeFileSync(config, sections(kept))
  await gateway.reload('measure')
  const during = await load(gateway.url, made.promise)
  const took = await made.promise
  await gateway.close()
  const row = (name: string, times: readonly number[]): string =>
    `| ${name} | ${times.length.toLocaleString('en-US')} | ${quantile(times, 0.5)} | ${quantile(times, 0.99)} | ${times.at(-1)!.toFixed(0)} |`
  return [row('alone', alone), row(`beside a regular backup, which took ${took.toFixed(0)} s`, during)]
}

try {
  print(`filling a store with ${charges} charges`)
  await fill()
  const size = Math.round(bytesOf(file) / 1024 / 1024)
  const backup = join(folder, 'backup.db')
  const lines: [string, string[]][] = [
    ['verify', ['ledger', 'verify']],
    ['backup', ['ledger', 'backup', backup]],
    ['restore --dry-run', ['ledger', 'restore', backup, '--dry-run']],
    ['restore', ['ledger', 'restore', backup]]
  ]
  const rows: string[] = []
  for (const [name, args] of lines) {
    const { seconds: took, mebibytes, first } = await run([...args, '--db', file])
    rows.push(`| \`${name}\` | ${took.toFixed(1)} | ${mebibytes.toFixed(0)} | ${first.toFixed(1)} |`)
    print(rows.at(-1)!)
  }
  const regular = await beside()
  for (const one of regular) print(one)
  const text = `
\`node test/core/store/embedded/measure-backups.ts\`, on the same machine: a store with ${charges.toLocaleString('en-US')} charges, ${size.toLocaleString('en-US')} MiB.

| \`sluice ledger\` | seconds | MiB of memory at most | seconds until it says what it does |
|---|---|---|---|
${rows.join('\n')}

Four clients of the gateway with this store, each with a pause of 20 ms between two requests:

| | requests | ms, p50 | p99 | at most |
|---|---|---|---|---|
${regular.join('\n')}
`
  const page = join(root, 'core/store/embedded/FIGURES.md')
  writeFileSync(
    page,
    readFileSync(page, 'utf8').replace(/(<!-- backups -->\n)[^]*(<!-- \/backups -->)/, `$1${text}\n$2`)
  )
} finally {
  rmSync(folder, { recursive: true, force: true })
}
