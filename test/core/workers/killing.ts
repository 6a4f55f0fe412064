// Kills workers at every step, and gateways of workers, under a load of everything, and holds the books against what
// clients saw and upstreams counted.
// As a script: node test/core/workers/killing.ts [kills, default 300] [seed]. It says what it does, and ends with a
// table. SIGUSR2 ends the row before its end, and what was done until then is judged.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { verify } from '../../../core/store/embedded/care/verify/verify.ts'
import { Clients } from '../../chaos/cluster-clients.ts'
import { configOfEverything, judgeAll, lookAtAll, nothingShown } from '../../chaos/everything.ts'
import type { Judgement } from '../../chaos/everything.ts'
import { eventually } from '../../kit/probe.ts'
import { applied, quiet } from '../../money/audit.ts'
import type { Part } from '../../money/lasting.ts'
import { PlannedUpstream } from '../../money/planned.ts'
import { launch, withWorkers } from '../../money/process.ts'
import type { Running } from '../../money/process.ts'
import { ask, chance, folder, journal, key, rows } from '../../money/rig.ts'
import type { More } from '../../money/rig.ts'

/** What is done, and how often among the others. */
const blows = {
  'end a worker at a step': 6,
  'end a worker at a hook': 3,
  'end a worker anywhere': 4,
  'kill the process': 3,
  'end a worker anywhere, and kill the process': 2
} as const
export type Blow = keyof typeof blows | 'have a worker hang'

/** Each end of a worker doubles the pause before the next one, for a minute. */
const mostEnds = 6
/** A request takes some hundred steps. */
const mostSteps = 400
const hooks = ['request', 'attempt', 'response', 'message', 'end', 'settled']
const slots = 100

/** What is tried. */
export interface Trial {
  readonly kills: number
  readonly seed: number
  /** How many clients there are of each kind. Default: 1. */
  readonly width?: number
  /** What is done, one after another, in place of what chance says. */
  readonly plan?: readonly Blow[]
  readonly say?: (text: string) => void
  /** Ends the row early. */
  readonly enough?: AbortSignal
}

/** What became of it. All but the counts are supposed to be empty. */
export interface Outcome extends Judgement {
  /** Holds, slots and work that nobody ends. */
  readonly orphans: readonly object[]
  /** What breaks an invariant of the book. */
  readonly broken: readonly unknown[]
}

/** Runs a load over so many kills. Everything ends with the test. */
export async function workerKills(
  t: Test,
  { kills, seed, width = 1, plan, say = () => {}, enough }: Trial
): Promise<Outcome> {
  const random = chance(seed)
  const upstreams = [await PlannedUpstream.start(t, 'first'), await PlannedUpstream.start(t, 'second')]
  const home = folder(t)
  const file = join(home, 'sluice.db')
  const everything = await configOfEverything(t, upstreams)
  const budget = { usd: 100_000_000, per: 'month' }
  const config: More = {
    ...everything,
    store: { sqlite: file },
    plugins: { bomb: join(import.meta.dirname, 'bomb.ts') },
    keys: [key('test', { project: 'web', budget, limits: { rpm: 1_000_000, concurrency: slots } })],
    chain: [{ bomb: {} }, ...(everything['chain'] as object[])]
  }
  const done: Record<string, number> = {}
  /** A worker has 90 seconds until it serves, which a busy machine may not give it: who runs a gateway tries again. */
  const start = async (tries = 5): Promise<Running> => {
    try {
      return await launch(t, home, config, withWorkers(2))
    } catch (error) {
      if (tries === 1 || !String(error).includes('did not serve within')) throw error
      done['starts that took too long'] = (done['starts that took too long'] ?? 0) + 1
      return start(tries - 1)
    }
  }
  let running = await start()
  const clients = new Clients(() => running.url, random, width)
  const ends = (): number => running.output.match(/a worker has ended/g)?.length ?? 0
  /** Asks until the worker has ended that is asked, as requests may be refused. */
  const provoke = async (bomb: string): Promise<void> => {
    const before = ends()
    while (ends() === before) {
      await clients.chat({ headers: { 'x-bomb': bomb } })
      await eventually(() => ends() > before, bomb.includes('hang') ? 60_000 : 2000).catch(() => {})
    }
  }
  const endAnywhere = async (): Promise<void> => {
    const before = ends()
    process.kill(running.pid, 'SIGHUP')
    await eventually(() => ends() > before)
  }
  const killProcess = async (): Promise<void> => {
    await running.end('SIGKILL')
    running = await start()
  }
  const does: Record<Blow, () => Promise<void>> = {
    'end a worker at a step': () => provoke(`request steps ${1 + random(mostSteps)}`),
    'end a worker at a hook': () => provoke(`${hooks[random(hooks.length)]} ${['exit', 'fault'][random(2)]}`),
    'end a worker anywhere': endAnywhere,
    'have a worker hang': () => provoke('request hang'),
    'kill the process': killProcess,
    async 'end a worker anywhere, and kill the process'() {
      process.kill(running.pid, 'SIGHUP')
      await sleep(random(30))
      await killProcess()
    }
  }
  try {
    const bag = Object.entries(blows).flatMap(([blow, times]) => Array.from({ length: times }, () => blow as Blow))
    for (let kill = 0; kill < (plan?.length ?? kills) && !enough?.aborted; kill++) {
      const before = clients.ended
      await eventually(() => clients.ended > before + 1, 120_000)
      await sleep(random(300))
      const wanted = plan?.[kill] ?? (random(60) === 0 ? 'have a worker hang' : bag[random(bag.length)]!)
      const blow = !plan && ends() >= mostEnds ? 'kill the process' : wanted
      say(`${kill + 1} of ${plan?.length ?? kills}: ${blow}; ${clients.ended} chats are answered`)
      await does[blow]()
      done[blow] = (done[blow] ?? 0) + 1
    }
  } finally {
    await clients.end()
  }
  say('nothing more is asked for')
  const orphans: object[] = []
  const shown = nothingShown()
  const wait = (what: string, over: () => Promise<boolean> | boolean): Promise<void> =>
    eventually(over, 60_000).catch(() => void orphans.push({ what }))
  await wait('the ends of responses and tasks', () => lookAtAll(running.url, clients, shown))
  await wait('work', async () => {
    await applied(running)
    return rows(file, 'SELECT id FROM work WHERE open = 1').length === 0
  })
  await quiet(t, running)
  await wait('slots', async () => (await rush(running, upstreams)) === slots)
  await running.end('SIGTERM')
  orphans.push(
    ...rows(file, 'SELECT request_id, part FROM reservation'),
    ...rows(file, 'SELECT scope, pending FROM balance WHERE pending <> 0')
  )
  const entries = (journal(file) as Part[]).filter((entry) => entry.class === 'terminal')
  const { counts, ...found } = judgeAll(clients, entries, shown, upstreams)
  return { counts: { ...done, ...counts }, ...found, orphans, broken: verify(file) }
}

/** Asks for more at one time than there are slots. Resolves with how many were admitted. */
async function rush({ url }: Running, upstreams: readonly PlannedUpstream[]): Promise<number> {
  const gate = Promise.withResolvers<void>()
  for (const upstream of upstreams) upstream.gate = gate.promise
  const count = (): number => upstreams.reduce((all, upstream) => all + upstream.count, 0)
  const before = count()
  let refused = 0
  const all = Array.from({ length: slots + 5 }, async (_, index) => {
    const plan = { id: `rush ${index}`, units: { input: 1, output: 1 }, words: 1 }
    if ((await ask(url, plan, { model: 'odd' })).code === 'rate_limit_concurrency') refused++
  })
  await eventually(() => count() - before + refused === all.length, 20_000).catch(() => {})
  const admitted = count() - before
  gate.resolve()
  await Promise.all(all)
  return admitted
}

if (process.argv[1] === import.meta.filename) {
  const [kills = 300, seed = 20261128] = process.argv.slice(2, 4).map(Number)
  const ended: (() => unknown)[] = []
  const owner = {
    teardown: (end: () => unknown) => void ended.unshift(end),
    error: (error: unknown) => console.error(error)
  } as unknown as Test
  const enough = new AbortController()
  process.once('SIGUSR2', () => enough.abort())
  const began = performance.now()
  const say = (text: string): void =>
    void process.stderr.write(`${Math.round((performance.now() - began) / 1000)} s: ${text}\n`)
  try {
    const { counts, ...found } = await workerKills(owner, { kills, seed, width: 2, say, enough: enough.signal })
    console.table(counts)
    for (const [name, list] of Object.entries(found)) {
      console.log(`${name}: ${list.length}`)
      for (const one of list.slice(0, 5)) console.dir(one, { depth: 5 })
    }
    process.exitCode = Object.values(found).every((list) => list.length === 0) ? 0 : 1
  } finally {
    for (const end of ended) await end()
  }
}
