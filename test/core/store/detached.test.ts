// Holds that outlive their exchange and their process: kept by every start, and ended once, however many see the end.
import { join } from 'node:path'
import t from 'tap'
import { openStore } from '../../../core/store/embedded/store.ts'
import type { OwnStore } from '../../../core/store/embedded/store.ts'
import { verify } from '../../../core/store/embedded/care/verify/verify.ts'
import { begin, forms, image } from './embedded/forms.ts'
import { giveBack, noon, query, record, reserve, scope, settle, work } from './embedded/sample.ts'

const day = 86_400_000
const until = noon + day
const scopes = [scope('tenant', 'acme', 1000n, 'month'), scope('key', 'laptop')]

function open(file: string, now = noon): Promise<OwnStore> {
  return openStore({ file, durability: 'process', now: () => now })
}

function used(store: OwnStore, id = 'tenant:acme'): [posted: bigint, pending: bigint][] {
  return store.ledger.balances({ scope: id }).map(({ posted, pending }) => [posted, pending])
}

t.test('a hold that was detached is open after any end of the process, and is settled then', async (t) => {
  for (const ending of ['closed', 'killed', 'killed when all was in the database'] as const) {
    const file = join(t.testdir(), 'sluice.db')
    const first = await open(file)
    const held = reserve(first.ledger, scopes, 300n, { requestId: 'video' })
    const other = reserve(first.ledger, scopes, 50n, { requestId: 'chat' })
    held.dispatched('openai')
    await Promise.all([held.durable, other.durable])
    t.equal(first.ledger.detached('video'), undefined, 'not yet')
    await held.detach(until)
    t.equal(first.ledger.detached('video'), held)
    if (ending === 'closed') await giveBack(first, other)
    else if (ending !== 'killed') await first.flush()
    const left = ending === 'closed' ? file : image(file)
    await first.close()

    const second = await open(left)
    t.same(
      used(second),
      [
        [0n, 300n],
        [0n, 300n]
      ],
      `${ending}: the hold counts, and the others were ended`
    )
    const again = second.ledger.detached('video')!
    t.match(again, { requestId: 'video', amount: 300n })
    t.equal(second.ledger.detached('chat'), undefined)
    await settle(second, again, 120)
    t.equal(second.ledger.detached('video'), undefined)
    t.throws(() => again.void(), /ended|settled/)
    t.same(used(second), [
      [120n, 0n],
      [120n, 0n]
    ])
    await second.close()
    t.same(verify(left), [])
    t.match(query(left, "SELECT kind, reserved, amount FROM journal WHERE request_id = 'video'"), [
      { kind: 'settle', reserved: 300n, amount: 120n }
    ])
    t.same(query(left, 'SELECT * FROM reservation'), [])
  }
})

t.test(
  'detached in the turn in which it began, it is on disk as one; ended in that turn, it never was there',
  async (t) => {
    const file = join(t.testdir(), 'sluice.db')
    const store = await open(file)
    const kept = reserve(store.ledger, scopes, 10n, { requestId: 'kept' })
    const gone = reserve(store.ledger, scopes, 20n, { requestId: 'gone' })
    void kept.detach(until)
    void gone.detach(until)
    await giveBack(store, gone)
    await store.flush()
    t.match(query(file, 'SELECT request_id, lease_until FROM reservation'), [
      { request_id: 'kept', lease_until: BigInt(until) }
    ])
    const next = reserve(store.ledger, scopes, 30n, { requestId: 'next' })
    await settle(store, kept, 1)
    await next.durable
    await store.flush()
    t.match(
      query(file, 'SELECT request_id, lease_until FROM reservation'),
      [{ request_id: 'next', lease_until: null }],
      'a place that is used again is not detached'
    )
    await giveBack(store, next)
    await store.close()
    t.same(verify(file), [])
  }
)

t.test('only what is held is kept, and only until a time that can be written', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await open(file)
  const held = reserve(store.ledger, scopes, 10n, { requestId: 'held' })
  for (const odd of [NaN, Infinity, until + 0.5, 2 ** 53]) t.throws(() => held.detach(odd), RangeError, String(odd))
  t.equal(store.ledger.detached('held'), undefined)
  await held.detach(until)
  await giveBack(store, held)
  for (const late of [() => held.detach(until), () => held.dispatched('openai')]) t.throws(late, /voided already/)
  const settled = reserve(store.ledger, scopes, 10n, { requestId: 'settled' })
  await settle(store, settled, 3)
  t.throws(() => settled.detach(until), /settled already/)
  const again = reserve(store.ledger, scopes, 10n, { requestId: 'again' })
  await again.detach(until)
  await store.close()
  const second = await open(file)
  const found = second.ledger.detached('again')!
  await found.durable
  t.match(query(file, 'SELECT dispatched, channel, lease_until FROM reservation'), [
    { dispatched: 0n, channel: null, lease_until: BigInt(until) }
  ])
  await giveBack(second, found)
  await second.close()
  t.same(verify(file), [])
})

t.test('of many who see the end one settles', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await open(file)
  await reserve(store.ledger, scopes, 300n, { requestId: 'video' }).detach(until)
  let ends = 0
  await Promise.all(
    Array.from({ length: 50 }, async (_, i) => {
      await new Promise((resolve) => setImmediate(resolve))
      const hold = store.ledger.detached('video')
      if (!hold) return
      ends++
      await (i % 2 === 0 ? settle(store, hold, 7) : giveBack(store, hold))
    })
  )
  t.equal(ends, 1)
  await store.close()
  t.same(verify(file), [])
})

t.test(
  'what nobody went on with until its lease was over is ended by the next start, as after any crash',
  async (t) => {
    const file = join(t.testdir(), 'sluice.db')
    const first = await open(file)
    const held = reserve(first.ledger, scopes, 300n, { requestId: 'video' })
    held.dispatched('openai')
    await held.detach(until)
    await first.close()
    const second = await open(file, until)
    t.same(used(second, 'key:laptop'), [[0n, 300n]], 'until then it is kept')
    await second.close()
    const third = await open(file, until + 1)
    t.equal(third.health().recovered, 1)
    t.equal(third.ledger.detached('video'), undefined)
    await third.close()
    t.same(verify(file), [])
    t.match(query(file, 'SELECT kind, amount, source FROM journal'), [
      { kind: 'settle', amount: 20n, source: 'recovered' }
    ])
  }
)

for (const form of Object.values(forms))
  t.test(`however late, the hold of open work is its work's (${form.name})`, async (t) => {
    const file = join(t.testdir(), 'sluice.db')
    await begin(file, form)
    const first = await open(file)
    const held = reserve(first.ledger, scopes, 300n, { requestId: 'request of video' })
    held.dispatched('openai')
    await Promise.all([held.detach(until), first.works.put(work('video'))])
    await first.close()
    const second = await open(file, until + 1)
    t.equal(second.health().recovered, 0)
    await second.ledger.detached('request of video')!.void()
    second.requests.append(record({ request_id: 'request of video' }))
    await second.close()
    t.same(verify(file), [])
  })

t.test('a hold of long ago counts in the windows of its time', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const first = await open(file)
  await settle(first, reserve(first.ledger, scopes, 300n), 100)
  await reserve(first.ledger, scopes, 300n, { requestId: 'video' }).detach(noon + 365 * day)
  await first.close()
  const later = noon + 150 * day
  const second = await open(file, later)
  const next = reserve(second.ledger, scopes, 1000n, { time: later })
  t.ok(next, 'which leave the present one alone')
  await giveBack(second, next)
  await settle(second, second.ledger.detached('video')!, 20)
  t.match(used(second), [
    [0n, 0n],
    [120n, 0n]
  ])
  await second.close()
  t.same(verify(file), [])
})

t.test('killed at any moment, a start has the holds that were said to be detached, and no other', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await open(file)
  const kept = new Map<string, ReturnType<typeof reserve>>()
  let random = 7
  const chance = (n: number): number => (random = (random * 48_271) % 2_147_483_647) % n
  const amounts = (from: OwnStore): bigint => used(from, 'key:laptop')[0]![1]
  for (let i = 0; i < 120; i++) {
    const hold = reserve(store.ledger, scopes, 5n, { requestId: `r${i}` })
    if (chance(2) === 0) await hold.durable
    if (chance(3) > 0) {
      const detached = hold.detach(until)
      kept.set(hold.requestId, hold)
      if (chance(2) === 0) await detached
    } else await giveBack(store, hold)
    if (chance(3) === 0 && kept.size > 0) {
      const [id, ended] = [...kept][chance(kept.size)]!
      kept.delete(id)
      await (chance(2) === 0 ? settle(store, ended, 3) : giveBack(store, ended))
    }
    if (i % 20 !== 19) continue
    await Promise.all([...kept.values()].map(({ durable }) => durable))
    if (chance(2) === 0) await store.flush()
    const copy = image(file)
    const after = await open(copy)
    t.same(
      [...kept.keys()].filter((id) => !after.ledger.detached(id)),
      [],
      'none is missing'
    )
    t.equal(amounts(after), 5n * BigInt(kept.size), 'and there are no others')
    for (const id of kept.keys()) await settle(after, after.ledger.detached(id)!, 1)
    await after.close()
    t.same(verify(copy), [])
  }
  for (const hold of kept.values()) await giveBack(store, hold)
  await store.close()
  t.same(verify(file), [])
})

t.test('a hold and the work that it is detached for are there after a kill, or neither is', async (t) => {
  const seen = new Set<boolean>()
  for (let moment = 0; moment < 8; moment++) {
    const file = join(t.testdir(), 'sluice.db')
    const store = await open(file)
    const held = reserve(store.ledger, scopes, 300n, { requestId: 'request of video' })
    held.dispatched('openai')
    await held.durable
    // As an exchange is settled: the work is put when its record is made, still in the turn.
    const kept = Promise.all([held.detach(until), Promise.resolve().then(() => store.works.put(work('video')))])
    for (let i = 0; i < moment; i++) await new Promise((resolve) => setImmediate(resolve))
    if (moment === 7) await kept
    const left = image(file)
    await kept
    await store.close()
    const again = await open(left)
    const detached = again.ledger.detached('request of video') !== undefined
    t.same(
      again.works.open().map(({ id }) => id),
      detached ? ['video'] : []
    )
    seen.add(detached)
    await again.close()
    t.same(verify(left), [])
  }
  t.ok(seen.has(true) && seen.has(false))
})
