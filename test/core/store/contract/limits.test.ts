// What every limiter promises: all limits of a request in one step, slots that come back, tokens that are corrected.
import t from 'tap'
import type { LimitSet, Rates } from '../../../../core/catalogue/caller.ts'
import type { Decision, Lease, Limits } from '../../../../core/store/limits.ts'
import { eachStore } from '../../../kit/stores.ts'
import { eventually } from '../../../kit/probe.ts'

function set(id: string, rates: Rates): LimitSet {
  return { id, home: 'tenant:acme', level: 'key', scope: `key:${id}`, models: null, rates }
}

function leaseOf(decision: Decision): Lease {
  if (!decision.admitted) throw new Error(`refused by ${decision.refusedBy.name}`)
  return decision.lease
}

async function leftOf(limits: Limits, sets: readonly LimitSet[], tokens = 1): Promise<Record<string, number>> {
  const { states } = await limits.look(sets, tokens)
  return Object.fromEntries(states.map(({ set, name, remaining }) => [`${set.id} ${name}`, remaining]))
}

eachStore(
  t,
  ['limits'],
  'of many that come at once as many are admitted as there are slots',
  async (t, { services: { limits } }) => {
    const sets = [set('tenant', { concurrency: 7 }), set('key', { concurrency: 20, rpm: 1000 })]
    const decisions = await Promise.all(Array.from({ length: 50 }, async () => limits.decide(sets, 0)))
    const admitted = decisions.filter((one) => one.admitted)
    t.equal(admitted.length, 7)
    for (const one of decisions)
      if (!one.admitted) t.match(one, { refusedBy: { name: 'concurrency', set: { id: 'tenant' } } })
    const left = await leftOf(limits, sets)
    t.match(left, { 'tenant concurrency': 0, 'key concurrency': 13 })
    t.ok(left['key rpm']! >= 993, 'what was refused counts in no rate')
    for (const one of admitted) leaseOf(one).release(undefined)
    await eventually(async () => (await leftOf(limits, sets))['tenant concurrency'] === 7)
  }
)

eachStore(t, ['limits'], 'what one limit refuses is taken of no other', async (t, { services: { limits } }) => {
  const tenant = set('tenant', { rpm: 3, tpm: 5000 })
  const sets = [tenant, set('key', { rpm: 2 })]
  for (let i = 0; i < 2; i++) leaseOf(await limits.decide(sets, 10)).release(10)
  const refused = await limits.decide(sets, 10)
  t.match(refused, { admitted: false, refusedBy: { name: 'rpm', set: { id: 'key' }, limit: 2 }, asked: 1 })
  if (!refused.admitted) t.ok(refused.retryAfterMs > 0 && refused.retryAfterMs <= 30_000, `${refused.retryAfterMs} ms`)
  t.equal((await limits.decide([tenant], 10)).admitted, true, 'the third of the tenant')
})

eachStore(t, ['limits'], 'tokens are corrected to what was used, once', async (t, { services: { limits } }) => {
  const sets = [set('key', { tpm: 6000 })]
  const lease = leaseOf(await limits.decide(sets, 3000))
  const left = async (): Promise<number> => (await leftOf(limits, sets))['key tpm']!
  t.ok((await left()) < 4000, 'as many as were expected are gone')
  lease.release(100)
  await eventually(async () => (await left()) >= 5800)
  lease.release(0)
  lease.release(undefined)
  const kept = leaseOf(await limits.decide(sets, 2000))
  kept.release(undefined)
  t.ok((await left()) < 5000, 'what nobody counted stays as it was expected')
})

eachStore(
  t,
  ['limits'],
  'what happens within a request takes no slot, and counts in its rates',
  async (t, { services: { limits } }) => {
    const sets = [set('key', { concurrency: 1, rpm: 4 })]
    const session = leaseOf(await limits.decide(sets, 0))
    t.equal((await limits.decide(sets, 0)).admitted, false)
    for (let i = 0; i < 3; i++) leaseOf(await limits.decide(sets, 0, true)).release(undefined)
    t.equal((await leftOf(limits, sets))['key concurrency'], 0)
    t.match(await limits.decide(sets, 0, true), { admitted: false, refusedBy: { name: 'rpm' } })
    session.release(undefined)
    await eventually(async () => (await leftOf(limits, sets))['key concurrency'] === 1)
  }
)
