// What every ledger promises: all or nothing, one end for each hold, and never more than a budget.
import t from 'tap'
import type { Scope } from '../../../../core/catalogue/caller.ts'
import { GatewayError } from '../../../../core/errors.ts'
import type { Balance, Ledger, Reservation, Settlement } from '../../../../core/store/ledger.ts'
import { eachStore } from '../../../kit/stores.ts'
import { noon, price, scope, used } from '../embedded/sample.ts'

let made = 0

async function reserve(ledger: Ledger, scopes: readonly Scope[], amount: bigint, time = noon): Promise<Reservation> {
  return ledger.reserve({
    requestId: `request ${++made}`,
    scopes,
    amount,
    model: 'gpt-5',
    price,
    estimate: { input: 10, maxOutput: 100 },
    time
  })
}

function charge(amount: number): Settlement {
  return { usage: used(amount), amount: BigInt(amount), source: 'upstream', channel: 'openai' }
}

async function refusal(run: Promise<unknown>): Promise<GatewayError> {
  try {
    await run
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
  throw new Error('it was not refused')
}

async function sums(ledger: Ledger, id: string): Promise<string[]> {
  const all = await ledger.balances({ scope: id })
  return all.map(({ window, posted, pending }: Balance) => `${window}: ${posted} and ${pending} held`)
}

const now = (): number => noon

eachStore(
  t,
  ['ledger'],
  'a hold counts at once, its end gives back what it did not cost',
  async (t, { services: { ledger } }) => {
    const scopes = [scope('tenant', 'acme', 1000n, 'month'), scope('key', 'laptop')]
    const hold = await reserve(ledger, scopes, 300n)
    t.same(await sums(ledger, 'tenant:acme'), ['2026-11: 0 and 300 held', 'total: 0 and 300 held'])
    t.equal(await ledger.affordable(scopes, noon), 700n)
    t.equal(await ledger.affordable([scopes[1]!], noon), undefined, 'nothing limits a key without a budget')
    await hold.durable
    hold.dispatched('openai')
    hold.delivered(5)
    await hold.settle(charge(120))
    t.equal(await ledger.affordable(scopes, noon), 880n)
    t.same(await sums(ledger, 'tenant:acme'), ['2026-11: 120 and 0 held', 'total: 120 and 0 held'])
    t.same([...(await ledger.scopes())].sort(), ['key:laptop', 'tenant:acme'])
    t.match(await ledger.standings(scopes, noon), [
      {
        scope: 'tenant:acme',
        per: 'month',
        limit_nano: '1000',
        posted_nano: '120',
        pending_nano: '0',
        left_nano: '880'
      }
    ])
  },
  now
)

eachStore(
  t,
  ['ledger'],
  'a refusal names the budget, and holds nothing anywhere',
  async (t, { services: { ledger } }) => {
    const scopes = [scope('tenant', 'acme', 1000n, 'month'), scope('key', 'laptop', 100n)]
    const { code, details } = await refusal(reserve(ledger, scopes, 101n))
    t.equal(code, 'quota_key_exceeded')
    t.match(details.reason, { by: 'budget', scope: 'key:laptop', asked_nano: '101', left_nano: '100' })
    t.equal(await ledger.affordable([scopes[0]!], noon), 1000n)
    t.equal((await refusal(reserve(ledger, scopes, 1001n))).code, 'quota_tenant_exceeded', 'the outermost')
    await (await reserve(ledger, scopes, 100n)).void()
    t.equal(await ledger.affordable(scopes, noon), 100n)
  },
  now
)

eachStore(
  t,
  ['ledger'],
  'of many that come at once exactly those are admitted that the budget carries',
  async (t, { services: { ledger } }) => {
    const scopes = [scope('tenant', 'acme', 500n, 'month'), scope('key', 'laptop', 10_000n)]
    const asked = await Promise.allSettled(Array.from({ length: 200 }, () => reserve(ledger, scopes, 10n)))
    const admitted = asked.flatMap((one) => (one.status === 'fulfilled' ? one.value : []))
    t.equal(admitted.length, 50)
    for (const one of asked) if (one.status === 'rejected') t.match(one.reason, { code: 'quota_tenant_exceeded' })
    await Promise.all(admitted.map((hold, i) => (i % 2 ? hold.void() : hold.settle(charge(4)))))
    t.same(await sums(ledger, 'key:laptop'), ['total: 100 and 0 held'])
  },
  now
)

eachStore(
  t,
  ['ledger'],
  'a hold ends once, whichever way',
  async (t, { services: { ledger } }) => {
    const scopes = [scope('key', 'laptop', 100n)]
    for (const end of [(hold: Reservation) => hold.settle(charge(7)), (hold: Reservation) => hold.void()]) {
      const hold = await reserve(ledger, scopes, 10n)
      await end(hold)
      await t.rejects(async () => hold.void())
      await t.rejects(async () => hold.settle(charge(7)))
      t.throws(() => hold.dispatched('openai'), 'an upstream must not bill what has ended')
    }
    t.same(await sums(ledger, 'key:laptop'), ['total: 7 and 0 held'])
  },
  now
)

eachStore(
  t,
  ['ledger'],
  'the true amount is posted when it is more than was held, and then nothing more is admitted',
  async (t, { services: { ledger } }) => {
    const scopes = [scope('key', 'laptop', 100n)]
    const hold = await reserve(ledger, scopes, 100n)
    await hold.settle(charge(130))
    t.same(await sums(ledger, 'key:laptop'), ['total: 130 and 0 held'])
    t.equal(await ledger.affordable(scopes, noon), 0n)
    t.equal((await refusal(reserve(ledger, scopes, 1n))).code, 'quota_key_exceeded')
    await (await reserve(ledger, scopes, 0n)).void()
  },
  now
)

eachStore(
  t,
  ['ledger'],
  'a charge is at the price of the model that was asked last',
  async (t, { services: { ledger } }) => {
    const hold = await reserve(ledger, [scope('key', 'laptop')], 100n)
    t.equal(hold.price.version, price.version)
    const other = { version: 'other:1', perMillion: { output: 2_000_000n } }
    hold.dispatched('second', { model: 'small', price: other })
    t.equal(hold.price.version, 'other:1')
    await hold.settle({ ...charge(40), usage: used(20) })
    t.same(await sums(ledger, 'key:laptop'), ['total: 40 and 0 held'])
  },
  now
)

eachStore(
  t,
  ['ledger'],
  'a budget belongs to the window of its request, also when it is settled later',
  async (t, { services: { ledger } }) => {
    const scopes = [scope('key', 'laptop', 100n, 'day')]
    const tomorrow = noon + 86_400_000
    const late = await reserve(ledger, scopes, 100n)
    const next = await reserve(ledger, scopes, 60n, tomorrow)
    t.equal(await ledger.affordable(scopes, tomorrow), 40n)
    t.equal((await refusal(reserve(ledger, scopes, 1n))).code, 'quota_key_exceeded')
    await late.settle(charge(70))
    await next.settle(charge(50))
    t.same([await ledger.affordable(scopes, noon), await ledger.affordable(scopes, tomorrow)], [30n, 50n])
  },
  now
)

eachStore(
  t,
  ['ledger'],
  'an amount that no balance can have is refused, and holds nobody else up',
  async (t, { services: { ledger } }) => {
    const free = [scope('key', 'laptop')]
    const limited = [scope('tenant', 'acme', 1000n, 'month'), scope('key', 'desktop')]
    for (const amount of [2n ** 62n + 1n, 2n ** 63n, 2n ** 80n]) {
      const [huge, other, small] = await Promise.allSettled([
        reserve(ledger, free, amount),
        reserve(ledger, limited, amount),
        reserve(ledger, free, 5n)
      ])
      t.match(
        [huge.status === 'rejected' && huge.reason, other.status === 'rejected' && other.reason],
        [{ code: 'invalid_request', message: /more than can be accounted for/ }, { code: 'quota_tenant_exceeded' }]
      )
      if (small.status === 'fulfilled') await small.value.void()
      t.equal(small.status, 'fulfilled')
    }
    t.same(await sums(ledger, 'key:laptop'), ['total: 0 and 0 held'])
  },
  now
)
