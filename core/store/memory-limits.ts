// The limiter of a single process. It decides at once, in memory, with exact leaky buckets and counted concurrency
// slots.
import type { KeyLimits } from '../catalogue/caller.ts'
import type { Decision, Lease, Limits, LimitName, LimitState } from './limits.ts'

const second = 1_000_000
const minute = 60 * second

/** The least time between two sweeps when no key is new, in microseconds. */
const sweepEvery = 1000

/** The wait that is told when all concurrency slots are taken: nobody knows when an exchange will end. */
const slotRetryMs = 1000

/**
 * The generic cell rate algorithm in its form as a leaky bucket (ITU-T I.371, annex A): what is taken fills the bucket,
 * and leaks out at the limit's rate. The content is counted in units × window, so that whole limits lead to whole
 * numbers throughout, a change of the limit leaves the content as it is, and only what is shown is rounded.
 */
class Bucket {
  readonly #window: number
  /** In units × microseconds of the window. */
  content = 0
  /** Units per window, which is also how much of the content leaks in a microsecond. */
  #limit: number
  #at: number

  constructor(window: number, limit: number, now: number) {
    this.#window = window
    this.#limit = limit
    this.#at = now
  }

  /** The units of a whole window fit, so that a key may spend them in one burst; at least one unit. */
  #capacity(): number {
    return Math.max(this.#limit, 1) * this.#window
  }

  leak(now: number): void {
    this.content = Math.max(0, this.content - (now - this.#at) * this.#limit)
    this.#at = now
  }

  /** Brings the bucket to `now`, and to a limit that may have changed. */
  turn(now: number, limit: number): void {
    this.leak(now)
    this.#limit = limit
    // What was allowed under a larger limit must not lock a key out for many windows of the smaller one.
    this.content = Math.min(this.content, 2 * this.#capacity())
  }

  /** Microseconds until `units` fit; 0 when they fit now. */
  wait(units: number): number {
    const excess = this.content + units * this.#window - this.#capacity()
    return Math.max(0, Math.ceil(excess / this.#limit))
  }

  take(units: number): void {
    this.content += units * this.#window
  }

  /**
   * Replaces the `expected` units by the `used` ones. They were taken `elapsed` microseconds ago, when the content rose
   * to `level`. What has leaked of them since is not given back: the oldest content leaks first. The content never
   * exceeds twice the capacity, so a debt is paid off within two windows.
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

/** The state of one key. */
class Entry {
  rps: Bucket | undefined
  rpm: Bucket | undefined
  tpm: Bucket | undefined
  /** How many concurrency slots are taken. */
  leases = 0

  /** Whether the state is the same as that of a key which was never seen. */
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
  /** What the bucket of tokens held then; undefined when there is none, and nothing to correct. */
  readonly #level: number | undefined
  readonly #at: number
  #released = false

  constructor(entry: Entry, now: () => number, tokens: number, at: number) {
    this.#entry = entry
    this.#now = now
    this.#tokens = tokens
    this.#level = entry.tpm?.content
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
    tpm.correct(this.#tokens, tokens, this.#level!, now - this.#at)
  }
}

const noLease: Lease = { release: () => {} }

/** The limits of this process alone. Only keys used in the last minutes take memory; there is nothing to close. */
export class MemoryLimits implements Limits {
  readonly #now: () => number
  readonly #entries = new Map<string, Entry>()
  #hand: MapIterator<[string, Entry]>
  #sweptAt = -Infinity

  /** `now` returns whole microseconds of a clock that never goes back. */
  constructor(now: () => number = () => Math.floor(performance.now() * 1000)) {
    this.#now = now
    this.#hand = this.#entries.entries()
  }

  /** How many keys have a state. */
  get size(): number {
    return this.#entries.size
  }

  decide(key: string, limits: KeyLimits, tokens: number): Decision {
    return this.#decide(key, limits, tokens, true)
  }

  look(key: string, limits: KeyLimits, tokens: number): Decision {
    return this.#decide(key, limits, tokens, false)
  }

  #decide(key: string, limits: KeyLimits, tokens: number, take: boolean): Decision {
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
    // A request without tokens, such as a list of models, neither waits for the token limit nor counts in it.
    const tpm =
      limits.tpm === undefined || tokens === 0 ? undefined : (entry.tpm ??= new Bucket(minute, limits.tpm, now))
    // A request for more than the whole limit could never be admitted. Its excess is counted when the used tokens are
    // known.
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
    // The limit with the longest wait is reported, because the client has to wait that long in any case.
    if (concurrency !== undefined && entry.leases >= concurrency) ask('concurrency', slotRetryMs * 1000)
    if (rps) ask('rps', rps.wait(1))
    if (rpm) ask('rpm', rpm.wait(1))
    if (tpm) ask('tpm', tpm.wait(reserved))

    let lease: Lease | undefined
    if (!refusedBy && !take) lease = noLease
    else if (!refusedBy) {
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
      : {
          admitted: false,
          states,
          refusedBy: refusedBy!,
          asked: refusedBy === 'tpm' ? reserved : 1,
          retryAfterMs: Math.ceil(longest / 1000)
        }
  }

  /**
   * Removes idle keys. It looks at two keys for each new one, so that idle keys go at least as fast as new ones come,
   * and at two keys in each millisecond with traffic. So it needs no timer.
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
