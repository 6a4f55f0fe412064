// A slice: what a node may admit of one budget by itself. How much it asks for, and when it gives back.

/** How slices are sized. Times are in milliseconds. */
export interface Sizing {
  /** The length of a span: what was used in the busier of the last two sizes a slice. */
  readonly span: number
  /** For how many such spans a slice is to last. */
  readonly ahead: number
  /** For how many requests of the largest amount it is to last at least. */
  readonly few: number
  /** For how many such requests a budget must have room for each node, so that slices are given. */
  readonly least: number
  /**
   * And for how long the load of the node must find room without slices: these come back, or are known to be used,
   * before the budget ends.
   */
  readonly rest: number
  /** After how long without use a slice is given back. One is asked for when two requests come within that time. */
  readonly idle: number
}

/** What `bench/slices.ts` has found to be good. */
export const usualSizing: Sizing = { span: 200, ahead: 8, few: 4, least: 4, rest: 50, idle: 3000 }

/** What a node tells the database about a slice, with a batch. Amounts are in nano-dollars. */
export interface Change {
  readonly slice: Slice
  /** What it gives back. It is not in the slice any more when this is made. */
  readonly back: bigint
  /** How much more it would like to have. */
  readonly want: bigint
  /** How much of the budget must be left for each node. */
  readonly least: bigint
  /** The limit that this node knows, and the hour from which on a rolling budget is meant. */
  readonly limit: bigint
  readonly hour: number
  /** What is admitted from it and not written after this batch; undefined where the database knows that. */
  readonly unwritten: bigint | undefined
}

/** A slice of one node. The room is taken at once, and the database is told with a later batch. */
export class Slice {
  /** The name of the balance that has the budget. */
  readonly key: string
  /** Whether it is in the list of those that have something to tell. */
  due = false
  /** What is admitted from it and leaves with a later batch, and what the database was told of that. */
  unwritten = 0n
  #told: bigint | undefined = 0n
  /** The hour until which it was told to be. */
  #toldHour = 0
  readonly #sizing: Sizing
  #room = 0n
  /** By which limit and from which hour on the room was given. */
  #limit = 0n
  #hour = 0
  /** What the latest requests are admitted by. */
  #latestLimit = 0n
  #latestHour = 0
  /** Whether a request could not be admitted from it since the last change. */
  #short = false
  #recalled = false
  #asking = false
  /** When a request came last. */
  #usedAt = -Infinity
  /** Whether the one before it came not long before. */
  #worth = false
  /** When the present span began; what it and the one before used, and the largest amounts. */
  #since = -Infinity
  #used = 0n
  #usedBefore = 0n
  #largest = 0n
  #largestBefore = 0n

  constructor(key: string, sizing: Sizing) {
    this.key = key
    this.#sizing = sizing
  }

  /** What may be admitted from it. */
  get room(): bigint {
    return this.#room
  }

  /** Whether a change of it is under way. */
  get asking(): boolean {
    return this.#asking
  }

  /** Whether nothing is in it, under way or not written, and nothing was used for long. */
  unused(now: number): boolean {
    return this.#room === 0n && !this.#asking && this.unwritten === 0n && this.#idle(now)
  }

  /**
   * Takes an amount out, if it may. `limit`: of the budget as the request knows it. `hour`: of the request, for a
   * rolling budget; a slice is not for earlier hours than it was given in. `now`: in milliseconds of any clock.
   */
  take(amount: bigint, limit: bigint, hour: number, now: number): boolean {
    this.#turn(now)
    this.#worth = now - this.#usedAt <= this.#sizing.idle
    this.#usedAt = now
    this.#used += amount
    if (amount > this.#largest) this.#largest = amount
    if (hour > this.#latestHour) this.#latestHour = hour
    if (this.takeAgain(amount, limit, hour)) return true
    this.#short = true
    this.#latestLimit = limit
    return false
  }

  /** Takes an amount out for a request that has come before. */
  takeAgain(amount: bigint, limit: bigint, hour: number): boolean {
    if (this.#room < amount || limit !== this.#limit || hour < this.#hour) return false
    this.#room -= amount
    return true
  }

  /** Whether the database does not know what is admitted and not written, or until which hour that may be. */
  get untold(): boolean {
    return this.unwritten !== this.#told || (this.unwritten > 0n && this.#latestHour !== this.#toldHour)
  }

  /** Puts back what was taken for a request that was not admitted. */
  putBack(amount: bigint): void {
    this.#room += amount
  }

  /** Others need what is in it. Returns whether there is something to give back. */
  recall(): boolean {
    this.#recalled = true
    return this.#room > 0n
  }

  /** Whether it is to be told about although no request came: it is idle, or larger than its load is. */
  ebbs(now: number): boolean {
    if (this.#room === 0n || this.#asking) return false
    this.#turn(now)
    return this.#idle(now) || this.#exceeds(this.#target())
  }

  /** What the next batch says of it; undefined for nothing. Not while it is asking. */
  change(now: number): Change | undefined {
    this.#turn(now)
    const idle = this.#idle(now)
    const target = idle || this.#recalled || !this.#worth ? 0n : this.#target()
    const all = this.#short || this.#recalled || idle
    // What a request lacks may be in it: the database decides with that, and gives a new one in the same call.
    const back = all ? this.#room : this.#exceeds(target) ? this.#room - target : 0n
    if (this.#short) this.#limit = this.#latestLimit
    // The sum of a rolling budget is read for this hour, and may be larger for an earlier one.
    this.#hour = this.#latestHour
    this.#short = this.#recalled = false
    const left = this.#room - back
    const want = 3n * left < 2n * target ? target - left : 0n
    const unwritten = this.untold ? this.unwritten : undefined
    if (back === 0n && want === 0n && unwritten === undefined) return undefined
    this.#room = left
    this.#asking = true
    this.#told = this.unwritten
    this.#toldHour = this.#hour
    return {
      slice: this,
      back,
      want,
      least: this.#least(),
      limit: this.#limit,
      hour: this.#hour,
      unwritten
    }
  }

  /** The database has done a change, and given so much. */
  answered(grant: bigint): void {
    this.#asking = false
    this.#room += grant
  }

  /** The database does not take a change: what it was told is told again. */
  refused(): void {
    this.answered(0n)
    this.#told = undefined
  }

  #idle(now: number): boolean {
    return now - this.#usedAt > this.#sizing.idle
  }

  /** Whether much more is in it than its load needs. Without load, time decides. */
  #exceeds(target: bigint): boolean {
    return target > 0n && this.#room > 2n * target
  }

  #target(): bigint {
    const { ahead, few } = this.#sizing
    return larger(BigInt(ahead) * larger(this.#used, this.#usedBefore), BigInt(few) * this.#most())
  }

  #least(): bigint {
    const { least, rest, span } = this.#sizing
    return larger(BigInt(least) * this.#most(), (larger(this.#used, this.#usedBefore) * BigInt(rest)) / BigInt(span))
  }

  #most(): bigint {
    return larger(this.#largest, this.#largestBefore)
  }

  /** Begins another span where the present one is over. */
  #turn(now: number): void {
    const { span } = this.#sizing
    const over = now - this.#since
    if (over < span) return
    const next = over < 2 * span
    this.#usedBefore = next ? this.#used : 0n
    if (this.#largest > 0n) this.#largestBefore = this.#largest
    this.#used = this.#largest = 0n
    this.#since = now
  }
}

function larger(one: bigint, other: bigint): bigint {
  return one > other ? one : other
}
