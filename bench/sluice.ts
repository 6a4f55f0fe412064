// Sluice as operators run it: every plugin, a key with limits and budgets, the ledger and the request log on disk.
import { mkdtempSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Child } from './child.ts'
import type { Contestant, Rig } from './contest.ts'
import { key, model } from './payload.ts'

/** Starts it in front of the upstream, with so many extra plugins that do nothing (see gateway.ts). */
export async function startSluice(rig: Rig, extraPlugins = 0): Promise<Contestant> {
  const directory = mkdtempSync(join(rig.directory, 'sluice-'))
  const file = join(directory, 'gateway.yaml')
  writeFileSync(file, configuration(rig.upstream.port, join(directory, 'requests.log'), extraPlugins))
  const flags = ['--expose-gc', ...rig.profile ? ['--cpu-prof', `--cpu-prof-dir=${rig.profile}`] : []]
  // Profiles tell time that passed, so there the threads must not take turns on one CPU.
  const place = rig.profile ? 'anywhere' : 'gateway'
  const { child, ready } = await Child.start<{ port: number }>('gateway.ts', [file, String(extraPlugins)], place, flags)
  return {
    name: extraPlugins > 0 ? `Sluice + ${extraPlugins}` : 'Sluice',
    pid: child.pid,
    port: ready.port,
    collect: async () => (await child.ask<{ heap: number }>({})).heap,
    stop: () => child.stop(10_000),
  }
}

/** Limits and budgets are counted for every request and never reached. */
function configuration(upstream: number, log: string, extraPlugins: number): string {
  const budget = '{ usd: 1000000, per: month }'
  return `listen: { host: 127.0.0.1, port: 0 }
admin: false
store: { sqlite: ./sluice.db }
limits: { keep_alive: 10m }
channels:
  bench:
    protocol: openai
    base_url: http://127.0.0.1:${upstream}/v1
    credential: upstream-secret
    endpoints: [chat]
    private: true
    models: { ${model}: ${model} }
    timeouts: { idle: 10m, first_byte: 10m, total: 1h }
models:
  ${model}:
    owned_by: bench
    price: { input: 1.25, cached_input: 0.125, output: 10 }
    context_window: 400000
    max_output_tokens: 4096
tenants:
  acme:
    models: ["*"]
    budget: ${budget}
    projects:
      web:
        budget: ${budget}
        members:
          alice: { models: ["bench-*"], budget: ${budget} }
keys:
  - name: bench
    key: ${key}
    tenant: acme
    project: web
    member: alice
    models: ["*"]
    endpoints: ["*"]
    limits: { rps: 1000000, rpm: 60000000, tpm: 1000000000, concurrency: 100000 }
    budget: ${budget}
chain:
  - auth: {}
  - quota: {}
  - ratelimit: {}
  - route: {}
  - protocol-translate: {}
  - usage-meter: {}
  - log: { sink: ${log} }
${Array.from({ length: extraPlugins }, (_, number) => `  - no-op-${number + 1}: {}\n`).join('')}`
}
