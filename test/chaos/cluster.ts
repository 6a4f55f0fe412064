// Kills and pauses gateways that share a book, and PostgreSQL and Redis, under a load of everything, and holds the
// books against what clients saw and upstreams counted.
// As a script: node test/chaos/cluster.ts [kills, default 300] [seed]. It says what it does, and ends with a table.
import { setTimeout as sleep } from 'node:timers/promises'
import { startSimulator } from '../../core/simulator/simulator.ts'
import { brokenIn } from '../kit/cluster-money.ts'
import { Fleet } from '../kit/fleet.ts'
import type { FleetEntry, FleetNode, Owner } from '../kit/fleet.ts'
import { nanoCost } from '../kit/oracle.ts'
import { eventually } from '../kit/probe.ts'
import { call, goesOn, lookAt, pictures, responses, wrongResponses, wrongTalks, wrongTasks } from '../money/lasting.ts'
import type { Part, Task } from '../money/lasting.ts'
import { PlannedUpstream } from '../money/planned.ts'
import { chance, configOf, key, prices } from '../money/rig.ts'
import type { More } from '../money/rig.ts'
import { Clients, indexOf } from './cluster-clients.ts'

/** What is done to whom, and how often among the others. */
const blows = {
  'kill a node': 10,
  'pause a node for longer than its lease': 1,
  'kill PostgreSQL': 4,
  'stand between the nodes and PostgreSQL': 2,
  'cut all connections to PostgreSQL': 2,
  'kill Redis': 3,
  'pause Redis': 3
} as const
type Blow = keyof typeof blows

/** Longer than the lease of a node and of its work, 15 s. */
const pauseMs = 21_000

/** What is tried. */
export interface Trial {
  readonly kills: number
  readonly seed: number
  /** How many clients there are of each kind. Default: 2. */
  readonly width?: number
  /** What is done, one after another, in place of what chance says. */
  readonly plan?: readonly Blow[]
  readonly say?: (text: string) => void
}

/** What became of it. All but the counts are supposed to be empty or zero. */
export interface Outcome {
  readonly counts: Readonly<Record<string, number | string>>
  /** What was seen and is in no book, or charged otherwise than it was seen. */
  readonly wrong: readonly object[]
  /** What was charged more often than it was asked for. */
  readonly doubled: readonly object[]
  /** Holds, slots and work that nobody ends. */
  readonly orphans: readonly object[]
  /** What breaks an invariant of the book. */
  readonly broken: readonly unknown[]
}

const simulated = ['native', 'own', 'talk', 'demo'] as const

async function configure(t: Owner, upstreams: readonly PlannedUpstream[]): Promise<More> {
  const price = { input: 1, output: 2 }
  const base = configOf(upstreams) as { channels: More; models: More; chain: More[] }
  const endpoints = { native: ['responses'], own: ['chat'], talk: ['realtime'], demo: ['videos', 'images'] }
  const channels: Record<string, unknown> = { ...base.channels }
  for (const name of simulated) {
    const simulator = await startSimulator()
    t.teardown(() => simulator.close())
    channels[name] = {
      protocol: 'openai',
      base_url: `${simulator.url.origin}/v1`,
      private: true,
      models: { [name]: 'demo' },
      endpoints: endpoints[name]
    }
  }
  const budget = { usd: 100_000_000, per: 'month' }
  return {
    ...base,
    state: { key: 'a secret of the operator that nobody else knows' },
    tasks: { poll: { first: '20ms', most: '100ms' } },
    channels,
    models: {
      ...base.models,
      native: { price },
      own: { price, state: 'gateway' },
      talk: { price },
      demo: { price: { second: 0.1, image: 0.04 } }
    },
    tenants: { acme: { budget, projects: { web: { budget } } } },
    keys: [key('test', { project: 'web', budget, limits: { rpm: 1_000_000, concurrency: 10_000 } })],
    chain: [base.chain[0], { idempotency: {} }, ...base.chain.slice(1)]
  }
}

/** Runs a load over so many kills. Everything ends with the owner. */
export async function clusterKills(
  t: Owner,
  { kills, seed, width = 2, plan, say = () => {} }: Trial
): Promise<Outcome> {
  const random = chance(seed)
  const upstreams = [
    await PlannedUpstream.start(t as never, 'first'),
    await PlannedUpstream.start(t as never, 'second')
  ]
  const fleet = await Fleet.start(t, {
    config: await configure(t, upstreams),
    database: (_, proxy, direct) => proxy.url(direct)
  })
  const clients = new Clients(() => fleet.nodes[random(fleet.nodes.length)]!.url, random, width)
  let done: Record<string, number>
  try {
    done = await strike(fleet, clients, plan ?? planned(kills, random), random, say)
  } finally {
    await clients.end()
  }
  say('nothing more is asked for')
  return judge(fleet, clients, upstreams, done, say)
}

function planned(kills: number, random: (below: number) => number): Blow[] {
  const bag = Object.entries(blows).flatMap(([blow, times]) => Array.from({ length: times }, () => blow as Blow))
  return Array.from({ length: kills }, () => bag[random(bag.length)]!)
}

/** Does everything of a plan, and sees to it that all runs again. Returns how often each was done. */
async function strike(
  fleet: Fleet,
  clients: Clients,
  plan: readonly Blow[],
  random: (below: number) => number,
  say: (text: string) => void
): Promise<Record<string, number>> {
  const done: Record<string, number> = {}
  /** What goes on beside the next blows. */
  const healing = new Set<Promise<void>>()
  const busy = new Set<FleetNode>()
  const beside = (work: Promise<void>): void => {
    const noted = work.finally(() => healing.delete(noted))
    healing.add(noted)
  }
  const idle = async (): Promise<FleetNode> => {
    // One is left to the clients.
    while (busy.size > 1) await Promise.race(healing)
    const nodes = fleet.nodes.filter((node) => !busy.has(node))
    const node = nodes[random(nodes.length)]!
    busy.add(node)
    return node
  }
  const does: Record<Blow, () => Promise<void>> = {
    async 'kill a node'() {
      const node = await idle()
      await node.end('SIGKILL')
      // It may begin when PostgreSQL is away, and ends then: whoever watches it starts it again.
      beside(again(() => node.start()).then(() => void busy.delete(node)))
    },
    async 'pause a node for longer than its lease'() {
      const node = await idle()
      beside(node.pause(pauseMs).then(() => void busy.delete(node)))
    },
    async 'kill PostgreSQL'() {
      await fleet.postgres.stop('KILL')
      await sleep(random(3000))
      await again(() => fleet.postgres.resume())
    },
    async 'stand between the nodes and PostgreSQL'() {
      fleet.proxy.stand()
      await sleep(random(4000))
      fleet.proxy.goOn()
    },
    async 'cut all connections to PostgreSQL'() {
      fleet.proxy.cut()
    },
    async 'kill Redis'() {
      await fleet.redis.kill()
      await sleep(random(2000))
      await fleet.redis.resume()
    },
    async 'pause Redis'() {
      fleet.redis.signal('SIGSTOP')
      await sleep(random(2000))
      fleet.redis.signal('SIGCONT')
    }
  }
  for (const [index, blow] of plan.entries()) {
    const before = clients.ended
    await eventually(() => clients.ended > before, 120_000)
    await sleep(random(400))
    say(`${index + 1} of ${plan.length}: ${blow}; ${clients.ended} chats are answered`)
    await does[blow]()
    done[blow] = (done[blow] ?? 0) + 1
  }
  await Promise.all(healing)
  return done
}

/** Starts something again until it stays: processes of a server that was killed may still be there. */
async function again(resume: () => Promise<void>): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      return await resume()
    } catch (error) {
      if (tries === 50) throw error
      await sleep(100)
    }
  }
}

async function judge(
  fleet: Fleet,
  clients: Clients,
  upstreams: readonly PlannedUpstream[],
  done: Readonly<Record<string, number>>,
  say: (text: string) => void
): Promise<Outcome> {
  // Its open requests are ended by the others.
  await fleet.nodes[0]!.end('SIGKILL')
  const { url } = fleet.nodes[1]!
  const orphans: object[] = []
  const wait = async (what: string, over: () => Promise<boolean>, withinMs: number): Promise<void> => {
    say(`waiting for ${what}`)
    await eventually(over, withinMs).catch(() => void orphans.push({ what }))
  }
  const shown = new Map<string, any>()
  await wait(
    'the ends of responses',
    async () => {
      for (const { id } of clients.known) {
        if (shown.has(id)) continue
        const reply = await call(`${url}${responses}/${id}`, 'GET')
        if (reply?.status !== 200 && reply?.status !== 404) continue
        const response = reply.status === 200 ? JSON.parse(reply.text) : undefined
        if (!goesOn.has(response?.status)) shown.set(id, response)
      }
      return shown.size === clients.known.length
    },
    60_000
  )
  const seen = new Map<string, string>()
  await wait(
    'the ends of tasks',
    async () => {
      for (const task of clients.tasks) {
        if (seen.has(task.id)) continue
        const found = await lookAt(url, task)
        if (found && !goesOn.has(found.status)) seen.set(task.id, found.status)
      }
      return seen.size === clients.tasks.length
    },
    60_000
  )
  await wait('work', async () => (await fleet.sql('select id from sluice.work where open')).length === 0, 60_000)
  const holds = (): Promise<object[]> =>
    fleet.sql('select request_id, part, node, endpoint, lease_until from sluice.hold')
  await wait('holds', async () => (await holds()).length === 0, 60_000)
  orphans.push(...(await holds()))
  await wait('slots', async () => Object.keys(await fleet.slots()).length === 0, 10_000)

  const entries = (await fleet.journal()).filter((entry) => entry.class === 'terminal')
  const ends = new Map(entries.map((entry) => [`${entry.request_id}/${entry.part}`, entry as unknown as Part]))
  const wasPaused = fleet.nodes.some(({ pauses }) => pauses.length > 0)
  // What a node had under way that was paused for longer than its lease is ended by others, by estimate.
  const excused = ({ end }: { end?: FleetEntry | undefined }): boolean => wasPaused && end?.source === 'recovered'
  const byIndex = Map.groupBy(
    entries.filter(({ model }) => model === 'plain'),
    ({ reserved }) => indexOf(reserved)
  )
  const chats = wrongChats(clients, ends, byIndex)
  const tasks = wrongTasks(
    new Map(entries.map((entry) => [entry.request_id, entry as unknown as Part])),
    clients.tasks,
    seen
  ) as { task: Task; status: string; end?: FleetEntry }[]
  // What a gateway makes itself is charged before its end is written: a kill between the two fails it.
  const cut = tasks.filter(
    ({ task, status, end }) => task.path === pictures && status === 'failed' && end?.kind === 'settle'
  )
  const wrong = [
    ...chats.filter((one) => !excused(one)),
    ...wrongResponses(ends, clients.known, shown).filter((one) => !excused(one)),
    ...tasks.filter((one) => !cut.includes(one)),
    ...wrongTalks([...ends.values()], clients.talks).filter(
      (one) => !wasPaused || !(one as { parts: Part[] }).parts.some(({ source }) => source === 'recovered')
    )
  ]
  const { doubled, unwritten, unpaid } = held(byIndex, upstreams)
  const settled = entries.filter(({ kind }) => kind === 'settle')
  const sum = (source: string): number => settled.filter((entry) => entry.source === source).length
  return {
    counts: {
      ...done,
      chats: clients.chats.length,
      'answered wholly': clients.ended,
      responses: clients.known.length,
      tasks: clients.tasks.length,
      sessions: clients.talks.length,
      turns: clients.talks.reduce((sum, { done }) => sum + done.length, 0),
      'charged as counted': sum('upstream'),
      'charged by estimate': sum('recovered') + sum('estimated') + sum('partial'),
      'given back': entries.length - settled.length,
      'asked for in the moment of a kill, and given back': unpaid,
      'asked for in the moment of a kill, and in no book': unwritten,
      'pictures that failed after their charge': cut.length,
      'charged by others after a pause': chats.filter(excused).length,
      ...Object.fromEntries([...clients.codes].sort().map(([code, times]) => [`reply ${code}`, times]))
    },
    wrong,
    doubled,
    orphans,
    broken: await brokenIn(fleet.direct)
  }
}

/** The chats whose client saw something that is not in the book, or an end that is charged otherwise. */
function wrongChats(
  clients: Clients,
  ends: ReadonlyMap<string, Part>,
  byIndex: ReadonlyMap<number, FleetEntry[]>
): { end?: FleetEntry | undefined }[] {
  return clients.chats.flatMap((seen) => {
    if (seen.status !== 200) return []
    const due = nanoCost({ ...seen.plan.units, request: 1 }, prices['plain']!)
    const isDue = (end: FleetEntry | undefined): boolean =>
      end?.kind === 'settle' && end.source === 'upstream' && end.amount === due
    const all = byIndex.get(seen.index) ?? []
    // What is given again was charged with the request that it was made for.
    const end = seen.repeated ? (all.find(isDue) ?? all[0]) : (ends.get(`${seen.id}/`) as FleetEntry | undefined)
    const problem = !end
      ? 'shown, and not in the book'
      : seen.ended && !isDue(end)
        ? 'not charged as the upstream counted'
        : end.source === 'recovered' && end.amount > end.reserved
          ? 'recovered for more than was held'
          : undefined
    return problem === undefined ? [] : [{ problem, seen: { ...seen, text: seen.text.slice(-80) }, due, end }]
  })
}

/**
 * By what was held for each chat: what was charged too often; and how much an upstream was asked in the moment of a
 * kill, of which clients saw nothing: what is in no book, as dispatch does not wait for that, and what was given back.
 */
function held(
  byIndex: ReadonlyMap<number, FleetEntry[]>,
  upstreams: readonly PlannedUpstream[]
): { doubled: object[]; unwritten: number; unpaid: number } {
  const doubled: object[] = []
  let [unwritten, unpaid] = [0, 0]
  const asked = new Map<string, any[]>()
  for (const { seen } of upstreams)
    for (const [id, bodies] of seen) asked.set(id, [...(asked.get(id) ?? []), ...bodies])
  for (const [id, bodies] of asked) {
    const ends = byIndex.get(Number(id.slice(1)) - 100_000) ?? []
    const charged = ends.filter(({ kind }) => kind === 'settle').length
    if (charged > bodies.length) doubled.push({ id, asked: bodies.length, ends })
    const { fault } = JSON.parse(bodies[0].messages[0].content)
    if (ends.length === 0) unwritten++
    else if (fault === undefined && charged < bodies.length) unpaid += bodies.length - charged
  }
  return { doubled, unwritten, unpaid }
}

if (process.argv[1] === import.meta.filename) {
  const [kills = 300, seed = 20261127] = process.argv.slice(2, 4).map(Number)
  const ended: (() => unknown)[] = []
  const owner = { teardown: (end: () => unknown) => void ended.unshift(end) } as unknown as Owner
  const began = performance.now()
  const say = (text: string): void =>
    void process.stderr.write(`${Math.round((performance.now() - began) / 1000)} s: ${text}\n`)
  try {
    const { counts, ...found } = await clusterKills(owner, { kills, seed, say })
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
