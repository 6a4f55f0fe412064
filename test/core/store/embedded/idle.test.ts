// A store that has been opened and has nothing to write yet: it has no thread, and misses nothing by that.
// Runs alone: it counts the threads of its process.
import fs, { rmSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import { verify } from '../../../../core/store/embedded/care/verify/verify.ts'
import { openForReading } from '../../../../core/store/embedded/files/sqlite.ts'
import { openStore } from '../../../../core/store/embedded/store.ts'
import { eventually } from '../../../kit/probe.ts'
import { forms, image } from './forms.ts'
import { giveBack, query, reserve, scope, settle } from './sample.ts'

/** How many threads of ours this process has. A thread that is over may be kept for the next store. */
function threads(): number {
  return (process.report.getReport() as { workers: unknown[] }).workers.length
}

const scopes = [scope('key', 'laptop', 100n)]

for (const form of Object.values(forms)) {
  t.test(`a store that nobody writes has no thread, and needs no log after it was closed (${form.name})`, async (t) => {
    const before = threads()
    const file = join(t.testdir(), 'sluice.db')
    const store = await openStore({ file, durability: 'power', ...form.options })
    t.match(store.health(), { healthy: true, unappliedBytes: 0 })
    await store.flush()
    t.equal(threads(), before)
    await store.close()
    t.equal(threads(), before)
    for (const log of ['.log0', '.log1']) rmSync(`${file}${log}`, { force: true })
    const again = await openStore({ file, durability: 'power', ...form.options })
    await again.close()
    t.same(verify(file), [])
  })

  t.test(
    `a start ends what a kill left open, and what only the log has is applied, without a thread (${form.name})`,
    async (t) => {
      const file = join(t.testdir(), 'sluice.db')
      const store = await openStore({ file, durability: 'process', ...form.options })
      await reserve(store.ledger, scopes, 9n).durable
      const dead = image(file)
      await store.close()
      const before = threads()
      const next = await openStore({ file: dead, durability: 'process', ...form.options })
      t.equal(next.health().recovered, 1)
      t.match(next.ledger.balances({ scope: 'key:laptop' }), [{ posted: 0n, pending: 0n }])
      t.equal(threads(), before)
      await settle(next, reserve(next.ledger, scopes, 9n), 4)
      await next.flush()
      t.match(query(dead, 'SELECT sum(amount) AS spent FROM journal'), [{ spent: 4n }])
      await next.close()
      t.same(verify(dead), [])
    }
  )

  t.test(`the first write starts the thread, which goes on where the opening left off (${form.name})`, async (t) => {
    const file = join(t.testdir(), 'sluice.db')
    const store = await openStore({ file, durability: 'power', ...form.options })
    await settle(store, reserve(store.ledger, scopes, 9n), 4)
    t.ok(store.health().healthy, 'acknowledged, whether a thread runs or not')
    await store.flush()
    t.equal(threads(), 1)
    t.match(query(file, 'SELECT count(*) AS n, sum(amount) AS spent FROM journal'), [{ n: 1n, spent: 4n }])
    await store.close()
    t.same(verify(file), [])
  })

  t.test(
    `the first write does not wait for somebody who reads for long, such as a backup (${form.name})`,
    async (t) => {
      const file = join(t.testdir(), 'sluice.db')
      const store = await openStore({ file, durability: 'power', ...form.options })
      const reader = openForReading(file)
      reader.exec('BEGIN')
      reader.prepare('SELECT count(*) FROM journal').get()
      await settle(store, reserve(store.ledger, scopes, 9n), 4)
      await store.flush()
      t.match(store.health(), { failures: 0, unappliedBytes: 0 })
      reader.exec('COMMIT')
      reader.close()
      await store.close()
      t.same(verify(file), [])
    }
  )

  t.test(
    `a disk that is full at the first write refuses it, and takes the next one when there is room (${form.name})`,
    async (t) => {
      const file = join(t.testdir(), 'sluice.db')
      const store = await openStore({ file, durability: 'process', ...form.options })
      const { write } = fs
      fs.write = ((...call: unknown[]) => {
        const done = call.at(-1) as (error: Error) => void
        setImmediate(() => done(new Error('ENOSPC: no space left on device, write')))
      }) as unknown as typeof write
      syncBuiltinESMExports()
      const refused = reserve(store.ledger, scopes, 9n)
      await t.rejects(refused.durable, { code: 'billing_unavailable' })
      t.throws(() => reserve(store.ledger, scopes, 9n), { code: 'billing_unavailable' })
      t.match(store.health(), { healthy: false, lastError: /ENOSPC/ })
      fs.write = write
      syncBuiltinESMExports()
      await giveBack(store, refused)
      await settle(store, reserve(store.ledger, scopes, 9n), 5)
      await store.close()
      t.same(verify(file), [])
      t.match(query(file, "SELECT sum(amount) AS spent FROM journal WHERE kind = 'settle'"), [{ spent: 5n }])
    }
  )

  t.test(`a process that has requests to serve opens a store in a thread (${form.name})`, async (t) => {
    const file = join(t.testdir(), 'sluice.db')
    const store = await openStore({ file, durability: 'process', busy: true, ...form.options })
    t.ok(threads() > 0)
    await store.close()
    t.same(verify(file), [])
  })
}

t.test('an upkeep that cannot begin is told, and keeps nothing from being written', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const bounds = { age: 1e9, size: 2 ** 40 }
  const keeping = { requests: bounds, journal: { ...bounds, rows: 1000 }, patience: 0 }
  await (await openStore({ file, durability: 'power', ...forms.log.options, keeping })).close()
  const database = new DatabaseSync(file)
  database.exec('ALTER TABLE volume RENAME COLUMN sealed TO elsewhere')
  const store = await openStore({ file, durability: 'power', ...forms.log.options, keeping })
  const isTold = (): boolean => store.health().troubles.some(({ ailment }) => ailment === 'upkeep')
  await eventually(isTold)
  for (const spent of [4n, 8n, 12n]) {
    await settle(store, reserve(store.ledger, scopes, 9n), 4)
    await store.flush()
    t.match(query(file, 'SELECT sum(amount) AS spent FROM journal'), [{ spent }])
    t.match(store.health(), { healthy: true, unappliedBytes: 0 })
    t.ok(isTold())
  }
  t.equal(store.health().applies, 3)
  database.exec('ALTER TABLE volume RENAME COLUMN elsewhere TO sealed')
  database.close()
  await settle(store, reserve(store.ledger, scopes, 9n), 4)
  await store.flush()
  await store.close()
  t.same(verify(file), [])
})
