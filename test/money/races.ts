// Races of requests on the limits and budgets of one key: what is admitted is what one process admits, by an oracle of
// its own, and each has its charge.
import type { Test } from 'tap'
import { ArrivalOracle, nanoCost } from '../kit/oracle.ts'
import { eventually } from '../kit/probe.ts'
import type { Plan, PlannedUpstream } from './planned.ts'
import { bodyOf, inParallel, key, long, prices } from './rig.ts'
import type { Asking, Entry, More, Seen } from './rig.ts'

/** How many of them pass where a limit is the tightest one. */
const fits = 17

const output = 30
/** How each asks. */
const asking: Asking = { body: { max_tokens: output } }

/** A request that uses exactly the tokens that are expected of it. All are equally long. */
function planned(race: string, index: number): Plan {
  const plan: Plan = { id: `${race.padEnd(12, '.')}${100_000 + index}`, units: { input: 100, output }, words: 2 }
  return { ...plan, units: { input: Math.ceil(bodyOf(plan, asking).length / 3), output } }
}

const { units } = planned('', 0)
const tokens = units['input']! + output
/** What each costs. */
const cost = nanoCost(units, prices['plain']!)
/** What is held for it: a token for each byte. */
const held = nanoCost({ input: bodyOf(planned('', 0), asking).length, output }, prices['plain']!)

const dollars = (nano: bigint): string =>
  String(nano)
    .padStart(10, '0')
    .replace(/(\d{9})$/, '.$1')
const budgetFor = (count: number): More => ({ usd: dollars(held * BigInt(count)), per: 'total' })

/** The levels of budgets, from the widest on. */
const levels = ['tenant', 'project', 'member', 'key'] as const
const rates = ['rps', 'rpm', 'tpm', 'concurrency'] as const
/** What of a race is the tightest. */
type Tightest = (typeof levels)[number] | (typeof rates)[number] | 'everything'
/** All of them. */
const races: readonly Tightest[] = [...levels, ...rates, 'everything']

/** How many of the requests of a race each limit and budget carries: one of them few, the others more. */
function carries(race: Tightest): Readonly<Record<string, number>> {
  if (race === 'everything')
    return { rps: 90, rpm: 70, tpm: 80, concurrency: 60, tenant: 51, project: 49, member: 47, key: 53 }
  return Object.fromEntries([...levels, ...rates].map((name) => [name, name === race ? fits : fits * 4]))
}

/** The tenant and the key of a race. */
function caller(race: Tightest): [tenant: More, key: More] {
  const { rps, rpm, tpm, concurrency, tenant, project, member, key: own } = carries(race)
  return [
    {
      budget: budgetFor(tenant!),
      projects: { web: { budget: budgetFor(project!), members: { ann: { budget: budgetFor(member!) } } } }
    },
    key(race, {
      tenant: `t-${race}`,
      project: 'web',
      member: 'ann',
      limits: { rps, rpm, tpm: tpm! * tokens, concurrency },
      budget: budgetFor(own!)
    })
  ]
}

/** The fewest and the most that one process would admit of a rush that took so long, in milliseconds. */
function oracle(race: Tightest, tookMs: number): [least: number, most: number] {
  const of = carries(race)
  const now = 1_000_000
  const rate = (limit: number, windowMs: number, size = 1): [number, number] => {
    const bounds = [0, tookMs].map((after) => {
      const bucket = new ArrivalOracle(limit, windowMs * 1000)
      let count = 0
      // What comes later finds what has leaked out by then. A bucket that is never empty for long loses nothing.
      for (let late = 0; ; late = Math.min(late + 100, after)) {
        for (; bucket.admits(now + late * 1000, size); count++) bucket.take(now + late * 1000, size)
        if (late === after) break
      }
      return count
    })
    return bounds as [number, number]
  }
  const bounds = [
    rate(of['rps']!, 1000),
    rate(of['rpm']!, 60_000),
    rate(of['tpm']! * tokens, 60_000, tokens),
    ...[...levels, 'concurrency'].map((name): [number, number] => [of[name]!, of[name]!])
  ]
  return [Math.min(...bounds.map(([least]) => least)), Math.min(...bounds.map(([, most]) => most))]
}

/** What races, and where. */
export interface Race {
  readonly upstream: PlannedUpstream
  /** How many race for each of the limits, and for all of them together. */
  readonly each: number
  readonly all: number
  /** Sends the request of this number. */
  ask(index: number, plan: Plan, how: Asking): Promise<Seen>
  /** Called when all have their answers; resolves when no hold of theirs is left. */
  settled?(): Promise<void>
  /** The entries of the journal, when all is over. */
  journal(): Promise<readonly Pick<Entry, 'request_id' | 'class' | 'kind' | 'source' | 'amount'>[]>
}

/** The tenants and keys of all races. */
export function callers(): { readonly tenants: Readonly<Record<string, More>>; readonly keys: readonly More[] } {
  const all = races.map((race) => [race, ...caller(race)] as const)
  return {
    tenants: Object.fromEntries(all.map(([race, tenant]) => [`t-${race}`, tenant])),
    keys: all.map(([, , one]) => one)
  }
}

/** Runs all races, and looks that each request was charged once. */
export async function race(t: Test, { upstream, each, all, ask, settled, journal }: Race): Promise<void> {
  const answered: Seen[] = []

  /** Sends so many at once; those admitted wait at the upstream until every other has its answer. */
  const rush = async (race: Tightest, count: number): Promise<[admitted: number, tookMs: number, codes: string[]]> => {
    const before = upstream.count
    const gate = Promise.withResolvers<void>()
    upstream.gate = gate.promise
    const from = performance.now()
    let answers = 0
    const asked = inParallel(count, 500 + fits * 4, async (index) => {
      const seen = await ask(index, planned(race, before + index), { ...asking, key: race })
      answers++
      return seen
    })
    await eventually(() => answers + upstream.count - before === count, long ? 300_000 : 120_000)
    const tookMs = Math.ceil(performance.now() - from)
    gate.resolve()
    const seen = await asked
    await settled?.()
    answered.push(...seen)
    const refused = seen.filter(({ status }) => status !== 200)
    const codes = [...new Set(refused.map(({ status, code }) => `${status} ${code}`))].sort()
    return [seen.length - refused.length, tookMs, codes]
  }

  for (const race of races) {
    const [admitted, tookMs, codes] = await rush(race, race === 'everything' ? all : each)
    const [least, most] = oracle(race, tookMs)
    t.ok(admitted >= least && admitted <= most, `${race}: ${admitted} of ${least} to ${most} that one process admits`)
    const isBudget = (levels as readonly string[]).includes(race)
    // What a limit refuses had its part of the budget for a moment, so another one may be refused by that instead.
    if (isBudget) t.same(codes, [`429 quota_${race}_exceeded`], race)
    else t.ok(codes.length > 0 && codes.every((code) => code.startsWith('429 ')), `${race}: ${codes}`)
    if (!isBudget) continue
    // They cost less than was held for them, so the rest of the budget carries some more.
    const left = (held * BigInt(fits) - cost * BigInt(admitted)) / held
    const [more] = await rush(race, each)
    t.equal(more, Number(left), `${race}: what is left after their charges`)
  }

  const admitted = answered.filter(({ status }) => status === 200)
  t.ok(
    admitted.every(({ ended }) => ended),
    'every admitted request was answered wholly'
  )
  t.equal(upstream.count, admitted.length, 'no other reached the upstream')
  const ends = (await journal()).filter((entry) => entry.class === 'terminal' && entry.kind === 'settle')
  const charges = Map.groupBy(ends, ({ request_id }) => request_id)
  const wrong = admitted.filter(({ id }) => {
    const [one, ...others] = charges.get(id!) ?? []
    return one?.amount !== cost || one.source !== 'upstream' || others.length > 0
  })
  t.same(wrong.slice(0, 3), [], 'each is charged once for what the upstream counted')
  t.equal(charges.size, admitted.length, 'and nothing else is charged')
}
