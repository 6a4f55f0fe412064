// Everybody who watches the gateway live. While nobody does, nothing is counted and no timer runs.
import { GatewayError } from '../../errors.ts'
import type { RequestTap } from '../../store/request-tap.ts'
import type { Flow } from '../api/contract.ts'
import { Places } from '../places.ts'
import type { PlaceBounds } from '../places.ts'
import { Audience } from './audience.ts'
import type { Asked, LiveEvent, Sights } from './event.ts'
import { streamOf } from './stream.ts'

/** How many streams there are at most. */
const bounds: PlaceBounds = { all: 64, tenants: 48, tenant: 16, one: 4 }
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
  readonly #places = new Places(bounds, ({ kind, id, session }) => `${kind} ${session ?? id}`)
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
    const lacking = this.#places.lacking(by)
    if (lacking) throw tooMany(fullWords[lacking])
    const audience = this.#audienceOf(tenant, sights)
    audience.want(topics, performance.now() + lingerMs)
    return (to, ended) => {
      const leave = this.#places.take(by)
      return streamOf(audience, topics, last, () => {
        leave()
        audience.want(topics, performance.now() + lingerMs)
      })(to, ended)
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
    const tenants = this.#audiences.size - (this.#audiences.has(null) ? 1 : 0)
    if (tenant !== null && tenants >= mostAudiences)
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

const fullWords: Readonly<Record<keyof PlaceBounds, string>> = {
  one: `${bounds.one} live streams of yours are open: close one.`,
  tenant: `${bounds.tenant} live streams of your tenant are open: ask again when one has ended.`,
  tenants: `${bounds.tenants} live streams of tenants are open: ask again when one has ended.`,
  all: `${bounds.all} live streams are open: ask again when one has ended.`
}

function tooMany(message: string): GatewayError {
  return new GatewayError('rate_limit_concurrency', message, { shownCode: 'too_many_streams', retryAfterMs: againMs })
}
