// Simulates gateways that admit from slices of budgets, and writes what it took to SLICES.md.
// node .tools/node.mjs bench/slices.ts [nodes] [keys] [requests a second] [seconds]
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Share } from '../core/store/cluster/money/slices/slices.ts'
import { usualSizing } from '../core/store/cluster/money/slices/slice.ts'
import type { Sizing } from '../core/store/cluster/money/slices/slice.ts'
import { chance } from '../test/kit/chance.ts'
import { ModelNode, SliceBook } from '../test/kit/slice-book.ts'
import type { ModelRequest } from '../test/kit/slice-book.ts'

const [nodes = 100, keys = 1_000_000, rate = 10_000, seconds = 20] = process.argv.slice(2).map(Number)
const lease = 15_000
/** How long a request is decided on, the first pause before it is asked again, and the longest; milliseconds. */
const [patience, firstPause, longestPause] = [2000, 5, 100]
/** How long a node gathers what it sends, and how often it looks after its slices. */
const [gathers, looks] = [2, 500]
const tenants = 1000
/** The largest amount, in nano-dollars. */
const largest = 20_000_000

/** What a run has shown. */
interface Figures {
  requests: number
  memory: number
  refused: number
  /** Requests that a budget could have paid for, by a count of what was admitted at that moment. */
  wrongly: number
  /** Requests that were told to come again, because nodes that are gone hold what could pay them. */
  later: number
  /** By how much a budget was exceeded. */
  over: bigint
  batches: number
  /** Of them those that were sent for slices alone. */
  bare: number
  grants: number
  recalls: number
  /** How long each request waited that was not admitted in memory, and each that waited for slices of others. */
  waits: number[]
  edges: number[]
  /** The most slices that were out at a time, over all nodes. */
  slices: number
}

/** What happens at a time. */
interface Event {
  readonly at: number
  run(): void
}

/** Events in the order of their times: a binary heap. */
class Agenda {
  now = 0
  readonly #heap: Event[] = []

  add(at: number, run: () => void): void {
    const heap = this.#heap
    const event = { at, run }
    let i = heap.push(event) - 1
    for (let up = (i - 1) >> 1; i > 0 && heap[up]!.at > at; i = up, up = (i - 1) >> 1) heap[i] = heap[up]!
    heap[i] = event
  }

  run(until: number): void {
    const heap = this.#heap
    while (heap.length > 0 && heap[0]!.at <= until) {
      const first = heap[0]!
      const last = heap.pop()!
      if (heap.length > 0) {
        let i = 0
        for (let down = 1; down < heap.length; down = 2 * i + 1) {
          if (down + 1 < heap.length && heap[down + 1]!.at < heap[down]!.at) down++
          if (heap[down]!.at >= last.at) break
          heap[i] = heap[down]!
          i = down
        }
        heap[i] = last
      }
      this.now = first.at
      first.run()
    }
  }
}

/** What is simulated: whether keys have budgets too, how slices are sized, and whether a node ends without a word. */
interface Setting {
  readonly name: string
  readonly keyed: boolean
  readonly sizing: Sizing
  readonly crashes?: boolean
}

/** One simulation. */
class Simulation {
  readonly figures: Figures = {
    requests: 0,
    memory: 0,
    refused: 0,
    wrongly: 0,
    later: 0,
    over: 0n,
    batches: 0,
    bare: 0,
    grants: 0,
    recalls: 0,
    waits: [],
    edges: [],
    slices: 0
  }
  readonly #chance = chance(20261127)
  readonly #agenda = new Agenda()
  readonly #book = new SliceBook(lease)
  readonly #nodes: ModelNode[]
  readonly #gone = new Set<ModelNode>()
  readonly #pending = new Map<ModelRequest, (verdict: string) => void>()
  readonly #gathering = new Set<ModelNode>()
  /** By budget: what was admitted, counted apart from the book. */
  readonly #admitted = new Map<string, bigint>()

  readonly #setting: Setting

  constructor(setting: Setting) {
    this.#setting = setting
    const { sizing } = setting
    this.#nodes = Array.from({ length: nodes }, (_, i) => new ModelNode(`node ${i}`, lease, sizing))
    for (const node of this.#nodes) {
      node.enter(this.#book.join(node.name, 0), 0)
      this.#agenda.add(this.#chance.random() * looks, () => this.#look(node))
      this.#agenda.add(this.#chance.random() * (lease / 3), () => this.#renew(node))
    }
    this.#book.notify = (names) => {
      this.figures.recalls++
      this.#agenda.add(this.#agenda.now + 1, () => {
        for (const node of this.#nodes) for (const name of names) if (node.slices.recall(name)) this.#wake(node)
      })
    }
  }

  run(): Figures {
    const { random } = this.#chance
    const end = seconds * 1000
    const next = (): void => {
      this.#arrive()
      const at = this.#agenda.now + (-Math.log(1 - random()) * 1000) / rate
      if (at < end) this.#agenda.add(at, next)
    }
    this.#agenda.add(0, next)
    if (this.#setting.crashes) this.#agenda.add(end / 3, () => this.#gone.add(this.#nodes[0]!))
    const take = (): void => {
      this.#book.takeOver(this.#agenda.now)
      this.#agenda.add(this.#agenda.now + lease / 3, take)
    }
    this.#agenda.add(lease / 3, take)
    this.#agenda.run(end + patience)
    return this.figures
  }

  /** A key by Zipf's law: the n-th is asked for 1/n as often as the first. */
  #sharesOf(rank: number): Share[] {
    const tenant = Math.imul(rank, 0x9e3779b1) >>> 0
    // Some tenants and the busiest keys come to the end of their budgets while this runs.
    const poor = tenant % tenants < 100
    const mean = BigInt(largest / 2)
    const limit = poor ? (mean * BigInt(rate * seconds)) / BigInt(tenants * 4) : 10n ** 15n
    const shares = [{ key: `tenant ${tenant % tenants}`, limit, hour: 0 }]
    if (this.#setting.keyed) shares.push({ key: `key ${rank}`, limit: 2000n * mean, hour: 0 })
    return shares
  }

  #arrive(): void {
    const { random, pick } = this.#chance
    const node = pick(this.#nodes)
    const amount = BigInt(1 + Math.floor(largest * random()))
    const rank = Math.floor(Math.exp(random() * Math.log(keys + 1)))
    const shares = this.#sharesOf(rank)
    const length = 500 + 3000 * random()
    if (this.#gone.has(node)) return
    this.figures.requests++
    this.#ask(node, shares, amount, length, this.#agenda.now, firstPause)
  }

  #ask(node: ModelNode, shares: Share[], amount: bigint, length: number, began: number, pause: number): void {
    const { now } = this.#agenda
    const request: ModelRequest = { shares, amount, taken: [] }
    const memory = node.ask(request, now)
    if (memory) this.#admit(shares, amount)
    if (memory && now === began) this.figures.memory++
    this.#pending.set(request, (verdict) => {
      const answeredAt = this.#agenda.now
      if (verdict === 'admitted') {
        const charged = (amount * BigInt(Math.floor(1 + 600 * this.#chance.random()))) / 1000n
        this.#agenda.add(answeredAt + length, () => this.#end(node, request, charged))
      } else if (verdict === 'undecided') {
        const at = answeredAt + pause * (0.75 + this.#chance.random() / 2)
        if (at - began < patience) {
          this.#agenda.add(at, () => this.#ask(node, shares, amount, length, began, Math.min(2 * pause, longestPause)))
          return
        }
        this.figures.later++
      } else if (verdict === 'stuck') this.figures.later++
      else this.figures.refused++
      if (memory && now === began) return
      this.figures.waits.push(answeredAt - began)
      if (pause > firstPause) this.figures.edges.push(answeredAt - began)
    })
    this.#wake(node)
  }

  #admit(shares: readonly Share[], amount: bigint): void {
    for (const { key, limit } of shares) {
      const sum = (this.#admitted.get(key) ?? 0n) + amount
      this.#admitted.set(key, sum)
      if (sum - limit > this.figures.over) this.figures.over = sum - limit
    }
  }

  #end(node: ModelNode, request: ModelRequest, charged: bigint): void {
    if (this.#gone.has(node)) return
    node.ends.push({ request, charged })
    this.#wake(node)
  }

  #look(node: ModelNode): void {
    if (this.#gone.has(node)) return
    if (node.slices.look(this.#agenda.now)) this.#wake(node)
    this.#agenda.add(this.#agenda.now + looks, () => this.#look(node))
  }

  #renew(node: ModelNode): void {
    if (this.#gone.has(node)) return
    this.#send(node)
    this.#agenda.add(this.#agenda.now + lease / 3, () => this.#renew(node))
  }

  #wake(node: ModelNode): void {
    if (this.#gathering.has(node)) return
    this.#gathering.add(node)
    this.#agenda.add(this.#agenda.now + gathers, () => this.#send(node))
  }

  #send(node: ModelNode): void {
    this.#gathering.delete(node)
    if (this.#gone.has(node)) return
    const batch = node.build(this.#agenda.now)
    if (!batch) return
    this.figures.batches++
    if (batch.requests.length + batch.ends.length === 0) this.figures.bare++
    const { random } = this.#chance
    this.#agenda.add(this.#agenda.now + 0.5 + 2 * random(), () => {
      const answer = this.#book.batch(node.name, batch, this.#agenda.now)!
      for (const grant of answer.grants) if (grant > 0n) this.figures.grants++
      for (const { request, charged } of batch.ends) this.#give(request, charged)
      for (const [i, { shares, amount, taken }] of batch.requests.entries()) {
        const verdict = answer.verdicts[i]!
        if (verdict === 'admitted' && taken.includes(undefined)) this.#admit(shares, amount)
        if (
          verdict === 'refused' &&
          shares.every(({ key, limit }) => (this.#admitted.get(key) ?? 0n) + amount <= limit)
        )
          this.figures.wrongly++
      }
      this.#agenda.add(this.#agenda.now + 0.5 + 2 * random(), () => {
        if (node.answered(answer)) this.#wake(node)
        for (const [i, request] of batch.requests.entries()) {
          const decided = this.#pending.get(request)!
          this.#pending.delete(request)
          decided(answer.verdicts[i]!)
        }
        let out = 0
        if (this.figures.batches % 500 === 0) {
          for (const { slices } of this.#book.members.values()) out += slices.size
          this.figures.slices = Math.max(this.figures.slices, out)
        }
        if (node.requests.length + node.ends.length > 0) this.#wake(node)
      })
    })
  }

  #give({ shares, amount }: ModelRequest, charged: bigint): void {
    for (const { key } of shares) this.#admitted.set(key, this.#admitted.get(key)! + charged - amount)
  }
}

function shown(times: number[]): string {
  if (times.length === 0) return '–'
  times.sort((a, b) => a - b)
  return [0.5, 0.99, 1]
    .map((q) => times[Math.min(times.length - 1, Math.floor(q * times.length))]!.toFixed(0))
    .join(' / ')
}

const scaled = (by: number): Sizing => ({
  ...usualSizing,
  ahead: usualSizing.ahead * by,
  few: usualSizing.few * by
})
const none: Sizing = { ...usualSizing, idle: -1 }
const settings: readonly Setting[] = [
  { name: 'budgets of tenants, no slices', keyed: false, sizing: none },
  { name: 'budgets of tenants', keyed: false, sizing: usualSizing },
  { name: 'and of keys, no slices', keyed: true, sizing: none },
  { name: 'and of keys', keyed: true, sizing: usualSizing },
  { name: 'slices half as large', keyed: true, sizing: scaled(0.5) },
  { name: 'slices twice as large', keyed: true, sizing: scaled(2) },
  { name: 'slices idle for 1 s', keyed: true, sizing: { ...usualSizing, idle: 1000 } },
  { name: 'slices idle for 10 s', keyed: true, sizing: { ...usualSizing, idle: 10_000 } },
  { name: 'a node ends without a word', keyed: true, sizing: usualSizing, crashes: true }
]

const rows: string[] = []
let wrong = false
for (const setting of settings) {
  const began = process.cpuUsage()
  const one = new Simulation(setting).run()
  const { user } = process.cpuUsage(began)
  const each = (count: number): string => (count / seconds).toFixed(count < seconds ? 2 : 0)
  if (one.over > 0n || one.wrongly > 0) wrong = true
  console.error(`${setting.name}: ${(user / 1e6).toFixed(1)} s of CPU`)
  rows.push(
    `| ${[
      setting.name,
      `${((100 * one.memory) / one.requests).toFixed(1)} %`,
      each(one.batches),
      each(one.bare),
      each(one.grants),
      each(one.recalls),
      one.slices,
      shown(one.waits),
      `${one.edges.length}: ${shown(one.edges)}`,
      one.refused,
      `${one.wrongly} / ${one.later}`,
      one.over
    ].join(' | ')} |`
  )
}

writeFileSync(
  join(import.meta.dirname, 'SLICES.md'),
  `# Slices of budgets, simulated

\`node .tools/node.mjs bench/slices.ts\` has written this page. ${nodes} nodes have ${rate.toLocaleString('en')} requests a second together for
${seconds} seconds, of ${keys.toLocaleString('en')} keys by Zipf's law, at random nodes. Each key and each of ${tenants} tenants has a budget, and
every tenth tenant and the busiest keys come to the end of theirs. A request holds up to 0.02 USD for 0.5 to 3.5
seconds and costs a third of that. An answer of the database takes 1 to 5 ms, and a node gathers for ${gathers} ms before it
asks. The nodes' part is the code of the gateway ([slices](../core/store/cluster/money/slices/slices.ts)); that of the database
is a [model](../test/kit/slice-book.ts) of its function.

| | in memory | batches/s | of them for slices alone | slices given/s | recalls/s | most slices at a time | others waited, ms (p50 / p99 / most) | waited for slices of others, ms | refused | wrongly refused / told to come again | most beyond a budget |
|---|---|---|---|---|---|---|---|---|---|---|---|
${rows.join('\n')}

A request that is admitted in memory waits for nothing. Of those that are refused, none could have been paid at that
moment, by a count of its own: what was admitted anywhere, less what ends have given back in the database. "Told to
come again" are those that only the slice of a node that is gone could have paid.
`
)
if (wrong) {
  console.error('a budget was exceeded, or a request was refused that could be paid')
  process.exitCode = 1
}
