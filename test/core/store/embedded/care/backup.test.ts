// A backup: a whole copy of one moment, beside a gateway that runs or of one that was killed, and how it comes back.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { backUp } from '../../../../../core/store/embedded/care/backup.ts'
import { Ownership } from '../../../../../core/store/embedded/files/lock.ts'
import { planRepair, repair } from '../../../../../core/store/embedded/care/repair.ts'
import { openDatabase } from '../../../../../core/store/embedded/files/sqlite.ts'
import { openStore } from '../../../../../core/store/embedded/store.ts'
import type { Store } from '../../../../../core/store/store.ts'
import { verify } from '../../../../../core/store/embedded/care/verify/verify.ts'
import type { Work } from '../../../../../core/store/works.ts'
import { eventually } from '../../../../kit/probe.ts'
import { noon, query, record, reserve, scope, settle } from '../sample.ts'

t.setTimeout(600_000)

const scopes = [scope('tenant', 'acme', 10n ** 12n, 'month'), scope('key', 'laptop')]

async function charge(store: Store, into: Set<string>): Promise<void> {
  const reservation = reserve(store.ledger, scopes, 9n)
  await settle(store, reservation, 4)
  into.add(reservation.requestId)
}

const idsIn = (file: string): Set<unknown> =>
  new Set(query(file, 'SELECT request_id FROM journal').map((row) => row['request_id']))

t.test(
  'a copy of a store in use has all that was acknowledged before, of one moment, and changes nothing',
  async (t) => {
    const folder = t.testdir()
    const file = join(folder, 'sluice.db')
    const store = await openStore({ file, durability: 'process', form: 'database' })
    const charged = new Set<string>()
    let over = false
    const load = Promise.all(
      Array.from({ length: 5 }, async () => {
        while (!over) await charge(store, charged)
      })
    )
    for (let copy = 0; copy < 4; copy++) {
      await eventually(() => charged.size > 200 * (copy + 1), 20_000)
      const before = [...charged]
      const target = join(folder, `copy-${copy}.db`)
      const { entries } = await backUp(file, target)
      t.same(verify(target), [], 'the book of the copy is in order')
      const ids = idsIn(target)
      t.equal(ids.size, entries)
      t.equal(before.filter((id) => !ids.has(id)).length, 0, `all of ${before.length} charges are in it`)
      t.equal(statSync(target).mode & 0o777, 0o600)
    }
    over = true
    await load
    await store.close()
    t.same(verify(file), [])
    t.same(
      readdirSync(folder).filter((name) => name.startsWith('copy') && !/^copy-\d\.db$/.test(name)),
      [],
      'nothing else is left'
    )
  }
)

t.test(
  'what only the commit log has is in the copy, and a copy can be started, and copied over its store',
  async (t) => {
    const folder = t.testdir()
    const file = join(folder, 'sluice.db')
    const charged = new Set<string>()
    const store = await openStore({ file, durability: 'process', form: 'database' })
    await charge(store, charged)
    await store.flush()
    const other = openDatabase(file, 'process')
    other.exec('BEGIN IMMEDIATE')
    for (let i = 0; i < 5; i++) await charge(store, charged)
    const open = reserve(store.ledger, scopes, 9n)
    await open.durable
    const copy = join(folder, 'copy.db')
    // Seven at most are charged and open, and the batches that they are written in may be more on a busy machine.
    const { volumes, batches } = await backUp(file, copy)
    t.equal(volumes, 0)
    t.ok(batches >= 6, `${batches} batches`)
    // The same of what a crash would leave.
    const image = join(folder, 'image')
    mkdirSync(image)
    for (const ending of ['', '-wal', '.log0', '.log1']) cpSync(`${file}${ending}`, join(image, `sluice.db${ending}`))
    const imaged = await backUp(join(image, 'sluice.db'), join(image, 'copy.db'))
    t.equal(imaged.volumes, 0)
    t.ok(imaged.batches >= batches, `${imaged.batches} batches`)
    other.exec('ROLLBACK')
    other.close()
    for (let i = 0; i < 3; i++) await charge(store, new Set())
    await store.close()
    for (const path of [copy, join(image, 'copy.db')]) {
      const again = await openStore({ file: path, durability: 'process', form: 'database' })
      t.equal(again.health().recovered, 1, 'what was open is ended')
      await again.close()
      t.same(verify(path), [])
      t.equal(idsIn(path).size, 7)
    }

    // Brought back, while the log of what came later lies there.
    rmSync(`${copy}.lock`)
    const later = await openStore({ file, durability: 'process', form: 'database' })
    await charge(later, new Set())
    await later.flush()
    const wreck = join(folder, 'wreck')
    mkdirSync(wreck)
    for (const ending of ['.log0', '.log1']) cpSync(`${file}${ending}`, join(wreck, `sluice.db${ending}`))
    await later.close()
    const brought = join(wreck, 'sluice.db')
    cpSync(join(image, 'copy.db'), brought)
    await t.rejects(openStore({ file: brought, durability: 'process', form: 'database' }), {
      message: /log0 is of start 2 of a store that went on without .* run `sluice ledger repair/
    })
    const owner = Ownership.take(brought)
    const plan = planRepair(brought)!
    t.match(
      plan,
      { base: 'whole', saved: { batches: 0 }, lost: [], foreign: { charges: 1, amount: 4n } },
      'the log of another history is shown, and not applied'
    )
    const aside = repair(brought, plan, noon)
    owner.release()
    t.same(readdirSync(aside).sort(), ['sluice.db.log0', 'sluice.db.log1'])
    await (await openStore({ file: brought, durability: 'process', form: 'database' })).close()
    t.same(verify(brought), [])
    t.equal(idsIn(brought).size, 7)
  }
)

t.test('sealed entries go along, and one that is missing is named', async (t) => {
  const folder = t.testdir()
  const file = join(folder, 'sluice.db')
  const ever = { age: 2 ** 50, size: 2 ** 50 }
  const keeping = { requests: ever, answers: ever, journal: { age: ever.age, size: 172_000, rows: 200 }, patience: 0 }
  const store = await openStore({ file, durability: 'process', form: 'database', keeping, now: () => noon })
  await Promise.all(Array.from({ length: 1000 }, () => charge(store, new Set())))
  await store.flush()
  await eventually(() => query(file, 'SELECT count(*) AS n FROM journal')[0]!['n'] === 400n, 10_000)
  const copy = join(folder, 'copy.db')
  t.match(await backUp(file, copy), { entries: 1000, volumes: 3 })
  await store.close()
  t.same(readdirSync(`${copy}.journal`), readdirSync(`${file}.journal`))
  t.same(verify(copy), [])
  rmSync(join(`${file}.journal`, readdirSync(`${file}.journal`)[1]!))
  await t.rejects(backUp(file, join(folder, 'second.db')), { message: /no such file.*sluice\.db\.journal/ })
  t.same(
    readdirSync(folder).filter((name) => name.startsWith('second')),
    [],
    'half a copy is none'
  )
})

t.test('results of work that has ended go along, and nothing that only lies beside them', async (t) => {
  const folder = t.testdir()
  const file = join(folder, 'sluice.db')
  const store = await openStore({ file, durability: 'process', form: 'database', now: () => noon })
  const work = (id: string, status: Work['status']): Work => ({
    tenant: 'acme',
    project: 'web',
    id,
    kind: 'picture',
    requestId: id,
    model: 'demo',
    channel: null,
    upstreamId: null,
    account: '',
    status,
    progress: 0,
    created: noon,
    updated: noon,
    ended: noon,
    deadline: noon + 1000,
    expires: status === 'queued' ? null : noon + 1000,
    error: null,
    usage: null,
    details: {},
    record: null
  })
  for (const [id, status] of [
    ['ended', 'succeeded'],
    ['latest', 'succeeded'],
    ['open', 'queued'],
    ['without', 'failed']
  ] as const) {
    if (status !== 'failed') await store.works.keepResult(work(id, status), Buffer.from(`result of ${id}`))
    await store.works.put(work(id, status))
  }
  const copy = join(folder, 'copy.db')
  t.match(await backUp(file, copy), { results: 2 })
  t.equal(statSync(`${copy}.results`).mode & 0o777, 0o700)
  await store.close()
  t.equal(readdirSync(`${copy}.results`).length, 2)
  t.same(
    readdirSync(folder).filter((name) => name.includes('.part')),
    []
  )
  await t.rejects(backUp(file, copy), { message: /is there already/ })
  const again = await openStore({ file: copy, durability: 'process', form: 'database', now: () => noon })
  for (const id of ['ended', 'latest'])
    t.equal(
      String(await again.works.result((await again.works.find({ tenant: 'acme', project: 'web' }, id))!)),
      `result of ${id}`
    )
  await again.close()
})

t.test('nothing is written over, and a damaged store is not copied', async (t) => {
  const folder = t.testdir({ 'there.db': 'something' })
  const file = join(folder, 'sluice.db')
  const store = await openStore({ file, durability: 'process', form: 'database' })
  store.requests.append(record())
  await store.flush()
  await t.rejects(backUp(file, join(folder, 'there.db')), {
    message: /there\.db is there already: give another name, or move it away/
  })
  t.equal(readFileSync(join(folder, 'there.db'), 'utf8'), 'something')
  const image = join(folder, 'image')
  mkdirSync(image)
  for (const ending of ['', '-wal', '.log1']) cpSync(`${file}${ending}`, join(image, `sluice.db${ending}`))
  await store.close()
  await t.rejects(backUp(join(image, 'sluice.db'), join(folder, 'copy.db')), { message: /sluice\.db\.log0 is missing/ })
  t.notOk(existsSync(join(folder, 'copy.db')))
  writeFileSync(join(folder, 'no.db'), 'by no means a database')
  await t.rejects(backUp(join(folder, 'no.db'), join(folder, 'copy.db')), { message: /cannot be read as a store/ })
})
