// Backups of a store whose journal is in segments: whole beside a gateway, with a history of their own, brought back.
import { cpSync, readdirSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { backUp } from '../../../../../core/store/embedded/care/backup.ts'
import { restore, tryRestore } from '../../../../../core/store/embedded/care/restore.ts'
import { verify } from '../../../../../core/store/embedded/care/verify/verify.ts'
import { openDatabase } from '../../../../../core/store/embedded/files/sqlite.ts'
import { volumeFolder } from '../../../../../core/store/embedded/journal/volume.ts'
import { listNumbered } from '../../../../../core/store/embedded/segments/folder.ts'
import { openStore } from '../../../../../core/store/embedded/store.ts'
import type { OwnStore } from '../../../../../core/store/embedded/store.ts'
import { eventually } from '../../../../kit/probe.ts'
import { begunIn, forms, image } from '../forms.ts'
import { query, reserve, scope, settle } from '../sample.ts'

t.setTimeout(600_000)

const scopes = [scope('tenant', 'acme', 10n ** 12n, 'month'), scope('key', 'laptop')]

function open(file: string): Promise<OwnStore> {
  return openStore({ file, durability: 'process', ...forms.journal.options })
}

async function charge(store: OwnStore, into?: Set<string>): Promise<void> {
  const reservation = reserve(store.ledger, scopes, 9n)
  await settle(store, reservation, 4)
  into?.add(reservation.requestId)
}

function idsIn(file: string): Set<unknown> {
  return new Set(query(file, 'SELECT request_id FROM journal').map((row) => row['request_id']))
}

t.test('a copy of a store in use has all that was acknowledged before, and goes on by itself', async (t) => {
  const folder = t.testdir()
  const file = join(folder, 'sluice.db')
  const store = await open(file)
  const charged = new Set<string>()
  let over = false
  const load = Promise.all(
    Array.from({ length: 20 }, async () => {
      // With pauses, or the book grows as fast as it is copied.
      for (; !over; await sleep(20)) await charge(store, charged)
    })
  )
  for (let copy = 0; copy < 3; copy++) {
    await eventually(() => charged.size > 700 * (copy + 1), 60_000)
    if (copy === 2) await eventually(() => listNumbered(volumeFolder(file)).some(({ kind }) => kind === 'volume'))
    const before = [...charged]
    const target = join(folder, `copy-${copy}.db`)
    const { entries } = await backUp(file, target, { verified: true })
    t.same(verify(target), [], 'the book of the copy is in order')
    const ids = idsIn(target)
    t.equal(ids.size, entries)
    t.equal(before.filter((id) => !ids.has(id)).length, 0, `all of ${before.length} charges are in it`)
    t.same(
      listNumbered(volumeFolder(target)).filter(({ path }) => path.endsWith('.part')),
      []
    )
  }
  over = true
  await load
  await store.close()
  t.same(verify(file), [])
  t.same(
    readdirSync(folder).filter((name) => name.startsWith('copy') && !/^copy-\d\.db(\.journal)?$/.test(name)),
    [],
    'nothing else is left'
  )
  for (const copy of [0, 2]) {
    const path = join(folder, `copy-${copy}.db`)
    const [before, own] = [idsIn(path).size, await open(path)]
    await charge(own)
    await own.close()
    t.same(verify(path), [])
    t.equal(idsIn(path).size, before + 1 + own.health().recovered)
  }
})

t.test(
  'a copy has what only the journal has, takes nothing that was written later, and can be brought back',
  async (t) => {
    const folder = t.testdir()
    const file = join(folder, 'sluice.db')
    const store = await open(file)
    await charge(store)
    await store.flush()
    const other = openDatabase(file, 'process')
    other.exec('BEGIN IMMEDIATE')
    for (let i = 0; i < 5; i++) await charge(store)
    const copy = join(folder, 'copy.db')
    const { batches, store: identity, epoch } = await backUp(file, copy)
    t.ok(batches >= 5, `${batches} batches`)
    t.equal(idsIn(copy).size, 6)
    other.exec('ROLLBACK')
    other.close()
    for (let i = 0; i < 3; i++) await charge(store)
    await store.flush()
    const later = image(file)
    await store.close()

    // The segments of what came later, in the place of those of the copy.
    const mixed = join(folder, 'mixed.db')
    cpSync(copy, mixed)
    cpSync(volumeFolder(copy), volumeFolder(mixed), { recursive: true })
    const present = new Set(readdirSync(volumeFolder(mixed)))
    for (const { kind, path } of listNumbered(volumeFolder(later)))
      if (kind === 'segment' && present.has(basename(path))) cpSync(path, join(volumeFolder(mixed), basename(path)))
    await (await open(mixed)).close()
    t.equal(idsIn(mixed).size, 6)
    t.same(verify(mixed), [])
    // The database of the store, with the journal of the copy.
    rmSync(mixed)
    cpSync(file, mixed)
    await t.rejects(open(mixed), { message: /the journal is missing, older|which the journal does not have/ })

    t.match(tryRestore(file, copy), {
      entries: 6,
      lost: { entries: 3, charges: 3, requests: 3 },
      gained: { entries: 0 }
    })
    // Also of one that was killed, whose database lacks what its journal has.
    const killed = tryRestore(later, copy)
    t.match(killed, { entries: 6, lost: { entries: 3, charges: 3, requests: 3 } })
    const done = await restore(file, copy)
    t.match(done, { entries: 6, breaches: 0, store: identity })
    const again = await open(file)
    await charge(again)
    await again.close()
    t.equal(idsIn(file).size, 7)
    t.same(verify(file), [])
    t.notSame(epoch, '')
  }
)

t.test('a journal with a gap is not copied, and the copy that was begun is removed', async (t) => {
  const folder = t.testdir()
  const file = join(folder, 'sluice.db')
  const store = await open(file)
  while (begunIn(file) < 3) {
    await Promise.all(Array.from({ length: 100 }, () => charge(store)))
    await store.flush()
  }
  await eventually(() => listNumbered(volumeFolder(file)).some(({ kind }) => kind === 'volume'))
  await store.close()
  const journal = listNumbered(volumeFolder(file))
  for (const { kind, path } of journal) if (kind === 'checkpoint') rmSync(path)
  const [first] = journal.filter(({ kind }) => kind === 'volume')
  for (const { number, path } of journal) if (number === first!.number) rmSync(path, { force: true })
  await t.rejects(backUp(file, join(folder, 'copy.db')), { message: /are missing/ })
  t.same(
    readdirSync(folder).filter((name) => name.startsWith('copy')),
    []
  )
})

t.test('a copy with open requests is in order, and its first start ends them', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await open(file)
  await settle(store, reserve(store.ledger, [scope('tenant', 'acme', 1000n, 'month')], 9n), 4)
  await reserve(store.ledger, [scope('tenant', 'acme', 1000n, 'month')], 9n).durable
  const copy = join(t.testdirName, 'copy.db')
  t.equal((await backUp(file, copy, { verified: true })).breaches, 0)
  await store.close()
  const again = await open(copy)
  t.equal(again.health().recovered, 1)
  await again.close()
  t.same(verify(copy), [])
})
