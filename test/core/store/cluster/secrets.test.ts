// Client secrets that several gateways share in a real PostgreSQL, and what is spent with them.
import { hash } from 'node:crypto'
import t from 'tap'
import type { Test } from 'tap'
import { Database } from '../../../../core/store/cluster/database/database.ts'
import { SecretBook } from '../../../../core/store/cluster/secrets/secret-book.ts'
import type { KeptSecret } from '../../../../core/store/secrets.ts'
import { PostgresProxy } from '../../../kit/postgres-proxy.ts'
import { postgresMissing, sharedPostgres } from '../../../kit/postgres.ts'
import { eventually } from '../../../kit/probe.ts'

const skip = postgresMissing
const digest = (text: string): Buffer => hash('sha256', text, 'buffer')

const secret = (name: string, now: number, more: Partial<KeptSecret> = {}): KeptSecret => ({
  sha256: digest(name),
  issuer: digest('key'),
  model: 'demo',
  expires: now + 60_000,
  ...more
})

async function node(t: Test, url: string, now = Date.now, listenUrl = url): Promise<SecretBook> {
  const database = await Database.open({ url, listenUrl })
  const book = new SecretBook(database, now)
  t.teardown(async () => {
    await book.close()
    await database.close()
  })
  return book
}

t.test('one that is made at one gateway is found at another, by the clock of the database', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.book()
  const [fast, slow] = [(): number => Date.now() + 600_000, (): number => Date.now() - 600_000]
  const [one, other] = [await node(t, url, fast), await node(t, url, slow)]
  await one.put(secret('a', fast()))
  const found = (await other.find(digest('a')))!
  t.match(found, { model: 'demo', issuer: digest('key'), sha256: digest('a') })
  t.ok(found.expires > slow() && found.expires <= slow() + 60_000, 'as the other one counts time')
  await one.put(secret('over', fast(), { expires: fast() - 1 }))
  t.equal(await other.find(digest('over')), undefined)
  t.notMatch(JSON.stringify(await server.sql('select * from sluice.client_secret', url)), /ek_/)
  await server.sql(`update sluice.client_secret set expires = expires - interval '2 minutes'`, url)
  t.equal(await one.find(digest('a')), undefined)
  while (await one.sweep());
  t.same(await server.sql('select from sluice.client_secret', url), [])
})

t.test('gateways that race make no more for a key than it may have', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.book()
  const books = [await node(t, url), await node(t, url)]
  const made = await Promise.all(Array.from({ length: 1010 }, (_, i) => books[i % 2]!.put(secret(`s${i}`, Date.now()))))
  t.equal(made.filter(Boolean).length, 1000)
  t.equal(await books[0]!.put(secret('another', Date.now(), { issuer: digest('other') })), true)
  const again = made.indexOf(true)
  t.equal(await books[1]!.put(secret(`s${again}`, Date.now())), true, 'one that is there is replaced')
})

t.test('sessions at several gateways spend together what they may, also when answers are lost', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.book()
  const proxy = await PostgresProxy.start(t, server)
  const books = [await node(t, proxy.url(url), Date.now, url), await node(t, url)]
  const sha256 = digest('a')
  proxy.loseAnswerTo('keep_client_secret')
  t.equal(await books[0]!.put(secret('a', Date.now(), { budget: 1000n })), true)
  const names = Array.from({ length: 40 }, (_, i) => `turn ${i}`)
  proxy.loseAnswerTo('hold_client_secret')
  const held = await Promise.all(names.map((name, i) => books[i % 2]!.hold(sha256, name, 70n)))
  const taken = names.filter((_, i) => held[i] === undefined)
  t.equal(taken.length, 14)
  t.same(await books[1]!.spent(sha256), { posted: 0n, pending: 980n })
  proxy.loseAnswerTo('client_secret_hold h')
  // Whichever gateway ends it.
  for (const name of taken) books[0]!.end(sha256, name, 60n)
  await books[0]!.idle()
  await eventually(async () => (await books[1]!.spent(sha256)).pending === 0n, 20_000)
  t.same(await books[1]!.spent(sha256), { posted: 840n, pending: 0n })
  t.equal(proxy.lost, 3)
})

t.test('while the database is away nothing is held, and what ended is counted when it is back', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.book(5)
  const book = await node(t, url)
  const sha256 = digest('a')
  await book.put(secret('a', Date.now(), { budget: 100n, expires: Date.now() + 600_000 }))
  t.equal(await book.hold(sha256, 'turn', 60n), undefined)
  await server.stop()
  book.end(sha256, 'turn', 30n)
  const away = { code: 'billing_unavailable' }
  await t.rejects(book.hold(sha256, 'next', 1n), away)
  await t.rejects(book.find(sha256), away)
  await server.resume()
  await eventually(async () => (await book.spent(sha256).catch(() => undefined))?.posted === 30n, 20_000)
  t.same(await book.spent(sha256), { posted: 30n, pending: 0n })
})
