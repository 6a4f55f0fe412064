// What a start loads: a gateway is ready before it has what only some requests, files and commands need.
import { fork, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

const root = join(import.meta.dirname, '../..')

/** What is loaded when it is first used. Each takes 3 to 60 ms of CPU, or a megabyte of memory. */
const later = [
  ...['ws', 'undici', 'prom-client', 'busboy', 'openid-client', 'pg', '@redis/client', '@opentelemetry/api'].map(
    (name) => `/node_modules/${name}/`
  ),
  ...['store/cluster/store', 'store/cluster/ledger-book', 'store/move/move', 'commands/all'].map(
    (name) => `/core/${name}.ts`
  ),
  // What a gateway of several workers has.
  '/core/workers/',
  '/core/worker.ts',
  '/core/store/shared/',
  ...['http2', 'https', 'internal/deps/undici/undici', 'readline', 'repl'].map((name) => `NativeModule ${name}`)
]

/** The names of the threads of a process that run JavaScript or could; empty where the system has no /proc. */
function threadsOf({ pid }: ChildProcess): string[] {
  if (process.platform !== 'linux') return []
  return readdirSync(`/proc/${pid}/task`).map((id) => readFileSync(`/proc/${pid}/task/${id}/comm`, 'utf8').trim())
}

t.test('a gateway of one machine is ready without what only some need', async (t) => {
  const config = join(t.testdir({ data: {} }), 'gateway.yaml')
  const file = readFileSync(join(root, 'gateway.yaml'), 'utf8').replace(/port: (8080|9090)/g, 'port: 0')
  writeFileSync(config, file)
  // The test runner would load itself into the gateway.
  const { NODE_OPTIONS: _, ...env } = process.env
  const gateway = fork(join(root, 'core/main.ts'), ['start', '--config', config], {
    env,
    execArgv: ['--import', join(root, 'test/kit/loaded.mjs')],
    stdio: ['ignore', 'pipe', 'ignore', 'ipc']
  })
  const ended = once(gateway, 'exit')
  let said = ''
  for await (const piece of gateway.stdout!) if ((said += String(piece)).includes('"ready"')) break
  gateway.send('what is loaded?')
  const [loaded] = (await once(gateway, 'message')) as [string[]]
  t.ok(
    loaded.some((name) => name.endsWith('/core/container.ts')),
    'what is loaded is told'
  )
  t.strictSame(
    loaded.filter((name) => later.some((one) => (one.startsWith('Native') ? name === one : name.includes(one)))),
    [],
    'nothing of what is loaded later'
  )
  const threads = threadsOf(gateway)
  t.notOk(
    threads.some((name) => /^(translation|reader)/.test(name)),
    `no thread for what nobody has asked yet: ${threads.join(', ')}`
  )
  gateway.kill()
  await ended
})

t.test('the command keeps what V8 compiled where nobody else may write, and only there', (t) => {
  const caches = t.testdir({ own: {}, shared: { sluice: {} } })
  chmodSync(join(caches, 'shared/sluice'), 0o777)
  const run = (cache: string): string => {
    const { NODE_OPTIONS: _, NODE_COMPILE_CACHE: __, ...env } = process.env
    const args = [join(root, 'core/bin-main.cts'), 'version']
    return spawnSync(process.execPath, args, { env: { ...env, XDG_CACHE_HOME: cache }, encoding: 'utf8' }).stdout
  }
  const own = join(caches, 'own')
  const version = run(own)
  t.match(version, /^\d+\.\d+\.\d+\n$/, 'the first run says the version')
  t.ok(readdirSync(join(own, 'sluice')).length > 0, 'and leaves what was compiled')
  t.equal(run(own), version, 'the second run says the same')
  t.equal(run(join(caches, 'shared')), version, 'so does one whose folder others may write')
  t.strictSame(readdirSync(join(caches, 'shared/sluice')), [], 'which keeps nothing')
  writeFileSync(join(caches, 'file'), '')
  t.equal(run(join(caches, 'file')), version, 'and one that can have no folder')
  t.end()
})
