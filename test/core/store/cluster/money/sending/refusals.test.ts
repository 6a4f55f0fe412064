// What the database refuses for good, or has not: the one that is at fault ends, and everything else goes on.
import { readdirSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import type { Settlement } from '../../../../../../core/store/ledger.ts'
import type { Logger } from '../../../../../../core/telling/log.ts'
import { silentLog } from '../../../../../../core/telling/log.ts'
import { brokenIn, logFolder, moneyBook, moneyNode } from '../../../../../kit/cluster-money.ts'
import { postgresMissing, sharedPostgres } from '../../../../../kit/postgres.ts'
import { eventually } from '../../../../../kit/probe.ts'
import { noon, scope } from '../../../embedded/sample.ts'
import { charge, endsIn, hold, refusal } from '../oracle.ts'

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
    if (one.status === 'rejected') t.match(String(one.reason), /request .* cannot be held: PostgreSQL: .*22021/)
    else await one.value.settle(charge(1))
  t.equal(node.trouble, undefined)
  await eventually(async () => (await endsIn(url)).size === 38)
  t.same(await brokenIn(url), [])
})

test('an end that the database refuses is kept and told of, and all others are written', async (t) => {
  const url = await moneyBook()
  const folder = logFolder(t)
  const node = await moneyNode(t, url, 'one', { folder, now })
  const holds = await Promise.all(Array.from({ length: 30 }, () => hold(node.ledger, scopes, 10n)))
  await Promise.all(holds.map((one, i) => one.settle(i === 17 ? impossible : charge(2))))
  const wrong = holds[17]!.requestId
  // On a busy machine its end is in the log of the node before it is refused.
  await eventually(() => node.trouble !== undefined, 60_000)
  t.match(node.trouble, { text: new RegExp(`refuses the end of the request ${wrong}: .* kept in`), refuses: false })
  await eventually(async () => (await endsIn(url)).size === 29)
  t.equal(await node.ledger.affordable([scopes[1]!], noon), 1_000_000n - 29n * 2n - 10n, 'what it holds stays held')
  await (await hold(node.ledger, scopes, 10n)).settle(charge(2))
  await node.close()
  t.ok(readdirSync(folder).length > 0, 'its end is in the log')

  const again = await moneyNode(t, url, 'one', { folder, now })
  t.match(again.trouble, { text: new RegExp(wrong) }, 'the next start has it again')
  await (await hold(again.ledger, scopes, 10n)).settle(charge(2))
  await eventually(async () => (await endsIn(url)).size === 31)
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

test('an end that is refused although its hold is here is asked for again and again, with pauses', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const node = await moneyNode(t, url, 'one', { folder: logFolder(t), now })
  const made = await hold(node.ledger, scopes, 10n)
  await server.sql(
    `create sequence sluice.refused; create function sluice.keep() returns trigger language plpgsql as
       $$ begin perform nextval('sluice.refused'); return null; end $$;
     create trigger keep before delete on sluice.hold for each row execute function sluice.keep()`,
    url
  )
  const ended = made.settle(charge(4))
  ended.catch(() => {})
  await eventually(() => node.trouble !== undefined, 20_000)
  const asked = async (): Promise<number> =>
    Number((await server.sql('select last_value from sluice.refused', url))[0].last_value)
  const before = await asked()
  await sleep(1500)
  t.ok((await asked()) - before < 10, 'not as fast as the database answers')
  await server.sql('drop trigger keep on sluice.hold', url)
  await ended
  await node.flush()
  t.same((await endsIn(url)).get(made.requestId), ['settle 4 upstream'])
  t.same(await brokenIn(url), [])
})

test('a start that fails leaves nothing behind that goes on', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const folder = logFolder(t)
  const first = await moneyNode(t, url, 'one', { folder, now })
  const made = await hold(first.ledger, scopes, 10n)
  await first.kill()
  const told: string[] = []
  const log: Logger = { ...silentLog, warn: (message) => void told.push(message), child: () => log }
  const append = (): never => {
    throw new Error('no record can be written')
  }
  await t.rejects(moneyNode(t, url, 'one', { folder, now, log, patience: 100, requests: { append } }), /no record/)
  await sleep(1000)
  t.same([told, readdirSync(folder)], [[], []])
  await moneyNode(t, url, 'one', { folder, now })
  t.same((await endsIn(url)).get(made.requestId), ['void 0'])
  t.same(await server.sql('select 1 from sluice.hold', url), [])
})

test('what the database has committed is counted, and how long that took', async (t) => {
  const url = await moneyBook()
  const node = await moneyNode(t, url, 'one', { folder: logFolder(t), now })
  const { commits } = node.figures
  const made = await Promise.all(Array.from({ length: 20 }, () => hold(node.ledger, scopes, 10n)))
  await Promise.all(made.map((one) => one.settle(charge(2))))
  await node.flush()
  const { figures } = node
  t.ok(figures.commits > commits && figures.commits < commits + 40)
  t.ok(figures.operations >= 40 && figures.lastBatch > 0)
  t.ok(figures.commitSeconds > figures.lastCommitSeconds && figures.lastCommitSeconds > 0)
  t.equal(figures.queued, 0)
})
