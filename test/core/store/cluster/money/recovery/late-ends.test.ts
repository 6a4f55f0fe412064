// Ends of holds that others have taken over meanwhile: what really happened corrects what others could only estimate.
import { readdirSync } from 'node:fs'
import t from 'tap'
import type { Test } from 'tap'
import type { AttemptCost, Reservation } from '../../../../../../core/store/ledger.ts'
import { beginWork, brokenIn, logFolder, moneyBook, moneyNode } from '../../../../../kit/cluster-money.ts'
import type { MoneyNode } from '../../../../../kit/cluster-money.ts'
import { postgresMissing, sharedPostgres } from '../../../../../kit/postgres.ts'
import { noon, scope, used } from '../../../embedded/sample.ts'
import { charge, correctionsIn, endsIn, hold } from '../oracle.ts'

const scopes = [scope('tenant', 'acme', 1_000_000n, 'month'), scope('key', 'laptop', 1_000_000n)]
const now = (): number => noon
const later = noon + 172_800_000
const own = { version: 'own:1', perMillion: { input: 500_000n, output: 500_000n } }
const costs = new Map([['openai', own]])

function test(what: string, run: (t: Test) => Promise<void>): void {
  void t.test(what, { skip: postgresMissing, timeout: 300_000 }, run)
}

/** A node whose detached hold another node has adopted, with what it may have cost while nobody was shown anything. */
async function adopted(t: Test, send = true) {
  const url = await moneyBook()
  const folder = logFolder(t)
  const settings = { lease: 600_000, now }
  const told: string[] = []
  const first = await moneyNode(t, url, 'first', { folder, ...settings, corrected: (id) => void told.push(id) })
  const other = await moneyNode(t, url, 'other', { folder: logFolder(t), ...settings })
  const made = await hold(first.ledger, scopes, 1000n, { costs })
  if (send) made.dispatched('openai')
  await made.detach(later)
  await beginWork(url, made.requestId)
  t.equal(await other.adopt(made.requestId), true)
  return { url, folder, first, other, made, told, theirs: other.ledger.detached(made.requestId)! }
}

/** What whoever takes work over gives as the cost of what its process had sent. */
function lost({ sent }: Reservation): AttemptCost[] {
  return [{ attempt: 0, channel: sent!.channel, usage: sent!.usage, amount: 20n, source: 'recovered' }]
}

async function looked({ folder, first }: { folder: string; first: MoneyNode }): Promise<void> {
  await first.flush()
  await first.close()
  if (readdirSync(folder).length > 0) throw new Error('something is left in the log')
}

/** What the operator paid for a request, and what of it is told as the cost of failed attempts. */
async function costsIn(url: string): Promise<{ cost: number; failed: number }> {
  const server = await sharedPostgres()
  const [row] = await server.sql(
    `select sum(cost)::int as cost, coalesce(sum(amount) filter (where kind = 'cost'), 0)::int as failed
      from sluice.journal`,
    url
  )
  return row
}

test('what was given back as nobody had seen anything is charged what its client was shown', async (t) => {
  const all = await adopted(t)
  await all.theirs.void(lost(all.theirs))
  await all.made.settle({ ...charge(70), usage: used(50, 10), source: 'partial' })
  await looked(all)
  t.same((await endsIn(all.url)).get(all.made.requestId), ['void 0'])
  t.same(await correctionsIn(all.url), { [all.made.requestId]: 70 })
  t.same(await costsIn(all.url), { cost: 30, failed: 20 }, 'the operator paid for it once')
  t.same(all.told, [all.made.requestId])
  t.same(await brokenIn(all.url), [])
})

test('what was given back, and is so by its own node too, stays as it is', async (t) => {
  const all = await adopted(t)
  await all.theirs.void(lost(all.theirs))
  await all.made.void([{ attempt: 1, channel: 'openai', usage: used(50, 10), amount: 70n, source: 'upstream' }])
  await looked(all)
  t.same(await correctionsIn(all.url), {})
  t.same(await costsIn(all.url), { cost: 5, failed: 20 })
  t.same(await brokenIn(all.url), [])
})

test('a failed attempt that both know of is in the journal once, also where the rest is corrected', async (t) => {
  const all = await adopted(t)
  const failed: AttemptCost = { attempt: 1, channel: 'openai', usage: used(6), amount: 6n, source: 'upstream' }
  await all.theirs.settle({
    usage: { ...used(0, 10) },
    amount: 20n,
    source: 'recovered',
    channel: 'openai',
    costs: [failed]
  })
  await all.made.settle({ ...charge(70), usage: used(50, 10), costs: [failed, { ...failed, attempt: 2, amount: 6n }] })
  await looked(all)
  t.same(await correctionsIn(all.url), { [all.made.requestId]: 50 })
  t.same(await costsIn(all.url), { cost: 3 + 3 + 30, failed: 12 })
  t.same(await brokenIn(all.url), [])
})

test('an end that comes while others go on with its hold waits for theirs', async (t) => {
  for (const by of ['estimate', 'count'] as const) {
    const all = await adopted(t)
    await all.made.settle(charge(70))
    await all.first.flush()
    await all.first.close()
    t.not(readdirSync(all.folder).length, 0, 'it is in the log')
    if (by === 'estimate') await all.theirs.void(lost(all.theirs))
    else await all.theirs.settle(charge(9))
    await all.other.flush()
    const corrected = (id: string): void => void all.told.push(id)
    const again = await moneyNode(t, all.url, 'first', { folder: all.folder, now, corrected })
    await looked({ ...all, first: again })
    t.same(await correctionsIn(all.url), by === 'estimate' ? { [all.made.requestId]: 70 } : {})
    t.same(all.told, [all.made.requestId], 'its record is to say what the journal says')
    t.same(await brokenIn(all.url), [])
  }
})

test('nothing is shown of a hold that others have, and its end is corrected all the same', async (t) => {
  const all = await adopted(t, false)
  await all.theirs.void()
  all.made.dispatched('openai')
  await t.rejects(all.made.durable, { code: 'billing_unavailable' })
  await t.rejects(all.made.detach(later), { code: 'billing_unavailable' })
  await all.made.settle(charge(7))
  await looked(all)
  t.same(await correctionsIn(all.url), { [all.made.requestId]: 7 })
  t.same(await brokenIn(all.url), [])
})
