// What the check of the shared book says of records, spend, traffic and the audit log that were changed by hand.
import t from 'tap'
import type { Test } from 'tap'
import { Database } from '../../../../../../core/store/cluster/database/database.ts'
import { verifyBook } from '../../../../../../core/store/cluster/money/verify/verify.ts'
import { Logbook } from '../../../../../../core/store/cluster/requests/logbook.ts'
import { SpendBook } from '../../../../../../core/store/cluster/spend/spend-book.ts'
import type { Breach } from '../../../../../../core/store/embedded/care/verify/invariants.ts'
import { logFolder, moneyBook, moneyNode } from '../../../../../kit/cluster-money.ts'
import { postgresMissing, sharedPostgres } from '../../../../../kit/postgres.ts'
import { noon, record, scope, used } from '../../../embedded/sample.ts'
import { charge, hold } from '../oracle.ts'

t.setTimeout(600_000)

const scopes = [scope('tenant', 'acme', 1_000_000n, 'month'), scope('key', 'laptop', 1_000_000n)]
const day = 86_400_000
const now = (): number => noon

interface Book {
  sql(query: string): Promise<any[]>
  /** What is wrong, as `I8 request x: says …`. */
  broken(): Promise<string[]>
  /** What is wrong while something is changed, which is changed back. */
  whileChanged(change: string, back: string): Promise<string[]>
  /** The tables that progress was told of, and the last numbers of each. */
  readonly told: Map<string, readonly [number | undefined, number | undefined]>
}

/** A book with three requests and a session of two turns, of which one began on the day before. Nobody is alive. */
async function book(t: Test): Promise<Book> {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const database = await Database.open({ url, name: 'log' })
  t.teardown(() => database.close())
  const requests = new Logbook(database, { age: 60 * day, size: 2 ** 40 }, now)
  const node = await moneyNode(t, url, 'one', { folder: logFolder(t), now })
  const log = (requestId: string, time: number, cost: number): void =>
    requests.append(
      record({
        request_id: requestId,
        time: new Date(time).toISOString(),
        tenant: 'acme',
        channel: 'openai',
        usage: used(cost),
        usage_source: 'upstream',
        cost_usd: `0.00000000${cost}`,
        cost_nano: String(cost)
      })
    )
  // The first hour with records is not compared: records of it may have gone.
  log('long ago', noon - 2 * day, 0)
  for (const [i, cost] of [3, 4, 5].entries()) {
    const one = await hold(node.ledger, scopes, 100n, { requestId: `request ${i}` })
    await one.settle(charge(cost))
    log(one.requestId, noon, cost)
  }
  const requestId = 'session'
  const whole = await hold(node.ledger, scopes, 0n, { requestId, time: noon - day, streamed: true })
  for (const [time, cost] of [
    [noon - day, 6],
    [noon, 7]
  ] as const) {
    const turn = await hold(node.ledger, scopes, 100n, { requestId, part: `turn ${cost}`, time })
    await turn.settle(charge(cost))
  }
  await whole.void()
  log(requestId, noon - day, 13)
  await requests.close()
  await node.close()
  const spend = new SpendBook(database)
  while (await spend.gather());
  const sql = (query: string): Promise<any[]> => server.sql(query, url)
  await sql('update sluice.node set expires = clock_timestamp()')
  const told: Book['told'] = new Map()
  const broken = async (): Promise<string[]> =>
    (await verifyBook(database.reads, (table, rows, of) => void told.set(table, [rows, of]))).map(
      ({ invariant, row, message }: Breach) => `${invariant} ${row}: ${message}`
    )
  return {
    sql,
    broken,
    told,
    whileChanged: async (change, back) => {
      await sql(change)
      const found = await broken()
      await sql(back)
      return found
    }
  }
}

function of(invariant: string, found: readonly string[]): string[] {
  return found.filter((text) => text.startsWith(`${invariant} `))
}

void t.test('records, spend and traffic that were changed by hand are named', { skip: postgresMissing }, async (t) => {
  const { sql, broken, whileChanged, told } = await book(t)
  t.same(await broken(), [])
  t.same(told.get('request'), [5, 5], 'progress is told of all records')
  t.ok(told.has('spend'))

  const says = (id: string, cost: number): string =>
    `update sluice.request set cost = ${cost},
       json = regexp_replace(json, '"cost_nano":"[0-9]+"', '"cost_nano":"${cost}"') where request_id = '${id}'`
  const found = await whileChanged(says('request 1', 9), says('request 1', 4))
  t.same(of('I8', found), ['I8 request request 1: says 9 where the journal says 4'])
  t.match(
    of('I20', found)[0],
    'I20 traffic hour 2026-11-21T12:00 all: has 3 requests, 0 and 12 tokens, 12 nano-dollars'
  )
  t.same(
    of('I8', await whileChanged(says('session', 7), says('session', 13))),
    ['I8 request session: says 7 where the journal says 13'],
    'a session says what all its parts were charged'
  )
  t.same(of('I8', await whileChanged(says('long ago', 8), says('long ago', 0))), [
    'I8 request long ago: says 8 where the journal has nothing'
  ])
  const tenant = (name: string): string => `update sluice.request set tenant = '${name}' where request_id = 'request 2'`
  t.same(await whileChanged(tenant('rival'), tenant('acme')), [
    'I16 request request 2: is searched by another tenant than it has'
  ])
  const money = (to: string): string =>
    `update sluice.request set json = regexp_replace(json, '"cost_nano":"?[0-9]+"?', '"cost_nano":${to}')
      where request_id = 'request 0'`
  t.same(of('I11', await whileChanged(money('3'), money('"3"'))), [
    'I11 request request 0: has money that is no decimal string'
  ])
  const grow = (table: string, column: string, by: number, where = 'true'): string =>
    `update sluice.${table} set ${column} = ${column} + ${by} where ${where}`
  const days = (await whileChanged(grow('spend_day', 'output', 1), grow('spend_day', 'output', -1))).join('\n')
  t.match(days, /I19 spend 2026-11-20 .* openai .*: has output 7 where the journal makes 6/)
  t.match(days, /I19 spend 2026-11 .* openai .*: has output 25 where its days make 27/)
  t.match(
    (await whileChanged(grow('spend_month', 'charge', 1), grow('spend_month', 'charge', -1))).join('\n'),
    /I19 spend 2026-11 .* openai .*: has charge 26 where its days make 25/
  )
  const all = `span = 'hour' and scope = ''`
  t.match(
    (await whileChanged(grow('traffic', 'requests', 1, all), grow('traffic', 'requests', -1, all))).join('\n'),
    /I20 traffic hour 2026-11-20T12:00 all: has 2 requests, .* where the records make 1 requests/
  )
  await sql(`insert into sluice.audit values (1, 0, '{}', 'nothing')`)
  t.same(await broken(), ['I16 audit 1: is not what was written'])
})

void t.test('a record that is ahead of its end is no breach', { skip: postgresMissing }, async (t) => {
  const { sql, broken } = await book(t)
  await sql(`update sluice.request set cost = 9, json = regexp_replace(json, '"cost_nano":"[0-9]+"', '"cost_nano":"9"')
    where request_id = 'long ago'`)
  await sql(`update sluice.node set expires = clock_timestamp() + interval '1 minute'`)
  const found = broken()
  // Whoever is alive writes what it knows meanwhile.
  await sql(`update sluice.request set cost = 0, json = regexp_replace(json, '"cost_nano":"[0-9]+"', '"cost_nano":"0"')
    where request_id = 'long ago'`)
  t.same(await found, [])
})
