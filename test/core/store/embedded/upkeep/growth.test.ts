// What keeps the request log from growing for ever, while it takes new records.
import { execFile, spawnSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import t from 'tap'
import type { Test } from 'tap'
import { emptyBatch } from '../../../../../core/store/embedded/rows/batch.ts'
import { Committer } from '../../../../../core/store/embedded/database/committer.ts'
import { migrate } from '../../../../../core/store/embedded/database/migration.ts'
import { openDatabase } from '../../../../../core/store/embedded/files/sqlite.ts'
import { openStore } from '../../../../../core/store/embedded/store.ts'
import type { StoreOptions } from '../../../../../core/store/embedded/store.ts'
import type { Store } from '../../../../../core/store/store.ts'
import { verify } from '../../../../../core/store/embedded/care/verify/verify.ts'
import { sluice } from '../../../../kit/command.ts'
import { eventually } from '../../../../kit/probe.ts'
import { forms } from '../forms.ts'
import type { Form } from '../forms.ts'
import { noon, query, record, reserve, scope, settle } from '../sample.ts'

t.setTimeout(600_000)

const day = 86_400_000
const ever = { age: 1e6 * day, size: 2 ** 50 }
const forever = { ...ever, rows: 500 }
const scopes = [scope('tenant', 'acme', 10n ** 12n, 'month'), scope('key', 'laptop')]

async function open(
  t: Test,
  keeping: StoreOptions['keeping'],
  now = (): number => noon,
  { options }: Form = forms.log
): Promise<{ store: Store; file: string }> {
  const file = join(t.testdir(), 'sluice.db')
  return { store: await openStore({ file, durability: 'process', ...options, keeping, now }), file }
}

/** That many requests, charged and recorded, and in the database. */
async function serve(store: Store, count: number, time = noon): Promise<void> {
  for (let done = 0; done < count; done += 512) {
    const batch = Array.from({ length: Math.min(512, count - done) }, () =>
      settle(store, reserve(store.ledger, scopes, 9n, { time }), 4)
    )
    await Promise.all(batch)
  }
  await store.flush()
}

const records = (file: string): number => Number(query(file, 'SELECT count(*) AS n FROM request')[0]!['n'])

for (const form of Object.values(forms))
  t.test(
    `of the request log no more is kept than was said, and what is kept can be listed and verified (${form.name})`,
    async (t) => {
      const keeping = { requests: { age: ever.age, size: 650_000 }, patience: 0, journal: forever }
      const { store, file } = await open(t, keeping, undefined, form)
      await serve(store, 6000)
      const newest = await store.requests.list({ limit: 1 })
      await eventually(() => records(file) < 3500, 10_000)
      t.same(verify(file), [], 'while it goes on')
      const kept = records(file)
      t.ok(kept > 1500, `${kept} records of 6000 are kept`)
      t.same(await store.requests.list({ limit: 1 }), newest, 'the newest are there')
      let listed = 0
      for (let cursor: string | undefined; ;) {
        const { data, next } = await store.requests.list({
          limit: 1000,
          tenant: 'acme',
          ...(cursor !== undefined && { cursor })
        })
        listed += data.length
        if (next === null) break
        cursor = next
      }
      t.equal(listed, kept)
      t.match(query(file, 'SELECT count(*) AS n FROM journal'), [{ n: 6000n }], 'money has no part in it')
      const bytes = (of: string): number =>
        Number(query(file, `SELECT sum(pgsize) AS bytes FROM dbstat WHERE ${of}`)[0]!['bytes'])
      const others = (): number => statSync(file).size - bytes("name LIKE '%journal%'")
      const before = others()
      for (let round = 0; round < 3; round++) {
        await serve(store, 2000)
        await eventually(() => records(file) < 3500, 10_000)
      }
      await store.close()
      t.ok(bytes("name = 'request'") < 1_700_000, 'its size is about what was said')
      t.ok(others() < before + 2_500_000, 'room is used again')
      t.same(verify(file), [])
      t.match(query(file, 'SELECT requests FROM head'), [{ requests: BigInt(records(file)) }])
    }
  )

t.test('records go for their age, a block at a time, but not for a clock that jumps', async (t) => {
  let now = noon - 30 * day
  const keeping = { requests: { age: 10 * day, size: ever.size }, patience: 0, journal: forever }
  const { store, file } = await open(t, keeping, () => now)
  await serve(store, 2500, now)
  now += 30 * day
  await serve(store, 1000, now)
  await sleep(1300)
  t.equal(records(file), 3500, 'the clock went ahead by a month in a moment')
  await store.close()
  const patient = await openStore({
    file,
    durability: 'process',
    form: 'database',
    keeping: { ...keeping, patience: 60_000 },
    now: () => now
  })
  await serve(patient, 10, now)
  await sleep(1300)
  t.equal(records(file), 3510, 'nor does anything go in the first minutes')
  await patient.close()
  const again = await openStore({ file, durability: 'process', form: 'database', keeping, now: () => now })
  await eventually(() => records(file) === 3510 - 2047)
  t.same(verify(file), [])
  await again.close()
  t.same(verify(file), [])
})

t.test('entries of requests whose records were let go are no breach, and those that should have one are', async (t) => {
  const { store, file } = await open(t, { requests: { age: ever.age, size: 450_000 }, patience: 0, journal: forever })
  // One took long: it arrived before many others and was recorded after them.
  const slow = reserve(store.ledger, scopes, 9n, { time: noon - day })
  await serve(store, 1500)
  await settle(store, slow, 4)
  await serve(store, 1500, noon + 1)
  await eventually(() => records(file) < 2000)
  await store.close()
  t.same(verify(file), [])
})

t.test('a listing goes on where records were let go of below it', async (t) => {
  const { store, file } = await open(t, { requests: { age: ever.age, size: 700_000 }, patience: 0, journal: forever })
  for (let i = 0; i < 1000; i++) store.requests.append(record())
  const { next } = await store.requests.list({ limit: 10 })
  for (let i = 0; i < 6000; i++) store.requests.append(record())
  await store.flush()
  await eventually(() => records(file) < 3000, 10_000)
  t.same(await store.requests.list({ limit: 10, cursor: next! }), { data: [], next: null })
  t.equal((await store.requests.list({ limit: 10, time: { from: 0 } })).data.length, 10)
  await store.close()
})

const namespaces =
  spawnSync('unshare', ['-rm', 'sh', '-c', 'mount -t tmpfs -o size=1m tmpfs /mnt'], { stdio: 'ignore' }).status === 0

t.test(
  'a store that has filled its disk makes room by itself, and one that cannot start says why',
  { skip: !namespaces && 'no tmpfs can be mounted here' },
  async (t) => {
    const folder = t.testdir()
    const mount = ['-rm', 'sh', '-c', 'mount -t tmpfs -o size=40m tmpfs "$0" && exec "$@"', folder]
    const { stdout } = await promisify(execFile)('unshare', [
      ...mount,
      process.execPath,
      join(import.meta.dirname, '../crash.ts'),
      'grow',
      join(folder, 'sluice.db'),
      'log'
    ])
    const result = JSON.parse(stdout) as {
      before: number
      served: number
      start: string
      ended: number
      breaches: unknown[]
      lines: string[]
    }
    t.ok(result.before > 5000, `${result.before} requests filled the disk`)
    t.equal(result.served - result.before >= 6000, true, 'it goes on')
    t.ok(result.ended >= result.served, 'nothing that was acknowledged is lost')
    t.same(result.breaches, [])
    t.ok(result.lines.includes('the disk is nearly full: the oldest request records went to make room'))
    t.match(
      result.start,
      /^started$|sluice\.db cannot be opened, as the disk is full \(.*\): make room on the disk of this file/
    )
  }
)

t.test('hours that no rolling budget looks at any more go, and no others', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const kept = (366 + 62) * 24
  const hour = 3_600_000
  const [count, latest] = [kept + 700, Math.floor(noon / hour)]
  const hours = (of = 'tenant:acme'): string[] =>
    query(file, `SELECT window FROM balance WHERE scope = '${of}' AND length(window) = 13 ORDER BY window`).map((row) =>
      String(row['window'])
    )
  const database = openDatabase(file, 'process', (opened) => migrate(opened, file))
  const committer = new Committer(database)
  const batch = emptyBatch(1, noon)
  batch.balanced = true
  batch.moves.push('tenant:acme', '366d', 0n, 0n)
  for (const [tenant, most] of Object.entries({ acme: count, other: 9 }))
    for (let number = 0; number < most; number++) {
      const time = (latest - number) * hour
      const scopes = `{"tenant:${tenant}":"hour"}`
      batch.moves.push(`tenant:${tenant}`, new Date(time).toISOString().slice(0, 13), 1n, 0n)
      batch.entries.push('adjust', `${tenant}${number}`, '', 'adjust:test', scopes, 1n, 0n, null, 'gpt-5', 'openai')
      batch.entries.push('sample:1', 'manual', time, null, null, null)
    }
  batch.moves.push('tenant:acme', 'total', BigInt(count), 0n, 'tenant:other', 'total', 9n, 0n)
  committer.add(batch)
  committer.commit()
  database.close()
  const first = hours()
  t.equal(first.length, count)

  const keeping = { requests: ever, journal: { ...ever, rows: 1e6 }, patience: 1e9 }
  const open = (): Promise<Store> =>
    openStore({ file, durability: 'process', form: 'database', keeping, now: () => noon })
  const hourCount = (): number =>
    Number(
      query(file, "SELECT count(*) AS n FROM balance WHERE scope = 'tenant:acme' AND length(window) = 13")[0]!['n']
    )
  let store = await open()
  let held: ReturnType<typeof reserve> | undefined
  await eventually(() => {
    try {
      held ??= reserve(store.ledger, [scope('tenant', 'acme', 99n, '366d'), scope('key', 'laptop')], 5n, {
        time: (latest - count + 1) * hour
      })
    } catch (error) {
      t.equal((error as { code?: string }).code, 'billing_unavailable', 'until what was spent then is read')
    }
    return held !== undefined && hourCount() === kept + 1
  }, 20_000)
  t.same(hours(), [first[0], ...first.slice(-kept)], 'one that has a hold stays')
  await settle(store, held!, 5)
  await store.close()
  t.same(verify(file), [])
  store = await open()
  await eventually(() => hourCount() === kept, 20_000)
  t.same(hours(), first.slice(-kept), 'the newest are there')
  t.equal(hours('tenant:other').length, 9)
  const year = 366 * 24
  const rolling = [scope('tenant', 'acme', BigInt(year + 10), '366d'), scope('key', 'laptop')]
  t.throws(
    () => reserve(store.ledger, rolling, 11n),
    { code: 'quota_tenant_exceeded' },
    'what a budget looks at counts'
  )
  await settle(store, reserve(store.ledger, rolling, 10n), 10)
  await store.close()
  t.same(verify(file), [])
  t.match(await sluice(['ledger', 'repair', '--spend', '--db', file]), { code: 0 })
  t.same(verify(file), [])

  const byHand = openDatabase(file, 'process')
  byHand.exec("DELETE FROM balance WHERE scope = 'tenant:acme' AND window LIKE '2026-11-20T%'")
  byHand.exec("DELETE FROM balance WHERE scope = 'tenant:other' AND window = '2026-11-21T12'")
  byHand.close()
  const found = verify(file).map(({ invariant, row, message }) => `${invariant} ${row} ${message}`)
  for (const hour of ['tenant:other 2026-11-21T12', 'tenant:acme 2026-11-20T07'])
    t.ok(found.includes(`I1 balance ${hour} is missing; the journal makes 1`), 'what is kept is missed')
})
