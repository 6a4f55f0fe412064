// Nodes that race for the end of budgets: exactly as much is admitted as they carry, counted apart from the book.
import t from 'tap'
import type { Scope } from '../../../../../core/catalogue/caller.ts'
import { GatewayError } from '../../../../../core/errors.ts'
import type { BudgetReason } from '../../../../../core/errors.ts'
import type { Reservation } from '../../../../../core/store/ledger.ts'
import { chance } from '../../../../kit/chance.ts'
import { brokenIn, logFolder, moneyBook, moneyNode } from '../../../../kit/cluster-money.ts'
import { postgresMissing, sharedPostgres } from '../../../../kit/postgres.ts'
import { scope } from '../../embedded/sample.ts'
import { charge, hold } from './oracle.ts'

/** How many of 10,000 requests come with which scopes. Each costs 10, and the tenant has room for 5000 of them. */
const tenant = scope('tenant', 'acme', 50_000n, 'month')
const kinds: readonly { readonly scopes: readonly Scope[]; readonly count: number }[] = [
  { count: 4000, scopes: [tenant, scope('project', 'acme/large')] },
  { count: 3000, scopes: [tenant, scope('project', 'acme/small', 10_000n, 'day')] },
  { count: 1500, scopes: [tenant, scope('project', 'acme/large'), scope('member', 'acme/large/bob', 2000n, '7d')] },
  { count: 1500, scopes: [tenant, scope('project', 'acme/large'), scope('key', 'laptop', 10_000n)] }
]

t.test('10,000 requests at three nodes for room of 5000', { skip: postgresMissing, timeout: 300_000 }, async (t) => {
  const url = await moneyBook()
  const nodes = await Promise.all(
    ['one', 'two', 'three'].map((name) => moneyNode(t, url, name, { folder: logFolder(t) }))
  )
  const { random, pick } = chance(7)
  const wanted = kinds
    .flatMap(({ scopes, count }) => Array.from({ length: count }, () => ({ scopes, at: random() })))
    .sort((one, other) => one.at - other.at)
  const asked = await Promise.allSettled(wanted.map(({ scopes }) => hold(pick(nodes).ledger, scopes, 10n)))

  const admitted: Reservation[] = []
  const counts = new Map<string, bigint>()
  const refused = new Map<string, number>()
  for (const [i, result] of asked.entries()) {
    const { scopes } = wanted[i]!
    if (result.status === 'fulfilled') {
      admitted.push(result.value)
      for (const { id } of scopes) counts.set(id, (counts.get(id) ?? 0n) + 10n)
      continue
    }
    if (!(result.reason instanceof GatewayError)) throw result.reason
    if (!result.reason.details.reason) throw new Error(`${result.reason.code}: ${String(result.reason.cause)}`)
    const reason = result.reason.details.reason as BudgetReason
    const named = scopes.find(({ id }) => id === reason.scope)
    const taken = BigInt(reason.posted_nano) + BigInt(reason.pending_nano)
    if (!named || taken + 10n <= named.budgets[0]!.limit)
      t.fail(`a refusal names ${reason.scope}, which had ${taken}: ${result.reason.message}`)
    if (result.reason.code !== `quota_${named!.kind}_exceeded`) t.fail(`${result.reason.code} for ${named!.id}`)
    refused.set(reason.scope, (refused.get(reason.scope) ?? 0) + 1)
  }
  t.equal(admitted.length, 5000)
  t.equal(asked.length - admitted.length, 5000)
  for (const { scopes } of kinds)
    for (const { id, budgets } of scopes)
      for (const { limit } of budgets) {
        t.ok((counts.get(id) ?? 0n) <= limit, `${id} has admitted ${counts.get(id)} of ${limit}`)
        if (refused.has(id)) t.equal(counts.get(id), limit, `${id} refused only when it was used up`)
      }
  t.same(await brokenIn(url), [])

  await Promise.all(admitted.map((one, i) => (i % 2 ? one.void() : one.settle(charge(4)))))
  const server = await sharedPostgres()
  const sums = await server.sql(
    `select scope, posted::text, pending::text from sluice.cell join sluice.balance using (id) where "window" = 'total'`,
    url
  )
  t.equal(sums.find(({ scope: id }) => id === 'tenant:acme')?.posted, '10000')
  t.same(
    sums.filter(({ pending }) => pending !== '0'),
    []
  )
  t.same(await brokenIn(url), [])
})
