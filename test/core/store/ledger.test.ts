// The ledger's arithmetic: what is admitted, what is charged and what the book says afterwards.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import type { Scope } from '../../../core/catalogue/caller.ts'
import { GatewayError } from '../../../core/errors.ts'
import { costOf } from '../../../core/money/price.ts'
import { doubted } from '../../../core/money/settlement.ts'
import type { Reservation, Settlement } from '../../../core/store/ledger.ts'
import { openStore } from '../../../core/store/embedded/store.ts'
import type { OwnStore } from '../../../core/store/embedded/store.ts'
import { verify } from '../../../core/store/embedded/care/verify/verify.ts'
import { silentLog } from '../../../core/telling/log.ts'
import type { Logger } from '../../../core/telling/log.ts'
import { giveBack, noon, price, query, record, reserve, scope, settle, used } from './embedded/sample.ts'

interface Opened {
  store: OwnStore
  file: string
  /** Closes the store and checks every invariant. */
  check(): Promise<void>
}

async function open(t: Test, now = (): number => noon): Promise<Opened> {
  const file = join(t.testdir(), 'sluice.db')
  const store = await openStore({ file, durability: 'process', now })
  let closed = false
  const check = async (): Promise<void> => {
    closed = true
    await store.close()
    t.same(verify(file), [], 'every invariant holds')
  }
  t.teardown(() => (closed ? undefined : store.close()))
  return { store, file, check }
}

function refusal(run: () => unknown): GatewayError {
  try {
    run()
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
  throw new Error('was not refused')
}

t.test('a hold counts as pending, a settlement as posted, and the difference comes back', async (t) => {
  const { store, check } = await open(t)
  const scopes = [scope('tenant', 'acme', 1000n, 'month'), scope('key', 'laptop')]
  const reservation = reserve(store.ledger, scopes, 300n)
  t.same(store.ledger.balances(), [
    { scope: 'key:laptop', window: 'total', limit: undefined, posted: 0n, pending: 300n },
    { scope: 'tenant:acme', window: '2026-11', limit: 1000n, posted: 0n, pending: 300n },
    { scope: 'tenant:acme', window: 'total', limit: undefined, posted: 0n, pending: 300n }
  ])
  t.equal(store.ledger.affordable(scopes, noon), 700n)
  await reservation.durable
  reservation.dispatched('openai')
  await settle(store, reservation, 120)
  t.same(
    store.ledger.balances({ scope: 'tenant:acme' }).map(({ posted, pending }) => [posted, pending]),
    [
      [120n, 0n],
      [120n, 0n]
    ]
  )
  t.equal(store.ledger.affordable(scopes, noon), 880n)
  t.equal(store.ledger.affordable([scope('key', 'laptop')], noon), undefined, 'nothing limits a key without a budget')
  await check()
})

t.test('a void gives everything back and is the only end', async (t) => {
  const { store, file, check } = await open(t)
  const scopes = [scope('key', 'laptop', 100n)]
  const reservation = reserve(store.ledger, scopes, 100n)
  await reservation.durable
  const voided = giveBack(store, reservation)
  t.equal(store.ledger.affordable(scopes, noon), 100n, 'at once')
  t.throws(() => reservation.void(), /voided already/)
  t.throws(
    () => reservation.settle({ usage: used(1), amount: 1n, source: 'upstream', channel: 'openai' }),
    /voided already/
  )
  t.throws(() => reservation.dispatched('openai'), /voided already/, 'an upstream must not bill what was given back')
  await voided
  await store.flush()
  const [row, ...rest] = query(file, 'SELECT kind, amount, reserved FROM journal')
  t.match(row, { kind: 'void', amount: 0n, reserved: 100n })
  t.same(rest, [])
  await check()
})

t.test('the truth is posted when it is more than what was held, and then nothing more is admitted', async (t) => {
  const { store, check } = await open(t)
  const scopes = [scope('key', 'laptop', 100n)]
  await settle(store, reserve(store.ledger, scopes, 100n), 130)
  t.match(store.ledger.balances(), [{ posted: 130n, pending: 0n }])
  t.equal(store.ledger.affordable(scopes, noon), 0n)
  t.equal(refusal(() => reserve(store.ledger, scopes, 1n)).code, 'quota_key_exceeded')
  await giveBack(store, reserve(store.ledger, scopes, 0n))
  await check()
})

t.test('every attempt leaves a cost that no balance counts', async (t) => {
  const { store, file, check } = await open(t)
  const reservation = reserve(store.ledger, [scope('key', 'laptop')], 100n)
  const costs = [{ attempt: 1, channel: 'azure', usage: used(0, 5), amount: 10n, source: 'estimated' as const }]
  const usage = used(40)
  await reservation.settle({ usage, amount: 40n, source: 'partial', channel: 'openai', costs })
  store.requests.append(record({ request_id: reservation.requestId, cost_nano: '40' }))
  await store.flush()
  t.match(query(file, 'SELECT kind, class, channel, amount, source, usage_json FROM journal ORDER BY seq'), [
    { kind: 'cost', class: 'cost:1', channel: 'azure', amount: 10n, source: 'estimated' },
    {
      kind: 'settle',
      class: 'terminal',
      channel: 'openai',
      amount: 40n,
      source: 'partial',
      usage_json: JSON.stringify(usage)
    }
  ])
  t.match(store.ledger.balances(), [{ posted: 40n }])
  await check()
})

t.test('a refusal names the outermost budget that cannot carry it, and holds nothing anywhere', async (t) => {
  const { store, check } = await open(t)
  const usd = 10n ** 9n
  const scopes = [
    scope('tenant', 'acme', 1000n * usd, 'month'),
    scope('project', 'acme/web', 100n * usd, 'month'),
    scope('member', 'acme/web/alice', 20n * usd, 'day'),
    scope('key', 'laptop', 5n * usd)
  ]
  const says = (amount: bigint, scopes: Scope[]): string => {
    const before = store.ledger.balances()
    const { code, message, status } = refusal(() => reserve(store.ledger, scopes, amount))
    t.equal(status, 429)
    t.same(
      store.ledger.balances().filter(({ pending, posted }) => pending + posted > 0n),
      before.filter(({ pending, posted }) => pending + posted > 0n)
    )
    return `${code}: ${message}`
  }
  t.equal(
    says(200n * usd, scopes),
    'quota_project_exceeded: This request may cost up to 200 USD, and 100 USD of the project budget of 100 USD per month is left.'
  )
  t.equal(
    says(21n * usd, scopes),
    'quota_member_exceeded: This request may cost up to 21 USD, and 20 USD of the member budget of 20 USD per day is left.'
  )
  const running = reserve(store.ledger, scopes, 5n * usd)
  t.equal(
    says(1n, scopes),
    'quota_key_exceeded: The key budget of 5 USD in total is used up, counting 5 USD held by requests that are still running.'
  )
  await settle(store, running, Number(5n * usd))
  t.equal(says(1n, scopes), 'quota_key_exceeded: The key budget of 5 USD in total is used up.')
  t.same(refusal(() => reserve(store.ledger, scopes.slice(0, 3), 16n * usd)).details.reason, {
    by: 'budget',
    level: 'member',
    scope: 'member:acme/web/alice',
    per: 'day',
    limit_nano: '20000000000',
    asked_nano: '16000000000',
    posted_nano: '5000000000',
    pending_nano: '0',
    left_nano: '15000000000',
    free_at: '2026-11-22T00:00:00.000Z'
  })
  t.match(
    refusal(() => reserve(store.ledger, scopes, 200n * usd)).details.reason,
    { scope: 'project:acme/web', free_at: null },
    'no window is enough for more than the whole budget'
  )
  for (const [spent, left] of [
    [98n, '2'],
    [99n, '1'],
    [100n, '0'],
    [107n, '0']
  ] as const) {
    const own = [scope('key', `k${spent}`, 100n)]
    await settle(store, reserve(store.ledger, own, 98n), Number(spent))
    const { reason } = refusal(() => reserve(store.ledger, own, 3n)).details
    t.equal(store.ledger.affordable(own, noon), BigInt(left))
    t.match(reason, { left_nano: left, posted_nano: String(spent), free_at: null }, `${spent} of 100`)
  }
  await check()
})

t.test('a refusal says for how long its budget is', async (t) => {
  const { store, check } = await open(t)
  for (const [per, words] of [
    ['day', 'per day'],
    ['week', 'per week'],
    ['month', 'per month'],
    ['1d', 'in 24 hours'],
    ['30d', 'in 30 days'],
    ['total', 'in total']
  ] as const) {
    const { message } = refusal(() => reserve(store.ledger, [scope('key', per, 1n, per)], 2n))
    t.match(message, `the key budget of 0.000000001 USD ${words} is left`, per)
  }
  await check()
})

t.test('a budget belongs to the day and month of the request, in UTC, also when it is settled later', async (t) => {
  let now = Date.UTC(2026, 10, 30, 23, 59, 59, 900)
  const { store, file, check } = await open(t, () => now)
  const scopes = [scope('tenant', 'acme', 1000n, 'month'), scope('key', 'laptop', 100n, 'day')]
  const late = reserve(store.ledger, scopes, 100n, { time: now })
  t.equal(refusal(() => reserve(store.ledger, scopes, 1n, { time: now })).code, 'quota_key_exceeded')
  now += 200
  const early = reserve(store.ledger, scopes, 60n, { time: now })
  t.equal(store.ledger.affordable(scopes, now), 40n, 'the new day is whole but for what it holds')
  t.equal(
    refusal(() => reserve(store.ledger, scopes, 1n, { time: now - 200 })).code,
    'quota_key_exceeded',
    'one that arrived before midnight counts there'
  )
  await settle(store, late, 70)
  await settle(store, early, 50)
  t.same(
    store.ledger.balances().map(({ scope, window, posted }) => `${scope} ${window} ${posted}`),
    ['key:laptop 2026-12-01 50', 'key:laptop total 120', 'tenant:acme 2026-12 50', 'tenant:acme total 120']
  )
  await check()
  await store.flush()
  t.match(query(file, "SELECT window, posted FROM balance WHERE scope = 'key:laptop' ORDER BY window"), [
    { window: '2026-11-30', posted: 70n },
    { window: '2026-12-01', posted: 50n },
    { window: 'total', posted: 120n }
  ])
})

/** What becomes of a request; where the book has to look up a window first, it is asked again. */
async function outcome(run: () => Reservation): Promise<Reservation | string> {
  for (;;) {
    try {
      return run()
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      if (error.code !== 'billing_unavailable') return error.code
      await sleep(1)
    }
  }
}

t.test('a start with a clock that is months ahead and is corrected afterwards reopens no budget', async (t) => {
  const months = 90 * 86_400_000
  let now = noon
  const { store, file, check } = await open(t, () => now)
  const scopes = [scope('tenant', 'acme', 100n, 'month'), scope('key', 'laptop', 60n, 'day')]
  await settle(store, reserve(store.ledger, scopes, 60n), 60)
  await settle(store, reserve(store.ledger, [scopes[0]!], 40n), 40)
  await check()
  now += months
  const ahead = await openStore({ file, durability: 'process', now: () => now })
  await settle(ahead, reserve(ahead.ledger, scopes, 60n, { time: now }), 60)
  now -= months
  t.equal(await outcome(() => reserve(ahead.ledger, scopes, 1n)), 'quota_tenant_exceeded')
  t.equal(await outcome(() => reserve(ahead.ledger, [scopes[1]!], 1n)), 'quota_key_exceeded')
  t.match(ahead.ledger.balances({ scope: 'key:laptop' }), [
    { window: '2026-11-21', posted: 60n },
    { window: 'total', posted: 120n }
  ])
  now += 86_400_000
  const tomorrow = await outcome(() => reserve(ahead.ledger, [scopes[1]!], 60n, { time: now }))
  t.not(typeof tomorrow, 'string', 'windows follow the clock that was put right')
  await giveBack(ahead, tomorrow as Reservation)
  await ahead.close()
  t.same(verify(file), [])
})

t.test('the month before is in memory, and what was before that is read when it is asked for', async (t) => {
  const { store, check } = await open(t)
  const scopes = [scope('tenant', 'acme', 100n, 'month')]
  const december = Date.UTC(2026, 11, 15)
  const november = Date.UTC(2026, 10, 1)
  for (const time of [december, november]) await giveBack(store, reserve(store.ledger, scopes, 1n, { time }))
  const october = (): Reservation => reserve(store.ledger, scopes, 1n, { time: november - 1 })
  t.equal(refusal(october).code, 'billing_unavailable')
  const read = await outcome(october)
  t.not(typeof read, 'string')
  await giveBack(store, read as Reservation)
  await check()
})

t.test('a clock that jumps by months, to and fro, opens each window once', async (t) => {
  const { store, check } = await open(t)
  let run = 0
  const step = fc.record({
    caller: fc.nat(2),
    month: fc.constantFrom(-5, -1, 0, 1, 3, 7),
    day: fc.nat(1),
    amount: fc.bigInt(1n, 60n),
    end: fc.constantFrom('settled', 'given back', 'given back later'),
    wait: fc.boolean()
  })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 40 }), async (steps) => {
      run++
      // Three callers of one tenant, whose scopes are other arrays.
      const callers = [0, 1, 2].map((n) => [
        scope('tenant', `acme-${run}`, 100n, 'month'),
        scope('key', `k${run}-${n}`, 50n, 'day')
      ])
      const left = new Map<string, bigint>()
      const leftOf = (name: string, limit: bigint): bigint => left.get(name) ?? limit
      const open: (() => Promise<void>)[] = []
      for (const { caller, month, day, amount, end, wait } of steps) {
        if (open.length > 2) await open.shift()!()
        const date = new Date(noon)
        const time = Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + month, 10 + day)
        const windows: [string, bigint][] = [
          [`acme ${month}`, leftOf(`acme ${month}`, 100n)],
          [`k${caller} ${month} ${day}`, leftOf(`k${caller} ${month} ${day}`, 50n)]
        ]
        const fits = windows.every(([, rest]) => amount <= rest)
        const admitted = await outcome(() => reserve(store.ledger, callers[caller]!, amount, { time }))
        if ((typeof admitted !== 'string') !== fits)
          throw new Error(`admitted: ${typeof admitted !== 'string'}, model: ${fits}`)
        if (typeof admitted === 'string') continue
        for (const [name, rest] of windows) left.set(name, rest - amount)
        const back = async (): Promise<void> => {
          for (const [name] of windows) left.set(name, left.get(name)! + amount)
          await giveBack(store, admitted)
        }
        if (end === 'settled') await settle(store, admitted, Number(amount))
        else if (end === 'given back') await back()
        else open.push(back)
        if (wait) await store.flush()
      }
      for (const back of open) await back()
    }),
    { numRuns: 20 }
  )
  await check()
})

t.test('a reload may change a budget: the limit of the request is the one that holds', async (t) => {
  const { store, check } = await open(t)
  const first = reserve(store.ledger, [scope('key', 'laptop', 100n, 'day')], 90n)
  t.equal(refusal(() => reserve(store.ledger, [scope('key', 'laptop', 80n, 'day')], 1n)).code, 'quota_key_exceeded')
  const second = reserve(store.ledger, [scope('key', 'laptop', 200n, 'day')], 50n)
  t.match(store.ledger.balances({ scope: 'key:laptop' }), [
    { window: '2026-11-21', limit: 200n, pending: 140n },
    { window: 'total', limit: undefined }
  ])
  await Promise.all([settle(store, first, 90), settle(store, second, 50)])
  await check()
})

t.test('what a store knew it knows when it is opened again', async (t) => {
  const { store, file, check } = await open(t)
  const scopes = [scope('key', 'laptop', 1000n, 'month'), scope('member', 'acme/web/alice', 2000n, '30d')]
  await settle(store, reserve(store.ledger, scopes, 100n, { time: noon - 20 * 86_400_000 }), 50)
  await settle(store, reserve(store.ledger, scopes, 100n), 27)
  const before = store.ledger.balances()
  t.match(before, [{ posted: 77n }, { posted: 77n }, { posted: 77n }, { window: '30d', limit: 2000n, posted: 77n }])
  await check()
  const again = await openStore({ file, durability: 'process', now: () => noon })
  t.same(again.ledger.balances(), before)
  t.equal(again.ledger.affordable(scopes, noon), 923n)
  t.equal(again.ledger.affordable(scopes.slice(1), noon), 1923n, 'at once, of all days')
  t.equal(again.health().recovered, 0)
  await again.close()
})

t.test('what is only explained is refused as it would be, and holds nothing', async (t) => {
  const { store, check } = await open(t)
  const request = {
    requestId: 'r',
    scopes: [scope('key', 'laptop', 100n)],
    amount: 100n,
    model: 'gpt-5',
    price,
    estimate: { input: 10, maxOutput: 100 },
    time: noon
  }
  const looked = store.ledger.look(request) as Reservation
  t.match([looked.requestId, looked.amount, looked.price], ['r', 100n, price])
  t.equal(store.ledger.affordable(request.scopes, noon), 100n)
  t.match(
    refusal(() => store.ledger.look({ ...request, amount: 101n })),
    { code: 'quota_key_exceeded' }
  )
  await Promise.all([
    looked.settle({ usage: used(9), amount: 9n, source: 'upstream', channel: 'openai' }),
    looked.void(),
    looked.durable
  ])
  t.match(store.ledger.balances(), [{ posted: 0n, pending: 0n }])
  t.equal(store.health().queued, 0)
  await check()
})

t.test('500 requests at once on a budget for 37 admit 37, whatever else they count in', async (t) => {
  const { store, check } = await open(t)
  const kinds = ['tenant', 'project', 'member', 'key'] as const
  for (const [i, kind] of kinds.entries()) {
    // What the tight one is within is shared, what is within it is each request's own.
    const name = (level: number, n: number): string => `${i}-${level < i ? 'shared' : level === i ? 'tight' : n}`
    const idOf = (level: number, n: number): string =>
      level === 3 ? name(3, n) : Array.from({ length: level + 1 }, (_, outer) => name(outer, n)).join('/')
    const held = Array.from({ length: 500 }, (_, n) => {
      const others = kinds.map((other, level) =>
        scope(other, idOf(level, n), other === kind ? 37n * 11n + 10n : undefined)
      )
      try {
        return reserve(store.ledger, others, 11n)
      } catch (error) {
        t.equal((error as GatewayError).code, `quota_${kind}_exceeded`)
        return undefined
      }
    }).filter((reservation) => reservation !== undefined)
    t.equal(held.length, 37, kind)
    await Promise.all(held.map((reservation) => settle(store, reservation, 11)))
    t.match(store.ledger.balances({ scope: `${kind}:${idOf(i, 0)}` }), [{ posted: 407n, pending: 0n }])
  }
  await check()
})

t.test('amounts beyond 2⁵³ are exact, and those that no column holds are refused', async (t) => {
  const { store, file, check } = await open(t)
  const huge = 2n ** 53n + 1n
  const dear = { version: 'dear', perMillion: { output: huge * 1_000_000n } }
  const scopes = [scope('tenant', 'acme', 2n ** 62n, 'month')]
  const one = reserve(store.ledger, scopes, huge, { price: dear })
  await one.settle({ usage: used(1), amount: costOf(used(1), dear), source: 'upstream', channel: 'openai' })
  store.requests.append(record({ request_id: one.requestId, cost_nano: String(huge) }))
  t.match(store.ledger.balances(), [{ posted: 9007199254740993n }, { posted: 9007199254740993n }])
  const unlimited = [scope('key', 'laptop')]
  const { code, message } = refusal(() => reserve(store.ledger, unlimited, 2n ** 63n))
  t.equal(code, 'invalid_request')
  t.match(message, /9223372036\.854775808 USD/)
  const rich = reserve(store.ledger, [scope('project', 'x', 10n ** 24n)], 2n ** 62n)
  await giveBack(store, rich)
  await check()
  await store.flush()
  t.match(query(file, "SELECT amount FROM journal WHERE kind = 'settle'"), [{ amount: 9007199254740993n }])
  const again = await openStore({ file, durability: 'process', now: () => noon })
  t.match(again.ledger.balances({ scope: 'tenant:acme' }), [
    { posted: 9007199254740993n },
    { posted: 9007199254740993n }
  ])
  await again.close()
})

t.test('a hold ends whatever it is ended with, also where no balance can carry the charge', async (t) => {
  const { store, file, check } = await open(t)
  const scopes = [scope('key', 'laptop', 2n ** 80n)]
  const dear = { version: 'dear', perMillion: { output: 2n ** 62n * 1_000_000n } }
  const whole = reserve(store.ledger, scopes, 2n ** 62n, { price: dear })
  t.equal(
    refusal(() => reserve(store.ledger, scopes, 1n)).code,
    'invalid_request',
    'what is admitted leaves room for charges beyond what was held'
  )
  const costs = [{ attempt: 1, channel: 'azure', usage: used(0), amount: 0n, source: 'estimated' as const }]
  const endings: [Partial<Settlement>, RegExp][] = [
    [{ amount: 2n ** 63n }, /cannot be charged 9223372036854775808 nano-dollars/],
    [{ amount: -1n }, /cannot be charged -1 nano-dollars/],
    [{ costs: [{ ...costs[0]!, amount: 2n ** 63n }] }, /cannot have cost 9223372036854775808/],
    [{ costs: [{ ...costs[0]!, amount: -1n }] }, /cannot have cost -1/],
    [{ costs: [...costs, ...costs] }, /two costs for attempt 1/]
  ]
  const others = [scope('key', 'desktop')]
  for (const [ending, message] of endings) {
    const hold = reserve(store.ledger, others, 5n)
    t.throws(() => hold.settle({ usage: used(1), amount: 1n, source: 'upstream', channel: 'openai', ...ending }), {
      message
    })
    store.requests.append(record({ request_id: hold.requestId, outcome: 'failed', status: 500 }))
    t.match(store.ledger.balances({ scope: 'key:desktop' }), [{ posted: 0n, pending: 0n }], `${message}: given back`)
    t.throws(() => hold.void(), /ended already|voided already/)
  }
  const most = { version: 'most', perMillion: { output: (2n ** 63n - 1n) * 1_000_000n } }
  const last = reserve(store.ledger, others, 5n, { price: most })
  await last.void([...costs, { ...costs[0]!, attempt: 2, usage: used(1), amount: 2n ** 63n - 1n }])
  store.requests.append(record({ request_id: last.requestId, outcome: 'failed', status: 500 }))
  await whole.settle({ usage: used(1), amount: 2n ** 62n, source: 'upstream', channel: 'openai' })
  store.requests.append(record({ request_id: whole.requestId, cost_nano: String(2n ** 62n) }))
  await check()
  t.match(query(file, 'SELECT kind, count(*) AS n FROM journal GROUP BY 1 ORDER BY 1'), [
    { kind: 'cost', n: 2n },
    { kind: 'settle', n: 1n },
    { kind: 'void', n: 6n }
  ])
})

t.test('a start ends holds whose estimate no balance can carry', async (t) => {
  const { store, file, check } = await open(t)
  const dear = { version: 'dear', perMillion: { input: 2n ** 62n * 1_000_000n } }
  for (const channel of ['one', 'two', 'three'])
    reserve(store.ledger, [scope('key', 'laptop')], 7n, {
      price: dear,
      estimate: { input: 5, maxOutput: 1 }
    }).dispatched(channel)
  await check()
  const lines: [string, unknown][] = []
  const log: Logger = { ...silentLog, error: (message, fields) => void lines.push([message, fields?.['requests']]) }
  const again = await openStore({ file, durability: 'process', now: () => noon, log })
  t.same(lines, [[doubted, 3]], 'and says so')
  t.equal(again.health().recovered, 3)
  t.match(again.ledger.balances({ scope: 'key:laptop' }), [{ posted: 0n, pending: 0n }])
  await again.close()
  t.same(verify(file), [])
})

t.test('a request has one reservation, a price version one content, and an amount is not negative', async (t) => {
  const { store, check } = await open(t)
  const scopes = [scope('key', 'laptop')]
  const one = reserve(store.ledger, scopes, 5n, { requestId: 'r' })
  t.throws(() => reserve(store.ledger, scopes, 5n, { requestId: 'r' }), /r has a reservation already/)
  t.throws(() => reserve(store.ledger, scopes, -5n), /not negative/)
  t.throws(() => reserve(store.ledger, scopes, 5n, { time: 1.5 }), /whole milliseconds/)
  t.throws(
    () => reserve(store.ledger, scopes, 5n, { price: { version: price.version, perMillion: { output: 3n } } }),
    /sample:1 is .* in the ledger/
  )
  const part = reserve(store.ledger, scopes, 5n, { requestId: 'r', part: 'resp_1' })
  const ends = [
    part.settle({ usage: used(2), amount: 2n, source: 'upstream', channel: 'openai' }),
    one.settle({ usage: used(5), amount: 5n, source: 'upstream', channel: 'openai' })
  ]
  store.requests.append(record({ request_id: 'r', cost_nano: '7' }))
  await Promise.all(ends)
  t.match(store.ledger.balances(), [{ posted: 7n, pending: 0n }])
  await check()
})

t.test('what ends in the turn it began leaves no row behind, only its entry', async (t) => {
  const { store, file, check } = await open(t)
  const held: Promise<void>[] = []
  for (let i = 0; i < 50; i++) held.push(settle(store, reserve(store.ledger, [scope('key', 'laptop')], 9n), 4))
  t.equal(new Set(held).size, 1, 'one promise for the batch')
  await Promise.all(held)
  t.match(store.health(), { commits: 1, lastBatch: 150, queued: 0, healthy: true })
  await store.flush()
  t.match(query(file, 'SELECT count(*) AS n, min(reserved) AS low, max(reserved) AS high FROM journal'), [
    { n: 50n, low: 9n, high: 9n }
  ])
  t.match(query(file, 'SELECT count(*) AS n FROM reservation'), [{ n: 0n }])
  await check()
})

t.test('operations that arrive during a commit go together with the next', async (t) => {
  const { store, check } = await open(t)
  const first = settle(store, reserve(store.ledger, [scope('key', 'a')], 9n), 4)
  await new Promise((resolve) => setImmediate(resolve))
  const later: Promise<void>[] = []
  for (let i = 0; i < 20; i++) {
    later.push(settle(store, reserve(store.ledger, [scope('key', 'a')], 9n), 4))
    await Promise.resolve()
  }
  await Promise.all([first, ...later])
  t.equal(store.health().commits, 2)
  await check()
})

t.test(
  'turns of the loop that each bring several ends share a commit, and none waits for more than a few of them',
  async (t) => {
    const { store, check } = await open(t)
    const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
    const end = (): Promise<void> => settle(store, reserve(store.ledger, [scope('key', 'laptop')], 9n), 4)
    const few: Promise<void>[] = []
    for (let i = 0; i < 3; i++) {
      few.push(end(), end())
      await turn()
    }
    await Promise.all(few)
    t.equal(store.health().commits, 1)
    let durable = false
    let turns = 0
    void end().then(() => (durable = true))
    const many: Promise<void>[] = []
    for (; !durable && turns < 100_000; turns++) {
      // The write itself takes turns as well; it begins while there is no end of what comes.
      if (store.health().queued < 5000) many.push(end(), end())
      await turn()
    }
    t.ok(durable, `on disk after ${turns} turns`)
    await Promise.all(many)
    await check()
  }
)

t.test('a hold that nobody waits for is not written with what leaves at once, and is soon when it lasts', async (t) => {
  const { store, file, check } = await open(t)
  const scopes = [scope('key', 'laptop')]
  // A machine that stands still for some milliseconds in between makes it an old one.
  let left = false
  for (let tries = 0; !left && tries < 100; tries++) {
    const short = reserve(store.ledger, scopes, 9n)
    await settle(store, reserve(store.ledger, scopes, 9n), 4)
    left = store.health().lastBatch === 3
    await settle(store, short, 4)
  }
  t.ok(left, 'it ended before it had a row')
  const long = reserve(store.ledger, scopes, 9n)
  await settle(store, reserve(store.ledger, scopes, 9n), 4)
  const asked = reserve(store.ledger, scopes, 9n)
  await asked.durable
  while (store.health().queued > 0) await new Promise((resolve) => setImmediate(resolve))
  await store.flush()
  t.match(query(file, 'SELECT count(*) AS n FROM reservation'), [{ n: 2n }])
  await Promise.all([settle(store, long, 4), settle(store, asked, 4)])
  await check()
})

t.test('a hold that nobody waits for gets its row in the end, however much leaves before it', async (t) => {
  const { store, file, check } = await open(t)
  const scopes = [scope('key', 'laptop')]
  const odd = { input: 1.5, maxOutput: NaN, pieces: { character: 2.5, image: -1 } }
  const long = reserve(store.ledger, scopes, 9n, { estimate: odd })
  const rows = (): Record<string, unknown>[] =>
    query(file, 'SELECT request_id, input_units, max_out, pieces FROM reservation')
  while (rows().length === 0) await settle(store, reserve(store.ledger, scopes, 9n), 4)
  t.match(
    rows(),
    [{ request_id: long.requestId, input_units: 2n, max_out: 0n, pieces: '{"character":3,"image":0}' }],
    'with counts that a column takes'
  )
  await long.durable
  await settle(store, long, 4)
  await check()
})

t.test('how far a stream has come is written without being asked for', async (t) => {
  const { store, file, check } = await open(t)
  const reservation = reserve(store.ledger, [scope('key', 'laptop')], 90n)
  await reservation.durable
  reservation.dispatched('openai')
  reservation.delivered(17)
  await reservation.durable
  const hold = (): Record<string, unknown> | undefined =>
    query(file, 'SELECT dispatched, channel, delivered_units AS units FROM reservation')[0]
  await settle(store, reserve(store.ledger, [scope('key', 'laptop')], 1n), 1)
  await store.flush()
  t.match(hold(), { dispatched: 1n, channel: 'openai', units: 17n })
  reservation.delivered(23)
  const { applies } = store.health()
  while (store.health().applies === applies) await sleep(20)
  t.match(hold(), { units: 23n })
  await settle(store, reservation, 30)
  await store.flush()
  t.equal(hold(), undefined)
  await check()
})

t.test('how far a hold has come that ended is not written to the one that has its place', async (t) => {
  const { store, file, check } = await open(t)
  const scopes = [scope('key', 'laptop')]
  const before = reserve(store.ledger, scopes, 9n)
  await before.durable
  await store.flush()
  before.dispatched('openai')
  before.delivered(17)
  const ended = settle(store, before, 4)
  const next = reserve(store.ledger, scopes, 9n)
  await Promise.all([ended, next.durable])
  await store.flush()
  const rows = (): Record<string, unknown>[] =>
    query(file, 'SELECT request_id, dispatched, channel, delivered_units AS units FROM reservation')
  const fresh = { request_id: next.requestId, dispatched: 0n, channel: null, units: 0n }
  t.match(rows(), [fresh])
  before.delivered(23)
  await settle(store, reserve(store.ledger, scopes, 1n), 1)
  await store.flush()
  t.match(rows(), [fresh])
  await giveBack(store, next)
  await check()
})

t.test('after the store is closed nothing is taken and nothing is acknowledged', async (t) => {
  const { store, file, check } = await open(t)
  const scopes = [scope('key', 'laptop')]
  const late = reserve(store.ledger, scopes, 9n)
  await late.durable
  await check()
  t.equal(refusal(() => reserve(store.ledger, scopes, 1n)).code, 'billing_unavailable')
  await t.rejects(settle(store, late, 4), { code: 'billing_unavailable' })
  const again = await openStore({ file, durability: 'process' })
  t.equal(again.health().recovered, 1, 'what was open is ended at the next start')
  await again.close()
})

t.test('any sequence of operations leaves what a simple model says', async (t) => {
  const { store, check } = await open(t)
  const kinds = ['tenant', 'project', 'key'] as const
  const operation = fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({
        do: fc.constant('reserve' as const),
        tree: fc.nat(2),
        amount: fc.bigInt(0n, 60n),
        day: fc.nat(2)
      })
    },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('settle' as const), which: fc.nat(), output: fc.nat(80) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('void' as const), which: fc.nat() }) },
    { weight: 1, arbitrary: fc.constant({ do: 'wait' as const }) }
  )
  let run = 0
  await fc.assert(
    fc.asyncProperty(
      fc.array(operation, { maxLength: 60 }),
      fc.array(fc.bigInt(0n, 200n), { minLength: 9, maxLength: 9 }),
      async (operations, limits) => {
        run++
        const trees = [0, 1, 2].map((tree) =>
          kinds.map((kind, i) =>
            scope(
              kind,
              [`${run}-0`, `${run}-0/${tree % 2}`, `${run}-${tree}`][i]!,
              limits[i === 0 ? 0 : i === 1 ? 1 + (tree % 2) : 3 + tree]!,
              i === 0 ? 'month' : i === 1 ? 'total' : 'day'
            )
          )
        )
        const model = new Map<string, { limit: bigint; posted: bigint; pending: bigint }>()
        const balancesOf = (tree: number, day: number): { limit: bigint; posted: bigint; pending: bigint }[] =>
          trees[tree]!.map(({ id, budgets: [budget] }) => {
            const name = `${id} ${budget!.per === 'day' ? day : ''}`
            if (!model.has(name)) model.set(name, { limit: budget!.limit, posted: 0n, pending: 0n })
            return model.get(name)!
          })
        const open: { reservation: ReturnType<typeof reserve>; balances: { posted: bigint; pending: bigint }[] }[] = []
        const end = (which: number): (typeof open)[number] | undefined =>
          open.length === 0 ? undefined : open.splice(which % open.length, 1)[0]
        for (const step of operations) {
          if (step.do === 'reserve') {
            const balances = balancesOf(step.tree, step.day)
            const fits =
              step.amount === 0n ||
              balances.every(({ limit, posted, pending }) => posted + pending + step.amount <= limit)
            let reservation: ReturnType<typeof reserve> | undefined
            try {
              reservation = reserve(store.ledger, trees[step.tree]!, step.amount, {
                time: noon + step.day * 86_400_000
              })
            } catch (error) {
              if (!(error instanceof GatewayError)) throw error
            }
            if (fits !== (reservation !== undefined))
              throw new Error(`admitted: ${reservation !== undefined}, model: ${fits}`)
            if (!reservation) continue
            for (const balance of balances) balance.pending += step.amount
            open.push({ reservation, balances })
          } else if (step.do === 'wait') {
            await open.at(-1)?.reservation.durable
          } else {
            const ended = end(step.which)
            if (!ended) continue
            const charge = step.do === 'settle' ? step.output : 0
            void (step.do === 'settle' ? settle(store, ended.reservation, charge) : giveBack(store, ended.reservation))
            for (const balance of ended.balances) {
              balance.pending -= ended.reservation.amount
              balance.posted += BigInt(charge)
            }
          }
        }
        for (const [tree, scopes] of trees.entries()) {
          for (let day = 0; day < 3; day++) {
            const left = balancesOf(tree, day).map(({ limit, posted, pending }) => limit - posted - pending)
            const least = left.reduce((a, b) => (b < a ? b : a))
            const found = store.ledger.affordable(scopes, noon + day * 86_400_000)
            if (found !== (least < 0n ? 0n : least)) throw new Error(`left: ${found}, model: ${least}`)
          }
        }
        for (const { reservation } of open) void giveBack(store, reservation)
      }
    ),
    { numRuns: 300 }
  )
  await check()
})

t.test('a budget in total is for ever: no month gives it back, nor does a start', async (t) => {
  const { store, file, check } = await open(t)
  const scopes = [scope('tenant', 'acme', 1000n, 'month'), scope('key', 'k', 1000n, 'total')]
  const at = (month: number): number => Date.UTC(2026, 10 + month, 21)
  const spend = async (of: OwnStore, month: number, amount: number): Promise<void> =>
    settle(of, reserve(of.ledger, scopes, BigInt(amount), { time: at(month) }), amount)
  for (let month = 0; month < 3; month++) await spend(store, month, 300)
  t.match(
    refusal(() => reserve(store.ledger, scopes, 101n, { time: at(3) })),
    { code: 'quota_key_exceeded' }
  )
  t.equal(store.ledger.affordable(scopes, at(3)), 100n)
  await check()
  const again = await openStore({ file, durability: 'process', now: () => at(5) })
  t.teardown(() => again.close())
  t.equal(again.ledger.affordable(scopes, at(5)), 100n, 'after a start, too')
  t.match(
    refusal(() => reserve(again.ledger, scopes, 101n, { time: at(5) })),
    { code: 'quota_key_exceeded' }
  )
  await spend(again, 5, 100)
  t.equal(again.ledger.affordable(scopes, at(6)), 0n)
})
