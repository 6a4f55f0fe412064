// A server takes over that lacks the last batches, as an asynchronous standby may: what was answered is sent again.
import t from 'tap'
import { brokenIn, logFolder, moneyNode } from '../../../../../kit/cluster-money.ts'
import { Postgres, postgresMissing } from '../../../../../kit/postgres.ts'
import { Snapshot } from '../../../../../kit/postgres-snapshot.ts'
import { eventually } from '../../../../../kit/probe.ts'
import { scope } from '../../../embedded/sample.ts'
import { charge, endsBy, hold } from '../oracle.ts'

const scopes = [scope('tenant', 'acme', 1_000_000n, 'month'), scope('key', 'laptop', 1_000_000n)]

t.test(
  'what a server has answered that is lost is sent again',
  { skip: postgresMissing, timeout: 300_000 },
  async (t) => {
    const server = await Postgres.start()
    const url = await server.database()
    const lease = 6000
    const [one, two] = await Promise.all(
      ['one', 'two'].map((name) => moneyNode(t, url, name, { folder: logFolder(t), lease }))
    )
    const before = await Promise.all(Array.from({ length: 4 }, () => hold(one!.ledger, scopes, 100n)))
    before[0]!.dispatched('openai')
    await before[0]!.settle(charge(1))
    await one!.flush()
    const snapshot = await Snapshot.take(server)

    // All of this is lost: holds of before that end, holds that begin, new balances, a new price, and progress.
    const price = { version: 'other:1', perMillion: { output: 1_000_000n } }
    const fresh = [scopes[0]!, scope('key', 'fresh', 1000n)]
    const during = await Promise.all([
      ...Array.from({ length: 5 }, () => hold(one!.ledger, scopes, 100n)),
      ...Array.from({ length: 5 }, () => hold(one!.ledger, fresh, 100n, { price }))
    ])
    await Promise.all([
      before[1]!.settle(charge(2)),
      during[0]!.settle(charge(3)),
      during[5]!.settle(charge(4)),
      during[6]!.void()
    ])
    during[7]!.dispatched('openai')
    during[7]!.delivered(40)
    await during[7]!.durable
    const others = await Promise.all(Array.from({ length: 3 }, () => hold(two!.ledger, fresh, 100n)))
    await others[0]!.settle(charge(5))
    await Promise.all([one, two].map((node) => node!.flush()))
    await snapshot.restore()

    for (const node of [two!, one!])
      await eventually(
        () =>
          hold(node.ledger, scopes, 1n).then(
            (made) => made.void().then(() => true),
            () => false
          ),
        60_000
      )
    await before[2]!.settle(charge(6))
    await during[1]!.settle(charge(7))
    await during[8]!.settle(charge(8))
    await others[1]!.settle(charge(9))
    await Promise.all([one, two].map((node) => node!.flush()))
    const sql = (query: string): Promise<any[]> => server.sql(query, url)
    const ends = await endsBy(sql)
    t.same(
      [before, during, others].map((list) => list.map(({ requestId }) => ends.get(requestId)?.join())),
      [
        ['settle 1 upstream', 'settle 2 upstream', 'settle 6 upstream', undefined],
        [
          'settle 3 upstream',
          'settle 7 upstream',
          undefined,
          undefined,
          undefined,
          'settle 4 upstream',
          'void 0',
          undefined,
          'settle 8 upstream',
          undefined
        ],
        ['settle 5 upstream', 'settle 9 upstream', undefined]
      ]
    )
    t.same(await brokenIn(url), [])
    t.same(await sql('select count(*)::int from sluice.hold'), [{ count: 1 + 5 + 1 }], 'holds are open as before')
    t.same(await sql(`select delivered::int from sluice.hold where channel is not null`), [{ delivered: 40 }])
    await one!.kill()
    await two!.close()
    const again = await moneyNode(t, url, 'one', { folder: logFolder(t) })
    t.same(await brokenIn(url), [])
    t.equal((await endsBy(sql)).get(during[7]!.requestId)?.join(), 'settle 40 recovered')
    await again.close()
  }
)
