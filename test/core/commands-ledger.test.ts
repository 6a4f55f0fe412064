// The ledger and import commands as an operator meets them: processes on a real store, beside a gateway too, and on one
// that was tampered with.
import fc from 'fast-check'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { loadConfig } from '../../config/load.ts'
import { importPrices } from '../../config/prices/litellm-list.ts'
import type { Scope } from '../../core/catalogue/caller.ts'
import { formatDollars } from '../../core/money/money.ts'
import { costOf } from '../../core/money/price.ts'
import type { Price } from '../../core/money/price.ts'
import { invariants } from '../../core/store/embedded/care/verify/invariants.ts'
import { openDatabase } from '../../core/store/embedded/files/sqlite.ts'
import { openStore } from '../../core/store/embedded/store.ts'
import type { Store } from '../../core/store/store.ts'
import type { Usage } from '../../core/money/usage.ts'
import { plugins } from '../config/plugins.ts'
import { sluice, sluiceEach } from '../kit/command.ts'
import type { Ended } from '../kit/command.ts'
import { gateway, testModel } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'
import { head, stall, events, until, Upstream } from '../kit/upstream.ts'
import { giveBack, query, record, reserve, scope, settle, used } from './store/embedded/sample.ts'

const root = join(import.meta.dirname, '..', '..')
const golden = join(root, 'test/golden/import')

// Some processes: on a busy machine they take longer than a file is given.
t.setTimeout(600_000)

const folder = t.testdir()
const honest = join(folder, 'honest.db')
const dayMs = 86_400_000
const today = Date.now()
const yesterday = today - dayMs

/** One nano-dollar a token, and ten for long prompts. */
const tiered: Price = {
  version: 'tiered:1',
  perMillion: { input: 1_000_000n, output: 1_000_000n },
  tiers: [{ above: 1000, perMillion: { input: 10_000_000n, output: 10_000_000n } }]
}

/** Holds at the tiered price and settles, with the record that belongs to it. */
async function settleTiered(store: Store, scopes: readonly Scope[], usage: Usage): Promise<void> {
  const reservation = reserve(store.ledger, scopes, 50_000n, { time: today, price: tiered })
  const amount = costOf(usage, tiered)
  const settled = reservation.settle({
    usage,
    amount,
    source: 'upstream',
    channel: 'openai',
    costs: [{ attempt: 1, channel: 'flaky', usage: used(3), amount: 3n, source: 'estimated' }]
  })
  store.requests.append(
    record({
      request_id: reservation.requestId,
      time: new Date(today).toISOString(),
      cost_usd: formatDollars(amount),
      cost_nano: String(amount)
    })
  )
  await settled
}

t.before(async () => {
  const store = await openStore({ file: honest, durability: 'process', form: 'database' })
  const scopes = [scope('tenant', 'acme', 2_000_000_000n, 'month'), scope('key', 'laptop', 1_000_000n)]
  await settle(store, reserve(store.ledger, scopes, 50n, { requestId: 'r10', time: yesterday }), 10)
  await settle(store, reserve(store.ledger, scopes, 50n, { requestId: 'r20', time: today }), 20)
  await giveBack(
    store,
    reserve(store.ledger, [scope('tenant', 'other, "inc"')], 50n, { requestId: 'r30', time: today })
  )
  await settleTiered(store, scopes, used(5, 1000))
  await settleTiered(store, scopes, used(5, 1001))
  await store.close()
})

/** What takes longer than a second says so; nothing else is on standard error. */
const silence = /^(.*, \d+ s(?:, .* left)?\n)*$/

t.test('whatever takes long says what it does from the first second on, also while it blocks its thread', async (t) => {
  const go = join(folder, 'go')
  const script = `
    import { existsSync } from 'node:fs'
    import { Progress } from ${JSON.stringify(join(root, 'core/commands/output/progress.ts'))}
    await Progress.of('looking at the store', (tell) => {
      tell('checking journal', { done: 12345, unit: 'rows' })
      const never = new Int32Array(new SharedArrayBuffer(4))
      while (!existsSync(${JSON.stringify(go)})) Atomics.wait(never, 0, 0, 50)
    })
    process.stdout.write('over')`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script])
  t.teardown(() => child.kill('SIGKILL'))
  let [out, err] = ['', '']
  child.stdout.on('data', (text: Buffer) => (out += text.toString()))
  child.stderr.on('data', (text: Buffer) => (err += text.toString()))
  const closed = once(child, 'close')
  await eventually(() => err.split('\n').length > 2 || child.exitCode !== null, 120_000)
  writeFileSync(go, '')
  t.same(await closed, [0, null])
  t.equal(out, 'over')
  t.match(err, /^(checking journal: 12,345 rows, \d+ s\n){2,}$/)

  const long = join(folder, 'busy.db')
  const store = await openStore({ file: long, durability: 'process', form: 'database' })
  for (let i = 0; i < 100; i++) {
    const round = Array.from({ length: 200 }, () =>
      settle(store, reserve(store.ledger, [scope('key', 'laptop')], 50n, { time: today }), 7)
    )
    await Promise.all(round)
  }
  await store.close()
  const lines = [['verify'], ['backup', join(folder, 'busy-copy.db')], ['repair'], ['export']]
  for (const words of lines) {
    const { code, err } = await sluice(['ledger', ...words, '--db', long])
    t.equal(code, 0, words.join(' '))
    t.match(err, silence)
  }
})

t.test('verify says what it checked and that all of it holds', async (t) => {
  const { code, out, err } = await sluice(['ledger', 'verify', '--db', honest], { alone: true })
  t.equal(code, 0)
  t.match(err, silence)
  t.match(
    out,
    /honest\.db: price 2, journal 7, reservation 0, balance \d, request 5, traffic \d+ rows read in \d+\.\d\d s\n/
  )
  t.same(
    Array.from(out.matchAll(/^(?:holds |tested) {2}(I\d+) +\S/gm), ([, name]) => name),
    Object.keys(invariants),
    'each has its line'
  )
  t.match(out, /^tested {2}I13 {2}.* \(by .*core\/store\/embedded\/durability\)$/m, 'or the tests that prove it')
  const { code: again, out: json } = await sluice(['ledger', 'verify', '--db', honest, '--json'])
  t.equal(again, 0)
  t.match(JSON.parse(json), {
    ok: true,
    file: honest,
    checked: { price: 2, journal: 7, reservation: 0, request: 5 },
    breaches: []
  })
  t.same(
    JSON.parse(json)
      .invariants.map(({ result }: { result: string }) => result)
      .filter((result: string) => result !== 'holds'),
    ['tested']
  )
  const { out: help } = await sluice(['ledger', 'verify', '--help'])
  for (const [name, { text }] of Object.entries(invariants))
    t.ok(help.includes(`  ${name.padEnd(3)}  ${text}`), `${name} is in its help`)
})

const tampered: Record<string, { sql: string; rows: string[] }> = {
  'an amount': {
    sql: 'UPDATE journal SET amount = 9 WHERE seq = 2',
    rows: [
      'I10 journal 2: ',
      'I4 journal 2: charges 9 where usage and price make 20',
      'I1 balance key:laptop total: ',
      'I8 request r20: '
    ]
  },
  'a row that is gone': {
    sql: 'DELETE FROM journal WHERE seq = 5',
    rows: ['I10 journal 6: follows row 4: rows between are missing']
  },
  'a tier of a price': {
    sql: `UPDATE price SET json = replace(json, '"above":"1000"', '"above":"999"') WHERE version = 'tiered:1'`,
    rows: ['I4 journal 5: charges 1005 where usage and price make 10050']
  },
  'what a tier costs': {
    sql: `UPDATE price SET json = replace(json, '"10000000"', '10000000') WHERE version = 'tiered:1'`,
    rows: ['I11 price tiered:1: ']
  },
  'what was posted': {
    sql: "UPDATE balance SET posted = posted + 1 WHERE scope = 'tenant:acme' AND window = 'total'",
    rows: ['I1 balance tenant:acme total: ']
  }
}

t.test('verify names each row that somebody tampered with, and exits with 3', async (t) => {
  const files = Object.values(tampered).map(({ sql }, index) => {
    const file = join(folder, `tampered-${index}.db`)
    cpSync(honest, file)
    const database = openDatabase(file, 'process')
    database.exec(`DROP TRIGGER journal_is_not_changed; DROP TRIGGER journal_is_not_cut; ${sql}`)
    database.close()
    return file
  })
  const results = await sluiceEach(files.map((file) => ['ledger', 'verify', '--db', file]))
  for (const [index, [what, { rows }]] of Object.entries(tampered).entries()) {
    const { code, out } = results[index]!
    t.equal(code, 3, what)
    for (const row of rows) t.ok(out.includes(`\n${row}`) || out.startsWith(row), `${what}: ${row} in ${out}`)
    t.match(out, /^BROKEN  I\d+ .* \(\d+ times, first \w+ .+\)$/m, what)
  }
  const { code, out } = await sluice(['ledger', 'verify', '--json', '--db', join(folder, 'tampered-1.db')])
  t.equal(code, 3)
  t.match(JSON.parse(out), { ok: false, breaches: [{ invariant: 'I10', row: 'journal 6', message: /follows row 4/ }] })
  t.match(
    JSON.parse(out).invariants.find(({ name }: { name: string }) => name === 'I10'),
    { result: 'broken', first: 'journal 6' }
  )
})

t.test('what is no store, or of another version, is said in a line', async (t) => {
  const text = join(folder, 'text.db')
  writeFileSync(text, 'not a database, only a text that is long enough to be looked at')
  const newer = join(folder, 'newer.db')
  cpSync(honest, newer)
  const database = openDatabase(newer, 'process')
  database.exec('INSERT INTO schema_migrations VALUES (99, 0)')
  database.close()
  const cases: [args: string[], code: number, message: RegExp][] = [
    [['ledger', 'verify', '--db', join(folder, 'none.db')], 1, /sluice ledger verify: there is no file .*none\.db\n/],
    [['ledger', 'balance', '--db', text], 1, /text\.db cannot be read as a store: file is not a database\n/],
    [
      ['ledger', 'verify', '--db', newer],
      1,
      /newer\.db has schema version 99 and this program knows \d+: use the newer program\n/
    ],
    [['ledger', 'verify', '--config', join(folder, 'none.yaml')], 2, /none\.yaml there is no such file/],
    [['ledger', 'export', '--db', honest, '--since', 'yesterday'], 2, /--since is "yesterday": it must be a date/],
    [['ledger', 'export', '--db', honest, '--json', '--format', 'csv'], 2, /exclude each other/],
    [
      ['ledger'],
      2,
      /known are ledger verify, ledger balance, ledger export, ledger backup, ledger repair, ledger restore/
    ]
  ]
  const results = await sluiceEach(cases.map(([args]) => args))
  for (const [index, [args, code, message]] of cases.entries()) {
    t.match(results[index], { code, out: /^$/, err: message }, args.join(' '))
    t.notMatch(results[index]!.err, /\n {4}at /, 'no stack')
  }
  t.notOk(existsSync(join(folder, 'none.db')), 'nothing is made')
})

t.test('balance shows dollars by scope and window', async (t) => {
  const { code, out } = await sluice(['ledger', 'balance', '--db', honest, '--scope', 'key:laptop'])
  t.equal(code, 0)
  t.equal(
    out,
    [
      'SCOPE       WINDOW  LIMIT       POSTED  PENDING         LEFT',
      'key:laptop  total   0.001  0.000011095        0  0.000988905',
      ''
    ].join('\n')
  )
  const all = JSON.parse((await sluice(['ledger', 'balance', '--db', honest, '--all', '--json'])).out) as {
    data: { scope: string; window: string }[]
  }
  const month = (time: number): string => new Date(time).toISOString().slice(0, 7)
  t.same(
    all.data.map(({ scope, window }) => `${scope} ${window}`),
    [
      'key:laptop total',
      ...new Set([month(yesterday), month(today)].map((window) => `tenant:acme ${window}`)),
      'tenant:acme total'
    ]
  )
  t.match(all.data.at(-1), {
    limit_usd: null,
    posted_usd: '0.000011095',
    posted_nano: '11095',
    pending_nano: '0',
    left_nano: null
  })
  t.match(
    all.data.find(({ window }) => window === month(today)),
    { limit_usd: '2', limit_nano: '2000000000' }
  )
})

/** A CSV file by RFC 4180, as rows of cells. */
function parseCsv(text: string): string[][] {
  const rows: string[][] = [[]]
  for (const [, quoted, plain = '', end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n|$)/g)) {
    rows.at(-1)!.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'))
    if (end === '\r\n') rows.push([])
  }
  return rows.slice(0, -1)
}

t.test('backup makes a copy that verify takes, and repair mends what does not start, when it is told to', async (t) => {
  const file = join(folder, 'mended.db')
  const store = await openStore({ file, durability: 'process', form: 'database' })
  await settle(store, reserve(store.ledger, [scope('key', 'laptop')], 50n, { requestId: 'r1', time: today }), 10)
  await store.flush()
  const other = openDatabase(file, 'process')
  other.exec('BEGIN IMMEDIATE')
  for (const id of ['r2', 'r3'])
    await settle(store, reserve(store.ledger, [scope('key', 'laptop')], 50n, { requestId: id, time: today }), 7)
  const damaged = join(folder, 'damaged.db')
  for (const ending of ['', '-wal', '.log0', '.log1']) cpSync(`${file}${ending}`, `${damaged}${ending}`)
  const copy = join(folder, 'copies/copy.db')
  const made = await sluice(['ledger', 'backup', copy, '--db', file])
  t.match(made, {
    code: 0,
    out: /copy\.db: 3 entries of the journal, with [23] batches of the commit log and 0 sealed volumes, and 0 results of tasks\n/,
    err: silence
  })
  other.exec('ROLLBACK')
  other.close()
  await store.close()
  t.equal((await sluice(['ledger', 'verify', '--db', copy])).code, 0)
  t.match(await sluice(['ledger', 'backup', copy, '--db', file]), { code: 1, err: /is there already/ })
  t.match(await sluice(['ledger', 'repair', '--db', copy]), { code: 0, out: /copy\.db: nothing is damaged\n/ })
  const { out: again } = await sluice(['ledger', 'backup', join(folder, 'copies/again.db'), '--db', file, '--json'])
  t.match(JSON.parse(again), { entries: 3, store: /^[0-9a-f]{16}$/, epoch: /^[0-9a-f]{16}$/ })
  const headless = join(folder, 'headless.db')
  for (const ending of ['', '-wal']) cpSync(`${damaged}${ending}`, `${headless}${ending}`)
  const unknown = await sluice(['ledger', 'repair', '--db', headless])
  t.match(unknown, { code: 3, out: /\nunknown +what was charged last: the commit log, .* is gone\n/ })
  t.notMatch(unknown.out, /lost +no batch/)

  // The frame of r2 is damaged, and that of r3 is whole.
  const path = [`${damaged}.log0`, `${damaged}.log1`].find((log) => readFileSync(log).includes('r3'))!
  const bytes = readFileSync(path)
  bytes[bytes.indexOf('r2')]! ^= 1
  writeFileSync(path, bytes)
  await t.rejects(openStore({ file: damaged, durability: 'process', form: 'database' }), {
    message: /is damaged at byte \d+: batch \d+ is missing/
  })
  const look = await sluice(['ledger', 'repair', '--db', damaged])
  t.equal(look.code, 3)
  t.match(
    look.out,
    /log\d is damaged at byte \d+: batch \d is missing\n\nkept +the database .*\nsaves +\d batch(es)? with 1 charge of \$0\.000000007 of the commit log\nlost +1 batch \(\d\): /
  )
  t.match(look.out, /\nNothing was changed: --apply does it\.\n$/)
  t.same(readFileSync(path), bytes)
  const done = await sluice(['ledger', 'repair', '--db', damaged, '--apply', '--json'])
  t.equal(done.code, 0)
  const report = JSON.parse(done.out) as { folder: string }
  t.match(report, {
    base: 'whole',
    saved: { charges: 1, amount_nano: '7' },
    lost: [[Number, Number]],
    foreign: { batches: 0 },
    folder: /damaged\.db\.damaged-/
  })
  t.same(readFileSync(join(report.folder, path.slice(folder.length + 1))), bytes, 'what cannot be saved is kept')
  await (await openStore({ file: damaged, durability: 'process', form: 'database' })).close()
  t.equal((await sluice(['ledger', 'verify', '--db', damaged])).code, 0)
  t.same(
    query(damaged, 'SELECT request_id FROM journal ORDER BY seq').map((row) => row['request_id']),
    ['r1', 'r3']
  )
})

t.test('restore says what would be lost, puts the store aside, and how to bring it back', async (t) => {
  const file = join(folder, 'it’s one.db')
  const copy = join(folder, 'one-copy.db')
  const charge = async (store: Store): Promise<void> =>
    settle(store, reserve(store.ledger, [scope('key', 'laptop')], 50n, { time: today }), 20)
  let store = await openStore({ file, durability: 'process', form: 'database' })
  await charge(store)
  await store.close()
  t.equal((await sluice(['ledger', 'backup', copy, '--db', file, '--verify'])).code, 0)
  store = await openStore({ file, durability: 'process', form: 'database' })
  await charge(store)
  await charge(store)
  await store.flush()
  const lost = /lost by it(?: would be)?: 2 requests; 2 charges of \$0\.00000004; the newest is of \d{4}-\d\d-\d\dT/
  const line = ['ledger', 'restore', copy, '--db', file]
  const dry = await sluice([...line, '--dry-run'])
  t.match(dry, { code: 0, out: /: would be .*one-copy\.db, with 1 entry of the journal\n/, err: silence })
  t.match(dry.out, lost)
  t.match(dry.out, /Nothing was changed: without --dry-run it is done\.\n$/)
  t.match(await sluice(line), { out: '', err: /one\.db is in use by process \d+: stop that process/ })
  await store.close()
  const done = await sluice(line)
  t.match(done, { code: 0, out: lost, err: silence })
  const [, words = ''] = /To bring it back:\n {2}sluice (.*)\n$/.exec(done.out) ?? []
  t.equal(query(file, 'SELECT count(*) AS n FROM journal')[0]!['n'], 1n)
  const again = spawnSync('sh', ['-c', `"$0" "$1" ${words} --json`, process.execPath, join(root, 'core/main.ts')], {
    encoding: 'utf8'
  })
  t.match(JSON.parse(again.stdout), {
    dry_run: false,
    entries: 3,
    lost: { charges: 0, amount_nano: '0', newest: null },
    gained: { requests: 2, charges: 2, amount_nano: '40', amount_usd: '0.00000004' }
  })
  t.match(await sluice(['ledger', 'restore', file, '--db', file]), { out: '', err: /is the store itself/ })
})

t.test('export writes every row of the journal, with amounts as text', async (t) => {
  const { code, out, err } = await sluice(['ledger', 'export', '--db', honest], { alone: true })
  t.equal(code, 0)
  t.match(err, silence)
  const rows = out
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, any>)
  const stored = query(
    honest,
    'SELECT seq, kind, request_id, amount, reserved, lower(hex(hash)) AS hash, price_version FROM journal ORDER BY seq'
  )
  t.same(
    rows.map((row) => [
      row['seq'],
      row['kind'],
      row['request_id'],
      row['amount_nano'],
      row['reserved_nano'],
      row['hash'],
      row['price_version']
    ]),
    stored.map((row) => [
      Number(row['seq']),
      row['kind'],
      row['request_id'],
      String(row['amount']),
      String(row['reserved']),
      row['hash'],
      row['price_version']
    ])
  )
  t.match(rows[0], {
    time: new Date(yesterday).toISOString(),
    part: '',
    class: 'terminal',
    scopes: { 'tenant:acme': 'month', 'key:laptop': 'total' },
    amount_usd: '0.00000001',
    amount_nano: '10',
    reserved_usd: '0.00000005',
    usage: { output: 10 },
    model: 'gpt-5',
    channel: 'openai',
    source: 'upstream',
    boot: 1
  })
  t.match(rows[2], { kind: 'void', usage: null, source: null, amount_usd: '0' })
  t.same(
    rows.filter(({ kind }) => kind === 'cost').map((row) => [row['class'], row['channel'], row['amount_nano']]),
    [
      ['cost:1', 'flaky', '3'],
      ['cost:1', 'flaky', '3']
    ]
  )

  const [names, ...cells] = parseCsv((await sluice(['ledger', 'export', '--format', 'csv', '--db', honest])).out)
  t.same(names, Object.keys(rows[0]!))
  t.same(
    cells.map((row) => row.length),
    rows.map(() => names!.length)
  )
  const plain = (value: unknown): string =>
    value === null ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value)
  t.same(
    cells,
    rows.map((row) => Object.values(row).map(plain)),
    'the same in CSV, quotes and commas included'
  )
})

t.test('export takes a part: by time, and by scope', async (t) => {
  const at = new Date(today).toISOString()
  const parts = [
    ['--until', at],
    ['--since', at, '--until', new Date(today + 1).toISOString(), '--scope', 'tenant:acme'],
    ['--scope', 'tenant:other, "inc"', '--json'],
    ['--scope', 'tenant:nobody'],
    ['--format', 'csv', '--scope', 'tenant:nobody']
  ]
  const results = (await sluiceEach(parts.map((args) => ['ledger', 'export', '--db', honest, ...args]))) as [
    Ended,
    Ended,
    Ended,
    Ended,
    Ended
  ]
  t.same(
    results.map(({ code }) => code),
    [0, 0, 0, 0, 0]
  )
  const [before, after, other, none] = results.slice(0, 4).map(({ out }) =>
    out
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => (JSON.parse(line) as { request_id: string }).request_id)
  )
  t.same(before, ['r10'])
  t.equal(after!.length, 5)
  t.equal(after![0], 'r20')
  t.same(other, ['r30'])
  t.same(none, [])
  t.match(results[4].out, /^seq,time,kind,[a-z_,]+,hash\r\n$/)
})

t.test('a long journal comes whole and in order, and its reader may leave early', async (t) => {
  const file = join(folder, 'long.db')
  const store = await openStore({ file, durability: 'process', form: 'database' })
  const scopes = [scope('key', 'laptop')]
  for (let done = 0; done < 2500; done += 500)
    await Promise.all(
      Array.from({ length: 500 }, () => settle(store, reserve(store.ledger, scopes, 50n, { time: today }), 10))
    )
  await store.close()
  const { out } = await sluice(['ledger', 'export', '--db', file])
  t.same(
    out
      .trimEnd()
      .split('\n')
      .map((line) => (JSON.parse(line) as { seq: number }).seq),
    Array.from({ length: 2500 }, (_, index) => index + 1)
  )

  const child = spawn(process.execPath, [join(root, 'core/main.ts'), 'ledger', 'export', '--db', file], {
    stdio: ['ignore', 'pipe', 'pipe']
  })
  let complaints = ''
  child.stderr.on('data', (text: Buffer) => (complaints += text.toString()))
  await once(child.stdout, 'data')
  child.stdout.destroy()
  const [code] = (await once(child, 'close')) as [number]
  t.equal(code, 0)
  t.equal(complaints, '')
})

t.test('all of it works beside a gateway that is running', async (t) => {
  const upstream = await Upstream.start(t)
  const running = await gateway(
    t,
    {
      keys: [
        { name: 'test', key: 'sk-test-000000000000000000000000', tenant: 'acme', budget: { usd: 1, per: 'total' } }
      ]
    },
    { upstreams: { up: upstream } }
  )
  upstream.json({
    id: 'c',
    object: 'chat.completion',
    created: 1,
    model: testModel,
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }
  })
  await running.record(await running.chat())
  const gate = Promise.withResolvers<void>()
  t.teardown(() => gate.resolve())
  const opening = {
    id: 'c',
    object: 'chat.completion.chunk',
    created: 1,
    model: testModel,
    choices: [{ index: 0, delta: { content: 'x' }, finish_reason: null }]
  }
  upstream.script(head(200, { 'content-type': 'text/event-stream' }), events([opening]), until(gate.promise), stall())
  const open = await running.openChat({ stream: true, max_tokens: 7 })
  await open.body('"content":"x"')
  const at = ['--config', running.file]
  // What clients may see is in the commit log, which the database follows.
  const file = join(running.file, '..', 'sluice.db')
  await eventually(() => query(file, 'SELECT amount FROM reservation').length === 1, 60_000)
  const [checked, balance, rows] = (await sluiceEach([
    ['ledger', 'verify', ...at],
    ['ledger', 'balance', '--json', '--scope', 'key:test', ...at],
    ['ledger', 'export', ...at]
  ])) as [Ended, Ended, Ended]
  t.equal(checked.code, 0, checked.out + checked.err)
  t.match(checked.out, /journal 1, reservation 1,/)
  const [total] = (JSON.parse(balance.out) as { data: Record<string, string>[] }).data
  const [hold] = query(file, 'SELECT amount FROM reservation')
  t.match(
    total,
    { window: 'total', posted_nano: '20000', pending_nano: String(hold!['amount']) },
    'as of the last commit, not of the last balance'
  )
  t.equal(rows.out.split('\n').length, 2)
  open.close()
})

t.test('a hold at a tiered price that a crash left open is charged at its tier', async (t) => {
  const file = join(folder, 'crash.db')
  const first = await openStore({ file, durability: 'process', form: 'database' })
  const holds = [1000, 1001].map((input) =>
    reserve(first.ledger, [scope('key', 'laptop')], 50_000n, {
      requestId: `p${input}`,
      price: tiered,
      estimate: { input, maxOutput: 5 },
      time: today
    })
  )
  for (const hold of holds) {
    hold.dispatched('openai')
    hold.delivered(5)
  }
  await first.close()
  await (await openStore({ file, durability: 'process', form: 'database' })).close()
  t.same(query(file, 'SELECT request_id, amount, source FROM journal ORDER BY seq'), [
    { request_id: 'p1000', amount: 1005n, source: 'recovered' },
    { request_id: 'p1001', amount: 10_060n, source: 'recovered' }
  ])
  t.equal((await sluice(['ledger', 'verify', '--db', file])).code, 0)
})

t.test('what a crash left in the commit log is told of, as it is in no answer', async (t) => {
  const file = join(folder, 'logged.db')
  const store = await openStore({ file, durability: 'process', form: 'database' })
  await settle(store, reserve(store.ledger, [scope('key', 'laptop')], 100n), 5)
  await store.flush()
  const other = openDatabase(file, 'process')
  other.exec('BEGIN IMMEDIATE')
  await settle(store, reserve(store.ledger, [scope('key', 'laptop')], 100n), 7)
  const crashed = join(folder, 'crashed.db')
  for (const ending of ['', '-wal', '.log0', '.log1']) cpSync(`${file}${ending}`, `${crashed}${ending}`)
  other.exec('ROLLBACK')
  other.close()
  await store.close()
  for (const [path, told] of [
    [crashed, /batch(es)? (is|are) in the commit log of .*crashed\.db and not in the database: .* when it starts/],
    [file, /^$/]
  ] as const) {
    const balance = await sluice(['ledger', 'balance', '--db', path])
    t.equal(balance.code, 0)
    t.match(balance.err, told)
  }
  await (await openStore({ file: crashed, durability: 'process', form: 'database' })).close()
  const verified = await sluice(['ledger', 'verify', '--db', crashed])
  t.match(verified.out, /journal 2,/)
  t.match(verified.err, silence)
})

t.test('import makes models of a price file, and says what became of every field', async (t) => {
  const { code, out, err } = await sluice(['import', 'litellm', 'prices.json'], { cwd: golden })
  t.equal(code, 0)
  t.equal(out, readFileSync(join(golden, 'models.yaml'), 'utf8'))
  t.equal(err, readFileSync(join(golden, 'report.txt'), 'utf8'))
  const input = JSON.parse(readFileSync(join(golden, 'prices.json'), 'utf8')) as Record<string, object>
  for (const field of new Set(
    Object.entries(input)
      .filter(([name]) => name !== 'sample_spec' && name !== 'bad name' && name !== 'text')
      .flatMap(([, entry]) => Object.keys(entry))
  )) {
    t.ok(err.includes(`  ${field}`), `${field} is in the report`)
  }
})

t.test('import writes new files only, and chooses models', async (t) => {
  const out = join(folder, 'models.yaml')
  const args = ['import', 'litellm', join(golden, 'prices.json'), '--out', out, '--models', 'gpt-l*,rerank']
  const first = await sluice(args)
  t.equal(first.code, 0)
  t.equal(first.out, '')
  t.match(first.err, /^2 models made, 0 left out\n/)
  t.match(
    readFileSync(out, 'utf8'),
    /^# .*\nmodels:\n {2}gpt-long:\n[^]*\n {2}rerank:\n {4}price: \{ search: 0\.002 \}\n$/
  )
  const second = await sluice(args)
  t.equal(second.code, 1)
  t.match(second.err, /models\.yaml is there already: name a new file\n/)
})

t.test('import names what is wrong with its input', async (t) => {
  const write = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  const cases: [file: string, message: RegExp][] = [
    [join(folder, 'none.json'), /none\.json cannot be read: ENOENT/],
    [folder, /cannot be read: EISDIR/],
    [write('broken.json', '{"a": {'), /broken\.json is not in this format: .*JSON/],
    [
      write('empty.json', '{"a": {"mode": "chat"}}'),
      /has no model with a price: a has no price that can be taken over\n/
    ]
  ]
  const results = await sluiceEach(cases.map(([file]) => ['import', 'litellm', file]))
  for (const [index, [file, message]] of cases.entries()) {
    t.match(results[index], { code: 1, out: /^$/, err: message }, file)
    t.notMatch(results[index]!.err, /\n {4}at /, 'no stack')
  }
  for (const text of ['[]', '5', 'null', '', '['.repeat(100_000) + ']'.repeat(100_000)])
    t.throws(() => importPrices(text, () => true), text.slice(0, 9))
})

/** What the loader makes of a section that was imported. */
function load(t: Test, yaml: string, names: readonly string[]): Map<string, Price> {
  const file = join(folder, 'imported.yaml')
  writeFileSync(
    file,
    `channels: { demo: { protocol: simulator, models: ${JSON.stringify(Object.fromEntries(names.map((name) => [name, name])))} } }\nchain: [auth]\n${yaml}`
  )
  const { config, problems } = loadConfig(file, { env: {}, plugins, simulatorUrl: new URL('http://127.0.0.1:1/v1') })
  t.same(problems, undefined)
  return new Map([...config!.models].map(([name, { prices }]) => [name, prices[0]!.price]))
}

t.test('what import makes is taken by the loader, at the same prices', (t) => {
  const { yaml, models } = importPrices(readFileSync(join(golden, 'prices.json'), 'utf8'), () => true)
  const names = [...yaml.matchAll(/^ {2}"?([^\s"]+?)"?:$/gm)].map(([, name]) => name!)
  t.equal(names.length, models)
  const prices = load(t, yaml, names)
  t.match(prices.get('gpt-long'), {
    perMillion: {
      input: 1_250_000_000n,
      cached_input: 125_000_000n,
      cache_write: 3_125_000_000n,
      output: 10_000_000_000n
    },
    tiers: [
      { above: 128_000, perMillion: { input: 2_000_000_000n, output: 10_000_000_000n } },
      { above: 200_000, perMillion: { input: 2_500_000_000n, cached_input: 250_000_000n, output: 15_000_000_000n } }
    ]
  })
  t.equal(prices.get('house/model:free')!.perMillion.output, 1_234_567_891n)
  t.equal(prices.get('dall-e-3')!.perMillion.image, 40_000_000_000_000n)
  t.end()
})

t.test('digits of a price file arrive as they stand there, in any notation', (t) => {
  /** digits × 10^-decimals dollars a token, written with any number of decimals before the exponent. */
  const number = fc.record({
    digits: fc.bigInt(0n, 10n ** 12n),
    decimals: fc.integer({ min: 3, max: 15 }),
    shown: fc.integer({ min: 0, max: 15 })
  })
  fc.assert(
    fc.property(fc.array(number, { minLength: 20, maxLength: 20 }), (numbers) => {
      const cases = numbers
        .map(({ digits, decimals, shown }, index) => {
          const padded = digits.toString().padStart(shown + 1, '0')
          const mantissa = shown === 0 ? padded : `${padded.slice(0, -shown)}.${padded.slice(-shown)}`
          const text = shown === decimals ? mantissa : `${mantissa}${index % 2 === 0 ? 'e' : 'E'}${shown - decimals}`
          return { name: `m${index}`, text, due: digits * 10n ** BigInt(15 - decimals) }
        })
        .filter(({ due }) => due <= 10n ** 18n)
      const json = `{${cases.map(({ name, text }) => `"${name}": {"input_cost_per_token": ${text}, "output_cost_per_token": 0}`).join(', ')}}`
      const prices = load(
        t,
        importPrices(json, () => true).yaml,
        cases.map(({ name }) => name)
      )
      return cases.every(({ name, due }) => prices.get(name)!.perMillion.input === due)
    }),
    { numRuns: 40, examples: [[[{ digits: 10n ** 12n, decimals: 9, shown: 0 }]]] }
  )
  t.end()
})
