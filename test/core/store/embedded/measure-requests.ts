// Measures searches of a request log of a million records, and what they cost the requests of clients meanwhile:
// `node test/core/store/embedded/measure-requests.ts [records] [seconds]`. It takes two minutes, and 1 GB of
// temporary files.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startGateway } from '../../../../core/container.ts'
import { openStore } from '../../../../core/store/embedded/store.ts'
import type { RequestRecord } from '../../../../core/store/requests.ts'
import { silentLog } from '../../../../core/telling/log.ts'
import { record } from './sample.ts'

const [records = 1_000_000, seconds = 10] = process.argv.slice(2).map(Number)
const start = Date.UTC(2026, 9, 1)

/** A record of a busy gateway: fifty tenants, a thousand keys, ten channels, one failure in a hundred. */
function recordOf(number: number): RequestRecord {
  const failed = number % 100 === 3
  const channel = `c${number % 10}`
  return record({
    time: new Date(start + number * 2000).toISOString(),
    tenant: `t${number % 50}`,
    key: `k${number % 997}`,
    project: `p${number % 20}`,
    member: `m${number % 300}`,
    model: `model-${number % 12}`,
    endpoint: number % 30 ? 'chat' : 'embeddings',
    status: failed ? 503 : 200,
    outcome: failed ? 'failed' : 'completed',
    error_code: failed ? 'upstream_bad_response' : null,
    channel,
    attempts: [{ channel, status: 200, duration_ms: 100 }],
    cost_nano: String((number % 7919) * 1000),
    duration_ms: number % 4001,
    tags: { team: `team${number % 5}` }
  })
}

const day = (date: number): string => new Date(start + date * 86_400_000).toISOString()
const searches = [
  '',
  'tenant=t7',
  'tenant=t7&status=5xx',
  'project=nobody',
  'cost_min=1000',
  'duration_min=3990ms&cost_min=0.0079',
  `since=${day(2)}&until=${day(3)}`,
  `until=${day(0)}`,
  'outcome=failed&tenant=t3',
  'tag=team=team9',
  'member=m17&channel=c8',
  'tenant=t7&project=p7&member=m7&key=k7&model=model-7&endpoint=chat&channel=c7&status=2xx&duration_max=1h',
  'limit=1000&cursor=2000'
]

/** Searches that are counted over time, as the page of requests asks for them after its rows. */
const counted = ['', 'tenant=t7', 'status=5xx', 'model=model-7&duration_min=3s', `since=${day(20)}`]

const quantile = (sorted: readonly number[], share: number): number => sorted[Math.ceil(sorted.length * share) - 1]!
const sortedTimes = (times: readonly number[]): number[] => [...times].sort((a, b) => a - b)

const folder = mkdtempSync(join(tmpdir(), 'sluice-requests-'))
const database = join(folder, 'sluice.db')
const file = join(folder, 'gateway.yaml')
const key = 'sk-measure-000000000000'
writeFileSync(
  file,
  JSON.stringify({
    listen: { port: 0 },
    admin: { port: 0 },
    store: { sqlite: database, durability: 'process' },
    channels: { demo: { protocol: 'simulator', models: { demo: 'demo' } } },
    models: { demo: { price: 'free' } },
    tenants: { acme: {} },
    keys: [{ name: 'measure', key, tenant: 'acme' }],
    chain: ['auth', 'quota', 'ratelimit', 'route', 'usage-meter', { log: { sink: 'none' } }]
  })
)
try {
  const store = await openStore({ file: database, durability: 'process' })
  for (let number = 0; number < records; number++) {
    store.requests.append(recordOf(number))
    if (number % 2000 === 0) await store.flush()
  }
  await store.close()
  const gateway = await startGateway({ config: file, log: silentLog })
  const search = async (query: string): Promise<{ ms: number; found: number }> => {
    const began = performance.now()
    const reply = await fetch(`${gateway.adminUrl}/admin/v1/requests${query === '' ? '' : `?${query}`}`)
    const { data } = (await reply.json()) as { data: unknown[] }
    return { ms: performance.now() - began, found: data.length }
  }
  console.log(`${records} records; milliseconds of five searches each, through the admin API`)
  let slowest = 0
  for (const query of counted) {
    const times: number[] = []
    for (let turn = 0; turn < 5; turn++) {
      const began = performance.now()
      await (await fetch(`${gateway.adminUrl}/admin/v1/requests/totals?${query}`)).text()
      times.push(performance.now() - began)
    }
    console.log(`      counts ${times.map((ms) => ms.toFixed(0).padStart(4)).join(' ')}  ${query}`)
  }
  for (const query of searches) {
    const times: number[] = []
    let found = 0
    for (let turn = 0; turn < 5; turn++) {
      const result = await search(query)
      times.push(result.ms)
      found = result.found
    }
    slowest = Math.max(slowest, ...times)
    console.log(
      `${String(found).padStart(5)} found  ${times.map((ms) => ms.toFixed(0).padStart(4)).join(' ')}  ${query}`
    )
  }
  console.log(`slowest: ${slowest.toFixed(0)} ms`)
  const body = JSON.stringify({ model: 'demo', messages: [{ role: 'user', content: 'Hi' }] })
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const load = async (searching: boolean): Promise<number[]> => {
    const until = performance.now() + seconds * 1000
    const times: number[] = []
    const clients = Array.from({ length: 4 }, async () => {
      while (performance.now() < until) {
        const began = performance.now()
        await (await fetch(`${gateway.url}/v1/chat/completions`, { method: 'POST', headers, body })).arrayBuffer()
        times.push(performance.now() - began)
      }
    })
    const searcher = async (): Promise<void> => {
      for (let turn = 0; performance.now() < until; turn++) await search(searches[turn % searches.length]!)
    }
    await Promise.all([...clients, ...(searching ? [searcher()] : [])])
    return sortedTimes(times)
  }
  await load(false)
  for (const searching of [false, true, false, true]) {
    const times = await load(searching)
    const [p50, p99] = [quantile(times, 0.5), quantile(times, 0.99)].map((ms) => ms.toFixed(1))
    console.log(`${searching ? 'with' : 'without'} searches: ${times.length} requests, p50 ${p50} ms, p99 ${p99} ms`)
  }
  await gateway.close()
} finally {
  rmSync(folder, { recursive: true })
}
