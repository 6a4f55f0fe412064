// Documents that several gateways share in a real PostgreSQL: who sees what and when, conflicts, lost answers, outages.
import { hash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { Database } from '../../../../core/store/cluster/database/database.ts'
import { DocumentBook } from '../../../../core/store/cluster/documents/document-book.ts'
import { changeOf, documentKind } from '../../../../core/store/documents.ts'
import type { DocumentChange } from '../../../../core/store/documents.ts'
import { PostgresProxy } from '../../../kit/postgres-proxy.ts'
import { postgresMissing, sharedPostgres } from '../../../kit/postgres.ts'
import { eventually } from '../../../kit/probe.ts'

const kind = documentKind<{ name: string }>('thing')
const skip = postgresMissing

async function node(t: Test, url: string, listenUrl = url): Promise<DocumentBook> {
  const database = await Database.open({ url, listenUrl })
  const book = await DocumentBook.open(database)
  t.teardown(async () => {
    await book.close()
    await database.close()
  })
  return book
}

const names = (book: DocumentBook): string[] => book.all(kind).map(({ name }) => name)

t.test('what one gateway changes others see, in one order, and a start finds it', { skip }, async (t) => {
  const url = await (await sharedPostgres()).book()
  const [one, other] = await Promise.all([node(t, url), node(t, url)])
  const heard: DocumentChange[] = []
  other.watch((changes) => void heard.push(...changes))
  for (const name of ['a', 'b', 'c']) await one.change([changeOf(kind, name, { name })])
  await eventually(() => other.find(kind, 'c') !== undefined)
  await other.change([changeOf(kind, 'a', null), changeOf(kind, 'b', { name: 'b of the other' })])
  await other.change([changeOf(kind, 'a', { name: 'a again' })])
  await eventually(() => one.find(kind, 'a')?.name === 'a again')
  const expected = ['b of the other', 'c', 'a again']
  t.same(names(one), expected)
  t.same(names(other), expected)
  t.same(names(await node(t, url)), expected)
  t.same(
    heard.map(({ id, value }) => [id, value && (value as { name: string }).name]),
    [
      ['a', 'a'],
      ['b', 'b'],
      ['c', 'c'],
      ['a', null],
      ['b', 'b of the other'],
      ['a', 'a again']
    ]
  )
})

t.test('of two gateways that change one document at once one is told of the conflict', { skip }, async (t) => {
  const url = await (await sharedPostgres()).book()
  const nodes = await Promise.all([node(t, url), node(t, url), node(t, url)])
  for (let round = 0; round < 5; round++) {
    const ended = await Promise.allSettled(
      nodes.map((book, i) =>
        book.change([changeOf(kind, `made ${round}`, { name: `by ${i}` })], { action: 'made', round })
      )
    )
    t.equal(ended.filter(({ status }) => status === 'fulfilled').length, 1)
    for (const one of ended)
      if (one.status === 'rejected')
        t.match(one.reason, { code: 'invalid_request', details: { status: 409, shownCode: 'changed_meanwhile' } })
    const winner = `by ${ended.findIndex(({ status }) => status === 'fulfilled')}`
    await eventually(() => nodes.every((book) => book.find(kind, `made ${round}`)?.name === winner))
  }
  await Promise.all(nodes.map((book, i) => book.change([changeOf(kind, `own ${i}`, { name: `own ${i}` })])))
  t.equal((await nodes[0]!.audit({ limit: 100 })).length, 5, 'what was not made has no entry')
})

t.test('without notifications a change is seen by looking, within a second or so', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.book()
  const one = await node(t, url)
  const deaf = await node(t, url, url.replace('/test', '/nowhere'))
  await one.change([changeOf(kind, 'a', { name: 'a' })])
  await eventually(() => deaf.find(kind, 'a') !== undefined)
  t.ok(deaf.behind < 60_000)
})

t.test('a change whose answer is lost is made once, and known to be', { skip }, async (t) => {
  const url = await (await sharedPostgres()).book()
  const proxy = await PostgresProxy.start(t, await sharedPostgres())
  const book = await node(t, proxy.url(url), url)
  proxy.loseAnswerTo('change_documents')
  await book.change([changeOf(kind, 'a', { name: 'a' })], { action: 'made' })
  t.equal(proxy.lost, 1)
  t.same(names(book), ['a'])
  t.equal((await book.audit({ limit: 10 })).length, 1)
  proxy.loseAnswerTo('change_documents')
  await book.change([changeOf(kind, 'a', null)], { action: 'removed' })
  t.same([proxy.lost, names(book).length, (await book.audit({ limit: 10 })).length], [2, 0, 2])
})

t.test('connections that are cut while changes are under way cost nothing', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.book()
  const [one, other] = await Promise.all([node(t, url), node(t, url)])
  let cutting = true
  t.teardown(() => void (cutting = false))
  const cuts = (async () => {
    for (; cutting; await sleep(200))
      await server.sql(
        `select pg_terminate_backend(pid) from pg_stat_activity where application_name ~ '^sluice (changes|reads|listener)'
         and datname = current_database() and random() < 0.3`,
        url
      )
  })()
  const made: string[] = []
  for (let i = 0; i < 30; i++) {
    const name = `n${i}`
    await one.change([changeOf(kind, name, { name })], { action: 'made', object: name })
    made.push(name)
  }
  cutting = false
  await cuts
  await eventually(() => names(other).length === 30, 10_000)
  t.same(names(other), made)
  const audit = await other.audit({ limit: 100 })
  t.same(
    audit.map(({ entry }) => entry['object']),
    made.toReversed()
  )
})

t.test('a gateway goes on with what it knows while the server is away, and refuses changes', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.book(5)
  const [one, other] = await Promise.all([node(t, url), node(t, url)])
  await one.change([changeOf(kind, 'a', { name: 'a' })])
  await server.stop()
  t.same(names(one), ['a'])
  await t.rejects(one.change([changeOf(kind, 'b', { name: 'b' })]), { code: 'billing_unavailable' })
  one.note([changeOf(kind, 'c', { name: 'noted' })])
  t.same(names(one), ['a', 'noted'])
  await t.rejects(
    one.change([changeOf(kind, 'b', { name: 'b' })]),
    { code: 'billing_unavailable' },
    'also behind a note'
  )
  await server.resume()
  await eventually(() => other.find(kind, 'c') !== undefined, 20_000)
  t.same(names(other), ['a', 'noted'])
})

t.test(
  'what is seen at once is listed in the order in which it was put, whatever was changed last',
  { skip },
  async (t) => {
    const server = await sharedPostgres()
    const url = await server.book()
    const late = await node(t, url)
    await late.change([changeOf(kind, 'first', { name: 'first' })])
    await server.sql(
      `with news as (
       insert into sluice.document values ('thing', 'a', '{"name":"a"}', 9, 5), ('thing', 'b', '{"name":"b"}', 8, 7)
     )
     update sluice.book set version = 9`,
      url
    )
    await eventually(() => late.find(kind, 'a') !== undefined, 20_000)
    t.same(names(late), ['first', 'a', 'b'])
  }
)

t.test('a note undoes nothing that another gateway decided meanwhile', { skip }, async (t) => {
  const url = await (await sharedPostgres()).book()
  const [one, other] = await Promise.all([node(t, url), node(t, url)])
  await one.change([changeOf(kind, 'session', { name: 'begun' }), changeOf(kind, 'else', { name: 'x' })])
  await eventually(() => other.find(kind, 'else') !== undefined)
  const leaving = one.change([changeOf(kind, 'session', null)])
  // In the same turn, so it cannot know.
  other.note([changeOf(kind, 'session', { name: 'seen' })])
  other.note([changeOf(kind, 'else', { name: 'y' })])
  await leaving.catch(() => one.change([changeOf(kind, 'session', null)]))
  await eventually(() => one.find(kind, 'else')?.name === 'y')
  await eventually(() => other.find(kind, 'session') === undefined)
  t.equal(one.find(kind, 'session'), undefined)
})

t.test('a note and a change of one gateway do not conflict', { skip }, async (t) => {
  const book = await node(t, await (await sharedPostgres()).book())
  await book.change([changeOf(kind, 'a', { name: 'first' })])
  for (let i = 0; i < 20; i++) {
    book.note([changeOf(kind, 'a', { name: `noted ${i}` })])
    if (i % 2) await new Promise(setImmediate)
    await book.change([changeOf(kind, 'a', { name: `changed ${i}` })])
    t.equal(book.find(kind, 'a')?.name, `changed ${i}`)
  }
})

t.test('who was away for so long that deletions are forgotten reads everything', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.book()
  const [one, other] = await Promise.all([node(t, url), node(t, url)])
  await one.change([changeOf(kind, 'a', { name: 'a' }), changeOf(kind, 'b', { name: 'b' })])
  await eventually(() => other.find(kind, 'b') !== undefined)
  const heard: DocumentChange[] = []
  other.watch((changes) => void heard.push(...changes))
  // In one transaction, so that nobody reads in between.
  await server.sql(
    `do $$ begin
       perform sluice.change_documents(gen_random_uuid(), (select json_agg(json_build_object('kind', kind, 'id', id, 'base', version))
         from sluice.document where id = 'a'), null, false, 0, (select stamp from sluice.book));
       update sluice.document set changed = changed - interval '2 hours';
       perform sluice.sweep_documents();
     end $$`,
    url
  )
  await eventually(() => other.find(kind, 'a') === undefined)
  t.same(heard, [{ kind: 'thing', id: 'a', value: null }])
  t.same(await server.sql('select id from sluice.document', url), [{ id: 'b' }])
})

t.test('a change of one that was away for so long brings everything, too', { skip }, async (t) => {
  const server = await sharedPostgres()
  for (let round = 0; round < 5; round++) {
    const url = await server.book()
    const book = await node(t, url)
    await book.change([changeOf(kind, 'a', { name: 'a' }), changeOf(kind, 'b', { name: 'b' })])
    const seen = (await server.sql('select version from sluice.book', url))[0]!['version']
    const forgotten = server.sql(
      `do $$ begin
         perform sluice.change_documents(gen_random_uuid(), '[{"kind":"thing","id":"a","base":1}]', null, false, 0, (select stamp from sluice.book));
         update sluice.document set changed = changed - interval '2 hours';
         perform sluice.sweep_documents();
       end $$`,
      url
    )
    await forgotten
    await book.change([changeOf(kind, 'c', { name: 'c' })])
    t.same([book.find(kind, 'a'), book.find(kind, 'c')], [undefined, { name: 'c' }])
    const call = `select id from sluice.change_documents(gen_random_uuid(), '[{"kind":"thing","id":"d","value":"{}","base":0}]', null, false, ${seen}, (select stamp from sluice.book))`
    t.same(await server.sql(call, url), [], 'nothing that looks like all of it')
  }
})

/** Keeps what the database has of documents by now, as a standby does. Returns what makes it the database's again. */
async function standby(url: string): Promise<() => Promise<unknown>> {
  const server = await sharedPostgres()
  const tables = ['book', 'document', 'document_change']
  await server.sql(tables.map((table) => `create table kept_${table} as table sluice.${table}`).join(';'), url)
  const promote = tables.map((table) => `delete from sluice.${table}; insert into sluice.${table} table kept_${table};`)
  // In one transaction, so that nobody reads in between.
  return () => server.sql(`do $$ begin ${promote.join(' ')} end $$`, url)
}

t.test(
  'after a fail-over to a standby that lacks changes all have what it has, and what is changed then',
  { skip },
  async (t) => {
    const url = await (await sharedPostgres()).book()
    const [one, other] = await Promise.all([node(t, url), node(t, url)])
    for (const name of ['kept', 'revoked']) await one.change([changeOf(kind, name, { name })])
    await eventually(() => other.find(kind, 'revoked') !== undefined)
    const promote = await standby(url)
    await one.change([changeOf(kind, 'lost', { name: 'lost' })])
    await one.change([changeOf(kind, 'kept', { name: 'lost, too' })])
    await eventually(() => other.find(kind, 'kept')?.name === 'lost, too')
    const heard: DocumentChange[] = []
    one.watch((changes) => void heard.push(...changes))
    await promote()
    // As many changes as were lost, and more, by who may have read what was lost or not.
    const third = await node(t, url)
    await third.change([changeOf(kind, 'revoked', null)])
    await third.change([changeOf(kind, 'new', { name: 'new' })])
    await third.change([changeOf(kind, 'newer', { name: 'newer' })])
    for (const book of [one, other, third]) {
      await eventually(() => book.find(kind, 'revoked') === undefined && book.find(kind, 'lost') === undefined, 20_000)
      await eventually(() => book.find(kind, 'newer') !== undefined, 20_000)
      t.same(names(book), ['kept', 'new', 'newer'])
    }
    t.same(
      ['revoked', 'lost', 'kept'].map((name) => heard.findLast(({ id }) => id === name)?.value),
      [null, null, { name: 'kept' }]
    )
    await one.change([changeOf(kind, 'new', { name: 'changed' })])
    await eventually(() => other.find(kind, 'new')?.name === 'changed')
  }
)

t.test('nothing is changed by who has read what a standby lacks before it has read anew', { skip }, async (t) => {
  const url = await (await sharedPostgres()).book()
  const book = await node(t, url)
  await book.change([changeOf(kind, 'key', { name: 'key' })])
  const promote = await standby(url)
  await book.change([changeOf(kind, 'lost', { name: 'lost' })])
  await promote()
  // Its own look may come first: then it knows, and the change is made.
  const refused = await book.change([changeOf(kind, 'key', null)]).then(
    () => undefined,
    (error: unknown) => error
  )
  if (refused) t.match(refused, { details: { status: 409, shownCode: 'changed_meanwhile' } })
  t.equal(book.find(kind, 'lost'), undefined, 'it has read anew')
  if (refused) await book.change([changeOf(kind, 'key', null)])
  t.same(names(book), [])
  await promote()
  await book.change([], { action: 'happened' })
  book.note([changeOf(kind, 'noted', { name: 'noted' })])
  await eventually(() => names(book).join() === 'key,noted', 20_000)
  t.equal((await book.audit({ limit: 10 })).length, 1, 'what happened is kept')
})

t.test('the audit log is chained, takes any text, is paged, and cannot be changed', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.book()
  const [one, other] = await Promise.all([node(t, url), node(t, url)])
  const entries = Array.from({ length: 12 }, (_, i) => ({
    action: `a\u0000${i % 3}`,
    object: `\ud800 é ${i}`,
    list: [1, null]
  }))
  await Promise.all(entries.map((entry, i) => [one, other][i % 2]!.change([], entry)))
  const stored = (await one.audit({ limit: 100 })).toReversed()
  t.same(
    stored.map(({ seq }) => seq),
    entries.map((_, i) => i + 1)
  )
  let previous = ''
  for (const { seq, time, entry, hash: digest } of stored) {
    t.equal(digest, hash('sha256', `${previous}:${seq}:${time}:${JSON.stringify(entry)}`))
    previous = digest
  }
  t.equal((await one.audit({ limit: 100, members: { action: 'a\u00001' } })).length, 4)
  // Entries that come at the same time are stored in any order.
  const before = stored.filter(({ seq }) => seq < 7).filter(({ entry }) => entry['action'] === 'a\u00001')
  const page = await one.audit({ limit: 2, before: 7, members: { action: 'a\u00001' } })
  t.same(
    page.map(({ seq }) => seq),
    before
      .map(({ seq }) => seq)
      .toReversed()
      .slice(0, 2)
  )
  t.equal((await one.audit({ limit: 100, since: stored[11]!.time + 1 })).length, 0)
  await t.rejects(server.sql('delete from sluice.audit', url), /only appended to/)
  await t.rejects(server.sql(`update sluice.audit set json = '{}'`, url), /only appended to/)
})

t.test('a look for what is new, a change and the upkeep read no document that they need not', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.database()
  // The server counts what a connection has read some seconds later, or when it ends: indexes are built by whole reads.
  await (await Database.open({ url })).close()
  const database = await Database.open({ url })
  t.teardown(() => database.close())
  await server.sql(
    `insert into sluice.document select 'thing', 'd' || i, '{"name":"x"}', i, i from generate_series(1, 20000) i;
     update sluice.book set version = 20000; analyze sluice.document`,
    url
  )
  const looks = async (): Promise<{ whole: number; some: number }> => {
    const [row] = await server.sql(
      `select seq_scan::int as whole, idx_scan::int as some from pg_stat_user_tables where relname = 'document'`,
      url
    )
    return row
  }
  await eventually(async () => (await looks()).whole >= 3)
  const made = await looks()
  const book = await DocumentBook.open(database)
  t.teardown(() => book.close())
  t.equal(book.all(kind).length, 20_000)
  await eventually(async () => (await looks()).whole > made.whole, 20_000)
  const before = await looks()
  await book.change([changeOf(kind, 'd5', { name: 'changed' }), changeOf(kind, 'd6', null)])
  await server.sql('select sluice.sweep_documents()', url)
  // Several looks of the book itself.
  await eventually(async () => (await looks()).some >= before.some + 8, 30_000)
  t.equal((await looks()).whole, before.whole)
})
