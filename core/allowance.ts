// How much of something a process may use at the same time, such as connections or bytes, whichever thread uses it.
import { createHash } from 'node:crypto'

/** What one thread uses of it. */
export interface Allowance {
  readonly limit: number
  /** What this thread has taken and not given back, and what all have. */
  readonly used: number
  readonly all: number
  /** Takes so many, if no more than `most` is taken by all then: the limit by default. False: nothing was taken. */
  take(count: number, most?: number): boolean
  give(count: number): void
}

/** Finds an allowance by its name; who says the same name has a part in the same one. `unit`: what it is counted in. */
export type Allowances = (name: string, unit?: number) => Allowance

/** What the engines of several threads may use together. */
export interface Commons {
  /** Of clients. */
  readonly connections: Allowance
  /** Bytes of bodies. */
  readonly bodies: Allowance
  /** Answers that are read on although their client has left; whoever takes says how many may be. */
  readonly drains: Allowance
  /** Of plugins. They have no limit: whoever takes says how much may be taken. */
  readonly named: Allowances
}

/** That of a process whose one thread uses all. */
export class OwnAllowance implements Allowance {
  readonly limit: number
  used = 0

  /** Without a limit, whoever takes says how much may be taken. */
  constructor(limit = Infinity) {
    this.limit = limit
  }

  get all(): number {
    return this.used
  }

  take(count: number, most = this.limit): boolean {
    if (this.used + count > most) return false
    this.used += count
    return true
  }

  give(count: number): void {
    this.used -= count
  }
}

/** Those of a process whose one thread uses all. */
export function ownAllowances(): Allowances {
  const found = new Map<string, Allowance>()
  return (name) => {
    let own = found.get(name)
    if (!own) found.set(name, (own = new OwnAllowance()))
    return own
  }
}

/** An allowance of several threads, which can be sent to each of them. */
export interface SharedPot {
  readonly limit: number
  /** What is counted in: each thread's part is rounded up to whole units. */
  readonly unit: number
  /** How many units each thread has taken, by its place. */
  readonly taken: Int32Array<SharedArrayBuffer>
}

/** Pots that come up while threads run. */
interface NamedPots {
  /** Digests of their names; 0 where there is none yet. */
  readonly names: BigInt64Array<SharedArrayBuffer>
  /** What each thread has taken, one pot behind the other. */
  readonly taken: Int32Array<SharedArrayBuffer>
}

/** The pots of {@link Commons}. */
export interface Pots extends Readonly<Record<Exclude<keyof Commons, 'named'>, SharedPot>> {
  readonly named: NamedPots
}

/** How many pots may have names. They are those of plugins and of models. */
const mostNamed = 8192

/** Makes the pots for threads at so many places. `limits`: of what has one; `bodies` is in bytes. */
export function makePots(places: number, limits: { readonly connections: number; readonly bodies: number }): Pots {
  const pot = (limit = Infinity, unit = 1): SharedPot => ({
    limit,
    unit,
    taken: new Int32Array(new SharedArrayBuffer(4 * places))
  })
  // Four bytes count two terabytes in these units.
  const kilobyte = 1024
  return {
    connections: pot(limits.connections),
    bodies: pot(limits.bodies, kilobyte),
    drains: pot(),
    named: {
      names: new BigInt64Array(new SharedArrayBuffer(8 * mostNamed)),
      taken: new Int32Array(new SharedArrayBuffer(4 * places * mostNamed))
    }
  }
}

/** What the thread of a place may use. */
export function commonsOf({ connections, bodies, drains, named }: Pots, place: number): Commons {
  const part = (pot: SharedPot): Allowance => new SharedAllowance(pot, place)
  return {
    connections: part(connections),
    bodies: part(bodies),
    drains: part(drains),
    named: namedOf(named, place)
  }
}

function namedOf({ names, taken }: NamedPots, place: number): Allowances {
  const places = taken.length / mostNamed
  const own = ownAllowances()
  const found = new Map<string, Allowance>()
  const find = (name: string, unit: number): Allowance => {
    const at = rowOf(names, name)
    // With more names than there can be, each thread has what is left by itself.
    if (at === undefined) return own(name)
    return new SharedAllowance({ limit: Infinity, unit, taken: taken.subarray(at * places, (at + 1) * places) }, place)
  }
  return (name, unit = 1) => {
    let shared = found.get(name)
    if (!shared) found.set(name, (shared = find(name, unit)))
    return shared
  }
}

/** The place of a name, which is taken if it has none; undefined when none is free. */
function rowOf(names: NamedPots['names'], name: string): number | undefined {
  const digest = createHash('sha256').update(name).digest().readBigInt64LE() || 1n
  const first = Number(BigInt.asUintN(32, digest)) % mostNamed
  for (let step = 0; step < mostNamed; step++) {
    const at = (first + step) % mostNamed
    const before = Atomics.compareExchange(names, at, 0n, digest)
    if (before === 0n || before === digest) return at
  }
  return undefined
}

/** The thread of a place has ended: what it had taken is free. */
export function leavePots({ named, ...pots }: Pots, place: number): void {
  for (const { taken } of Object.values(pots)) Atomics.store(taken, place, 0)
  const places = named.taken.length / mostNamed
  for (let at = place; at < named.taken.length; at += places) Atomics.store(named.taken, at, 0)
}

/**
 * The part of one thread in an allowance of several. It says what it takes before it looks at what all have taken, so
 * that never more is taken than may be. Of two that take the last of it at the same time, both may be refused.
 */
class SharedAllowance implements Allowance {
  readonly limit: number
  used = 0
  readonly #taken: SharedPot['taken']
  readonly #unit: number
  readonly #place: number

  /** `place`: that of this thread; nobody else takes there. */
  constructor({ limit, unit, taken }: SharedPot, place: number) {
    this.limit = limit
    this.#unit = unit
    this.#taken = taken
    this.#place = place
  }

  get all(): number {
    return this.#units() * this.#unit
  }

  take(count: number, most = this.limit): boolean {
    this.#say(this.used + count)
    if (this.all > most) {
      this.#say(this.used)
      return false
    }
    this.used += count
    return true
  }

  give(count: number): void {
    this.used -= count
    this.#say(this.used)
  }

  #say(used: number): void {
    Atomics.store(this.#taken, this.#place, Math.ceil(used / this.#unit))
  }

  #units(): number {
    let units = 0
    for (let place = 0; place < this.#taken.length; place++) units += Atomics.load(this.#taken, place)
    return units
  }
}
