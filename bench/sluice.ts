// Starts Sluice as operators run it: with every plugin but idempotency, a key with limits and budgets, and ledger and
// request log on disk.
import { createHash } from 'node:crypto'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { changeOf } from '../core/store/documents.ts'
import { openStore } from '../core/store/embedded/store.ts'
import { keyDocuments } from '../core/tenancy/stored.ts'
import { Child } from './child.ts'
import type { Rig } from './contest.ts'
import type { Contestant } from './contestant.ts'
import { key, model, numberedKey } from './payload.ts'

/** How this Sluice differs from the usual one. */
export interface Variant {
  name: string
  /** Plugins of the usual chain to leave out. */
  without: readonly string[]
  /** The number of additional plugins that do nothing (see gateway.ts). */
  extraPlugins: number
  /**
   * The number of keys in the store, spread over a hundred tenants, all with limits and budgets. The load generator
   * knows them by number.
   */
  storedKeys: number
  /** The upstream's name for the model. When it differs, the gateway has to change every body. */
  upstreamModel: string
  /** The section `store` of its configuration. */
  store: object
  /** The processes of the servers that this store uses. */
  servers: readonly number[]
  /** The endpoints of the channel. */
  endpoints: readonly string[]
  /** Further options for Node. */
  flags: readonly string[]
  /** The folder of the code: this checkout or another with its packages installed. */
  checkout: string
}

/** A Sluice under test. */
export interface Sluice extends Contestant {
  /** Has it read its file again, in which a number has changed; resolves when that is in use. */
  reload(): Promise<void>
}

const here = new URL('..', import.meta.url).pathname
const usual: Variant = {
  name: 'Sluice',
  without: [],
  extraPlugins: 0,
  storedKeys: 0,
  upstreamModel: model,
  store: { sqlite: './sluice.db' },
  servers: [],
  endpoints: ['chat'],
  flags: [],
  checkout: here
}

/** The output limit of the model, which a reload changes. */
const mostOutput = '4096'
/** The number of tenants that the stored keys are spread over. */
const tenants = 100
/** These limits are counted for every request and never reached. */
const limits = { rps: 1000000, rpm: 60000000, tpm: 1000000000, concurrency: 100000 }
const dollars = 1000000

/** Starts Sluice in front of the upstream. */
export async function startSluice(rig: Rig, differences: Partial<Variant> = {}): Promise<Sluice> {
  const variant = { ...usual, ...differences }
  const directory = mkdtempSync(join(rig.directory, 'sluice-'))
  const file = join(directory, 'gateway.yaml')
  const text = configuration(rig.upstream.port, join(directory, 'requests.log'), variant)
  writeFileSync(file, text)
  if (variant.storedKeys > 0) await storeKeys(join(directory, 'sluice.db'), variant.storedKeys)
  const flags = [
    '--expose-gc',
    ...variant.flags,
    ...(rig.profile ? ['--cpu-prof', `--cpu-prof-dir=${rig.profile}`] : [])
  ]
  // Profiles measure elapsed time, so with one the threads must not share a CPU.
  const place = rig.profile ? 'anywhere' : 'gateway'
  const { child, ready } = await Child.start<{ port: number }>(
    join(variant.checkout, 'bench/gateway.ts'),
    [file, String(variant.extraPlugins)],
    place,
    flags
  )
  let reloads = 0
  return {
    name: variant.name,
    pid: child.pid,
    port: ready.port,
    servers: variant.servers,
    collect: async () => (await child.ask<{ heap: number }>({})).heap,
    async reload() {
      writeFileSync(file, text.replace(mostOutput, String(4096 + ++reloads)))
      const { ok } = await child.ask<{ ok?: boolean }>({ reload: true })
      if (!ok) throw new Error(`${variant.name} did not take over its changed file`)
    },
    stop: () => child.stop(10_000)
  }
}

/** The same gateway from each of the other checkouts that this run compares. */
export function others(rig: Rig, differences: Partial<Variant> = {}): (() => Promise<Sluice>)[] {
  return rig.against.map(
    (checkout) => () =>
      startSluice(rig, {
        ...differences,
        name: `${differences.name ?? 'Sluice'} of ${basename(resolve(checkout))}`,
        checkout: resolve(checkout)
      })
  )
}

/** Creates the keys through the store's own interface, before the gateway opens the file. */
async function storeKeys(file: string, count: number): Promise<void> {
  const store = await openStore({ file, durability: 'process' })
  const created = Date.now()
  let written: Promise<void>[] = []
  for (let number = 1; number <= count; number++) {
    const secret = numberedKey(number)
    written.push(
      store.documents.change([
        changeOf(keyDocuments, `key-${number}`, {
          name: `key-${number}`,
          tenant: `acme-${number % tenants}`,
          project: 'web',
          member: 'alice',
          settings: { limits, budget: { usd: String(dollars), per: 'month' } },
          secrets: [
            { sha256: createHash('sha256').update(secret).digest('hex'), hint: `sk-be…${secret.slice(-4)}`, created }
          ],
          created
        })
      ])
    )
    // The store refuses more operations when too many wait for the disk.
    if (number % 1000 > 0 && number < count) continue
    await Promise.all(written)
    written = []
  }
  await store.close()
}

function configuration(
  upstream: number,
  log: string,
  { without, extraPlugins, storedKeys, upstreamModel, store, endpoints }: Variant
): string {
  const budget = `{ usd: ${dollars}, per: month }`
  const names = ['acme', ...(storedKeys > 0 ? Array.from({ length: tenants }, (_, number) => `acme-${number}`) : [])]
  const chain = ['auth', 'quota', 'ratelimit', 'route', 'protocol-translate', 'usage-meter', 'log'].filter(
    (plugin) => !without.includes(plugin)
  )
  return `listen: { host: 127.0.0.1, port: 0 }
admin: false
store: ${JSON.stringify(store)}
limits: { keep_alive: 10m }
channels:
  bench:
    protocol: openai
    base_url: http://127.0.0.1:${upstream}/v1
    credential: upstream-secret
    endpoints: [${endpoints.join(', ')}]
    private: true
    models: { ${model}: ${upstreamModel} }
    timeouts: { idle: 10m, first_byte: 10m, total: 1h }
models:
  ${model}:
    owned_by: bench
    price: { input: 1.25, cached_input: 0.125, output: 10 }
    context_window: 10000000
    max_output_tokens: ${mostOutput}
tenants:
${names
  .map(
    (name) => `  ${name}:
    models: ["*"]
    budget: ${budget}
    projects:
      web:
        budget: ${budget}
        members:
          alice: { models: ["bench-*"], budget: ${budget} }
`
  )
  .join('')}keys:
  - name: bench
    key: ${key}
    tenant: acme
    project: web
    member: alice
    models: ["*"]
    endpoints: ["*"]
    limits: ${JSON.stringify(limits)}
    budget: ${budget}
chain:
${chain.map((plugin) => `  - ${plugin}: ${plugin === 'log' ? `{ sink: ${log} }` : '{}'}\n`).join('')}${Array.from(
    { length: extraPlugins },
    (_, number) => `  - no-op-${number + 1}: {}\n`
  ).join('')}`
}
