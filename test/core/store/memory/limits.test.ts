// The in-memory limiter against an oracle that shares no code with it, and its promises about headers, slots and
// memory.
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import type { LimitSet, Rates } from '../../../../core/catalogue/caller.ts'
import { MemoryLimits } from '../../../../core/store/memory/limits.ts'
import { ArrivalOracle } from '../../../kit/oracle.ts'
import type { Decision, Lease, LimitName, LimitState } from '../../../../core/store/limits.ts'

const second = 1_000_000
const minute = 60 * second

/** A decision about one set of limits, in which a limit is told by its name. */
type Answer =
  | Extract<Decision, { admitted: true }>
  | (Omit<Extract<Decision, { admitted: false }>, 'refusedBy'> & { refusedBy: LimitName })

/** A limiter that is asked about one set of limits at a time. */
class OneAtATime {
  readonly #limits: MemoryLimits

  constructor(now?: () => number) {
    this.#limits = new MemoryLimits(now)
  }

  get size(): number {
    return this.#limits.size
  }

  decide(key: string, rates: Rates, tokens: number): Answer {
    const set: LimitSet = { id: key, home: 'tenant:acme', level: 'key', scope: key, models: null, rates }
    const decision = this.#limits.decide([set], tokens)
    return decision.admitted ? decision : { ...decision, refusedBy: decision.refusedBy.name }
  }
}

/** A limiter on a clock that only the test moves. */
function limiter(): { limits: OneAtATime; clock: { now: number } } {
  const clock = { now: 5 * minute }
  return { limits: new OneAtATime(() => clock.now), clock }
}

function admitted(decision: Answer): Lease {
  if (!decision.admitted) throw new Error(`refused by ${decision.refusedBy}`)
  return decision.lease
}

function state(decision: Answer, name: LimitName): LimitState {
  const found = decision.states.find((one) => one.name === name)
  if (!found) throw new Error(`no state of ${name}`)
  return found
}

/** A property that no example breaks. */
function holds(t: Test, property: Parameters<typeof fc.assert>[0], parameters = {}): void {
  t.doesNotThrow(() => fc.assert(property, parameters))
}

/**
 * GCRA as virtual scheduling: the theoretical arrival time, in units of 1/limit microseconds so that it is an integer.
 */
function oracle(limit: bigint, window: bigint): (now: number) => boolean {
  let tat = 0n
  return (time) => {
    const now = BigInt(time) * limit
    const next = (tat > now ? tat : now) + window
    if (next - limit * window > now) return false
    tat = next
    return true
  }
}

t.test('rates admit exactly what the theoretical arrival time admits', (t) => {
  for (const [name, window] of [
    ['rps', second],
    ['rpm', minute]
  ] as const) {
    holds(
      t,
      fc.property(
        fc.integer({ min: 1, max: 5000 }),
        fc.array(fc.oneof(fc.constant(0), fc.nat(2000), fc.nat(2 * window)), { minLength: 1, maxLength: 300 }),
        (limit, steps) => {
          const { limits, clock } = limiter()
          const expected = oracle(BigInt(limit), BigInt(window))
          for (const step of steps) {
            clock.now += step
            const decision = limits.decide('k', { [name]: limit }, 1)
            if (decision.admitted !== expected(clock.now)) return false
            if (decision.admitted) decision.lease.release(1)
          }
          return true
        }
      )
    )
  }
  t.end()
})

t.test('remaining says how many more are admitted at once, and a refusal says exactly when the next one is', (t) => {
  holds(
    t,
    fc.property(
      fc.double({ min: 0.05, max: 40, noNaN: true }),
      fc.array(fc.nat(300_000), { maxLength: 40 }),
      (rps, steps) => {
        const { limits, clock } = limiter()
        let last = limits.decide('k', { rps }, 1)
        for (const step of steps) {
          clock.now += step
          last = limits.decide('k', { rps }, 1)
        }
        const { remaining, resetMs } = state(last, 'rps')
        for (let i = 0; i < remaining; i++) {
          if (!limits.decide('k', { rps }, 1).admitted) return false
        }
        const refusal = limits.decide('k', { rps }, 1)
        if (refusal.admitted || refusal.refusedBy !== 'rps' || state(refusal, 'rps').remaining !== 0) return false
        if (remaining === 0 && refusal.retryAfterMs > resetMs) return false
        const refusedAt = clock.now
        clock.now = refusedAt + (refusal.retryAfterMs - 1) * 1000
        if (refusal.retryAfterMs > 1 && limits.decide('k', { rps }, 1).admitted) return false
        clock.now = refusedAt + refusal.retryAfterMs * 1000
        return limits.decide('k', { rps }, 1).admitted
      }
    )
  )
  t.end()
})

t.test('a microsecond too early is too early', (t) => {
  for (const [name, window] of [
    ['rps', second],
    ['rpm', minute]
  ] as const) {
    const { limits, clock } = limiter()
    admitted(limits.decide('k', { [name]: 1 }, 1))
    clock.now += window - 1
    t.match(limits.decide('k', { [name]: 1 }, 1), { admitted: false, refusedBy: name, retryAfterMs: 1 })
    clock.now += 1
    t.ok(limits.decide('k', { [name]: 1 }, 1).admitted)
  }
  t.end()
})

t.test('reset is told in milliseconds that have passed by then', (t) => {
  const { limits } = limiter()
  t.equal(state(limits.decide('k', { rpm: 7 }, 1), 'rpm').resetMs, 8572, '8571.4')
  t.equal(state(limits.decide('k', { concurrency: 2 }, 1), 'concurrency').resetMs, 1000)
  t.end()
})

t.test('reset is the time until the limit is whole again', (t) => {
  const { limits, clock } = limiter()
  for (let i = 0; i < 3; i++) limits.decide('k', { rpm: 60 }, 1)
  const { resetMs, remaining } = state(limits.decide('k', { rpm: 60 }, 1), 'rpm')
  t.equal(remaining, 56)
  t.equal(resetMs, 4000)
  clock.now += resetMs * 1000
  t.equal(state(limits.decide('k', { rpm: 60 }, 1), 'rpm').remaining, 59)
  t.end()
})

t.test('a refusal by one limit takes nothing of the others', (t) => {
  const names = ['concurrency', 'rps', 'rpm', 'tpm'] as const
  for (const refusing of names) {
    const { limits } = limiter()
    const wide = { concurrency: 100, rps: 100, rpm: 100, tpm: 100 }
    const narrow = { ...wide, [refusing]: 1 }
    admitted(limits.decide('k', narrow, 1))
    for (let i = 0; i < 5; i++) {
      const refusal = limits.decide('k', narrow, 1)
      t.notOk(refusal.admitted)
      if (!refusal.admitted) t.equal(refusal.refusedBy, refusing)
    }
    const after = limits.decide('k', wide, 1)
    for (const name of names) t.equal(state(after, name).remaining, 98, `${name} after refusals by ${refusing}`)
  }
  t.end()
})

t.test('a refusal says how much of its limit was asked for', (t) => {
  for (const [name, asked] of [
    ['concurrency', 1],
    ['rps', 1],
    ['rpm', 1],
    ['tpm', 7]
  ] as const) {
    const { limits } = limiter()
    const narrow = { concurrency: 9, rps: 9, rpm: 9, tpm: 100, [name]: name === 'tpm' ? 10 : 1 }
    admitted(limits.decide('k', narrow, 7))
    t.match(limits.decide('k', narrow, 7), { refusedBy: name, asked })
  }
  t.end()
})

t.test('when several limits refuse, the one with the longest wait is named and its wait given', (t) => {
  const { limits } = limiter()
  const all = { concurrency: 1, rps: 1, rpm: 1 }
  admitted(limits.decide('k', all, 1))
  const refusal = limits.decide('k', all, 1)
  t.match(refusal, { admitted: false, refusedBy: 'rpm', retryAfterMs: 60_000 })
  t.end()
})

t.test('a slot belongs to its lease: released twice it comes free once', (t) => {
  const { limits } = limiter()
  const two = { concurrency: 2 }
  const first = admitted(limits.decide('k', two, 0))
  admitted(limits.decide('k', two, 0))
  t.match(limits.decide('k', two, 0), { admitted: false, refusedBy: 'concurrency', retryAfterMs: 1000 })
  first.release(undefined)
  first.release(undefined)
  t.equal(state(limits.decide('k', two, 0), 'concurrency').remaining, 0)
  t.notOk(limits.decide('k', two, 0).admitted)
  t.end()
})

t.test('slots never exceed their limit and are all free at the end, whatever the order of takes and releases', (t) => {
  holds(
    t,
    fc.property(fc.integer({ min: 1, max: 8 }), fc.array(fc.nat(20), { maxLength: 200 }), (concurrency, moves) => {
      const { limits } = limiter()
      const held: Lease[] = []
      for (const move of moves) {
        if (move < 10) {
          const decision = limits.decide('k', { concurrency }, 0)
          if (decision.admitted !== held.length < concurrency) return false
          if (decision.admitted) held.push(decision.lease)
        } else held.splice(move % (held.length + 1), 1)[0]?.release(undefined)
      }
      for (const lease of held) lease.release(undefined)
      return state(limits.decide('k', { concurrency }, 0), 'concurrency').remaining === concurrency - 1
    })
  )
  t.end()
})

t.test('tokens are reserved, then corrected in both directions', (t) => {
  const { limits, clock } = limiter()
  const tpm = { tpm: 1000 }
  const left = (): number => state(limits.decide('k', tpm, 2000), 'tpm').remaining
  const fewer = admitted(limits.decide('k', tpm, 600))
  fewer.release(100)
  const more = admitted(limits.decide('k', tpm, 100))
  t.equal(left(), 800)
  more.release(700)
  t.equal(left(), 200)
  const unknown = admitted(limits.decide('k', tpm, 200))
  unknown.release(undefined)
  t.equal(left(), 0)
  clock.now += minute
  t.ok(limits.decide('k', tpm, 1000).admitted)
  t.end()
})

t.test('a reservation larger than the limit is cut to it, so that a first request is never impossible', (t) => {
  const { limits } = limiter()
  const lease = admitted(limits.decide('k', { tpm: 1000 }, 50_000))
  t.match(limits.decide('k', { tpm: 1000 }, 1), { admitted: false, refusedBy: 'tpm', retryAfterMs: 60 })
  lease.release(400)
  t.equal(state(limits.decide('k', { tpm: 1000 }, 1), 'tpm').remaining, 599)
  t.end()
})

t.test('debt is at most one window, however much was used', (t) => {
  const { limits, clock } = limiter()
  admitted(limits.decide('k', { tpm: 1000 }, 10)).release(5_000_000)
  const refusal = limits.decide('k', { tpm: 1000 }, 1)
  t.match(refusal, { admitted: false, refusedBy: 'tpm', retryAfterMs: 60_060 })
  t.equal(state(refusal, 'tpm').remaining, 0)
  clock.now += 60_060_000
  t.ok(limits.decide('k', { tpm: 1000 }, 1).admitted)
  t.end()
})

t.test('tokens count from when they are told, however long the answer took', (t) => {
  const { limits, clock } = limiter()
  const long = admitted(limits.decide('k', { tpm: 1000 }, 10))
  clock.now += minute
  long.release(500)
  t.equal(state(limits.decide('k', { tpm: 1000 }, 1), 'tpm').remaining, 509, 'all but the ten that leaked meanwhile')
  const longer = admitted(limits.decide('other', { tpm: 1000 }, 10))
  clock.now += 2 * minute
  longer.release(5_000_000)
  t.match(limits.decide('other', { tpm: 1000 }, 1), { admitted: false, retryAfterMs: 60_060 })
  t.end()
})

t.test('what has leaked of a reservation is not given back: no more tokens pass than the rate allows', (t) => {
  const { limits, clock } = limiter()
  const tpm = { tpm: 1000 }
  const slow = admitted(limits.decide('k', tpm, 1000))
  clock.now += minute
  admitted(limits.decide('k', tpm, 1000))
  slow.release(0)
  t.notOk(limits.decide('k', tpm, 17).admitted)
  t.end()
})

t.test('what is given back never comes to more than the limit', (t) => {
  const { limits, clock } = limiter()
  const tpm = { tpm: 1000 }
  const [one, two] = [400, 400].map((tokens) => admitted(limits.decide('k', tpm, tokens)))
  one!.release(0)
  clock.now += minute / 2
  two!.release(0)
  t.equal(state(limits.decide('k', tpm, 100), 'tpm').remaining, 900)
  t.notOk(limits.decide('k', tpm, 901).admitted)
  t.end()
})

t.test('in any span the tokens used stay within the rate, one burst and one debt', (t) => {
  const limit = 1000
  holds(
    t,
    fc.property(
      fc.array(fc.record({ wait: fc.nat(20_000_000), tokens: fc.integer({ min: 1, max: 900 }) }), { maxLength: 120 }),
      (requests) => {
        const { limits, clock } = limiter()
        const start = clock.now
        let used = 0
        for (const { wait, tokens } of requests) {
          clock.now += wait
          // The estimate is right, as in a gateway whose clients set max_tokens: then the sum is exactly bounded.
          const decision = limits.decide('k', { tpm: limit }, tokens)
          if (!decision.admitted) continue
          decision.lease.release(tokens)
          used += tokens
          if (used > limit + ((clock.now - start) * limit) / minute) return false
        }
        return true
      }
    )
  )
  t.end()
})

t.test('a request without tokens neither waits for the token limit nor uses it', (t) => {
  const { limits } = limiter()
  const both = { tpm: 10, rpm: 5 }
  admitted(limits.decide('k', both, 10))
  const list = limits.decide('k', both, 0)
  t.ok(list.admitted)
  t.same(
    list.states.map(({ name }) => name),
    ['rpm']
  )
  admitted(list).release(500)
  t.match(limits.decide('k', both, 1), { admitted: false, refusedBy: 'tpm', retryAfterMs: 6000 })
  t.end()
})

t.test('a changed limit holds from the next decision on and forgets nothing', (t) => {
  const { limits } = limiter()
  for (let i = 0; i < 6; i++) admitted(limits.decide('k', { rpm: 10, concurrency: 100 }, 1))
  t.equal(state(limits.decide('k', { rpm: 20, concurrency: 100 }, 1), 'rpm').remaining, 13)
  t.match(limits.decide('k', { rpm: 7 }, 1), { admitted: false, refusedBy: 'rpm' })
  t.equal(state(limits.decide('k', { concurrency: 100 }, 1), 'concurrency').remaining, 92)
  t.equal(state(limits.decide('k', { rpm: 20 }, 1), 'rpm').remaining, 12)
  t.end()
})

t.test('slots above a limit that shrinks are waited for, and none is told to be left', (t) => {
  const { limits } = limiter()
  const leases = [1, 2, 3].map(() => admitted(limits.decide('k', { concurrency: 3 }, 0)))
  const refusal = limits.decide('k', { concurrency: 1 }, 0)
  t.equal(state(refusal, 'concurrency').remaining, 0)
  leases[0]!.release(undefined)
  leases[1]!.release(undefined)
  t.notOk(limits.decide('k', { concurrency: 1 }, 0).admitted)
  leases[2]!.release(undefined)
  t.ok(limits.decide('k', { concurrency: 1 }, 0).admitted)
  t.end()
})

t.test('a limit that shrinks greatly locks nobody out for longer than two of its windows', (t) => {
  const { limits } = limiter()
  for (let i = 0; i < 6000; i++) limits.decide('k', { rpm: 6000 }, 1)
  const refusal = limits.decide('k', { rpm: 6 }, 1)
  t.match(refusal, { admitted: false, refusedBy: 'rpm' })
  if (!refusal.admitted) t.ok(refusal.retryAfterMs <= 70_000, `${refusal.retryAfterMs} ms`)
  t.end()
})

t.test('keys do not share anything', (t) => {
  const { limits } = limiter()
  admitted(limits.decide('a', { rps: 1, concurrency: 1 }, 1))
  t.ok(limits.decide('b', { rps: 1, concurrency: 1 }, 1).admitted)
  t.end()
})

t.test('memory is bounded by the keys in use: idle ones are forgotten, busy ones are not', (t) => {
  const { limits, clock } = limiter()
  const busy = admitted(limits.decide('busy', { concurrency: 1 }, 0))
  for (let i = 0; i < 20_000; i++) {
    clock.now += 10_000
    admitted(limits.decide(`key-${i}`, { rps: 10, tpm: 6000 }, 100)).release(100)
  }
  // One second of traffic is one hundred keys: 100 tokens of 6,000 a minute leak away in a second.
  t.ok(limits.size < 250, `${limits.size} keys are remembered`)
  for (let i = 0; i < 1000; i++) {
    clock.now += 1000
    limits.decide('busy', { concurrency: 1 }, 0)
  }
  t.ok(limits.size < 10, `${limits.size} keys are remembered a second later, when no other has come`)
  t.notOk(limits.decide('busy', { concurrency: 1 }, 0).admitted)
  busy.release(undefined)
  t.ok(limits.decide('busy', { concurrency: 1 }, 0).admitted)
  t.end()
})

t.test('idle keys go as fast as new ones come, in whatever moment that is', (t) => {
  const { limits, clock } = limiter()
  for (let i = 0; i < 1000; i++) admitted(limits.decide(`old-${i}`, { rps: 1 }, 1)).release(1)
  clock.now += minute
  for (let i = 0; i < 1000; i++) admitted(limits.decide(`new-${i}`, { rps: 1 }, 1)).release(1)
  t.ok(limits.size <= 1010, `${limits.size} keys are remembered`)
  t.end()
})

t.test('idle keys among busy ones go twice as fast as new ones come', (t) => {
  const { limits, clock } = limiter()
  for (let i = 0; i < 1000; i++) {
    const lease = admitted(limits.decide(`old-${i}`, { rps: 1 }, 1))
    if (i % 2 === 0) lease.release(1)
  }
  clock.now += minute
  for (let i = 0; i < 500; i++) admitted(limits.decide(`new-${i}`, { rps: 1 }, 1))
  t.ok(limits.size <= 1010, `${limits.size} keys are remembered: 500 busy ones and 500 new ones`)
  t.end()
})

t.test('two idle keys go for each new one and in each millisecond with traffic, and none otherwise', (t) => {
  const { limits, clock } = limiter()
  for (let i = 0; i < 1100; i++) admitted(limits.decide(`old-${i}`, { rps: 1 }, 1)).release(1)
  const ask = (): void => void limits.decide('busy', { concurrency: 9 }, 0)
  ask()
  clock.now += minute
  ask()
  const before = limits.size
  for (let i = 0; i < 100; i++) limits.decide(`new-${i}`, { rps: 1 }, 1)
  t.equal(limits.size, before + 100 - 200)
  for (const [wait, gone] of [
    [0, 0],
    [999, 0],
    [1, 2],
    [999, 2],
    [1, 4]
  ] as const) {
    clock.now += wait
    ask()
    t.equal(limits.size, before - 100 - gone)
  }
  t.end()
})

t.test('on the real clock a burst is followed by the rate', async (t) => {
  const limits = new OneAtATime()
  const [rps, between] = [50, second / 50]
  const now = (): number => Math.floor(performance.now() * 1000)
  // The theoretical arrival time of the next request lies between these, as each is decided between two readings of
  // the clock: however long the machine stalls in between, only what is possible then may be decided.
  let [least, most] = [0, 0]
  let burst = 0
  for (let refused = false, later = 0; later < 10;) {
    const asked = now()
    const { admitted } = limits.decide('k', { rps }, 1)
    const answered = now()
    const first = (arrival: number): number => arrival + between - second
    const possible = admitted ? first(least) <= answered : first(most) > asked
    if (!possible) throw new Error(`${admitted ? 'admitted' : 'refused'} after ${burst} at once and ${later} later`)
    if (admitted) {
      least = Math.max(least, asked) + between
      most = Math.max(most, answered) + between
      if (refused) later++
      else burst++
    } else {
      refused = true
      await new Promise(setImmediate)
    }
  }
  t.ok(burst >= rps, `${burst} at once`)
})

/** The limits of four levels and of patterns within them, counted by published algorithms that share no code. */
t.test('limits of several levels and patterns admit together what each of them admits, all or none', (t) => {
  const rates = fc.record(
    {
      rps: fc.integer({ min: 1, max: 20 }),
      rpm: fc.integer({ min: 1, max: 200 }),
      tpm: fc.integer({ min: 1, max: 2000 }),
      concurrency: fc.integer({ min: 1, max: 6 })
    },
    { requiredKeys: [] }
  )
  /** Two keys with sets of their own, and those of tenant, project and a pattern, which both share. */
  const setting = fc.record({ shared: fc.array(rates, { maxLength: 3 }), own: fc.tuple(rates, rates) })
  const step = fc.record({
    wait: fc.oneof(fc.constant(0), fc.nat(300_000), fc.nat(3 * second), fc.nat(2 * minute)),
    key: fc.nat(1),
    tokens: fc.nat(300),
    ends: fc.option(fc.nat(20))
  })
  holds(
    t,
    fc.property(setting, fc.array(step, { maxLength: 120, size: 'max' }), ({ shared, own }, steps) => {
      const clock = { now: 5 * minute }
      const limits = new MemoryLimits(() => clock.now)
      const set = (id: string, rates: Rates): LimitSet => ({
        id,
        home: 'tenant:acme',
        level: 'key',
        scope: id,
        models: null,
        rates
      })
      const sets = own.map((rates, key) => [...shared.map((rates, i) => set(`s${i}`, rates)), set(`k${key}`, rates)])
      const arrivals = new Map<string, ArrivalOracle>()
      const slots = new Map<string, number>()
      const arrivalsOf = ({ id, rates }: LimitSet, tokens: number): [string, ArrivalOracle, number][] =>
        (['rps', 'rpm', 'tpm'] as const).flatMap((name) => {
          const limit = rates[name]
          if (limit === undefined || (name === 'tpm' && tokens === 0)) return []
          const known = arrivals.get(`${id} ${name}`) ?? new ArrivalOracle(limit, name === 'rps' ? second : minute)
          arrivals.set(`${id} ${name}`, known)
          return [[name, known, name === 'tpm' ? Math.min(tokens, limit) : 1] as [string, ArrivalOracle, number]]
        })
      const open: { lease: Lease; sets: readonly LimitSet[] }[] = []
      for (const { wait, key, tokens, ends } of steps) {
        clock.now += wait
        if (ends !== null && open.length > 0) {
          const [ended] = open.splice(ends % open.length, 1)
          ended!.lease.release(undefined)
          ended!.lease.release(undefined)
          for (const { id } of ended!.sets) slots.set(id, slots.get(id)! - 1)
        }
        const asked = sets[key]!
        const due = asked.every(
          (set) =>
            (slots.get(set.id) ?? 0) < (set.rates.concurrency ?? Infinity) &&
            arrivalsOf(set, tokens).every(([, oracle, units]) => oracle.admits(clock.now, units))
        )
        const decision = limits.decide(asked, tokens)
        if (decision.admitted !== due || limits.look(asked, 0).states.some(({ remaining }) => remaining < 0))
          return false
        if (!decision.admitted) {
          const { set, name } = decision.refusedBy
          const refuses =
            name === 'concurrency'
              ? slots.get(set.id)! >= set.rates.concurrency!
              : arrivalsOf(set, tokens).some(([one, oracle, units]) => one === name && !oracle.admits(clock.now, units))
          if (!refuses) return false
          continue
        }
        for (const set of asked) {
          slots.set(set.id, (slots.get(set.id) ?? 0) + 1)
          for (const [, oracle, units] of arrivalsOf(set, tokens)) oracle.take(clock.now, units)
        }
        open.push({ lease: decision.lease, sets: asked })
      }
      return true
    }),
    { numRuns: process.env['SLUICE_LONG'] ? 10_000 : 150 }
  )
  t.end()
})

t.test('what happens within a request takes no slot, and is not refused for one', (t) => {
  const limits = new MemoryLimits(() => 0)
  const sets: LimitSet[] = [
    { id: 'k', home: 'tenant:acme', level: 'key', scope: 'k', models: null, rates: { concurrency: 2, rpm: 10 } }
  ]
  const session = limits.decide(sets, 0) as Extract<Decision, { admitted: true }>
  const turn = limits.decide(sets, 0, true) as Extract<Decision, { admitted: true }>
  t.ok(limits.decide(sets, 0).admitted, 'the second of two slots')
  t.ok(limits.decide(sets, 0, true).admitted)
  turn.lease.release(0)
  t.notOk(limits.decide(sets, 0).admitted, 'the turn gives back no slot')
  t.match(limits.look(sets, 0), { admitted: false, refusedBy: { name: 'concurrency' } }, 'as whoever only asks is told')
  session.lease.release(0)
  t.ok(limits.decide(sets, 0).admitted)
  t.end()
})

t.test('what happens within a request for longer than its limits remember is corrected all the same', (t) => {
  const clock = { now: 0 }
  const limits = new MemoryLimits(() => clock.now)
  const sets = (id: string): LimitSet[] => [
    { id, home: 'tenant:acme', level: 'key', scope: id, models: null, rates: { tpm: 100 } }
  ]
  const turn = limits.decide(sets('k'), 10, true) as Extract<Decision, { admitted: true }>
  clock.now += minute
  for (let other = 0; other < 10; other++) limits.decide(sets(`other ${other}`), 1)
  turn.lease.release(100)
  t.notOk(limits.decide(sets('k'), 20).admitted, 'what it used is counted')
  const next = new MemoryLimits(() => clock.now)
  const again = limits.decide(sets('n'), 10, true)
  t.ok(again.admitted)
  clock.now += 10 * minute
  for (let other = 0; other < 10; other++) limits.decide(sets(`another ${other}`), 1)
  for (const lease of next.adopt(structuredClone(limits.leave(() => {}))).values()) lease.release(100)
  t.notOk(next.decide(sets('n'), 20).admitted, 'in the next process too')
  t.end()
})

/** Requests of two keys with limits of all kinds, some of which end, and a moment at which another process goes on. */
t.test('the next process decides what this one would have decided, and its leases give back the same', (t) => {
  const sets = [
    { rps: 3, rpm: 20, concurrency: 4 },
    { rpm: 15, tpm: 900 }
  ].map((rates, i): LimitSet => ({
    id: `k${i}`,
    home: 'tenant:acme',
    level: 'key',
    scope: `k${i}`,
    models: null,
    rates
  }))
  const step = fc.record({
    wait: fc.oneof(fc.constant(0), fc.nat(300_000), fc.nat(3 * second)),
    which: fc.constantFrom([0], [1], [0, 1]),
    tokens: fc.nat(300),
    ends: fc.option(fc.nat(20)),
    used: fc.option(fc.nat(600), { nil: undefined })
  })
  holds(
    t,
    fc.property(fc.array(step, { maxLength: 60, size: 'max' }), fc.nat(60), (steps, leaves) => {
      const clock = { now: 5 * minute }
      // The clock of the next process begins anew.
      const one = new MemoryLimits(() => clock.now)
      const next = new MemoryLimits(() => clock.now - 4 * minute)
      let handed = new MemoryLimits(() => clock.now)
      const open: [Lease, Lease][] = []
      for (const [i, { wait, which, tokens, ends, used }] of steps.entries()) {
        clock.now += wait
        if (i === leaves) {
          const kept = structuredClone(handed.leave((id, used) => adopted.get(id)!.release(used)))
          const adopted = next.adopt(kept)
          if (adopted.size !== open.length) return false
          handed = next
        }
        if (ends !== null && open.length > 0)
          for (const lease of open.splice(ends % open.length, 1)[0]!) lease.release(used)
        const asked = which.map((at) => sets[at]!)
        const [due, decision] = [one.decide(asked, tokens), handed.decide(asked, tokens)]
        if (JSON.stringify(due) !== JSON.stringify({ ...decision, ...('lease' in due ? { lease: due.lease } : {}) }))
          return false
        if (due.admitted && decision.admitted) open.push([due.lease, decision.lease])
      }
      return true
    }),
    { numRuns: 150 }
  )
  t.end()
})

t.test('what is released while another process has the limits is free when that is gone', (t) => {
  const limits = new MemoryLimits(() => 0)
  const sets: LimitSet[] = [
    { id: 'k', home: 'tenant:acme', level: 'key', scope: 'k', models: null, rates: { concurrency: 1, tpm: 100 } }
  ]
  const one = limits.decide(sets, 10) as Extract<Decision, { admitted: true }>
  const told: unknown[] = []
  limits.leave((id, used) => told.push([id, used]))
  one.lease.release(100)
  t.strictSame(told, [['0', 100]])
  limits.stay()
  const { states } = limits.look(sets, 1)
  t.match(states, [
    { name: 'concurrency', remaining: 1 },
    { name: 'tpm', remaining: 0 }
  ])
  t.end()
})
