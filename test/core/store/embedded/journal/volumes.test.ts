// The journal's oldest entries, sealed in files beside the database: what is in them, who reads them, and what is said
// when one is wrong.
import { createHash } from 'node:crypto'
import fs, { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import t from 'tap'
import type { Test } from 'tap'
import { Committer } from '../../../../../core/store/embedded/database/committer.ts'
import { Sealing } from '../../../../../core/store/embedded/upkeep/sealing.ts'
import { LedgerFile } from '../../../../../core/store/embedded/care/ledger-file.ts'
import { openDatabase } from '../../../../../core/store/embedded/files/sqlite.ts'
import { openStore } from '../../../../../core/store/embedded/store.ts'
import { costOf } from '../../../../../core/money/price.ts'
import type { Store } from '../../../../../core/store/store.ts'
import { verify } from '../../../../../core/store/embedded/care/verify/verify.ts'
import { createLogger } from '../../../../../core/telling/log.ts'
import { eventually } from '../../../../kit/probe.ts'
import { forms, image } from '../forms.ts'
import { noon, price, query, reserve, scope, settle, used } from '../sample.ts'

t.setTimeout(600_000)

const day = 86_400_000
const ever = { age: 1e6 * day, size: 2 ** 50 }
const forever = { requests: ever, journal: { ...ever, rows: 200 }, patience: 0 }
/** About 400 entries stay, and the others go 200 at a time. */
const rolled = { ...forever, journal: { age: ever.age, size: 172_000, rows: 200 } }
const scopes = [scope('tenant', 'acme', 10n ** 12n, 'month'), scope('key', 'laptop')]

/** That many requests, charged and recorded, and in the database. */
async function serve(store: Store, count: number, time = noon): Promise<void> {
  await Promise.all(Array.from({ length: count }, () => settle(store, reserve(store.ledger, scopes, 9n, { time }), 4)))
  await store.flush()
}

/** What the check of a store's file says, as `I10 volume 1-500: …`. */
const breaches = (file: string): string[] =>
  verify(file).map(({ invariant, row, message }) => `${invariant} ${row}: ${message}`)

const volumes = (file: string): string[] =>
  query(file, 'SELECT file FROM volume ORDER BY first').map((row) => join(`${file}.journal`, row['file'] as string))
const entriesIn = (file: string): number => Number(query(file, 'SELECT count(*) AS n FROM journal')[0]!['n'])

/** A store of 1000 entries, of which 600 are sealed. */
async function roll(t: Test): Promise<string> {
  const file = join(t.testdir(), 'sluice.db')
  const store = await openStore({ file, durability: 'process', form: 'database', keeping: rolled, now: () => noon })
  await serve(store, 1000)
  await eventually(() => entriesIn(file) === 400, 10_000)
  await store.close()
  return file
}

t.test(
  'the oldest entries of the journal are sealed in files, which the check of the book and the export follow',
  async (t) => {
    const lines: string[] = []
    const file = join(t.testdir(), 'sluice.db')
    const store = await openStore({
      file,
      durability: 'process',
      form: 'database',
      keeping: rolled,
      now: () => noon,
      log: createLogger({ write: (line) => lines.push(line) })
    })
    await serve(store, 400)
    const exported = (): unknown[] => {
      const ledger = new LedgerFile(file)
      const entries = [...ledger.entries()]
      ledger.close()
      return entries
    }
    const before = exported()
    t.equal(before.length, 400)
    t.same(volumes(file), [], 'below the size nothing is sealed')
    await serve(store, 600)
    await eventually(() => entriesIn(file) === 400, 10_000)
    t.same(breaches(file), [], 'beside the gateway')
    t.equal(volumes(file).length, 3)
    t.same(exported().slice(0, 400), before, 'every column, and every hash, is what it was')
    t.equal(lines.filter((line) => line.includes('a volume of the journal was sealed')).length, 3)
    await settle(store, reserve(store.ledger, scopes, 9n), 4)
    await store.close()
    t.same(breaches(file), [])
    const again = await openStore({ file, durability: 'process', form: 'database', keeping: rolled, now: () => noon })
    t.match(again.ledger.balances({ scope: 'tenant:acme' }), [{ posted: 1001n * 4n }, { posted: 1001n * 4n }])
    await again.close()
    const ledger = new LedgerFile(file)
    t.match([...ledger.entries({ scope: 'key:laptop', until: noon })], [])
    t.equal([...ledger.entries({ scope: 'key:laptop', since: noon })].length, 1001)
    t.equal([...ledger.entries({ scope: 'key:other' })].length, 0)
    ledger.close()
  }
)

t.test('entries are sealed for their age', async (t) => {
  let now = noon - 30 * day
  const keeping = { ...forever, journal: { age: 10 * day, size: ever.size, rows: 200 } }
  const file = join(t.testdir(), 'sluice.db')
  const store = await openStore({ file, durability: 'process', form: 'database', keeping, now: () => now })
  await serve(store, 500, now)
  await store.close()
  now = noon
  const again = await openStore({ file, durability: 'process', form: 'database', keeping, now: () => now })
  await serve(again, 100, now)
  await eventually(() => entriesIn(file) === 200, 10_000)
  await again.close()
  t.same(breaches(file), [])
})

t.test('a file of sealed entries that is missing or was changed is named, with what to do', async (t) => {
  const file = await roll(t)
  const [, second] = volumes(file) as [string, string, string]
  const bytes = readFileSync(second)
  rmSync(second)
  t.same(breaches(file), [
    `I10 volume 201-400: is sealed in ${second}, which is missing: bring that file back`,
    ...['I1', 'I6', 'I14'].map((name) => `${name} balance: cannot be compared, as rows of the journal are missing`),
    'I19 spend: cannot be compared, as rows of the journal are missing'
  ])
  const ledger = new LedgerFile(file)
  t.throws(() => [...ledger.entries()], {
    message: `the journal from row 201 to 400 is sealed in ${second}, which is missing: bring that file back`
  })
  t.equal([...ledger.entries({ since: noon + 1 })].length, 0, 'nobody asks for it where nothing of it is asked for')
  ledger.close()
  const flipped = Buffer.from(bytes)
  flipped[bytes.length >> 1]! ^= 1
  writeFileSync(second, flipped)
  t.match(
    breaches(file)[0],
    /^I10 volume 201-400: is sealed in .*, which was changed: its SHA-256 is [0-9a-f]{64} instead of [0-9a-f]{64}; bring the file back as it was$/
  )
  // Somebody who changes an entry, and the hash of the file in the database too.
  const forged = gzipSync(gunzipSync(bytes).toString().replace('"amount":"4"', '"amount":"3"'))
  writeFileSync(second, forged)
  const database = openDatabase(file, 'process')
  database.prepare('UPDATE volume SET sha256 = ? WHERE first = 201').run(createHash('sha256').update(forged).digest())
  t.match(breaches(file).slice(0, 3), [
    /^I4 journal 201: charges 3 /,
    /^I8 request .*: says 4 where the journal says 3$/,
    /^I10 volume 201-400: is sealed in .*, which ends with row 400 and the hash /
  ])
  writeFileSync(second, bytes)
  database.prepare('UPDATE volume SET sha256 = ? WHERE first = 201').run(createHash('sha256').update(bytes).digest())
  t.same(breaches(file), [], 'brought back')
  database.exec('DELETE FROM volume WHERE first = 201')
  t.match(breaches(file)[0], /^I10 volume 401-600: follows row 200: rows between are missing$/)
  database.close()
})

t.test('entries that belong together are found wherever they are', async (t) => {
  const file = await roll(t)
  const database = openDatabase(file, 'process')
  database.exec("UPDATE request SET json = json_set(json, '$[13]', '9') WHERE seq = 7")
  t.match(
    breaches(file).filter((breach) => breach.startsWith('I8')),
    [/^I8 request .*: says 9 where the journal says 4$/]
  )
  database.exec(
    "UPDATE request SET json = json_set(json, '$[13]', '4') WHERE seq = 7; UPDATE request SET request_id = 'other' WHERE seq = 8"
  )
  t.match(
    breaches(file).filter((breach) => breach.startsWith('I8')),
    [
      /^I8 journal 8: .* has no request record$/,
      /^I8 request: 600 records whose entries are sealed say what they cost, and 599 /
    ]
  )
  t.throws(() => database.exec('DELETE FROM journal'), /only appended to/, 'what is not sealed cannot be cut')
  database.close()
})

t.test('killed in the midst of it, or with damaged entries, nothing is sealed wrong and nothing is lost', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await openStore({ file, durability: 'process', form: 'database', now: () => noon })
  await serve(store, 1000)
  await store.close()
  mkdirSync(`${file}.journal`)
  writeFileSync(join(`${file}.journal`, '1.part'), 'what a crash left')
  const edit = (sql: string): void => {
    const database = openDatabase(file, 'process')
    database.exec(sql)
    database.close()
  }
  edit("DROP TRIGGER journal_is_not_changed; UPDATE journal SET model = 'other' WHERE seq = 300")
  const lines: string[] = []
  const log = createLogger({ write: (line) => lines.push(line) })
  const damaged = await openStore({
    file,
    durability: 'process',
    form: 'database',
    keeping: rolled,
    now: () => noon,
    log
  })
  await eventually(() => damaged.health().troubles.length > 0, 10_000)
  t.match(damaged.health(), {
    healthy: true,
    troubles: [
      { ailment: 'upkeep', cause: 'it is damaged', error: /row 300 of the journal is damaged, and not put away/ }
    ]
  })
  await settle(damaged, reserve(damaged.ledger, scopes, 9n), 4)
  await damaged.close()
  t.equal(volumes(file).length, 1)
  t.equal(entriesIn(file), 801, 'the volume before it is sealed, and no other')
  edit("UPDATE journal SET model = 'gpt-5' WHERE seq = 300")
  t.same(breaches(file), [])
})

t.test('entries that are sealed, and not yet gone from the database, are counted once', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await openStore({ file, durability: 'process', form: 'database', now: () => noon })
  await serve(store, 300)
  await store.close()
  const database = openDatabase(file, 'process')
  const sealing = new Sealing(new Committer(database), `${file}.journal`, { age: 0, size: 0, rows: 200 }, () => {})
  while (volumes(file).length === 0) sealing.slice(noon + day)
  database.close()
  t.equal(entriesIn(file), 300)
  t.same(breaches(file), [])
})

for (const { name, options } of Object.values(forms))
  t.test(`a session whose turns are sealed while it is open has them in its record (${name})`, async (t) => {
    const file = join(t.testdir(), 'sluice.db')
    const open = (of: string): Promise<Store> =>
      openStore({ file: of, durability: 'process', keeping: rolled, now: () => noon, ...options })
    const store = await open(file)
    const { requestId } = reserve(store.ledger, scopes, 0n, { streamed: true })
    const turn = async (number: number): Promise<void> => {
      const hold = reserve(store.ledger, scopes, 900n, { requestId, part: `turn ${number}` })
      await hold.settle({ usage: used(40), amount: costOf(used(40), price), source: 'upstream', channel: 'openai' })
    }
    await turn(1)
    await turn(2)
    // So many that a segment is full, whose frames say most things once.
    await serve(store, name === 'log' ? 1000 : 3000)
    await turn(3)
    await store.flush()
    // Nothing is written any more then, so that the image is that of one moment.
    if (name === 'log') await eventually(() => entriesIn(file) === 203)
    else await eventually(() => readdirSync(`${file}.journal`).some((entry) => entry.startsWith('volume-')))
    const left = image(file)
    if (name === 'log') cpSync(`${file}.journal`, `${left}.journal`, { recursive: true })
    await store.close()
    const again = await open(left)
    const { record } = (await again.requests.find(requestId))!
    t.match(record, { cost_nano: String(3n * costOf(used(40), price)), usage: used(120) })
    await again.close()
    t.same(breaches(left), [])
  })

t.test('a start reads no volume for work that goes on behind its answer, however old that is', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const open = (): Promise<Store> =>
    openStore({ file, durability: 'process', form: 'database', keeping: rolled, now: () => noon })
  const store = await open()
  await reserve(store.ledger, scopes, 900n).detach(noon + day)
  await serve(store, 1000)
  await eventually(() => entriesIn(file) < 500, 10_000)
  await store.close()
  const { readFileSync: read } = fs
  const found: string[] = []
  fs.readFileSync = ((path: string, ...options: []) => {
    if (String(path).endsWith('.jsonl.gz')) found.push(path)
    return read(path, ...options)
  }) as typeof read
  syncBuiltinESMExports()
  t.teardown(() => {
    fs.readFileSync = read
    syncBuiltinESMExports()
  })
  await (await open()).close()
  t.same(found, [])
})
