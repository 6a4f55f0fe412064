// How a shared store is: what is wrong with PostgreSQL, with Redis and with what this node knows, since when.
import type { StoreHealth, StoreTrouble } from '../store.ts'
import type { Database } from './database/database.ts'
import type { DocumentBook } from './documents/document-book.ts'
import type { SharedLimits } from './limits/limits.ts'
import type { OnUnavailable } from './limits/stand-in.ts'
import type { Money } from './money/money.ts'
import type { Presence } from './presence.ts'
import type { Logbook } from './requests/logbook.ts'
import type { WorkList } from './works/work-list.ts'

/** For how long the documents may not be those of the others before this gateway should get no requests. */
const mostBehind = 5000
/** For how long nothing may be heard from the others before that is a trouble, in milliseconds. */
const mostDeaf = 15_000
/** For how long work that was taken over may wait before that is a trouble, in milliseconds. */
const mostDelay = 5000
/** How often it is looked, in milliseconds, so that a trouble has begun when it began. */
const lookEvery = 1000

/** The parts that are looked at. */
export interface ConditionParts {
  readonly database: Pick<Database, 'changes' | 'reads' | 'listener'>
  readonly money: Pick<Money, 'trouble' | 'figures'>
  readonly documents: Pick<DocumentBook, 'behind'>
  readonly requests: Pick<Logbook, 'dropped'>
  readonly works: Pick<WorkList, 'delay'>
  readonly presence: Pick<Presence, 'outdated'>
  readonly limits: Pick<SharedLimits, 'health'>
  readonly onLimitsUnavailable: OnUnavailable
}

type Found = Omit<StoreTrouble, 'since'>

/** The condition of the store of one node. */
export class Condition {
  readonly #parts: ConditionParts
  readonly #timer: NodeJS.Timeout
  #troubles: readonly StoreTrouble[] = []
  #lastError: string | undefined
  #failures = 0
  #dropped = 0
  #deafSince: number | undefined

  constructor(parts: ConditionParts) {
    this.#parts = parts
    this.#timer = setInterval(() => this.#look(), lookEvery).unref()
  }

  /** As of now. What only a store of one machine has is 0. */
  get health(): StoreHealth {
    this.#look()
    return {
      healthy: !this.#troubles.some(({ refuses }) => refuses),
      lastError: this.#lastError,
      troubles: this.#troubles,
      failures: this.#failures,
      ...this.#parts.money.figures,
      applies: 0,
      applySeconds: 0,
      unappliedBytes: 0,
      droppedRecords: this.#parts.requests.dropped,
      recovered: 0
    }
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #look(): void {
    const now = Date.now()
    const before = new Map(this.#troubles.map((trouble) => [trouble.ailment, trouble]))
    this.#troubles = this.#found(now).map((found) => ({ ...found, since: before.get(found.ailment)?.since ?? now }))
    for (const { ailment, error } of this.#troubles)
      if (!before.has(ailment)) {
        this.#failures++
        this.#lastError = error
      }
  }

  #found(now: number): Found[] {
    return [
      ...this.#ofMoney(),
      ...this.#ofDatabase(),
      ...this.#ofSchema(),
      ...this.#ofDocuments(),
      ...this.#ofListener(now),
      ...this.#ofRecords(),
      ...this.#ofWork(now),
      ...this.#ofLimits()
    ]
  }

  #ofMoney(): Found[] {
    const { trouble } = this.#parts.money
    if (!trouble) return []
    const { text, error, refuses } = trouble
    const meanwhile = refuses
      ? 'nothing can be reserved'
      : 'what is held goes on, and ends are kept in the log of this node'
    const cause = error === '' ? meanwhile : `${error}: ${meanwhile}`
    return [
      { ailment: 'money', text, refuses, cause, remedy: 'see to PostgreSQL, and to the clock of this machine', error }
    ]
  }

  #ofDatabase(): Found[] {
    const { changes, reads } = this.#parts.database
    const fault = changes.trouble ?? reads.trouble
    if (!fault) return []
    return [
      {
        ailment: 'database',
        text: 'PostgreSQL cannot be reached',
        refuses: false,
        cause: fault.message,
        remedy: 'see to the server, to the network and to store.postgres; it is tried again by itself',
        error: fault.message
      }
    ]
  }

  #ofSchema(): Found[] {
    const { outdated } = this.#parts.presence
    if (outdated === undefined) return []
    return [
      {
        ailment: 'schema',
        text: outdated,
        refuses: true,
        cause: 'a gateway of a newer version has changed the schema',
        remedy: 'end this gateway, and start that version',
        error: ''
      }
    ]
  }

  #ofDocuments(): Found[] {
    const { behind } = this.#parts.documents
    if (behind < mostBehind) return []
    return [
      {
        ailment: 'documents',
        text: 'what other gateways change (keys, tenants, switches) is not known here',
        refuses: true,
        cause: `it could not be read for ${Math.round(behind / 1000)} s`,
        remedy: 'see to PostgreSQL',
        error: ''
      }
    ]
  }

  #ofListener(now: number): Found[] {
    this.#deafSince = this.#parts.database.listener.listening ? undefined : (this.#deafSince ?? now)
    if (this.#deafSince === undefined || now - this.#deafSince < mostDeaf) return []
    return [
      {
        ailment: 'notifications',
        text: 'what other gateways change is heard of a second later',
        refuses: false,
        cause: 'there is no connection that listens',
        remedy: 'see to PostgreSQL; behind a pooler name a direct connection in store.postgres.listen_url',
        error: ''
      }
    ]
  }

  #ofRecords(): Found[] {
    const { dropped } = this.#parts.requests
    const more = dropped > this.#dropped
    this.#dropped = dropped
    if (!more) return []
    const text = 'request records are not kept'
    return [
      {
        ailment: 'records',
        text,
        refuses: false,
        cause: 'PostgreSQL took none for too long',
        remedy: 'see to PostgreSQL',
        error: ''
      }
    ]
  }

  #ofWork(now: number): Found[] {
    const { delay } = this.#parts.works
    if (!delay || now - delay.since < mostDelay) return []
    return [
      {
        ailment: 'work',
        text: `work of gateways that are gone waits: ${delay.count} tasks and background responses`,
        refuses: false,
        cause: `what is held for it cannot be brought here: ${delay.error}`,
        remedy: 'see to PostgreSQL; it is tried again by itself',
        error: delay.error
      }
    ]
  }

  #ofLimits(): Found[] {
    const { health } = this.#parts.limits
    if (health.usable) return []
    const { onLimitsUnavailable } = this.#parts
    const meanwhile = {
      share: 'this gateway goes on with its part of each limit',
      refuse: 'requests with limits are refused',
      allow: 'nothing limits requests'
    }[onLimitsUnavailable]
    return [
      {
        ailment: 'limits',
        text: `Redis does not keep the limits: ${meanwhile}`,
        refuses: onLimitsUnavailable === 'refuse',
        cause: health.reason ?? 'it does not answer',
        remedy: 'see to Redis and to store.redis; it is tried again by itself',
        error: health.reason ?? ''
      }
    ]
  }
}
