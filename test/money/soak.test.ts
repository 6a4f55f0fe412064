// What the upstream counted, times the price, is what the ledger and the request records say: to the nano-dollar, over
// all of a mixed load.
import { join } from 'node:path'
import t from 'tap'
import { verify } from '../../core/store/embedded/care/verify/verify.ts'
import type { RequestRecord } from '../../core/store/requests.ts'
import { gateway } from '../kit/gateway.ts'
import { nanoCost } from '../kit/oracle.ts'
import type { Dollars, Units } from '../kit/oracle.ts'
import { figures, settled } from '../kit/probe.ts'
import { PlannedUpstream } from './planned.ts'
import type { Fault, Plan } from './planned.ts'
import { ask, chance, configOf, endings, folder, inParallel, journal, key, long, prices } from './rig.ts'
import type { Seen } from './rig.ts'

const count = long ? 10_000 : 300
t.setTimeout(long ? 1_800_000 : 600_000)

const random = chance(20261121)
const pick = <T>(list: readonly T[]): T => list[random(list.length)]!

/** A model whose long prompts cost more, output and all. */
const tiered = {
  upTo: 200_000,
  short: { input: '1.25', cached_input: '0.125', output: '10' },
  long: { input: '2.5', cached_input: '0.2501', output: '15.003' }
}
const models = [...Object.keys(prices), 'tiered']

function dollarsFor(model: string, { input = 0, cached_input = 0 }: Units): Dollars {
  if (model !== 'tiered') return prices[model]!
  return input + cached_input > tiered.upTo ? tiered.long : tiered.short
}

/**
 * Faults of the first channel before anything was shown, which the second one makes good, and those that end the
 * exchange.
 */
const mended: readonly Fault[] = ['break', 'reset', 'error-in-200']
const final: readonly Fault[] = ['refuse', 'cut', 'end-early']

function planOf(index: number): { plan: Plan; model: string; stream: boolean } {
  const model = pick(models)
  const units: Record<string, number> = {}
  for (const name of Object.keys(dollarsFor(model, {})))
    if (name !== 'request') units[name] = random(4) === 0 ? 0 : random(random(3) === 0 ? 5_000_000 : 3000)
  if (model === 'tiered' && random(4) === 0)
    Object.assign(units, { input: tiered.upTo - 100 + random(2), cached_input: 100 })
  if (random(3) === 0) units['reasoning'] = random((units['output'] ?? 0) + 1)
  const plan: Plan = { id: `p${index}`, units, words: 2 + random(12) }
  const stream = random(2) === 0
  // One in twenty.
  if (random(20) === 0) {
    plan.fault = pick(random(2) ? mended : final)
    if (mended.includes(plan.fault)) plan.channel = 'first'
  }
  return { plan, model, stream }
}

/** What is due for it, worked out from what the upstream counted; undefined: an estimate of what was delivered. */
function dueFor({ plan, model, status }: Seen): bigint | undefined {
  const call: Units = { request: 1 }
  if (plan.fault === undefined || mended.includes(plan.fault))
    return nanoCost({ ...plan.units, ...call }, dollarsFor(model, plan.units))
  // What broke off before anything was shown, all attempts at it included, costs nothing.
  return status === 200 ? undefined : 0n
}

t.test(
  `${count} mixed requests, one in twenty of them broken, are charged exactly what the upstream counted`,
  async (t) => {
    const upstreams = [await PlannedUpstream.start(t, 'first'), await PlannedUpstream.start(t, 'second')]
    const file = join(folder(t), 'sluice.db')
    const keys = ['one', 'two', 'three'].map((name, i) =>
      key(name, { project: `p${i % 2}`, budget: { usd: 100_000_000, per: 'month' } })
    )
    const config = configOf(upstreams, {
      store: { sqlite: file, durability: 'process' },
      tenants: { acme: { projects: { p0: { budget: { usd: 900_000_000, per: 'day' } }, p1: {} } } },
      keys
    }) as { models: Record<string, object>; channels: Record<string, { models: Record<string, string> }> }
    config.models['tiered'] = { price: { ...tiered.short, tiers: [{ above: tiered.upTo, ...tiered.long }] } }
    for (const channel of Object.values(config.channels)) channel.models['tiered'] = 'tiered'
    const running = await gateway(t, JSON.stringify(config))
    const plans = Array.from({ length: count }, (_, index) => planOf(index))
    const seen = await inParallel(count, 40, (index) => {
      const { plan, model, stream } = plans[index]!
      return ask(running.url, plan, { model, stream, key: ['one', 'two', 'three'][index % 3]! })
    })
    await settled(t, running)

    const records = new Map<string, RequestRecord>()
    for (let cursor: string | null = ''; cursor !== null;) {
      const page: { data: RequestRecord[]; next: string | null } = await running.admin(
        `/admin/v1/requests?limit=1000${cursor && `&cursor=${cursor}`}`
      )
      for (const record of page.data) records.set(record.request_id, record)
      cursor = page.next
    }
    const balances = (await running.admin('/admin/v1/balances?limit=1000')).data as {
      scope: string
      window: string
      posted_nano: string
    }[]
    const dollars = [...(await figures(t, running))]
      .filter(([name]) => name.startsWith('sluice_cost_usd_total{'))
      .reduce((sum, [, value]) => sum + value, 0)
    await running.gateway.close()

    const entries = journal(file)
    const { ends, twice } = endings(entries)
    t.same(twice, [], 'nothing ended twice')
    t.equal(ends.size, count)
    t.equal(records.size, count)
    const wrong: unknown[] = []
    let total = 0n
    let faults = 0
    for (const [index, one] of seen.entries()) {
      const { plan, model } = one
      const { stream } = plans[index]!
      const end = ends.get(one.id!)
      const record = records.get(one.id!)
      if (!end || !record) {
        wrong.push({ plan, problem: 'not in the books' })
        continue
      }
      const due = dueFor(one)
      const source = due === undefined ? 'partial' : due > 0n || one.ended ? 'upstream' : null
      if (due !== undefined && end.amount !== due) wrong.push({ plan, model, charged: end.amount, due })
      if (due === undefined && end.amount !== nanoCost({ ...end.usage }, dollarsFor(model, { ...end.usage })))
        wrong.push({ plan, model, charged: end.amount, usage: end.usage })
      if (due !== undefined && !one.ended && due !== 0n) wrong.push({ plan, status: one.status, text: one.text })
      if (end.source !== source) wrong.push({ plan, is: end.source, source })
      if (end.usage && JSON.stringify(record.usage) !== JSON.stringify(end.usage))
        wrong.push({ plan, record: record.usage, charged: end.usage })
      if (record.cost_nano !== String(end.amount)) wrong.push({ plan, record: record.cost_nano, charged: end.amount })
      if (plan.fault !== undefined) {
        faults++
        // A stream that breaks while its hold is on the way to the disk has shown nothing yet, so there is another
        // attempt.
        const possible = plan.fault === 'refuse' ? [1] : stream && !mended.includes(plan.fault) ? [1, 2] : [2]
        const attempts = record.attempts.length
        if (!possible.includes(attempts)) wrong.push({ plan, attempts: record.attempts })
        // An attempt that failed is a row of its own, and never the customer's.
        const costs = entries.filter(({ request_id, kind }) => request_id === one.id && kind === 'cost')
        if (costs.length !== (end.kind === 'settle' ? attempts - 1 : attempts)) wrong.push({ plan, costs })
      }
      total += end.amount
    }
    t.same(wrong.slice(0, 5), [], `of ${count} requests, ${faults} of them broken`)
    t.ok(faults >= count / 40, `${faults} faults`)
    const posted = (scope: string): bigint =>
      BigInt(balances.find((balance) => balance.scope === scope && balance.window === 'total')!.posted_nano)
    t.equal(posted('tenant:acme'), total)
    t.equal(posted('key:one') + posted('key:two') + posted('key:three'), total)
    t.equal(posted('project:acme/p0') + posted('project:acme/p1'), total)
    t.ok(Math.abs(dollars - Number(total) / 1e9) < 1e-6, 'the metrics say the same, as far as they can')
    t.same(verify(file), [], 'the book is in order')
    t.comment(`${count} requests, ${faults} faults, ${total} nano-dollars, unexplained 0`)
  }
)
