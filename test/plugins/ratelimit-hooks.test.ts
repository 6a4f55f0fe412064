// The hooks of ratelimit one by one, on the real limiter and a clock that the test moves: which limit is shown and
// named, in which words, and what is taken and given back.
import fc from 'fast-check'
import t from 'tap'
import type { LimitSet, Rates } from '../../core/catalogue/caller.ts'
import { GatewayError } from '../../core/errors.ts'
import type { LimitReason } from '../../core/errors.ts'
import { MemoryLimits } from '../../core/store/memory/limits.ts'
import type { Limits } from '../../core/store/limits.ts'
import { Attempt } from '../../core/contract/attempt.ts'
import { caller } from '../../core/contract/slots.ts'
import ratelimit from '../../plugins/ratelimit/index.ts'

const second = 1_000_000

type Hooks = Awaited<ReturnType<typeof ratelimit.setup>>
type Setting = Parameters<typeof ratelimit.setup>[0]

interface Rig {
  hooks: Hooks
  limits: MemoryLimits
  /** Microseconds. */
  clock: { now: number }
}

async function rig(setting: Partial<Setting> = {}, parts: { later?: boolean; catalogue?: object } = {}): Promise<Rig> {
  const clock = { now: 3600 * second }
  const limits = new MemoryLimits(() => clock.now)
  const later: Limits = {
    decide: async (...args) => limits.decide(...args),
    look: async (...args) => limits.look(...args)
  }
  const options = { reset: 'delta', expected_output: 10, ...setting } as Setting
  const { catalogue = {} } = parts
  const hooks = await ratelimit.setup(options, {
    catalogue,
    services: { limits: parts.later ? later : limits }
  } as never)
  return { hooks, limits, clock }
}

function setOf(rates: Rates, more: Partial<LimitSet> = {}): LimitSet {
  return { id: 'key:k', home: 'tenant:acme', level: 'key', scope: 'key:k', models: null, rates, ...more }
}

/** A request without tokens, with what the hooks did to it. */
class Asking {
  readonly headers: Record<string, unknown> = {}
  readonly ends: ((outcome: object) => unknown)[] = []
  readonly attempts: object[] = []
  readonly model = 'demo'
  readonly request = { operation: {} }
  readonly rehearsal: boolean
  readonly who: object
  readonly #slots = new Map<unknown, unknown>()

  constructor(
    sets: readonly LimitSet[],
    { rehearsal = false, ...who }: { rehearsal?: boolean; digest?: Buffer; secret?: object } = {}
  ) {
    this.rehearsal = rehearsal
    this.who = { limitsOf: () => sets, ...who }
  }

  get(): object {
    return this.who
  }

  find(slot: unknown): unknown {
    return slot === caller ? this.who : this.#slots.get(slot)
  }

  /** @throws Error when the slot was written before, as an exchange does */
  set(slot: unknown, value: unknown): void {
    if (this.#slots.has(slot)) throw new Error('a slot is written once')
    this.#slots.set(slot, value)
  }

  setHeader(name: string, value: unknown): void {
    this.headers[name] = value
  }

  defer(end: (outcome: object) => unknown): void {
    this.ends.push(end)
  }

  end(outcome: object = { kind: 'completed' }): void {
    for (const end of this.ends.splice(0)) end(outcome)
  }
}

interface Asked {
  asking: Asking
  error: GatewayError | undefined
}

async function ask({ hooks }: Rig, sets: readonly LimitSet[], more: { rehearsal?: boolean } = {}): Promise<Asked> {
  const asking = new Asking(sets, more)
  return { asking, error: await refusal(() => hooks.onRequest!(asking as never)) }
}

async function refusal(act: () => unknown): Promise<GatewayError | undefined> {
  try {
    await act()
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
  return undefined
}

/** A turn of a session. */
function turnOf(more: object = {}): { turn: object; ends: (() => void)[] } {
  const ends: (() => void)[] = []
  return { ends, turn: { input: { typical: 100 }, defer: (end: () => void) => ends.push(end), ...more } }
}

const shown = ({ asking: { headers } }: Asked): unknown[] =>
  ['Limit', 'Remaining', 'Reset'].map((name) => headers[`X-RateLimit-${name}`])

t.test('the limit with the smallest share left is shown, the first of those with the same', async (t) => {
  const rate = fc.integer({ min: 3, max: 40 })
  await fc.assert(
    fc.asyncProperty(rate, rate, fc.array(rate, { maxLength: 2 }), fc.nat(2), async (rps, rpm, more, before) => {
      const own = await rig()
      const sets = [setOf({ rps, rpm }), ...more.map((limit, i) => setOf({ rpm: limit }, { id: `k${i}` }))]
      for (let i = 0; i < before; i++) await ask(own, sets)
      const asked = await ask(own, sets)
      const taken = before + 1
      const shares = [rps, rpm, ...more].map((limit) => ({ limit, left: limit - taken }))
      const least = shares.reduce((a, b) => (b.left * a.limit < a.left * b.limit ? b : a))
      const [limit, left] = shown(asked)
      return limit === least.limit && left === least.left
    }),
    { numRuns: 200 }
  )
  const one = await rig()
  t.same(shown(await ask(one, [setOf({ rps: 2, rpm: 2 })])), [2, 1, 1], 'that of the second, which comes first')
})

t.test('reset is told in whole seconds that have passed by then, from now or as a point in time', async (t) => {
  const own = await rig()
  t.same(shown(await ask(own, [setOf({ rpm: 60 })])), [60, 59, 1], 'exactly a second')
  t.same(shown(await ask(own, [setOf({ rpm: 40 }, { id: 'b' })])), [40, 39, 2], 'a second and a half')
  const epoch = await rig({ reset: 'epoch' })
  const began = Date.now()
  const [, , reset] = shown(await ask(epoch, [setOf({ rpm: 2 })]))
  t.ok((reset as number) * 1000 >= began + 30_000, 'not too early')
  t.ok((reset as number) * 1000 < Date.now() + 31_000, 'and less than a second late')
})

t.test('a refusal names whose limit it is, which, for which models, and when to try again', async (t) => {
  const cases: [rates: Rates, more: Partial<LimitSet>, message: string, retryAfterMs: number][] = [
    [{ rps: 2 }, {}, 'This API key is limited to 2 requests per second: 1 asked for, 0 left. Try again in 0.5 s.', 500],
    [
      { rpm: 4 },
      { level: 'tenant', scope: 'tenant:acme' },
      'The tenant acme is limited to 4 requests per minute: 1 asked for, 0 left. Try again in 15 s.',
      15_000
    ],
    [
      { rpm: 7 },
      { level: 'project', scope: 'project:acme/web', models: 'gpt-*' },
      'The project acme/web is limited to 7 requests per minute of models gpt-*: 1 asked for, 0 left. Try again in 8.572 s.',
      8572
    ],
    [
      { rpm: 3 },
      {},
      'This API key is limited to 3 requests per minute: 1 asked for, 0 left. Try again in 20 s.',
      20_000
    ],
    [
      { concurrency: 1 },
      {},
      'This API key is limited to 1 requests at the same time: 1 asked for, 0 left. Try again when another one has ended.',
      1000
    ]
  ]
  for (const [rates, more, message, retryAfterMs] of cases) {
    const own = await rig()
    const set = setOf(rates, more)
    const limit = Object.values(rates)[0] as number
    for (let i = 0; i < limit; i++) t.notOk((await ask(own, [set])).error)
    const began = Date.now()
    const asked = await ask(own, [set])
    const { error } = asked
    t.equal(error!.message, message)
    const name = Object.keys(rates)[0]!
    t.equal(error!.code, `rate_limit_${name}`)
    t.equal(error!.details.retryAfterMs, retryAfterMs)
    t.same(shown(asked), [limit, 0, Math.ceil(retryAfterMs / 1000)], 'the headers name the same moment')
    const { free_at: free, ...reason } = error!.details.reason as LimitReason
    t.same(reason, {
      by: 'limit',
      level: set.level,
      scope: set.scope,
      limit_name: name,
      models: set.models,
      limit,
      asked: 1,
      used: limit,
      left: 0
    })
    if (name === 'concurrency') t.equal(free, null, 'nobody knows when an exchange ends')
    else {
      t.ok(Date.parse(free!) >= began + retryAfterMs)
      t.ok(Date.parse(free!) <= Date.now() + retryAfterMs)
    }
    t.equal(asked.asking.ends.length, 0, 'it has taken nothing that it could give back')
  }
})

t.test('long waits are told in whole seconds, rounded up, and short ones exactly', async (t) => {
  const own = await rig()
  const set = setOf({ rpm: 1 })
  await ask(own, [set])
  const words = async (): Promise<string> => /in (\S+) s/.exec((await ask(own, [set])).error!.message)![1]!
  own.clock.now += 49.5 * second
  t.equal(await words(), '11', '10.5')
  own.clock.now += 0.5 * second
  t.equal(await words(), '10')
  own.clock.now += 0.5 * second
  t.equal(await words(), '9.5')
})

t.test('a limiter that answers later does the same to requests and turns', async (t) => {
  const own = await rig({}, { later: true })
  const set = setOf({ rpm: 2, concurrency: 2 })
  const { asking, error } = await ask(own, [set])
  t.equal(error, undefined)
  t.equal(asking.ends.length, 1)
  const { turn, ends } = turnOf()
  await own.hooks.onTurn!(asking as never, turn as never)
  t.equal(ends.length, 1)
  t.match((await ask(own, [set])).error, { code: 'rate_limit_rpm' })
  t.match(await refusal(() => own.hooks.onTurn!(asking as never, turnOf().turn as never)), { code: 'rate_limit_rpm' })
})

t.test('nothing is taken from whoever only asks what would happen, and a refusal is told all the same', async (t) => {
  const own = await rig()
  const set = setOf({ rpm: 1, concurrency: 1 })
  for (let i = 0; i < 3; i++) t.equal((await ask(own, [set], { rehearsal: true })).error, undefined)
  t.equal((await ask(own, [set])).error, undefined)
  t.match((await ask(own, [set], { rehearsal: true })).error, { code: 'rate_limit_rpm' })
})

t.test('a slot is free again when the request has ended, and a caller without limits asks nobody', async (t) => {
  const own = await rig()
  const set = setOf({ concurrency: 1 })
  const { asking } = await ask(own, [set])
  t.ok((await ask(own, [set])).error)
  asking.end()
  t.notOk((await ask(own, [set])).error)
  const free = await ask(own, [])
  t.same(free.asking.headers, {})
  t.equal(free.asking.ends.length, 0)
})

t.test(
  'what was expected is given back where no upstream has anything of it, and kept where nobody counted',
  async (t) => {
    const usage = {
      usage: { input: 30, cached_input: 500, cache_write: 0, output: 12, reasoning: 0 },
      source: 'upstream'
    }
    const sent = { dispatched: true }
    for (const [attempts, kind, used, why] of [
      [[{}, { usage }], 'completed', 42, 'what the last attempt has counted, without what a cache spared'],
      [[{ usage }, { usage }], 'failed', 42, 'a failure that was counted'],
      [[{ usage }, {}], 'failed', 0, 'a failure that nobody counted'],
      [[sent], 'aborted', 11, 'the client left'],
      [[{ ...sent, status: 200 }], 'aborted', 11, 'the client left when the answer had begun'],
      [[{ ...sent, status: 429 }], 'aborted', 0, 'the client left when the upstream had refused'],
      [[{ ...sent, error: { details: { untaken: true } } }], 'aborted', 0, 'the client left before it was sent'],
      [[{ ...sent, status: 503 }, sent], 'aborted', 11, 'the client left when another had it'],
      [[sent, { ...sent, status: 503 }], 'aborted', 11, 'the client left when the first had had it'],
      [[{ dispatched: false }], 'aborted', 0, 'the client left before any was asked'],
      [[sent], 'completed', 11, 'a whole answer that nobody counted'],
      [[], 'completed', 0, 'no upstream was asked'],
      [[], 'aborted', 0, 'no upstream was asked before the client left']
    ] as const) {
      const own = await rig()
      const set = setOf({ tpm: 1000 })
      const asking = new Asking([set])
      // Three bytes are a token.
      const body = { bytes: Buffer.alloc(3), fields: { number() {} } }
      Object.assign(asking, { body, request: { operation: { metering: { outputLimits: ['max_tokens'] } } } })
      Object.assign(body.fields, { has: () => false, string() {}, json() {} })
      await own.hooks.onRequest!(asking as never)
      t.equal(own.limits.look([set], 1).states[0]!.remaining, 989, 'ten of output are expected, and one of input')
      asking.attempts.push(...attempts.map((one) => Object.setPrototypeOf({ ...one }, Attempt.prototype) as object))
      asking.end({ kind })
      t.equal(1000 - own.limits.look([set], 1).states[0]!.remaining, used, why)
    }
  }
)

t.test('a turn asks the limiter where its caller has a rate of any kind', async () => {
  const rate = fc.option(fc.constant(5), { nil: undefined })
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ rps: rate, rpm: rate, tpm: rate, concurrency: rate }), { maxLength: 2 }),
      async (all) => {
        const own = await rig()
        const sets = all.map((rates, i) => setOf(rates, { id: `k${i}` }))
        const { turn, ends } = turnOf()
        await refusal(() => own.hooks.onTurn!(new Asking(sets) as never, turn as never))
        const rated = all.filter(({ rps, rpm, tpm }) => [rps, rpm, tpm].some((one) => one !== undefined)).length
        const { size } = own.limits
        // A set of which nothing was taken is not remembered for long.
        return ends.length === Math.min(rated, 1) && size >= rated && size <= (rated > 0 ? sets.length : 0)
      }
    ),
    { numRuns: 100 }
  )
})

t.test('an open session is held to the limits that its key has by now', async (t) => {
  const key = Buffer.from('key')
  const issuer = Buffer.from('issuer')
  const now = new Map<Buffer, Rates>()
  const findKey = (digest: Buffer): object | undefined => {
    const rates = now.get(digest)
    return rates && { limitsOf: () => [setOf(rates)] }
  }
  for (const [who, known] of [
    [{ digest: key }, key],
    [{ digest: key, secret: { issuer } }, issuer]
  ] as const) {
    const own = await rig({}, { catalogue: { findKey } })
    const session = new Asking([setOf({ rpm: 1 })], who)
    const turn = () => refusal(() => own.hooks.onTurn!(session as never, turnOf().turn as never))
    const look = (): void => void own.hooks.whileOpen!(session as never)
    now.clear()
    look()
    t.equal(await turn(), undefined)
    t.match(await turn(), { code: 'rate_limit_rpm' }, 'a key that is gone leaves the limits as they were')
    now.set(known, { rpm: 2 })
    t.match(await turn(), { code: 'rate_limit_rpm' }, 'nobody has looked yet')
    look()
    t.equal(await turn(), undefined)
    t.match(await turn(), { code: 'rate_limit_rpm' })
    now.set(known, { rpm: 3 })
    look()
    t.equal(await turn(), undefined)
    t.match(await turn(), { code: 'rate_limit_rpm' })
  }
  const { hooks } = await rig({}, { catalogue: { findKey } })
  const nobody = new Asking([])
  Object.assign(nobody, { find() {} })
  t.doesNotThrow(() => hooks.whileOpen!(nobody as never), 'a session without a caller')
})

t.test('standings tell every limit of a model with what is left and when it is whole', async (t) => {
  for (const later of [false, true]) {
    const own = await rig({}, { later })
    const sets = [
      setOf({ rpm: 60, tpm: 1000, concurrency: 3 }, { level: 'tenant', scope: 'tenant:acme' }),
      setOf({ rps: 5 }, { id: 'b', models: 'gpt-*' })
    ]
    own.limits.decide(sets, 500)
    const began = Date.now()
    const asked: unknown[] = []
    const limitsOf = (model: string) => (asked.push(model), sets)
    const standings = await own.hooks.reportStandings!({ limitsOf } as never, 'gpt-5')
    const ended = Date.now()
    t.same(asked, ['gpt-5'])
    const tenant = { by: 'limit', level: 'tenant', scope: 'tenant:acme', models: null }
    t.same(
      standings.map(({ resets_at: _at, ...rest }) => rest),
      [
        { ...tenant, limit_name: 'concurrency', limit: 3, used: 1, left: 2 },
        { ...tenant, limit_name: 'rpm', limit: 60, used: 1, left: 59 },
        { ...tenant, limit_name: 'tpm', limit: 1000, used: 500, left: 500 },
        { by: 'limit', level: 'key', scope: 'key:k', models: 'gpt-*', limit_name: 'rps', limit: 5, used: 1, left: 4 }
      ]
    )
    for (const [at, wait] of [null, 1000, 30_000, 200].entries()) {
      const { resets_at: resets } = standings[at]!
      if (wait === null) t.equal(resets, null)
      else t.ok(Date.parse(resets!) >= began + wait && Date.parse(resets!) <= ended + wait, `${resets}`)
    }
    t.same(await own.hooks.reportStandings!({ limitsOf: () => [] } as never, 'gpt-5'), [])
  }
})
