// The money of tasks: one end for each, whoever sees it first and however often the gateway is stopped or killed
// meanwhile.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { verify } from '../../core/store/embedded/care/verify/verify.ts'
import { formsFor, storeOf } from '../core/store/embedded/forms.ts'
import type { Form } from '../core/store/embedded/forms.ts'
import { startSimulator } from '../../core/simulator/simulator.ts'
import type { Simulator } from '../../core/simulator/simulator.ts'
import { eventually } from '../kit/probe.ts'
import { applied } from './audit.ts'
import { beginTask, goesOn, lookAt, pictures, videos, wrongTasks } from './lasting.ts'
import type { Task } from './lasting.ts'
import { launch } from './process.ts'
import type { Running } from './process.ts'
import { chance, endings, folder, journal, key, long, patientChain, rows } from './rig.ts'
import type { Entry, More } from './rig.ts'

/** In each form of the store. */
const kills = long ? 200 : 4
t.setTimeout(long ? 1_800_000 : 600_000)
const random = chance(Number(process.env['SLUICE_SEED'] ?? 20261122))

function configOf(simulator: Simulator, file: string, form: Form): More {
  return {
    listen: { host: '127.0.0.1', port: 0 },
    admin: { host: '127.0.0.1', port: 0 },
    store: storeOf(file, form),
    tasks: { poll: { first: '20ms', most: '100ms' } },
    channels: {
      upstream: {
        protocol: 'openai',
        base_url: `${simulator.url.origin}/v1`,
        private: true,
        models: { demo: 'demo' },
        endpoints: ['videos', 'images']
      }
    },
    models: { demo: { price: { second: 0.1, image: 0.04 } } },
    tenants: { acme: { projects: { web: {} } } },
    keys: [key('test', { project: 'web', budget: { usd: 1_000_000, per: 'day' } })],
    chain: patientChain
  }
}

/** Each task has one end in the books, which is the one that its client sees; nothing else is held. */
function checkTasks(t: Test, file: string, tasks: readonly Task[], seen: ReadonlyMap<string, string>): Entry[] {
  const entries = journal(file)
  const { ends, twice } = endings(entries)
  t.same(twice, [], 'nothing ended twice')
  const problems = wrongTasks(ends, tasks, seen)
  t.same(problems.slice(0, 5), [], 'what succeeded is charged by its length, and nothing else is charged')
  t.same(rows(file, 'SELECT request_id FROM reservation'), [], 'nothing is held')
  t.same(rows(file, 'SELECT id FROM work WHERE open = 1'), [], 'nothing is open')
  t.same(verify(file), [], 'the book is in order')
  return entries
}

for (const form of formsFor(0))
  t.test(
    `fifty clients, the gateway itself and its restart see the end of a task: one settles, one gives back (${form.name})`,
    async (t) => {
      const simulator = await startSimulator()
      t.teardown(() => simulator.close())
      const home = folder(t)
      const file = join(home, 'sluice.db')
      const config = configOf(simulator, file, form)
      let running: Running = await launch(t, home, config)
      const work: [number, number] = [50, 1200]
      const tasks = [
        (await beginTask(running.url, videos, 'succeeds', work, random))!,
        (await beginTask(running.url, videos, 'fails', work, random))!
      ]
      const seen = new Map<string, string>()
      const shown: string[] = []
      let over = false
      const lanes = Array.from({ length: 50 }, async (_, lane) => {
        const task = tasks[lane % 2]!
        while (!over) {
          const found = await lookAt(running.url, task)
          await sleep(30)
          if (found && !goesOn.has(found.status)) {
            shown.push(`${task.ending} ${found.status}`)
            seen.set(task.id, found.status)
            if (shown.length >= 100) over = true
          }
        }
      })
      for (let restart = 0; restart < 2; restart++) {
        await sleep(250)
        await running.end(restart === 1 ? 'SIGTERM' : 'SIGKILL')
        running = await launch(t, home, config)
      }
      await Promise.all(lanes)
      await applied(running)
      await running.end('SIGTERM')
      t.same([...new Set(shown)].sort(), ['fails failed', 'succeeds succeeded'], 'everybody sees one end')
      const entries = checkTasks(t, file, tasks, seen)
      t.equal(entries.filter(({ class: end }) => end === 'terminal').length, 2)
      t.equal(simulator.stats.counted.seconds, tasks[0]!.seconds, 'the upstream has counted as much')
    }
  )

for (const form of formsFor(1))
  t.test(`${kills} kills over tasks of both kinds lose no charge and double none (${form.name})`, async (t) => {
    const simulator = await startSimulator()
    t.teardown(() => simulator.close())
    const home = folder(t)
    const file = join(home, 'sluice.db')
    const config = configOf(simulator, file, form)
    const tasks: Task[] = []
    for (let kill = 0; kill < kills; kill++) {
      const running = await launch(t, home, config)
      let over = false
      const lane = async (): Promise<void> => {
        while (!over) {
          const task = await beginTask(
            running.url,
            random(4) === 0 ? pictures : videos,
            random(4) === 0 ? 'fails' : 'succeeds',
            [random(50), random(500)],
            random
          )
          if (task) tasks.push(task)
          if (task && random(2) === 0) await lookAt(running.url, task)
          await sleep(random(20))
        }
      }
      const load = Promise.all(Array.from({ length: 6 }, lane))
      await sleep(100 + random(400))
      over = true
      await running.end('SIGKILL')
      await load
    }
    const last = await launch(t, home, config)
    const seen = new Map<string, string>()
    await eventually(async () => {
      for (const task of tasks) {
        if (seen.has(task.id)) continue
        const { status } = (await lookAt(last.url, task)) ?? { status: 'unknown' }
        if (!goesOn.has(status)) seen.set(task.id, status)
      }
      return seen.size === tasks.length
    }, 30_000)
    await applied(last)
    await eventually(() => rows(file, 'SELECT id FROM work WHERE open = 1').length === 0, 10_000)
    await last.end('SIGTERM')

    const entries = checkTasks(t, file, tasks, seen)
    const wrong = tasks
      .filter(({ path }) => path === videos)
      .filter((task) => seen.get(task.id) !== (task.ending === 'succeeds' ? 'succeeded' : 'failed'))
    t.same(wrong, [], 'a video ends as its upstream says, whatever happened to the gateway')
    const settled = entries
      .filter(({ kind }) => kind === 'settle')
      .reduce((sum, { usage }) => sum + (usage?.['second'] ?? 0), 0)
    const counted = simulator.stats.counted.seconds ?? 0
    t.ok(
      Math.abs(counted - settled) <= kills * 6 * 20,
      'what differs was begun in the moment of a kill: made, and its client was told nothing, or ordered, and never sent'
    )
    t.comment(
      `${kills} kills, ${tasks.length} tasks, ${entries.filter(({ kind }) => kind === 'settle').length} settled, ${settled} of ${counted} seconds, ${tasks.filter(({ id }) => seen.get(id) === 'failed').length} failed`
    )
  })
