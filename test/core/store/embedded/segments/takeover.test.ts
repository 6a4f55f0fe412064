// A store with a commit log becomes one with a journal in segments at the first start that asks for it: all, and once.
import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { backUp } from '../../../../../core/store/embedded/care/backup.ts'
import { convert } from '../../../../../core/store/embedded/care/conversion.ts'
import { folderFor } from '../../../../../core/store/embedded/care/restore.ts'
import { verify } from '../../../../../core/store/embedded/care/verify/verify.ts'
import { openDatabase } from '../../../../../core/store/embedded/files/sqlite.ts'
import { contentsOf, stagedPath } from '../../../../../core/store/embedded/files/swap.ts'
import { volumeFolder } from '../../../../../core/store/embedded/journal/volume.ts'
import { hasJournal } from '../../../../../core/store/embedded/segments/folder.ts'
import { openStore } from '../../../../../core/store/embedded/store.ts'
import type { OwnStore } from '../../../../../core/store/embedded/store.ts'
import { createLogger } from '../../../../../core/telling/log.ts'
import { contentOf, fullStore } from '../../move/sample.ts'
import { startCrash } from '../crashes.ts'
import { forms, image } from '../forms.ts'
import { noon, query, reserve, scope, settle } from '../sample.ts'

t.setTimeout(600_000)

function open(file: string, options = {}): Promise<OwnStore> {
  return openStore({ file, durability: 'process', now: () => noon, ...forms.journal.options, ...options })
}

function openOld(file: string): Promise<OwnStore> {
  return openStore({ file, durability: 'process', now: () => noon, ...forms.log.options })
}

/** The folders beside a store with what was there before. */
function asideOf(file: string): string[] {
  return (
    readdirSync(dirname(file))
      .filter((name) => name.includes('.replaced-'))
      .map((name) => join(dirname(file), name, 'sluice.db'))
      // One that was killed before it had decided leaves its folder empty.
      .filter((path) => existsSync(path))
  )
}

t.test('all that a store has is in its journal, and what was there is kept', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  await fullStore(file)
  const [before, breaches] = [contentOf(file), verify(file)]
  const store = await open(file)
  t.ok(hasJournal(volumeFolder(file)))
  t.notOk(existsSync(`${file}.log0`))
  await store.close()
  t.same(contentOf(file), before)
  t.same(verify(file), breaches)
  const [aside] = asideOf(file)
  t.same(contentOf(aside!), before, 'the store as it was lies beside it')

  // The journal has it all: the database is made anew of that.
  for (const ending of ['', '-wal', '-shm']) rmSync(`${file}${ending}`, { force: true })
  await (await open(file)).close()
  t.same(contentOf(file), before, 'as the same store')
  t.same(verify(file), breaches)

  const again = await open(file)
  const held = reserve(again.ledger, [scope('tenant', 't1', 10n ** 15n, 'month')], 9n)
  await settle(again, held, 4)
  t.equal(again.works.open().length, 1)
  await again.close()
  t.equal(asideOf(file).length, 1, 'it is taken over once')
  t.same(verify(file), breaches)
  t.match(query(file, "SELECT count(*) AS n FROM journal WHERE class = 'terminal'"), [{ n: 341n }])
})

t.test('a store stays the one that it was, also when its first start wrote nothing', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const identity = (): unknown => contentOf(file)['identity']
  await (await openOld(file)).close()
  const before = identity()
  const store = await openOld(file)
  await settle(store, reserve(store.ledger, [scope('tenant', 'acme', 1000n, 'month')], 9n), 4)
  await store.close()
  await (await open(file)).close()
  t.same(identity(), before)
  for (const ending of ['', '-wal', '-shm']) rmSync(`${file}${ending}`, { force: true })
  await (await open(file)).close()
  t.same(identity(), before, 'and when its database is made anew')
})

t.test('a takeover that was decided, and nothing more, is completed by the next start', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  await fullStore(file)
  const before = contentOf(file)
  await backUp(file, stagedPath(file))
  convert(stagedPath(file), () => {})
  const aside = folderFor(file, noon)
  writeFileSync(`${file}.restore`, JSON.stringify({ source: file, aside, names: contentsOf(file) }))
  await (await open(file)).close()
  t.ok(hasJournal(volumeFolder(file)))
  t.same(contentOf(file), before)
  t.same(asideOf(file), [join(aside, 'sluice.db')])
  t.notOk(existsSync(`${file}.restore`))
})

t.test('killed at any moment, the store is the one or the other, and the next start goes on', async (t) => {
  const base = join(t.testdir(), 'sluice.db')
  const store = await openOld(base)
  const charged: string[] = []
  for (let i = 0; i < 200; i++) {
    const held = reserve(store.ledger, [scope('tenant', 'acme', 10n ** 12n, 'month'), scope('key', 'laptop')], 1000n)
    charged.push(held.requestId)
    await settle(store, held, 1 + (i % 7))
  }
  await store.flush()
  for (let round = 0; round < 4; round++) {
    const file = image(base)
    for (let kills = 0; ; kills++) {
      const child = startCrash('open', file, [], 'journal')
      const ready = child.line('ready').then(
        () => true,
        () => false
      )
      const ended = await Promise.race([ready, sleep(300 + kills * 150 + round * 37, false)])
      await child.kill()
      if (ended) break
    }
    const ids = new Set(query(file, 'SELECT request_id FROM journal').map((row) => row['request_id']))
    t.same([ids.size, charged.filter((id) => !ids.has(id)).length], [200, 0])
    t.same(verify(file), [])
    t.same(
      readdirSync(dirname(file)).filter((name) => name.includes('restor') || name.endsWith('.part')),
      [],
      'nothing is left of the starts before'
    )
    t.equal(asideOf(file).length, 1)
  }
  await store.close()
})

t.test('a store that was made of a book in PostgreSQL is not taken over, and goes on as it is', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await openOld(file)
  await settle(store, reserve(store.ledger, [scope('tenant', 'acme', 1000n, 'month')], 9n), 4)
  await store.close()
  const database = openDatabase(file, 'process')
  database.exec("INSERT INTO journal_origin SELECT 1, 1, 'node', 1, hash FROM journal")
  database.close()
  await t.rejects(open(file), {
    message: /made of a book in PostgreSQL.* let it keep its commit log, with which it goes on/
  })
  t.same([asideOf(file), hasJournal(volumeFolder(file))], [[], false], 'nothing was changed')
  const again = await openOld(file)
  await settle(again, reserve(again.ledger, [scope('tenant', 'acme', 1000n, 'month')], 9n), 4)
  await again.close()
  t.match(query(file, 'SELECT count(*) AS n FROM journal'), [{ n: 2n }])
})

t.test('a store has the form that it is asked for, and keeps it when nobody asks', async (t) => {
  const base = t.testdir()
  const options = { durability: 'process', now: () => noon } as const
  const lines: string[] = []
  const log = createLogger({ level: 'info', write: (line) => void lines.push(line) })
  const inSegments = (file: string): boolean => hasJournal(volumeFolder(file))
  const usual = join(base, 'usual.db')
  await (await openOld(usual)).close()
  t.notOk(inSegments(usual))
  await (await openStore({ ...options, file: usual, form: 'segments', busy: true, log })).close()
  t.notOk(inSegments(usual), 'clients would wait for it')
  t.match(lines.join(''), /the journal stays in the database/)
  await (await openStore({ ...options, file: usual, form: 'segments', log })).close()
  t.ok(inSegments(usual))
  t.match(lines.join(''), /verifying the journal.*was taken over/s, 'whoever waits is told how far it is')

  const fresh = join(base, 'fresh.db')
  const store = await openStore({ ...options, file: fresh, form: 'segments' })
  await settle(store, reserve(store.ledger, [scope('tenant', 'acme', 1000n, 'month')], 9n), 4)
  await store.close()
  t.ok(inSegments(fresh))
  await t.rejects(openStore({ ...options, file: fresh, form: 'database' }), {
    message: /is in segments, in .*fresh.db.journal, and nothing brings it back/
  })
  await (await openStore({ ...options, file: fresh })).close()
  t.ok(inSegments(fresh))
  t.same(verify(fresh), [])
})
