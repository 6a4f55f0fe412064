// Spend over the journal of many gateways: the sums of two nodes are those that one machine's store has.
import { join } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import { Database } from '../../../../core/store/cluster/database/database.ts'
import { locks } from '../../../../core/store/cluster/database/locks.ts'
import { inTurn } from '../../../../core/store/cluster/requests/stand-ins.ts'
import { SpendBook } from '../../../../core/store/cluster/spend/spend-book.ts'
import { openStore } from '../../../../core/store/embedded/store.ts'
import type { Awaitable } from '../../../../core/awaitable.ts'
import type { Ledger, Reservation } from '../../../../core/store/ledger.ts'
import type { SpendGroup, SpendPage, SpendQuery, SpendSum } from '../../../../core/store/spend.ts'
import type { Scope } from '../../../../core/catalogue/caller.ts'
import { costOf } from '../../../../core/money/price.ts'
import type { Price } from '../../../../core/money/price.ts'
import { logFolder, moneyBook, moneyNode } from '../../../kit/cluster-money.ts'
import { postgresMissing } from '../../../kit/postgres.ts'
import { eventually } from '../../../kit/probe.ts'
import { noon, price, reserve, scope, used } from '../embedded/sample.ts'

t.setTimeout(600_000)

const day = 86_400_000
const own: Price = { version: 'own:1', perMillion: { input: 700_000n, output: 300_000n } }
const callers: readonly (readonly Scope[])[] = [
  [
    scope('tenant', 'acme', 10n ** 15n, 'month'),
    scope('project', 'acme/web'),
    { ...scope('key', 'laptop'), tags: { team: 'search', env: 'a b' } }
  ],
  // The same caller, after its budget was changed: its scopes stand in the journal in another way.
  [scope('tenant', 'acme', 10n ** 15n, 'week'), scope('project', 'acme/web'), scope('key', 'laptop')],
  [scope('tenant', 'ö', 10n ** 15n, 'month'), scope('member', 'ö/web/bob'), scope('key', 'Z')],
  [scope('tenant', 'Ünd'), scope('key', 'a')]
]

const ask = fc.record({
  caller: fc.nat(callers.length - 1),
  model: fc.constantFrom('gpt-5', 'Claude', 'ärger'),
  channel: fc.constantFrom('openai', 'backup'),
  costed: fc.boolean(),
  days: fc.nat(40),
  usage: fc.record({
    input: fc.nat(5000),
    cached_input: fc.nat(9),
    cache_write: fc.constant(0),
    output: fc.nat(5000),
    reasoning: fc.nat(9),
    image: fc.nat(2)
  }),
  failed: fc.option(fc.nat(900), { nil: undefined }),
  voided: fc.boolean()
})
type Ask = typeof ask extends fc.Arbitrary<infer A> ? A : never

async function serve(ledger: Ledger, asks: readonly Ask[]): Promise<void> {
  await Promise.all(
    asks.map(async ({ caller, model, channel, costed, days, usage, failed, voided }) => {
      const more = { model, time: noon - days * day, ...(costed && { costs: new Map([['openai', own]]) }) }
      const reservation = await (reserve(ledger, callers[caller]!, 99_999n, more) as Awaitable<Reservation>)
      const costs =
        failed === undefined
          ? undefined
          : [{ attempt: 1, channel: 'openai', usage: used(failed), amount: BigInt(failed), source: 'partial' as const }]
      const settlement = { usage, amount: costOf(usage, price), source: 'upstream', channel } as const
      await (voided ? reservation.void(costs) : reservation.settle({ ...settlement, ...(costs && { costs }) }))
    })
  )
}

const queries: readonly [by: SpendGroup[], more?: Partial<SpendQuery>][] = [
  [[]],
  [['tenant']],
  [['tenant', 'project', 'member', 'key', 'model', 'channel', 'day']],
  [['month', 'model']],
  [['tag:team', 'price', 'cost_price']],
  [['tag:nothing', 'key']],
  [['day'], { equal: { tenant: 'acme', model: 'Claude' } }],
  [['channel'], { tag: { name: 'team', value: 'search' } }],
  [['key'], { since: noon / day - 0.5 - 40, until: noon / day - 0.5 - 3 }],
  [['month'], { since: noon / day - 0.5 - 66, until: noon / day - 0.5 - 2 }],
  [['key'], { equal: { key: 'none' } }],
  [[], { equal: { key: 'none' } }]
]

async function all(spend: (query: SpendQuery) => Promise<SpendPage>, query: SpendQuery): Promise<SpendSum[]> {
  const sums: SpendSum[] = []
  let after: readonly string[] | undefined
  do {
    const page = await spend({ ...query, after })
    t.ok(page.sums.length <= query.limit)
    sums.push(...page.sums)
    after = page.next
  } while (after)
  return sums
}

t.test(
  'sums of two nodes are those of one machine, to the last unit and in the same order',
  { skip: postgresMissing },
  async (t) => {
    const url = await moneyBook()
    const database = await Database.open({ url, name: 'spend' })
    t.teardown(() => database.close())
    const folder = logFolder(t)
    const nodes = [
      await moneyNode(t, url, 'a', { folder: join(folder, 'a') }),
      await moneyNode(t, url, 'b', { folder: join(folder, 'b') })
    ]
    const store = await openStore({ file: join(t.testdir(), 'sluice.db'), durability: 'process', now: () => noon })
    t.teardown(() => store.close())
    const books = [new SpendBook(database), new SpendBook(database)]
    for (const seed of [1, 2]) {
      const asks = fc.sample(ask, { numRuns: 250, seed })
      await serve(store.ledger, asks)
      const half = asks.length / 2
      await Promise.all([serve(nodes[0]!.ledger, asks.slice(0, half)), serve(nodes[1]!.ledger, asks.slice(half))])
      await Promise.all(nodes.map((node) => node.flush()))
      // Two gateways add up at the same time.
      await Promise.all(books.map((book) => book.gather()))
      for (const [by, more] of queries) {
        const query = { by, equal: {}, limit: 7, ...more }
        t.same(await all((one) => books[0]!.query(one), query), await all((one) => store.spend(one), query), by.join())
      }
    }
  }
)

t.test(
  'who adds up waits for a version that adds up under the lock of records, and not for who writes records',
  { skip: postgresMissing },
  async (t) => {
    const url = await moneyBook()
    const [database, other] = await Promise.all(['spend', 'other'].map((name) => Database.open({ url, name })))
    t.teardown(() => Promise.all([database!.close(), other!.close()]))
    const gathered = (): Promise<boolean> => new SpendBook(database!).gather()
    await other!.changes.transaction(async (transaction) => {
      await inTurn(transaction, 'writes')
      await gathered()
    })
    const { promise: release, resolve } = Promise.withResolvers<void>()
    const { promise: held, resolve: holds } = Promise.withResolvers<void>()
    const before = other!.changes.transaction(async (transaction) => {
      await transaction.query('select pg_advisory_xact_lock($1)', [locks.records])
      holds()
      await release
    })
    await held
    let done = false
    const after = gathered().then(() => (done = true))
    await eventually(async () => {
      const { rows } = await other!.reads.query(
        `select from pg_locks where locktype = 'advisory' and not granted and database = (select oid from pg_database where datname = current_database())`
      )
      return rows.length === 1
    })
    t.notOk(done)
    resolve()
    await Promise.all([before, after])
  }
)
