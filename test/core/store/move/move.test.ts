// A store that is moved from the file of one machine to a book in PostgreSQL, and back: what is there afterwards.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { Database } from '../../../../core/store/cluster/database/database.ts'
import { openMoney } from '../../../../core/store/cluster/money/money.ts'
import { WorkList } from '../../../../core/store/cluster/works/work-list.ts'
import { backUp } from '../../../../core/store/embedded/care/backup.ts'
import { LedgerFile } from '../../../../core/store/embedded/care/ledger-file.ts'
import type { Tell } from '../../../../core/store/embedded/care/tell.ts'
import { verify } from '../../../../core/store/embedded/care/verify/verify.ts'
import { openDatabase } from '../../../../core/store/embedded/files/sqlite.ts'
import { openStore } from '../../../../core/store/embedded/store.ts'
import type { Work } from '../../../../core/store/works.ts'
import { moveStore } from '../../../../core/store/move/move.ts'
import { brokenIn, logFolder, moneyNode } from '../../../kit/cluster-money.ts'
import type { MoneyNode } from '../../../kit/cluster-money.ts'
import { postgresMissing, sharedPostgres } from '../../../kit/postgres.ts'
import { eventually } from '../../../kit/probe.ts'
import { charge, endsIn, hold, refusal } from '../cluster/money/oracle.ts'
import { forms, image } from '../embedded/forms.ts'
import { noon, query, reserve, scope, settle, work } from '../embedded/sample.ts'
import { contentOf, fullStore } from './sample.ts'

t.setTimeout(600_000)
const skip = postgresMissing

/** How much later each kill comes than the one before: nearer to 1 there are more. */
const growth = Number(process.env['KILL_GROWTH'] ?? 1.8)

const digest = (file: string): string => createHash('sha256').update(readFileSync(file)).digest('hex')

for (const form of Object.values(forms))
  t.test(`what is moved there and back is what it was, row by row (${form.name})`, { skip }, async (t) => {
    const folder = t.testdir()
    const [first, last] = [join(folder, 'first.db'), join(folder, 'last.db')]
    await fullStore(first, 300, form)
    t.same(verify(first), [])
    const before = digest(first)
    const url = await (await sharedPostgres()).database()
    const there = await moveStore({ from: first, to: url })
    t.equal(digest(first), before, 'the source stays as it is')
    for (const [part, count] of Object.entries(there.counts))
      if (part !== 'origin') t.ok(count > 0, `there are rows of ${part}`)
    t.same(await brokenIn(url), [])
    await moveStore({ from: url, to: last })
    t.same(verify(last), [])
    const [one, other] = [contentOf(first), contentOf(last)]
    for (const part of Object.keys(one)) t.same(other[part], one[part], part)
    t.notOk(existsSync(`${last}.part`))

    renameSync(last, `${last}.part`)
    await moveStore({ from: url, to: last })
    t.same(contentOf(last), other, 'killed when it gave the files their names, it gives them')
  })

t.test('a move that is killed anywhere goes on where it was, both ways', { skip }, async (t) => {
  const folder = t.testdir()
  const [first, last] = [join(folder, 'first.db'), join(folder, 'last.db')]
  await fullStore(first, 2000)
  const url = await (await sharedPostgres()).database()
  await killed(t, first, url)
  t.same(await brokenIn(url), [])
  await killed(t, url, last)
  t.same(verify(last), [])
  const [one, other] = [contentOf(first), contentOf(last)]
  for (const part of Object.keys(one)) t.same(other[part], one[part], part)
})

t.test('the chains of many gateways become one journal, and where each ended stays proof', { skip }, async (t) => {
  const folder = t.testdir()
  const [first, second] = [join(folder, 'first.db'), join(folder, 'second.db')]
  await fullStore(first, 100)
  const server = await sharedPostgres()
  const url = await server.database()
  await moveStore({ from: first, to: url })
  await serveByNodes(t, url)
  t.same(await brokenIn(url), [])
  const chains = await server.sql(
    `select node, epoch, seq::int, encode(hash, 'hex') as hash from sluice.journal_chain where seq > 0 and not continues order by node, epoch`,
    url
  )
  t.equal(chains.length, 3)

  await moveStore({ from: url, to: second })
  t.same(verify(second), [])
  const before = [...new LedgerFile(first).entries()]
  const after = [...new LedgerFile(second).entries()]
  t.same(after.slice(0, before.length), before, 'what came from a file goes on as it was')
  t.equal(after.length, before.length + chains.reduce((sum, { seq }) => sum + seq, 0))
  t.same(
    query(
      second,
      'SELECT node, epoch, last - first + 1 AS seq, lower(hex(hash)) AS hash FROM journal_origin ORDER BY node, epoch'
    ),
    chains.map((chain) => ({ ...chain, epoch: BigInt(chain.epoch), seq: BigInt(chain.seq) }))
  )

  const store = await openStore({ file: second, durability: 'process', now: () => noon })
  await settle(store, reserve(store.ledger, [scope('tenant', 't1', 10n ** 15n, 'month')], 50n), 10)
  await store.flush()
  t.match(store.ledger.detached('request of open'), { amount: 777n }, 'work that goes on keeps its hold')
  await store.close()
  t.same(verify(second), [])
  const again = await server.database()
  await moveStore({ from: second, to: again })
  t.same(await brokenIn(again), [])
  const third = join(folder, 'third.db')
  await moveStore({ from: again, to: third })
  t.same(verify(third), [])
  const [one, other] = [contentOf(second), contentOf(third)]
  for (const part of Object.keys(one)) t.same(other[part], one[part], part)

  const database = openDatabase(third, 'process')
  database.exec('UPDATE journal_origin SET hash = zeroblob(32) WHERE epoch = 1')
  database.close()
  t.match(
    verify(third).map(({ invariant, row, message }) => `${invariant} ${row}: ${message}`),
    [/^I10 journal \d+-\d+: was the chain of a 1, which ended with another hash/]
  )
  await server.sql(`update sluice.journal_origin set hash = decode('00', 'hex') where epoch = 1`, again)
  t.match(await brokenIn(again), [{ invariant: 'I10', message: /was the chain of a 1/ }])
})

/** Two gateways on a book, one of them twice: what they charge, and what the second time ends of the first. */
async function serveByNodes(t: Test, url: string): Promise<void> {
  const scopes = [scope('tenant', 't1', 10n ** 15n, 'month'), scope('key', 'k1')]
  const start = (node: string): Promise<MoneyNode> =>
    moneyNode(t, url, node, { folder: join(logFolder(t), node), lease: 1500, now: () => noon })
  const [a, b] = [await start('a'), await start('b')]
  for (const { ledger } of [a, b])
    for (let i = 0; i < 5; i++) {
      const held = await hold(ledger, scopes, 100n)
      await held.settle(charge(i))
    }
  const left = await hold(a.ledger, scopes, 100n)
  left.dispatched('openai')
  await left.durable
  await refusal(hold(b.ledger, [scope('key', 'poor', 1n)], 100n))
  await a.kill()
  await b.flush()
  const again = await start('a')
  await again.flush()
  await again.close()
  await b.close()
}

t.test('a place that is not what it should be is refused, and says what to do', { skip }, async (t) => {
  const folder = t.testdir()
  const file = join(folder, 'sluice.db')
  const server = await sharedPostgres()
  const [url, used] = [await server.database(), await server.database()]
  const refused = (from: string, to: string, message: RegExp): Promise<unknown> =>
    t.rejects(moveStore({ from, to }), { message }, String(message))
  await refused(file, join(folder, 'other.db'), /both places are files.*ledger backup/)
  await refused(url, used, /both places are databases.*pg_dump/)
  await refused(file, url, /there is no store/)

  const store = await openStore({ file, durability: 'process', now: () => noon })
  await settle(store, reserve(store.ledger, [scope('tenant', 't1')], 50n), 10)
  await refused(file, url, /is in use by process/)
  await store.close()

  const node = await moneyNode(t, used, 'one', { folder: logFolder(t), lease: 1500, now: () => noon })
  await refused(file, used, /is not empty, as gateways have written there \(.*node/)
  await refused(used, join(folder, 'other.db'), /gateways work on .* \(one\): stop them/)
  await node.close()
  await refused(used, file, /sluice\.db is there already/)

  await moveStore({ from: file, to: url, dryRun: true })
  t.same(await server.sql(`select to_regnamespace('sluice') as made`, url), [{ made: null }], 'a look makes nothing')
  await t.rejects(moveStore({ from: file, to: url, tell: stopAt('audit') }), { message: 'stopped' })
  await refused(url, join(folder, 'other.db'), /not all of it is there: complete that first/)
  await t.rejects(Database.open({ url }), {
    message: /a store is being moved into the database.*"sluice ledger move" goes on/
  })
  const database = await Database.open({ url, moving: true })
  t.teardown(() => database.close())
  const joining = openMoney({
    database,
    node: 'early',
    folder: logFolder(t),
    durability: 'process',
    requests: { append: () => {} }
  })
  await t.rejects(joining, { message: /a store is being moved into this database/ }, 'nor one that was faster')

  const again = await openStore({ file, durability: 'process', now: () => noon })
  await settle(again, reserve(again.ledger, [scope('tenant', 't1')], 50n), 10)
  await again.close()
  await refused(file, url, /has changed since the move to .* began, as its gateway was started.*drop schema/)
  await server.sql('drop schema sluice cascade', url)
  await moveStore({ from: file, to: url })
  await refused(file, url, /was moved to .*, completely/)

  const target = join(folder, 'back.db')
  await t.rejects(moveStore({ from: url, to: target, tell: stopAt('audit') }), { message: 'stopped' })
  const other = await moneyNode(t, url, 'one', { folder: logFolder(t), lease: 300, now: () => noon })
  await other.close()
  await refused(
    url,
    target,
    /has changed since the move to .* began, as a gateway was started.*remove .*back\.db\.part/
  )
})

/** Throws when a move comes to something. */
function stopAt(what: string): Tell {
  return (words) => {
    if (words.includes(what)) throw new Error('stopped')
  }
}

for (const form of Object.values(forms))
  t.test(`a store whose gateway was killed has to be started once, or copied (${form.name})`, { skip }, async (t) => {
    const file = join(t.testdir(), 'sluice.db')
    const store = await openStore({ file, durability: 'process', now: () => noon, ...form.options })
    await settle(store, reserve(store.ledger, [scope('tenant', 't1')], 50n), 10)
    await store.flush()
    const held = reserve(store.ledger, [scope('tenant', 't1')], 50n)
    held.dispatched('openai')
    await held.durable
    const left = image(file)
    await store.close()
    const url = await (await sharedPostgres()).database()
    await t.rejects(moveStore({ from: left, to: url }), {
      message: /1 batch in its (commit log|journal) alone.*ledger backup/
    })
    const copy = join(t.testdirName, 'copy.db')
    await backUp(left, copy)
    await moveStore({ from: copy, to: url })
    const node = await moneyNode(t, url, 'one', { folder: logFolder(t), lease: 300, now: () => noon })
    await eventually(async () => (await endsIn(url)).get(held.requestId) !== undefined, 30_000)
    t.same((await endsIn(url)).get(held.requestId), ['settle 20 recovered'], 'a gateway ends what was open')
    await node.close()
    t.same(await brokenIn(url), [])
  })

t.test('work that goes on is taken over with its hold by a gateway on the book', { skip }, async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  await fullStore(file, 150)
  const url = await (await sharedPostgres()).database()
  await moveStore({ from: file, to: url })
  const node = await moneyNode(t, url, 'one', { folder: logFolder(t), now: () => noon })
  const database = await Database.open({ url })
  const works = await WorkList.open(database, () => noon)
  const { promise: taken, resolve } = Promise.withResolvers<Work>()
  works.onTaken = resolve
  t.match(await taken, { id: 'open', requestId: 'request of open' })
  t.equal(await node.adopt('request of open'), true)
  await node.ledger.detached('request of open')!.settle(charge(7))
  t.equal(String(await works.result(work('film'))), String(Buffer.alloc(2_500_000, 'film')))
  await works.close()
  await database.close()
  await node.close()
  t.same(await brokenIn(url), [])
})

t.test('every table of either store is carried, or known to follow from others', { skip }, async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  await (await openStore({ file, durability: 'process' })).close()
  const both = 'price balance journal journal_origin document audit route work answer request'
  const named = (text: string): string[] => text.split(' ').sort()
  const tables = query(
    file,
    `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name`
  )
  // The last ones are computed from others, or of one file alone.
  const files = `${both} reservation volume traffic_minute traffic_hour`
  const spend = 'spend_day spend_month spender'
  const ofFiles = 'request_extent request_facts head boot outbox'
  t.same(
    tables.map(({ name }) => name),
    named(`${files} ${spend} ${ofFiles} schema_migrations`)
  )
  const url = await (await sharedPostgres()).database()
  await (await Database.open({ url })).close()
  const shared = await (
    await sharedPostgres()
  ).sql(
    `select relname::text as name from pg_class where relnamespace = 'sluice'::regnamespace and relkind in ('r', 'p')
       and not relispartition order by relname`,
    url
  )
  // Likewise, or of running gateways alone. What was told of budgets is in documents, too.
  const ofGateways =
    'anchor anchor_head journal_chain work_room work_gone node slice gateway errand claim document_change told book migration move'
  // Documents in a file.
  const secrets = 'client_secret client_secret_hold'
  t.same(
    shared.map(({ name }) => name),
    named(`${both} cell hold work_result traffic ${spend} spend_seen ${ofGateways} ${secrets}`)
  )
})

/** Moves a store in processes that are killed, the first soon and each next one later, until one is not. */
async function killed(t: Test, from: string, to: string): Promise<void> {
  let kills = 0
  for (let after = 20; ; after = after * growth + Math.random() * 50) {
    const child = spawn(process.execPath, [join(import.meta.dirname, 'mover.ts'), from, to], {
      stdio: ['ignore', 'pipe', 'pipe']
    })
    let said = ''
    child.stderr.on('data', (text: Buffer) => (said += text.toString()))
    const closed = once(child, 'close') as Promise<[code: number | null, signal: string | null]>
    await Promise.race([once(child.stdout, 'data'), closed])
    const timer = setTimeout(() => child.kill('SIGKILL'), after)
    const [code, signal] = await closed
    clearTimeout(timer)
    if (code === 0) return t.comment(`${kills} kills`)
    // Killed when all was done, it says so the next time.
    if (signal === null && /completely|is there already/.test(said)) return t.comment(`${kills} kills`)
    if (signal === null) return void t.fail(said)
    kills++
  }
}
