// Searches, which take long: nobody else waits for them, the server ends them, and they end when nobody wants them.
import t from 'tap'
import type { Test } from 'tap'
import { Database } from '../../../../../core/store/cluster/database/database.ts'
import { openSharedBook } from '../../../../../core/store/cluster/shared-book.ts'
import type { SharedBook } from '../../../../../core/store/cluster/shared-book.ts'
import { search } from '../../../../../core/store/cluster/database/search.ts'
import { postgresMissing, sharedPostgres } from '../../../../kit/postgres.ts'
import type { Postgres } from '../../../../kit/postgres.ts'
import { eventually } from '../../../../kit/probe.ts'

const skip = postgresMissing
const bounds = { routeAge: 1e9, answers: { age: 1e9, size: 2 ** 30 }, requests: { age: 1e9, size: 2 ** 30 } }

async function opened(t: Test): Promise<{ server: Postgres; url: string; database: Database; book: SharedBook }> {
  const server = await sharedPostgres()
  const url = await server.database()
  const database = await Database.open({ url })
  const book = await openSharedBook(database, bounds)
  t.teardown(async () => {
    await book.close()
    await database.close()
  })
  return { server, url, database, book }
}

const searching = `select pid from pg_stat_activity where application_name = 'sluice searches'
  and datname = current_database() and wait_event_type = 'Lock'`

t.test('searches that hang hold up no request, and end on the server when who asked has left', { skip }, async (t) => {
  const { server, url, database, book } = await opened(t)
  // Whoever reads the log waits for this.
  const locking = database.changes.transaction(
    async (transaction) => {
      await transaction.query('lock table sluice.request in access exclusive mode')
      await transaction.query('select pg_sleep(60)')
    },
    { deadline: 120_000 }
  )
  locking.catch(() => {})
  await eventually(
    async () => (await server.sql(`select from pg_locks where mode = 'AccessExclusiveLock'`, url)).length > 0
  )
  const left = new AbortController()
  const searches = Array.from({ length: 6 }, () => book.requests.list({ limit: 10 }, left.signal))
  const ended = Promise.allSettled(searches)
  await eventually(async () => (await server.sql(searching, url)).length === 2, 20_000)
  const owner = { tenant: 'acme', project: 'web' }
  t.equal(await book.routes.find(owner, 'none'), undefined)
  t.equal(await book.answers.find(Buffer.from('none')), undefined)
  t.equal(await book.claims.look('none'), undefined)
  t.equal(await book.works.find(owner, 'none'), undefined)
  left.abort()
  for (const one of await ended) t.match(one, { status: 'rejected', reason: { code: 'client_closed' } })
  await eventually(async () => (await server.sql(searching, url)).length === 0, 20_000)
  await server.sql(
    `select pg_terminate_backend(pid) from pg_stat_activity where query like 'select pg_sleep(60)%'`,
    url
  )
  t.same(await book.requests.list({ limit: 10 }), { data: [], next: null })
  await t.rejects(book.requests.list({ limit: 10 }, left.signal), { code: 'client_closed' })
})

t.test('the server ends a search that takes too long, and the connection is as it was', { skip }, async (t) => {
  const { server, url, database } = await opened(t)
  const one = { deadline: 300, wait: 20_000 }
  const pid = async (): Promise<unknown> => (await search(database.searches, 'select pg_backend_pid()', [], one))[0]
  await t.rejects(search(database.searches, 'select pg_sleep(30)', [], one), { code: '57014', unknown: false })
  const pids = await server.sql(`select pid from pg_stat_activity where application_name = 'sluice searches'`, url)
  t.equal(pids.length, 2, 'none was made anew')
  t.ok(await pid())
  const { rows } = await database.searches.query('show statement_timeout')
  t.same(rows, [{ statement_timeout: '0' }])
})
