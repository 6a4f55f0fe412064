// The check of the book: it finds nothing in an honest one, and names the row when somebody changed one.
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { changeOf, documentKind } from '../../../../../../core/store/documents.ts'
import { invariants } from '../../../../../../core/store/embedded/care/verify/invariants.ts'
import { openDatabase } from '../../../../../../core/store/embedded/files/sqlite.ts'
import { openStore } from '../../../../../../core/store/embedded/store.ts'
import { repairTraffic } from '../../../../../../core/store/embedded/care/repair.ts'
import { verify } from '../../../../../../core/store/embedded/care/verify/verify.ts'
import { giveBack, noon, query, record, reserve, scope, settle, used } from '../../sample.ts'
import { eventually } from '../../../../../kit/probe.ts'

const folder = t.testdir()
const honest = join(folder, 'honest.db')

t.before(async () => {
  const store = await openStore({ file: honest, durability: 'process', form: 'database', now: () => noon })
  const scopes = [scope('tenant', 'acme', 1000n, 'month'), scope('key', 'laptop')]
  for (const output of [10, 20, 30])
    await settle(store, reserve(store.ledger, scopes, 50n, { requestId: `r${output}` }), output)
  await giveBack(store, reserve(store.ledger, scopes, 50n, { requestId: 'r40' }))
  store.requests.append(record({ request_id: 'refused', outcome: 'rejected', status: 401 }))
  const things = documentKind('thing')
  await store.documents.change([changeOf(things, 'one', { budget: 5 }), changeOf(things, 'two', { revoked: 1 })], {
    action: 'make'
  })
  await store.documents.change([changeOf(things, 'two', { revoked: 2 })], { action: 'revoke' })
  await store.close()
})

/** What the check says of a copy in which the SQL was run, as `I1 balance key:laptop total`. */
function after(t: { testdir(): string }, sql: string): string[] {
  const file = join(t.testdir(), 'copy.db')
  cpSync(honest, file)
  const database = openDatabase(file, 'process')
  database.exec(
    'PRAGMA foreign_keys = OFF; DROP TRIGGER journal_is_not_changed; DROP TRIGGER journal_is_not_cut; DROP TRIGGER audit_is_not_changed; DROP TRIGGER audit_is_not_cut'
  )
  database.exec(sql)
  database.close()
  return verify(file).map(({ invariant, row }) => `${invariant} ${row}`)
}

t.test('an honest book has nothing to report, also while its gateway runs', async (t) => {
  t.same(verify(honest), [])
  const file = join(t.testdir(), 'running.db')
  const store = await openStore({ file, durability: 'process', form: 'database' })
  await settle(store, reserve(store.ledger, [scope('key', 'laptop')], 50n, { time: Date.now() }), 10)
  await reserve(store.ledger, [scope('key', 'laptop')], 50n, { time: Date.now() }).durable
  t.same(verify(file), [])
  await store.close()
  t.same(verify(file), [], 'what is open stays pending until the next start')
})

t.test('the journal refuses to be changed', (t) => {
  const file = join(t.testdir(), 'copy.db')
  cpSync(honest, file)
  const database = openDatabase(file, 'process')
  t.throws(() => database.exec('UPDATE journal SET amount = 0'), /only appended to/)
  t.throws(() => database.exec('DELETE FROM journal WHERE seq = 4'), /only appended to/)
  database.close()
  t.end()
})

const rebuilt = 'CREATE TABLE loose AS SELECT * FROM journal; DROP TABLE journal; ALTER TABLE loose RENAME TO journal;'
const tampered: Record<string, [sql: string, ...breaches: string[]]> = {
  'an amount': [
    'UPDATE journal SET amount = 9 WHERE seq = 2',
    'I10 journal 2',
    'I4 journal 2',
    'I1 balance key:laptop total',
    'I1 balance tenant:acme 2026-11',
    'I1 balance tenant:acme total',
    'I8 request r20'
  ],
  'a column that no sum shows': ["UPDATE journal SET channel = 'other' WHERE seq = 2", 'I10 journal 2'],
  'the hash of a row': ['UPDATE journal SET hash = zeroblob(32) WHERE seq = 2', 'I10 journal 2', 'I10 journal 3'],
  'a row in the middle': [
    'DELETE FROM journal WHERE seq = 2',
    'I10 journal 3',
    'I10 journal 3',
    'I1 balance key:laptop total',
    'I1 balance tenant:acme 2026-11',
    'I1 balance tenant:acme total',
    'I8 request r20'
  ],
  'the last row': ['DELETE FROM journal WHERE seq = 4', 'I10 journal 3'],
  'the order': [
    'UPDATE journal SET seq = 9 WHERE seq = 2; UPDATE journal SET seq = 2 WHERE seq = 3; UPDATE journal SET seq = 3 WHERE seq = 9',
    'I10 journal 2',
    'I10 journal 2',
    'I10 journal 3',
    'I10 journal 3',
    'I10 journal 4'
  ],
  'a second end': [
    `${rebuilt} INSERT INTO journal SELECT 5, kind, request_id, part, class, scopes, 0, reserved, usage_json, model, channel, price_version, source, ts_ms, boot_id, hash, hash, NULL, NULL, NULL
     FROM journal WHERE seq = 4`,
    'I10 journal 5',
    'I10 journal 5',
    'I3 journal r40 '
  ],
  'a fraction': [
    `${rebuilt} UPDATE journal SET amount = 20.5 WHERE seq = 2`,
    'I10 journal 2',
    'I4 journal 2',
    'I1 balance key:laptop total',
    'I1 balance tenant:acme 2026-11',
    'I1 balance tenant:acme total',
    'I8 request r20',
    'I11 journal 2'
  ],
  'a fraction in a usage': [
    `UPDATE journal SET usage_json = '{"output":20.5}' WHERE seq = 2`,
    'I10 journal 2',
    'I4 journal 2',
    'I11 journal 2'
  ],
  'what was posted': [
    "UPDATE balance SET posted = posted - 1 WHERE window = '2026-11'",
    'I1 balance tenant:acme 2026-11'
  ],
  'what is pending': ["UPDATE balance SET pending = 1 WHERE scope = 'key:laptop'", 'I2 balance key:laptop total'],
  'a balance': ["DELETE FROM balance WHERE scope = 'key:laptop'", 'I1 balance key:laptop total'],
  'a price': [`UPDATE price SET json = '{"output":"2000000"}'`, 'I4 journal 1', 'I4 journal 2', 'I4 journal 3'],
  'a price that is gone': ['DELETE FROM price', 'I4 journal 1', 'I4 journal 2', 'I4 journal 3'],
  'a record': ["DELETE FROM request WHERE request_id = 'r20'", 'I8 journal 2', 'I16 request'],
  'a record that nothing was charged for': ["DELETE FROM request WHERE request_id = 'refused'", 'I16 request'],
  'a record that was never written': [
    "INSERT INTO request SELECT 9, 'new', tenant, key, model, time, written, '{}', crc FROM request WHERE seq = 1",
    'I11 request new',
    'I16 request',
    'I16 request new'
  ],
  'what a record says': [
    "UPDATE request SET json = replace(json, '401', '200') WHERE request_id = 'refused'",
    'I16 request refused'
  ],
  'whose record it is': ["UPDATE request SET tenant = 'other' WHERE request_id = 'refused'", 'I16 request refused'],
  'when a record was written': [
    "UPDATE request SET written = written + 1 WHERE request_id = 'refused'",
    'I16 request refused'
  ],
  'a checksum that was taken away': ["UPDATE request SET crc = 0 WHERE request_id = 'r30'", 'I16 request r30'],
  'what a document says': [`UPDATE document SET json = '{"budget":50}' WHERE id = 'one'`, 'I16 document thing one'],
  'whose a document is': ["UPDATE document SET id = 'three' WHERE id = 'one'", 'I16 document thing three'],
  'a document that is gone': ["DELETE FROM document WHERE id = 'two'", 'I16 document'],
  'a document that was never made': [
    "INSERT INTO document SELECT 9, kind, 'three', json, crc FROM document WHERE id = 'one'",
    'I16 document',
    'I16 document thing three'
  ],
  'who changed what': [`UPDATE audit SET json = '{"action":"other"}' WHERE seq = 1`, 'I16 audit 1'],
  'when it was changed': ['UPDATE audit SET time = time + 1 WHERE seq = 2', 'I16 audit 2'],
  'a change that is gone': ['DELETE FROM audit WHERE seq = 2', 'I16 audit'],
  'a change that was never made': [
    `INSERT INTO audit SELECT 3, time, json, hash FROM audit WHERE seq = 2`,
    'I16 audit 3'
  ],
  'which batch was last': ['UPDATE head SET batch = batch - 1', 'I16 head'],
  'which start it was': ["UPDATE head SET history = x'0011223344556677'", 'I16 head'],
  'that the log may have more': [
    'UPDATE head SET open = 1',
    'I16 head',
    'I18 copy.db.log0',
    'I18 copy.db.log0',
    'I18 copy.db.log1'
  ],
  'how many transactions there were': ['UPDATE head SET writes = writes + 1', 'I16 head', 'I18 copy.db'],
  'which boot it is': ['UPDATE head SET boot_id = boot_id + 1', 'I16 head'],
  'how far the balances are': ['UPDATE head SET balanced_batch = balanced_batch - 1', 'I16 head'],
  'how many records there are': ['UPDATE head SET requests = requests + 1', 'I16 head', 'I16 request'],
  'the cost in a record': [
    `UPDATE request SET json = json_set(json, '$[13]', '1') WHERE request_id IN ('r40', 'refused')`,
    'I8 request r40',
    'I8 request refused',
    'I16 request r40',
    'I16 request refused'
  ],
  'a number for money in a record': [
    `UPDATE request SET json = json_set(json, '$[13]', 20) WHERE request_id = 'r20'`,
    'I8 request r20',
    'I11 request r20',
    'I16 request r20'
  ],
  'a tenant more': [
    `UPDATE journal SET scopes = '{"tenant:acme":"month","tenant:other":"month","key:laptop":"total"}' WHERE seq = 2`,
    'I10 journal 2',
    'I5 journal 2',
    'I1 balance tenant:other 2026-11',
    'I1 balance tenant:other total'
  ],
  'a project of another tenant': [
    `UPDATE journal SET scopes = '{"tenant:acme":"month","project:other/web":"total","key:laptop":"total"}' WHERE seq = 4`,
    'I10 journal 4',
    'I5 journal 4'
  ],
  'who pays': [
    `UPDATE journal SET scopes = '{}' WHERE seq = 2`,
    'I10 journal 2',
    'I5 journal 2',
    'I1 balance key:laptop total',
    'I1 balance tenant:acme 2026-11',
    'I1 balance tenant:acme total'
  ],
  'a period': [
    `UPDATE journal SET scopes = '{"tenant:acme":"year","key:laptop":"total"}' WHERE seq = 2`,
    'I10 journal 2',
    'I14 journal 2',
    'I1 balance tenant:acme 2026-11',
    'I1 balance tenant:acme total'
  ],
  'the time of a reservation': [
    `UPDATE journal SET ts_ms = ts_ms + ${40 * 86_400_000} WHERE seq = 2`,
    'I10 journal 2',
    'I1 balance tenant:acme 2026-11',
    'I1 balance tenant:acme 2026-12'
  ],
  'a window': [
    "UPDATE balance SET window = '2026-12' WHERE window = '2026-11'",
    'I14 balance tenant:acme 2026-12',
    'I1 balance tenant:acme 2026-12',
    'I1 balance tenant:acme 2026-11'
  ],
  'a limit that was passed': [
    `UPDATE balance SET "limit" = 59 WHERE window = '2026-11'`,
    'I6 balance tenant:acme 2026-11'
  ],
  'where a usage is from': ["UPDATE journal SET source = 'guess' WHERE seq = 2", 'I10 journal 2', 'I7 journal 2'],
  'a cost that is owed to nobody': [
    `INSERT INTO journal SELECT 5, 'cost', request_id, part, 'cost:1', scopes, 10, 0, '{"output":10}', model, NULL, price_version, 'partial', ts_ms, boot_id, hash, hash, NULL, NULL, NULL FROM journal WHERE seq = 1`,
    'I10 journal 5',
    'I10 journal 5',
    'I10 journal 5',
    'I5 journal 5'
  ],
  'the cost of an attempt': [
    `INSERT INTO journal SELECT 5, 'cost', request_id, part, 'cost:1', scopes, 11, 0, '{"output":10}', model, 'a', price_version, 'partial', ts_ms, boot_id, hash, hash, NULL, NULL, NULL FROM journal WHERE seq = 1`,
    'I10 journal 5',
    'I10 journal 5',
    'I10 journal 5',
    'I4 journal 5'
  ],
  'what was never delivered': ["INSERT INTO outbox (payload) VALUES ('{}')", 'I12 outbox 1'],
  'an old hold': [
    `INSERT INTO reservation VALUES (7, 'r7', '', '{"key:laptop":"total"}', 5, 'gpt-5', 'sample:1', 1, 1, 0, NULL, 0, NULL, NULL, 0, ${noon}, 0, NULL, NULL, NULL, NULL)`,
    'I9 reservation r7',
    'I2 balance key:laptop total'
  ]
}

for (const [what, [sql, ...breaches]] of Object.entries(tampered)) {
  t.test(`${what} is named when somebody tampered with it`, (t) => {
    // Spend follows from the journal, and traffic from the records, and they differ with these.
    const found = after(t, sql).filter((breach) => !/^I(?:19|20) /.test(breach))
    t.same(found.sort(), breaches.sort())
    t.end()
  })
}

t.test('an index that does not agree with its table, and pages that are none, are named by what SQLite says', (t) => {
  const file = join(t.testdir(), 'copy.db')
  cpSync(honest, file)
  const pages = (name: string): number[] =>
    query(file, `SELECT pageno FROM dbstat WHERE name = '${name}'`).map(({ pageno }) => Number(pageno))
  const size = Number(query(file, 'PRAGMA page_size')[0]!['page_size'])
  const [index] = pages('sqlite_autoindex_journal_1')
  const [records] = pages('request')
  const bytes = readFileSync(file)
  bytes.write('r21', bytes.indexOf('r20', (index! - 1) * size))
  writeFileSync(file, bytes)
  t.match(verify(file), [
    { invariant: 'I17', row: 'file', message: /row 2 missing from index sqlite_autoindex_journal_1/ }
  ])
  bytes.fill(0xff, (records! - 1) * size, records! * size)
  writeFileSync(file, bytes)
  t.match(
    verify(file).filter(({ invariant }) => invariant === 'I17'),
    [{ message: /btreeInitPage|malformed/ }]
  )
  t.end()
})

t.test('a charge beyond what was held may pass a limit, and a limit that was lowered is no breach', async (t) => {
  const file = join(t.testdir(), 'passed.db')
  const store = await openStore({ file, durability: 'process', form: 'database', now: () => noon })
  const scopes = [scope('key', 'laptop', 100n)]
  await settle(store, reserve(store.ledger, scopes, 90n), 130)
  // Another generation of the file has half the budget.
  const lower = [scope('key', 'laptop', 50n)]
  t.throws(() => reserve(store.ledger, lower, 1n), { code: 'quota_key_exceeded' })
  await settle(store, reserve(store.ledger, lower, 0n), 0)
  await store.close()
  t.same(verify(file), [])
  t.match(query(file, 'SELECT "limit", posted FROM balance'), [{ limit: 100n, posted: 130n }])
  const database = openDatabase(file, 'process')
  database.exec('UPDATE balance SET "limit" = 89')
  database.close()
  t.match(verify(file), [
    {
      invariant: 'I6',
      row: 'balance key:laptop total',
      message: /130 posted and 0 pending on a limit of 89, and requests cost 40 beyond/
    }
  ])
})

t.test('the record of a session that lacks the charge of a turn is named', async (t) => {
  const file = join(t.testdir(), 'sessions.db')
  const store = await openStore({ file, durability: 'process', form: 'database', now: () => noon })
  const scopes = [scope('key', 'laptop')]
  for (const said of ['30', '10', '0']) {
    const requestId = `says ${said}`
    const whole = reserve(store.ledger, scopes, 0n, { requestId })
    for (const output of [10, 20])
      await reserve(store.ledger, scopes, 50n, { requestId, part: `turn ${output}` }).settle({
        usage: used(output),
        amount: BigInt(output),
        source: 'upstream',
        channel: 'openai'
      })
    const ended = whole.void()
    store.requests.append(record({ request_id: requestId, cost_nano: said }))
    await ended
  }
  await store.close()
  t.same(
    verify(file).map(({ invariant, row, message }) => `${invariant} ${row} ${message}`),
    ['I8 request says 10 says 10 where the journal says 30', 'I8 request says 0 says 0 where the journal says 30']
  )
})

t.test('every rule that is checked is broken by a test, and names suites that there are', (t) => {
  const broken = new Set([
    'I17',
    'I19',
    'I20',
    ...Object.values(tampered).flatMap(([, ...breaches]) => breaches.map((breach) => breach.split(' ')[0]!))
  ])
  for (const [name, { checked, tests }] of Object.entries(invariants)) {
    t.equal(broken.has(name), checked, name)
    t.ok(checked || tests.length > 0, `${name} is proven somewhere`)
    for (const suite of tests) t.ok(existsSync(join(import.meta.dirname, `../../../../../${suite}.test.ts`)), suite)
  }
  t.end()
})

t.test('every column of a journal row counts', (t) => {
  const [row] = query(honest, 'SELECT * FROM journal WHERE seq = 3')
  for (const [column, value] of Object.entries(row!)) {
    const others = { bigint: `${column} + 10`, string: `${column} || '!'`, object: 'zeroblob(32)' }
    const other = value === null ? (column === 'cost' ? '7' : "'x'") : others[typeof value as keyof typeof others]
    t.match(after(t, `UPDATE journal SET ${column} = ${other} WHERE seq = 3`).join(), /I10/, column)
  }
  t.end()
})

t.test(
  'traffic is what the records add up to, a record that was logged twice counts once, and a repair adds it up',
  async (t) => {
    const file = join(t.testdir(), 'traffic.db')
    const now = Date.now()
    const store = await openStore({ file, durability: 'process', form: 'database' })
    const logged = (request_id: string, hours: number, more: object = {}): void =>
      store.requests.append(record({ request_id, time: new Date(now - hours * 3_600_000).toISOString(), ...more }))
    logged('one', 0)
    logged('two', 0, { status: 429, error_code: 'rate_limit_rpm', outcome: 'rejected', model: 'gpt-5' })
    logged('three', 30, { tenant: 'zeta', channel: null, error_code: 'no_available_channel' })
    logged('old', 24 * 500)
    // In one transaction, and in one of its own.
    logged('one', 0, { cost_nano: '5' })
    await store.requests.list({ limit: 1 })
    await eventually(() => query(file, 'SELECT 1 FROM request').length === 4)
    logged('two', 0)
    await store.close()
    t.same(verify(file), [])
    t.same(
      query(file, "SELECT requests FROM traffic_hour WHERE scope = 'tenant:acme' ORDER BY time").map(({ requests }) =>
        Number(requests)
      ),
      [1, 2],
      'the old one too, though it is not compared any more'
    )
    const tampered: readonly (readonly [sql: string, ...breaches: RegExp[]])[] = [
      [
        "UPDATE traffic_minute SET requests = 9 WHERE scope = '' AND time > (SELECT min(time) FROM traffic_minute) + 600",
        /minute .* all: has requests 9, .* where the records make requests [12]/
      ],
      [
        "UPDATE traffic_hour SET codes = '{}' WHERE scope = 'tenant:zeta'",
        /hour .* tenant:zeta gpt-5: has .*codes {}.* make .*no_available_channel/
      ],
      [
        "UPDATE traffic_hour SET first = '1:1' WHERE scope = 'tenant:zeta'",
        /hour .* tenant:zeta gpt-5: has .*first 1:1/
      ],
      [
        "DELETE FROM traffic_hour WHERE scope = 'tenant:zeta'",
        /hour .* tenant:zeta gpt-5: is missing; the records make requests 1/
      ],
      [
        "INSERT INTO traffic_hour SELECT 'tenant:none', time, model, channel, requests, codes, input, output, cost, first FROM traffic_hour WHERE scope = 'tenant:zeta'",
        /hour .* tenant:none gpt-5: has sums where there are no records/
      ]
    ]
    for (const [sql, ...breaches] of tampered) {
      const copy = join(t.testdirName, 'copy.db')
      cpSync(file, copy)
      const database = openDatabase(copy, 'process')
      database.exec(sql)
      database.close()
      const rows: number[] = []
      const found = verify(copy, (table, read) => void (table === 'traffic' && read !== undefined && rows.push(read)))
      t.same(rows, [4], 'progress is told')
      t.equal(found.length >= 1, true, sql)
      for (const { invariant, row, message } of found) {
        t.equal(invariant, 'I20')
        t.match(`${row}: ${message}`, breaches[0])
      }
      repairTraffic(copy)
      t.same(verify(copy), [], 'mended')
      t.same(traffic(copy), traffic(file), 'and nothing else was changed')
    }
    const copy = join(t.testdirName, 'copy.db')
    const database = openDatabase(copy, 'process')
    database.exec(`DELETE FROM traffic_hour; UPDATE head SET unrecorded = ${now}`)
    database.close()
    t.notOk(
      verify(copy).some(({ invariant }) => invariant === 'I20'),
      'what may miss records is not compared'
    )
  }
)

function traffic(file: string): unknown {
  return ['minute', 'hour'].map((span) => query(file, `SELECT * FROM traffic_${span}`))
}
