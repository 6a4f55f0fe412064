// Changes and notes of documents under way while a server takes over that lacks what they were decided on.
import t from 'tap'
import type { Test } from 'tap'
import { Database } from '../../../../core/store/cluster/database/database.ts'
import { DocumentBook } from '../../../../core/store/cluster/documents/document-book.ts'
import { changeOf, documentKind } from '../../../../core/store/documents.ts'
import { DatabaseProxy } from '../../../kit/database-proxy.ts'
import { postgresMissing, sharedPostgres } from '../../../kit/postgres.ts'
import { eventually } from '../../../kit/probe.ts'

const kind = documentKind<{ name: string }>('thing')
const skip = postgresMissing

async function node(t: Test, url: string): Promise<DocumentBook> {
  const database = await Database.open({ url })
  const book = await DocumentBook.open(database)
  t.teardown(async () => {
    await book.close()
    await database.close()
  })
  return book
}

interface FailOver {
  /** Has read a change of the document that is lost, which gave it the version 2. */
  readonly book: DocumentBook
  readonly proxy: DatabaseProxy
  /** A server takes over that lacks it, and another gateway makes the version 2 of the document. */
  takeOver(): Promise<void>
}

async function failOver(t: Test): Promise<FailOver> {
  const server = await sharedPostgres()
  const url = await server.book()
  const proxy = await DatabaseProxy.start(t, server.socket)
  const book = await node(t, proxy.url(url))
  await book.change([changeOf(kind, 'd', { name: 'first' })])
  const tables = ['book', 'document', 'document_change']
  await server.sql(tables.map((table) => `create table kept_${table} as table sluice.${table}`).join(';'), url)
  const promote = tables.map((table) => `delete from sluice.${table}; insert into sluice.${table} table kept_${table};`)
  await book.change([changeOf(kind, 'd', { name: 'lost' })])
  const takeOver = async (): Promise<void> => {
    await server.sql(`do $$ begin ${promote.join(' ')} end $$`, url)
    const other = await node(t, url)
    await other.change([changeOf(kind, 'd', { name: 'new' })])
    const [{ version }] = await server.sql(`select version::int from sluice.document where id = 'd'`, url)
    t.equal(version, 2)
  }
  return { book, proxy, takeOver }
}

t.test('a change that was decided on what is lost is refused, also when it is asked again', { skip }, async (t) => {
  const { book, proxy, takeOver } = await failOver(t)
  proxy.loses = (sent) => sent.includes('change_documents')
  const refused = book.change([changeOf(kind, 'd', { name: 'decided on what is lost' })]).then(
    () => undefined,
    (error: unknown) => error
  )
  await eventually(() => proxy.lost > 0)
  await takeOver()
  await eventually(() => book.find(kind, 'd')?.name === 'new')
  proxy.loses = () => false
  t.match(await refused, { details: { status: 409, shownCode: 'changed_meanwhile' } })
  await eventually(() => book.find(kind, 'd')?.name === 'new')
})

t.test('a note of what is lost is left out, and one of what is new is kept', { skip }, async (t) => {
  const { book, proxy, takeOver } = await failOver(t)
  proxy.stand()
  book.note([changeOf(kind, 'd', { name: 'noted' })])
  book.note([changeOf(kind, 'e', { name: 'noted, too' })])
  await takeOver()
  proxy.goOn()
  await eventually(() => book.find(kind, 'd')?.name === 'new' && book.find(kind, 'e') !== undefined)
  // What is noted from then on is written behind what waited before.
  book.note([changeOf(kind, 'f', { name: 'last' })])
  await book.close()
  t.same(
    book.all(kind).map(({ name }) => name),
    ['new', 'noted, too', 'last']
  )
})
