// Holds, from their beginning to their end: what the store has of them, row by row and column by column, against an
// oracle; and which of them wait for a timer.
import { join } from 'node:path'
import { mock } from 'node:test'
import fc from 'fast-check'
import t from 'tap'
import type { Scope } from '../../../../core/catalogue/caller.ts'
import type { Price } from '../../../../core/money/price.ts'
import { incredible } from '../../../../core/money/settlement.ts'
import type { Usage } from '../../../../core/money/usage.ts'
import type { AttemptCost, Reservation, ReserveRequest } from '../../../../core/store/ledger.ts'
import { openStore } from '../../../../core/store/embedded/store.ts'
import type { OwnStore } from '../../../../core/store/embedded/store.ts'
import { collectGarbage } from '../../../kit/probe.ts'
import { noon, query, reserve, scope, used } from './sample.ts'

/** How many schedules are run. */
const runs = 40
const until = noon + 86_400_000

/** Nano-dollars for a token of output; with a fixed amount for a call where one is given. */
const rate = (version: string, output: bigint, request?: bigint): Price => ({
  version,
  perMillion: { output: output * 1_000_000n, ...(request !== undefined && { request: request * 1_000_000n }) }
})
const prices = [rate('sold:1', 1n), rate('sold:2', 3n)] as const
/** What upstreams charge, by channel. */
const owns: Readonly<Record<string, Price>> = {
  a: rate('a:1', 2n),
  called: rate('called:1', 1n, 7n),
  dear: rate('dear:1', incredible / 4n),
  free: rate('free:1', 0n)
}
const lists: readonly (readonly Scope[])[] = [
  [scope('tenant', 'acme'), scope('key', 'laptop')],
  [
    { ...scope('tenant', 'acme'), tags: { team: 'a', site: 'x' } },
    { ...scope('key', 'other'), tags: { team: 'b' } }
  ],
  [scope('tenant', 'blue', 10_000n, 'month'), scope('project', 'blue/app'), scope('key', 'third', 10_000n, 'day')]
]
const tags = [null, '{"site":"x","team":"b"}', null]
const scopes = [
  '{"tenant:acme":"total","key:laptop":"total"}',
  '{"tenant:acme":"total","key:other":"total"}',
  '{"tenant:blue":"month","project:blue/app":"total","key:third":"day"}'
]

/** A count that a column takes. */
const whole = (units: number): bigint =>
  Number.isNaN(units) || units < 0 ? 0n : units > Number.MAX_SAFE_INTEGER ? 2n ** 53n - 1n : BigInt(Math.ceil(units))

interface Begin {
  list: number
  amount: bigint
  price: number
  costs: readonly string[] | undefined
  estimate: ReserveRequest['estimate']
  /** Absent members are left out of the request. */
  more: Pick<ReserveRequest, 'part' | 'endpoint' | 'clientProtocol' | 'streamed'>
  time: number
}

/** A hold, by what was asked of it. */
interface Kept extends Begin {
  requestId: string
  reservation: Reservation
  channel: string | null
  delivered: number
  lease: number | null
  /** Since an earlier start: it knows what the channel charges that it was sent to, and no other. */
  resumed: boolean
  end: 'settled' | 'voided' | undefined
}

const odd = [0, 3, 7.2, 500, NaN, -4, 2 ** 60, Infinity]
const begin = fc.record<Begin>({
  list: fc.nat(2),
  amount: fc.bigInt(0n, 60n),
  price: fc.nat(1),
  costs: fc.constantFrom(undefined, [], ['a'], ['a', 'called', 'dear', 'free']),
  estimate: fc.record(
    {
      input: fc.constantFrom(...odd),
      maxOutput: fc.constantFrom(...odd),
      pieces: fc.constantFrom({ character: 2.5, image: -1 }, {})
    },
    { requiredKeys: ['input', 'maxOutput'] }
  ),
  more: fc.record(
    {
      part: fc.constantFrom('', 'one', 'two'),
      endpoint: fc.constantFrom('chat', 'realtime'),
      clientProtocol: fc.constant('openai-chat'),
      streamed: fc.boolean()
    },
    { requiredKeys: [] }
  ),
  time: fc.constantFrom(noon, noon + 1)
})
const channel = fc.constantFrom('a', 'called', 'dear', 'free', 'elsewhere')
const attempt = fc.record({
  attempt: fc.nat(3),
  channel,
  output: fc.nat(9),
  amount: fc.constantFrom(0n, 5n, 2n ** 63n - 1n, 2n ** 63n, -1n),
  costPrice: fc.constantFrom(undefined, 'a:1', 'never:1')
})
/** Mostly attempts that can be written. */
const attempts = fc.oneof(
  fc.constant(undefined),
  fc.array(
    attempt.map((one) => ({ ...one, amount: 5n })),
    { maxLength: 2 }
  ),
  fc.uniqueArray(
    attempt.map((one) => ({ ...one, amount: one.amount < 0n ? 0n : one.amount })),
    {
      selector: (one) => one.attempt,
      maxLength: 3
    }
  ),
  fc.array(attempt, { maxLength: 3 })
)
const charge = fc.record({
  do: fc.constant('settle' as const),
  which: fc.nat(),
  amount: fc.constantFrom(0n, 7n, 100n, 100n, -1n, 2n ** 63n),
  output: fc.constantFrom(0, 1, 4, 5),
  channel,
  attempts
})
const step = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant('begin' as const), begin }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('dispatch' as const), which: fc.nat(), channel }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('deliver' as const), which: fc.nat(), units: fc.constantFrom(...odd) })
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('detach' as const),
      which: fc.nat(),
      until: fc.constantFrom(until, until + 5, NaN)
    })
  },
  { weight: 2, arbitrary: charge },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('void' as const), which: fc.nat(), attempts }) },
  { weight: 2, arbitrary: fc.constant({ do: 'flush' as const }) },
  { weight: 1, arbitrary: fc.constant({ do: 'start' as const }) }
)
type Attempts = typeof attempts extends fc.Arbitrary<infer T> ? T : never

/** The price of what a channel charges, as far as a hold knows it. */
function ownOf({ costs, resumed, channel }: Kept, asked: string | null): Price | undefined {
  if (asked === null || !costs?.includes(asked) || (resumed && asked !== channel)) return undefined
  return owns[asked]
}

/**
 * What an operator pays for output and for `calls` at a price: nothing is known where there is no price, or the amount
 * cannot be true.
 */
function costOf(
  output: number,
  calls: bigint,
  price: Price | undefined
): { cost: bigint | null; cost_price: string | null } {
  if (!price) return { cost: null, cost_price: null }
  const cost = (BigInt(output) * price.perMillion.output! + calls * (price.perMillion.request ?? 0n)) / 1_000_000n
  return cost > 10n ** 15n ? { cost: null, cost_price: null } : { cost, cost_price: price.version }
}

/** The row of an open hold. */
function rowOf(kept: Kept): object {
  const { requestId, list, amount, price, estimate, more, time, lease, delivered, channel } = kept
  const pieces = estimate.pieces && (estimate.pieces.character === undefined ? '{}' : '{"character":3,"image":0}')
  return {
    request_id: requestId,
    part: more.part ?? '',
    scopes: scopes[list],
    amount,
    model: 'gpt-5',
    price_version: prices[price]!.version,
    input_units: whole(estimate.input),
    max_out: whole(estimate.maxOutput),
    dispatched: channel === null ? 0n : 1n,
    channel,
    delivered_units: whole(delivered),
    endpoint: more.endpoint ?? null,
    client_protocol: more.clientProtocol ?? null,
    streamed: more.streamed ? 1n : 0n,
    ts_ms: BigInt(time),
    lease_until: lease === null ? null : BigInt(lease),
    pieces: pieces ?? null,
    tags: tags[list],
    cost_price: ownOf(kept, channel)?.version ?? null
  }
}

const textOf = (usage: Usage): string => JSON.stringify(usage)

/** The rows that the end of a hold adds to the journal. */
function entriesOf(
  kept: Kept,
  end: { amount: bigint; output: number; channel: string } | undefined,
  attempts: Attempts
): object[] {
  const { requestId, list, price, more, time, amount } = kept
  const same = {
    request_id: requestId,
    part: more.part ?? '',
    scopes: scopes[list],
    model: 'gpt-5',
    price_version: prices[price]!.version,
    ts_ms: BigInt(time),
    tags: tags[list]
  }
  const failed = (attempts ?? []).map((one) => ({
    ...same,
    kind: 'cost',
    class: `cost:${one.attempt}`,
    amount: one.amount,
    reserved: 0n,
    usage_json: textOf(used(one.output)),
    channel: one.channel,
    source: 'partial',
    // Who tells of a failed attempt counts its call, where there is one to pay for.
    ...costOf(
      one.output,
      0n,
      ownOf(kept, one.channel) ?? Object.values(owns).find((own) => own.version === one.costPrice)
    )
  }))
  const own = end && ownOf(kept, end.channel)
  const last = end
    ? {
        kind: 'settle',
        amount: end.amount,
        usage_json: textOf({ ...used(end.output), ...(own?.perMillion.request !== undefined && { request: 1 }) }),
        channel: end.channel,
        source: 'upstream',
        ...costOf(end.output, 1n, own)
      }
    : { kind: 'void', amount: 0n, usage_json: null, channel: kept.channel, source: null, ...costOf(0, 0n, undefined) }
  return [...failed, { ...same, class: 'terminal', reserved: amount, ...last }]
}

/** Compares rows, and names the first that differs. */
function same(found: readonly object[], expected: readonly object[], about: string): void {
  const text = (row: object | undefined): string =>
    JSON.stringify(
      Object.entries(row ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)),
      (_, member) => (typeof member === 'bigint' ? `${member}n` : member)
    )
  for (let at = 0; at < Math.max(found.length, expected.length); at++) {
    const [one, other] = [text(found[at]), text(expected[at])]
    if (one !== other) throw new Error(`${about}, row ${at}: ${one} in the place of ${other}`)
  }
}

function thrown(run: () => unknown): Error | undefined {
  try {
    run()
  } catch (error) {
    return error as Error
  }
  return undefined
}

t.setTimeout(600_000)

t.test(`${runs} schedules leave the rows and entries of a simple model, over starts too`, async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const start = (): Promise<OwnStore> => openStore({ file, durability: 'process', now: () => noon })
  let store = await start()
  t.teardown(() => store.close())
  // From now on the store knows all prices.
  const costs = new Map(Object.entries(owns))
  await reserve(store.ledger, [scope('key', 'none')], 0n, { requestId: 'none', costs }).detach(until)
  let open: Kept[] = []
  const journal: object[] = []
  /** What was charged to the first tenant. */
  let posted = 0n
  let ids = 0
  const own =
    'kind, request_id, part, class, scopes, amount, reserved, usage_json, model, channel, price_version, source, ts_ms, tags, cost, cost_price'
  const check = async (): Promise<void> => {
    await store.flush()
    const { failures, lastError } = store.health()
    if (failures > 0) throw new Error(`what was written was refused: ${lastError}`)
    const rows = query(file, "SELECT * FROM reservation WHERE request_id <> 'none' ORDER BY request_id, part")
    for (const row of rows) for (const name of ['id', 'boot_id']) delete row[name]
    const order = (kept: Kept): string => `${kept.requestId} ${kept.more.part ?? ''}`
    same(rows, open.toSorted((a, b) => (order(a) < order(b) ? -1 : 1)).map(rowOf), 'holds')
    same(query(file, `SELECT ${own} FROM journal ORDER BY seq DESC LIMIT 60`).reverse(), journal.slice(-60), 'journal')
    const pending = open.filter(({ list }) => list < 2).reduce((sum, { amount }) => sum + amount, 0n)
    const balances = store.ledger.balances({ scope: 'tenant:acme' })
    const sums = balances.reduce((sum, balance) => [sum[0]! + balance.posted, sum[1]! + balance.pending], [0n, 0n])
    if (String(sums) !== String([posted, pending]))
      throw new Error(`balances: ${sums} in the place of ${[posted, pending]}`)
  }
  const end = (
    kept: Kept,
    settled: boolean,
    run: () => Promise<void>,
    good: { amount: bigint; output: number; channel: string } | undefined,
    attempts: Attempts
  ): void => {
    const bad =
      (good && (good.amount < 0n || good.amount >= 2n ** 63n)) ||
      (attempts ?? []).some(({ amount }) => amount < 0n || amount >= 2n ** 63n) ||
      new Set((attempts ?? []).map(({ attempt }) => attempt)).size < (attempts ?? []).length
    const error = thrown(() => void run().catch(() => {}))
    if (bad !== (error !== undefined)) throw new Error(`the end of ${kept.requestId}: ${error}`)
    if (error && !/given back what it held/.test(error.message)) throw error
    kept.end = settled && !bad ? 'settled' : 'voided'
    if (kept.list < 2 && good && !bad) posted += good.amount
    open = open.filter((one) => one !== kept)
    journal.push(...(bad ? entriesOf(kept, undefined, undefined) : entriesOf(kept, good, attempts)))
    // Whatever comes after the end is refused, but for what was delivered, which may be told late.
    const over = new RegExp(`^${kept.requestId} was ${kept.end} already`)
    const late = [
      () => kept.reservation.dispatched('a'),
      () => kept.reservation.detach(until),
      () => kept.reservation.void()
    ]
    for (const call of late) {
      const error = thrown(call)
      if (!error || !over.test(error.message)) throw new Error(`${kept.requestId} after its end: ${error}`)
    }
    kept.reservation.delivered(99)
  }
  const costsOf = (attempts: Attempts): readonly AttemptCost[] | undefined =>
    attempts?.map(({ output, costPrice, ...one }) => ({
      ...one,
      usage: used(output),
      source: 'partial',
      ...(costPrice && { costPrice })
    }))
  const property = fc.asyncProperty(fc.array(step, { maxLength: 60, size: 'max' }), async (steps) => {
    const of = (which: number): Kept | undefined => open[which % Math.max(open.length, 1)]
    for (const step of steps) {
      if (step.do === 'flush') await check()
      else if (step.do === 'begin') {
        const { begin } = step
        // Parts of one request, now and then.
        const requestId = begin.more.part && open.length > 0 ? open.at(-1)!.requestId : `r${ids++}`
        const request = {
          requestId,
          price: prices[begin.price]!,
          time: begin.time,
          estimate: begin.estimate,
          ...begin.more,
          ...(begin.costs && { costs: new Map(begin.costs.map((name) => [name, owns[name]!])) })
        }
        const taken =
          open.some((kept) => kept.requestId === requestId && (kept.more.part ?? '') === (begin.more.part ?? '')) ||
          journal.some((row: any) => row.request_id === requestId && row.part === (begin.more.part ?? ''))
        if (taken) continue
        const reservation = reserve(store.ledger, lists[begin.list]!, begin.amount, request)
        open.push({
          ...begin,
          requestId,
          reservation,
          channel: null,
          delivered: 0,
          lease: null,
          resumed: false,
          end: undefined
        })
        if (!/already/.test(String(thrown(() => reserve(store.ledger, lists[0]!, 0n, request)))))
          throw new Error(`${requestId} began twice`)
      } else if (step.do === 'start') {
        for (const kept of open.filter(({ lease }) => lease === null))
          end(kept, false, () => kept.reservation.void(), undefined, undefined)
        await check()
        await store.close()
        store = await start()
        open = open.map((kept) => {
          const reservation = store.ledger.detached(kept.requestId, kept.more.part)!
          const { input, maxOutput, pieces } = kept.estimate
          const delivered = [whole(kept.delivered), whole(maxOutput)].sort((a, b) => (a < b ? -1 : 1))[0]!
          const counted = pieces?.character === undefined ? {} : { character: 3, image: 0 }
          const sent =
            kept.channel === null
              ? {}
              : {
                  channel: kept.channel,
                  usage: { ...used(Number(delivered), Number(whole(input))), ...counted },
                  delivered: whole(kept.delivered) > 0n
                }
          same([reservation.sent ?? {}], [sent], `how far ${kept.requestId} was`)
          const { amount, price } = reservation
          same([{ amount, ...price }], [{ amount: kept.amount, ...prices[kept.price] }], kept.requestId)
          return { ...kept, reservation, resumed: true }
        })
        await check()
      } else {
        const kept = of(step.which)
        if (!kept) continue
        const { reservation } = kept
        if (step.do === 'dispatch' && !kept.resumed) {
          reservation.dispatched(step.channel)
          kept.channel = step.channel
        } else if (step.do === 'deliver' && !kept.resumed) {
          reservation.delivered(step.units)
          kept.delivered = step.units
        } else if (step.do === 'detach') {
          const error = thrown(() => void reservation.detach(step.until))
          if (Number.isNaN(step.until) !== error instanceof RangeError)
            throw new Error(`detached until ${step.until}: ${error}`)
          if (!error) kept.lease = step.until
          if ((store.ledger.detached(kept.requestId, kept.more.part) === reservation) !== (kept.lease !== null))
            throw new Error(`${kept.requestId} is found`)
        } else if (step.do === 'settle') {
          const { amount, output, channel, attempts } = step
          const costs = costsOf(attempts)
          const settlement = {
            usage: used(output),
            amount,
            source: 'upstream',
            channel,
            ...(costs && { costs })
          } as const
          end(kept, true, () => reservation.settle(settlement), { amount, output, channel }, attempts)
        } else if (step.do === 'void')
          end(kept, false, () => reservation.void(costsOf(step.attempts)), undefined, step.attempts)
      }
    }
    await check()
    for (const kept of open) end(kept, false, () => kept.reservation.void(), undefined, undefined)
  })
  await fc.assert(property, { numRuns: runs, endOnFailure: true })
})

t.test('what somebody waits for goes to the disk without a timer, and what nobody waits for with one', async (t) => {
  const store = await openStore({ file: join(t.testdir(), 'sluice.db'), durability: 'process', now: () => noon })
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(async () => {
    mock.timers.reset()
    await store.close()
  })
  const turns = async (many: number): Promise<void> => {
    for (let n = 0; n < many; n++) await new Promise((resolve) => setImmediate(resolve))
  }
  let before = store.health().commits
  /** Whether something goes to the disk by itself; else the timer of so many milliseconds sends it. */
  const sent = async (name: string, run: () => unknown, ms?: number): Promise<void> => {
    run()
    if (ms !== undefined) {
      await turns(200)
      t.equal(store.health().commits, before, `${name}, and nobody waits`)
      mock.timers.tick(ms)
    }
    while (store.health().commits === before) await turns(1)
    // The timers of what was written before are over.
    mock.timers.tick(0)
    before = store.health().commits
    t.pass(name)
  }
  let hold!: Reservation
  await sent('a hold', () => (hold = reserve(store.ledger, lists[0]!, 9n)), 5)
  await sent('how much was delivered', () => hold.delivered(5), 250)
  await sent('an upstream is asked', () => hold.dispatched('a'))
  await sent('an upstream is asked once more', () => hold.dispatched('b'))
  await sent('a lease', () => hold.detach(until))
  await sent('a charge', () => hold.settle({ usage: used(1), amount: 1n, source: 'upstream', channel: 'a' }))
  await sent('a hold that is waited for', () => (hold = reserve(store.ledger, lists[0]!, 9n)).durable)
  await sent('a hold that is given back', () => hold.void())
  const whole = (): void => {
    hold = reserve(store.ledger, lists[0]!, 9n)
    hold.dispatched('a')
    hold.delivered(5)
  }
  await sent('a hold with all that happened before it has a row', whole, 5)
  t.equal(store.health().lastBatch, 1, 'which is no operation of its own')
  const often = (): void => {
    for (let units = 6; units < 20; units++) hold.delivered(units)
  }
  await sent('what is delivered again and again', often, 250)
  t.equal(store.health().lastBatch, 1, 'is written once')
})

t.test('a hold gets its row without a timer too, when others come and go for longer than it may wait', async (t) => {
  const store = await openStore({ file: join(t.testdir(), 'sluice.db'), durability: 'process', now: () => noon })
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(async () => {
    mock.timers.reset()
    await store.close()
  })
  const old = reserve(store.ledger, lists[0]!, 9n)
  const began = performance.now()
  let rounds = 0
  for (; store.health().queued > 0 && performance.now() - began < 20_000; rounds++)
    await reserve(store.ledger, lists[0]!, 9n).void()
  t.equal(store.health().queued, 0, `after ${rounds} others`)
  await old.void()
})

t.test('a hold that has ended is let go', async (t) => {
  const store = await openStore({ file: join(t.testdir(), 'sluice.db'), durability: 'process', now: () => noon })
  t.teardown(() => store.close())
  const begin = (part: string): Reservation => reserve(store.ledger, lists[0]!, 9n, { part })
  const references = ['', 'one'].map((part) => new WeakRef(begin(part)))
  await Promise.all(references.map((reference) => reference.deref()!.void()))
  await store.flush()
  await new Promise((resolve) => setImmediate(resolve))
  collectGarbage()
  t.same(
    references.map((reference) => reference.deref()),
    [undefined, undefined]
  )
})
