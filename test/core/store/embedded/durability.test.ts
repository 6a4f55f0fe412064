// What the store keeps when its process is killed, its disk fails or a second process wants its file.
import fs, { cpSync, rmSync, truncateSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { baseOf, framesAt, makeSegments, segmentPaths } from '../../../../core/store/embedded/log/segment.ts'
import { openDatabase } from '../../../../core/store/embedded/files/sqlite.ts'
import { openStore } from '../../../../core/store/embedded/store.ts'
import { verify } from '../../../../core/store/embedded/care/verify/verify.ts'
import { startCrash } from './crashes.ts'
import { testDurability } from './durable.ts'
import { forms, image } from './forms.ts'
import { query, reserve, scope, settle } from './sample.ts'

t.setTimeout(600_000)

testDurability(t, forms.log)

t.test('a file has one owner, whose process id a second one is told', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await openStore({ file, durability: 'process', form: 'database' })
  await t.rejects(openStore({ file, durability: 'process', form: 'database' }), {
    message: `${file} is in use by process ${process.pid} (this one): stop that process, or give this one another file`
  })
  await settle(store, reserve(store.ledger, [scope('key', 'laptop')], 9n), 4)
  await store.close()
  const child = startCrash('open', file)
  await child.line('ready')
  await t.rejects(openStore({ file, durability: 'process', form: 'database' }), {
    message: new RegExp(`in use by process ${child.process.pid}:`)
  })
  await child.kill()
  const again = await openStore({ file, durability: 'process', form: 'database' })
  await again.close()
})

t.test('a file of a newer version, or that is no database, is refused and left alone', async (t) => {
  const folder = t.testdir({
    'text.db': 'this is a letter and by no means a database, although it is long enough to be one'
  })
  const file = join(folder, 'sluice.db')
  const store = await openStore({ file, durability: 'process', form: 'database' })
  await store.close()
  const database = openDatabase(file, 'process')
  database.exec('INSERT INTO schema_migrations VALUES (99, 0)')
  database.close()
  await t.rejects(openStore({ file, durability: 'process', form: 'database' }), {
    message: /schema version 99 and this program knows \d+: start the newer program/
  })
  await t.rejects(openStore({ file: join(folder, 'text.db'), durability: 'process', form: 'database' }), {
    message: /not a database/
  })
})

t.test('a commit log whose file somebody removes while the disk fails keeps what it has acknowledged', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await openStore({ file, durability: 'process', form: 'database' })
  await settle(store, reserve(store.ledger, [scope('key', 'laptop')], 9n), 4)
  const { write } = fs
  const failing = (...call: unknown[]): void => {
    fs.write = write
    syncBuiltinESMExports()
    rmSync(`${file}.log0`)
    ;(call.at(-1) as (error: Error) => void)(new Error('EIO: i/o error, write'))
  }
  fs.write = failing as typeof write
  syncBuiltinESMExports()
  await settle(store, reserve(store.ledger, [scope('key', 'laptop')], 9n), 5)
  t.match(store.health(), { healthy: true, failures: 1, lastError: /EIO/ })
  await store.close()
  t.same(verify(file), [])
  t.match(query(file, 'SELECT count(*) AS n, sum(amount) AS spent FROM journal'), [{ n: 2n, spent: 9n }])
})

t.test('a database that was brought back from an older copy does not take the commit log of a later one', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await openStore({ file, durability: 'process', form: 'database' })
  await settle(store, reserve(store.ledger, [scope('key', 'laptop')], 9n), 4)
  await store.flush()
  const [old, older] = [image(file), image(file)]
  for (let i = 0; i < 3; i++) {
    await settle(store, reserve(store.ledger, [scope('key', 'laptop')], 9n), 4)
    await store.flush()
  }
  for (const log of ['.log0', '.log1']) cpSync(`${file}${log}`, `${old}${log}`)
  await store.close()
  await t.rejects(openStore({ file: old, durability: 'process', form: 'database' }), {
    message:
      /ends with batch \d+ of start 1: batch(es \d+ to)? \d+ (is|are) missing, .* run `sluice ledger repair --db /
  })
  await (await openStore({ file, durability: 'process', form: 'database' })).close()
  for (const log of ['.log0', '.log1']) cpSync(`${file}${log}`, `${older}${log}`)
  await t.rejects(openStore({ file: older, durability: 'process', form: 'database' }), {
    message: /log0 is of start 2 of a store that went on without .*, which ends with start 1: /
  })
  t.match(query(older, 'SELECT count(*) AS n FROM journal'), [{ n: 1n }])
})

t.test('a start that is killed before its history begins is followed by one that goes on', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await openStore({ file, durability: 'process', form: 'database' })
  await settle(store, reserve(store.ledger, [scope('key', 'laptop')], 9n), 4)
  await store.flush()
  // Until the other segment has been told.
  await sleep(250)
  const copy = image(file)
  await store.close()
  const row = query(
    copy,
    'SELECT lower(hex(history)) AS history, boot_id AS boot, batch, seq, lower(hex(hash)) AS hash FROM head'
  )[0]!
  const standing = {
    history: row['history'] as string,
    boot: Number(row['boot']),
    batch: Number(row['batch']),
    seq: Number(row['seq']),
    hash: row['hash'] as string
  }
  // What a large segment leaves when it is applied: nothing but what the two know of each other.
  for (const path of segmentPaths(copy)) truncateSync(path, framesAt)
  makeSegments(copy, 'process', { history: '0011223344556677', boot: 2, base: baseOf(standing) })
  const again = await openStore({ file: copy, durability: 'process', form: 'database' })
  await again.close()
  t.same(verify(copy), [])
  t.match(query(copy, 'SELECT count(*) AS n FROM journal'), [{ n: 1n }])
})
