// Locks and changes in memory that threads share: a change is whole or not there, however its thread ends.
import t from 'tap'
import type { Test } from 'tap'
import { Arena } from '../../../../core/store/shared/arena/arena.ts'
import type { Table } from '../../../../core/store/shared/arena/arena.ts'
import type { Purse } from '../../../../core/store/embedded/balance/purse.ts'
import { WorkerCells } from '../../../../core/store/shared/arena/cells.ts'
import { WorkerLimits } from '../../../../core/store/shared/arena/limits.ts'
import { Seat } from '../../../../core/store/shared/arena/seat.ts'
import { Seats } from '../../../../core/store/shared/arena/seats.ts'
import { scope } from '../embedded/sample.ts'
import { eventually } from '../../../kit/probe.ts'
import { purseOf, setsOf } from './tasks.ts'
import { resultOf, startTask } from './threads.ts'

function places(seats: number): { arena: Arena; seats: Seats; scratch: Int32Array<SharedArrayBuffer> } {
  const arena = Arena.create({ seats: seats + 1, sets: 16, cells: 16 })
  return { arena, seats: new Seats(arena), scratch: new Int32Array(new SharedArrayBuffer(64)) }
}

/** Resolves when so many threads are ready, and lets them go on. */
async function begin(scratch: Int32Array, threads: number): Promise<void> {
  await eventually(() => Atomics.load(scratch, 2) >= threads)
  Atomics.store(scratch, 0, 1)
  Atomics.notify(scratch, 0)
}

/** The locks that somebody has. */
function taken(arena: Arena): number {
  let count = 0
  for (let lock = 0; lock < arena.locks; lock++) if (arena.words[arena.lockAt(lock)] !== 0) count++
  return count
}

t.test('threads that change the same at the same time lose nothing', async (t) => {
  const { arena, seats, scratch } = places(4)
  const times = 20_000
  const threads = [1, 2, 3, 4].map(() =>
    startTask(t, { task: 'add', arena: arena.buffer, scratch: scratch.buffer, seat: seats.give(), with: times })
  )
  const ends = threads.map((thread) => resultOf<'add'>(thread))
  await begin(scratch, 4)
  await Promise.all(ends)
  t.same([...arena.floats.subarray(arena.sets.data, arena.sets.data + 2)], [4 * times, 4 * times])
  t.equal(new Seat(arena, 1).sequence(7), 4 * times, 'each change has counted')
  t.equal(taken(arena), 0)
})

t.test('threads that are ended anywhere leave nothing half done, and the others go on', async (t) => {
  const { arena, seats, scratch } = places(3)
  Atomics.store(scratch, 0, 1)
  const start = (seat: number) =>
    startTask(t, { task: 'addForEver', arena: arena.buffer, scratch: scratch.buffer, seat, with: undefined })
  const stays = start(seats.give())
  const sum = (): number => Number(arena.floats[arena.sets.data])
  for (let round = 0; round < 6; round++) {
    const seat = seats.give()
    const began = Atomics.load(scratch, 2)
    const worker = start(seat)
    await eventually(() => Atomics.load(scratch, 2) > began + 1)
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 5))
    await worker.terminate()
    await seats.leave(seat, () => [])
    const before = sum()
    await eventually(() => sum() > before)
  }
  const seat = seats.give()
  await stays.terminate()
  await seats.leave(1, () => [])
  t.equal(arena.floats[arena.sets.data], arena.floats[arena.sets.data + 1], 'both places have the same')
  t.equal(new Seat(arena, seat).sequence(7) >= sum(), true)
  t.equal(taken(arena), 0)
})

t.test('a thread that hangs with a lock keeps it until it has ended, and what it changed is undone then', async (t) => {
  const { arena, seats, scratch } = places(2)
  const [hangs, waits] = [seats.give(), seats.give()]
  const order = { arena: arena.buffer, scratch: scratch.buffer }
  const unit = arena.sets.data
  const hanging = startTask(t, { task: 'hang', ...order, seat: hangs, with: unit })
  await eventually(() => Atomics.load(scratch, 2) === 1)
  const waiting = startTask(t, { task: 'add', ...order, seat: waits, with: 1 })
  const done = resultOf<'add'>(waiting)
  await begin(scratch, 2)
  t.equal(arena.floats[unit], 99)
  const words = arena.words
  await eventually(() => words[arena.seatAt(waits) + 2] === arena.lockAt(7) + 1)
  let now = 0
  t.same(seats.hanging(now, 1000), [])
  t.same(seats.hanging((now += 999), 1000), [])
  t.same(seats.hanging((now += 1), 1000), [hangs], 'who waits for a lock does not hang')
  t.throws(
    () => seats.own.change([7], () => {}),
    { code: 'billing_unavailable' },
    'the supervisor does not wait for ever'
  )
  await hanging.terminate()
  await seats.leave(hangs, () => [])
  await done
  t.equal(arena.floats[unit], 1, 'the change of the other one, behind what was before')
  t.equal(taken(arena), 0)
  new Seat(arena, waits).beat()
  t.same(seats.hanging((now += 1), 1000), [])
})

t.test('an error within a change undoes it, and frees the locks', (t) => {
  const { arena, seats } = places(1)
  const seat = new Seat(arena, seats.give())
  const unit = arena.sets.data
  t.throws(
    () =>
      seat.change([3, 4], () => {
        seat.save(unit, 2)
        arena.floats[unit] = 5
        seat.save(unit)
        arena.floats[unit] = 6
        throw new Error('wrong')
      }),
    /wrong/
  )
  t.equal(arena.floats[unit], 0)
  t.throws(() => seat.change([3], () => seat.save(0, 5000)), /can alter 4096 units/)
  t.equal(taken(arena), 0)
  t.throws(() => new Arena(new SharedArrayBuffer(64)), /no memory of an arena/)
  t.throws(() => seats.give(), /all 1 seats are taken/)
  t.end()
})

/** That a thread has ended: from here on it stores nothing. */
class Ended extends Error {}

/**
 * The memory as a thread sees it that ends before its store number `last`, counted from `begin` on. After that
 * nothing it does has an effect, its `finally` neither.
 */
function dying(arena: Arena, last: number): { arena: Arena; begin(): void; stores(): number; heal(): void } {
  let stores = 0
  let begun = false
  const store = (): void => {
    if (!begun) return
    if (stores >= last) throw new Ended()
    stores++
  }
  const real = new Map<unknown, Int32Array>()
  const seen = <A extends Int32Array | Float64Array | BigInt64Array>(array: A): A => {
    const proxy = new Proxy(array, {
      get(target, name) {
        const value = Reflect.get(target, name, target)
        if (typeof value !== 'function') return value
        return (...args: unknown[]) => {
          if (name === 'fill') store()
          return value.apply(target, args)
        }
      },
      set(target, name, value) {
        store()
        return Reflect.set(target, name, value, target)
      }
    })
    real.set(proxy, array as Int32Array)
    return proxy
  }
  const own = new Arena(arena.buffer)
  const views = { words: seen(own.words), floats: seen(own.floats), sums: seen(own.sums) }
  Object.assign(own, views)
  const atomics = { ...Object.getOwnPropertyDescriptors(Atomics) }
  for (const name of ['compareExchange', 'exchange', 'store', 'add', 'load', 'notify'] as const) {
    const act = Atomics[name] as (array: unknown, ...rest: number[]) => number
    Object.defineProperty(Atomics, name, {
      configurable: true,
      writable: true,
      value: (array: unknown, ...rest: number[]) => {
        if (name !== 'load' && name !== 'notify') store()
        return act(real.get(array) ?? array, ...rest)
      }
    })
  }
  return {
    arena: own,
    begin: () => void (begun = true),
    stores: () => stores,
    heal: () => void Object.defineProperties(Atomics, atomics)
  }
}

/** The tables: what a change is about. What is known of hours is in none, as nothing of it is undone. */
function tables(arena: Arena): string {
  const { sets, cells, days, words } = arena
  const rows = (from: Table, to: Table): string =>
    Buffer.from(words.buffer, from.counts * 8, (to.data + (to.rows + 1) * to.width - from.counts) * 8).toString(
      'base64'
    )
  return rows(sets, cells) + rows(days, days)
}

/**
 * Does something in a thread that ends before each of its stores in turn. Whenever that is, what it leaves is what was
 * before, or what is there when it does all and ends then. `prepare` is done whole in the same thread, `before` in
 * another.
 */
async function endAnywhere(t: Test, prepare: (seat: Seat) => () => void, before: (other: Seat) => void): Promise<void> {
  const run = async (last: number): Promise<{ left: string; stores: number; ended: boolean }> => {
    const { arena, seats } = places(2)
    const [one, other] = [seats.give(), seats.give()]
    before(new Seat(arena, other))
    const thread = dying(arena, last)
    let ended = false
    try {
      const act = prepare(new Seat(thread.arena, one))
      thread.begin()
      act()
    } catch (error) {
      if (!(error instanceof Ended)) throw error
      ended = true
    } finally {
      thread.heal()
    }
    await seats.leave(one, () => [])
    if (taken(arena) > 0) t.fail(`ended before store ${last}, it keeps a lock`)
    return { left: tables(arena), stores: thread.stores(), ended }
  }
  const nothing = (await run(0)).left
  const { left: done, stores } = await run(Infinity)
  const left = [0, 0]
  for (let last = 1; last < stores; last++) {
    const run1 = await run(last)
    if (!run1.ended) t.fail(`it did not end before store ${last}`)
    const which = [nothing, done].indexOf(run1.left)
    if (which === -1) t.fail(`ended before store ${last} of ${stores}, it leaves a part`)
    else left[which]!++
  }
  t.ok(stores > 10 && left[0]! > 5, `${stores} stores: ${left[0]} ends left nothing, ${left[1]} all`)
}

const rates = { rps: 10, rpm: 100, tpm: 5000, concurrency: 4 }

t.test('a thread that ends at any step of a decision about limits has taken all of them, or none', (t) =>
  endAnywhere(
    t,
    (seat) => {
      const limits = new WorkerLimits(seat, () => 0)
      const [sets] = setsOf([rates, { concurrency: 9 }], [rates])
      limits.look(sets!, 1)
      return () => void limits.decide(sets!, 20)
    },
    (other) => void new WorkerLimits(other, () => 0).decide(setsOf([rates], [])[0] ?? [], 5)
  )
)

t.test(
  'a thread that ends at any step of giving back has given back all, or leaves what an end without that does',
  (t) =>
    endAnywhere(
      t,
      (seat) => {
        const limits = new WorkerLimits(seat, () => 0)
        const [sets] = setsOf([rates], [rates])
        const decision = limits.decide(sets!, 20)
        return () => void (decision.admitted && decision.lease.release(3))
      },
      () => {}
    )
)

t.test('a thread that ends at any step of making a row leaves the table whole', (t) =>
  endAnywhere(
    t,
    (seat) => {
      const cells = new WorkerCells(seat)
      return () => void cells.cell('key:laptop', 'day', 'tenant:acme')
    },
    (other) => {
      const cells = new WorkerCells(other)
      for (let i = 0; i < 5; i++) cells.cell(`key:${i}`, 'day', 'tenant:acme')
    }
  )
)

const scopes = [
  scope('tenant', 'acme', 1000n, 'month'),
  scope('project', 'acme/web', 500n),
  scope('key', 'k', 90n, 'day')
]

t.test('a thread that ends at any step of a hold has held nothing that it published', (t) =>
  endAnywhere(
    t,
    (seat) => {
      const purse = purseOf(seat, scopes)
      return () => purse.hold(40n)
    },
    (other) => purseOf(other, scopes).hold(7n)
  )
)

t.test('a thread that ends at any step of a charge has charged nothing that it published', (t) =>
  endAnywhere(
    t,
    (seat) => {
      const purse = purseOf(seat, scopes)
      purse.hold(40n)
      return () => purse.post(40n, 30n)
    },
    (other) => purseOf(other, scopes).hold(7n)
  )
)

/** A purse of a project with a rolling budget, in the hours of 1970. */
function rollingPurse(seat: Seat): Purse {
  const cells = new WorkerCells(seat)
  const of = scope('project', 'acme/web', 90n, '1d')
  const hours = cells.hours(of.id, of.id)
  hours.begin(1)
  const own = [hours.cell(3), cells.cell(of.id, 'total', of.id)]
  const budgets = [{ scope: of, budget: of.budgets[0]!, balance: hours.sum(1, 3) }]
  return cells.purse({ scopes: '{}', tags: null }, { from: 0, until: 1 }, { cells: own, budgets, moved: [] })
}

t.test('a thread that ends at any step of a hold by a rolling budget has held nothing that it published', (t) =>
  endAnywhere(
    t,
    (seat) => {
      const purse = rollingPurse(seat)
      purse.hold(1n)
      purse.post(1n, 0n)
      return () => purse.hold(40n)
    },
    (other) => rollingPurse(other).hold(7n)
  )
)

t.test('a thread that ends at any step of making an hour and its day leaves both, or none', (t) =>
  endAnywhere(
    t,
    (seat) => {
      const hours = new WorkerCells(seat).hours('project:acme/web', 'tenant:acme')
      return () => void hours.cell(30)
    },
    (other) => void new WorkerCells(other).hours('project:acme/web', 'tenant:acme').cell(3)
  )
)
