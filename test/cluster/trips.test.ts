// How often a request waits for PostgreSQL and for Redis before its upstream is asked: answers that it would wait for
// are kept, and it gets there all the same.
import { connect } from 'node:net'
import t from 'tap'
import { Fleet, fleetMissing } from '../kit/fleet.ts'
import { eventually } from '../kit/probe.ts'
import { PlannedUpstream } from '../money/planned.ts'
import type { Plan } from '../money/planned.ts'
import { ask, configOf, key } from '../money/rig.ts'
import type { Asking } from '../money/rig.ts'

t.setTimeout(600_000)

const large = { usd: 1_000_000, per: 'month' }
const limits = { rps: 100_000, rpm: 1_000_000, tpm: 1_000_000_000, concurrency: 1000 }

/** Each with a budget that carries two or three at a time, and many one after another: no slice is given of that. */
const shapes = {
  request: { asking: { body: { max_tokens: 100 } }, usd: 0.004 },
  'request without a limit of its output': { asking: {}, usd: 0.1 },
  stream: { asking: { body: { max_tokens: 100 }, stream: true }, usd: 0.004 }
} as const
const edgeOf = (shape: string): string => `edge-${Object.keys(shapes).indexOf(shape)}`

t.test('before its upstream is asked a request waits', { skip: fleetMissing }, async (t) => {
  const upstream = await PlannedUpstream.start(t)
  const fleet = await Fleet.start(t, {
    nodes: 1,
    database: (_, proxy, direct) => proxy.url(direct),
    config: configOf([upstream], {
      tenants: { acme: { budget: large, projects: { web: { budget: large } } } },
      keys: [
        key('far', { project: 'web', budget: large, limits }),
        ...Object.entries(shapes).map(([shape, { usd }]) =>
          key(edgeOf(shape), { project: 'web', budget: { usd, per: 'month' }, limits })
        )
      ]
    })
  })
  const { proxy, redis } = fleet
  const { url } = fleet.nodes[0]!
  let commands = ''
  const monitor = connect(redis.port, '127.0.0.1').setEncoding('utf8')
  monitor.on('data', (text: string) => (commands += text))
  monitor.write('MONITOR\r\n')
  t.teardown(() => monitor.destroy())
  await eventually(() => commands.includes('OK'))

  let number = 0
  const planned = (): Plan => ({ id: `r${++number}`, units: { input: 1, output: 1 }, words: 2 })
  /** Decisions of Redis that were asked for since `commands` was emptied. */
  const decisions = async (): Promise<number> => {
    const mark = `mark-${number}`
    await redis.run(['ECHO', mark])
    await eventually(() => commands.includes(mark))
    return commands.split('"take"').length - 1
  }
  /**
   * Sends one, with answers of PostgreSQL kept that it could wait for: of batches with its own key, but for the first
   * so many, and everything that is no batch. Returns whether the upstream was asked, and Redis how often until then.
   */
  const tried = async (
    name: string,
    asking: Asking,
    free: number,
    withinMs = 4000
  ): Promise<[reached: boolean, decisions: number]> => {
    const plan = planned()
    const gate = Promise.withResolvers<void>()
    upstream.gate = gate.promise
    commands = ''
    let left = free
    proxy.keeps = (sent) => {
      if (!sent.includes('money_batch')) return true
      return sent.includes(`key:${name}`) && --left < 0
    }
    const seen = ask(url, plan, { ...asking, key: name })
    const reached = await eventually(() => upstream.seen.has(plan.id), withinMs).then(
      () => true,
      () => false
    )
    const times = await decisions()
    proxy.release()
    gate.resolve()
    const { status } = await seen
    if (reached) t.equal(status, 200)
    return [reached, times]
  }
  /** Again where it did not get there: its slice may have been given back while the machine was busy. */
  const reaches = async (name: string, asking: Asking, free: number, text: string): Promise<void> => {
    for (let tries = 1; ; tries++) {
      for (let i = 0; i < 8; i++) await ask(url, planned(), { ...asking, key: name })
      const [reached, times] = await tried(name, asking, free)
      if (!reached && tries < 10) continue
      t.ok(reached, text)
      t.equal(times, 1, `${text}, and once for Redis`)
      return
    }
  }

  for (const [shape, { asking }] of Object.entries(shapes)) {
    await reaches('far', asking, 0, `a ${shape} far from the edge waits for no answer of PostgreSQL`)
    await reaches(edgeOf(shape), asking, 1, `a ${shape} at the edge waits for one`)
    const [reached] = await tried(edgeOf(shape), asking, 0, 500)
    t.notOk(reached, `a ${shape} at the edge waits for it`)
  }
})
