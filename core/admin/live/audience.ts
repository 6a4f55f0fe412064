// Those who watch the same: all of the gateway, or one tenant. What they are shown is counted and rendered once.
import { randomBytes } from 'node:crypto'
import type { RequestRecord } from '../../store/requests.ts'
import { passedOf, Traffic } from '../../store/traffic.ts'
import { showTraffic } from './show-traffic.ts'
import { eventOf } from './event.ts'
import type { LiveEvent, Sights, Topic } from './event.ts'

/** How much is kept for those who come back: events, and about as many bytes. */
const mostKept = 1200
const mostBytes = 1024 * 1024
/** How many requests a second are shown one by one. */
const mostRows = 20

/** Somebody who watches. */
export interface Watcher {
  readonly topics: ReadonlySet<Topic>
  take(event: LiveEvent): void
  /** Called once a second. */
  beat(now: number): void
}

/** One audience. */
export class Audience {
  /** What ids of events begin with, which tells whether an id is of this audience. */
  readonly epoch = randomBytes(4).toString('hex')
  readonly #watchers = new Set<Watcher>()
  readonly #tenant: string | null
  readonly #sights: Sights
  readonly #ring: LiveEvent[] = []
  #bytes = 0
  #number = 0
  #traffic = new Traffic()
  #rows: string[] = []
  #skipped = 0
  /** What troubles and the configuration were when they were last shown. */
  readonly #shown = new Map<Topic, string>()
  /** Until when each topic is wanted without a watcher: by those who ask again and again, and who come back. */
  readonly #until = new Map<Topic, number>()
  /** What is counted. */
  #wanted: ReadonlySet<Topic> = new Set()
  #last = performance.now()

  /** `tenant`: null for those who see the whole gateway. */
  constructor(tenant: string | null, sights: Sights) {
    this.#tenant = tenant
    this.#sights = sights
  }

  /** Counts a request that has ended, when it is of this audience. */
  hear(record: RequestRecord): void {
    if (this.#tenant !== null && record.tenant !== this.#tenant) return
    this.#traffic.add(passedOf(record))
    if (!this.wants('requests')) return
    if (this.#rows.length < mostRows) this.#rows.push(rowOf(record, this.#tenant !== null))
    else this.#skipped++
  }

  /** Has topics counted until then, by performance.now(), and while somebody watches them. */
  want(wanted: Iterable<Topic>, until: number): void {
    for (const topic of wanted) this.#until.set(topic, Math.max(until, this.#until.get(topic) ?? 0))
    this.#choose()
  }

  join(watcher: Watcher): void {
    this.#watchers.add(watcher)
    this.#choose()
  }

  leave(watcher: Watcher): void {
    this.#watchers.delete(watcher)
    this.#choose()
  }

  /** Whether a topic is watched. */
  wants(topic: Topic): boolean {
    return this.#wanted.has(topic)
  }

  /** Shows everybody what happened since the last time. Returns whether anybody still watches, or did lately. */
  tick(now: number): boolean {
    if (this.wants('overview')) {
      const ms = Math.round(now - this.#last)
      this.#tell('overview', JSON.stringify({ at: new Date().toISOString(), ms, ...showTraffic(this.#traffic) }))
    }
    if (this.#rows.length > 0) this.#tell('requests', `{"rows":[${this.#rows.join()}],"skipped":${this.#skipped}}`)
    for (const topic of ['troubles', 'config'] as const) if (this.wants(topic)) this.#look(topic)
    this.#traffic = new Traffic()
    this.#rows = []
    this.#skipped = 0
    this.#last = now
    for (const watcher of this.#watchers) watcher.beat(now)
    for (const [topic, until] of this.#until) if (until < now) this.#until.delete(topic)
    this.#choose()
    return this.#wanted.size > 0
  }

  /** Troubles or the configuration as they are now, as JSON; undefined while that is not known. */
  sight(topic: 'troubles' | 'config'): string | undefined {
    return this.#sights[topic]()
  }

  /** The id of the latest event, which may be none yet. */
  get id(): string {
    return `${this.epoch}-${this.#number}`
  }

  /** The events after one, oldest first; undefined when it is not known any more what came after it. */
  after(id: string): LiveEvent[] | undefined {
    const [, epoch, digits] = /^([0-9a-f]{8})-(\d{1,15})$/.exec(id) ?? []
    const number = Number(digits)
    if (epoch !== this.epoch || number > this.#number) return undefined
    const oldest = this.#ring[0]?.number ?? this.#number + 1
    return number < oldest - 1 ? undefined : this.#ring.filter((event) => event.number > number)
  }

  #choose(): void {
    this.#wanted = new Set([...this.#until.keys(), ...[...this.#watchers].flatMap(({ topics }) => [...topics])])
  }

  #look(topic: 'troubles' | 'config'): void {
    const present = this.sight(topic)
    if (present === undefined || this.#shown.get(topic) === present) return
    this.#shown.set(topic, present)
    this.#tell(topic, present)
  }

  #tell(topic: Topic, data: string): void {
    const event = eventOf(topic, this.epoch, ++this.#number, data)
    this.#ring.push(event)
    this.#bytes += event.text.length
    while (this.#ring.length > mostKept || this.#bytes > mostBytes) this.#bytes -= this.#ring.shift()!.text.length
    for (const watcher of this.#watchers) if (watcher.topics.has(topic)) watcher.take(event)
  }
}

/** A row of the list, without what lists do not show: what actors of a tenant may not see is left out for them. */
function rowOf(record: RequestRecord, ofTenant: boolean): string {
  const { request_id, time, tenant, project, member, key, model, endpoint, channel, status } = record
  const { error_code, outcome, streamed, usage, cost_usd, cost_nano, first_byte_ms, duration_ms } = record
  return JSON.stringify({
    request_id,
    time,
    tenant,
    project,
    member,
    key,
    model,
    endpoint,
    ...(!ofTenant && { channel }),
    status,
    error_code,
    outcome,
    streamed,
    usage,
    cost_usd,
    cost_nano,
    first_byte_ms,
    duration_ms
  })
}
