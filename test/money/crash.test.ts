// A gateway that is killed, again and again under load: whoever saw the end was charged exactly once, nobody twice.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { forms, storeOf } from '../core/store/embedded/forms.ts'
import { eventually } from '../kit/probe.ts'
import { checkBooks, quiet, serving } from './audit.ts'
import { PlannedUpstream } from './planned.ts'
import type { Fault, Plan } from './planned.ts'
import { launch } from './process.ts'
import { ask, chance, configOf, folder, key, long, prices } from './rig.ts'
import type { Asking, Seen } from './rig.ts'

/** In each form of the store. */
const kills = long ? 50 : 5
t.setTimeout(long ? 1_800_000 : 600_000)

const random = chance(Number(process.env['SLUICE_SEED'] ?? 20261121))
const faults: readonly Fault[] = ['refuse', 'break', 'reset', 'cut', 'end-early', 'error-in-200']

/** One request of a load of everything. */
function request(index: number): [Plan, Asking] {
  const model = Object.keys(prices)[random(5)]!
  const plan: Plan = {
    id: `k${index}`,
    units: { input: random(3000), output: random(2000) },
    words: 2 + random(100),
    gap: random(4)
  }
  if (random(20) === 0) plan.fault = faults[random(faults.length)]!
  const leave = random(10) === 0 ? { leaveAt: random(4000) } : {}
  return [plan, { model, stream: random(3) > 0, key: ['one', 'two', 'three'][random(3)]!, ...leave }]
}

const endsOf = (seen: readonly Seen[]): number => seen.filter(({ ended }) => ended).length

for (const form of Object.values(forms)) {
  t.test(`${kills} kills under a mixed load lose no charge and double none, in the form ${form.name}`, async (t) => {
    const upstreams = [await PlannedUpstream.start(t, 'first'), await PlannedUpstream.start(t, 'second')]
    const home = folder(t)
    const file = join(home, 'sluice.db')
    const config = configOf(upstreams, {
      store: storeOf(file, form),
      keys: ['one', 'two', 'three'].map((name) => key(name, { budget: { usd: 1_000_000, per: 'day' } }))
    })
    const seen: Seen[] = []
    const starts: number[] = []
    let sent = 0
    for (let kill = 0; kill < kills; kill++) {
      const running = await launch(t, home, config)
      starts.push(running.tookMs)
      let over = false
      const lane = async (): Promise<void> => {
        while (!over) seen.push(await ask(running.url, ...request(sent++)))
      }
      const before = endsOf(seen)
      const load = Promise.all(Array.from({ length: 16 }, lane))
      await eventually(() => endsOf(seen) > before + 1, 60_000)
      await sleep(random(500))
      over = true
      await running.end('SIGKILL')
      await load
    }
    const last = await launch(t, home, config)
    starts.push(last.tookMs)
    await quiet(t, last)
    await last.end('SIGTERM')

    const entries = checkBooks(t, file, seen)
    const ended = endsOf(seen)
    const recovered = entries.filter(({ source }) => source === 'recovered').length
    t.ok(ended > kills && recovered > kills / 2, 'enough of both to mean something')
    t.comment(
      `${kills} kills, ${sent} requests, ${ended} ends seen, ${recovered} recovered by estimate; ${serving(starts)}`
    )
  })
}
