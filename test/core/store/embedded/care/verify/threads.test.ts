// Verifying in two threads: they find what one finds, each by its own look at a store that goes on, and what ends one
// of them ends both.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import workerThreads from 'node:worker_threads'
import type { WorkerOptions } from 'node:worker_threads'
import t from 'tap'
import type { Test } from 'tap'
import type { Progress } from '../../../../../../core/store/embedded/care/verify/checking.ts'
import type { RecordOrder } from '../../../../../../core/store/embedded/care/verify/comparing.ts'
import type { VerifyLine } from '../../../../../../core/store/embedded/care/verify/verify-lines.ts'
import { verify, verifyInThreads } from '../../../../../../core/store/embedded/care/verify/verify.ts'
import { openDatabase } from '../../../../../../core/store/embedded/files/sqlite.ts'
import { volumeFolder } from '../../../../../../core/store/embedded/journal/volume.ts'
import { listNumbered } from '../../../../../../core/store/embedded/segments/folder.ts'
import { openStore } from '../../../../../../core/store/embedded/store.ts'
import type { OwnStore } from '../../../../../../core/store/embedded/store.ts'
import { eventually } from '../../../../../kit/probe.ts'
import { begin, begunIn, forms, image } from '../../forms.ts'
import { giveBack, noon, reserve, scope, settle } from '../../sample.ts'

t.setTimeout(300_000)

const scopes = [scope('tenant', 'acme', 10n ** 12n, 'month'), scope('key', 'laptop')]
const module = join(import.meta.dirname, '../../../../../../core/store/embedded/care/verify/verify-process.ts')

async function serve(store: OwnStore, count: number): Promise<void> {
  const held = Array.from({ length: count }, () => reserve(store.ledger, scopes, 1000n))
  await Promise.all(held.map((one, i) => (i % 10 === 0 ? giveBack(store, one) : settle(store, one, 7))))
  await store.flush()
}

const volumesOf = (file: string): string[] =>
  listNumbered(volumeFolder(file)).flatMap(({ kind, path }) => (kind === 'volume' ? [path] : []))

const open = (file: string): Promise<OwnStore> =>
  openStore({ file, durability: 'process', now: () => noon, ...forms.journal.options })

let filled = ''

t.before(async () => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await open(file)
  for (let made = 0; made < 800 || begunIn(file) < 4; made += 100) await serve(store, 100)
  await eventually(() => volumesOf(file).length >= 2)
  await reserve(store.ledger, scopes, 500n).durable
  await store.flush()
  filled = image(file)
  await store.close()
})

t.test('two threads find what one finds, whichever of them sees it', async (t) => {
  const edit = (sql: string) => (file: string) => {
    const database = openDatabase(file, 'process')
    database.exec(sql)
    database.close()
  }
  const flip = (file: string): void => {
    const path = volumesOf(file)[1]!
    const bytes = readFileSync(path)
    bytes[bytes.length >> 1]! ^= 4
    writeFileSync(path, bytes)
  }
  const changes: readonly (readonly [what: string, change: (file: string) => void, invariants: readonly string[]])[] = [
    ['nothing', () => {}, []],
    ['a record', edit("UPDATE request SET model = 'other' WHERE seq = 30"), ['I16']],
    ['a record that is missing', edit('DELETE FROM request WHERE seq = 30'), ['I16', 'I20']],
    ['traffic', edit('UPDATE traffic_hour SET requests = requests + 1'), ['I20']],
    ['spend', edit('UPDATE spend_day SET charge = charge + 1'), ['I19']],
    ['both', edit('UPDATE traffic_hour SET cost = 1; UPDATE spend_day SET charge = charge + 1'), ['I19', 'I20']],
    ['a volume', flip, ['I18']]
  ]
  for (const [what, change, invariants] of changes) {
    const file = image(filled)
    change(file)
    const found = await verifyInThreads(file)
    t.same(found, verify(file), what)
    const names = new Set<string>(found.map(({ invariant }) => invariant))
    for (const name of invariants) t.ok(names.has(name), `${what}: ${name}`)
    t.equal(found.length > 0, invariants.length > 0, what)
  }
  const log = join(t.testdir(), 'sluice.db')
  await begin(log, forms.log)
  t.same(await verifyInThreads(log), [], 'a store with a commit log')
})

/** Has threads begin otherwise than they are asked to, and something done with each. */
function doctored(
  t: Test,
  change: (options: WorkerOptions) => WorkerOptions,
  use: (thread: workerThreads.Worker) => void = () => {}
): void {
  const { Worker } = workerThreads
  workerThreads.Worker = class extends Worker {
    constructor(file: string | URL, options: WorkerOptions = {}) {
      super(file, change(options))
      use(this)
    }
  }
  syncBuiltinESMExports()
  t.teardown(() => {
    workerThreads.Worker = Worker
    syncBuiltinESMExports()
  })
}

t.test('without what the second thread finds there is no verdict', async (t) => {
  t.test('when it dies', async (t) => {
    doctored(
      t,
      (options) => options,
      (thread) => void thread.terminate()
    )
    await t.rejects(verifyInThreads(filled), /the thread that compares request records ended/)
  })
  t.test('when it cannot read the store, which ends the other checks', async (t) => {
    let state: RecordOrder['state'] | undefined
    doctored(t, (options) => {
      ;({ state } = options.workerData as RecordOrder)
      return { ...options, workerData: { state, file: join(dirname(filled), 'nothing.db') } }
    })
    const told: string[] = []
    const progress: Progress = (table) => {
      told.push(table)
      // The thread tells of it in memory that both have.
      for (let waited = 0; Atomics.load(state!, 1) === 0n && waited < 600; waited++) Atomics.wait(still, 0, 0, 100)
    }
    await t.rejects(verifyInThreads(filled, progress), /there is no file .*nothing\.db/)
    t.same(told, ['file'])
  })
})

const still = new Int32Array(new SharedArrayBuffer(4))

t.test('a failure of the first thread ends the second', async (t) => {
  const threads: workerThreads.Worker[] = []
  const notice = (thread: workerThreads.Worker): void => void threads.push(thread)
  process.on('worker', notice)
  t.teardown(() => process.off('worker', notice))
  await t.rejects(
    verifyInThreads(filled, () => {
      throw new Error('nobody listens any more')
    }),
    /nobody listens/
  )
  await eventually(() => threads.length > 0 && threads.every(({ threadId }) => threadId === -1))
  t.equal(threads.length, 1)
})

t.test('a store is verified while it is written, and its segments become volumes', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await open(file)
  await serve(store, 500)
  let going = true
  const writing = (async () => {
    while (going) await serve(store, 50)
  })()
  let sealed = 0
  for (let round = 0; round < 20 && (round < 4 || sealed < 2); round++) {
    const before = volumesOf(file).length
    const child = spawn(process.execPath, [module, file], { stdio: ['ignore', 'pipe', 'inherit'] })
    const [said] = await Promise.all([text(child.stdout), once(child, 'close')])
    const last = JSON.parse(said.trim().split('\n').at(-1)!) as VerifyLine
    t.match(last, { found: { broken: 0, breaches: [] } })
    if (volumesOf(file).length > before) sealed++
  }
  going = false
  await writing
  t.ok(sealed >= 2, 'volumes were made meanwhile')
  await store.close()
  t.same(await verifyInThreads(file), [])
})
