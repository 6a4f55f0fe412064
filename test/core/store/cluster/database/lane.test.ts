// The connections to a real PostgreSQL: deadlines, connections that are cut, servers that stop, and what errors say.
import t from 'tap'
import type { Test } from 'tap'
import { readAddress } from '../../../../../core/store/cluster/database/address.ts'
import { Database } from '../../../../../core/store/cluster/database/database.ts'
import { DatabaseFault } from '../../../../../core/store/cluster/database/fault.ts'
import { Group } from '../../../../../core/store/cluster/database/group.ts'
import { Lane } from '../../../../../core/store/cluster/database/lane.ts'
import { Listener } from '../../../../../core/store/cluster/database/listener.ts'
import { DocumentBook } from '../../../../../core/store/cluster/documents/document-book.ts'
import { Recalls } from '../../../../../core/store/cluster/money/slices/recalls.ts'
import type { Slices } from '../../../../../core/store/cluster/money/slices/slices.ts'
import { changeOf, documentKind } from '../../../../../core/store/documents.ts'
import { createLogger } from '../../../../../core/telling/log.ts'
import { makeCertificate } from '../../../../kit/certificate.ts'
import { PostgresProxy } from '../../../../kit/postgres-proxy.ts'
import { postgresMissing, sharedPostgres } from '../../../../kit/postgres.ts'
import { eventually } from '../../../../kit/probe.ts'

async function fault(run: Promise<unknown>): Promise<DatabaseFault> {
  try {
    await run
  } catch (error) {
    if (error instanceof DatabaseFault) return error
    throw error
  }
  throw new Error('it did not fail')
}

function laneOf(t: Test, url: string, size = 1): Lane {
  const lane = new Lane(readAddress(url), 'test', size)
  t.teardown(() => lane.close())
  return lane
}

t.test('statements', { skip: postgresMissing }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.database()
  const lane = laneOf(t, url)

  await t.test('a statement gives its rows, with bigint as such', async (t) => {
    const { rows } = await lane.query(
      'select 9007199254740993 as big, array[1::bigint, null] as some, $1::text as text',
      ['é']
    )
    t.same(rows, [{ big: 9007199254740993n, some: [1n, null], text: 'é' }])
  })

  await t.test('a transaction is undone by what its code throws, and by an error of a statement', async (t) => {
    await lane.query('create table thing (id int primary key, name text)')
    await t.rejects(
      lane.transaction(async (transaction) => {
        await transaction.query('insert into thing values (1)')
        throw new Error('changed my mind')
      }),
      { message: 'changed my mind' }
    )
    const violated = await fault(
      lane.transaction(async (transaction) => {
        await transaction.query('insert into thing values (1, $1)', ['secret of a row'])
        await transaction.query('insert into thing values (1, $1)', ['secret of a row'])
      })
    )
    t.match(violated, { code: '23505', constraint: 'thing_pkey', unknown: false })
    t.notMatch(`${violated.stack} ${JSON.stringify(violated)}`, /secret/)
    t.same((await lane.query('select * from thing')).rows, [])
  })

  await t.test('what the database says of a value that it refuses does not repeat the value', async (t) => {
    const refused = await fault(lane.query('select $1::text::int', ['secret of a caller']))
    t.match(refused, { code: '22P02', ofContent: true, unknown: false, message: /22P02/ })
    t.notMatch(`${refused.stack} ${JSON.stringify(refused)}`, /secret/)
  })

  await t.test('a server that can do nothing at present is away', async (t) => {
    const read = fault(
      lane.transaction(async (transaction) => {
        await transaction.query('set transaction read only')
        await transaction.query('create table other (id int)')
      })
    )
    t.match(await read, { code: 'readonly', away: true, ofContent: false })
  })

  await t.test('an item that is refused keeps no other of its group from being written', async (t) => {
    await lane.query('create table item (text text primary key)')
    let statements = 0
    const group = new Group<string>({
      most: 100,
      write: (items) => {
        statements++
        return lane.query('insert into item select * from json_array_elements_text($1)', [JSON.stringify(items)])
      }
    })
    const texts = Array.from({ length: 64 }, (_, i) => (i % 30 === 7 ? `${i}\0` : String(i)))
    const added = await Promise.allSettled(texts.map((text) => group.add(text)))
    t.same(
      added.flatMap(({ status }, i) => (status === 'rejected' ? [i] : [])),
      [7, 37]
    )
    t.equal((await lane.query('select from item')).count, 62)
    t.ok(statements < 30, `in ${statements} statements`)
    await group.close()
  })

  await t.test('a statement that takes too long is given up with its connection, and the next one runs', async (t) => {
    t.match(await fault(lane.query('select pg_sleep(30)', [], { deadline: 100 })), { code: 'deadline', unknown: true })
    t.equal((await lane.query('select 1')).count, 1)
    const impatient = laneOf(t, url.replace(/timeout=\d+/, 'timeout=1'))
    await impatient.query('select 1')
    const { message } = await fault(impatient.query('select pg_sleep(30)'))
    t.match(message, /did not answer within 1000 ms/, 'the time that the address gives')
  })

  await t.test('what waits too long for its turn was not sent', async (t) => {
    const long = lane.query('select pg_sleep(1)')
    t.match(await fault(lane.query('select 1', [], { deadline: 50 })), { code: 'busy', unknown: false })
    await long
  })

  await t.test(
    'when the server ends a connection, what was under way is unknown, and a transaction undone',
    async (t) => {
      const end = `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'test' and datname = current_database()`
      const sleeping = fault(lane.query('select pg_sleep(31)'))
      await eventually(async () => (await server.sql(`${end} and query like '%pg_sleep(31)%'`, url)).length === 1)
      t.match(await sleeping, { code: 'lost', unknown: true })
      const changing = fault(
        lane.transaction(async (transaction) => {
          await transaction.query('insert into thing values (2)')
          await server.sql(end, url)
          await transaction.query('insert into thing values (3)')
        })
      )
      t.match(await changing, { code: 'lost', unknown: false })
      t.same((await lane.query('select * from thing')).rows, [])
    }
  )

  await t.test('a server that comes back is used again; meanwhile statements say that it is not there', async (t) => {
    await server.stop()
    await eventually(() => lane.trouble !== undefined)
    t.match(await fault(lane.query('select 1', [], { deadline: 200 })), { unknown: false })
    await eventually(() => lane.trouble?.code === 'unreachable')
    await server.resume()
    t.equal((await lane.query('select 1', [], { wait: 20_000 })).count, 1)
    t.equal(lane.trouble, undefined)
  })
})

t.test(
  'a listener hears, and after its connection was cut it says that something may have been missed',
  { skip: postgresMissing },
  async (t) => {
    const server = await sharedPostgres()
    const url = await server.database()
    const listener = new Listener(readAddress(url), 'the listener')
    t.teardown(() => listener.close())
    const heard: (string | undefined)[] = []
    listener.on('news', (payload) => void heard.push(payload))
    await eventually(() => heard.length === 1, 10_000)
    await server.sql(`notify news, '7'`, url)
    await eventually(() => heard.length === 2)
    t.same(heard, [undefined, '7'])
    await server.sql(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'the listener'`,
      url
    )
    await eventually(() => heard.length === 3, 10_000)
    t.equal(heard[2], undefined)
  }
)

t.test(
  'notifications that nobody can read end no gateway: all look for what there is',
  { skip: postgresMissing },
  async (t) => {
    const server = await sharedPostgres()
    const url = await server.book()
    const database = await Database.open({ url })
    const book = await DocumentBook.open(database)
    const lines: string[] = []
    const log = createLogger({ write: (line) => void lines.push(line) })
    const listener = new Listener(readAddress(url), 'the listener', undefined, log)
    let renewed = 0
    const recalls = new Recalls({
      slices: { recall: () => false, recallAll() {}, look: () => false, held: 0 } as unknown as Slices,
      sender: { wake() {}, renew: () => void renewed++ },
      returned: () => t.fail('nothing was given back'),
      keyOf: () => undefined,
      listener,
      answers: () => true
    })
    const heard: (string | undefined)[] = []
    for (const channel of ['sluice_documents', 'sluice_recall', 'sluice_return']) {
      listener.on(channel, (payload) => {
        heard.push(payload)
        if (payload === '1,') throw new Error('no number')
      })
    }
    t.teardown(async () => {
      await Promise.all([recalls.close(), book.close(), listener.close()])
      await database.close()
    })
    await eventually(() => heard.length === 3 && database.listener.listening, 10_000)
    const before = renewed
    for (const channel of ['sluice_documents', 'sluice_recall', 'sluice_return'])
      for (const payload of ['x', '', '-1', '1,']) await server.sql(`notify ${channel}, '${payload}'`, url)
    await eventually(() => heard.length === 15, 10_000)
    t.equal(renewed - before, 4, 'a recall of what is not known asks')
    t.equal(lines.length, 3, 'what throws is logged')
    t.match(lines[0], /a notification of PostgreSQL could not be handled.*no number/)
    const kind = documentKind<{ name: string }>('thing')
    await book.change([changeOf(kind, 'a', { name: 'a' })])
    t.equal(book.find(kind, 'a')?.name, 'a')
  }
)

t.test('the answer to a commit that is lost makes the outcome unknown', { skip: postgresMissing }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.database()
  await server.sql('create table thing (id int)', url)
  const proxy = await PostgresProxy.start(t, server)
  const lane = laneOf(t, proxy.url(url))
  proxy.loseAnswerTo('commit')
  const lost = await fault(lane.transaction((transaction) => transaction.query('insert into thing values (1)')))
  t.match(lost, { code: 'lost', unknown: true })
  t.same(await server.sql('select * from thing', url), [{ id: 1 }])
})

t.test('an error with which the server ends the connection makes the outcome unknown', async (t) => {
  const of = (severity: string, code: string): DatabaseFault =>
    DatabaseFault.of(Object.assign(new Error('it failed'), { severity, code }))
  for (const [severity, code] of [
    ['PANIC', '53100'],
    ['FATAL', 'XX000'],
    ['FATAL', '25P03'],
    ['FEHLER', '25P03'],
    ['FATAL', '57P01']
  ] as const)
    t.match(of(severity, code), { code: 'lost', unknown: true, away: true }, `${severity} ${code}`)
  t.match(of('ERROR', '53100'), { code: '53100', unknown: false, away: true })
})

t.test('TLS is to whom the certificate is for, or there is none', { skip: postgresMissing }, async (t) => {
  const server = await sharedPostgres()
  const direct = await server.database()
  const own = makeCertificate(t)
  const proxy = await PostgresProxy.start(t, server, own)
  const url = (parameters: string, host = 'localhost'): string =>
    `${proxy.url(direct).replace('127.0.0.1', host)}?${parameters}`
  const rootcert = `sslrootcert=${encodeURIComponent(own.cert)}`
  for (const good of [`sslmode=verify-full&${rootcert}`, `sslmode=require&${rootcert}`, 'sslmode=no-verify'])
    for (const host of ['localhost', '127.0.0.1'])
      t.equal((await laneOf(t, url(good, host)).query('select 1')).count, 1, `${host} ${good}`)
  const other = makeCertificate(t, 'elsewhere.example')
  for (const bad of ['sslmode=require', `sslmode=verify-full&sslrootcert=${encodeURIComponent(other.cert)}`])
    t.match(await fault(laneOf(t, url(bad)).query('select 1', [], { wait: 1500 })), { code: 'unreachable' }, bad)
  const stranger = await PostgresProxy.start(t, server, other)
  const named = `${stranger.url(direct).replace('127.0.0.1', 'localhost')}?sslmode=require&sslrootcert=${encodeURIComponent(other.cert)}`
  for (const host of ['localhost', '127.0.0.1'])
    t.match(await fault(laneOf(t, named.replace('localhost', host)).query('select 1', [], { wait: 1500 })), {
      code: 'unreachable',
      message: /altnames|IP: 127\.0\.0\.1/
    })
})

t.test('the URL is read, and errors do not repeat it', async (t) => {
  t.match(readAddress('postgres://me:p%40ss@db.example:6000/book?sslmode=require'), {
    host: 'db.example',
    port: 6000,
    user: 'me',
    password: 'p@ss',
    database: 'book',
    tls: { rejectUnauthorized: true },
    exposed: false,
    shown: 'db.example:6000/book'
  })
  for (const [host, exposed] of Object.entries({
    'db.example': true,
    '10.0.0.1': true,
    '127.0.0.1': false,
    '[::1]': false
  }))
    t.equal(readAddress(`postgres://me@${host}/book`).exposed, exposed, host)
  t.equal(readAddress('postgres://me@[::1]/book').host, '::1')
  t.equal(readAddress('postgresql://me@localhost/book?host=%2Frun%2Fpg').host, '/run/pg')
  t.equal(readAddress('postgres://me@db/book').timeout, 5000)
  t.equal(readAddress('postgres://me@db/book?timeout=600').timeout, 600_000)
  for (const url of [
    'secret',
    'mysql://me:secret@db/book',
    'postgres://:secret@db/book',
    'postgres://me:secret@db/',
    'postgres://me:secret@db/book?sslmode=prefer',
    'postgres://me:secret@db/book?options=x',
    'postgres://me:secret@db/book?timeout=0',
    'postgres://me:secret@db/book?timeout=5s',
    'postgres://me:secret@db/book?timeout=601',
    'postgres://me:secret%@db/book',
    'postgres://me:secret@db/book?sslmode=require&sslrootcert=/nowhere'
  ])
    t.throws(() => readAddress(url), { message: /^(?!.*secret).*PostgreSQL/ }, url)
})
