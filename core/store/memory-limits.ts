// The limiter of a single process: exact leaky buckets and owned slots, decided at once in memory.
import type { KeyLimits } from '../catalogue/caller.ts'
import type { Decision, Lease, Limits, LimitName, LimitState } from './limits.ts'

const second = 1_000_000
const minute = 60 * second

/** Between two looks at idle keys while no key is new. */
const sweepEvery = 1000

/** Slots come free when an exchange ends, which nobody can foretell. */
const slotRetryMs = 1000

/**
 * GCRA in its form as a leaky bucket (ITU-T I.371, annex A): what was taken lies in the bucket and leaks away at the
 * limit's rate. The content is counted in units × window, so that integer limits lead to integers throughout, a limit
 * that changes leaves the content as it is, and nothing is ever rounded but what is shown.
 */
class Bucket {
  readonly #window: number
  /** Units × microseconds of the window. */
  content = 0
  /** Units per window: what leaks in every microsecond. */
  #limit: number
  #at: number

  constructor(window: number, limit: number, now: number) {
    this.#window = window
    this.#limit = limit
    this.#at = now
  }

  /** A whole window's worth fits, so that a key may spend it in one burst; at least one unit. */
  #capacity(): number {
    return Math.max(this.#limit, 1) * this.#window
  }

  leak(now: number): void {
    this.content = Math.max(0, this.content - (now - this.#at) * this.#limit)
    this.#at = now
  }

  /** Brings the bucket to `now` and to a limit that may be another one than before. */
  turn(now: number, limit: number): void {
    this.leak(now)
    if (limit === this.#limit) return
    this.#limit = limit
    // What was fair under a larger limit must not lock a key out for many windows of the smaller one.
    this.content = Math.min(this.content, 2 * this.#capacity())
  }

  /** Microseconds until `units` fit; 0 when they fit now. */
  wait(units: number): number {
    const excess = this.content + units * this.#window - this.#capacity()
    return excess <= 0 ? 0 : Math.ceil(excess / this.#limit)
  }

  take(units: number): void {
    this.content += units * this.#window
  }

  /**
   * Replaces the `expected` units, taken when the content rose to `level` and `elapsed` microseconds ago, by `used`
   * ones. What has leaked of them is not given back: the oldest content leaks first. Debt ends one window below an
   * empty limit.
   */
  correct(expected: number, used: number, level: number, elapsed: number): void {
    const left = Math.min(expected * this.#window, Math.max(0, level - elapsed * this.#limit))
    const change = Math.max((used - expected) * this.#window, -left)
    this.content = Math.max(0, Math.min(this.content + change, 2 * this.#capacity()))
  }

  state(name: LimitName): LimitState {
    return {
      name,
      limit: this.#limit,
      remaining: Math.max(0, Math.floor((this.#capacity() - this.content) / this.#window)),
      resetMs: Math.ceil(this.content / this.#limit / 1000)
    }
  }
}

/** What is known of one key. */
class Entry {
  rps: Bucket | undefined
  rpm: Bucket | undefined
  tpm: Bucket | undefined
  /** Slots taken. */
  leases = 0

  /** Nothing would be different had this key never asked. */
  idle(now: number): boolean {
    return this.leases === 0 && empty(this.rps, now) && empty(this.rpm, now) && empty(this.tpm, now)
  }
}

function empty(bucket: Bucket | undefined, now: number): boolean {
  bucket?.leak(now)
  return !bucket?.content
}

class MemoryLease implements Lease {
  readonly #entry: Entry
  readonly #now: () => number
  readonly #tokens: number
  readonly #level: number
  readonly #at: number
  #released = false

  constructor(entry: Entry, now: () => number, tokens: number, at: number) {
    this.#entry = entry
    this.#now = now
    this.#tokens = tokens
    this.#level = entry.tpm?.content ?? 0
    this.#at = at
    entry.leases++
  }

  release(tokens: number | undefined): void {
    if (this.#released) return
    this.#released = true
    this.#entry.leases--
    const { tpm } = this.#entry
    if (!tpm || this.#tokens === 0 || tokens === undefined || tokens === this.#tokens) return
    const now = this.#now()
    tpm.leak(now)
    tpm.correct(this.#tokens, tokens, this.#level, now - this.#at)
  }
}

/** Limits of this process alone. Memory is bounded by the keys of the last minutes; nothing has to be closed. */
export class MemoryLimits implements Limits {
  readonly #now: () => number
  readonly #entries = new Map<string, Entry>()
  #hand: MapIterator<[string, Entry]>
  #sweptAt = -Infinity

  /** `now` in integer microseconds of a clock that never goes back. */
  constructor(now: () => number = () => Math.floor(performance.now() * 1000)) {
    this.#now = now
    this.#hand = this.#entries.entries()
  }

  /** Keys that something is remembered of. */
  get size(): number {
    return this.#entries.size
  }

  decide(key: string, limits: KeyLimits, tokens: number): Decision {
    const now = this.#now()
    if (now - this.#sweptAt >= sweepEvery) this.#sweep(now)
    let entry = this.#entries.get(key)
    if (!entry) {
      this.#sweep(now)
      entry = new Entry()
      this.#entries.set(key, entry)
    }
    const { concurrency } = limits
    const rps = limits.rps === undefined ? undefined : (entry.rps ??= new Bucket(second, limits.rps, now))
    const rpm = limits.rpm === undefined ? undefined : (entry.rpm ??= new Bucket(minute, limits.rpm, now))
    // A request without tokens (a list of models) neither waits for the token limit nor uses it.
    const tpm =
      limits.tpm === undefined || tokens === 0 ? undefined : (entry.tpm ??= new Bucket(minute, limits.tpm, now))
    // More than the whole limit could never be admitted; the rest is corrected when the truth is known.
    const reserved = tpm ? Math.min(tokens, limits.tpm!) : 0

    let refusedBy: LimitName | undefined
    let longest = 0
    const ask = (name: LimitName, wait: number): void => {
      if (wait <= longest) return
      refusedBy = name
      longest = wait
    }
    rps?.turn(now, limits.rps!)
    rpm?.turn(now, limits.rpm!)
    tpm?.turn(now, limits.tpm!)
    // The longest wait is the one that a client has to sit out, whatever else refuses as well.
    if (concurrency !== undefined && entry.leases >= concurrency) ask('concurrency', slotRetryMs * 1000)
    if (rps) ask('rps', rps.wait(1))
    if (rpm) ask('rpm', rpm.wait(1))
    if (tpm) ask('tpm', tpm.wait(reserved))

    let lease: Lease | undefined
    if (!refusedBy) {
      rps?.take(1)
      rpm?.take(1)
      tpm?.take(reserved)
      lease = new MemoryLease(entry, this.#now, reserved, now)
    }
    const states: LimitState[] = []
    if (concurrency !== undefined) {
      states.push({
        name: 'concurrency',
        limit: concurrency,
        remaining: Math.max(0, concurrency - entry.leases),
        resetMs: slotRetryMs
      })
    }
    if (rps) states.push(rps.state('rps'))
    if (rpm) states.push(rpm.state('rpm'))
    if (tpm) states.push(tpm.state('tpm'))
    return lease
      ? { admitted: true, states, lease }
      : { admitted: false, states, refusedBy: refusedBy!, retryAfterMs: Math.ceil(longest / 1000) }
  }

  /**
   * Looks at two keys for each that comes, so that idle ones go as fast as new ones can come, and at two each
   * millisecond of traffic, without a timer.
   */
  #sweep(now: number): void {
    this.#sweptAt = now
    for (let looked = 0; looked < 2; looked++) {
      const next = this.#hand.next()
      if (next.done) {
        this.#hand = this.#entries.entries()
        return
      }
      const [key, entry] = next.value
      if (entry.idle(now)) this.#entries.delete(key)
    }
  }
}
