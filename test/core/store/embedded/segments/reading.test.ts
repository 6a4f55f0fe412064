// What is read of a journal in segments: entries and holds are in it alone, whoever asks for them gets all of them, and
// `verify` sees what the database says otherwise, and what the journal says twice.
import { randomBytes } from 'node:crypto'
import { dirname, join } from 'node:path'
import { rmSync } from 'node:fs'
import t from 'tap'
import type { Test } from 'tap'
import { LedgerFile } from '../../../../../core/store/embedded/care/ledger-file.ts'
import { repairSpend } from '../../../../../core/store/embedded/care/repair.ts'
import { verify } from '../../../../../core/store/embedded/care/verify/verify.ts'
import { openDatabase } from '../../../../../core/store/embedded/files/sqlite.ts'
import { volumeFolder } from '../../../../../core/store/embedded/journal/volume.ts'
import { emptyBatch, entryColumns, recordValues } from '../../../../../core/store/embedded/rows/batch.ts'
import type { Batch } from '../../../../../core/store/embedded/rows/batch.ts'
import { FirstSegment } from '../../../../../core/store/embedded/segments/first-segment.ts'
import { listNumbered } from '../../../../../core/store/embedded/segments/folder.ts'
import { openJournal } from '../../../../../core/store/embedded/segments/state.ts'
import type { RequestRecord } from '../../../../../core/store/requests.ts'
import { openStore } from '../../../../../core/store/embedded/store.ts'
import type { OwnStore } from '../../../../../core/store/embedded/store.ts'
import { eventually } from '../../../../kit/probe.ts'
import { begunIn, forms, image } from '../forms.ts'
import { giveBack, noon, query, record, reserve, scope, settle } from '../sample.ts'

t.setTimeout(300_000)

const scopes = [scope('tenant', 'acme', 10n ** 12n, 'month'), scope('key', 'laptop')]

function open(file: string): Promise<OwnStore> {
  return openStore({ file, durability: 'process', now: () => noon, ...forms.journal.options })
}

/** A store with some volumes, frames behind them, and a hold that is open. */
async function filled(t: Test): Promise<string> {
  const file = join(t.testdir(), 'sluice.db')
  const store = await open(file)
  const volumes = (): number => listNumbered(volumeFolder(file)).filter(({ kind }) => kind === 'volume').length
  for (let made = 0; made < 800 || begunIn(file) < 4; made += 100) {
    const held = Array.from({ length: 100 }, () => reserve(store.ledger, scopes, 1000n))
    await Promise.all(held.map((one, i) => (i % 10 === 0 ? giveBack(store, one) : settle(store, one, 7))))
    await store.flush()
  }
  await eventually(() => volumes() >= 2, 60_000)
  await reserve(store.ledger, scopes, 500n).durable
  await store.flush()
  const copy = image(file)
  await store.close()
  return copy
}

/** Adds a batch behind all that a journal has. */
function append(file: string, fill: (batch: Batch) => void): void {
  const folder = volumeFolder(file)
  const { fold, ordinal } = openJournal(folder, file, 'process')
  const { batch: after, boot, history: previous, written } = fold.place
  const head = { ordinal, boot: boot + 1, history: randomBytes(8).toString('hex'), previous, after }
  const segment = new FirstSegment(folder, head, 'process')
  const batch = emptyBatch(after + 1, written)
  fill(batch)
  segment.append(batch)
  segment.close()
}

t.test('entries and holds are in the journal alone, and are read from any of them on', async (t) => {
  const file = await filled(t)
  t.match(query(file, 'SELECT (SELECT count(*) FROM main.journal) + (SELECT count(*) FROM main.reservation) AS n'), [
    { n: 0n }
  ])
  t.same(query(file, 'SELECT amount FROM reservation'), [{ amount: 500n }])
  const ledger = new LedgerFile(file)
  const all = [...ledger.entries()]
  t.equal(all.length, ledger.last)
  t.same(
    all.map(({ seq }) => seq),
    all.map((_, i) => i + 1)
  )
  for (const after of [0, 1, 399, all.length - 2, all.length]) {
    const behind = [...ledger.entries({ after })]
    t.same(behind, all.slice(after), `those behind ${after}`)
  }
  t.same([...ledger.entries({ scope: 'key:other' })], [])
  t.same([...ledger.entries({ until: noon })], [])
  t.equal([...ledger.entries({ since: noon, scope: 'key:laptop' })].length, all.length)
  for (const seq of [1, 2, 500, all.length]) t.equal(ledger.hashAt(seq), all[seq - 1]!.hash)
  t.same([ledger.hashAt(0), ledger.hashAt(all.length + 1)], [undefined, undefined])
  const charged = all.reduce((sum, { amount }) => sum + amount, 0n)
  t.match(ledger.balances(noon), [
    { scope: 'key:laptop', window: 'total', posted: charged, pending: 500n },
    { scope: 'tenant:acme', window: '2026-11', limit: 10n ** 12n, posted: charged, pending: 500n }
  ])
  ledger.close()
  t.same(verify(file), [])

  const database = openDatabase(file, 'process')
  database.exec('UPDATE spend_day SET charge = charge + 1')
  database.close()
  t.match(verify(file), [{ invariant: 'I19' }])
  repairSpend(file)
  t.same(verify(file), [])
})

t.test('verify compares every record of the database with the journal, and every end with its record', async (t) => {
  const file = await filled(t)
  const after = (change: (copy: string) => void): string[] => {
    const copy = image(file)
    change(copy)
    const found = verify(copy).map(({ invariant, row, message }) => `${invariant} ${row} ${message}`)
    rmSync(dirname(copy), { recursive: true })
    return found
  }
  const edit = (sql: string) => (copy: string) => {
    const database = openDatabase(copy, 'process')
    database.exec(sql)
    database.close()
  }
  const [{ id, next, late }] = query(
    file,
    'SELECT (SELECT request_id FROM request WHERE seq = 30) AS id, (SELECT request_id FROM request WHERE seq = 31) AS next, max(seq) AS late FROM request'
  ) as [{ id: string; next: string; late: bigint }]
  t.match(after(edit("UPDATE request SET model = 'other' WHERE seq = 30")), [
    `I16 request ${id} is not what the journal has`
  ])
  t.match(after(edit('UPDATE request SET written = written + 1 WHERE seq = 30')), [
    `I16 request ${id} is not what the journal has`
  ])
  const [{ json: place }] = query(file, 'SELECT json FROM request WHERE seq = 30') as [{ json: string }]
  const [ordinal, batch, begins, index] = place.split('.').map(Number) as [number, number, number, number]
  for (const other of [
    [ordinal + 1, batch, begins, index],
    [ordinal, batch + 1, begins, index],
    [ordinal, batch, begins + 1, index],
    [ordinal, batch, begins, index + 1]
  ])
    t.match(after(edit(`UPDATE request SET json = '${other.join('.')}' WHERE seq = 30`)), [
      `I16 request ${id} is not what the journal has`
    ])
  t.has(after(edit('DELETE FROM request WHERE seq = 30')), [`I16 request ${id} is missing in the database`])
  t.has(after(edit(`UPDATE request SET request_id = 'strange' WHERE seq = 30`)), [
    `I16 request ${id} is missing in the database`,
    `I16 request strange is not in the journal`
  ])
  t.has(
    after(
      edit(
        `INSERT INTO request SELECT ${late} + 1, 'more', tenant, key, model, time, written, json, crc FROM request WHERE seq = 31`
      )
    ),
    ['I16 request more is not in the journal']
  )
  t.match(next, /-/)

  const [first] = new LedgerFile(file).entries()
  const again = (batch: Batch): void => {
    const [row] = query(file, 'SELECT * FROM journal WHERE seq = 1') as [Record<string, never>]
    batch.entries.push(...entryColumns.map((name) => (name === 'ts_ms' ? Number(row[name]) : row[name]!)))
  }
  t.ok(
    after((copy) => append(copy, again)).includes(`I3 journal ${first!.requestId} ends 2 times`),
    'an end that an earlier volume has'
  )
  const free = recordValues(record({ request_id: 'free' }))
  const dear = recordValues(record({ request_id: 'dear', cost_nano: '5', cost_usd: '0.000000005' }))
  t.match(
    after((copy) => append(copy, ({ records }) => void records.push(...free, ...dear))),
    ['I8 request dear says 5 where the journal has nothing']
  )
  const unrecorded = (batch: Batch): void => {
    again(batch)
    batch.entries[entryColumns.indexOf('request_id')] = 'silent'
  }
  t.match(
    after((copy) => append(copy, unrecorded)),
    [/^I8 journal \d+ silent has no request record/]
  )
})

t.test('records are in the frames alone, and are read from there, sealed or not', async (t) => {
  const file = await filled(t)
  const more = "json GLOB '[[{]*' OR typeof(request_id) <> 'blob' OR coalesce(tenant, key, model) IS NOT NULL"
  t.match(query(file, `SELECT count(*) AS n FROM main.request WHERE ${more}`), [{ n: 0n }])
  const store = await open(file)
  const found: RequestRecord[] = []
  let cursor: string | undefined
  do {
    const { data, next } = await store.requests.list({ limit: 300, ...(cursor !== undefined && { cursor }) })
    found.push(...data)
    cursor = next ?? undefined
  } while (cursor !== undefined)
  const charged = new Map([...new LedgerFile(file).entries()].map(({ requestId, amount }) => [requestId, amount]))
  t.equal(found.length, charged.size - 1 + 1, 'one for each end, and one of the hold that this start has ended')
  t.same(
    found.filter(({ request_id: id, cost_nano: cost }) => charged.get(id) !== BigInt(cost)),
    []
  )
  for (const one of [found[0]!, found[500]!, found.at(-1)!])
    t.match((await store.requests.list({ request_id: one.request_id, limit: 1 })).data, [one])
  await store.close()
  for (const ending of ['', '-wal', '-shm']) rmSync(`${file}${ending}`, { force: true })
  const anew = await open(file)
  t.same((await anew.requests.list({ limit: 300 })).data, found.slice(0, 300), 'also where the database is made anew')
  await anew.close()
  t.same(verify(file), [])
})
