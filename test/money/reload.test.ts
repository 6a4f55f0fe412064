// Prices, budgets and limits that change under load: each request is charged at the price it was admitted at, whatever
// came after.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { verify } from '../../core/store/embedded/care/verify/verify.ts'
import { gateway } from '../kit/gateway.ts'
import { nanoCost } from '../kit/oracle.ts'
import type { Dollars } from '../kit/oracle.ts'
import { eventually, settled } from '../kit/probe.ts'
import { PlannedUpstream } from './planned.ts'
import { ask, chance, configOf, endings, folder, journal, long, rows } from './rig.ts'
import type { Seen } from './rig.ts'

const reloads = long ? 100 : 20
t.setTimeout(600_000)

t.test(`a price that changes ${reloads} times under load is never mixed with another`, async (t) => {
  const upstream = await PlannedUpstream.start(t)
  const file = join(folder(t), 'sluice.db')
  const priceOf = (round: number): Dollars => ({ input: `${1 + round}.25`, output: `${10 + round}.001` })
  const text = (round: number): string => {
    const config = configOf([upstream], { store: { sqlite: file, durability: 'process' } }) as {
      models: Record<string, object>
    }
    config.models['plain'] = { price: priceOf(round) }
    return JSON.stringify(config)
  }
  const running = await gateway(t, text(0))
  const random = chance(5)
  const seen: { one: Seen; units: { input: number; output: number }; from: number; to: number }[] = []
  let round = 0
  let applied = 0
  let over = false
  let sent = 0
  const lane = async (): Promise<void> => {
    while (!over) {
      const units = { input: 1 + random(5000), output: 1 + random(3000) }
      const from = applied
      // The answer comes when prices have changed again: the admission was long before.
      const plan = { id: `c${sent++}`, units, words: 1 + random(10), gap: random(3) }
      const asked = ask(running.url, plan, { stream: random(2) === 0 })
      await eventually(() => upstream.seen.has(plan.id), 10_000)
      const to = round
      seen.push({ one: await asked, units, from, to })
    }
  }
  const load = Promise.all(Array.from({ length: 12 }, lane))
  await eventually(() => seen.length >= 30, 10_000)
  for (round = 1; round <= reloads; round++) {
    writeFileSync(running.file, text(round))
    t.match(await running.gateway.reload('prices'), { ok: true })
    applied = round
    const target = seen.length + 30
    await eventually(() => seen.length >= target, 10_000)
  }
  over = true
  await load
  await settled(t, running)
  await running.gateway.close()
  const { ends, twice } = endings(journal(file))
  t.same(twice, [])
  const wrong: unknown[] = []
  for (const { one, units, from, to } of seen) {
    const end = ends.get(one.id!)
    const possible = Array.from({ length: to - from + 1 }, (_, i) => nanoCost(units, priceOf(from + i)))
    if (!one.ended || !end || !possible.includes(end.amount))
      wrong.push({ plan: one.plan, from, to, charged: end?.amount, possible })
  }
  t.same(wrong.slice(0, 3), [], `${seen.length} requests`)
  t.equal(rows(file, 'SELECT version FROM price').length, reloads + 1, 'every price was used')
  t.same(verify(file), [])
})
