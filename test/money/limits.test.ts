// Rates, tokens and slots through the whole gateway, on a clock that stands still: what is admitted is what the oracle
// admits.
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { constants } from 'node:http2'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { gateway } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { openSession } from '../kit/http2.ts'
import { ArrivalOracle, nanoCost, SlotOracle } from '../kit/oracle.ts'
import { eventually, figures, settled } from '../kit/probe.ts'
import { PlannedUpstream } from './planned.ts'
import type { Plan } from './planned.ts'
import { ask, bodyOf, chance, configOf, folder, inParallel, key, long, prices, secretOf } from './rig.ts'
import type { Asking, More, Seen } from './rig.ts'

t.setTimeout(600_000)

const output = 30
const asking: Asking = { body: { max_tokens: output } }

/** A request that uses exactly the tokens that are expected of it, so that nothing is to be corrected. */
function expected(id: number): Plan {
  const plan: Plan = { id: `x${10_000 + id}`, units: { input: 100, output }, words: 2 }
  return { ...plan, units: { input: Math.ceil(bodyOf(plan, asking).length / 3), output } }
}

const { units } = expected(0)
const tokens = units['input']! + output
const cost = nanoCost(units, prices['plain']!)

/** Stops the clock of this process, gateway included; only what is returned moves it, in milliseconds. */
function stopClock(t: Test): (ms: number) => void {
  let at = Math.ceil(performance.now())
  const { now } = performance
  Object.defineProperty(performance, 'now', { value: () => at, configurable: true, writable: true })
  t.teardown(() => Object.defineProperty(performance, 'now', { value: now, configurable: true, writable: true }))
  return (ms) => void (at += ms)
}

interface Bench {
  running: LocalGateway
  upstream: PlannedUpstream
  /** Declares other keys. */
  declare(keys: readonly More[]): Promise<void>
}

async function open(t: Test, keys: readonly More[], limits: More = {}): Promise<Bench> {
  const upstream = await PlannedUpstream.start(t)
  const config = configOf([upstream], {
    store: { sqlite: join(folder(t), 'sluice.db'), durability: 'process' },
    limits
  })
  const text = (keys: readonly More[]): string => JSON.stringify({ ...config, keys })
  const running = await gateway(t, text(keys))
  return {
    running,
    upstream,
    async declare(others) {
      writeFileSync(running.file, text(others))
      t.match(await running.gateway.reload('other keys'), { ok: true })
    }
  }
}

/** Sends so many at once; those admitted wait at the upstream until every other has its answer. */
async function burst(
  { running, upstream }: Bench,
  name: string,
  count: number
): Promise<{ admitted: Seen[]; refused: Seen[] }> {
  const before = upstream.count
  const gate = Promise.withResolvers<void>()
  upstream.gate = gate.promise
  let answered = 0
  const answers = Array.from({ length: count }, async (_, i) => {
    const seen = await ask(running.url, expected(i), { ...asking, key: name })
    answered++
    return seen
  })
  await eventually(() => answered + upstream.count - before === count)
  gate.resolve()
  const seen = await Promise.all(answers)
  await eventually(async () =>
    (await running.admin('/admin/v1/balances?limit=1000')).data.every((one: any) => one.pending_nano === '0')
  )
  return { admitted: seen.filter(({ status }) => status === 200), refused: seen.filter(({ status }) => status !== 200) }
}

/** What is wrong with a reply's headers, given the limits of its key. */
function contradictions({ status, headers, code }: Seen, limits: Readonly<Record<string, number>>): string[] {
  const [limit, remaining, reset] = ['limit', 'remaining', 'reset'].map((name) =>
    Number(headers[`x-ratelimit-${name}`])
  ) as [number, number, number]
  const wrong: string[] = []
  const check = (holds: boolean, what: string): void =>
    void (holds || wrong.push(`${what}: ${status} ${code} ${limit} ${remaining} ${reset} ${headers['retry-after-ms']}`))
  check(Object.values(limits).includes(limit), 'no limit of the key')
  check(Number.isInteger(remaining) && remaining >= 0 && remaining < limit, 'not what can be left')
  check(Number.isInteger(reset) && reset >= 0, 'no time')
  if (status === 200)
    return 'retry-after' in headers || 'retry-after-ms' in headers ? [...wrong, 'an answer says to retry'] : wrong
  const name = code!.replace('rate_limit_', '')
  const ms = Number(headers['retry-after-ms'])
  check(status === 429 && name in limits && limits[name] === limit, 'not the limit that refused')
  check(remaining < (name === 'tpm' ? tokens : 1), 'refused although there is enough')
  check(
    ms > 0 && Math.ceil(ms / 1000) === Number(headers['retry-after']) && reset === Number(headers['retry-after']),
    'not the same moment'
  )
  check(!('x-should-retry' in headers), 'waiting helps')
  return wrong
}

/** How many of a burst the limits admit, all of them or none each time. */
class Oracle {
  readonly #rates: { limit: ArrivalOracle; units: number }[] = []
  readonly #concurrency: number

  constructor({
    rps,
    rpm,
    tpm,
    concurrency = Infinity
  }: {
    rps?: number
    rpm?: number
    tpm?: number
    concurrency?: number
  }) {
    if (rps) this.#rates.push({ limit: new ArrivalOracle(rps, 1_000_000), units: 1 })
    if (rpm) this.#rates.push({ limit: new ArrivalOracle(rpm, 60_000_000), units: 1 })
    if (tpm) this.#rates.push({ limit: new ArrivalOracle(tpm, 60_000_000), units: tokens })
    this.#concurrency = concurrency
  }

  /** All slots are free before. */
  burst(nowMs: number, count: number): number {
    const slots = new SlotOracle(this.#concurrency)
    const now = nowMs * 1000
    for (let i = 0; i < count; i++) {
      if (!slots.admits() || !this.#rates.every(({ limit, units }) => limit.admits(now, units))) continue
      slots.taken++
      for (const { limit, units } of this.#rates) limit.take(now, units)
    }
    return slots.taken
  }
}

const cases: Readonly<Record<string, Record<string, number>>> = {
  'per-second': { rps: 70 },
  'odd-minute': { rpm: 97 },
  tokens: { tpm: tokens * 31 + 5 },
  slots: { concurrency: 23 },
  everything: { rps: 60, rpm: 150, tpm: tokens * 100, concurrency: 40 },
  'slots-first': { rps: 500, rpm: 5000, tpm: tokens * 1000, concurrency: 11 }
}

t.test('bursts of a thousand are admitted exactly as far as the limits reach, and headers agree', async (t) => {
  const move = stopClock(t)
  const bench = await open(
    t,
    Object.entries(cases).map(([name, limits]) => key(name, { limits }))
  )
  let admittedInAll = 0
  for (const [name, limits] of Object.entries(cases)) {
    const oracle = new Oracle(limits)
    const most = name === 'everything' || name === 'slots-first' ? 1000 : 300
    for (const [step, count] of [
      [0, most],
      [0, 20],
      [137, 60],
      [1000, 90],
      [7001, 120]
    ] as const) {
      move(step)
      const at = Math.ceil(performance.now())
      const { admitted, refused } = await burst(bench, name, count)
      t.equal(admitted.length, oracle.burst(at, count), `${name}: ${count} at once, after ${step} ms`)
      t.ok(
        admitted.every(({ ended }) => ended),
        name
      )
      const wrong = [...admitted, ...refused].flatMap((seen) => contradictions(seen, limits))
      t.same(wrong.slice(0, 3), [], `${name}: headers of the decision`)
      admittedInAll += admitted.length
    }
    // The moment that a refusal names is the first at which one passes.
    if (limits['concurrency'] === undefined) {
      const { refused } = await burst(bench, name, 100)
      const wait = Number(refused.at(-1)!.headers['retry-after-ms'])
      move(wait - 1)
      t.equal((await burst(bench, name, 3)).admitted.length, 0, `${name}: a millisecond too early`)
      move(1)
      t.equal((await burst(bench, name, 3)).admitted.length, 1, `${name}: when it was said`)
      admittedInAll++
    }
  }
  t.equal(bench.upstream.count, admittedInAll, 'no other reached the upstream')
})

const names = ['quota', 'rps', 'rpm', 'tpm', 'concurrency'] as const

/** A limit as a key declares it, enough for so many requests. */
function limitOf(name: (typeof names)[number], count: number): More {
  if (name === 'quota') return { budget: { usd: `0.${String(worst * BigInt(count)).padStart(9, '0')}`, per: 'total' } }
  return { limits: { [name]: name === 'tpm' ? tokens * count : count } }
}

/** What quota holds: a token for each byte. Charged is less, so budgets are counted by what is held at one time. */
const worst = nanoCost({ input: bodyOf(expected(0), asking).length, output }, prices['plain']!)

t.test('a request that one limit refuses uses up nothing of any other', async (t) => {
  stopClock(t)
  const pairs = names.flatMap((refusing) =>
    names.filter((other) => other !== refusing).map((other) => ({ refusing, other, name: `${refusing}-${other}` }))
  )
  const both = ({ refusing, other, name }: (typeof pairs)[number]): More => {
    const [one, two] = [limitOf(refusing, 1), limitOf(other, 5)] as Record<string, any>[]
    return key(name, { ...one, ...two, limits: { ...one!['limits'], ...two!['limits'] } })
  }
  const bench = await open(t, pairs.map(both))
  for (const { refusing, name } of pairs) {
    const { admitted, refused } = await burst(bench, name, 30)
    t.equal(admitted.length, 1, name)
    const code = refusing === 'quota' ? 'quota_key_exceeded' : `rate_limit_${refusing}`
    t.same([...new Set(refused.map((seen) => seen.code))], [code], `${name}: who refused`)
  }
  await bench.declare(pairs.map(({ other, name }) => key(name, limitOf(other, 5))))
  for (const { other, name } of pairs) {
    const { admitted } = await burst(bench, name, 10)
    // Slots are free again, and of a budget only the one that was let in has used a part.
    const left = other === 'concurrency' ? 5 : other === 'quota' ? Number((worst * 5n - cost) / worst) : 4
    t.equal(admitted.length, left, `${name}: all the rest is there`)
  }
  await settled(t, bench.running)
})

const leaving = long ? 10_000 : 2000

t.test(`${leaving} streams whose clients leave keep no slot`, async (t) => {
  const slots = 40
  const bench = await open(t, [key('test', { limits: { concurrency: slots } })], { on_disconnect: 'abort' })
  const { running, upstream } = bench
  const random = chance(7)
  let tried = 0
  await inParallel(leaving, slots, async (index) => {
    const plan: Plan = {
      id: `s${index}`,
      units,
      words: 3 + random(12),
      gap: random(2),
      ...(random(4) === 0 && { stopAt: 2 }),
      ...(random(20) === 0 && { fault: 'hold' })
    }
    const arrived =
      random(3) === 0 || plan.fault || plan.stopAt
        ? { leave: eventually(() => upstream.seen.has(plan.id), 10_000).catch(() => {}) }
        : { leaveAt: random(900) }
    // A slot is given back when the exchange is settled, which may be a moment after its client is gone.
    for (;;) {
      tried++
      const { status } = await ask(running.url, plan, { stream: true, ...arrived })
      if (status !== 429) return
    }
  })
  t.equal(upstream.seen.size, leaving, `${tried} tries`)
  await eventually(async () => (await figures(t, running)).get('sluice_exchanges_running') === 0, 10_000)
  const { admitted, refused } = await burst(bench, 'test', slots + 5)
  t.same([admitted.length, refused.length], [slots, 5], 'all slots are free')
  await settled(t, running)
})

t.test('streams that are reset on HTTP/2 connections keep no slot either', async (t) => {
  const slots = 25
  const bench = await open(t, [key('test', { limits: { concurrency: slots } })], { on_disconnect: 'abort' })
  const { running, upstream } = bench
  // A connection with many resets is closed as an attack.
  let session = openSession(t, running.url)
  let resets = 0
  const headers = {
    ':method': 'POST',
    ':path': '/v1/chat/completions',
    authorization: `Bearer ${secretOf('test')}`,
    'content-type': 'application/json'
  }
  const random = chance(11)
  await inParallel(long ? 2000 : 300, slots, async (index) => {
    const plan: Plan = {
      id: `h${index}`,
      units,
      words: 3 + random(12),
      gap: random(2),
      ...(random(3) === 0 && { stopAt: 2 })
    }
    while (!upstream.seen.has(plan.id)) {
      if (++resets % 50 === 0) session = openSession(t, running.url)
      const stream = session.request(headers)
      stream.on('error', () => {})
      const closed = once(stream, 'close')
      const more = random(3) > 0
      // Reset at its head or at its first piece; one that is refused just ends.
      stream.on(more ? 'data' : 'response', () => stream.close(constants.NGHTTP2_CANCEL))
      stream.resume().end(bodyOf(plan, { stream: true }))
      await closed
    }
  })
  await eventually(async () => (await figures(t, running)).get('sluice_exchanges_running') === 0, 10_000)
  const { admitted, refused } = await burst(bench, 'test', slots + 5)
  t.same([admitted.length, refused.length], [slots, 5], 'all slots are free')
  await settled(t, running)
})
