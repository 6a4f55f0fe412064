// Requests that race over the workers of a gateway on limits and budgets of one key: what is admitted is what one
// process admits, by an oracle of its own, and each has its charge.
import { join } from 'node:path'
import t from 'tap'
import { stringify } from 'yaml'
import { verify } from '../../../core/store/embedded/care/verify.ts'
import { gateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { PlannedUpstream } from '../../money/planned.ts'
import { asking, caller, cost, fits, held, levels, oracle, planned, races } from '../../money/races.ts'
import type { Tightest } from '../../money/races.ts'
import { ask, configOf, folder, inParallel, journal, long } from '../../money/rig.ts'
import type { Seen } from '../../money/rig.ts'

t.setTimeout(long ? 1_800_000 : 600_000)

/** How many race for each of the limits, and for all of them together. */
const [each, all] = long ? [1000, 10_000] : [60, 300]

for (const workers of long ? [2, 4] : [2])
  t.test(`what races over ${workers} workers is admitted as by one process, and charged once`, async (t) => {
    const upstream = await PlannedUpstream.start(t)
    const callers = races.map((race) => [race, ...caller(race)] as const)
    const file = join(folder(t), 'sluice.db')
    const config = configOf([upstream], {
      store: { sqlite: file, durability: 'process' },
      tenants: Object.fromEntries(callers.map(([race, tenant]) => [`t-${race}`, tenant])),
      keys: callers.map(([, , one]) => one)
    })
    const { url, gateway: running } = await gateway(t, stringify(config), { workers })
    const answered: Seen[] = []

    /** Sends so many at once; those admitted wait at the upstream until every other has its answer. */
    const rush = async (
      race: Tightest,
      count: number
    ): Promise<[admitted: number, tookMs: number, codes: string[]]> => {
      const before = upstream.count
      const gate = Promise.withResolvers<void>()
      upstream.gate = gate.promise
      const from = performance.now()
      let answers = 0
      const asked = inParallel(count, 500 + fits * 4, async (index) => {
        const seen = await ask(url, planned(race, before + index), { ...asking, key: race })
        answers++
        return seen
      })
      await eventually(() => answers + upstream.count - before === count, long ? 300_000 : 120_000)
      const tookMs = Math.ceil(performance.now() - from)
      gate.resolve()
      const seen = await asked
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
    await running.close()
    const ends = journal(file).filter((entry) => entry.class === 'terminal' && entry.kind === 'settle')
    const charges = Map.groupBy(ends, ({ request_id }) => request_id)
    const wrong = admitted.filter(({ id }) => {
      const [one, ...others] = charges.get(id!) ?? []
      return one?.amount !== cost || one.source !== 'upstream' || others.length > 0
    })
    t.same(wrong.slice(0, 3), [], 'each is charged once for what the upstream counted')
    t.equal(charges.size, admitted.length, 'and nothing else is charged')
    t.same(verify(file), [], 'the ledger is in order')
  })
