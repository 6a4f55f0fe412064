// A gateway that is killed, again and again and at the worst moments: whoever saw the end was charged exactly once, nobody twice.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { verify } from '../../core/store/verify.ts'
import { nanoCost } from '../kit/oracle.ts'
import { eventually, figures } from '../kit/probe.ts'
import { PlannedUpstream } from './planned.ts'
import type { Fault, Plan } from './planned.ts'
import { launch } from './process.ts'
import type { Running } from './process.ts'
import { ask, bodyOf, chance, configOf, endings, folder, journal, key, long, prices, rows } from './rig.ts'
import type { Asking, Entry, Seen } from './rig.ts'

const kills = long ? 100 : 20
t.setTimeout(long ? 1_800_000 : 110_000)

const random = chance(Number(process.env['SLUICE_SEED'] ?? 20261121))
const faults: readonly Fault[] = ['refuse', 'break', 'reset', 'cut', 'end-early', 'error-in-200']

/** One request of a load of everything. */
function request(index: number): [Plan, Asking] {
  const model = Object.keys(prices)[random(5)]!
  const plan: Plan = { id: `k${index}`, units: { input: random(3000), output: random(2000) }, words: 2 + random(100), gap: random(4) }
  if (random(20) === 0) plan.fault = faults[random(faults.length)]!
  const leave = random(10) === 0 ? { leaveAt: random(4000) } : {}
  return [plan, { model, stream: random(3) > 0, key: ['one', 'two', 'three'][random(3)]!, ...leave }]
}

/** How long starts took, as a figure to report: how busy the machine is decides too much of it for an assertion. */
function serving(starts: readonly number[]): string {
  const sorted = [...starts].sort((a, b) => a - b).map(Math.round)
  return `from start to serving ${sorted[sorted.length >> 1]} ms, at most ${sorted.at(-1)} ms`
}

async function quiet(t: Test, running: Running): Promise<void> {
  await eventually(async () => (await figures(t, running)).get('sluice_exchanges_running') === 0, 10_000)
}

/** What clients saw against the books; the problems. */
function audit(seen: readonly Seen[], entries: readonly Entry[]): unknown[] {
  const { ends, twice } = endings(entries)
  const problems: unknown[] = twice.map((id) => ({ id, problem: 'ended twice' }))
  for (const { id, plan, model, status, ended } of seen) {
    if (id === undefined) continue
    const end = ends.get(id)
    if (!end) {
      // An error is all that its client saw: of that nothing need be on disk.
      if (status === 200) problems.push({ id, plan, problem: 'shown, and not in the journal' })
    } else if (ended) {
      const due = nanoCost({ ...plan.units, request: 1 }, prices[model]!)
      if (end.kind !== 'settle' || end.source !== 'upstream' || end.amount !== due) problems.push({ id, plan, due, end })
    } else if (end.source === 'recovered' && end.amount > end.reserved) problems.push({ id, plan, problem: 'recovered for more than was held', end })
  }
  return problems
}

t.test(`${kills} kills under a mixed load lose no charge and double none`, async (t) => {
  const upstreams = [await PlannedUpstream.start(t, 'first'), await PlannedUpstream.start(t, 'second')]
  const home = folder(t)
  const file = join(home, 'sluice.db')
  const config = configOf(upstreams, { store: { sqlite: file }, keys: ['one', 'two', 'three'].map((name) => key(name, { budget: { usd: 1_000_000, per: 'day' } })) })
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
    const load = Promise.all(Array.from({ length: 16 }, lane))
    await sleep(100 + random(500))
    over = true
    await running.end('SIGKILL')
    await load
  }
  const last = await launch(t, home, config)
  starts.push(last.tookMs)
  await quiet(t, last)
  await last.end('SIGTERM')

  const entries = journal(file)
  t.same(audit(seen, entries).slice(0, 5), [], 'every end that a client saw is charged once, with what the upstream counted')
  t.same(rows(file, 'SELECT request_id FROM reservation'), [], 'nothing is held')
  t.same(rows(file, 'SELECT scope, pending FROM balance WHERE pending <> 0'), [], 'nor pending')
  t.same(verify(file), [], 'the book is in order')
  const ended = seen.filter((one) => one.ended).length
  const recovered = entries.filter(({ source }) => source === 'recovered').length
  t.ok(ended > kills && recovered > kills / 2, 'enough of both to mean something')
  t.comment(`${kills} kills, ${sent} requests, ${ended} ends seen, ${recovered} recovered by estimate; ${serving(starts)}`)
})

t.test('killed at each point of an exchange, it is in the books once, with what can be known', async (t) => {
  const upstream = await PlannedUpstream.start(t)
  const home = folder(t)
  const file = join(home, 'sluice.db')
  const config = configOf([upstream], { store: { sqlite: file }, quota: { default_output: 500 } }) as { chain: object[] }
  config.chain.splice(1, 0, { withhold: {} })
  config.chain.splice(4, 0, { halt: {} })
  const held = (where: string) => () => rows(file, `SELECT id FROM reservation WHERE ${where}`).length === 1
  const units = { input: 50, output: 150 }
  const points: readonly [string, Partial<Plan>, Asking, () => boolean, (bytes: number) => object][] = [
    ['held and not sent', {}, { headers: { 'x-halt': 'reserved' } }, held('dispatched = 0'), () => ({ kind: 'void', amount: 0n, source: null })],
    ['sent, and nothing answered', { fault: 'hold' }, {}, held('dispatched = 1'), (bytes) => ({ kind: 'settle', source: 'recovered', usage: { input: Math.ceil(bytes / 3), output: 0 } })],
    // Every 64 events are told of.
    ['in the midst of a stream', { stopAt: 150 }, { stream: true }, held('delivered_units > 100'), (bytes) => ({ kind: 'settle', source: 'recovered', usage: { input: Math.ceil(bytes / 3), output: 128 } })],
    ['after the usage, before the settlement', { stopAt: 'done' }, { stream: true }, held('delivered_units > 100'), () => ({ kind: 'settle', source: 'recovered', usage: { output: 192 } })],
    ['after the settlement, before the end', {}, { stream: true, headers: { 'x-halt': 'settled' } }, () => false, () => ({ kind: 'settle', source: 'upstream', usage: units })],
    ['after the settlement of a whole answer', {}, { headers: { 'x-halt': 'settled' } }, () => false, () => ({ kind: 'settle', source: 'upstream', usage: units })]
  ]
  let running = await launch(t, home, config, ['test/chaos/halting.ts'])
  const starts = [running.tookMs]
  let ended = 0
  for (const [name, how, asking, reached, expected] of points) {
    const plan: Plan = { id: name, units, words: 200, ...how }
    const stopped = plan.stopAt === undefined ? undefined : upstream.stopped()
    const seeing = ask(running.url, plan, asking)
    await stopped
    await eventually(() => reached() || journal(file).some(({ class: kind }, at) => kind === 'terminal' && at >= ended), 5000)
    await running.end('SIGKILL')
    const seen = await seeing
    t.equal(seen.ended, false, `${name}: its client saw no end`)

    running = await launch(t, home, config, ['test/chaos/halting.ts'])
    starts.push(running.tookMs)
    t.same(rows(file, 'SELECT request_id FROM reservation'), [], `${name}: nothing is open`)
    const entries = journal(file).slice(ended)
    t.equal(entries.length, 1, `${name}: one entry`)
    const [end] = entries
    t.match(end, expected(bodyOf(plan, asking).length), name)
    if (end!.usage) t.equal(end!.amount, nanoCost(end!.usage, prices['plain']!), name)
    const { data } = await (await fetch(`${running.adminUrl}/admin/v1/requests?request_id=${end!.request_id}`)).json() as { data: any[] }
    t.match(data, [{ request_id: end!.request_id, cost_nano: String(end!.amount), endpoint: 'chat', client_protocol: 'openai-chat', streamed: asking.stream ?? false }], `${name}: its record`)
    t.equal((await ask(running.url, { id: `after ${name}`, units, words: 1 })).status, 200, `${name}: it serves again`)
    await quiet(t, running)
    t.same(verify(file), [], `${name}: the book is in order`)
    ended = journal(file).length
  }
  t.comment(serving(starts))
})
