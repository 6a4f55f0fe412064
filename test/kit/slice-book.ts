// A model of nodes with slices on one book: what the database does with a batch, and what a node does with its answer.
import { grantOf } from '../../core/store/cluster/money/slices/slices.ts'
import { Slices } from '../../core/store/cluster/money/slices/slices.ts'
import type { Share, Taken } from '../../core/store/cluster/money/slices/slices.ts'
import type { Change, Sizing } from '../../core/store/cluster/money/slices/slice.ts'

/** How long no slices of a budget are given after a request had to wait for those of others, in milliseconds. */
const edgeFor = 2000

/** What a budget has. Amounts are in nano-dollars. */
export interface ModelCell {
  /** Of a rolling budget: what its hours have; else everything is in hour 0. */
  readonly hours: Map<number, bigint>
  /** How many hours count; 0 for a budget of a calendar window. */
  readonly length: number
  sliced: bigint
  edge: number
}

/** What came of a request: `stuck` when it can only be paid from the slices of nodes that are gone. */
export type Verdict = 'admitted' | 'refused' | 'undecided' | 'stuck'

/** A request, until it is decided. */
export interface ModelRequest {
  readonly shares: readonly Share[]
  readonly amount: bigint
  taken: Taken
  /** Whether it was admitted in memory. */
  sure?: boolean
}

/** What a node sends. */
export interface ModelBatch {
  readonly epoch: number
  readonly number: number
  readonly requests: readonly ModelRequest[]
  readonly ends: readonly { readonly request: ModelRequest; readonly charged: bigint }[]
  readonly changes: readonly Change[]
}

/** What it is answered. */
export interface ModelAnswer {
  readonly verdicts: readonly Verdict[]
  readonly grants: readonly bigint[]
  /** The budgets of the batch that are at their edge. */
  readonly edges: readonly string[]
}

interface Member {
  epoch: number
  expires: number
  number: number
  answer: ModelAnswer | undefined
  slices: Map<string, bigint>
  /** What of them is admitted and not written, as the node said last, and the latest hour that any of it may be of. */
  readonly unwritten: Map<string, { readonly amount: bigint; readonly hour: number }>
}

/** The database. Times are its own, in milliseconds. */
export class SliceBook {
  readonly cells = new Map<string, ModelCell>()
  readonly members = new Map<string, Member>()
  /** Called with the budgets that others are to give back of. */
  notify: (keys: readonly string[]) => void = () => {}
  readonly #lease: number

  constructor(lease: number) {
    this.#lease = lease
  }

  /** A budget, made when it is missing. */
  cell(key: string): ModelCell {
    let cell = this.cells.get(key)
    if (!cell) {
      const days = /(\d+)d$/.exec(key)
      cell = { hours: new Map(), length: days ? Number(days[1]) * 24 : 0, sliced: 0n, edge: 0 }
      this.cells.set(key, cell)
    }
    return cell
  }

  /** What is charged and held of a budget, as of an hour. */
  used(key: string, hour: number): bigint {
    const { hours, length } = this.cell(key)
    if (length === 0) return hours.get(0) ?? 0n
    let sum = 0n
    for (const [at, used] of hours) if (at <= hour && at > hour - length) sum += used
    return sum
  }

  /** A node begins an epoch. */
  join(node: string, now: number): number {
    const epoch = this.#fence(node) + 1
    this.members.set(node, {
      epoch,
      expires: now + this.#lease,
      number: 0,
      answer: undefined,
      slices: new Map(),
      unwritten: new Map()
    })
    return epoch
  }

  /** Fences the nodes that were not heard of for their lease. */
  takeOver(now: number): void {
    for (const [node, member] of this.members)
      if (member.expires < now && member.slices.size > 0) member.epoch = this.#fence(node) + 1
  }

  #fence(node: string): number {
    const member = this.members.get(node)
    for (const [key, amount] of member?.slices ?? []) this.cell(key).sliced -= amount
    member?.slices.clear()
    member?.unwritten.clear()
    return member?.epoch ?? 0
  }

  /** Does a batch. Undefined: it is fenced. */
  batch(node: string, { epoch, number, requests, ends, changes }: ModelBatch, now: number): ModelAnswer | undefined {
    const member = this.members.get(node)
    if (!member || member.epoch !== epoch) return undefined
    if (number === member.number) return member.answer
    member.number = number
    member.expires = now + this.#lease
    for (const { request, charged } of ends)
      for (const { key, hour } of request.shares) this.#add(key, hour, charged - request.amount)
    for (const { slice, back, hour, unwritten } of changes) {
      this.#move(member, slice.key, -back)
      if (unwritten !== undefined) member.unwritten.set(slice.key, { amount: unwritten, hour })
    }
    const recalled = new Set<string>()
    const verdicts = requests.map((request) => this.#decide(member, request, now, recalled))
    const nodes = [...this.members.values()].filter(({ expires }) => expires > now).length
    const grants = changes.map((change) => {
      const { key } = change.slice
      const cell = this.cell(key)
      const free = change.limit - this.used(key, change.hour) - cell.sliced
      const grant = change.want === 0n || cell.edge > now ? 0n : grantOf(free, change, nodes)
      this.#move(member, key, grant)
      return grant
    })
    if (recalled.size > 0) this.notify([...recalled])
    const keys = new Set([
      ...requests.flatMap(({ shares }) => shares.map(({ key }) => key)),
      ...changes.map(({ slice }) => slice.key)
    ])
    member.answer = { verdicts, grants, edges: [...keys].filter((key) => this.cell(key).edge > now) }
    return member.answer
  }

  #decide(member: Member, { shares, amount, taken }: ModelRequest, now: number, recalled: Set<string>): Verdict {
    let lacking: Share | undefined
    for (const [i, share] of shares.entries()) {
      if (taken[i] || amount === 0n) continue
      const used = this.used(share.key, share.hour)
      if (used + amount > share.limit) return 'refused'
      if (lacking || used + this.cell(share.key).sliced + amount <= share.limit) continue
      if (used + this.#spoken(share, now) + amount > share.limit) return 'refused'
      lacking = share
    }
    if (lacking) {
      const cell = this.cell(lacking.key)
      let gone = 0n
      for (const { expires, slices } of this.members.values()) if (expires <= now) gone += slices.get(lacking.key) ?? 0n
      if (this.used(lacking.key, lacking.hour) + gone + amount > lacking.limit) return 'stuck'
      if (cell.edge < now + 0.9 * edgeFor) recalled.add(lacking.key)
      cell.edge = now + edgeFor
      return 'undecided'
    }
    for (const [i, { key, hour }] of shares.entries()) {
      if (taken[i]) this.#move(member, key, -amount)
      this.#add(key, hour, amount)
    }
    return 'admitted'
  }

  /** What nodes that live have admitted and not written, until the hour of a share. */
  #spoken({ key, hour }: Share, now: number): bigint {
    let sum = 0n
    for (const { expires, unwritten } of this.members.values()) {
      const told = unwritten.get(key)
      if (told && expires > now && told.hour <= hour) sum += told.amount
    }
    return sum
  }

  #add(key: string, hour: number, amount: bigint): void {
    const cell = this.cell(key)
    const at = cell.length === 0 ? 0 : hour
    cell.hours.set(at, (cell.hours.get(at) ?? 0n) + amount)
  }

  #move(member: Member, key: string, amount: bigint): void {
    if (amount === 0n) return
    const left = (member.slices.get(key) ?? 0n) + amount
    if (left < 0n) throw new Error(`a node has ${left} of ${key} left`)
    if (left === 0n) member.slices.delete(key)
    else member.slices.set(key, left)
    this.cell(key).sliced += amount
  }
}

/** A node, as far as its slices go. Times are its own, in milliseconds. */
export class ModelNode {
  readonly name: string
  slices: Slices
  epoch = 0
  /** What waits to be sent. */
  requests: ModelRequest[] = []
  ends: { request: ModelRequest; charged: bigint }[] = []
  flight: ModelBatch | undefined
  /** When it sent the last batch that was answered, and the one under way. */
  heardOf = -Infinity
  #sentAt = -Infinity
  #number = 0
  readonly #lease: number
  readonly #sizing: Sizing | undefined

  constructor(name: string, lease: number, sizing?: Sizing) {
    this.name = name
    this.#lease = lease
    this.#sizing = sizing
    this.slices = new Slices(sizing)
  }

  /** A new epoch began. What was admitted from slices and is not in the book is over. */
  enter(epoch: number, now: number): void {
    this.epoch = epoch
    this.#number = 0
    this.slices = new Slices(this.#sizing)
    this.flight = undefined
    this.heardOf = now
  }

  /** Whether its slices are its own for sure. */
  sure(now: number): boolean {
    return now - this.heardOf < (this.#lease * 2) / 3
  }

  /** Takes what it can for a request, which is sent with the next batch. Returns whether it is admitted already. */
  ask(request: ModelRequest, now: number): boolean {
    const sure = this.sure(now)
    request.taken = sure ? this.slices.take(request.shares, request.amount, now) : request.shares.map(() => undefined)
    this.requests.push(request)
    request.sure = sure && !request.taken.includes(undefined)
    if (request.sure) this.slices.ahead(request.taken, request.amount)
    return request.sure
  }

  /** What is to be sent; undefined for nothing. What is decided on goes first, and behind what is admitted with it. */
  build(now: number, most = 256): ModelBatch | undefined {
    if (this.flight) return undefined
    const decisions = this.requests.filter(({ sure }) => !sure).slice(0, most)
    const admitted = this.requests.filter(({ sure }) => sure).slice(0, most)
    const requests = [...admitted, ...decisions]
    this.requests = this.requests.filter((request) => !requests.includes(request))
    for (const { taken, amount } of admitted) this.slices.ahead(taken, -amount)
    const changes = this.slices.changes(most, now)
    if (changes.length + requests.length + this.ends.length === 0) return undefined
    this.#sentAt = now
    this.flight = {
      epoch: this.epoch,
      number: ++this.#number,
      requests,
      ends: this.ends.splice(0, most),
      changes
    }
    return this.flight
  }

  /** Its batch was answered. Returns whether there is something to give back. */
  answered({ verdicts, grants, edges }: ModelAnswer): boolean {
    const { requests, changes } = this.flight!
    this.flight = undefined
    this.heardOf = this.#sentAt
    for (const [i, { slice }] of changes.entries()) slice.answered(grants[i]!)
    for (const [i, { taken, amount }] of requests.entries())
      if (verdicts[i] !== 'admitted') this.slices.putBack(taken, amount)
    let due = false
    for (const key of edges) if (this.slices.recall(key)) due = true
    return due
  }
}
