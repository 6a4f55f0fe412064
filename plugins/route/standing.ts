// One channel of a generation as requests are sent to it: its health, its credentials, and what is left to each.
import type {
  Candidates,
  Channel,
  ChannelHealth,
  CredentialHealth,
  LimitLeft,
  Why
} from '../../core/contract/contract.ts'
import type { Limits } from '../../core/store/limits.ts'
import type { ToldLimit } from '../../core/protocols/told/limits.ts'
import { placeOf } from './affinity.ts'
import { chooseByLeft } from './choose.ts'
import type { Chance } from './choose.ts'
import type { ChannelState } from './health.ts'
import type { Told } from './told.ts'
import type { UpstreamLimits, UpstreamSet } from './upstream-limits.ts'

/**
 * The limits that the file sets by now: a request that has waited since before a reload, and a session that is open
 * since then, count in those that the reload has brought.
 */
export type LimitsInForce = () => UpstreamLimits | undefined

/** A credential of a channel. That of a channel with one has the channel's own health. */
export class Seat {
  /** What requests are sent by. */
  readonly channel: Channel
  /** What becomes of the credential alone: pauses, and refusals of the account. */
  readonly health: ChannelState
  readonly told: Told
  readonly #limits: LimitsInForce

  constructor(channel: Channel, health: ChannelState, told: Told, limits: LimitsInForce = () => undefined) {
    this.channel = channel
    this.health = health
    this.told = told
    this.#limits = limits
  }

  get limits(): UpstreamLimits | undefined {
    return this.#limits()
  }

  available(now: number, model: string): boolean {
    return this.health.available(now) && (this.told.empty || this.told.spentUntil(this.#upstream(model), now) <= now)
  }

  /** When it is available again, 0 when it is. */
  freeAt(now: number, model: string): number {
    return Math.max(this.health.until, this.told.spentUntil(this.#upstream(model), now))
  }

  /** The share that is left as its upstream told, from 0 to 1. */
  share(now: number, model: string): number {
    return this.told.empty ? 1 : this.told.share(this.#upstream(model), now)
  }

  /** Takes down what an answer to a request for a model told. */
  learn(model: string, told: readonly ToldLimit[], now: number): void {
    this.told.learn(this.#upstream(model), told, now)
  }

  /** Why it is not available. Only asked while it is not. */
  why(now: number, model: string): Why {
    if (!this.health.available(now)) return this.health.why(now)
    const until = this.told.spentUntil(this.#upstream(model), now)
    return {
      code: 'spent',
      reason: 'its upstream told that nothing is left of a limit',
      until: Math.round(Date.now() + until - now)
    }
  }

  /** Several public names may be one model there. */
  #upstream(model: string): string {
    return this.channel.models.get(model) ?? model
  }
}

/** A channel, and its credentials. Of a channel with several there is one more for each of them. */
export class Standing {
  /** The channel as the file has it, or one of its credentials for what only that can serve. */
  readonly channel: Channel
  /** What becomes of the upstream, whichever credential is used. */
  readonly health: ChannelState
  readonly seats: readonly Seat[]
  /** The channel as the file has it. */
  readonly whole: Standing
  readonly #limits: LimitsInForce

  constructor(
    channel: Channel,
    health: ChannelState,
    seats: readonly Seat[],
    limits: LimitsInForce = () => undefined,
    whole?: Standing
  ) {
    this.channel = channel
    this.health = health
    this.seats = seats
    this.#limits = limits
    this.whole = whole ?? this
  }

  get limits(): UpstreamLimits | undefined {
    return this.#limits()
  }

  /** Whether the file limits it, or one of its credentials. */
  get limited(): boolean {
    if (this.limits !== undefined) return true
    for (let at = 0; at < this.seats.length; at++) if (this.seats[at]!.limits !== undefined) return true
    return false
  }

  /** Whether a request for the model may be sent there now: its upstream is well, and so is one of the credentials. */
  available(now: number, model: string): boolean {
    const { health, seats } = this
    if (!health.available(now)) return false
    for (let at = 0; at < seats.length; at++) if (seats[at]!.available(now, model)) return true
    return false
  }

  /** When it is available again, 0 when it is. */
  freeAt(now: number, model: string): number {
    return Math.max(this.health.until, Math.min(...this.seats.map((seat) => seat.freeAt(now, model))))
  }

  /** Why it is not available. Only asked while it is not. */
  why(now: number, model: string): Why {
    if (!this.health.available(now)) return this.health.why(now)
    const [first] = this.seats
    if (this.seats.length === 1) return first!.why(now, model)
    const next = this.#next(this.seats, now, model)
    const { code, until } = next.why(now, model)
    return { code, reason: `all of its ${this.seats.length} credentials rest`, until }
  }

  /** Whether there is nothing to choose, so that every request is sent by the one credential. */
  get plain(): boolean {
    return this.seats.length === 1 && !this.limited
  }

  /**
   * Chooses a credential by weight and by what is left of it, the same one for all of a conversation, and notes why
   * others are not used. `shares`: what is left by the limits of the file. Those of `tried` are not chosen. When all
   * rest, the one that is free first is taken, as with channels. Undefined when all were tried.
   */
  pick(
    { now, model, random, conversation, candidates }: Choice,
    tried: ReadonlySet<Channel>,
    shares?: ReadonlyMap<Seat, number>
  ): Seat | undefined {
    const left = this.seats.filter((seat) => !tried.has(seat.channel))
    if (left.length === 0) return undefined
    if (this.seats.length === 1) return left[0]
    const usable = left.filter((seat) => seat.available(now, model))
    for (const seat of left) if (!usable.includes(seat)) candidates.passOver(seat.channel, seat.why(now, model))
    if (usable.length === 0) return this.#next(left, now, model)
    const options = usable.map((seat) => ({
      name: `${seat.channel.name} ${seat.channel.credentialName}`,
      weight: seat.channel.weight,
      left: Math.min(seat.share(now, model), shares?.get(seat) ?? 1)
    }))
    const talk = usable.length > 1 ? conversation() : undefined
    return usable[talk === undefined ? chooseByLeft(options, random) : placeOf(talk, options)]
  }

  /** Called before an attempt by this credential: after a rest it may be the only probe. */
  chosen(seat: Seat, now: number): void {
    this.health.chosen(now)
    if (seat.health !== this.health) seat.health.chosen(now)
  }

  /** The limits that a request by this credential counts in. */
  setsOf(seat: Seat, model: string): readonly UpstreamSet[] {
    const own = seat.limits?.for(model)
    const shared = this.limits?.for(model)
    return own && shared ? [...shared, ...own] : (own ?? shared ?? noSets)
  }

  report(now: number, limits: Limits): ChannelHealth {
    const { health, seats } = this
    const said = health.report(now)
    const own: readonly LimitLeft[] = this.limits?.report(limits) ?? []
    if (!this.channel.byCredential) return { ...said, limits: [...own, ...seats[0]!.told.report(now)] }
    const credentials = seats.map((seat) => credentialReport(seat, now, limits))
    const out = seats.every((seat) => !seat.health.available(now))
    const next = credentials.reduce((best, one) => ((one.until ?? 0) < (best.until ?? 0) ? one : best))
    const rest = { state: next.state, until: next.until, since: next.since }
    return {
      ...said,
      ...(said.state === 'healthy' && out && { ...rest, reason: this.#reason(now) }),
      limits: own,
      credentials
    }
  }

  #reason(now: number): string {
    return this.seats.length === 1
      ? this.seats[0]!.health.why(now).reason
      : `all of its ${this.seats.length} credentials rest`
  }

  #next(seats: readonly Seat[], now: number, model: string): Seat {
    return seats.reduce((best, seat) => (seat.freeAt(now, model) < best.freeAt(now, model) ? seat : best))
  }
}

/** What a credential is chosen with. */
export interface Choice extends Chance {
  /** A value of `performance.now()`. */
  readonly now: number
  /** The public name of the model; empty without one. */
  readonly model: string
  readonly candidates: Candidates
}

const noSets: readonly UpstreamSet[] = []

function credentialReport({ channel, health, told, limits: own }: Seat, now: number, limits: Limits): CredentialHealth {
  const { state, until, since, reason, successes, failures } = health.report(now)
  return {
    name: channel.credentialName!,
    weight: channel.weight,
    state,
    until,
    since: since ?? null,
    reason,
    successes,
    failures,
    limits: [...(own?.report(limits) ?? []), ...told.report(now)]
  }
}
