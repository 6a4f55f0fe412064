// Batches that wait for the locks of others: edges of budgets and who is gone are judged when the locks are there.
import t from 'tap'
import type { Test } from 'tap'
import { readAddress } from '../../../../../../core/store/cluster/database/address.ts'
import { Session } from '../../../../../../core/store/cluster/database/session.ts'
import type { Sizing } from '../../../../../../core/store/cluster/money/slices/slice.ts'
import type { Ledger } from '../../../../../../core/store/ledger.ts'
import { brokenIn, logFolder, moneyBook, moneyNode } from '../../../../../kit/cluster-money.ts'
import type { MoneyNode } from '../../../../../kit/cluster-money.ts'
import { postgresMissing, sharedPostgres } from '../../../../../kit/postgres.ts'
import { eventually } from '../../../../../kit/probe.ts'
import { noon, scope } from '../../../embedded/sample.ts'
import { hold, requestFor } from '../oracle.ts'

const skip = postgresMissing
/** Large slices that only come back when somebody needs them. */
const sizing: Sizing = { span: 200, ahead: 1, few: 40, least: 2, rest: 0, idle: 600_000 }
const scopes = [scope('tenant', 'acme', 10_000n)]
const deadline = 60_000

/** Two nodes, of which the first has a slice that the second needs, and a session that has locked the balance. */
interface Locked {
  readonly needs: MoneyNode
  /** Runs a statement of the session, and returns the first value that it gives. */
  sql(text: string): Promise<unknown>
  /** Asks for all of the budget. Resolves when the batch waits for the lock. */
  ask(): Promise<{ readonly asked: Promise<unknown> }>
  readonly url: string
}

async function locked(t: Test): Promise<Locked> {
  const server = await sharedPostgres()
  const url = await moneyBook()
  // Nobody is taken for gone but by its lease.
  const options = { sizing, now: () => noon, lease: 600_000 }
  const has = await moneyNode(t, url, 'has', { folder: logFolder(t), ...options })
  const needs = await moneyNode(t, url, 'needs', { folder: logFolder(t), ...options, patience: 5000 })
  await warm(has.ledger)
  await has.flush()
  // It hears of no recall, and gives nothing back.
  await has.kill()
  await (await hold(needs.ledger, scopes, 10n)).void()
  await needs.flush()
  const session = await Session.open(readAddress(url), 'holder')
  t.teardown(() => session.close())
  const sql = async (text: string): Promise<unknown> =>
    Object.values((await session.query<Record<string, unknown>>(text, undefined, deadline)).rows[0] ?? {})[0]
  const waiting = `select from pg_stat_activity where application_name = 'needs batches' and wait_event_type = 'Lock'`
  await sql('begin; select from sluice.balance for update')
  const ask: Locked['ask'] = async () => {
    const asked = hold(needs.ledger, scopes, 10_000n)
    asked.catch(() => {})
    await eventually(async () => (await server.sql(waiting, url)).length > 0)
    return { asked }
  }
  return { needs, sql, ask, url }
}

/** Asks until a request is admitted in memory. */
async function warm(ledger: Ledger): Promise<void> {
  for (let inMemory = false; !inMemory;) {
    const made = ledger.reserve(requestFor(scopes, 10n))
    inMemory = !(made instanceof Promise)
    await (await made).void()
  }
}

const edge = 'select max(edge)::text as edge from sluice.balance'

t.test('who waits for slices of others has its time from when the batch has its locks', { skip }, async (t) => {
  const { sql, ask, url } = await locked(t)
  const { asked } = await ask()
  const released = await sql('select clock_timestamp()::text')
  await sql('commit')
  await eventually(async () => (await sql(edge)) !== null)
  t.equal(await sql(`select (${edge})::timestamptz >= '${String(released)}'::timestamptz + interval '2 s'`), true)
  await t.rejects(asked, { code: 'billing_unavailable' }, 'the slice comes back when its node is gone')
  t.same(await brokenIn(url), [])
})

t.test('whose lease ends while a batch waits for its locks is gone for that batch', { skip }, async (t) => {
  const { sql, ask, url } = await locked(t)
  const { asked } = await ask()
  await sql(`update sluice.node set expires = clock_timestamp() where name = 'has'`)
  await sql('commit')
  await t.rejects(asked, { code: 'billing_unavailable' })
  t.equal(await sql(edge), null, 'nobody is asked for slices that only a node has which is gone')
  t.same(await brokenIn(url), [])
})
