// Balances in memory and the budgets above them: which amounts are admitted, what is told of them, and what goes to the
// disk.
import fc from 'fast-check'
import t from 'tap'
import type { Budget, Scope } from '../../../../../core/catalogue/caller.ts'
import { GatewayError } from '../../../../../core/errors.ts'
import type { BudgetReason } from '../../../../../core/errors.ts'
import { emptyBatch } from '../../../../../core/store/embedded/rows/batch.ts'
import { Cell, maxNano, mostHeld } from '../../../../../core/store/embedded/balance/cell.ts'
import { hourOf, Hours } from '../../../../../core/store/embedded/balance/hours.ts'
import { Purse } from '../../../../../core/store/embedded/balance/purse.ts'
import type { Limited } from '../../../../../core/store/embedded/balance/purse.ts'
import { Watch } from '../../../../../core/store/embedded/balance/thresholds.ts'

const from = Date.parse('2026-11-23')
const until = Date.parse('2026-11-24')

const usd = 1_000_000_000n

function scopeOf(kind: Scope['kind'], ...budgets: Budget[]): Scope {
  return { kind, id: `${kind}:acme`, budgets }
}

/** A budget and its balance, in which so much was charged and is held. */
function limited(scope: Scope, { posted = 0n, pending = 0n } = {}, at = 0): Limited {
  const budget = scope.budgets[at]!
  return { scope, budget, balance: Cell.of(scope.id, budget.per, budget.limit, posted, pending) }
}

function purseOf(budgets: readonly Limited[], cells = cellsOf(budgets), moved: Cell[] = []): Purse {
  return new Purse({ scopes: '{}', tags: null }, { from, until }, cells, budgets, moved)
}

function cellsOf(budgets: readonly Limited[]): Cell[] {
  return budgets.map(({ balance }) => balance as Cell)
}

/** What a purse says to an amount: undefined when it is held, or may be. */
function refused(act: () => void): GatewayError | undefined {
  try {
    act()
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
  return undefined
}

/** The changes that a cell writes. */
function written(cell: Cell): { moves: unknown[]; limits: unknown[] } {
  const batch = emptyBatch(1, 0)
  cell.write(batch)
  return batch
}

t.test(
  'holds and charges come to what is kept of each, and what is written are the changes since the last time',
  (t) => {
    const act = fc.oneof(
      fc.record({ do: fc.constant('hold' as const), amount: fc.bigInt(0n, 50n) }),
      fc.record({ do: fc.constant('post' as const), amount: fc.bigInt(0n, 50n), which: fc.nat(9) }),
      fc.record({ do: fc.constant('limit' as const), limit: fc.option(fc.bigInt(0n, 3n), { nil: undefined }) }),
      fc.constant({ do: 'write' as const })
    )
    t.doesNotThrow(() =>
      fc.assert(
        fc.property(fc.bigInt(0n, 9n), fc.bigInt(0n, 9n), fc.array(act, { maxLength: 40 }), (before, held, acts) => {
          const cell = Cell.of('tenant:acme', 'total', 2n, before, held)
          let moved: Cell[] = []
          /** What the open holds have taken. */
          const open: bigint[] = []
          let [posted, used, limit] = [before, before + held, 2n as bigint | undefined]
          let saved = { posted, used, limit }
          let changed = false
          for (const step of acts) {
            if (step.do === 'hold') {
              cell.hold(step.amount, moved)
              open.push(step.amount)
              used += step.amount
              changed = true
            } else if (step.do === 'post') {
              const [taken] = open.splice(step.which % (open.length || 1), 1)
              if (taken === undefined) continue
              cell.post(step.amount, step.amount - taken, moved)
              posted += step.amount
              used += step.amount - taken
              changed = true
            } else if (step.do === 'limit') {
              cell.declare(step.limit, moved)
              changed ||= limit !== step.limit
              limit = step.limit
            } else {
              const { moves, limits } = written(cell)
              const change = [posted - saved.posted, used - saved.used - (posted - saved.posted)]
              const isLimited = limit !== saved.limit
              const due = isLimited || change.some((one) => one !== 0n) ? ['tenant:acme', 'total', ...change] : []
              const dueLimits = isLimited ? [limit ?? null, 'tenant:acme', 'total'] : []
              if (due.length !== moves.length || due.some((one, at) => one !== moves[at])) return false
              if (dueLimits.length !== limits.length || dueLimits.some((one, at) => one !== limits[at])) return false
              saved = { posted, used, limit }
              changed = false
              moved = []
            }
            if (cell.posted !== posted || cell.used !== used || cell.pending !== used - posted) return false
            if (cell.settled !== (!changed && open.length === 0)) return false
            if (moved.length !== (changed ? 1 : 0)) return false
          }
          return true
        }),
        { numRuns: 500 }
      )
    )
    t.end()
  }
)

t.test('a new balance has nothing', (t) => {
  const { posted, used, limit } = Cell.of('tenant:acme', 'total')
  t.same([posted, used, limit], [0n, 0n, undefined])
  t.end()
})

t.test('a limit of more than a column holds is written as the most that it does', (t) => {
  t.equal(maxNano, 9_223_372_036_854_775_807n)
  for (const [limit, stored] of [
    [maxNano + 1n, maxNano],
    [maxNano, maxNano],
    [maxNano - 1n, maxNano - 1n]
  ] as const) {
    const cell = Cell.of('tenant:acme', 'total')
    cell.limitTo(limit)
    t.same(written(cell).limits, [stored, 'tenant:acme', 'total'])
  }
  t.end()
})

t.test('a purse has the scopes and tags that the journal gets', (t) => {
  const purse = new Purse({ scopes: '{"key:a":"day"}', tags: '{"team":"x"}' }, { from, until }, [], [], [])
  t.same([purse.scopes, purse.tags], ['{"key:a":"day"}', '{"team":"x"}'])
  t.end()
})

t.test('a purse is of the time from its beginning on, and not of its end', (t) => {
  const purse = purseOf([])
  t.same(
    [from - 1, from, until - 1, until].map((time) => purse.isOf(time)),
    [false, true, true, false]
  )
  t.end()
})

t.test('an amount is held in every balance where each budget has it, and otherwise in none', (t) => {
  const budget = fc.record({ limit: fc.bigInt(0n, 30n), posted: fc.bigInt(0n, 20n), pending: fc.bigInt(0n, 20n) })
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(
        fc.array(budget, { maxLength: 4 }),
        fc.bigInt(0n, 30n),
        fc.bigInt(0n, 30n),
        (given, amount, charge) => {
          const kinds = ['tenant', 'project', 'member', 'key'] as const
          const budgets = given.map(({ limit, ...sums }, i) =>
            limited(scopeOf(kinds[i]!, { limit, per: 'total' }), sums)
          )
          const before = given.map(({ posted, pending }) => posted + pending)
          const rests = given.map(({ limit }, i) => limit - before[i]!)
          const short = rests.findIndex((rest) => amount > rest)
          const tightest = rests.reduce<bigint | undefined>(
            (most, rest) => (most === undefined || rest < most ? rest : most),
            undefined
          )
          const moved: Cell[] = []
          const purse = purseOf(budgets, cellsOf(budgets), moved)
          if (purse.left() !== (tightest !== undefined && tightest < 0n ? 0n : tightest)) return false
          const error = refused(() => purse.hold(amount))
          const used = (): bigint[] => budgets.map(({ balance }) => balance.used)
          if (amount > 0n && short >= 0) {
            const said = error?.details.reason as BudgetReason | undefined
            return said?.level === kinds[short] && moved.length === 0 && used().every((sum, i) => sum === before[i])
          }
          if (error || moved.length !== budgets.length) return false
          if (used().some((sum, i) => sum !== before[i]! + amount)) return false
          purse.post(amount, charge)
          return budgets.every(
            ({ balance }, i) => balance.used === before[i]! + charge && balance.posted === given[i]!.posted + charge
          )
        }
      ),
      { numRuns: 500 }
    )
  )
  t.end()
})

t.test('no budget has less than nothing left, and each says when its window ends', (t) => {
  const of = (per: Budget['per'], posted: bigint) => limited(scopeOf('tenant', { limit: 10n, per }), { posted })
  t.same(
    purseOf([of('day', 9n), of('week', 10n), of('month', 11n), of('total', 0n)])
      .standings()
      .map(({ per, posted_nano, pending_nano, left_nano, resets_at }) => [
        per,
        posted_nano,
        pending_nano,
        left_nano,
        resets_at
      ]),
    [
      ['day', '9', '0', '1', '2026-11-24T00:00:00.000Z'],
      ['week', '10', '0', '0', '2026-11-30T00:00:00.000Z'],
      ['month', '11', '0', '0', '2026-12-01T00:00:00.000Z'],
      ['total', '0', '0', '10', null]
    ]
  )
  t.end()
})

t.test('a refusal says in words and in numbers what is left, who has the rest, and when there is enough', (t) => {
  const day = { limit: usd, per: 'day' } as const
  for (const [budget, sums, amount, message, free] of [
    [day, { posted: usd }, 1n, 'The key budget of 1 USD per day is used up.', true],
    [day, { posted: usd + 5n }, 1n, 'The key budget of 1 USD per day is used up.', true],
    [
      day,
      { posted: usd / 2n, pending: usd / 2n },
      1n,
      'The key budget of 1 USD per day is used up, counting 0.5 USD held by requests that are still running.',
      true
    ],
    [
      day,
      { posted: usd - 1n },
      2n,
      'This request may cost up to 0.000000002 USD, and 0.000000001 USD of the key budget of 1 USD per day is left.',
      true
    ],
    [
      day,
      { posted: usd / 4n, pending: usd / 4n },
      usd,
      'This request may cost up to 1 USD, and 0.5 USD of the key budget of 1 USD per day is left.',
      true
    ],
    [
      day,
      {},
      usd + 1n,
      'This request may cost up to 1.000000001 USD, and 1 USD of the key budget of 1 USD per day is left.',
      false
    ],
    [{ limit: usd, per: 'total' }, { posted: usd }, 1n, 'The key budget of 1 USD in total is used up.', false]
  ] as const) {
    const key = scopeOf('key', budget)
    const error = refused(() => purseOf([limited(key, sums)]).check(amount))!
    const { posted = 0n, pending = 0n } = sums as { posted?: bigint; pending?: bigint }
    const left = budget.limit - posted - pending
    t.equal(error.code, 'quota_key_exceeded')
    t.equal(error.message, message + (free ? ' Enough of it is free again at 2026-11-24T00:00Z.' : ''))
    t.same(error.details.reason, {
      by: 'budget',
      level: 'key',
      scope: 'key:acme',
      per: budget.per,
      limit_nano: String(budget.limit),
      asked_nano: String(amount),
      posted_nano: String(posted),
      pending_nano: String(pending),
      left_nano: String(left > 0n ? left : 0n),
      free_at: free ? '2026-11-24T00:00:00.000Z' : null
    })
  }
  t.end()
})

t.test('of several budgets of a scope that lack an amount, the one that has it last is named', (t) => {
  const budgets = ([['day'], ['month'], ['week']] as const).map(([per]) => ({ limit: 10n, per }))
  const tenant = scopeOf('tenant', ...budgets)
  const key = scopeOf('key', { limit: 1n, per: 'total' })
  const named = (amount: bigint, posted: readonly bigint[]): string | undefined => {
    const all = [...posted.map((sum, i) => limited(tenant, { posted: sum }, i)), limited(key, {})]
    return (refused(() => purseOf(all).check(amount))?.details.reason as BudgetReason | undefined)?.per
  }
  t.equal(named(5n, [9n, 9n, 9n]), 'month')
  t.equal(named(5n, [9n, 0n, 9n]), 'week', 'the month has enough')
  t.equal(named(5n, [9n, 0n, 0n]), 'day')
  t.equal(named(5n, [0n, 0n, 0n]), 'total', 'only the key lacks it')
  t.equal(named(11n, [0n, 0n, 0n]), 'day', 'the first of those that never have it')
  const never = [...budgets.slice(0, 2), { limit: 4n, per: 'week' } as const]
  const mixed = never.map((_, i) => limited(scopeOf('tenant', ...never), { posted: 9n }, i))
  // All are of one scope object, as they are in a file.
  const scope = mixed[0]!.scope
  const error = refused(() => purseOf(mixed.map((one) => ({ ...one, scope }))).check(5n))
  t.match(error?.details.reason, { per: 'week', free_at: null }, 'the one that never has it')
  t.end()
})

t.test('a rolling budget has an amount again when so much of its hours has gone', (t) => {
  const now = hourOf(from)
  const hours = new Hours('tenant:acme')
  hours.load([
    { hour: now - 22, posted: 1n, pending: 0n },
    { hour: now - 20, posted: 2n, pending: 0n },
    { hour: now - 5, posted: 4n, pending: 2n }
  ])
  const scope = scopeOf('tenant', { limit: 10n, per: '1d' })
  const stored = hours.budget(1)
  const moved: Cell[] = []
  const one = (): Limited => ({ scope, budget: scope.budgets[0]!, balance: hours.sum(1, now), stored })
  const purse = new Purse({ scopes: '{}', tags: null }, { from, until }, [hours.cell(now)], [one()], moved)
  const at = (ago: number): string => new Date((now - ago + 24) * 3_600_000).toISOString()
  const freeAt = (amount: bigint): unknown =>
    (refused(() => purse.check(amount))?.details.reason as BudgetReason | undefined)?.free_at
  t.equal(freeAt(1n), undefined, 'there is enough')
  t.equal(freeAt(2n), at(22), 'with the first hour')
  t.equal(freeAt(3n), at(20), 'with the second too')
  t.equal(freeAt(4n), at(20))
  t.equal(freeAt(5n), at(5), 'with all of them')
  t.equal(freeAt(11n), null)
  t.match(purse.standings(), [{ per: '1d', left_nano: '1', pending_nano: '2', resets_at: at(22) }])
  t.match(refused(() => purse.check(2n))?.message, 'of the tenant budget of 0.00000001 USD in 24 hours is left')
  const week = scopeOf('tenant', { limit: 1n, per: '7d' })
  const sums = { scope: week, budget: week.budgets[0]!, balance: hours.sum(7, now) }
  t.match(refused(() => purseOf([sums], []).check(2n))?.message, 'USD in 7 days is used up')

  purse.hold(0n)
  t.equal(stored.limit, 10n, 'the next start is told of its limit by the first hold')
  t.equal(hours.cell(now).limit, undefined, 'and what is left of it by the first that is of something')
  purse.hold(1n)
  t.equal(hours.cell(now).limit, 1n)
  t.ok(purse.isOf(from))
  hours.load([])
  t.notOk(purse.isOf(from), 'its sum is not kept up to date any more')
  t.end()
})

t.test('of the rolling budgets of one scope the hour tells the least limit, as they are by now', (t) => {
  const now = hourOf(from)
  const tenant = new Hours('tenant:acme')
  const purseWith = (...limits: bigint[]): Purse => {
    const scope = scopeOf('tenant', ...limits.map((limit, i) => ({ limit, per: `${i + 1}d` as const })))
    const budgets = scope.budgets.map((budget, i) => ({
      scope,
      budget,
      balance: tenant.sum(i + 1, now),
      stored: tenant.budget(i + 1)
    }))
    return purseOf(budgets, [tenant.cell(now)])
  }
  purseWith(20n, 10n).hold(1n)
  t.equal(tenant.cell(now).limit, 10n)
  purseWith(20n, 30n).hold(1n)
  t.equal(tenant.cell(now).limit, 20n, 'a limit that was raised holds at once')
  const mixed = scopeOf('tenant', { limit: 90n, per: 'day' }, { limit: 40n, per: '1d' })
  const rolling = { scope: mixed, budget: mixed.budgets[1]!, balance: tenant.sum(1, now), stored: tenant.budget(1) }
  purseOf([limited(mixed), rolling], [tenant.cell(now)]).hold(1n)
  t.equal(tenant.cell(now).limit, 40n, 'also where the scope has a calendar budget too')
  t.end()
})

t.test('a hold of nothing passes budgets that are used up', (t) => {
  const purse = purseOf([limited(scopeOf('tenant', { limit: 1n, per: 'day' }), { posted: 5n })])
  t.equal(
    refused(() => purse.hold(0n)),
    undefined
  )
  t.equal(refused(() => purse.hold(1n))?.code, 'quota_tenant_exceeded')
  t.end()
})

t.test('balances never exceed what a column holds: half of it for holds, the rest for charges above them', (t) => {
  t.equal(mostHeld, 4_611_686_018_427_387_904n)
  const cell = Cell.of('tenant:acme', 'total', undefined, mostHeld - 10n)
  const purse = purseOf([], [Cell.of('key:a', 'total'), cell])
  t.match(
    refused(() => purse.hold(11n)),
    { code: 'invalid_request', message: 'This request may cost 0.000000011 USD, more than can be accounted for' }
  )
  t.equal(
    refused(() => purse.hold(10n)),
    undefined
  )
  t.equal(cell.used, mostHeld)
  const rest = maxNano - mostHeld
  t.ok(purse.fits(rest, 0n))
  t.notOk(purse.fits(rest + 1n, 0n))
  t.ok(purse.fits(rest + 10n, 10n), 'the charge replaces what was held for it')
  t.notOk(purse.fits(rest + 11n, 10n))
  t.end()
})

t.test('a threshold is reached by so many percent of a budget to the nano-dollar, rounded up', (t) => {
  for (const [limit, percent, least] of [
    [100_000n, 80, 80_000n],
    [1001n, 50, 501n],
    [1n, 1, 1n],
    [10n ** 15n, 33, 33n * 10n ** 13n]
  ] as const) {
    const told: number[] = []
    const scope = scopeOf('tenant', { limit, per: 'day', alerts: [percent] })
    const watch = new Watch(scope, 'day', '2026-11-23', {
      told: () => 0,
      scope: () => undefined,
      reached: ({ threshold }) => told.push(threshold) > 0
    })
    const one = { ...limited(scope), watch }
    watch.arm(scope, one.budget, one.balance)
    const purse = purseOf([one])
    purse.hold(least)
    purse.post(least - 1n, least - 1n)
    t.same(told, [], `${percent} % of ${limit}`)
    purse.post(1n, 1n)
    t.same(told, [percent], `${percent} % of ${limit}`)
  }
  t.end()
})

t.test('a threshold is told with the charge that reaches it, or with a refusal, and a hold tells of none', (t) => {
  const told: [number, bigint][] = []
  const scope = scopeOf('tenant', { limit: 100n, per: 'day', alerts: [50, 90] })
  const watch = new Watch(scope, 'day', '2026-11-23', {
    told: () => 0,
    scope: () => undefined,
    reached: ({ threshold, posted }) => told.push([threshold, posted]) > 0
  })
  const one = { ...limited(scope), watch }
  watch.arm(scope, one.budget, one.balance)
  const bare = limited(scopeOf('key', { limit: 100n, per: 'day' }))
  const purse = purseOf([one, bare])
  purse.hold(60n)
  purse.post(60n, 49n)
  t.same(told, [])
  purse.hold(1n)
  t.same(told, [])
  purse.post(1n, 1n)
  t.same(told, [[50, 50n]])
  watch.arm(scope, { ...one.budget, limit: 55n }, one.balance)
  t.same(told, [[50, 50n]])
  t.ok(refused(() => purse.hold(51n)))
  t.same(
    told,
    [
      [50, 50n],
      [90, 50n]
    ],
    'a limit was lowered, and no charge follows'
  )
  t.end()
})
