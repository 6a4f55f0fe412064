// Limits in memory that threads share: they decide what one process decides, however many decide at once.
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import type { Rates } from '../../../../core/catalogue/caller.ts'
import type { Decision, Lease } from '../../../../core/store/limits.ts'
import { MemoryLimits } from '../../../../core/store/memory/limits.ts'
import { Arena, lockOf } from '../../../../core/store/shared/arena/arena.ts'
import { sharedNow } from '../../../../core/store/shared/arena/clock.ts'
import { WorkerLimits } from '../../../../core/store/shared/arena/limits.ts'
import { Seat } from '../../../../core/store/shared/arena/seat.ts'
import { Seats } from '../../../../core/store/shared/arena/seats.ts'
import { ArrivalOracle } from '../../../kit/oracle.ts'
import { eventually } from '../../../kit/probe.ts'
import { setsOf } from './tasks.ts'
import type { Decided } from './tasks.ts'
import { resultOf, startTask } from './threads.ts'

const second = 1_000_000
const minute = 60 * second

function arenaOf(seats: number, sets = 1024): { arena: Arena; seats: Seats } {
  const arena = Arena.create({ seats: seats + 1, sets, cells: 16 })
  return { arena, seats: new Seats(arena) }
}

/** What can be compared of a decision. */
function seen(decision: Decision): unknown {
  const { states, admitted } = decision
  const shown = states.map(({ set, name, limit, remaining, resetMs }) => [set.id, name, limit, remaining, resetMs])
  if (admitted) return { admitted, shown }
  const { refusedBy, asked, retryAfterMs } = decision
  return { admitted, shown, refusedBy: [refusedBy.set.id, refusedBy.name], asked, retryAfterMs }
}

const rates = fc.record(
  {
    rps: fc.integer({ min: 1, max: 20 }),
    rpm: fc.integer({ min: 1, max: 200 }),
    tpm: fc.integer({ min: 1, max: 2000 }),
    concurrency: fc.integer({ min: 1, max: 6 })
  },
  { requiredKeys: [] }
)

t.test('workers decide by turns what one process decides, also when limits change and idle sets are forgotten', (t) => {
  const step = fc.record({
    wait: fc.oneof(fc.constant(0), fc.nat(300_000), fc.nat(3 * second), fc.nat(2 * minute)),
    worker: fc.nat(2),
    key: fc.nat(1),
    tokens: fc.nat(300),
    ends: fc.option(fc.nat(20)),
    used: fc.option(fc.nat(600), { nil: undefined }),
    does: fc.oneof(
      { weight: 8, arbitrary: fc.constant('decide') },
      fc.constantFrom('look', 'within', 'change', 'sweep')
    )
  })
  const setting = fc.record({ shared: fc.array(rates, { maxLength: 3 }), own: fc.tuple(rates, rates), other: rates })
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(setting, fc.array(step, { maxLength: 100, size: 'max' }), ({ shared, own, other }, steps) => {
        const clock = { now: 5 * minute }
        const { arena, seats } = arenaOf(3, 8)
        const workers = [1, 2, 3].map(() => new WorkerLimits(new Seat(arena, seats.give()), () => clock.now))
        const alone = new MemoryLimits(() => clock.now)
        let sets = setsOf(shared, own)
        const open: { one: Lease; other: Lease }[] = []
        for (const { wait, worker, key, tokens, ends, used, does } of steps) {
          clock.now += wait
          if (ends !== null && open.length > 0) {
            const [lease] = open.splice(ends % open.length, 1)
            lease!.one.release(used)
            lease!.other.release(used)
          }
          if (does === 'sweep') seats.sweep(8, clock.now)
          if (does === 'change') sets = setsOf(shared, [other, own[0]])
          const limits = workers[worker]!
          const [one, two] =
            does === 'look'
              ? [limits.look(sets[key]!, tokens), alone.look(sets[key]!, tokens)]
              : [
                  limits.decide(sets[key]!, tokens, does === 'within'),
                  alone.decide(sets[key]!, tokens, does === 'within')
                ]
          if (JSON.stringify(seen(one)) !== JSON.stringify(seen(two))) return false
          if (one.admitted && two.admitted) open.push({ one: one.lease, other: two.lease })
        }
        return true
      }),
      { numRuns: process.env['SLUICE_LONG'] ? 5000 : 80 }
    )
  )
  t.end()
})

/** Lets threads race, and returns what they decided in the order of their decisions. */
async function race(
  t: Test,
  workers: number,
  setting: { levels: readonly Rates[]; keys: readonly Rates[]; corrects: boolean }
): Promise<Decided[]> {
  const { arena, seats } = arenaOf(workers)
  const scratch = new Int32Array(new SharedArrayBuffer(64))
  Atomics.store(scratch, 1, minute)
  const threads = Array.from({ length: workers }, () =>
    startTask(t, {
      task: 'decide',
      arena: arena.buffer,
      scratch: scratch.buffer,
      seat: seats.give(),
      with: { ...setting, times: 10_000 / workers }
    })
  )
  const results = threads.map((thread) => resultOf<'decide'>(thread))
  await eventually(() => Atomics.load(scratch, 2) === workers)
  Atomics.store(scratch, 0, 1)
  Atomics.notify(scratch, 0)
  const logs = await Promise.all(results)
  const sets = setsOf(setting.levels, setting.keys)
  const left = new WorkerLimits(new Seat(arena, 1), () => 1e12)
  for (const one of sets)
    for (const { name, remaining, limit } of left.look(one, 1).states)
      t.equal(remaining, limit, `${name} is free again`)
  return logs.flat().sort((a, b) => a.time - b.time)
}

const racing = {
  levels: [
    { rpm: 3000, tpm: 60_000, concurrency: 9 },
    { rps: 2000, rpm: 2900, concurrency: 7 }
  ],
  keys: [
    { rps: 900, rpm: 2000, tpm: 30_000, concurrency: 5 },
    { rpm: 1500, tpm: 40_000 }
  ]
}

for (const workers of [2, 4])
  t.test(`${workers} workers that race are admitted what two independent countings admit`, async (t) => {
    for (const corrects of [false, true]) {
      const log = await race(t, workers, { ...racing, corrects })
      const sets = setsOf(racing.levels, racing.keys)
      const clock = { now: 0 }
      const alone = new MemoryLimits(() => clock.now)
      const leases = new Map<string, Lease>()
      const slots = new Map<string, number>()
      const arrivals = new Map<string, ArrivalOracle>()
      const rate = (id: string, limit: number, window: number): ArrivalOracle => {
        const known = arrivals.get(`${id} ${window}`) ?? new ArrivalOracle(limit, window)
        arrivals.set(`${id} ${window}`, known)
        return known
      }
      let [admitted, decisions, alike] = [0, 0, 0]
      for (const { time, key, tokens, admitted: was, request } of log) {
        clock.now = time
        const asked = sets[key]!
        if (was === undefined) {
          leases.get(request)!.release(tokens)
          for (const { id } of asked) slots.set(id, slots.get(id)! - 1)
          continue
        }
        decisions++
        const oracles = asked.flatMap(({ id, rates: { rps, rpm, tpm } }) => [
          ...(rps === undefined ? [] : [{ of: rate(id, rps, second), units: 1 }]),
          ...(rpm === undefined ? [] : [{ of: rate(id, rpm, minute), units: 1 }]),
          ...(tpm === undefined || tokens === 0 ? [] : [{ of: rate(`${id} tokens`, tpm, minute), units: tokens }])
        ])
        const free = asked.every(({ id, rates: { concurrency = Infinity } }) => (slots.get(id) ?? 0) < concurrency)
        const due = free && oracles.every(({ of, units }) => of.admits(time, units))
        const decision = alone.decide(asked, tokens)
        // The published algorithm knows no correction.
        if (decision.admitted === was && (corrects || due === was)) alike++
        if (!decision.admitted) continue
        admitted++
        leases.set(request, decision.lease)
        for (const { id } of asked) slots.set(id, (slots.get(id) ?? 0) + 1)
        for (const { of, units } of oracles) of.take(time, units)
      }
      t.equal(decisions, 10_000)
      t.equal(alike, 10_000, 'decisions that agree')
      t.ok(admitted > 1000 && admitted < 9000, `${admitted} were admitted`)
    }
  })

t.test('a worker that ends gives back its slots, and what it took of rates stays taken', async (t) => {
  const { arena, seats } = arenaOf(2)
  const scratch = new SharedArrayBuffer(64)
  const rates = { concurrency: 5, rpm: 20, tpm: 1000 }
  const [gone, here] = [seats.give(), seats.give()]
  const keeper = startTask(t, { task: 'keep', arena: arena.buffer, scratch, seat: gone, with: { rates, times: 3 } })
  t.equal(await resultOf<'keep'>(keeper), 3)
  const limits = new WorkerLimits(new Seat(arena, here), () => 0)
  const [sets] = setsOf([], [rates])
  const left = (): unknown =>
    Object.fromEntries(limits.look(sets!, 1).states.map(({ name, remaining }) => [name, remaining]))
  t.same(left(), { concurrency: 2, rpm: 17, tpm: 970 })
  const own = limits.decide(sets!, 0)
  await seats.leave(gone, () => [])
  t.same(left(), { concurrency: 4, rpm: 16, tpm: 970 }, 'all slots but that of the other worker')
  if (own.admitted) own.lease.release(undefined)
  t.match(left(), { concurrency: 5 })
  t.equal(seats.sweep(10, 1000), 0, 'what is taken of a rate is not forgotten')
  t.equal(seats.sweep(10, 2 * minute), 1)
  t.equal(seats.give(), gone, 'the seat is free again')
  t.same(left(), { concurrency: 5, rpm: 20, tpm: 1000 })
})

t.test('what the supervisor gives back counts, also when somebody has the lock for longer than it waits', async (t) => {
  const { arena, seats } = arenaOf(1)
  const worker = new Seat(arena, seats.give())
  const [sets] = setsOf([], [{ concurrency: 1 }])
  const limits = new WorkerLimits(seats.own, () => 0)
  const own = limits.decide(sets!, 0)
  t.ok(own.admitted)
  worker.change([lockOf(sets![0]!.home)], () => {
    if (own.admitted) own.lease.release(undefined)
  })
  // It keeps no loop running; a gateway has listeners that do.
  await eventually(() => limits.look(sets!, 0).admitted)
})

t.test('when all rows are in use, a new name is refused, and known ones are not', (t) => {
  const { arena, seats } = arenaOf(1, 2)
  const limits = new WorkerLimits(new Seat(arena, seats.give()), () => 0)
  const sets = setsOf([], [{ rpm: 5 }, { rpm: 5 }, { rpm: 5 }])
  const ask = (key: number): boolean => {
    const decision = limits.decide(sets[key]!, 0)
    if (decision.admitted) decision.lease.release(undefined)
    return decision.admitted
  }
  t.ok(ask(0) && ask(1))
  t.throws(() => ask(2), { code: 'limits_unavailable' })
  t.ok(ask(1))
  t.equal(seats.sweep(2, minute), 2)
  t.ok(ask(2))
  t.end()
})

t.test('a name that comes from another home is guarded by the locks of both', (t) => {
  const { arena, seats } = arenaOf(2)
  const [one, two] = [1, 2].map(() => new WorkerLimits(new Seat(arena, seats.give()), () => 0))
  const [sets] = setsOf([{ concurrency: 9 }], [{ concurrency: 3 }])
  const moved = [
    { ...sets![0]!, id: 'level of the other', home: 'tenant:other' },
    { ...sets![1]!, home: 'tenant:other' }
  ]
  t.ok(one!.decide(sets!, 0).admitted)
  t.ok(two!.decide(moved, 0).admitted)
  t.ok(one!.decide(sets!, 0).admitted)
  t.notOk(two!.decide(moved, 0).admitted)
  t.end()
})

t.test('the clock of all threads goes on as that of one does', async (t) => {
  const before = sharedNow()
  await new Promise((resolve) => setTimeout(resolve, 20))
  const after = sharedNow()
  t.ok(after - before >= 19_000 && after - before < 10_000_000, `${after - before} µs`)
  t.ok(Math.abs(after - Number(process.hrtime.bigint()) / 1000) < second, 'it is the monotonic clock of the machine')
})
