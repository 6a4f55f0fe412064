// What the admin listener is made of: the services it shows, its routes, and what a route gets and gives.
import type { Awaitable } from '../contract/contract.ts'
import type { Generations } from '../program/generation.ts'
import type { Logger } from '../telling/log.ts'
import type { Metrics } from '../telling/metrics.ts'
import type { Reloader } from '../program/reload.ts'
import type { Settings } from '../catalogue/settings.ts'
import type { Store } from '../store/store.ts'

/** The services of a gateway that operators look at and act on. */
export interface AdminParts {
  settings: NonNullable<Settings['admin']>
  store: Pick<Store, 'keys' | 'ledger' | 'requests' | 'health'>
  metrics: Pick<Metrics, 'expose'>
  generations: Pick<Generations, 'current'>
  reloader: Pick<Reloader, 'last' | 'reload'>
  log: Logger
  /** The gateway is stopping: new requests of clients are refused. */
  draining(): boolean
}

/** One operation. Paths below `/admin/` need the token, all others are open to whoever reaches the listener. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** Exact, or with a last segment in braces that stands for any name: `/admin/v1/keys/{name}`. */
  readonly path: string
  /** Every parameter that the query may have; others are refused. Absent: the query is not looked at. */
  readonly query?: readonly string[]
  /** On a loopback address it answers to the names of that alone, or to who has the token. */
  readonly local?: boolean
  /** @throws GatewayError to refuse */
  handle(call: Call, parts: AdminParts): Awaitable<Answer>
}

/** A request that was let in. */
export interface Call {
  /** Percent-decoded, each at most once and never empty. */
  readonly query: ReadonlyMap<string, string>
  /** What stands in the path's braces, percent-decoded; empty without any. */
  readonly name: string
  /** The header of this name; empty when there is none. */
  readonly accept: string
  /** The body as JSON. @throws GatewayError when it is none or too large */
  json(): Promise<unknown>
}

/** What a route says: `json` is rendered, `text` goes out as it is. The status is 200 unless it says otherwise. */
export type Answer = { status?: number } & ({ json: unknown } | { text: string; contentType: string })

/** A page of a list, as every list of the admin API is shown. `next` is the cursor of the page after it. */
export interface Page<T> {
  data: T[]
  next: string | null
}
