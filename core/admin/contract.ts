// What the admin listener works with, and what one of its routes is.
import type { Awaitable } from '../contract.ts'
import type { Generations, Shared } from '../generation.ts'
import type { Logger } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import type { Reloader } from '../reload.ts'
import type { Settings } from '../settings.ts'
import type { Store } from '../store/store.ts'

/** The services of a gateway that operators look at and act on. */
export interface AdminParts {
  settings: NonNullable<Settings['admin']>
  store: Store
  metrics: Metrics
  generations: Generations
  shared: Shared
  reloader: Reloader
  log: Logger
  /** The gateway is stopping: new requests are refused. */
  draining(): boolean
}

/** A request whose route is known and whose sender may use it. */
export interface AdminRequest {
  /** Each parameter stands at most once, has a value and is one that the route knows. */
  readonly query: Readonly<Record<string, string | undefined>>
  /** What stands for `{name}` in the path, decoded. */
  readonly argument: string
  readonly accept: string
  /** The body as JSON, read and checked for size and type by now; undefined when there was none. */
  readonly body: unknown
}

/** An answer: `body` goes out as JSON, `text` as it is. */
export type AdminReply =
  | { status?: number; body: unknown }
  | { status?: number; contentType: string; text: string }

/** One operation. What it throws as a GatewayError is its answer. */
export interface Route {
  method: 'GET' | 'POST' | 'DELETE'
  /** May end in `/{name}`. */
  path: string
  /** Query parameters it knows. */
  query?: readonly string[]
  /** For everyone who reaches the listener: without a token. */
  open?: true
  handle(request: AdminRequest, parts: AdminParts): Awaitable<AdminReply>
}
