// Balances of windows of long ago, which are read when a clock goes back: what changes while they are read is never
// taken for what it was before.
import t from 'tap'
import type { Scope } from '../../../../../core/catalogue/caller.ts'
import { Balances } from '../../../../../core/store/embedded/balance/balances.ts'
import { Purses } from '../../../../../core/store/embedded/book/purses.ts'
import { emptyBatch } from '../../../../../core/store/embedded/rows/batch.ts'
import type { Row } from '../../../../../core/store/embedded/files/sqlite.ts'
import { noon, scope } from '../sample.ts'

const day = 86_400_000
const [november, february, june] = [noon, Date.UTC(2027, 1, 15), Date.UTC(2027, 5, 15)]

/** Purses whose questions are answered by the test. */
function purses(): { all: Purses; asked: ((rows: Row[]) => void)[] } {
  const asked: ((rows: Row[]) => void)[] = []
  const all = new Purses(new Balances(Date.UTC(2026, 9)), [], {
    writer: { flushed: async () => true },
    reader: { ask: () => new Promise((resolve) => asked.push((rows) => resolve({ rows }))) },
    troubles: { begin: (_, error) => t.fail(String(error)), over() {} },
    now: () => noon
  })
  return { all, asked }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

for (const [per, window] of [
  ['day', '2026-11-21'],
  ['1d', '2026-11-21T12']
] as const)
  t.test(`what is removed from memory while older balances are read is read once more (${per})`, async (t) => {
    const { all, asked } = purses()
    const scopes: readonly Scope[] = [scope('key', 'laptop', 100n, per)]
    const spend = (time: number, amount: bigint): void => {
      const purse = all.of(scopes, time)
      purse.hold(amount)
      purse.post(amount, amount)
      all.write(emptyBatch(1, 0))
    }
    const back = (): unknown => all.of(scopes, november)
    const stored = (posted: bigint): Row[] => [
      { scope: 'key:laptop', window, limit: null, posted, pending: 0n },
      ...(per === '1d' ? [{ scope: 'key:laptop', window: '1d', limit: 100n, posted: 0n, pending: 0n }] : [])
    ]
    spend(november, 60n)
    spend(february, 1n)
    t.throws(back, { code: 'billing_unavailable' })
    await turn()
    t.equal(asked.length, 1)
    // Before the answer comes, the clock goes on by months.
    spend(june, 1n)
    spend(june + day, 1n)
    asked[0]!(stored(0n))
    await turn()
    t.throws(back, { code: 'billing_unavailable' }, 'the answer may be older than what was removed')
    await turn()
    asked[1]!(stored(60n))
    await turn()
    t.equal(all.of(scopes, november).left(), 40n)
    t.equal(all.of(scopes, november + 1).left(), 40n)
  })

t.test('what is in memory is newer than what was read, and stays', async (t) => {
  const { all, asked } = purses()
  const scopes: readonly Scope[] = [scope('tenant', 'acme', 100n, 'total'), scope('key', 'laptop', 100n, '1d')]
  const purse = all.of(scopes, february)
  purse.hold(10n)
  t.throws(() => all.of(scopes, november), { code: 'billing_unavailable' })
  await turn()
  purse.post(10n, 30n)
  const row = { scope: 'key:laptop', limit: null, posted: 0n, pending: 10n }
  asked[0]!([
    { ...row, scope: 'tenant:acme', window: 'total' },
    { ...row, window: 'total' },
    { ...row, window: '2027-02-15T00' },
    { ...row, window: '2026-11-21T12', posted: 5n, pending: 0n },
    { ...row, window: '1d', limit: 7n, posted: 0n, pending: 0n }
  ])
  await turn()
  t.match(all.of(scopes, november).standings(), [
    { scope: 'tenant:acme', left_nano: '70' },
    { scope: 'key:laptop', limit_nano: '100', left_nano: '95' }
  ])
  t.equal(all.of(scopes, february).left(), 70n)
})
