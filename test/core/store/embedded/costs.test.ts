// What the upstreams charge and whom the caller was tagged as: kept with every entry of the journal, after a crash too,
// and in stores that were made before there was such a thing.
import { createHash } from 'node:crypto'
import { cpSync, readdirSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { LedgerFile } from '../../../../core/store/embedded/care/ledger-file.ts'
import type { Entry } from '../../../../core/store/embedded/care/ledger-file.ts'
import { openDatabase } from '../../../../core/store/embedded/files/sqlite.ts'
import { openStore } from '../../../../core/store/embedded/store.ts'
import type { JournalForm } from '../../../../core/store/embedded/store.ts'
import type { Store } from '../../../../core/store/store.ts'
import { verify } from '../../../../core/store/embedded/care/verify/verify.ts'
import type { Price } from '../../../../core/money/price.ts'
import type { Reservation } from '../../../../core/store/ledger.ts'
import type { Scope } from '../../../../core/catalogue/caller.ts'
import { rewind } from './earlier.ts'
import { giveBack, noon, query, record, reserve, scope, settle, used } from './sample.ts'

const half: Price = { version: 'half:1', perMillion: { input: 1_000_000n, output: 500_000n } }
const called: Price = { version: 'called:1', perMillion: { output: 1_000_000n, request: 7_000_000n } }
const costs = new Map([
  ['openai', half],
  ['per-call', called]
])
const tagged: readonly Scope[] = [
  { ...scope('tenant', 'acme'), tags: { team: 'all', site: 'paris' } },
  { ...scope('key', 'laptop'), tags: { team: 'search', 'cost centre': '=1+1' } }
]

const open = (file: string, form?: JournalForm): Promise<Store> =>
  openStore({ file, durability: 'process', form, now: () => noon })

function entriesOf(file: string): Entry[] {
  const ledger = new LedgerFile(file)
  try {
    return [...ledger.entries()]
  } finally {
    ledger.close()
  }
}

/** Copies the files of an open store: what a kill leaves. */
function killed(file: string, copy: string): string {
  const [folder, name] = [dirname(file), basename(file)]
  for (const one of readdirSync(folder))
    if (one.startsWith(name) && !one.endsWith('.lock'))
      cpSync(join(folder, one), join(folder, one.replace(name, copy)), { recursive: true })
  return join(folder, copy)
}

const shown = ({ class: name, amount, cost, costPrice, tags, usage }: Entry): object => ({
  name,
  amount,
  cost,
  costPrice,
  tags,
  usage
})

/** Makes a store of a form with entries of all kinds. Returns its file. */
async function filled(t: Test, form: JournalForm): Promise<string> {
  const file = join(t.testdir(), 'sluice.db')
  const store = await open(file, form)
  await settle(store, reserve(store.ledger, tagged, 99n, { costs }), 9)
  const retried = reserve(store.ledger, tagged, 99n, { costs })
  const failed = { usage: used(4), amount: 4n, source: 'partial' } as const
  store.requests.append(record({ request_id: retried.requestId, cost_nano: '3', cost_usd: '0.000000003' }))
  await retried.settle({
    usage: used(3),
    amount: 3n,
    source: 'upstream',
    channel: 'per-call',
    costs: [
      { attempt: 1, channel: 'openai', ...failed },
      { attempt: 2, channel: 'elsewhere', ...failed }
    ]
  })
  await giveBack(store, reserve(store.ledger, tagged, 99n, { costs }))
  await settle(store, reserve(store.ledger, [scope('key', 'plain')], 99n), 2)
  await store.close()
  return file
}

for (const form of ['database', 'segments'] as const)
  t.test(`an entry says what its upstream charges, and the tags of its caller: ${form}`, async (t) => {
    const file = await filled(t, form)
    const tags = { 'cost centre': '=1+1', site: 'paris', team: 'search' }
    const unknown = { cost: null, costPrice: null }
    t.same(entriesOf(file).map(shown), [
      // 4.5 is rounded half up.
      { name: 'terminal', amount: 9n, cost: 5n, costPrice: 'half:1', tags, usage: used(9) },
      { name: 'cost:1', amount: 4n, cost: 2n, costPrice: 'half:1', tags, usage: used(4) },
      { name: 'cost:2', amount: 4n, ...unknown, tags, usage: used(4) },
      { name: 'terminal', amount: 3n, cost: 10n, costPrice: 'called:1', tags, usage: { ...used(3), request: 1 } },
      { name: 'terminal', amount: 0n, ...unknown, tags, usage: null },
      { name: 'terminal', amount: 2n, ...unknown, tags: null, usage: used(2) }
    ])
    t.same(verify(file), [])
  })

t.test('verify finds costs and tags that are not those of their request', async (t) => {
  const file = await filled(t, 'database')
  const database = openDatabase(file, 'process')
  database.exec('DROP TRIGGER journal_is_not_changed; UPDATE journal SET cost = cost + 1 WHERE seq = 2')
  database.exec("UPDATE journal SET tags = '{}' WHERE seq = 5")
  database.close()
  const broken = verify(file).map(({ invariant, row }) => `${invariant} ${row}`)
  t.ok(broken.includes('I4 journal 2'), 'a cost that does not follow from its price')
  t.ok(broken.includes('I10 journal 2') && broken.includes('I10 journal 5'), 'and one that was not hashed so')
})

t.test('a cost that cannot be true is not known, and holds nothing up', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await open(file)
  const free: Price = { version: 'free', perMillion: {} }
  const dear = new Map([['openai', { version: 'dear:1', perMillion: { output: 10n ** 18n } }]])
  const reservation = reserve(store.ledger, tagged, 0n, { price: free, costs: dear })
  store.requests.append(record({ request_id: reservation.requestId }))
  const usage = used(Number.MAX_SAFE_INTEGER)
  await reservation.settle({ usage, amount: 0n, source: 'upstream', channel: 'openai' })
  await store.close()
  t.match(entriesOf(file), [{ cost: null, costPrice: null }])
  t.same(verify(file), [])
})

t.test('failed attempts of work that goes on cost the same after another start', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const own = (version: string, output: bigint): Price => ({ version, perMillion: { output } })
  const costs = new Map([
    ['a', own('a:1', 3_000_000n)],
    ['b', own('b:1', 5_000_000n)]
  ])
  for (const requestId of ['at once', 'after another start']) {
    let store = await openStore({ file, durability: 'process', now: () => noon })
    let hold = reserve(store.ledger, [scope('tenant', 'acme')], 100n, { requestId, costs })
    hold.dispatched('b')
    await hold.detach(noon * 2)
    if (requestId !== 'at once') {
      await store.close()
      store = await openStore({ file, durability: 'process', now: () => noon })
      hold = store.ledger.detached(requestId)!
    }
    const failed = {
      attempt: 1,
      channel: 'a',
      usage: used(4),
      amount: 4n,
      source: 'estimated',
      costPrice: 'a:1'
    } as const
    await hold.settle({ usage: used(10), amount: 10n, source: 'upstream', channel: 'b', costs: [failed] })
    await store.close()
    t.same(query(file, `SELECT cost, cost_price FROM journal WHERE request_id = '${requestId}' ORDER BY seq`), [
      { cost: 12n, cost_price: 'a:1' },
      { cost: 50n, cost_price: 'b:1' }
    ])
  }
})

t.test('a hold that another process goes on with costs what that says, at prices that are stored then', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const first = await openStore({ file, durability: 'process', now: () => noon })
  const [hold, part] = ['', 'one'].map((part) => reserve(first.ledger, tagged, 99n, { requestId: 'kept', part, costs }))
  await Promise.all([hold!.durable, part!.durable])
  await first.flush()
  const copy = killed(file, 'copy.db')
  await Promise.all([hold!.void(), part!.void()])
  await first.close()

  const own: Price = { version: 'own:1', perMillion: { output: 4_000_000n } }
  const kept = [
    { requestId: 'kept', part: '', costs },
    { requestId: 'kept', part: 'one', costs: new Map([['openai', own]]) }
  ]
  const second = await openStore({ file: copy, durability: 'process', now: () => noon, kept })
  t.equal(second.ledger.detached('kept'), undefined, 'nobody else may end it')
  for (const one of kept) {
    const found = second.ledger.find(one.requestId, one.part)!
    await found.settle({ usage: used(10), amount: 10n, source: 'upstream', channel: 'openai' })
    t.equal(second.ledger.find(one.requestId, one.part), undefined)
  }
  second.requests.append(record({ request_id: 'kept', cost_nano: '20', cost_usd: '0.00000002' }))
  await second.close()
  t.match(entriesOf(copy), [
    { part: '', cost: 5n, costPrice: 'half:1' },
    { part: 'one', cost: 40n, costPrice: 'own:1' }
  ])
  t.same(verify(copy), [])
})

t.test('what a crash cut off is charged with its cost and tags, whenever it was dispatched', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await open(file)
  const [early, late] = ['early', 'late'].map((requestId) => reserve(store.ledger, tagged, 999n, { requestId, costs }))
  early!.dispatched('openai')
  const detached = reserve(store.ledger, tagged, 999n, { requestId: 'task', costs })
  detached.dispatched('per-call')
  await Promise.all([early!.durable, late!.durable, detached.detach(noon + 1e9)])
  late!.dispatched('per-call')
  late!.delivered(5)
  await store.flush()
  const copy = killed(file, 'copy.db')
  for (const hold of [early!, late!, detached]) await hold.void()
  await store.close()

  const next = await open(copy)
  const task = next.ledger.detached('task')!
  await task.settle({ usage: used(6), amount: 6n, source: 'upstream', channel: 'per-call' })
  next.requests.append(record({ request_id: 'task', cost_nano: '6', cost_usd: '0.000000006' }))
  await next.close()
  t.match(
    entriesOf(copy).map(({ requestId, ...entry }) => ({ requestId, ...shown({ requestId, ...entry }) })),
    [
      { requestId: 'early', amount: 20n, cost: 10n, costPrice: 'half:1', tags: { team: 'search' } },
      { requestId: 'late', amount: 25n, cost: 12n, usage: { input: 10, output: 5, request: 1 } },
      { requestId: 'task', amount: 6n, cost: 13n, costPrice: 'called:1', tags: { team: 'search' } }
    ]
  )
  t.same(verify(copy), [])
})

/** The hash of an entry as it was before there were tags and costs, worked out apart from the product. */
function formerHash(previous: string, row: Record<string, unknown>): string {
  const columns =
    'kind request_id part class scopes amount reserved usage_json model channel price_version source ts_ms'
  const texts = columns
    .split(' ')
    .map((name) => (row[name] === null ? '~' : `${String(row[name]).length}:${row[name]}`))
  return createHash('sha256')
    .update([`${previous}${row['seq']}:${row['boot_id']}`, ...texts].join(':'))
    .digest('hex')
}

t.test('a store of an earlier version is taken over, and its entries keep their hashes', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await open(file)
  await settle(store, reserve(store.ledger, [scope('tenant', 'acme')], 99n), 9)
  await settle(store, reserve(store.ledger, [scope('tenant', 'acme')], 99n), 8)
  const left = reserve(store.ledger, [scope('tenant', 'acme')], 99n, { requestId: 'left' })
  left.dispatched('openai')
  await left.durable
  await store.flush()
  const copy = killed(file, 'copy.db')
  await left.void()
  await store.close()
  let previous = '0'.repeat(64)
  for (const row of query(copy, 'SELECT *, lower(hex(hash)) AS hash FROM journal ORDER BY seq')) {
    previous = formerHash(previous, row)
    t.equal(row['hash'], previous)
  }
  rewind(copy, 3)

  const next = await open(copy)
  await settle(next, reserve(next.ledger, tagged, 99n, { costs }), 7)
  await next.close()
  t.match(entriesOf(copy), [
    { amount: 9n, tags: null, cost: null },
    { amount: 8n, tags: null, cost: null },
    { requestId: 'left', amount: 20n, source: 'recovered', tags: null, cost: null },
    { amount: 7n, tags: { team: 'search' }, cost: 4n }
  ])
  t.same(verify(copy), [])
})

t.test('a hold is charged by the model that was asked last, after a crash and another start too', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const other: Price = { version: 'other:1', perMillion: { input: 5_000_000n, output: 3_000_000n } }
  const sale = { model: 'stand-in', price: other, costs: new Map([['b', half]]) }
  const store = await open(file)
  const held = (requestId: string): Reservation => reserve(store.ledger, tagged, 999n, { requestId, costs })
  const [early, late, kept, done] = ['early', 'late', 'kept', 'done'].map(held) as Reservation[]
  // Of one the row was written before the other model was asked, of the others with it.
  late!.dispatched('openai')
  await late!.durable
  for (const one of [early!, late!, kept!, done!]) {
    one.dispatched('b', sale)
    t.equal(one.price, other)
  }
  const failed = { channel: 'openai', usage: used(4), amount: 4n, source: 'estimated', costPrice: 'half:1' } as const
  await done!.settle({
    usage: used(10),
    amount: 30n,
    source: 'upstream',
    channel: 'b',
    costs: [
      { attempt: 1, ...failed, model: 'gpt-5', price: 'sample:1' },
      // The channel has the other model too, at another cost.
      { attempt: 2, ...failed, channel: 'b', costPrice: 'called:1', model: 'gpt-5', price: 'sample:1' },
      { attempt: 3, ...failed, amount: 12n, channel: 'b', costPrice: 'called:1' }
    ]
  })
  store.requests.append(record({ request_id: 'done', cost_nano: '30', cost_usd: '0.00000003' }))
  await kept!.detach(noon * 2)
  await early!.durable
  await giveBack(store, reserve(store.ledger, tagged, 1n))
  const copy = killed(file, 'copy.db')
  await Promise.all([early!, late!, kept!].map((one) => giveBack(store, one)))
  await store.close()
  const again = await open(copy)
  const resumed = again.ledger.detached('kept')!
  t.equal(resumed.price.version, 'other:1')
  await resumed.settle({ usage: used(1), amount: 3n, source: 'upstream', channel: 'b' })
  again.requests.append(record({ request_id: 'kept', cost_nano: '3', cost_usd: '0.000000003' }))
  await again.close()
  t.same(query(copy, "SELECT model, price_version, amount, cost FROM journal WHERE request_id = 'done' ORDER BY seq"), [
    { model: 'gpt-5', price_version: 'sample:1', amount: 4n, cost: 2n },
    { model: 'gpt-5', price_version: 'sample:1', amount: 4n, cost: 4n },
    { model: 'stand-in', price_version: 'other:1', amount: 12n, cost: 2n },
    { model: 'stand-in', price_version: 'other:1', amount: 30n, cost: 5n }
  ])
  t.same(
    query(
      copy,
      "SELECT request_id AS id, model, price_version, amount FROM journal WHERE request_id IN ('early', 'late', 'kept') ORDER BY id"
    ),
    [
      { id: 'early', model: 'stand-in', price_version: 'other:1', amount: 50n },
      { id: 'kept', model: 'stand-in', price_version: 'other:1', amount: 3n },
      { id: 'late', model: 'stand-in', price_version: 'other:1', amount: 50n }
    ]
  )
  t.same(verify(copy), [])
})
