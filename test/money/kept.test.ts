// The money of responses in the background, an upstream's and the gateway's own, and of realtime sessions: one end for
// each, however often the gateway is killed.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { verify } from '../../core/store/embedded/care/verify/verify.ts'
import { startSimulator } from '../../core/simulator/simulator.ts'
import type { Simulator } from '../../core/simulator/simulator.ts'
import { eventually } from '../kit/probe.ts'
import { applied } from './audit.ts'
import { beginResponse, call, goesOn, responses, talk, wrongResponses, wrongTalks } from './lasting.ts'
import type { Known, Part, Talk } from './lasting.ts'
import { launch } from './process.ts'
import { chance, folder, journal, key, long, patientChain, rows } from './rig.ts'
import type { More } from './rig.ts'

const kills = Number(process.env['SLUICE_KILLS'] ?? (long ? 200 : 3))
t.setTimeout(kills > 10 ? 1_800_000 : 600_000)
const random = chance(Number(process.env['SLUICE_SEED'] ?? 20261122))

/** An upstream for each model, which counts for itself. */
const models = ['native', 'own', 'talk'] as const
type Simulators = Readonly<Record<(typeof models)[number], Simulator>>

function configOf(simulators: Simulators, file: string): More {
  const channel = (endpoint: string, model: (typeof models)[number]): object => ({
    protocol: 'openai',
    base_url: `${simulators[model].url.origin}/v1`,
    private: true,
    models: { [model]: 'demo' },
    endpoints: [endpoint]
  })
  const price = { input: 1, output: 2 }
  return {
    listen: { host: '127.0.0.1', port: 0 },
    admin: { host: '127.0.0.1', port: 0 },
    store: { sqlite: file },
    state: { key: 'a secret of the operator that nobody else knows' },
    tasks: { poll: { first: '20ms', most: '100ms' } },
    channels: {
      native: channel('responses', 'native'),
      own: channel('chat', 'own'),
      talk: channel('realtime', 'talk')
    },
    models: { native: { price }, own: { price, state: 'gateway' }, talk: { price } },
    tenants: { acme: { projects: { web: {} } } },
    keys: [key('test', { project: 'web', budget: { usd: 1_000_000, per: 'day' } })],
    chain: patientChain
  }
}

/** The books beside what clients saw and what the upstream counted. */
function check(
  t: Test,
  file: string,
  simulators: Simulators,
  known: readonly Known[],
  shown: ReadonlyMap<string, any>,
  talks: readonly Talk[]
): string {
  const entries = (journal(file) as Part[]).filter((entry) => entry.class === 'terminal')
  const name = ({ request_id, part }: Part): string => `${request_id}/${part}`
  t.equal(new Set(entries.map(name)).size, entries.length, 'nothing ended twice')
  const ends = new Map(entries.map((entry) => [name(entry), entry]))
  const wrong = wrongResponses(ends, known, shown)
  t.same(wrong.slice(0, 3), [], 'every response is there, and charged once for what it came to')
  t.same(
    wrongTalks(entries, talks).slice(0, 3),
    [],
    'every turn whose end was shown is charged once, and at most one more was under way'
  )
  t.same(rows(file, 'SELECT request_id FROM reservation'), [], 'nothing is held')
  t.same(rows(file, 'SELECT id FROM work WHERE open = 1'), [], 'nothing is open')
  t.same(verify(file), [], 'the book is in order')
  const tokens = models.map((model) => {
    const charged = entries
      .filter((entry) => entry.source === 'upstream' && entry.model === model)
      .reduce((sum, { usage }) => sum + (usage?.['input'] ?? 0) + (usage?.['output'] ?? 0), 0)
    const { prompt = 0, completion = 0 } = simulators[model].stats.counted
    t.ok(
      charged <= prompt + completion,
      `${model}: its upstream has counted ${prompt + completion} tokens, of which ${charged} are charged`
    )
    return `${model}: ${charged} of ${prompt + completion} tokens`
  })
  const of = (model: string, status: string): number =>
    known.filter((one) => one.model === model && shown.get(one.id)?.status === status).length
  return (
    `${kills} kills: ${known.length} responses (native ${of('native', 'completed')} completed, ${of('native', 'cancelled')} cancelled; own ${of('own', 'completed')} completed, ${of('own', 'cancelled')} cancelled, ${of('own', 'failed')} ended by a kill), ` +
    `${talks.length} sessions with ${talks.reduce((sum, { done }) => sum + done.length, 0)} turns seen to their end, ${entries.filter(({ source }) => source === 'recovered').length} recovered; charged of what upstreams counted, ${tokens.join(', ')}`
  )
}

t.test(
  `${kills} kills over responses in the background and realtime sessions lose no charge and double none`,
  async (t) => {
    const simulators = Object.fromEntries(
      await Promise.all(models.map(async (model) => [model, await startSimulator()]))
    ) as Simulators
    t.teardown(() => Promise.all(models.map((model) => simulators[model].close())))
    const home = folder(t)
    const file = join(home, 'sluice.db')
    const config = configOf(simulators, file)
    const known: Known[] = []
    const talks: Talk[] = []
    for (let kill = 0; kill < kills; kill++) {
      const running = await launch(t, home, config)
      let over = false
      const lane = async (): Promise<void> => {
        while (!over) {
          const one = await beginResponse(running.url, random)
          if (one) known.push(one)
          if (one && random(5) === 0) {
            one.cancelled = true
            await call(`${running.url}${responses}/${one.id}/cancel`, 'POST')
          } else if (one && random(2) === 0) await call(`${running.url}${responses}/${one.id}`, 'GET')
          await sleep(random(20))
        }
      }
      const talking = async (): Promise<void> => {
        while (!over) await talk(running.url, talks, () => over, random)
      }
      const load = Promise.all([...Array.from({ length: 5 }, lane), ...Array.from({ length: 3 }, talking)])
      await sleep(100 + random(400))
      over = true
      await running.end('SIGKILL')
      await load
    }
    const last = await launch(t, home, config)
    const shown = new Map<string, any>()
    await eventually(async () => {
      for (const { id } of known) {
        if (shown.has(id)) continue
        const reply = await call(`${last.url}${responses}/${id}`, 'GET')
        const response = reply?.status === 200 ? JSON.parse(reply.text) : undefined
        if (reply && !goesOn.has(response?.status)) shown.set(id, response)
      }
      return shown.size === known.length
    }, 60_000)
    await applied(last)
    await eventually(() => rows(file, 'SELECT id FROM work WHERE open = 1').length === 0, 10_000)
    await last.end('SIGTERM')
    t.comment(check(t, file, simulators, known, shown, talks))
  }
)
