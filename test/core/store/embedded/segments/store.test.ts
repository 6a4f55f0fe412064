// A store whose journal is in segments: what its database is worth, what a start refuses, and what `verify` sees.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { planRepair, repair } from '../../../../../core/store/embedded/care/repair.ts'
import { verify } from '../../../../../core/store/embedded/care/verify/verify.ts'
import { openDatabase } from '../../../../../core/store/embedded/files/sqlite.ts'
import { volumeFolder } from '../../../../../core/store/embedded/journal/volume.ts'
import { listNumbered, pathOf } from '../../../../../core/store/embedded/segments/folder.ts'
import { openStore } from '../../../../../core/store/embedded/store.ts'
import type { OwnStore } from '../../../../../core/store/embedded/store.ts'
import { createLogger } from '../../../../../core/telling/log.ts'
import type { Logger } from '../../../../../core/telling/log.ts'
import { chance } from '../../../../kit/chance.ts'
import { eventually } from '../../../../kit/probe.ts'
import { begunIn, forms, image } from '../forms.ts'
import { query, record, reserve, scope, settle, used } from '../sample.ts'
import { capture } from './captured.ts'

t.setTimeout(300_000)

const scopes = [scope('tenant', 'acme', 10n ** 12n, 'month'), scope('key', 'laptop')]

function open(file: string, log?: Logger): Promise<OwnStore> {
  return openStore({ file, durability: 'process', ...forms.journal.options, ...(log && { log }) })
}

async function charge(store: OwnStore, count: number): Promise<void> {
  for (let i = 0; i < count; i++) await settle(store, reserve(store.ledger, scopes, 1000n), 7)
}

/** Makes enough requests for some volumes, and waits for those. Returns how many it made. */
async function fill(store: OwnStore, file: string, volumes: number): Promise<number> {
  let made = 0
  // A segment ends when the next one is ready, which takes as long as the disk takes.
  for (; made < 800 || begunIn(file) < volumes + 2; made += 100) {
    await Promise.all(Array.from({ length: 100 }, () => settle(store, reserve(store.ledger, scopes, 1000n), 7)))
    await store.flush()
  }
  await eventually(() => listNumbered(volumeFolder(file)).filter(({ kind }) => kind === 'volume').length >= volumes)
  return made
}

function kinds(file: string): string[] {
  return [...new Set(listNumbered(volumeFolder(file)).map(({ kind }) => kind))].sort()
}

/** All that a database says which follows from the journal. */
function said(file: string): object {
  const tables = ['balance', 'journal', 'reservation', 'price', 'request', 'document', 'work', 'spend_hour', 'boot']
  const present = new Set(query(file, "SELECT name FROM sqlite_schema WHERE type = 'table'").map(({ name }) => name))
  return Object.fromEntries(
    tables.flatMap((name) => {
      const columns = name === 'request' ? 'seq, request_id, tenant, key, model, time, written, json' : '*'
      return present.has(name) ? [[name, query(file, `SELECT ${columns} FROM ${name} ORDER BY 1, 2`)]] : []
    })
  )
}

t.test('a database that is gone is made anew from the journal, also from volumes, and says the same', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  await capture(file, chance(7), 3, 150, forms.journal.options)
  const store = await open(file)
  await fill(store, file, 1)
  await store.close()
  t.same(kinds(file), ['checkpoint', 'segment', 'volume'])
  const [before, breaches] = [said(file), verify(file)]
  t.ok(
    breaches.every(({ invariant }) => invariant === 'I8'),
    'the schedule writes no records of its parts'
  )
  for (const { kind, number, path } of listNumbered(volumeFolder(file)))
    if (kind === 'segment' && existsSync(pathOf(volumeFolder(file), 'volume', number))) rmSync(path)
  for (const ending of ['', '-wal', '-shm']) rmSync(`${file}${ending}`, { force: true })
  await (await open(file)).close()
  t.same(said(file), before)
  t.same(verify(file), breaches)
})

t.test('a database that is behind is brought up to date, and one that is ahead stops the start', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await open(file)
  await charge(store, 3)
  await store.flush()
  const early = image(file)
  await charge(store, 3)
  await store.close()
  const late = image(file)
  for (const name of readdirSync(volumeFolder(late)))
    cpSync(join(volumeFolder(late), name), join(volumeFolder(early), name))
  await (await open(early)).close()
  t.same(verify(early), [])
  t.match(query(early, 'SELECT count(*) AS n FROM journal'), [{ n: 6n }])

  const [last] = listNumbered(volumeFolder(late)).filter(({ kind }) => kind === 'segment')
  const wreck = image(late)
  rmSync(join(volumeFolder(wreck), basename(last!.path)))
  const { base, loss } = planRepair(wreck)!
  t.equal(base, 'mended', 'a journal without its only segment')
  t.match(loss, { gaps: [{ first: 1, until: undefined }], entries: 6 }, 'of which a checkpoint knows what it had')

  rmSync(volumeFolder(late), { recursive: true })
  await t.rejects(open(late), { message: /is made of the journal in .*, which is missing/ })
})

t.test('a store goes on in the form that it has', async (t) => {
  const folder = t.testdir()
  const [log, journal] = [join(folder, 'log.db'), join(folder, 'journal.db')]
  const store = await openStore({ file: log, durability: 'process' })
  await charge(store, 2)
  await store.close()
  const other = await open(journal)
  await charge(other, 2)
  await other.close()
  const again = await openStore({ file: journal, durability: 'process' })
  await charge(again, 2)
  await again.close()
  t.notOk(existsSync(`${journal}.log0`))
  t.match(query(journal, 'SELECT count(*) AS n FROM journal'), [{ n: 4n }])
  for (const file of [log, journal]) t.same(verify(file), [])
})

t.test('a store that was killed before its journal began goes on in its form', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  await (await open(file)).close()
  // A start removes the segments that have not begun, and may be killed while it makes the next one.
  for (const { path } of listNumbered(volumeFolder(file))) rmSync(path)
  const store = await openStore({ file, durability: 'process' })
  await charge(store, 2)
  await store.close()
  t.match(query(file, 'SELECT count(*) AS n FROM journal'), [{ n: 2n }])
  t.notOk(existsSync(`${file}.log0`))
  t.same(verify(file), [])
})

t.test('a database of a copy that went on by itself, or that is damaged, is named with what to do', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await open(file)
  await charge(store, 2)
  await store.close()
  const copy = image(file)
  for (const path of [file, copy]) {
    const again = await open(path)
    await charge(again, 3)
    await again.close()
  }
  for (const name of ['', '-wal']) {
    rmSync(`${file}${name}`, { force: true })
    if (existsSync(`${copy}${name}`)) cpSync(`${copy}${name}`, `${file}${name}`)
  }
  const remedy = /run `sluice ledger repair --apply`, which puts it aside and makes it anew/
  await t.rejects(open(file), { message: /of history .*, which the journal does not have/ })
  await t.rejects(open(file), { message: remedy })
  const bytes = readFileSync(file)
  writeFileSync(file, bytes.fill(7, 0, 4096))
  await t.rejects(open(file), { message: remedy })
  const plan = planRepair(file)!
  t.match(plan, { base: 'anew', lost: [], saved: { charges: 5, amount: 35n }, aside: [file] })
  const folder = repair(file, plan, Date.now())
  t.ok(existsSync(join(folder, basename(file))))
  t.equal(planRepair(file), undefined, 'nothing is wrong any more')
  t.same(verify(file), [])
  await (await open(file)).close()
  t.same(verify(file), [])
  t.match(query(file, 'SELECT count(*) AS n FROM journal'), [{ n: 5n }])
})

/** Changes one file of a store and checks what is reported of that. */
function tamper(t: Test, file: string, change: (copy: string) => void, invariant: string, says: RegExp): void {
  const copy = image(file)
  change(copy)
  const found = verify(copy).filter((breach) => breach.invariant === invariant)
  t.ok(
    found.some(({ row, message }) => says.test(`${row} ${message}`)),
    `${says} in ${JSON.stringify(found)}`
  )
  rmSync(dirname(copy), { recursive: true })
}

t.test('verify compares volumes, checkpoints and the database with each other', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await open(file)
  await fill(store, file, 2)
  await store.close()
  t.same(verify(file), [])
  const flip = (kind: string) => (copy: string) => {
    const { path } = listNumbered(volumeFolder(copy)).find((one) => one.kind === kind)!
    const bytes = readFileSync(path)
    bytes[Math.floor(bytes.length / 2)]! ^= 1
    writeFileSync(path, bytes)
  }
  tamper(t, file, flip('volume'), 'I18', /volume-0+1 /)
  tamper(t, file, flip('checkpoint'), 'I18', /checkpoint-\d+ .*SHA-256/)
  const edit = (sql: string) => (copy: string) => {
    const database = openDatabase(copy, 'process')
    database.exec(sql)
    database.close()
  }
  const shifted = "UPDATE balance SET posted = posted + 1 WHERE scope = 'key:laptop'"
  tamper(t, file, edit(shifted), 'I1', /balance key:laptop total has \d+ posted where the segments make/)
})

t.test('a volume that cannot be made is told of, tried again, and nothing is lost', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const lines: { msg: string }[] = []
  const log = createLogger({ write: (line) => lines.push(JSON.parse(line) as { msg: string }) })
  const store = await open(file, log)
  // A folder stands where the volume is to be written.
  const block = `${pathOf(volumeFolder(file), 'volume', 1)}.part`
  mkdirSync(block)
  const made = await fill(store, file, 0)
  await eventually(() => lines.some(({ msg }) => msg.startsWith('the journal cannot be put away')), 60_000)
  t.match(store.health(), { healthy: true, troubles: [{ ailment: 'keeping', refuses: false }] })
  await charge(store, 1)
  rmSync(block, { recursive: true })
  await eventually(() => lines.some(({ msg }) => msg === 'the journal is put away again'), 60_000)
  await store.close()
  t.same(verify(file), [])
  t.match(query(file, 'SELECT count(*) AS n FROM journal'), [{ n: BigInt(made) + 1n }])
})

t.test('a store that is closed again is closed', async (t) => {
  for (const { name, options } of Object.values(forms)) {
    const store = await openStore({ file: join(t.testdir(), `${name}.db`), durability: 'process', ...options })
    await charge(store, 1)
    await Promise.all([store.close(), store.close()])
    await t.resolves(store.close(), name)
  }
})

t.test('the record of a session is compared with all of its parts, in whatever order their ends come', async (t) => {
  const orders = [
    'part end record',
    'part record end',
    'end part record',
    'end record part',
    'record part end',
    'record end part'
  ]
  for (const { name, options } of Object.values(forms)) {
    const file = join(t.testdir(), `${name}.db`)
    const store = await openStore({ file, durability: 'process', ...options })
    for (const cost of [17n, 9n, 8n])
      for (const order of orders) {
        const requestId = `${order} ${cost}`
        const end = reserve(store.ledger, scopes, 50n, { requestId })
        const part = reserve(store.ledger, scopes, 50n, { requestId, part: 'one' })
        const amounts = { end: [end, 9n], part: [part, 8n] } as const
        for (const what of order.split(' '))
          if (what === 'record')
            store.requests.append(record({ request_id: requestId, cost_nano: String(cost), cost_usd: '0' }))
          else {
            const [reservation, amount] = amounts[what as 'end' | 'part']
            await reservation.settle({ usage: used(Number(amount)), amount, source: 'upstream', channel: 'openai' })
          }
        await store.flush()
      }
    await store.close()
    const wrong = orders.flatMap((order) => [9, 8].map((cost) => `I8 request ${order} ${cost}`))
    t.same(
      verify(file)
        .map(({ invariant, row }) => `${invariant} ${row}`)
        .sort(),
      wrong.sort(),
      name
    )
  }
})
