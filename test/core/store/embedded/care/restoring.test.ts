// Restores: what comes back is exactly the backup, what was there is put aside whole, and a kill at any step leaves one
// of the two. `SLUICE_LONG=1` runs 200 random histories and kills at every step in both ways; `SLUICE_SEED` makes
// others.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync
} from 'node:fs'
import { basename, join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { backUp } from '../../../../../core/store/embedded/care/backup.ts'
import { documentKind, changeOf } from '../../../../../core/store/documents.ts'
import { LedgerFile } from '../../../../../core/store/embedded/care/ledger-file.ts'
import { Ownership } from '../../../../../core/store/embedded/files/lock.ts'
import { planRepair } from '../../../../../core/store/embedded/care/repair.ts'
import { restore, tryRestore } from '../../../../../core/store/embedded/care/restore.ts'
import type { Difference } from '../../../../../core/store/embedded/care/difference.ts'
import { openDatabase } from '../../../../../core/store/embedded/files/sqlite.ts'
import { openStore } from '../../../../../core/store/embedded/store.ts'
import type { Store } from '../../../../../core/store/store.ts'
import { verify } from '../../../../../core/store/embedded/care/verify/verify.ts'
import { Disk, noDisk } from '../../../../chaos/disk.ts'
import { chance as chanceOf } from '../../../../kit/chance.ts'
import { sluice } from '../../../../kit/command.ts'
import { rewind } from '../earlier.ts'
import { noon, query, reserve, scope, settle } from '../sample.ts'

t.setTimeout(1_800_000)

const long = process.env['SLUICE_LONG'] === '1'
const seed = Number(process.env['SLUICE_SEED'] ?? 1)
const keys = documentKind<{ name: string }>('key')

const open = (file: string): Promise<Store> => openStore({ file, durability: 'process', form: 'database' })

/** Charges a request, and returns its id. */
async function charge(store: Store, amount: number): Promise<string> {
  const hold = reserve(store.ledger, [scope('tenant', 'acme'), scope('key', 'laptop')], BigInt(amount) + 5n)
  await settle(store, hold, amount)
  return hold.requestId
}

/** What was charged, in the balance of a scope; the store may be open. */
function posted(file: string): bigint {
  const ledger = new LedgerFile(file)
  const found = ledger.balances(noon).find((one) => one.scope === 'tenant:acme' && one.window === 'total')
  ledger.close()
  return found?.posted ?? 0n
}

const idsIn = (file: string): string[] =>
  query(file, "SELECT request_id AS id FROM journal WHERE kind = 'settle' ORDER BY seq").map(({ id }) => String(id))

/** All files of a folder with what is in them, but for locks, and what readers of SQLite leave. */
function filesOf(folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((one) => one.isFile())
  return Object.fromEntries(
    names
      .filter(({ name }) => !/\.lock$|-shm$|-wal$/.test(name))
      .map(({ parentPath, name }) => [join(parentPath, name), readFileSync(join(parentPath, name)).toString('base64')])
  )
}

/** What a kill of the gateway leaves: the files as they are now, while the store is open. */
async function crash(store: Store, folder: string): Promise<void> {
  const image = join(folder, 'image')
  mkdirSync(image)
  const own = (): string[] => readdirSync(folder).filter((name) => /^sluice\.db(?:-wal|\.log[01])?$/.test(name))
  for (const name of own()) cpSync(join(folder, name), join(image, name))
  await store.close()
  for (const name of own()) rmSync(join(folder, name))
  for (const name of readdirSync(image)) cpSync(join(image, name), join(folder, name))
  rmSync(image, { recursive: true })
}

t.test(
  'random histories of charges, backups, restarts, kills and restores: balances are those of the backup',
  async (t) => {
    const histories = long ? 200 : 5
    let restores = 0
    for (let history = 0; history < histories; history++) {
      const { below, pick } = chanceOf(seed * 1000 + history)
      const folder = t.testdir()
      const file = join(folder, 'sluice.db')
      /** The books that there should be, by the file of the copy: the amounts by request. */
      const copies: { path: string; charged: Map<string, number> }[] = []
      let charged = new Map<string, number>()
      let store = await open(file)
      const sumOf = (books: Map<string, number>): bigint =>
        BigInt([...books.values()].reduce((sum, one) => sum + one, 0))
      const without = (books: Map<string, number>, other: Map<string, number>): Map<string, number> =>
        new Map([...books].filter(([id]) => !other.has(id)))
      for (let action = 0; action < 25; action++) {
        const kind = below(10)
        if (kind < 5) {
          const amounts = Array.from({ length: 1 + below(20) }, () => below(1000))
          const made = await Promise.all(amounts.map(async (amount) => [await charge(store, amount), amount] as const))
          charged = new Map([...charged, ...made])
        } else if (kind === 5) {
          const path = join(folder, `copy-${action}.db`)
          // What no upstream has seen is given back at the next start.
          if (below(2) === 0) await reserve(store.ledger, [scope('tenant', 'acme')], 77n).durable
          await backUp(file, path, { verified: below(2) === 0 })
          copies.push({ path, charged })
        } else if (kind === 6) {
          await store.close()
          store = await open(file)
        } else if (kind === 7) {
          await crash(store, folder)
          store = await open(file)
        } else if (copies.length > 0) {
          const wanted = pick(copies)
          if (kind === 8) await crash(store, folder)
          else await store.close()
          const expected = tryRestore(file, wanted.path)
          const done = await restore(file, wanted.path)
          restores++
          const [lost, gained] = [done.lost, done.gained] as [Difference, Difference]
          const [gone, back] = [without(charged, wanted.charged), without(wanted.charged, charged)]
          const name = `history ${history}, action ${action}`
          if (lost.charges !== gone.size || lost.amount !== sumOf(gone)) t.same(lost, [gone.size, sumOf(gone)], name)
          if (gained.charges !== back.size || gained.amount !== sumOf(back))
            t.same(gained, [back.size, sumOf(back)], name)
          const { lost: expectedLost } = expected
          if ((expectedLost as Difference).amount !== lost.amount) t.same(expectedLost, lost, `${name}, by a dry run`)
          copies.push({ path: join(done.aside!, 'sluice.db'), charged })
          charged = wanted.charged
          for (let starts = 1 + below(3); starts > 0; starts--) {
            store = await open(file)
            if (posted(file) !== sumOf(charged)) t.equal(posted(file), sumOf(charged), name)
            if (starts > 1) await store.close()
          }
        }
      }
      await store.close()
      if (posted(file) !== sumOf(charged)) t.equal(posted(file), sumOf(charged), `history ${history}`)
      t.same(new Set(idsIn(file)), new Set(charged.keys()), `history ${history}: the journal has what was charged`)
      t.same(verify(file), [], `history ${history}: the book is in order`)
      const owner = Ownership.take(file)
      t.equal(planRepair(file), undefined, 'and a repair finds nothing to mix in')
      owner.release()
    }
    t.comment(`${histories} histories, ${restores} restores`)
    t.ok(restores > 0)
  }
)

/** A store with three charges, a backup of it, and then more of everything. */
async function grown(folder: string): Promise<{ file: string; backup: string }> {
  const file = join(folder, 'sluice.db')
  const backup = join(folder, 'backup.db')
  const store = await open(file)
  for (let i = 0; i < 3; i++) await charge(store, 7)
  await store.documents.change([changeOf(keys, 'old', { name: 'old' })], { action: 'key.create' })
  await backUp(file, backup, { verified: true })
  await store.documents.change([changeOf(keys, 'old', { name: 'changed' }), changeOf(keys, 'new', { name: 'new' })], {
    action: 'key.change'
  })
  for (let i = 0; i < 2; i++) await charge(store, 100)
  await store.close()
  return { file, backup }
}

t.test('a restore says what is lost, puts all files aside, and brings them back by the same command', async (t) => {
  const folder = t.testdir()
  const { file, backup } = await grown(folder)
  mkdirSync(`${file}.results`)
  writeFileSync(join(`${file}.results`, 'picture'), 'pixels')
  const before = filesOf(folder)
  const lost = {
    requests: 2,
    entries: 2,
    charges: 2,
    amount: 200n,
    tasks: 0,
    documents: { key: 2 },
    audits: 1
  }
  t.match(tryRestore(file, backup), { lost, aside: null, entries: 3 })
  t.same(filesOf(folder), before, 'a dry run changes nothing')
  const { aside, ...done } = await restore(file, backup, { now: noon })
  t.match(done, { lost, gained: { charges: 0, documents: { key: 2 }, newest: null }, breaches: 0 })
  t.equal(aside, `${file}.replaced-2026-11-21T12-00-00-000Z`)
  t.equal(statSync(aside!).mode & 0o777, 0o700)
  for (const [path, content] of Object.entries(before)) {
    const now = path.startsWith(file) ? join(aside!, path.slice(folder.length + 1)) : path
    t.equal(readFileSync(now).toString('base64'), content, `${basename(path)} is as it was`)
  }
  t.same(
    readdirSync(folder).sort(),
    ['backup.db', 'sluice.db', 'sluice.db.lock', basename(aside!)].sort(),
    'and nothing else is left'
  )
  for (let starts = 0; starts < 3; starts++) {
    const store = await open(file)
    t.same(store.documents.all(keys), [{ name: 'old' }])
    await store.close()
    t.equal(posted(file), 21n)
  }
  const back = await restore(file, join(aside!, 'sluice.db'), { now: noon })
  t.match(back, { lost: { charges: 0, entries: 0 }, gained: { charges: 2, amount: 200n } })
  t.not(back.aside, aside, 'a second folder of the same moment has another name')
  await (await open(file)).close()
  t.equal(posted(file), 221n)
  t.same(verify(file), [])
})

t.test('a store that is damaged, empty or missing is replaced, and one that is in use is not', async (t) => {
  const folder = t.testdir()
  const { file, backup } = await grown(folder)
  const store = await open(file)
  await t.rejects(restore(file, backup), { name: 'StoreInUse', message: /in use by process \d+ .*: stop that process/ })
  t.match(tryRestore(file, backup), { lost: { charges: 2 } }, 'a dry run goes beside it')
  await store.close()
  truncateSync(file, 20_000)
  t.match(await restore(file, backup, { now: noon }), { lost: /^cannot be told: / })
  t.equal(posted(file), 21n)
  const none = join(folder, 'new', 'sluice.db')
  t.match(await restore(none, backup), { lost: undefined, aside: null })
  t.equal(posted(none), 21n)
  for (const path of [file, none]) {
    await (await open(path)).close()
    t.same(verify(path), [])
  }
})

t.test('what is no backup, is damaged or of another store is refused, and nothing changes', async (t) => {
  const folder = t.testdir({ 'text.db': 'by no means a database', 'empty.db': '' })
  const { file, backup } = await grown(folder)
  const other = join(folder, 'other.db')
  const stranger = await open(other)
  await charge(stranger, 1)
  await stranger.close()
  const bent = (name: string, bend: (path: string) => void): string => {
    const path = join(folder, name)
    cpSync(backup, path)
    bend(path)
    return path
  }
  const sql = (text: string) => (path: string) => {
    const database = openDatabase(path, 'process')
    database.exec(text)
    database.close()
  }
  const cut = bent('cut.db', (path) => truncateSync(path, statSync(path).size - 16_384))
  const noise = bent('noise.db', (path) => {
    const bytes = readFileSync(path)
    bytes.fill(0xa5, bytes.length - 20_000, bytes.length - 12_000)
    writeFileSync(path, bytes)
  })
  const changed = bent('changed.db', sql("UPDATE document SET json = '{}' WHERE kind = 'key'"))
  const newer = bent('newer.db', sql('INSERT INTO schema_migrations VALUES (1000, 0)'))
  const refused: [string, RegExp][] = [
    [join(folder, 'none.db'), /^there is no file .*none\.db$/],
    [file, /is the store itself: give a backup/],
    [join(folder, 'text.db'), /text\.db cannot be restored: .*not a database/],
    [join(folder, 'empty.db'), /empty\.db cannot be restored: .*no such table/],
    [cut, /cut\.db cannot be restored: .*(?:malformed|I17|disk image)/],
    [noise, /noise\.db cannot be restored: .*(?:malformed|I17|disk image|I10)/],
    [changed, /changed\.db cannot be restored: .*I16 document key old is not what was written/],
    [newer, /newer\.db has schema version 1000 .*use the newer program/],
    [other, /other\.db is of another store \([0-9a-f]{16}\) than .*sluice\.db .*--foreign/]
  ]
  const before = filesOf(folder)
  for (const [path, message] of refused) {
    await t.rejects(restore(file, path), { message }, basename(path))
    t.throws(() => tryRestore(file, path), { message }, `${basename(path)}, by a dry run`)
  }
  t.same(filesOf(folder), before)
  t.match(await restore(file, other, { foreign: true }), { lost: { charges: 5 }, gained: { charges: 1 } })
  t.equal(posted(file), 1n)
})

t.test('a backup of an earlier version comes back as a store of this one', async (t) => {
  const folder = t.testdir()
  const { file, backup } = await grown(folder)
  rewind(backup, 7)
  t.match(await restore(file, backup), { entries: 3, lost: { charges: 2 } })
  t.same(verify(file), [])
  await (await open(file)).close()
  t.equal(posted(file), 21n)
})

t.test('a full disk, or one that fails, leaves the store as it was, and nothing else', { skip: noDisk }, async (t) => {
  for (const writes of ['ENOSPC', 'EIO'] as const) {
    const folder = join(t.testdir(), writes)
    mkdirSync(folder)
    const { file, backup } = await grown(folder)
    rmSync(`${file}.lock`)
    const before = filesOf(folder)
    const disk = Disk.make(t, `${file}.restor`)
    for (const trouble of [{ writes }, { writes, oneIn: 3 }, { syncs: 'EIO' }] as const) {
      disk.set(trouble)
      const ended = await sluice(['ledger', 'restore', backup, '--db', file], { env: disk.env, alone: true })
      t.match(ended, { code: Number, out: '' }, JSON.stringify(trouble))
      t.match(ended.err, /could not be copied: .*, as the disk (?:is full|fails) .*\. Nothing was changed/)
      t.not(ended.code, 0)
      t.ok(disk.calls.failed > 0)
      const now = Object.entries(filesOf(folder)).filter(([path]) => !path.includes('disk-of-'))
      t.same(Object.fromEntries(now), before, JSON.stringify(trouble))
    }
    disk.set()
    t.match(await sluice(['ledger', 'restore', backup, '--db', file]), { code: 0 })
    t.equal(posted(file), 21n)
  }
})

/** Runs a restore that ends at a step. Returns what it printed, or undefined when it was killed. */
async function killed(file: string, backup: string, step: number, chance?: number): Promise<string | undefined> {
  const script = join(import.meta.dirname, '../../../../chaos/restoring.ts')
  const more = chance === undefined ? [] : [String(chance)]
  const child = spawn(process.execPath, [script, file, backup, String(step), ...more], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  let out = ''
  child.stdout.on('data', (bytes: Buffer) => (out += bytes.toString()))
  const [, signal] = (await once(child, 'close')) as [number | null, string | null]
  return signal === 'SIGKILL' ? undefined : out
}

async function killedAt(t: Test, folder: string, steps: Iterable<number>, chance?: number): Promise<Set<bigint>> {
  const seen = new Set<bigint>()
  for (const step of steps) {
    const place = join(folder, 'place')
    cpSync(join(folder, 'start'), place, { recursive: true })
    const file = join(place, 'sluice.db')
    const name = `step ${step}${chance === undefined ? '' : ', without power'}`
    t.equal(
      await killed(file, join(folder, 'backup.db'), step, chance === undefined ? undefined : chance + step),
      undefined,
      name
    )
    const said: string[] = []
    const log = { info: () => {}, warn: (text: string) => void said.push(text), error: () => {}, debug: () => {} }
    const store = await openStore({
      file,
      durability: 'process',
      form: 'database',
      log: { ...log, flush: async () => {} } as never
    })
    await store.close()
    const now = posted(file)
    seen.add(now)
    t.ok(now === 21n || now === 221n, `${name}: ${now} are charged`)
    const aside = readdirSync(place).find(
      (one) => one.includes('.replaced-') && readdirSync(join(place, one)).length > 0
    )
    if (now === 21n) t.equal(posted(join(place, aside!, 'sluice.db')), 221n, `${name}: what was there is aside`)
    else t.equal(aside, undefined, `${name}: nothing was put aside`)
    t.same(verify(file), [], name)
    t.same(
      readdirSync(place).filter((one) => /restor/.test(one)),
      [],
      `${name}: nothing is left (${said.join()})`
    )
    rmSync(place, { recursive: true })
  }
  return seen
}

t.test('killed at any step, and without power at any, the next start has the old store or the new one', async (t) => {
  const folder = t.testdir()
  mkdirSync(join(folder, 'start'))
  const { backup } = await grown(join(folder, 'start'))
  cpSync(backup, join(folder, 'backup.db'))
  rmSync(backup)
  cpSync(join(folder, 'start'), join(folder, 'place'), { recursive: true })
  const { steps } = JSON.parse((await killed(join(folder, 'place/sluice.db'), join(folder, 'backup.db'), 0))!) as {
    steps: number
  }
  rmSync(join(folder, 'place'), { recursive: true })
  t.ok(steps > 20, `${steps} steps`)
  const all = Array.from({ length: steps }, (_, at) => at + 1)
  // The last steps move files; those before make the copy, which is nobody's yet.
  const some = all.filter((at) => at > steps - 24)
  const seen = new Set([
    ...(await killedAt(t, folder, long ? all : some.filter((at) => at % 2 === 0))),
    ...(await killedAt(t, folder, long ? all : some.filter((at) => at % 2 === 1), seed))
  ])
  t.equal(seen.size, 2, 'both were seen')
  t.notOk(existsSync(join(folder, 'place')))
})
