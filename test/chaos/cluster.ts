// Kills and pauses gateways that share a book, and PostgreSQL and Redis, under a load of everything, and holds the
// books against what clients saw and upstreams counted.
// As a script: node test/chaos/cluster.ts [kills, default 300] [seed]. It says what it does, and ends with a table.
import { setTimeout as sleep } from 'node:timers/promises'
import { brokenIn } from '../kit/cluster-money.ts'
import { Fleet } from '../kit/fleet.ts'
import type { FleetNode, Owner } from '../kit/fleet.ts'
import { eventually } from '../kit/probe.ts'
import type { Part } from '../money/lasting.ts'
import { PlannedUpstream } from '../money/planned.ts'
import { chance } from '../money/rig.ts'
import { Clients } from './cluster-clients.ts'
import { configOfEverything, judgeAll, lookAtAll, nothingShown } from './everything.ts'

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
    config: await configOfEverything(t, upstreams),
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
  const shown = nothingShown()
  await wait('the ends of responses and tasks', () => lookAtAll(url, clients, shown), 120_000)
  await wait('work', async () => (await fleet.sql('select id from sluice.work where open')).length === 0, 60_000)
  const holds = (): Promise<object[]> =>
    fleet.sql('select request_id, part, node, endpoint, lease_until from sluice.hold')
  await wait('holds', async () => (await holds()).length === 0, 60_000)
  orphans.push(...(await holds()))
  await wait('slots', async () => Object.keys(await fleet.slots()).length === 0, 10_000)

  const entries = (await fleet.journal()).filter((entry) => entry.class === 'terminal') as unknown as Part[]
  const wasPaused = fleet.nodes.some(({ pauses }) => pauses.length > 0)
  // What a node had under way that was paused for longer than its lease is ended by others, by estimate.
  const excused = (end: Part | undefined): boolean => wasPaused && end?.source === 'recovered'
  const { counts, ...found } = judgeAll(clients, entries, shown, upstreams, excused)
  return {
    counts: { ...done, ...counts },
    ...found,
    orphans,
    broken: await brokenIn(fleet.direct)
  }
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
