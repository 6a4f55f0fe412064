// The limiter of many nodes: Redis decides for all of them, with the arithmetic of one process.
import { randomBytes } from 'node:crypto'
import type { Awaitable } from '../../../awaitable.ts'
import type { Logger } from '../../../telling/log.ts'
import { Roster } from '../../../watchdog/roster.ts'
import type { CountedSet, Decision, Lease, Limits } from '../../limits.ts'
import type { Place } from '../redis/address.ts'
import { Redis } from '../redis/redis.ts'
import type { Duty, Hearer, RedisHealth, RedisTimes } from '../redis/redis.ts'
import type { Reply } from '../redis/replies.ts'
import type { Call } from '../redis/script.ts'
import { decideCall, Figures, Keys, releaseCall } from './figures.ts'
import type { SlotsHeard } from './figures.ts'
import { SharedLease } from './lease.ts'
import type { HeldSlot } from './lease.ts'
import { Renewals } from './renewals.ts'
import { attend, free } from './scripts.ts'
import { StandIn } from './stand-in.ts'
import type { OnUnavailable } from './stand-in.ts'

/** Options of the limiter. Times are milliseconds. */
export interface SharedLimitsOptions {
  readonly place: Place
  readonly times: RedisTimes
  /** What all keys begin with. Installations that share a Redis have different ones. */
  readonly prefix: string
  /** How long a slot is kept for a node that says nothing. It is renewed three times as often. */
  readonly lease: number
  readonly onUnavailable: OnUnavailable
  /** How many nodes live as others see them, such as the book: a node that never saw Redis shares with them, too. */
  readonly liveNodes: () => number
  /** The name of the node, another one with each start; see {@link limitNode}. Default: a new one. */
  readonly node?: string | undefined
  readonly onSlots?: SlotsHeard | undefined
}

/** A name for a node. All are equally long, so that none begins with another. */
export function limitNode(): string {
  return randomBytes(9).toString('base64url')
}

/** How the limiter is, for operators. */
export interface SharedLimitsHealth extends RedisHealth {
  /** How many nodes share the limits, as last seen. */
  readonly nodes: number
  /** How many requests of this node have slots. */
  readonly running: number
}

/** The most keys that one call frees slots in, so that no other question waits long. */
const mostFreed = 500
/** How long a release that nobody sees may wait to be told together with something else, in milliseconds. */
const company = 5
/** The most slots whose release is told when Redis is back. Others end with their lease. */
const mostOwed = 10_000
/** How many of these are told at a time: what is asked meanwhile comes before the next ones. */
const portion = 50

const noLease: Lease = { release: () => {} }
/** For what nobody waits for. */
const nobody: Hearer = { answered: () => {} }

/** The limits of all nodes that have one Redis. It connects by itself; {@link SharedLimits.close} ends it. */
export class SharedLimits implements Limits {
  readonly #redis: Redis
  readonly #keys: Keys
  readonly #lease: number
  readonly #liveNodes: () => number
  readonly #node: string
  #lastLease = 0
  /** The leases with slots that were not released. */
  readonly #held = new Roster<SharedLease>()
  /** Leases that were released, and whose clients wait for something else before they see that. */
  readonly #due: SharedLease[] = []
  #dueSoon: NodeJS.Timeout | undefined
  /** Leases that were released while Redis could not be told. */
  readonly #owed: SharedLease[] = []
  #nodes = 1
  /** Since when fewer nodes are seen than {@link #nodes}; undefined when they are not. */
  #fewerSince: number | undefined
  readonly #standIn: StandIn
  /** Whether the stand-in counts what this node has. */
  #standsIn = false
  readonly #renewals: Renewals
  readonly #renewing: NodeJS.Timeout

  constructor(options: SharedLimitsOptions, log: Logger) {
    this.#node = options.node ?? limitNode()
    this.#keys = new Keys(options.prefix, options.onSlots)
    this.#lease = options.lease
    this.#liveNodes = options.liveNodes
    this.#standIn = new StandIn(options.onUnavailable)
    this.#begin()
    const probe = this.#attendance(this.#node, this.#lease)
    const duty: Duty = {
      probe,
      probed: (reply) => this.#count(reply),
      gone: () => this.#begin(),
      returned: (ready) => this.#return(ready)
    }
    this.#redis = new Redis(options.place, options.times, duty, log)
    this.#renewals = new Renewals(this.#redis, this.#held, this.#lease)
    this.#renewing = setInterval(() => {
      if (!this.#redis.usable) return
      this.#redis.ask(probe, { answered: (reply) => this.#count(reply ?? null) })
      this.#renewals.renew()
    }, this.#lease / 3).unref()
  }

  get health(): SharedLimitsHealth {
    return { ...this.#redis.health, nodes: this.#nodes, running: this.#held.size }
  }

  /** Ends the connection. Its slots end with their lease, unless they were released before. */
  async close(): Promise<void> {
    clearInterval(this.#renewing)
    this.flush()
    if (this.#redis.usable)
      await new Promise((answered) => this.#redis.ask(this.#attendance(this.#node, 0), { answered }))
    this.#redis.close()
  }

  /**
   * Frees what a node has taken that is gone, without waiting for its lease. `slots`: the keys of its slots, by their
   * homes. What Redis cannot be told ends with the lease.
   */
  free(node: string, slots: ReadonlyMap<string, ReadonlySet<string>>): void {
    if (!this.#redis.usable) return
    for (const ofHome of slots.values())
      for (let keys = [...ofHome]; keys.length > 0; keys = keys.slice(mostFreed))
        this.#redis.ask({ script: free, keys: keys.slice(0, mostFreed), args: [node] }, nobody)
    this.#redis.ask(this.#attendance(node, 0), nobody)
  }

  decide<S extends CountedSet>(sets: readonly S[], tokens: number, within = false): Awaitable<Decision<S>> {
    if (sets.length === 0) return { admitted: true, states: [], lease: noLease }
    const lease = this.#newLease(within ? [] : sets)
    if (!this.#redis.usable) return this.#standInFor(sets, tokens, within, lease)
    lease.told = true
    this.flush()
    const call = this.#call('take', sets, tokens, lease)
    return new Promise((resolve, reject) => {
      this.#redis.ask(call, {
        answered: (reply) => {
          try {
            resolve(this.#decided(reply, sets, tokens, within, lease))
          } catch (error) {
            reject(error as Error)
          }
        },
        late: (reply) => this.#take(lease, new Figures(sets, reply as Buffer), tokens)
      })
    })
  }

  #decided<S extends CountedSet>(
    reply: Reply | undefined,
    sets: readonly S[],
    tokens: number,
    within: boolean,
    lease: SharedLease
  ): Decision<S> {
    if (reply === undefined) return this.#standInFor(sets, tokens, within, lease)
    const figures = new Figures(sets, reply as Buffer)
    if (figures.admitted) {
      this.#take(lease, figures, tokens)
      if (lease.slots.length > 0) this.#held.add(lease)
    }
    return figures.decision(tokens, within, lease)
  }

  look<S extends CountedSet>(sets: readonly S[], tokens: number): Awaitable<Decision<S>> {
    if (sets.length === 0) return { admitted: true, states: [], lease: noLease }
    const lease = this.#newLease(sets)
    const standIn = (): Decision<S> => this.#inMemory().look(sets, tokens, lease)
    if (!this.#redis.usable) return standIn()
    const call = this.#call('look', sets, tokens, lease)
    return new Promise<Reply | undefined>((answered) => this.#redis.ask(call, { answered })).then((reply) =>
      reply === undefined ? standIn() : new Figures(sets, reply as Buffer).decision(tokens, false, noLease)
    )
  }

  #newLease(sets: readonly CountedSet[]): SharedLease {
    const slots = sets.flatMap((set): HeldSlot[] => {
      const key = this.#keys.of(set).slots
      return key === undefined ? [] : [{ set: set.id, home: set.home, key }]
    })
    return new SharedLease(`${this.#node}${(++this.#lastLease).toString(36)}`, slots, (ended, unseen) =>
      this.#end(ended, unseen)
    )
  }

  #call(what: 'take' | 'look', sets: readonly CountedSet[], tokens: number, { id, slots }: SharedLease): Call {
    const keys = sets.map((set) => this.#keys.of(set))
    return decideCall(what, keys, tokens, slots.length > 0 ? id : undefined, this.#lease)
  }

  /** Redis is gone, or has not answered one request. */
  #begin(): void {
    this.#standIn.begin(Math.max(this.#nodes, this.#liveNodes()), this.#held)
    this.#standsIn = true
    this.#fewerSince = undefined
  }

  /** It may be usable again when an answer is given up. */
  #inMemory(): StandIn {
    if (!this.#standsIn) this.#begin()
    return this.#standIn
  }

  #standInFor<S extends CountedSet>(
    sets: readonly S[],
    tokens: number,
    within: boolean,
    lease: SharedLease
  ): Decision<S> {
    let admitted = false
    try {
      const decision = this.#inMemory().decide(sets, tokens, within, lease)
      admitted = decision.admitted
      // Redis is told of its slots when it is back.
      if (admitted && lease.slots.length > 0) this.#held.add(lease)
      return decision
    } finally {
      // Redis may have admitted it all the same.
      if (!admitted) lease.release(0)
    }
  }

  /** Notes what Redis has taken for a lease; gives it back when the lease is over by now. */
  #take(lease: SharedLease, figures: Figures<CountedSet>, tokens: number): void {
    if (!figures.admitted) return
    lease.taken = figures.taken(tokens, this.#keys)
    if (lease.released) this.#end(lease, false)
  }

  #end(lease: SharedLease, unseen: boolean): void {
    this.#held.delete(lease)
    const { slots, taken, used, told } = lease
    if (!told) return
    const corrected = taken?.tokens.some(({ tokens }) => used !== undefined && used !== tokens) ?? false
    if (slots.length === 0 && !corrected) return
    this.#due.push(lease)
    if (unseen) this.#dueSoon ??= setTimeout(() => this.flush(), company).unref()
    else this.flush()
  }

  /** Tells Redis of all releases that wait for company. To be called before anybody is shown what they are of. */
  flush(): void {
    if (this.#due.length === 0) return
    clearTimeout(this.#dueSoon)
    this.#dueSoon = undefined
    for (const lease of this.#due.splice(0))
      if (this.#redis.usable) this.#tellEnd(lease)
      else this.#owe(lease)
  }

  #owe(lease: SharedLease): void {
    if (this.#owed.length < mostOwed) this.#owed.push(lease)
  }

  #tellEnd(lease: SharedLease, next?: () => void): void {
    const { id, slots, taken, used } = lease
    const keys = slots.map(({ key }) => key)
    // Tokens are corrected once: what is lost of that leaks out. Slots may be freed again, or would end with a lease.
    if (taken) lease.used = undefined
    const call = releaseCall(id, keys, taken, used)
    if (call.keys.length === 0) return next?.()
    this.#redis.ask(call, {
      answered: (reply) => {
        if (reply === undefined && !this.#redis.usable && slots.length > 0) this.#owe(lease)
        next?.()
      }
    })
  }

  /** Tells what is owed, a portion after the other, until that is all or Redis is gone again. */
  #tellOwed(): void {
    if (!this.#redis.usable) return
    const told = this.#owed.splice(0, portion)
    let open = told.length
    const answered = (): void => {
      if (--open === 0) this.#tellOwed()
    }
    for (const lease of told) this.#tellEnd(lease, answered)
  }

  /** Says for how long a node is to be believed to live. */
  #attendance(node: string, ms: number): Call {
    return { script: attend, keys: [this.#keys.nodes], args: [node, String(ms * 1000)] }
  }

  /** A Redis that is back empty sees one node after another: fewer are believed when that stays so for a lease. */
  #count(reply: Reply): void {
    if (typeof reply !== 'number') return
    const now = performance.now()
    if (reply < this.#nodes && now - (this.#fewerSince ??= now) <= this.#lease) return
    this.#nodes = reply
    this.#fewerSince = undefined
  }

  /** Redis is back: it is told what runs before anybody asks it for more, and what ended soon. */
  #return(ready: () => void): void {
    this.#renewals.restore(() => {
      this.#standsIn = false
      ready()
      this.#tellOwed()
    })
  }
}
