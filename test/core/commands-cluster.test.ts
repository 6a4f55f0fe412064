// The commands that read or change a store without its gateway, on one in PostgreSQL.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { moveStore } from '../../core/store/move/move.ts'
import { sluiceEach } from '../kit/command.ts'
import { gatewayFile } from '../kit/gateway.ts'
import { postgresMissing, sharedPostgres } from '../kit/postgres.ts'
import { fullStore } from './store/move/sample.ts'

t.setTimeout(600_000)
const skip = postgresMissing

t.test('what commands say of a store is the same in PostgreSQL as in a file', { skip }, async (t) => {
  const folder = t.testdir()
  const file = join(folder, 'sluice.db')
  await fullStore(file, 150)
  const server = await sharedPostgres()
  const url = await server.database()
  await moveStore({ from: file, to: url })
  process.env['BOOK'] = url
  t.teardown(() => delete process.env['BOOK'])
  const bill = join(folder, 'bill.json')
  const bucket = { start_time: Date.UTC(2026, 10, 18) / 1000, end_time: Date.UTC(2026, 10, 19) / 1000 }
  const results = [{ amount: { value: 1, currency: 'usd' }, line_item: 'gpt-5, output' }]
  writeFileSync(
    bill,
    JSON.stringify({ object: 'page', data: [{ object: 'bucket', ...bucket, results }], has_more: false })
  )
  const lines = [
    ['ledger', 'balance', '--all', '--json'],
    ['ledger', 'balance', '--all'],
    ['ledger', 'balance', '--scope', 'tenant:t1'],
    ['ledger', 'reconcile', bill, '--channel', 'openai', '--json'],
    ['spend', '--by', 'day,key,model', '--json'],
    ['spend', '--by', 'tenant,tag', '--format', 'csv'],
    ['spend', '--format', 'focus']
  ]
  const both = lines.flatMap((line) => [
    [...line, '--db', file],
    [...line, '--db', '${BOOK}']
  ])
  const ended = await sluiceEach(both)
  for (const [i, line] of lines.entries()) {
    const [of, ofBook] = [ended[2 * i]!, ended[2 * i + 1]!]
    t.ok(of.out.length > 40, line.join(' '))
    t.equal(ofBook.out, of.out, line.join(' '))
    t.equal(ofBook.code, of.code, line.join(' '))
    t.notMatch(ofBook.err, /postgres:\/\//, 'no URL is shown')
  }

  const [mine, theirs, csv, since] = await sluiceEach([
    ['ledger', 'export', '--db', file],
    ['ledger', 'export', '--db', '${BOOK}'],
    ['ledger', 'export', '--db', '${BOOK}', '--format', 'csv'],
    ['ledger', 'export', '--db', '${BOOK}', '--since', '2026-11-21', '--scope', 'tenant:t1']
  ])
  const rows = (text: string): { seq: number; node?: string; request_id: string }[] =>
    text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { seq: number; request_id: string })
  t.same(
    rows(theirs!.out).map(({ node: _, ...row }) => row),
    rows(mine!.out)
  )
  t.match(rows(theirs!.out)[0], { node: /^sqlite-/ })
  t.match(csv!.out.split('\n')[0], /^seq,time,.*,hash,node\r?$/)
  t.ok(rows(since!.out).length > 0 && rows(since!.out).length < 20)
})

t.test('a book is verified with the words of a file, and what is wrong is named', { skip }, async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  await fullStore(file, 100)
  const server = await sharedPostgres()
  const url = await server.database()
  await moveStore({ from: file, to: url })
  process.env['BOOK'] = url
  const [sound, json] = await sluiceEach([
    ['ledger', 'verify', '--db', '${BOOK}'],
    ['ledger', 'verify', '--db', '${BOOK}', '--json']
  ])
  t.equal(sound!.code, 0, sound!.err)
  t.match(
    sound!.out,
    /^postgres:\/\/\S+: price 2, journal \d+, reservation 1, balance \d+, spend \d+, request \d+ rows read/
  )
  t.match(sound!.out, /\nholds  {2}I1 .*\nholds  {2}I2 /)
  t.match(sound!.out, /\nnot of {2}I17 /)
  const { ok, invariants } = JSON.parse(json!.out) as { ok: boolean; invariants: { name: string; result: string }[] }
  t.equal(ok, true)
  t.match(
    invariants.find(({ name }) => name === 'I17'),
    { result: 'unchecked' }
  )
  await server.sql(`update sluice.balance set posted = posted + 5 where id = (select min(id) from sluice.balance)`, url)
  const [broken] = await sluiceEach([['ledger', 'verify', '--db', '${BOOK}']])
  t.equal(broken!.code, 3)
  t.match(broken!.out, /^I1 balance .* posted where the journal makes/)
})

t.test('commands for files alone say what does the same, and others find what they need', { skip }, async (t) => {
  const url = await (await sharedPostgres()).database()
  const folder = mkdtempSync(join(tmpdir(), 'sluice-commands-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const store = { sqlite: undefined, postgres: url, redis: 'redis://127.0.0.1:1', folder: join(folder, 'own') }
  const config = gatewayFile(t, { store, tenants: { acme: {} } })
  const at = ['--config', config]
  const [early, ...alone] = await sluiceEach([
    ['ledger', 'verify', ...at],
    ['ledger', 'backup', join(folder, 'copy.db'), ...at],
    ['ledger', 'restore', join(folder, 'copy.db'), ...at],
    ['ledger', 'repair', ...at],
    ['ledger', 'verify', '--db', '${NOPE}']
  ])
  t.match(early!.err, /has no store: no gateway has started there yet/)
  for (const [i, says] of [/pg_dump/, /pg_restore/, /keeps its files whole/].entries()) {
    t.match(alone[i]!.err, says)
    t.match(alone[i]!.err, /in a SQLite file, and the store is postgres:\/\//)
    t.equal(alone[i]!.code, 1)
  }
  t.match(alone[3]!.err, /--db is "\$\{NOPE\}", and the environment has nothing of this name/)
  t.equal(alone[3]!.code, 2)
  t.notOk(existsSync(join(folder, 'copy.db')))

  const [key, keys, tenant, operators, audit, spend, verified] = await sluiceEach([
    ['keys', 'create', '--tenant', 'acme', '--name', 'ci', ...at],
    ['keys', 'list', '--json', ...at],
    ['tenants', 'create', 'beta', '--budget', '5/day', ...at],
    ['operators', 'create', 'carol', '--role', 'viewer', ...at],
    ['audit', 'list', '--json', ...at],
    ['spend', ...at],
    ['ledger', 'verify', ...at]
  ])
  t.match(key!.out, /^sk-/, key!.err)
  t.match(keys!.out, /"name":"ci"/)
  for (const one of [tenant, operators, spend, verified]) t.equal(one!.code, 0, one!.err)
  t.match(audit!.out, /key\.create.*|operator\.create/)
})
