// Races of requests on the limits and budgets of one key, and how many of them one process admits, by an oracle of its
// own.
import { ArrivalOracle, nanoCost } from '../kit/oracle.ts'
import type { Plan } from './planned.ts'
import { bodyOf, key, prices } from './rig.ts'
import type { Asking, More } from './rig.ts'

/** How many of them pass where a limit is the tightest one. */
export const fits = 17

const output = 30
/** How each asks. */
export const asking: Asking = { body: { max_tokens: output } }

/** A request that uses exactly the tokens that are expected of it. All are equally long. */
export function planned(race: string, index: number): Plan {
  const plan: Plan = { id: `${race.padEnd(12, '.')}${100_000 + index}`, units: { input: 100, output }, words: 2 }
  return { ...plan, units: { input: Math.ceil(bodyOf(plan, asking).length / 3), output } }
}

const { units } = planned('', 0)
const tokens = units['input']! + output
/** What each costs. */
export const cost = nanoCost(units, prices['plain']!)
/** What is held for it: a token for each byte. */
export const held = nanoCost({ input: bodyOf(planned('', 0), asking).length, output }, prices['plain']!)

const dollars = (nano: bigint): string =>
  String(nano)
    .padStart(10, '0')
    .replace(/(\d{9})$/, '.$1')
const budgetFor = (count: number): More => ({ usd: dollars(held * BigInt(count)), per: 'total' })

/** The levels of budgets, from the widest on. */
export const levels = ['tenant', 'project', 'member', 'key'] as const
const rates = ['rps', 'rpm', 'tpm', 'concurrency'] as const
/** What of a race is the tightest. */
export type Tightest = (typeof levels)[number] | (typeof rates)[number] | 'everything'
/** All of them. */
export const races: readonly Tightest[] = [...levels, ...rates, 'everything']

/** How many of the requests of a race each limit and budget carries: one of them few, the others more. */
function carries(race: Tightest): Readonly<Record<string, number>> {
  if (race === 'everything')
    return { rps: 90, rpm: 70, tpm: 80, concurrency: 60, tenant: 51, project: 49, member: 47, key: 53 }
  return Object.fromEntries([...levels, ...rates].map((name) => [name, name === race ? fits : fits * 4]))
}

/** The tenant and the key of a race. */
export function caller(race: Tightest): [tenant: More, key: More] {
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
export function oracle(race: Tightest, tookMs: number): [least: number, most: number] {
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
