// Workers that end under load, at every step of a request and in every way that a thread ends: whoever saw an end was
// charged exactly once, nobody twice, and what the worker had taken comes back.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { stringify } from 'yaml'
import { gateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { checkBooks, quiet } from '../../money/audit.ts'
import { PlannedUpstream } from '../../money/planned.ts'
import type { Plan } from '../../money/planned.ts'
import { ask, chance, configOf, folder, key, long, prices } from '../../money/rig.ts'
import type { Asking, Seen } from '../../money/rig.ts'

/** Each end within a minute doubles the pause before the next worker, so many take long. */
const kills = long ? 100 : 8
t.setTimeout(long ? 3_600_000 : 600_000)

const random = chance(Number(process.env['SLUICE_SEED'] ?? 20261128))

/** A plugin by which a request ends the worker that serves it, at the hook and in the way that a header names. */
const bomb = `
import { definePlugin } from 'sluice/plugin'
const ways = {
  exit: () => process.exit(7),
  fault: () => setImmediate(() => { throw new Error('a fault that nothing caught') }),
  hang: () => { for (;;); }
}
const at = (hook, exchange) => {
  const [when, how] = String(exchange.request.headers['x-bomb']).split(' ')
  if (when === hook) ways[how]()
}
export default definePlugin({
  name: 'bomb',
  summary: 'Ends the worker.',
  options: {},
  setup: () => ({
    onRequest: (exchange) => at('request', exchange),
    onAttempt: (exchange) => at('attempt', exchange),
    onResponse: (exchange) => {
      at('response', exchange)
      return { observe: () => at('message', exchange), end: () => at('end', exchange) }
    },
    onSettled: (exchange) => at('settled', exchange)
  })
})
`
const hooks = ['request', 'attempt', 'response', 'message', 'end', 'settled']

/** One request of a mixed load. */
function request(index: number): [Plan, Asking] {
  const plan: Plan = {
    id: `k${index}`,
    units: { input: random(3000), output: random(2000) },
    words: 2 + random(60),
    gap: random(4)
  }
  const leave = random(10) === 0 ? { leaveAt: random(4000) } : {}
  const model = Object.keys(prices)[random(5)]!
  return [plan, { model, stream: random(3) > 0, key: ['one', 'two', 'slots'][random(3)]!, ...leave }]
}

const slots = 24

t.test(`${kills} ends of workers under a mixed load lose no charge, double none, and keep no slot`, async (t) => {
  const upstream = await PlannedUpstream.start(t)
  const home = folder(t)
  const file = join(home, 'sluice.db')
  const budget = { usd: 1_000_000, per: 'day' }
  const config = configOf([upstream], {
    store: { sqlite: file },
    plugins: { bomb: join(home, 'bomb.mjs') },
    keys: [key('one', { budget }), key('two', { budget }), key('slots', { budget, limits: { concurrency: slots } })]
  })
  writeFileSync(join(home, 'bomb.mjs'), bomb)
  const text = stringify({ ...config, chain: [...(config['chain'] as object[]), { bomb: {} }] })
  const all = await gateway(t, text, { workers: 2 })
  const seen: Seen[] = []
  let sent = 0
  let over = false
  const lane = async (): Promise<void> => {
    while (!over) {
      seen.push(await ask(all.url, ...request(sent++)))
      // Where connections are refused at once, a client would do nothing else.
      if (seen.at(-1)!.status === 0) await sleep(200)
    }
  }
  const load = Promise.all(Array.from({ length: 16 }, lane))
  const ready = async (): Promise<boolean> => (await all.admin('/readyz')).status === 'ok'
  const ends = (): number => all.lines.filter(({ message }) => message.startsWith('a worker has ended')).length
  const served = (): number => seen.filter(({ ended }) => ended).length
  for (let kill = 0; kill < kills; kill++) {
    const before = served()
    await eventually(() => served() > before + 4)
    // Every other time the worker that ended before may still be away: then nobody serves.
    if (kill % 2 === 0) await eventually(ready)
    const how = kill % 50 === 5 ? 'hang' : ['exit', 'fault'][random(2)]!
    const headers = { 'x-bomb': `${hooks[kill % hooks.length]} ${how}` }
    const [plan, asking] = request(sent++)
    seen.push(await ask(all.url, plan, { ...asking, leaveAt: Infinity, key: 'one', headers }))
    await eventually(() => ends() > kill)
  }
  over = true
  await load
  await eventually(ready)
  await quiet(t, all)

  const gate = Promise.withResolvers<void>()
  upstream.gate = gate.promise
  const before = upstream.count
  let refused = 0
  const rush = Array.from({ length: slots + 6 }, async () => {
    const [plan] = request(sent++)
    const one = await ask(all.url, plan, { key: 'slots' })
    if (one.code === 'rate_limit_concurrency') refused++
    seen.push(one)
  })
  await eventually(() => upstream.count - before + refused === slots + 6)
  t.equal(refused, 6, 'all slots are free again, and no more')
  gate.resolve()
  await Promise.all(rush)
  await all.gateway.close()

  const entries = checkBooks(t, file, seen)
  const recovered = entries.filter(({ source }) => source === 'recovered').length
  t.ok(served() > kills && recovered > 0, 'enough of both to mean something')
  t.comment(`${ends()} ends, ${sent} requests, ${served()} ends seen, ${recovered} recovered by estimate`)
})
