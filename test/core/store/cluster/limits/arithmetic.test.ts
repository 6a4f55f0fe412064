// The scripts against the limiter of one process, on a clock that both read: the same decisions, to the last digit.
import fc from 'fast-check'
import t from 'tap'
import type { LimitSet, Rates } from '../../../../../core/catalogue/caller.ts'
import { decideCall, Figures, Keys, releaseCall } from '../../../../../core/store/cluster/limits/figures.ts'
import type { TakenAt } from '../../../../../core/store/cluster/limits/figures.ts'
import { placeOf } from '../../../../../core/store/cluster/redis/address.ts'
import { connect } from '../../../../../core/store/cluster/redis/connection.ts'
import type { Connection } from '../../../../../core/store/cluster/redis/asker.ts'
import type { Reply } from '../../../../../core/store/cluster/redis/replies.ts'
import { run, Script } from '../../../../../core/store/cluster/redis/script.ts'
import type { Call } from '../../../../../core/store/cluster/redis/script.ts'
import { answerTo } from '../../../../../core/store/cluster/redis/server-connection.ts'
import type { Decision, Lease } from '../../../../../core/store/limits.ts'
import { MemoryLimits } from '../../../../../core/store/memory/limits.ts'
import { RedisServer, redisMissing } from '../../../../kit/redis.ts'

const second = 1_000_000
const minute = 60 * second

/** The scripts with the clock of the test, which keys outlive. */
const clocked = new Map<Script, Script>()

function withClock(call: Call): Call {
  let script = clocked.get(call.script)
  if (!script) {
    const text = call.script.text
      .replace("redis.call('TIME')", "redis.call('HMGET', 'clock', 'seconds', 'rest')")
      .replace("'PX', math.ceil(left / 1000) + 1", "'PX', 1000000")
      .replace("redis.call('PEXPIRE', key, math.ceil(lease / 1000))", '')
    clocked.set(call.script, (script = new Script(text)))
  }
  return { ...call, script }
}

function answerOf(connection: Connection, call: Call): Promise<Reply> {
  return new Promise((done, failed) => run(connection, call, { done, failed }))
}

/** Asks Redis as the limiter of a node does. */
class Scripted {
  readonly #connection: Connection
  readonly #keys: Keys
  #last = 0

  constructor(connection: Connection, prefix: string) {
    this.#connection = connection
    this.#keys = new Keys(prefix)
  }

  async tell(now: number): Promise<void> {
    const rest = [String(Math.floor(now / second)), 'rest', String(now % second)]
    await answerTo(this.#connection, ['HSET', 'clock', 'seconds', ...rest])
  }

  async decide(
    what: 'take' | 'look',
    sets: readonly LimitSet[],
    tokens: number,
    within: boolean
  ): Promise<{ decision: Decision; release(used: number | undefined): Promise<void> }> {
    const name = String(++this.#last)
    const keys = sets.map((set) => this.#keys.of(set))
    const slots = within ? [] : keys.flatMap((one) => one.slots ?? [])
    const call = decideCall(what, keys, tokens, slots.length > 0 ? name : undefined, 1e9)
    const figures = new Figures(sets, (await answerOf(this.#connection, withClock(call))) as Buffer)
    const taken: TakenAt | undefined = figures.admitted ? figures.taken(tokens, this.#keys) : undefined
    return {
      decision: figures.decision(tokens, within, { release: () => {} }),
      release: async (used) => {
        const end = releaseCall(name, slots, taken, used)
        if (end.keys.length > 0) await answerOf(this.#connection, withClock(end))
      }
    }
  }
}

/** Without the lease, which is not compared. */
function told(decision: Decision): unknown {
  if (!decision.admitted) return decision
  const { admitted, states } = decision
  return { admitted, states }
}

/**
 * Other rates. Requests count in a limit of concurrency that there was when they began, so it neither comes nor goes. A
 * bucket that has run empty is forgotten, with its limit, so that of tokens stays while some are to be corrected.
 */
function changed({ concurrency, tpm }: Rates, to: Rates, held: boolean): Rates {
  return {
    ...to,
    tpm: held ? tpm : to.tpm,
    concurrency: concurrency === undefined ? undefined : (to.concurrency ?? concurrency)
  }
}

// Twice what a bucket of a minute holds is a whole number that a double has exactly. Above that, content that leaks in
// several steps differs in its last digit from content that leaks in one.
const most = Math.floor(Number.MAX_SAFE_INTEGER / (2 * minute))
const rate = fc.option(fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: most })), {
  nil: undefined
})
const rates = fc.record<Rates>({ rps: rate, rpm: rate, tpm: rate, concurrency: rate })

const move = fc.record({
  wait: fc.oneof(fc.constant(0), fc.nat(2000), fc.nat(3 * second), fc.nat(2 * minute)),
  what: fc.constantFrom('take', 'take', 'take', 'look', 'release', 'release', 'within'),
  // Which of the sets take part.
  mask: fc.integer({ min: 1, max: 7 }),
  tokens: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 50 }), fc.nat(2_000_000_000)),
  used: fc.option(fc.oneof(fc.nat(60), fc.nat(2_000_000_000)), { nil: undefined }),
  which: fc.nat(1000),
  change: fc.option(rates, { nil: undefined, freq: 20 })
})

void t.test('whatever is asked, Redis decides as one process does', { skip: redisMissing }, async (t) => {
  const { url } = await RedisServer.start(t)
  const place = placeOf({ url })
  const { signal } = new AbortController()
  const connection = await connect({ place, timeout: 5000, lost: (error) => t.fail(String(error)), signal })
  t.teardown(() => connection.destroy())
  let decided = 0
  let refused = 0
  let round = 0
  const property = fc.asyncProperty(
    fc.tuple(rates, rates, rates),
    fc.array(move, { minLength: 10, maxLength: 40 }),
    async (first, moves) => {
      const clock = { now: 1_795_000_000 * second }
      const memory = new MemoryLimits(() => clock.now)
      const redis = new Scripted(connection, `round${++round}`)
      const limits = [...first]
      const held: { memory: Lease; redis: { release(used: number | undefined): Promise<void> } }[] = []
      for (const { wait, what, mask, tokens, used, which, change } of moves) {
        clock.now += wait
        await redis.tell(clock.now)
        if (change) limits[which % 3] = changed(limits[which % 3]!, change, held.length > 0)
        if (what === 'release') {
          const [one] = held.splice(which % Math.max(1, held.length), 1)
          one?.memory.release(used)
          await one?.redis.release(used)
          continue
        }
        const sets = limits.flatMap((its, at): LimitSet[] =>
          mask & (1 << at) ? [{ id: `s${at}`, home: 'h', level: 'key', scope: 'k', models: null, rates: its }] : []
        )
        const within = what === 'within'
        const expected = what === 'look' ? memory.look(sets, tokens) : memory.decide(sets, tokens, within)
        const got = await redis.decide(what === 'look' ? 'look' : 'take', sets, tokens, within)
        decided++
        if (!expected.admitted) refused++
        if (JSON.stringify(told(got.decision)) !== JSON.stringify(told(expected)))
          throw new Error(`${JSON.stringify(told(got.decision))} instead of ${JSON.stringify(told(expected))}`)
        if (expected.admitted && what !== 'look') held.push({ memory: expected.lease, redis: got })
      }
    }
  )
  await t.resolves(fc.assert(property, { numRuns: 300 }))
  t.ok(decided > 1000, `${decided} decisions were compared`)
  t.ok(refused > 100, `${refused} of them were refusals`)
})
