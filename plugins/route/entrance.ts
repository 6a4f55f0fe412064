// Where requests to channels with limits have to pass: takes what the file allows, or waits for it.
import { GatewayError, limitedTokens } from '../../core/contract/contract.ts'
import type { Attempt, Candidates, Channel, Exchange, Turn } from '../../core/contract/contract.ts'
import { slot } from '../../core/contract/slots.ts'
import type { Lease, Limits } from '../../core/store/limits.ts'
import { expectedTokens, tokensOfTurn } from '../estimate.ts'
import type { States } from './board.ts'
import type { Chance } from './choose.ts'
import type { Crowd, Place } from './crowd.ts'
import type { Choice, Seat, Standing } from './standing.ts'
import type { UpstreamSet } from './upstream-limits.ts'

/** What a request has taken of the limits of a channel, for as long as its attempt lasts. */
interface Held {
  lease: Lease | undefined
  channel: string
  /** How many attempts there were before. */
  before: number
}

/** What is held of the limits of the upstream that the exchange is at. */
const holding = slot('route/held').of<Held>()

/** Output tokens of an answer without a limit, until its real count is known. */
const usualOutput = 1024

/** What a channel that is full says: how long until it may not be, in milliseconds. */
export interface Full {
  readonly retryAfterMs: number
  readonly name: 'rpm' | 'tpm' | 'concurrency' | 'rps'
  /** Whose limit it is, for operators. */
  readonly of: string
}

/** Options of the plugin. Milliseconds, and how many requests may wait at one time. */
export interface Patience {
  readonly wait: number
  readonly waiting: number
}

/** The entrance to all channels with limits. One per generation. */
export class Entrance {
  readonly #limits: Limits
  readonly #crowd: Crowd
  readonly #patience: Patience
  readonly #onFull: (channel: Channel) => void

  /** `onFull` hears of each channel that was passed over because it was full. */
  constructor(limits: Limits, crowd: Crowd, patience: Patience, onFull: (channel: Channel) => void) {
    this.#limits = limits
    this.#crowd = crowd
    this.#patience = patience
    this.#onFull = onFull
  }

  /**
   * Takes what a request needs of the first channel that has it, trying `first` and then what `next` says; waits where
   * all are full and no other model stands in. `asked`: whether an attempt for this model has failed. Undefined when
   * nothing may be asked, which `candidates` is told, or the client has left.
   * @throws GatewayError `upstream_rate_limited` when nothing was asked before
   */
  async enter(
    exchange: Exchange,
    candidates: Candidates,
    first: Standing,
    tried: ReadonlySet<Channel>,
    asked: boolean,
    next: (full: ReadonlyMap<Channel, Full>) => Standing | undefined,
    chance: Chance
  ): Promise<Seat | undefined> {
    const until = performance.now() + (exchange.rehearsal || candidates.replaceable ? 0 : this.#patience.wait)
    let place: Place | undefined
    try {
      for (;;) {
        const full = new Map<Channel, Full>()
        for (let standing: Standing | undefined = first; standing; standing = next(full)) {
          const got = await this.#take(exchange, standing, tried, candidates, chance)
          if (exchange.signal.aborted) return undefined
          if (!('retryAfterMs' in got)) return got
          full.set(standing.channel, got)
          if (!exchange.rehearsal) this.#onFull(standing.channel)
          candidates.passOver(standing.channel, whyFull(got))
        }
        const now = performance.now()
        const soonest = Math.min(...Array.from(full.values(), ({ retryAfterMs }) => retryAfterMs))
        // A slot may be given back at any time; a rate comes back when it does.
        const slots = [...full.values()].some(({ name }) => name === 'concurrency')
        const inTime = now < until && (slots || now + soonest <= until)
        if (inTime) place ??= this.#join(exchange, full)
        if (!inTime || !place) return refuse(exchange.model, candidates, asked, soonest)
        await place.sleep(Math.min(until - now, slots ? Infinity : soonest))
        if (exchange.signal.aborted) return undefined
      }
    } finally {
      place?.leave()
    }
  }

  /**
   * Gives back what is held. `attempt`: the one that is over, with what it used. `unknown`: the tokens that count where
   * nobody knows; undefined for those that were expected. Safe to call at any time.
   */
  leave(exchange: Exchange, attempt: Attempt | undefined, unknown: 0 | undefined): void {
    const held = exchange.find(holding)
    if (!held?.lease) return
    const { lease } = held
    held.lease = undefined
    const metered = attempt?.usage?.usage
    lease.release(metered ? limitedTokens(metered) : unknown)
    this.#crowd.wake(held.channel)
  }

  /**
   * Takes what a turn of a session needs; the session itself has the slot.
   * @throws GatewayError `upstream_rate_limited`
   */
  async turn(exchange: Exchange, sets: readonly UpstreamSet[], turn: Turn): Promise<void> {
    const tokens = limitTokens(sets) ? turn.input.typical + Math.min(turn.maxOutput ?? Infinity, usualOutput) : 0
    const decision = await this.#limits.decide(sets, tokens, true)
    if (!decision.admitted) throw limited(exchange.model, decision.retryAfterMs)
    turn.defer(() => decision.lease.release(tokensOfTurn(turn)))
  }

  /** Undefined when as many wait as may. */
  #join({ signal }: Exchange, full: ReadonlyMap<Channel, Full>): Place | undefined {
    return this.#crowd.join(new Set(Array.from(full.keys(), ({ name }) => name)), signal, this.#patience.waiting)
  }

  /** Takes what a request needs of one of the credentials of a channel. */
  async #take(
    exchange: Exchange,
    standing: Standing,
    before: ReadonlySet<Channel>,
    candidates: Candidates,
    chance: Chance
  ): Promise<Seat | Full> {
    const { rehearsal } = exchange
    const model = modelOf(exchange, candidates)
    const choice: Choice = { now: performance.now(), model, candidates, ...chance }
    const tried = new Set(before)
    let soonest: Full | undefined
    for (;;) {
      const shares = await this.#shares(standing, model)
      const seat = standing.pick(choice, tried, shares)
      if (!seat) return soonest!
      const sets = standing.setsOf(seat, model)
      if (sets.length === 0) return seat
      const { metering } = exchange.request.operation
      const tokens = !metering || metering.turns || !limitTokens(sets) ? 0 : expectedTokens(exchange, usualOutput)
      const decision = await (rehearsal ? this.#limits.look(sets, tokens) : this.#limits.decide(sets, tokens))
      if (decision.admitted) {
        this.#hold(exchange, decision.lease, seat.channel.name)
        return seat
      }
      const { retryAfterMs, refusedBy } = decision
      const full = { retryAfterMs, name: refusedBy.name, of: refusedBy.set.of }
      if (!soonest || retryAfterMs < soonest.retryAfterMs) soonest = full
      tried.add(seat.channel)
      if (standing.seats.length > 1) candidates.passOver(seat.channel, whyFull(full))
    }
  }

  /** What is left of each credential by the limits of the file. */
  async #shares(standing: Standing, model: string): Promise<ReadonlyMap<Seat, number> | undefined> {
    if (standing.seats.length === 1) return undefined
    const shares = new Map<Seat, number>()
    // All at once: where limits are kept elsewhere, each question is a round trip.
    await Promise.all(
      standing.seats.map(async (seat) => {
        const sets = seat.limits?.for(model) ?? []
        if (sets.length === 0) return
        const { states } = await this.#limits.look(sets, 1)
        shares.set(seat, Math.min(...states.map(({ remaining, limit }) => remaining / limit)))
      })
    )
    return shares
  }

  #hold(exchange: Exchange, lease: Lease, channel: string): void {
    if (exchange.rehearsal) return
    const { attempts } = exchange
    const now: Held = { lease, channel, before: attempts.length }
    const held = exchange.find(holding)
    if (held) {
      held.lease?.release(0)
      Object.assign(held, now)
      return
    }
    exchange.set(holding, now)
    exchange.defer(({ kind }) => {
      const attempt = attempts.length > now.before ? attempts.at(-1) : undefined
      const tookNothing = !attempt || kind === 'failed' || attempt.error?.source === 'upstream'
      this.leave(exchange, attempt, tookNothing ? 0 : undefined)
    })
  }
}

/** The rates that turns of a session count in, by what holds now; undefined when they count in none. */
export function setsOfSession({ attempts }: Exchange, states: States): readonly UpstreamSet[] | undefined {
  const { channel, model } = attempts.at(-1)!
  const standing = states.get(channel)!
  const sets = standing.setsOf(standing.seats[0]!, model)
  return sets.some(({ rates: { rpm, tpm } }) => (rpm ?? tpm) !== undefined) ? sets : undefined
}

function limitTokens(sets: readonly UpstreamSet[]): boolean {
  return sets.some(({ rates }) => rates.tpm !== undefined)
}

function whyFull({ name, of, retryAfterMs }: Full): { code: string; reason: string; until?: number } {
  const reason = `${of} has reached its ${name}`
  return { code: 'full', reason, ...(name !== 'concurrency' && { until: Date.now() + retryAfterMs }) }
}

function refuse(model: string, candidates: Candidates, asked: boolean, retryAfterMs: number): undefined {
  if (asked) return candidates.stop('the channels that are left have reached their limits')
  throw limited(model, retryAfterMs)
}

/** The public name of the model that is asked: the exchange's, or one that stands in for it. */
export function modelOf(exchange: Exchange, { model }: Candidates): string {
  return model?.name ?? exchange.model
}

function limited(model: string, retryAfterMs: number): GatewayError {
  const when = retryAfterMs < 10_000 ? String(retryAfterMs / 1000) : String(Math.ceil(retryAfterMs / 1000))
  return new GatewayError(
    'upstream_rate_limited',
    `What may be sent on for the model \`${model}\` is used up for now. Try again in ${when} s.`,
    {
      retryAfterMs,
      untaken: true,
      reason: {
        by: 'channel',
        what: 'every channel of the model that may be asked has reached its limits: see decision',
        where: model === '' ? 'channels' : `models.${model}`,
        remedy: 'raise the limits of its channels as far as their upstreams allow, or add another one'
      }
    }
  )
}
