// The holds that a process has when it hands its store over: what becomes of them is written by the next process, which
// ends them by estimate when the process is gone.
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { Custody } from '../../../core/handover/custody.ts'
import type { Price } from '../../../core/money/price.ts'
import { Line } from '../../../core/store/distant/line.ts'
import type { KeptHold } from '../../../core/store/embedded/book/book.ts'
import { verify } from '../../../core/store/embedded/care/verify/verify.ts'
import { openStore } from '../../../core/store/embedded/store.ts'
import type { OwnStore } from '../../../core/store/embedded/store.ts'
import type { AttemptCost, ReserveRequest, Reservation, Settlement } from '../../../core/store/ledger.ts'
import { silentLog } from '../../../core/telling/log.ts'
import { keptOf } from '../../../core/handover/messages.ts'
import { handOver, ports, servicesOf, deputiesOf } from '../../kit/hand-over.ts'
import type { Successor } from '../../kit/hand-over.ts'
import { image } from '../store/embedded/forms.ts'
import { noon, query, record, reserve, scope, used } from '../store/embedded/sample.ts'

const scopes = [scope('tenant', 'acme', 1000n, 'month'), scope('key', 'laptop')]
/** A lease that is not over, whatever clock is asked. */
const later = Date.UTC(2100, 0)

/** What an upstream charges for output, and for the call where it does. */
const own = (version: string, output: bigint, call?: bigint): Price => ({
  version,
  perMillion: { output: output * 1_000_000n, ...(call !== undefined && { request: call * 1_000_000n }) }
})
const costs = new Map([
  ['a', own('a:1', 2n)],
  ['b', own('b:1', 3n, 7n)]
])
/** Another model that a request falls back to, which channel `a` has too. */
const fallback = { model: 'small', price: own('small:1', 5n), costs: new Map([['a', own('a:small:1', 4n)]]) }

const background = { start() {}, attendFor() {}, takeUp() {}, close() {} } as never
const limits = [{ id: 'key:laptop', home: 'tenant:acme', models: null, rates: { concurrency: 1 } }]

interface Opened {
  readonly file: string
  readonly before: Custody
  readonly own: OwnStore
  readonly open: (kept: readonly KeptHold[]) => Promise<OwnStore>
  /** Another file is opened from now on. */
  opens(file: string): void
  hold(requestId: string, more?: Partial<ReserveRequest>): Reservation
}

async function begin(t: Test): Promise<Opened> {
  const file = join(t.testdir(), 'sluice.db')
  let opened = file
  const opens = (file: string): void => void (opened = file)
  const open = (kept: readonly KeptHold[]): Promise<OwnStore> =>
    openStore({ file: opened, durability: 'process', kept, now: () => noon })
  const own = await open([])
  const before = new Custody(own, open)
  const hold = (requestId: string, more?: Partial<ReserveRequest>): Reservation =>
    reserve(before.store.ledger, scopes, 50n, { requestId, costs, ...more })
  return { file, before, own, open, opens, hold }
}

/** Holds where the next process decides. */
function reserveThere(before: Custody, requestId: string): Promise<Reservation> {
  return Promise.resolve(reserve(before.store.ledger, scopes, 50n, { requestId, costs }))
}

const charge = (output: number, channel = 'a'): Settlement => ({
  usage: used(output),
  amount: BigInt(output),
  source: 'upstream',
  channel
})

/** The record of an exchange that its process has ended itself. */
function recordOf(before: Custody, requestId: string, cost: number): void {
  before.store.requests.append(record({ request_id: requestId, cost_nano: String(cost), cost_usd: '0' }))
}

/** Resolves when the next process has heard and written all that was told to it. */
async function heard(before: Custody, { after }: Successor): Promise<void> {
  await before.store.ledger.affordable(scopes, noon)
  await after.store.flush()
}

/** Closes the store of the next process, which must be in order. */
async function close(t: Test, file: string, { after }: Successor): Promise<void> {
  t.match(
    await after.store.ledger.balances({ scope: 'tenant:acme' }),
    [{ pending: 0n }, { pending: 0n }],
    'nothing stays held'
  )
  await after.close()
  t.same(verify(file), [])
  t.same(query(file, 'SELECT id FROM reservation'), [])
}

t.test('what becomes of a hold is written by the next process, whether its row was on disk or not', async (t) => {
  const { file, before, own, open, hold } = await begin(t)
  const written = hold('written')
  const detached = hold('detached')
  await Promise.all([written.durable, detached.durable])
  const part = hold('written', { part: 'one', costs: new Map([['a', fallback.costs.get('a')!]]) })
  const fresh = hold('fresh', { endpoint: 'chat', clientProtocol: 'openai-chat', streamed: true })
  const holds = { written, detached, part, fresh }
  const successor = await handOver(before, open)
  t.throws(() => own.ledger.reserve({} as ReserveRequest), /handed over/, 'nothing is held here any more')

  for (const one of Object.values(holds)) {
    one.dispatched('a')
    one.delivered(7)
  }
  await heard(before, successor)
  const row = { dispatched: 1n, channel: 'a', delivered_units: 7n }
  t.match(query(file, 'SELECT * FROM reservation ORDER BY request_id, part'), [
    { ...row, request_id: 'detached', part: '', cost_price: 'a:1', lease_until: null },
    { ...row, request_id: 'fresh', endpoint: 'chat', client_protocol: 'openai-chat', streamed: 1n },
    { ...row, request_id: 'written', part: '', cost_price: 'a:1' },
    { ...row, request_id: 'written', part: 'one', cost_price: 'a:small:1' }
  ])

  await detached.detach(later)
  await heard(before, successor)
  t.match(query(file, "SELECT lease_until FROM reservation WHERE request_id = 'detached'"), [
    { lease_until: BigInt(later) }
  ])
  t.equal(successor.after.store.ledger.detached('detached')?.amount, 50n)

  const failed: AttemptCost = { attempt: 1, channel: 'b', usage: used(4), amount: 4n, source: 'partial' }
  await Promise.all([
    written.settle(charge(9, 'b')),
    part.settle(charge(8)),
    fresh.void([failed]),
    detached.settle({ ...charge(6), costs: [failed] })
  ])
  for (const one of Object.values(holds)) t.throws(() => void one.void(), /already/)
  t.same(own.ledger.unsettled, [], 'what has ended is let go')
  for (const [id, cost] of Object.entries({ written: 17, fresh: 0, detached: 6 })) recordOf(before, id, cost)
  await heard(before, successor)
  t.match(
    query(
      file,
      'SELECT request_id AS id, part, kind, amount, channel, cost, cost_price AS price FROM journal ORDER BY request_id, part, seq'
    ),
    [
      { id: 'detached', part: '', kind: 'cost', amount: 4n, channel: 'b', cost: 12n, price: 'b:1' },
      { id: 'detached', part: '', kind: 'settle', amount: 6n, channel: 'a', cost: 12n, price: 'a:1' },
      { id: 'fresh', part: '', kind: 'cost', amount: 4n, channel: 'b', cost: 12n, price: 'b:1' },
      { id: 'fresh', part: '', kind: 'void', amount: 0n, channel: 'a', cost: null },
      // A call of this channel costs 7.
      { id: 'written', part: '', kind: 'settle', amount: 9n, channel: 'b', cost: 34n, price: 'b:1' },
      { id: 'written', part: 'one', kind: 'settle', amount: 8n, channel: 'a', cost: 32n, price: 'a:small:1' }
    ]
  )
  await close(t, file, successor)
})

t.test(
  'the model that a hold was sent to last is charged, and costs what it costs, whoever has the store',
  async (t) => {
    const { file, before, open, hold } = await begin(t)
    const [early, late] = [hold('early'), hold('late')]
    await Promise.all([early.durable, late.durable])
    early.dispatched('a', fallback)
    const successor = await handOver(before, open)
    late.dispatched('a', fallback)
    for (const one of [early, late]) {
      t.equal(one.price.version, 'small:1')
      await one.settle({ ...charge(6), amount: 30n })
      recordOf(before, one.requestId, 30)
    }
    await heard(before, successor)
    const ended = { model: 'small', price_version: 'small:1', amount: 30n, cost: 24n, cost_price: 'a:small:1' }
    t.match(query(file, 'SELECT * FROM journal ORDER BY request_id'), [
      { ...ended, request_id: 'early' },
      { ...ended, request_id: 'late' }
    ])
    await close(t, file, successor)
  }
)

t.test(
  'what ends while the store is being handed over is charged as it was left when both processes die',
  async (t) => {
    const { file, before, hold } = await begin(t)
    const [asked, kept] = [hold('asked'), hold('kept')]
    await Promise.all([asked.durable, kept.durable])
    const fresh = hold('fresh')
    for (const one of [asked, fresh, kept]) {
      one.dispatched('a')
      one.delivered(7)
    }
    void kept.detach(later)
    // Nobody hears of the ends.
    const leaving = before.leave(new Line({ send() {}, on() {} }), { close() {} }, [])
    for (const one of [asked, fresh, kept]) void one.settle(charge(9))
    await leaving

    const again = await openStore({ file, durability: 'process', now: () => noon })
    t.equal(again.health().recovered, 2)
    const left = again.ledger.detached('kept')!
    t.equal(left.sent?.usage.output, 7)
    await left.void()
    again.requests.append(record({ request_id: 'kept' }))
    await again.close()
    // Ten tokens of input at 2, and the output that was delivered.
    const recovered = { kind: 'settle', amount: 27n, channel: 'a', source: 'recovered', cost: 14n, cost_price: 'a:1' }
    t.match(query(file, 'SELECT * FROM journal ORDER BY request_id'), [
      { ...recovered, request_id: 'asked' },
      { ...recovered, request_id: 'fresh' },
      { request_id: 'kept', kind: 'void' }
    ])
    t.same(verify(file), [])
  }
)

t.test('a hold that the next process has ended at once is ended no second time', async (t) => {
  const { file, before, open, hold } = await begin(t)
  const video = hold('video')
  await video.detach(later)
  const successor = await handOver(before, async (kept) => {
    const store = await open(kept)
    void store.ledger.detached('video')!.settle(charge(20))
    return store
  })
  await video.settle(charge(9))
  recordOf(before, 'video', 20)
  await heard(before, successor)
  t.match(query(file, 'SELECT kind, amount FROM journal'), [{ kind: 'settle', amount: 20n }])
  await close(t, file, successor)
})

t.test('a process that is gone leaves what work has ended meanwhile, and all else is ended', async (t) => {
  const { file, before, open, hold } = await begin(t)
  const [video, chat] = [hold('video'), hold('chat')]
  chat.dispatched('a')
  await Promise.all([video.detach(later), chat.durable])
  const successor = await handOver(before, open)
  const { after, deputies } = successor
  // The next process has taken the work up, and it is over.
  await after.store.ledger.detached('video')!.settle(charge(20))
  after.store.requests.append(record({ request_id: 'video', cost_nano: '20', cost_usd: '0' }))
  deputies.end()
  await after.store.flush()
  t.match(query(file, 'SELECT kind, amount, source FROM journal ORDER BY request_id'), [
    { kind: 'settle', amount: 20n, source: 'recovered' },
    { kind: 'settle', amount: 20n, source: 'upstream' }
  ])
  await close(t, file, successor)
})

t.test('a session whose process is gone is charged for all of its turns, and its record says so', async (t) => {
  const { file, before, own, open, hold } = await begin(t)
  const session = { endpoint: 'realtime', clientProtocol: 'openai-realtime', streamed: true } as const
  reserve(before.store.ledger, scopes, 0n, { requestId: 'session', ...session })
  const turn = (part: string): Reservation => hold('session', { part, ...session })
  for (const one of [turn('1'), turn('2')]) await one.settle(charge(9, 'b'))
  const [refused, next, open3, unsent] = ['refused', '3', '4', 'unsent'].map(turn) as [
    Reservation,
    Reservation,
    Reservation,
    Reservation
  ]
  await refused.void()
  t.match(own.ledger.charged('session'), { amount: 18n, usage: { output: 18, request: 2 } })
  t.equal(own.ledger.charged('another'), undefined)
  open3.dispatched('a')
  open3.delivered(3)
  const successor = await handOver(before, open)
  await next.settle(charge(5))
  const { after, deputies } = successor
  void unsent.durable
  await heard(before, successor)
  deputies.end()
  await after.store.flush()
  const written = await after.store.requests.find('session')
  t.match(written?.record, {
    recovered: true,
    endpoint: 'realtime',
    client_protocol: 'openai-realtime',
    streamed: true,
    tenant: 'acme',
    // Of the turn that was open 10 tokens of input at 2, and 3 of output.
    cost_nano: '46',
    usage: { input: 10, output: 26, request: 2 }
  })
  t.match(query(file, "SELECT part, kind, amount, reserved FROM journal WHERE request_id = 'session' ORDER BY part"), [
    { part: '', kind: 'void', amount: 0n, reserved: 0n },
    { part: '1', kind: 'settle', amount: 9n },
    { part: '2', kind: 'settle', amount: 9n },
    { part: '3', kind: 'settle', amount: 5n },
    { part: '4', kind: 'settle', amount: 23n },
    { part: 'refused', kind: 'void', amount: 0n },
    { part: 'unsent', kind: 'void', amount: 0n, reserved: 50n }
  ])
  await close(t, file, successor)
})

t.test('what was charged for the turns of a session is forgotten with it, and is nothing to others', async (t) => {
  const { file, before, own, open, hold } = await begin(t)
  const [session, other] = [hold('session'), hold('other')]
  const [early, late] = [hold('session', { part: '1' }), hold('session', { part: '2' })]
  await early.settle(charge(9))
  await hold('other', { part: '1' }).void()
  t.match(own.ledger.charged('session'), { amount: 9n, usage: { output: 9 } })
  t.equal(own.ledger.charged('other'), undefined, 'nothing was charged')
  await session.void()
  t.equal(own.ledger.charged('session'), undefined)
  await late.settle(charge(8))
  t.equal(own.ledger.charged('session'), undefined, 'nobody asks after its end')
  recordOf(before, 'session', 17)
  await other.void()
  recordOf(before, 'other', 0)
  await close(t, file, await handOver(before, open))
})

t.test('a process whose successor fails goes on with what it had, and ends nothing twice', async (t) => {
  const { file, before, hold } = await begin(t)
  const [goes, ends, gone] = [hold('goes'), hold('ends'), hold('gone')]
  await Promise.all([goes.durable, ends.durable, gone.durable])
  const line = new Line({ send() {}, on() {} })
  const ended = gone.settle(charge(3))
  await before.leave(line, { close() {} }, [])
  await ended
  goes.dispatched('a')
  const charged = ends.settle(charge(4, 'b'))
  const later = reserveThere(before, 'later')
  // They are on their way when it fails.
  await new Promise((resolve) => setImmediate(resolve))
  await before.reclaim(line, { services: servicesOf(before), background, log: silentLog })
  await charged
  const held = await later
  held.dispatched('a')
  await Promise.all([goes.settle(charge(5)), held.settle(charge(6))])
  for (const [id, cost] of Object.entries({ goes: 5, ends: 4, gone: 3, later: 6 })) recordOf(before, id, cost)
  t.equal(await before.store.ledger.affordable(scopes, noon), 982n)
  await before.close()
  t.match(query(file, 'SELECT request_id, amount, cost FROM journal ORDER BY request_id'), [
    { request_id: 'ends', amount: 4n, cost: 19n },
    { request_id: 'goes', amount: 5n, cost: 10n },
    { request_id: 'gone', amount: 3n, cost: 6n },
    { request_id: 'later', amount: 6n, cost: 12n }
  ])
  t.same(verify(file), [])
})

t.test('what was on its way to a successor that dies is done once, whether that had written it or not', async (t) => {
  for (const written of [false, true]) {
    const { file, before, open, hold } = await begin(t)
    const ends = hold('ends')
    await ends.durable
    const [here, there] = ports()
    const line = new Line(here)
    const estate = await before.leave(line, { close() {} }, [])
    // Its answers do not arrive.
    there.send = () => {}
    const after = new Custody(await open(keptOf(estate)), open)
    const deputies = deputiesOf(after, estate)
    if (written) new Line(there).serve(deputies.served)

    const { ledger } = before.store
    const charged = ends.settle(charge(4))
    recordOf(before, 'ends', 4)
    const [reserved, asked] = [reserveThere(before, 'later'), ledger.affordable(scopes, noon)]
    const decided = before.limits.decide(limits, 1)
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
    await after.store.flush()
    t.equal(query(file, 'SELECT * FROM journal').length, written ? 1 : 0)
    t.equal(query(file, 'SELECT * FROM reservation').length, 1)
    await after.close()
    await before.reclaim(line, { services: servicesOf(before), background, log: silentLog })
    await charged
    const later = await reserved
    t.equal(await asked, 946n)
    t.ok((await decided).admitted)
    later.dispatched('a')
    await later.settle(charge(6))
    recordOf(before, 'later', 6)
    await before.store.flush()
    t.equal(before.store.health().failures, 0)
    t.equal(await ledger.affordable(scopes, noon), 990n)
    await before.close()
    t.match(query(file, 'SELECT request_id, kind, amount, cost FROM journal ORDER BY request_id'), [
      { request_id: 'ends', kind: 'settle', amount: 4n, cost: 8n },
      { request_id: 'later', kind: 'settle', amount: 6n, cost: 12n }
    ])
    t.same(verify(file), [])
  }
})

t.test('what a successor decided that dies takes no slot a second time', async (t) => {
  const { file, before, open, hold, opens } = await begin(t)
  const ends = hold('ends')
  await ends.durable
  const [here, there] = ports()
  const line = new Line(here)
  const estate = await before.leave(line, { close() {} }, [])
  // The successor dies before anything of it is on disk.
  const copy = image(file)
  const after = new Custody(await open(keptOf(estate)), open)
  const deputies = deputiesOf(after, estate)
  const { send } = there
  there.send = (message, sent) => {
    const { replies } = message as { replies: { value: unknown }[] }
    send.call(there, { replies: replies.filter(({ value }) => value !== undefined) }, sent)
  }
  new Line(there).serve(deputies.served)
  const charged = ends.settle(charge(4))
  const reserved = reserveThere(before, 'later')
  const decision = await before.limits.decide(limits, 1)
  t.ok(decision.admitted)
  await after.close()
  opens(copy)
  await before.reclaim(line, { services: servicesOf(before), background, log: silentLog })
  await charged
  await (await reserved).settle(charge(6))
  if (decision.admitted) decision.lease.release(undefined)
  t.ok((await before.limits.decide(limits, 1)).admitted, 'the slot is free')
  for (const [id, cost] of Object.entries({ ends: 4, later: 6 })) recordOf(before, id, cost)
  await before.close()
  t.match(query(copy, 'SELECT request_id, amount FROM journal ORDER BY request_id'), [
    { request_id: 'ends', amount: 4n },
    { request_id: 'later', amount: 6n }
  ])
  t.same(verify(copy), [])
})
