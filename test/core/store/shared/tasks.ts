// What threads do in tests of the shared memory.
import { isMainThread, parentPort, workerData } from 'node:worker_threads'
import type { LimitSet, Rates, Scope } from '../../../../core/catalogue/caller.ts'
import { GatewayError } from '../../../../core/errors.ts'
import { Arena, lockOf } from '../../../../core/store/shared/arena/arena.ts'
import type { Balances, StoredBalance } from '../../../../core/store/embedded/balance/balances.ts'
import type { Purse } from '../../../../core/store/embedded/balance/purse.ts'
import { Purses } from '../../../../core/store/embedded/book/purses.ts'
import { WorkerCells } from '../../../../core/store/shared/arena/cells.ts'
import { WorkerLimits } from '../../../../core/store/shared/arena/limits.ts'
import { RingWriter } from '../../../../core/store/shared/records/ring.ts'
import { Seat } from '../../../../core/store/shared/arena/seat.ts'
import { hour } from '../../../../core/store/window.ts'
import { noon } from '../embedded/sample.ts'
import type { Lease } from '../../../../core/store/limits.ts'
import type { Order } from './threads.ts'

/** What a thread has of the test. The scratch words: 0 starts all, 1 is the clock, 2 counts. */
export interface Own {
  readonly arena: Arena
  readonly seat: Seat
  readonly scratch: Int32Array
}

/** A decision or the end of a lease, with its time. */
export interface Decided {
  readonly time: number
  readonly key: number
  /** Undefined for an end. */
  readonly admitted?: boolean
  readonly tokens: number
  /** The number of the request within its thread. */
  readonly request: string
}

/** A hold or its end. */
export interface Moved {
  /** The place in the order of everything under the lock. */
  readonly order: number
  readonly key: number
  readonly amount: bigint
  /** Of an end: what was held. */
  readonly held?: bigint
  readonly refusedBy?: string
}

export function setsOf(levels: readonly Rates[], own: readonly Rates[]): readonly (readonly LimitSet[])[] {
  const set = (id: string, rates: Rates): LimitSet => ({
    id,
    home: 'tenant:acme',
    level: 'key',
    scope: id,
    models: null,
    rates
  })
  return own.map((rates, key) => [...levels.map((rates, at) => set(`level ${at}`, rates)), set(`key ${key}`, rates)])
}

/** A purse of these scopes with a calendar window each, of one tenant. */
export function purseOf(seat: Seat, scopes: readonly Scope[], cells = new WorkerCells(seat)): Purse {
  const own = scopes.map(({ id, budgets }) => cells.cell(id, budgets[0]!.per, scopes[0]!.id))
  const limited = scopes.map((scope, at) => ({ scope, budget: scope.budgets[0]!, balance: own[at]! }))
  return cells.purse({ scopes: '{}', tags: null }, { from: 0, until: 1 }, { cells: own, budgets: limited, moved: [] })
}

/** The purses of a thread, or of a process alone, without anything to read from. */
export function pursesOf(balances: Balances, rows: readonly StoredBalance[] = []): Purses {
  const never = (): never => {
    throw new Error('nothing is read')
  }
  const parts = { writer: { flushed: never }, reader: { ask: never }, troubles: { begin: never, over: never } }
  return new Purses(balances, rows as never, { ...parts, now: () => noon })
}

/** A hold, or its end, at a time. */
export interface Spent extends Moved {
  readonly time: number
  /** The number of the hold within its thread. */
  readonly hold: string
}

function start({ scratch }: Own): void {
  Atomics.add(scratch, 2, 1)
  Atomics.notify(scratch, 2)
  Atomics.wait(scratch, 0, 0)
}

/** Numbers that look random, the same for the same seed. */
export function chances(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0
    return (state >>> 8) % below
  }
}

const tasks = {
  /** Adds one under a lock, in two places that are always the same. */
  add(own: Own, times: number): void {
    const { seat, arena } = own
    const at = arena.sets.data
    start(own)
    for (let i = 0; i < times; i++)
      seat.change([7], () => {
        seat.save(at, 2)
        arena.floats[at]!++
        arena.floats[at + 1]!++
      })
  },

  /** Goes on adding until it is ended. */
  addForEver(own: Own): void {
    for (;;) tasks.add(own, 1000)
  },

  /** Takes a lock, changes something, and hangs for ever. */
  hang(own: Own, unit: number): void {
    own.seat.change([7], () => {
      own.seat.save(unit)
      own.arena.floats[unit] = 99
      start(own)
      Atomics.wait(own.scratch, 3, 0)
    })
  },

  /** Decides about keys at random, and ends what was admitted at random. */
  decide(
    own: Own,
    {
      levels,
      keys,
      times,
      corrects
    }: { levels: readonly Rates[]; keys: readonly Rates[]; times: number; corrects: boolean }
  ): Decided[] {
    let time = 0
    // The clock is read under the lock, so its order is that of the decisions.
    const limits = new WorkerLimits(own.seat, () => (time = Atomics.add(own.scratch, 1, 97) + 97))
    const sets = setsOf(levels, keys)
    const chance = chances(own.seat.number)
    const log: Decided[] = []
    const open: { lease: Lease; key: number; tokens: number; request: string }[] = []
    const end = (): void => {
      const [{ lease, key, tokens, request }] = open.splice(chance(open.length), 1) as [(typeof open)[number]]
      const used = corrects ? chance(2 * tokens + 1) : tokens
      lease.release(used)
      log.push({ time, key, tokens: used, request })
    }
    start(own)
    for (let i = 0; i < times; i++) {
      if (open.length > 0 && chance(3) > 0) end()
      const [key, tokens] = [chance(keys.length), chance(4) === 0 ? 0 : 1 + chance(40)]
      const decision = limits.decide(sets[key]!, tokens)
      const request = `${own.seat.number} ${i}`
      log.push({ time, key, tokens, admitted: decision.admitted, request })
      if (decision.admitted) open.push({ lease: decision.lease, key, tokens, request })
    }
    while (open.length > 0) end()
    return log
  },

  /** Takes slots and keeps them. */
  keep(own: Own, { rates, times }: { rates: Rates; times: number }): number {
    const limits = new WorkerLimits(own.seat, () => Atomics.load(own.scratch, 1))
    const [sets] = setsOf([], [rates])
    let admitted = 0
    for (let i = 0; i < times; i++) if (limits.decide(sets!, 10).admitted) admitted++
    return admitted
  },

  /** Holds and ends amounts at random. */
  spend(own: Own, { scopes, times }: { scopes: readonly (readonly Scope[])[]; times: number }): Moved[] {
    const cells = new WorkerCells(own.seat)
    const purses = scopes.map((one) => purseOf(own.seat, one, cells))
    const lock = lockOf(scopes[0]![0]!.id)
    const chance = chances(own.seat.number)
    const log: Moved[] = []
    const open: { key: number; amount: bigint }[] = []
    /** Does something under the lock, and returns which place it has in the order. */
    const inOrder = (work: () => void): number =>
      own.seat.change([lock], () => {
        work()
        return Atomics.add(own.scratch, 1, 1)
      })
    const end = ({ key, amount }: (typeof open)[number], charged: bigint): void => {
      const order = inOrder(() => purses[key]!.post(amount, charged))
      log.push({ order, key, amount: charged, held: amount })
    }
    start(own)
    for (let i = 0; i < times; i++) {
      if (open.length > 0 && chance(3) === 0) {
        const [one] = open.splice(chance(open.length), 1)
        // Little is charged, so that the budgets are not used up at once.
        end(one!, chance(20) === 0 ? BigInt(chance(3)) : 0n)
        continue
      }
      const [key, amount] = [chance(purses.length), BigInt(1 + chance(9))]
      let refusedBy: string | undefined
      const order = inOrder(() => {
        try {
          purses[key]!.hold(amount)
        } catch (error) {
          if (!(error instanceof GatewayError)) throw error
          refusedBy = error.code
        }
      })
      if (refusedBy === undefined) open.push({ key, amount })
      log.push({ order, key, amount, ...(refusedBy !== undefined && { refusedBy }) })
    }
    for (const one of open) end(one, 0n)
    return log
  },

  /** Holds and ends amounts at random in each hour: the scratch word 4 counts them. Most ends come hours behind. */
  spendOn(own: Own, { scopes, hours }: { scopes: readonly (readonly Scope[])[]; hours: number }): Spent[] {
    const purses = pursesOf(new WorkerCells(own.seat))
    const lock = lockOf(scopes[0]![0]!.id)
    const chance = chances(own.seat.number)
    const log: Spent[] = []
    const open: { of: Spent; purse: Purse }[] = []
    const inOrder = (work: () => void): number =>
      own.seat.change([lock], () => {
        work()
        return Atomics.add(own.scratch, 1, 1)
      })
    const end = ({ of, purse }: (typeof open)[number]): void => {
      const amount = BigInt(chance(Number(of.amount) + 2))
      const order = inOrder(() => purse.post(of.amount, amount))
      log.push({ ...of, order, amount, held: of.amount })
    }
    start(own)
    for (let i = 0, now = 0; now < hours; i++) {
      if (i % 10 === 9) Atomics.wait(own.scratch, 4, now)
      now = Atomics.load(own.scratch, 4)
      if (open.length > 25 && chance(2) === 0) {
        end(open.splice(chance(open.length), 1)[0]!)
        continue
      }
      const [key, amount] = [chance(scopes.length), BigInt(chance(9))]
      const time = noon + now * hour
      const purse = purses.of(scopes[key]!, time)
      let refusedBy: string | undefined
      const order = inOrder(() => {
        try {
          purse.hold(amount)
        } catch (error) {
          if (!(error instanceof GatewayError)) throw error
          refusedBy = error.code
        }
      })
      const of = {
        order,
        key,
        amount,
        time,
        hold: `${own.seat.number} ${i}`,
        ...(refusedBy !== undefined && { refusedBy })
      }
      log.push(of)
      if (refusedBy === undefined) open.push({ of, purse })
    }
    for (const one of open) end(one)
    return log
  },

  /** Sends records of these lengths, each with its number in every byte, and tells when each is acknowledged. */
  async send(
    { seat }: Own,
    { ring, bell, lengths }: { ring: SharedArrayBuffer; bell: SharedArrayBuffer; lengths: readonly number[] }
  ): Promise<number> {
    const writer = new RingWriter(ring, bell)
    // A thread of a gateway has a server that keeps it running.
    const running = setInterval(() => {}, 1000)
    let most = 0
    await Promise.all(
      lengths.map((length, number) => {
        const sent = writer.send(new Uint8Array(length).fill(number + seat.number))
        most = Math.max(most, writer.waitingBytes)
        return sent
      })
    )
    clearInterval(running)
    return most
  }
}

export type Tasks = typeof tasks

if (!isMainThread && workerData?.task !== undefined) {
  const order = workerData as Order
  const arena = new Arena(order.arena)
  const own: Own = { arena, seat: new Seat(arena, order.seat), scratch: new Int32Array(order.scratch) }
  const task = tasks[order.task] as (own: Own, given: unknown) => unknown
  parentPort!.postMessage(await task(own, order.with))
}
