// What is known of a channel from the exchanges that used it: healthy, resting, or out until a probe succeeds.
import type { ChannelHealth } from '../../core/contract/contract.ts'
import { Window } from './window.ts'

/** Too many failures among this many attempts of the last ten seconds also take a channel out. */
const enoughAttempts = 20
/**
 * Together with the time for a probe, and with some seconds between two requests, less than twenty seconds: an upstream
 * that is well again is used again by then.
 */
const firstEjectionMs = 5_000
const longestEjectionMs = 10_000
/** A probe that has not come back by then is given up, and another may be sent. */
const probeMs = 5_000
/** After so long in health an ejection is short again. */
const forgottenMs = 300_000
/** It is the account when so many keys are refused without a reason, and nobody is answered in between. */
const enoughKeys = 3
/** Longest pause that is kept, whatever was asked for. */
const longestRestMs = 300_000
/** Of a 429 that does not say how long to wait. */
const defaultRestMs = 1_000

/** One channel. Times are `performance.now()`; `startedAt` is that of the attempt reported. */
export class ChannelState {
  #state: ChannelHealth['state'] = 'healthy'
  #until = 0
  #ejectedAt = -Infinity
  #healthySince = 0
  /** Ejections in a row: each lasts twice as long as the one before. */
  #ejections = 0
  #consecutive = 0
  #successes = 0
  #failures = 0
  readonly #recent = new Window()
  /** Of those that were refused since the last answer, and were not told whose fault it is. */
  readonly #refusedKeys = new Set<string>()

  /** May be chosen now; a channel that was out is then chosen as a probe. */
  available(now: number): boolean {
    return this.#state === 'healthy' || now >= this.#until
  }

  get healthy(): boolean {
    return this.#state === 'healthy'
  }

  /** When it is available again: the smallest is the least bad of channels that are all out. */
  get until(): number {
    return this.#state === 'healthy' ? 0 : this.#until
  }

  /** An attempt is about to be made. After an ejection it is the one probe; others wait for what comes of it. */
  chosen(now: number): void {
    if (this.#state === 'healthy' || now < this.#until) return
    if (this.#state === 'cooling') this.#recover(now)
    else {
      this.#state = 'probing'
      this.#until = now + probeMs
    }
  }

  /** The upstream accepted an attempt. A probe has done its work then, however long its answer takes. */
  answered(now: number, startedAt: number): void {
    if (this.#isOut() && startedAt >= this.#ejectedAt) this.#recover(now)
  }

  /** An attempt went well: the whole answer, or a refusal of what the client asked for. */
  succeeded(now: number, startedAt: number): void {
    this.#successes++
    this.#recent.add(now, false)
    this.answered(now, startedAt)
    this.#refusedKeys.clear()
    if (!this.#isOut()) this.#consecutive = 0
  }

  /** An attempt failed by the upstream's fault. True when the channel is out because of it. */
  failed(now: number, startedAt: number, ejectAfter: number): boolean {
    this.#failures++
    if (this.#isOld(startedAt)) return false
    this.#count(now)
    const attempts = this.#recent.all(now)
    const failing = attempts >= enoughAttempts && this.#recent.marked(now) * 2 > attempts
    if (!this.#isOut() && !failing && this.#consecutive < ejectAfter) return false
    this.#eject(now)
    return true
  }

  /**
   * The upstream refused our credential: nothing will work until someone changes it. True when the channel is out now.
   */
  refused(now: number, startedAt: number): boolean {
    this.#failures++
    if (this.#isOld(startedAt)) return false
    this.#count(now)
    this.#eject(now)
    return true
  }

  /**
   * The upstream refused a request of this key, and did not say whose fault it is: what one key sends says nothing of
   * the channel, what several meet does. True when the channel is out because of it.
   */
  doubted(now: number, startedAt: number, key: string): boolean {
    if (!this.#isOld(startedAt)) this.#refusedKeys.add(key)
    if (this.#refusedKeys.size >= enoughKeys) return this.refused(now, startedAt)
    this.undecided(now, startedAt)
    return false
  }

  /** The upstream asked for a pause. */
  cool(now: number, ms = defaultRestMs): void {
    if (this.#isOut()) return
    this.#state = 'cooling'
    this.#until = Math.max(this.#until, now + Math.min(ms, longestRestMs))
  }

  /** An attempt ended without telling anything, as when the client left: a probe may be sent anew. */
  undecided(now: number, startedAt: number): void {
    if (this.#state !== 'probing' || startedAt < this.#ejectedAt) return
    this.#state = 'ejected'
    this.#until = now
  }

  report(now: number): ChannelHealth {
    const state = this.#state === 'cooling' && now >= this.#until ? 'healthy' : this.#state
    return {
      state,
      until: state === 'healthy' ? null : Math.round(Date.now() + this.#until - now),
      consecutive_failures: this.#consecutive,
      successes: this.#successes,
      failures: this.#failures
    }
  }

  /** Attempts that were under way when the channel was taken out, or put back, say nothing new. */
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

  #eject(now: number): void {
    if (!this.#isOut() && now - this.#healthySince > forgottenMs) this.#ejections = 0
    this.#state = 'ejected'
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
