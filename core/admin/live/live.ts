// Everybody who watches the gateway live. While nobody does, nothing is counted and no timer runs.
import { GatewayError } from '../../errors.ts'
import type { RequestTap } from '../../store/request-tap.ts'
import type { Flow } from '../api/contract.ts'
import { Audience } from './audience.ts'
import type { Asked, LiveEvent, Sights } from './event.ts'
import { streamOf } from './stream.ts'

/** How many streams there are at most: of one session or operator, and of all. */
const mostOfOne = 4
const most = 64
/** Of how many tenants the figures are counted at most, with those that nobody asks for any more. */
const mostAudiences = 64
const tickMs = 1000
/** How long it is counted on for those who come back, or ask again, in milliseconds. */
const lingerMs = 15_000
/** When a stream that was refused may be asked for again, in milliseconds. */
const againMs = 5000

/** The streams of one listener. */
export class Live {
  readonly #tap: Pick<RequestTap, 'listen'>
  readonly #audiences = new Map<string | null, Audience>()
  /** How many streams each session or operator has. */
  readonly #streams = new Map<string, number>()
  #timer: NodeJS.Timeout | undefined
  #deaf: (() => void) | undefined

  constructor(tap: Pick<RequestTap, 'listen'>) {
    this.#tap = tap
  }

  /**
   * Opens a stream after the event `last`; empty for none. It counts from now on, and until its flow is over.
   * @throws GatewayError `too_many_streams`
   */
  open({ by, tenant, topics }: Asked, last: string, sights: Sights): Flow {
    const who = `${by.kind} ${by.session ?? by.id}`
    const own = this.#streams.get(who) ?? 0
    const all = [...this.#streams.values()].reduce((sum, count) => sum + count, 0)
    if (own >= mostOfOne) throw tooMany(`${mostOfOne} live streams of yours are open: close one.`)
    if (all >= most) throw tooMany(`${most} live streams are open: ask again when one has ended.`)
    const audience = this.#audienceOf(tenant, sights)
    audience.want(topics, performance.now() + lingerMs)
    const flow = streamOf(audience, topics, last, () => {
      const left = (this.#streams.get(who) ?? 1) - 1
      if (left > 0) this.#streams.set(who, left)
      else this.#streams.delete(who)
      audience.want(topics, performance.now() + lingerMs)
    })
    return (to, ended) => {
      this.#streams.set(who, (this.#streams.get(who) ?? 0) + 1)
      return flow(to, ended)
    }
  }

  /** The events after one, for who asks again and again; `reset`: what follows on that event is not known any more. */
  poll({ tenant, topics }: Asked, last: string, sights: Sights): { id: string; reset: boolean; events: LiveEvent[] } {
    const audience = this.#audienceOf(tenant, sights)
    audience.want(topics, performance.now() + lingerMs)
    const events = audience.after(last)
    return { id: audience.id, reset: !events, events: events?.filter(({ topic }) => topics.has(topic)) ?? [] }
  }

  /** Stops counting. Streams are ended by the listener. */
  close(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#deaf?.()
    this.#deaf = undefined
    this.#audiences.clear()
  }

  #audienceOf(tenant: string | null, sights: Sights): Audience {
    const known = this.#audiences.get(tenant)
    if (known) return known
    if (this.#audiences.size >= mostAudiences)
      throw tooMany(`${mostAudiences} tenants are watched live: ask again when one is not any more.`)
    const audience = new Audience(tenant, sights)
    this.#audiences.set(tenant, audience)
    this.#timer ??= setInterval(() => this.#tick(), tickMs).unref()
    this.#deaf ??= this.#tap.listen((record) => {
      for (const one of this.#audiences.values()) one.hear(record)
    })
    return audience
  }

  #tick(): void {
    const now = performance.now()
    for (const [tenant, audience] of this.#audiences) if (!audience.tick(now)) this.#audiences.delete(tenant)
    if (this.#audiences.size === 0) this.close()
  }
}

function tooMany(message: string): GatewayError {
  return new GatewayError('rate_limit_concurrency', message, { shownCode: 'too_many_streams', retryAfterMs: againMs })
}
