// A load of everything that a gateway does, for those who kill gateways under it: what it runs on, and what the books
// must have of its chats.
import { startSimulator } from '../../core/simulator/simulator.ts'
import type { Owner } from '../kit/fleet.ts'
import { nanoCost } from '../kit/oracle.ts'
import { call, goesOn, lookAt, responses, wrongResponses, wrongTalks, wrongTasks } from '../money/lasting.ts'
import type { Part } from '../money/lasting.ts'
import type { PlannedUpstream } from '../money/planned.ts'
import { configOf, key, prices } from '../money/rig.ts'
import type { More } from '../money/rig.ts'
import { indexOf } from './cluster-clients.ts'
import type { Clients } from './cluster-clients.ts'

const simulated = ['native', 'own', 'talk', 'demo'] as const

/** A gateway.yaml without a store, in which {@link Clients} find all that they ask for. */
export async function configOfEverything(t: Owner, upstreams: readonly PlannedUpstream[]): Promise<More> {
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

/** How what goes on behind its answer is, as clients are told of it when it has ended: by its id. */
export interface Shown {
  readonly responses: Map<string, any>
  readonly tasks: Map<string, string>
}

export function nothingShown(): Shown {
  return { responses: new Map(), tasks: new Map() }
}

/** Asks for everything whose end was not shown yet. Resolves with whether all of it has ended. */
export async function lookAtAll(url: string, { known, tasks }: Clients, shown: Shown): Promise<boolean> {
  for (const { id } of known) {
    if (shown.responses.has(id)) continue
    const reply = await call(`${url}${responses}/${id}`, 'GET')
    if (reply?.status !== 200 && reply?.status !== 404) continue
    const response = reply.status === 200 ? JSON.parse(reply.text) : undefined
    if (!goesOn.has(response?.status)) shown.responses.set(id, response)
  }
  for (const task of tasks) {
    if (shown.tasks.has(task.id)) continue
    const found = await lookAt(url, task)
    if (found && !goesOn.has(found.status)) shown.tasks.set(task.id, found.status)
  }
  return shown.responses.size === known.length && shown.tasks.size === tasks.length
}

/** What clients saw against the books. All but the counts are supposed to be empty. */
export interface Judgement {
  readonly counts: Readonly<Record<string, number>>
  /** What was seen and is in no book, or charged otherwise than it was seen. */
  readonly wrong: readonly object[]
  /** What was charged more often than it was asked for. */
  readonly doubled: readonly object[]
}

/**
 * Judges the ends of all exchanges and parts, by what clients saw. `excused`: ends that others have made while their
 * gateway still showed something.
 */
export function judgeAll(
  clients: Clients,
  entries: readonly Part[],
  shown: Shown,
  upstreams: readonly PlannedUpstream[],
  excused: (end: Part | undefined) => boolean = () => false
): Judgement {
  const nameOf = ({ request_id, part }: Part): string => `${request_id}/${part}`
  const ends = new Map(entries.map((entry) => [nameOf(entry), entry]))
  const byIndex = Map.groupBy(
    entries.filter(({ model }) => model === 'plain'),
    ({ reserved }) => indexOf(reserved)
  )
  const chats = wrongChats(clients, ends, byIndex)
  const tasks = wrongTasks(new Map(entries.map((entry) => [entry.request_id, entry])), clients.tasks, shown.tasks)
  const answered = wrongResponses(ends, clients.known, shown.responses) as { end?: Part }[]
  const talks = wrongTalks(entries, clients.talks) as { parts: Part[] }[]
  const wrong = [
    ...chats.filter(({ end }) => !excused(end)),
    ...answered.filter(({ end }) => !excused(end)),
    ...tasks,
    ...talks.filter(({ parts }) => !parts.some(excused))
  ]
  const { doubled, unwritten, unpaid } = heldChats(byIndex, upstreams)
  const twice = [...Map.groupBy(entries, nameOf).values()].filter(({ length }) => length > 1)
  const settled = entries.filter(({ kind }) => kind === 'settle')
  const sum = (source: string): number => settled.filter((entry) => entry.source === source).length
  return {
    counts: {
      chats: clients.chats.length,
      'answered wholly': clients.ended,
      responses: clients.known.length,
      tasks: clients.tasks.length,
      sessions: clients.talks.length,
      turns: clients.talks.reduce((all, { done }) => all + done.length, 0),
      'charged as counted': sum('upstream'),
      'charged by estimate': sum('recovered') + sum('estimated') + sum('partial'),
      'given back': entries.length - settled.length,
      'asked for in the moment of a kill, and given back': unpaid,
      'asked for in the moment of a kill, and in no book': unwritten,
      'charged by others': chats.filter(({ end }) => excused(end)).length,
      ...Object.fromEntries([...clients.codes].sort().map(([code, times]) => [`reply ${code}`, times]))
    },
    wrong,
    doubled: [...doubled, ...twice]
  }
}

/** The chats whose client saw something that is not in the book, or an end that is charged otherwise. */
function wrongChats(
  clients: Clients,
  ends: ReadonlyMap<string, Part>,
  byIndex: ReadonlyMap<number, Part[]>
): { end?: Part | undefined }[] {
  return clients.chats.flatMap((seen) => {
    if (seen.status !== 200) return []
    const due = nanoCost({ ...seen.plan.units, request: 1 }, prices['plain']!)
    const isDue = (end: Part | undefined): boolean =>
      end?.kind === 'settle' && end.source === 'upstream' && end.amount === due
    const all = byIndex.get(seen.index) ?? []
    // What is given again was charged with the request that it was made for.
    const end = seen.repeated ? (all.find(isDue) ?? all[0]) : ends.get(`${seen.id}/`)
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
function heldChats(
  byIndex: ReadonlyMap<number, Part[]>,
  upstreams: readonly PlannedUpstream[]
): { doubled: object[]; unwritten: number; unpaid: number } {
  const doubled: object[] = []
  let [unwritten, unpaid] = [0, 0]
  const asked = new Map<string, any[]>()
  for (const { seen } of upstreams)
    for (const [id, bodies] of seen) asked.set(id, [...(asked.get(id) ?? []), ...bodies])
  for (const [id, bodies] of asked) {
    // Others than the clients may ask too.
    if (!id.startsWith('c')) continue
    const ends = byIndex.get(Number(id.slice(1)) - 100_000) ?? []
    const settled = ends.filter(({ kind }) => kind === 'settle')
    const charged = settled.length
    // A hold that says "dispatched" is charged by estimate after a kill, also where that came before the request left.
    const counted = settled.filter(({ source }) => source !== 'recovered').length
    if (counted > bodies.length) doubled.push({ id, asked: bodies.length, ends })
    const { fault } = JSON.parse(bodies[0].messages[0].content)
    if (ends.length === 0) unwritten++
    else if (fault === undefined && charged < bodies.length) unpaid += bodies.length - charged
  }
  return { doubled, unwritten, unpaid }
}
