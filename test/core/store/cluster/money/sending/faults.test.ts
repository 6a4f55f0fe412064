// What goes wrong between a node and the book: answers that are lost, connections that end, a server that dies.
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { chance } from '../../../../../kit/chance.ts'
import { brokenIn, logFolder, moneyBook, moneyNode } from '../../../../../kit/cluster-money.ts'
import { DatabaseProxy } from '../../../../../kit/database-proxy.ts'
import { Postgres, postgresMissing, sharedPostgres } from '../../../../../kit/postgres.ts'
import { eventually } from '../../../../../kit/probe.ts'
import { scope } from '../../../embedded/sample.ts'
import { charge, endsBy, endsIn, hold, refusal } from '../oracle.ts'

const scopes = [scope('tenant', 'acme', 1_000_000n, 'month'), scope('key', 'laptop', 1_000_000n)]

t.test('answers that are lost change nothing twice', { skip: postgresMissing, timeout: 300_000 }, async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const proxy = await DatabaseProxy.start(t, server.socket)
  const node = await moneyNode(t, proxy.url(url), 'one', { folder: logFolder(t) })
  const { below } = chance(11)
  proxy.loses = (sent) => sent.includes('money_batch') && below(3) === 0
  const expected = new Map<string, string[]>()
  for (let round = 0; round < 12; round++) {
    const holds = await Promise.all(Array.from({ length: 20 }, () => hold(node.ledger, scopes, 100n)))
    for (const one of holds) one.dispatched('openai')
    await Promise.all(holds.map((one) => one.durable))
    await Promise.all(
      holds.map((one, i) => {
        expected.set(one.requestId, [i % 3 === 0 ? 'void 0' : `settle ${i} upstream`])
        return i % 3 === 0 ? one.void() : one.settle(charge(i))
      })
    )
  }
  proxy.loses = () => false
  t.ok(proxy.lost > 3, `${proxy.lost} answers were lost`)
  await node.flush()
  t.same(await endsIn(url), expected)
  t.same(await brokenIn(url), [])
})

t.test('backends that are terminated lose nothing', { skip: postgresMissing, timeout: 300_000 }, async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const node = await moneyNode(t, url, 'one', { folder: logFolder(t) })
  const expected = new Map<string, string[]>()
  const killer = (async () => {
    let killed = 0
    for (let i = 0; i < 6; i++) {
      const rows = await server.sql(
        `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
        url
      )
      killed += rows.length
      await sleep(100)
    }
    return killed
  })()
  for (let round = 0; round < 8; round++) {
    const holds = await Promise.all(Array.from({ length: 10 }, () => hold(node.ledger, scopes, 100n)))
    await Promise.all(
      holds.map((one, i) => {
        expected.set(one.requestId, [`settle ${i} upstream`])
        return one.settle(charge(i))
      })
    )
  }
  t.ok((await killer) > 0, 'connections were ended')
  await node.flush()
  t.same(await endsIn(url), expected)
  t.same(await brokenIn(url), [])
})

t.test(
  'a batch that is ended as a deadlock is done again, once',
  { skip: postgresMissing, timeout: 300_000 },
  async (t) => {
    const server = await sharedPostgres()
    const url = await moneyBook()
    // The batch alone looks for one: of the other session's locks nobody does in time.
    await server.sql(`alter database ${new URL(url).pathname.slice(1)} set deadlock_timeout = '3s'`, url)
    const node = await moneyNode(t, url, 'one', { folder: logFolder(t) })
    await (await hold(node.ledger, scopes, 100n)).void()
    await node.flush()
    const [first, last] = (await server.sql('select id from sluice.balance order by id', url)).map(({ id }) => id)
    const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    const other = server.sql(
      `set deadlock_timeout = '100s';
     do $$ declare waits int := 0; begin
       perform from sluice.balance where id = ${last} for update;
       while waits = 0 loop
         perform pg_sleep(0.02);
         perform pg_stat_clear_snapshot();
         select count(*) into waits from pg_stat_activity
           where datname = current_database() and wait_event_type = 'Lock';
       end loop;
       perform from sluice.balance where id = ${first} for update;
     end $$`,
      url
    )
    const deadlocks = async (): Promise<number> =>
      Number(
        (await server.sql('select deadlocks from pg_stat_database where datname = current_database()', url))[0]
          .deadlocks
      )
    const asleep = `select from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'`
    await eventually(async () => (await server.sql(asleep, url)).length > 0, 20_000)
    const made = await hold(node.ledger, scopes, 100n)
    await made.settle(charge(7))
    await other
    await node.flush()
    await eventually(async () => (await deadlocks()) > 0, 60_000)
    t.same(await server.sql(waiting, url), [])
    t.same((await endsIn(url)).get(made.requestId), ['settle 7 upstream'])
    t.same(await brokenIn(url), [])
  }
)

t.test('a server that is killed', { skip: postgresMissing, timeout: 300_000 }, async (t) => {
  const server = await Postgres.start()
  const url = await server.database()
  const folder = logFolder(t)
  const node = await moneyNode(t, url, 'one', { folder, patience: 2000 })
  const holds = await Promise.all(Array.from({ length: 6 }, () => hold(node.ledger, scopes, 100n)))
  for (const one of holds) one.dispatched('openai')
  await Promise.all(holds.map((one) => one.durable))
  await server.stop()

  await Promise.all([holds[0]!.settle(charge(1)), holds[1]!.settle(charge(2)), holds[2]!.void()])
  t.pass('ends are durable while the server is away')
  const { code } = await refusal(hold(node.ledger, scopes, 100n))
  t.equal(code, 'billing_unavailable', 'and nothing is admitted')
  t.match(node.trouble, { refuses: true })
  await server.resume()
  await eventually(() => node.trouble === undefined, 20_000)
  await (await hold(node.ledger, scopes, 100n)).void()
  await holds[3]!.settle(charge(3))
  await node.flush()
  const sql = (query: string): Promise<any[]> => server.sql(query, url)
  const ended = await endsBy(sql)
  t.same(
    holds.slice(0, 4).map(({ requestId }) => ended.get(requestId)),
    [['settle 1 upstream'], ['settle 2 upstream'], ['void 0'], ['settle 3 upstream']]
  )

  // The node dies while the server is away, with an end in its log, and another one that nobody knew of.
  await server.stop()
  await holds[4]!.settle(charge(4))
  await node.kill()
  await server.resume()
  const again = await moneyNode(t, url, 'one', { folder })
  const after = await endsBy(sql)
  t.same(after.get(holds[4]!.requestId), ['settle 4 upstream'], 'what was in the log')
  t.same(after.get(holds[5]!.requestId), ['settle 20 recovered'], 'and what was not, by estimate')
  t.same(
    again.records.map(({ request_id }) => request_id),
    [holds[5]!.requestId]
  )
  await again.close()
  t.same(await brokenIn(url), [])

  const third = await moneyNode(t, url, 'one', { folder })
  await third.close()
  t.same(await endsBy(sql), after, 'the log is not sent again')
})

t.test('after an outage nobody ends what others go on with', { skip: postgresMissing, timeout: 300_000 }, async (t) => {
  const server = await Postgres.start()
  const url = await server.database()
  // Long enough that a busy machine does not let one of them lapse that is well.
  const lease = 6000
  const nodes = await Promise.all(
    ['one', 'two'].map((name) => moneyNode(t, url, name, { folder: logFolder(t), lease }))
  )
  const holds = await Promise.all(nodes.map(({ ledger }) => hold(ledger, scopes, 100n)))
  await server.stop()
  // Both leases end meanwhile.
  await sleep(2 * lease)
  await server.resume()
  await Promise.all(
    nodes.map(async ({ ledger }) => {
      await eventually(
        () =>
          hold(ledger, scopes, 0n).then(
            (one) => one.void().then(() => true),
            () => false
          ),
        20_000
      )
    })
  )
  // And they have looked for nodes that are gone for long enough.
  await sleep(3 * lease)
  await Promise.all(holds.map((one) => one.settle(charge(5))))
  await Promise.all(nodes.map((node) => node.flush()))
  const ended = await endsBy((query) => server.sql(query, url))
  t.same(
    holds.map(({ requestId }) => ended.get(requestId)),
    [['settle 5 upstream'], ['settle 5 upstream']]
  )
  await Promise.all(nodes.map((node) => node.close()))
  t.same(await brokenIn(url), [])
})
