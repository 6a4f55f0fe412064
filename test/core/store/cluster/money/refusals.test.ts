// What the database refuses for good, or has not: the one that is at fault ends, and everything else goes on.
import { readdirSync } from 'node:fs'
import t from 'tap'
import type { Test } from 'tap'
import type { Settlement } from '../../../../../core/store/ledger.ts'
import { brokenIn, logFolder, moneyBook, moneyNode } from '../../../../kit/cluster-money.ts'
import { postgresMissing, sharedPostgres } from '../../../../kit/postgres.ts'
import { eventually } from '../../../../kit/probe.ts'
import { noon, scope } from '../../embedded/sample.ts'
import { charge, endsIn, hold, refusal } from './oracle.ts'

const scopes = [scope('tenant', 'acme', 1_000_000n, 'month'), scope('key', 'laptop', 1_000_000n)]
const now = (): number => noon
/** PostgreSQL stores no text with this. */
const bad = 'a\0b'
const impossible: Settlement = { ...charge(3), channel: bad }

function test(what: string, run: (t: Test) => Promise<void>): void {
  void t.test(what, { skip: postgresMissing, timeout: 300_000 }, run)
}

test('a request that the database refuses keeps no other from being admitted', async (t) => {
  const url = await moneyBook()
  const node = await moneyNode(t, url, 'one', { folder: logFolder(t), now })
  const asked = await Promise.allSettled(
    Array.from({ length: 40 }, (_, i) =>
      hold(node.ledger, scopes, 10n, i === 13 || i === 29 ? { endpoint: bad } : { streamed: true })
    )
  )
  t.same(
    asked.flatMap(({ status }, i) => (status === 'rejected' ? [i] : [])),
    [13, 29]
  )
  for (const one of asked)
    if (one.status === 'rejected') t.match(String(one.reason), /request .* cannot be held: PostgreSQL: .*22P05/)
    else await one.value.settle(charge(1))
  t.equal(node.trouble, undefined)
  t.equal((await endsIn(url)).size, 38)
  t.same(await brokenIn(url), [])
})

test('an end that the database refuses is kept and told of, and all others are written', async (t) => {
  const url = await moneyBook()
  const folder = logFolder(t)
  const node = await moneyNode(t, url, 'one', { folder, now })
  const holds = await Promise.all(Array.from({ length: 30 }, () => hold(node.ledger, scopes, 10n)))
  await Promise.all(holds.map((one, i) => one.settle(i === 17 ? impossible : charge(2))))
  const wrong = holds[17]!.requestId
  t.match(node.trouble, { text: new RegExp(`refuses the end of the request ${wrong}: .* kept in`), refuses: false })
  t.equal((await endsIn(url)).size, 29)
  t.equal(await node.ledger.affordable([scopes[1]!], noon), 1_000_000n - 29n * 2n - 10n, 'what it holds stays held')
  await (await hold(node.ledger, scopes, 10n)).settle(charge(2))
  await node.close()
  t.ok(readdirSync(folder).length > 0, 'its end is in the log')

  const again = await moneyNode(t, url, 'one', { folder, now })
  t.match(again.trouble, { text: new RegExp(wrong) }, 'the next start has it again')
  await (await hold(again.ledger, scopes, 10n)).settle(charge(2))
  t.equal((await endsIn(url)).size, 31)
  t.same(await brokenIn(url), [])
})

test('a price that the database refuses is one that no request is made at', async (t) => {
  const url = await moneyBook()
  const node = await moneyNode(t, url, 'one', { folder: logFolder(t), now })
  const price = { version: bad, perMillion: { output: 5_000_000n } }
  await t.rejects(hold(node.ledger, scopes, 10n, { price }))
  await t.rejects(hold(node.ledger, scopes, 10n, { price }), { message: /refuses the price version "a\\u0000b"/ })
  await (await hold(node.ledger, scopes, 10n)).settle(charge(1))
  t.same(await brokenIn(url), [])
})

test('a database that refuses everything is one that is away', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const node = await moneyNode(t, url, 'one', { folder: logFolder(t), now, patience: 1000 })
  const made = await hold(node.ledger, scopes, 10n)
  await server.sql(
    `create function refuse() returns trigger language plpgsql as $$ begin raise 'no'; end $$;
      create trigger refuse before update on sluice.node for each row execute function refuse()`,
    url
  )
  const ended = made.settle(charge(4))
  t.equal((await refusal(hold(node.ledger, scopes, 10n))).code, 'billing_unavailable')
  await ended
  t.match(node.trouble, { text: 'the database cannot be written' })
  await server.sql('drop trigger refuse on sluice.node', url)
  await eventually(() => node.trouble === undefined, 20_000)
  await node.flush()
  t.same((await endsIn(url)).get(made.requestId), ['settle 4 upstream'], 'nothing was given up')
  t.same(await brokenIn(url), [])
})

test('the end of a hold that is gone takes no other request with it', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const node = await moneyNode(t, url, 'one', { folder: logFolder(t), now })
  const other = await moneyNode(t, url, 'other', { folder: logFolder(t), now })
  const made = await hold(node.ledger, scopes, 10n)
  const kept = await hold(node.ledger, scopes, 10n)
  await made.detach(noon + 60_000)
  t.equal(await other.adopt(made.requestId), true)
  const epoch = (): Promise<unknown[]> => server.sql(`select epoch from sluice.node where name = 'one'`, url)
  const before = await epoch()
  const [, , ...held] = await Promise.all([
    made.settle(charge(4)),
    kept.settle(charge(5)),
    ...Array.from({ length: 20 }, () => hold(node.ledger, scopes, 10n))
  ])
  await Promise.all(held.map((one) => one.void()))
  await other.ledger.detached(made.requestId)!.settle(charge(6))
  const ends = await endsIn(url)
  t.same(
    [made, kept].map(({ requestId }) => ends.get(requestId)),
    [['settle 6 upstream'], ['settle 5 upstream']]
  )
  t.equal(ends.size, 22)
  t.same(await epoch(), before)
  t.same(await brokenIn(url), [])
})

test('more new prices than one batch has are all there before the holds that need them', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const node = await moneyNode(t, url, 'one', { folder: logFolder(t), now })
  const holds = await Promise.all(
    Array.from({ length: 700 }, (_, i) =>
      hold(node.ledger, scopes, 1n, { price: { version: `many:${i}`, perMillion: { output: BigInt(i) } } })
    )
  )
  t.same(
    await server.sql(
      `select request_id from sluice.hold h where not exists (select from sluice.price where version = h.price_version)`,
      url
    ),
    []
  )
  await Promise.all(holds.map((one) => one.void()))
  t.same(await brokenIn(url), [])
})
