// Amounts that are spread over the windows in which they count, against an oracle that adds up every one of them anew.
import fc from 'fast-check'
import t from 'tap'
import { Sums } from '../../../../../core/store/embedded/balance/sums.ts'
import { day, hour, overAt, windowsOf } from '../../../../../core/store/window.ts'
import type { Spans } from '../../../../../core/store/window.ts'
import { noon } from '../sample.ts'

const scopesOf: readonly Readonly<Record<string, Spans>>[] = [
  { 'tenant:acme': 'month', 'key:laptop': 'total' },
  { 'tenant:acme': ['month', 'hour'], 'key:desktop': 'day' },
  { 'tenant:blue': 'week' }
]
const amount = fc.bigInt(-9n, 9n)
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('add' as const),
      which: fc.nat(2),
      at: fc.constantFrom(0, 1, hour - 1, hour, 13 * hour, day, 3 * day, 40 * day, -hour),
      posted: amount,
      pending: amount
    })
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('read' as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('forget' as const),
      at: fc.constantFrom(0, hour, 12 * hour, 12 * hour - 1, 2 * day, 30 * day, 400 * day)
    })
  }
)

/** Posted and pending by scope and window. */
type Expected = Map<string, [posted: bigint, pending: bigint]>

/** What is to be said of sums, those that are nothing included. */
function shown(all: Iterable<readonly [string, readonly [bigint, bigint]]>): string {
  return [...all]
    .map(([name, [posted, pending]]) => `${name}: ${posted}, ${pending}`)
    .sort()
    .join('\n')
}

t.test('what is added counts in its windows, and those that are over can be told from the others', async (t) => {
  const property = fc.property(fc.array(step, { maxLength: 40, size: 'max' }), (steps) => {
    const sums = new Sums()
    const expected: Expected = new Map()
    const found = (): string =>
      shown([...sums].map(({ scope, window, posted, pending }) => [`${scope} ${window}`, [posted, pending]]))
    for (const step of steps) {
      if (step.do === 'add') {
        const time = noon + step.at
        const scopes = scopesOf[step.which]!
        sums.add(JSON.stringify(scopes), time, step.posted, step.pending)
        for (const [scope, spans] of Object.entries(scopes))
          for (const window of windowsOf(spans, time)) {
            const [posted, pending] = expected.get(`${scope} ${window}`) ?? [0n, 0n]
            expected.set(`${scope} ${window}`, [posted + step.posted, pending + step.pending])
          }
      } else if (step.do === 'read') {
        if (found() !== shown(expected)) return false
      } else {
        const time = noon + step.at
        const over = [...expected].filter(([name]) => (overAt(name.split(' ')[1]!) ?? Infinity) <= time)
        const told: (readonly [string, readonly [bigint, bigint]])[] = []
        for (const sum of sums.over(time)) {
          told.push([`${sum.scope} ${sum.window}`, [sum.posted, sum.pending]])
          sums.delete(sum)
        }
        if (shown(told) !== shown(over)) return false
        for (const [name] of over) expected.delete(name)
      }
    }
    const moves = sums.moves()
    const moved = Array.from({ length: moves.length / 4 }, (_, at) => {
      const [scope, window, posted, pending] = moves.slice(4 * at, 4 * at + 4) as [string, string, bigint, bigint]
      return [`${scope} ${window}`, [posted, pending]] as const
    })
    return found() === shown(expected) && shown(moved) === shown(expected)
  })
  fc.assert(property, { numRuns: 500 })
  t.pass()
})

t.test('a sum may be changed by its name, and what is deleted begins anew', async (t) => {
  const sums = new Sums()
  const sum = sums.of('tenant:acme', 'total')
  t.same(sum, { scope: 'tenant:acme', window: 'total', posted: 0n, pending: 0n, limit: undefined })
  sum.pending -= 5n
  sums.of('key:laptop', 'total').posted += 2n
  sums.add('{"tenant:acme":"total"}', noon, 1n, 7n)
  t.same(sums.moves(), ['tenant:acme', 'total', 1n, 2n, 'key:laptop', 'total', 2n, 0n])
  sums.delete(sum)
  t.same(sums.moves(), ['key:laptop', 'total', 2n, 0n])
  sums.delete(sum)
  t.equal(sums.of('tenant:acme', 'total').pending, 0n)
})

t.test('callers without end are added up, whatever waits to be spread', async (t) => {
  const sums = new Sums()
  const callers = 10_000
  for (let caller = 0; caller < callers; caller++)
    for (const posted of [1n, 3n]) sums.add(`{"tenant:acme":"day","key:${caller}":"total"}`, noon, posted, 2n)
  const found = new Map(
    [...sums].map(({ scope, window, posted, pending }) => [`${scope} ${window}`, [posted, pending]])
  )
  t.equal(found.size, callers + 2)
  t.same(found.get('tenant:acme 2026-11-21'), [40_000n, 40_000n])
  t.same(found.get(`key:${callers - 1} total`), [4n, 4n])
})
