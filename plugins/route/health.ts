// The health of a channel, judged by the exchanges that used it: healthy, cooling, or ejected until a probe succeeds.
import type { ChannelHealth, Why } from '../../core/contract/contract.ts'
import { Pace } from './pace.ts'
import { Window } from './window.ts'

/** When more than half of at least this many attempts in the last ten seconds failed, the channel is ejected. */
const enoughAttempts = 20
/**
 * Durations of ejections. With the time for a probe and a few seconds between two requests, an upstream that has
 * recovered is used again within twenty seconds.
 */
const firstEjectionMs = 5_000
const longestEjectionMs = 10_000
/** A probe without a result after this time is given up, and another may be sent. */
const probeMs = 5_000
/** After this time in health, the next ejection is a short one again. */
const forgottenMs = 300_000
/** When so many keys are refused without a reason, and no request succeeds in between, the account is at fault. */
const enoughKeys = 3
/** The longest pause that is observed, whatever the upstream asked for. */
const longestRestMs = 300_000
/** The pause after a 429 that does not say how long to wait. */
const defaultRestMs = 1_000

/** The health of a channel, as a process leaves it to the next one. Times are Unix milliseconds. */
export interface KeptHealth {
  readonly state: ChannelHealth['state']
  readonly until: number
  readonly reason: string
  readonly since: number
  readonly healthySince: number
  readonly ejections: number
  readonly consecutive: number
  readonly successes: number
  readonly failures: number
  readonly refusedKeys: readonly string[]
}

/**
 * The health of one channel. Times are values of `performance.now()`; `startedAt` is the start of the reported attempt.
 */
export class ChannelState {
  #state: ChannelHealth['state'] = 'healthy'
  #until = 0
  /** Why it is not healthy, and since when, in Unix milliseconds. */
  #reason = ''
  #since = 0
  #ejectedAt = -Infinity
  #healthySince = 0
  /** The number of ejections in a row. Each lasts twice as long as the one before, up to a limit. */
  #ejections = 0
  #consecutive = 0
  #successes = 0
  #failures = 0
  readonly #recent = new Window()
  readonly pace = new Pace()
  /** The keys that were refused without a reason since the last success. */
  readonly #refusedKeys: Set<string>

  /** `left`: as another process left it. */
  constructor(left?: KeptHealth) {
    this.#refusedKeys = new Set(left?.refusedKeys)
    if (!left) return
    const here = performance.now() - Date.now()
    // A probe that is under way there tells this process nothing.
    this.#state = left.state === 'probing' ? 'ejected' : left.state
    this.#until = left.until + here
    this.#reason = left.reason
    this.#since = left.since
    this.#healthySince = left.healthySince + here
    this.#ejections = left.ejections
    this.#consecutive = left.consecutive
    this.#successes = left.successes
    this.#failures = left.failures
  }

  /** What another process is to know of it. */
  get kept(): KeptHealth {
    const there = Date.now() - performance.now()
    return {
      state: this.#state,
      until: this.#until + there,
      reason: this.#reason,
      since: this.#since,
      healthySince: this.#healthySince + there,
      ejections: this.#ejections,
      consecutive: this.#consecutive,
      successes: this.#successes,
      failures: this.#failures,
      refusedKeys: [...this.#refusedKeys]
    }
  }

  /** Whether the channel may be chosen now. An ejected channel is then chosen for a probe. */
  available(now: number): boolean {
    return this.#state === 'healthy' || now >= this.#until
  }

  /** As {@link until}; a channel's health is the same for all models. */
  freeAt(): number {
    return this.until
  }

  get healthy(): boolean {
    return this.#state === 'healthy'
  }

  /**
   * When the channel is available again, 0 when it is healthy. If all channels are unavailable, the smallest value is
   * best.
   */
  get until(): number {
    return this.#state === 'healthy' ? 0 : this.#until
  }

  /**
   * Called before an attempt. After an ejection this attempt is the only probe, and other requests wait for its result.
   */
  chosen(now: number): void {
    if (this.#state === 'healthy' || now < this.#until) return
    if (this.#state === 'cooling') this.#recover(now)
    else {
      this.#state = 'probing'
      this.#until = now + probeMs
    }
  }

  /** The upstream accepted an attempt, which completes a probe, however long the answer takes. */
  answered(now: number, startedAt: number): void {
    if (this.#isOut() && startedAt >= this.#ejectedAt) this.#recover(now)
  }

  /** An attempt succeeded: with a whole answer, or with a refusal of what the client asked for. */
  succeeded(now: number, startedAt: number): void {
    this.#successes++
    this.#recent.add(now, false)
    this.answered(now, startedAt)
    // Clearing makes a new table, also of an empty set.
    if (this.#refusedKeys.size > 0) this.#refusedKeys.clear()
    if (!this.#isOut()) this.#consecutive = 0
  }

  /**
   * An attempt failed because of the upstream; `how` says it in a few words. True when the channel is ejected because
   * of it.
   */
  failed(now: number, startedAt: number, ejectAfter: number, how = 'a failure'): boolean {
    this.#failures++
    if (this.#isOld(startedAt)) return false
    this.#count(now)
    const attempts = this.#recent.all(now)
    const failing = attempts >= enoughAttempts && this.#recent.marked(now) * 2 > attempts
    if (!this.#isOut() && !failing && this.#consecutive < ejectAfter) return false
    const many =
      this.#consecutive < ejectAfter
        ? `more than half of ${attempts} attempts within 10 s failed`
        : `${this.#consecutive} failure${this.#consecutive === 1 ? '' : 's'} in a row`
    this.#eject(now, this.#isOut() ? `its probe failed with ${how}` : `${many}, the last with ${how}`)
    return true
  }

  /**
   * The upstream refused the credential, so nothing will work until someone changes it. True when the channel is
   * ejected.
   */
  refused(now: number, startedAt: number, reason = 'its upstream refuses the credential of the gateway'): boolean {
    this.#failures++
    if (this.#isOld(startedAt)) return false
    this.#count(now)
    this.#eject(now, reason)
    return true
  }

  /**
   * The upstream refused a request without saying why. One key's refusals mean nothing for the channel, but those of
   * several keys do. True when the channel is ejected because of it.
   */
  doubted(now: number, startedAt: number, key: string): boolean {
    if (!this.#isOld(startedAt)) this.#refusedKeys.add(key)
    if (this.#refusedKeys.size >= enoughKeys)
      return this.refused(now, startedAt, `its upstream refused ${enoughKeys} keys without saying why`)
    this.undecided(now, startedAt)
    return false
  }

  /** The upstream asked for a pause of `ms` milliseconds. */
  cool(now: number, ms = defaultRestMs): void {
    if (this.#isOut()) return
    if (this.available(now)) this.#since = Date.now()
    this.#state = 'cooling'
    this.#until = Math.max(this.#until, now + Math.min(ms, longestRestMs))
    this.#reason = `its upstream asked for a pause of ${Math.min(ms, longestRestMs)} ms`
  }

  /** An attempt ended without a result, for example because the client left. Another probe may be sent. */
  undecided(now: number, startedAt: number): void {
    if (this.#state !== 'probing' || startedAt < this.#ejectedAt) return
    this.#state = 'ejected'
    this.#until = now
  }

  /** Why the channel is not available. Only asked while it is not. */
  why(now: number): Why {
    const probing = this.#state === 'probing' ? 'a probe is under way; ' : ''
    return { code: this.#state, reason: probing + this.#reason, until: Math.round(Date.now() + this.#until - now) }
  }

  report(now: number): ChannelHealth {
    const state = this.#state === 'cooling' && now >= this.#until ? 'healthy' : this.#state
    return {
      state,
      since: state === 'healthy' ? null : this.#since,
      reason: state === 'healthy' ? null : this.#reason,
      until: state === 'healthy' ? null : Math.round(Date.now() + this.#until - now),
      consecutive_failures: this.#consecutive,
      successes: this.#successes,
      failures: this.#failures,
      ...this.pace.report(now)
    }
  }

  /** Attempts that began before the last ejection or recovery do not count. */
  #isOld(startedAt: number): boolean {
    return startedAt < this.#ejectedAt || startedAt < this.#healthySince
  }

  #isOut(): boolean {
    return this.#state === 'ejected' || this.#state === 'probing'
  }

  #count(now: number): void {
    this.#consecutive++
    this.#recent.add(now, true)
  }

  #eject(now: number, reason: string): void {
    if (!this.#isOut() && now - this.#healthySince > forgottenMs) this.#ejections = 0
    if (!this.#isOut()) this.#since = Date.now()
    this.#state = 'ejected'
    this.#reason = reason
    this.#ejectedAt = now
    this.#until = now + Math.min(firstEjectionMs * 2 ** this.#ejections, longestEjectionMs)
    this.#ejections++
    this.#recent.clear()
    this.#refusedKeys.clear()
  }

  #recover(now: number): void {
    if (this.#isOut()) {
      this.#healthySince = now
      this.#consecutive = 0
      this.#recent.clear()
    }
    this.#state = 'healthy'
    this.#until = 0
  }
}
