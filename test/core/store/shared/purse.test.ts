// Balances in memory that threads share: they admit what one process admits, however many hold at once.
import t from 'tap'
import type { Scope } from '../../../../core/catalogue/caller.ts'
import type { GatewayError } from '../../../../core/errors.ts'
import { Cell } from '../../../../core/store/embedded/balance/cell.ts'
import { Purse } from '../../../../core/store/embedded/balance/purse.ts'
import { emptyBatch } from '../../../../core/store/embedded/rows/batch.ts'
import { Arena, lockOf } from '../../../../core/store/shared/arena/arena.ts'
import { WorkerCells } from '../../../../core/store/shared/arena/cells.ts'
import { Seat } from '../../../../core/store/shared/arena/seat.ts'
import { Seats } from '../../../../core/store/shared/arena/seats.ts'
import { scope } from '../embedded/sample.ts'
import { eventually } from '../../../kit/probe.ts'
import { purseOf } from './tasks.ts'
import { resultOf, startTask } from './threads.ts'

/** Four budgets above each of two keys, which share all but the last. */
const levels = [scope('tenant', 'acme', 260n, 'month'), scope('project', 'acme/web', 240n, 'week')]
const member = scope('member', 'acme/web/alice', 190n)
const callers: readonly (readonly Scope[])[] = [
  [...levels, member, scope('key', 'one', 120n, 'day')],
  [...levels, member, scope('key', 'two', 90n, 'day')]
]

function arenaOf(seats: number): { arena: Arena; seats: Seats } {
  const arena = Arena.create({ seats: seats + 1, sets: 2, cells: 64 })
  return { arena, seats: new Seats(arena) }
}

/** Purses of one process for the same callers. */
function purses(): { all: readonly Purse[]; cells: ReadonlyMap<string, Cell> } {
  const cells = new Map<string, Cell>()
  const all = callers.map((scopes) => {
    const own = scopes.map(({ id, budgets }) => {
      const known = cells.get(id) ?? Cell.of(id, budgets[0]!.per)
      cells.set(id, known)
      return known
    })
    const limited = scopes.map((scope, at) => ({ scope, budget: scope.budgets[0]!, balance: own[at]! }))
    return new Purse({ scopes: '{}', tags: null }, { from: 0, until: 1 }, own, limited, [])
  })
  return { all, cells }
}

for (const workers of [2, 4])
  t.test(
    `${workers} workers that race for four budgets are admitted what one process and plain sums admit`,
    async (t) => {
      const { arena, seats } = arenaOf(workers)
      const scratch = new Int32Array(new SharedArrayBuffer(64))
      const threads = Array.from({ length: workers }, () =>
        startTask(t, {
          task: 'spend',
          arena: arena.buffer,
          scratch: scratch.buffer,
          seat: seats.give(),
          with: { scopes: callers, times: 10_000 / workers }
        })
      )
      const results = threads.map((thread) => resultOf<'spend'>(thread))
      await eventually(() => Atomics.load(scratch, 2) === workers)
      Atomics.store(scratch, 0, 1)
      Atomics.notify(scratch, 0)
      const logs = await Promise.all(results)
      const log = logs.flat().sort((a, b) => a.order - b.order)
      const { all } = purses()
      const used = new Map<string, bigint>()
      let [alike, admitted, refused] = [0, 0, 0]
      const add = (key: number, amount: bigint): void => {
        for (const { id } of callers[key]!) used.set(id, (used.get(id) ?? 0n) + amount)
      }
      for (const { key, amount, held, refusedBy } of log) {
        if (held !== undefined) {
          all[key]!.post(held, amount)
          add(key, amount - held)
          alike++
          continue
        }
        const lacking = callers[key]!.find(({ id, budgets }) => (used.get(id) ?? 0n) + amount > budgets[0]!.limit)
        const due = lacking && `quota_${lacking.kind}_exceeded`
        let alone: string | undefined
        try {
          all[key]!.hold(amount)
        } catch (error) {
          alone = (error as GatewayError).code
        }
        if (alone === refusedBy && due === refusedBy) alike++
        if (refusedBy !== undefined) refused++
        else {
          admitted++
          add(key, amount)
        }
      }
      t.equal(alike, log.length, 'what agrees')
      t.ok(admitted > 20 && refused > 1000, `${admitted} were admitted, ${refused} refused`)
      const own = new Seat(arena, 1)
      const cells = new WorkerCells(own)
      for (const { id, budgets } of callers.flat()) {
        const { posted, pending } = cells.cell(id, budgets[0]!.per, 'tenant:acme')
        t.same([posted, pending], [used.get(id), 0n], id)
      }
    }
  )

t.test('what a worker published stays when it has gone, and what it did not is taken back', async (t) => {
  const { arena, seats } = arenaOf(2)
  const [gone, here] = [seats.give(), seats.give()]
  const going = purseOf(new Seat(arena, gone), callers[0]!)
  going.hold(50n)
  going.hold(30n)
  going.post(30n, 20n)
  going.hold(40n)
  const staying = purseOf(new Seat(arena, here), callers[0]!)
  t.equal(staying.left(), 10n)
  staying.hold(5n)
  // The records say: 50 are held, and 30 were held and not ended. Its end and the third hold are in no record.
  const published = callers[0]!.map(({ id, budgets }) => ({
    scope: id,
    window: budgets[0]!.per,
    posted: 0n,
    used: 80n
  }))
  await seats.leave(gone, () => published)
  t.equal(staying.left(), 35n)
  t.equal(seats.give(), gone)
  const next = purseOf(new Seat(arena, gone), callers[0]!)
  t.equal(next.left(), 35n)
  next.hold(35n)
  await seats.leave(gone, () => [])
  t.equal(staying.left(), 35n, 'the next thread of the seat has a share of its own')
  t.end()
})

t.test('balances that were stored are there for all, and the first who asks for one decides its lock', (t) => {
  const { arena, seats } = arenaOf(2)
  const [one, two] = [new Seat(arena, seats.give()), new Seat(arena, seats.give())]
  const stored = new WorkerCells(seats.own)
  stored.load([{ scope: 'key:one', window: 'day', limit: null, posted: 60n, pending: 20n }])
  new WorkerCells(seats.own).load([{ scope: 'key:one', window: 'day', limit: null, posted: 1n, pending: 1n }])
  t.equal(purseOf(one, callers[0]!).left(), 40n)
  const [mine, other] = [new WorkerCells(one), new WorkerCells(two)]
  t.equal(mine.cell('key:one', 'day', 'tenant:other').place.lock, lockOf('tenant:acme'))
  t.equal(other.cell('key:one', 'day', 'tenant:third').posted, 60n)
  t.end()
})

t.test('a worker writes the limits of its balances, and no sums', (t) => {
  const { arena, seats } = arenaOf(1)
  const seat = new Seat(arena, seats.give())
  const cell = new WorkerCells(seat).cell('key:one', 'day', 'tenant:acme')
  const batch = emptyBatch(1, 0)
  cell.limitTo(7n)
  cell.hold(5n, [])
  cell.write(batch)
  cell.write(batch)
  t.same(
    [batch.moves, batch.limits],
    [
      ['key:one', 'day', 0n, 0n],
      [7n, 'key:one', 'day']
    ]
  )
  t.end()
})

t.test('a charge of the supervisor counts, also when somebody has the lock for longer than it waits', async (t) => {
  const { arena, seats } = arenaOf(1)
  const worker = new Seat(arena, seats.give())
  const purse = purseOf(seats.own, callers[0]!)
  purse.hold(50n)
  worker.change([lockOf('tenant:acme')], () => {
    t.throws(() => purse.hold(1n), { code: 'billing_unavailable' })
    purse.post(50n, 20n)
  })
  t.equal(purse.left(), 70n)
  // The charge keeps no loop running; a gateway has listeners that do.
  await eventually(() => purse.left() === 100n)
})
