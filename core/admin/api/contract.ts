// The types of the admin listener: the services that it shows, its routes, their requests and their answers.
import type { IncomingMessage } from 'node:http'
import type { Writable } from 'node:stream'
import type { BodySource } from '../../clients/body-source.ts'
import type { Client, SocketOffer } from '../../clients/client.ts'
import type { Awaitable } from '../../contract/contract.ts'
import type { Seal } from '../access/seal.ts'
import type { SigningIn } from '../access/signing-in.ts'
import type { Actor } from './audit.ts'
import type { Credentials } from '../../credentials/credentials.ts'
import type { ServedOperation } from '../../contract/served.ts'
import type { Engine } from '../../exchange/engine.ts'
import type { ChannelHealth } from '../../contract/health.ts'
import type { Upgraded } from '../../handover/handover.ts'
import type { Generations } from '../../program/generation.ts'
import type { Logger } from '../../telling/log.ts'
import type { Metrics } from '../../telling/metrics.ts'
import type { ConfigFile } from '../../program/config-file.ts'
import type { ConfigHistory } from '../../program/config-history.ts'
import type { Backups } from '../../program/backups.ts'
import type { Prober } from '../../program/probe.ts'
import type { Verification } from '../../program/verification.ts'
import type { Reloader } from '../../program/reload.ts'
import type { Config, Settings } from '../../catalogue/settings.ts'
import type { OptionSchemas } from '../../options/schema.ts'
import type { RequestTap } from '../../store/request-tap.ts'
import type { Store } from '../../store/store.ts'
import type { Vault } from '../../store/vault.ts'
import type { Asked, LiveEvent, Sights } from '../live/event.ts'
import type { Trouble } from '../live/trouble.ts'
import type { EngineViews } from '../requests/engine-view.ts'
import type { WorkerPlace } from './worker-place.ts'
import type { ParameterName } from './parameters.ts'
import type { Shape } from './shape.ts'

/** The services of a gateway that operators inspect and control. */
export interface AdminParts {
  settings: NonNullable<Settings['admin']>
  /** Where the files of the console are that were built; absent: those of the package or the sources. */
  console?: string | undefined
  /** The address that clients are served at. */
  clients: string
  store: Pick<Store, 'documents' | 'ledger' | 'requests' | 'spend' | 'traffic' | 'health' | 'nodes'>
  metrics: Pick<Metrics, 'expose'>
  generations: Pick<Generations, 'current'>
  reloader: Pick<Reloader, 'last' | 'refused' | 'preview' | 'reload' | 'alone'>
  history: Pick<ConfigHistory, 'entries' | 'find'>
  configFile: Pick<ConfigFile, 'schema' | 'show' | 'check' | 'write'>
  log: Logger
  /** The operations of the data listener. */
  operations: readonly ServedOperation[]
  /** What is kept of responses. */
  vault: Pick<Vault, 'ofRequest' | 'read'>
  /** What plugins take and refuse, what would become of a request of a client, and what is under way. */
  engine: EngineViews
  /** The threads that serve clients; absent where one thread does all. */
  workers?: {
    /** Why fewer serve than should. */
    readonly reasons: readonly string[]
    /** Whether any takes connections. */
    readonly serves: boolean
    /** The health of channels as all see it; `own`: as this thread does. */
    health(own: Health): Health
    /** All of them, and what each has to do. */
    places(): Promise<readonly WorkerPlace[]>
  }
  prober: Pick<Prober, 'test'>
  /** The credentials of channels that are renewed, and what is wrong with them. */
  credentials: Pick<Credentials, 'reasons' | 'states'>
  verification: Pick<Verification, 'start' | 'cancel' | 'running' | 'results'>
  /** Takes a request like those of clients. */
  serve: Engine['handle']
  /** Runs requests of people who use this API; the listener makes it. */
  playground?: {
    /**
     * Runs a request with the key of this digest. Returns when it has begun.
     * @throws GatewayError when there are too many, or the request could be read in two ways
     */
    run(key: Buffer, by: Actor, carrier: Carrier): void
  }
  /** The sign-in of people, which the listener makes. */
  signingIn: SigningIn
  /** Seals what comes back to any gateway of the store. */
  seal: Seal
  backups: Pick<Backups, 'standing'>
  /** Hears the records of exchanges that have ended. */
  finished: Pick<RequestTap, 'listen'>
  /** What is wrong now, of one tenant or of all, and as JSON. The listener makes it. */
  troubles: {
    look(tenant: string | null): Promise<readonly Trouble[]>
    shown(tenant: string | null): string | undefined
  }
  /** Who watches the gateway; the listener makes it. */
  live: {
    /** @throws GatewayError `too_many_streams` */
    open(asked: Asked, last: string, sights: Sights): Flow
    poll(asked: Asked, last: string, sights: Sights): { id: string; reset: boolean; events: readonly LiveEvent[] }
  }
  /** Whether the gateway is stopping, so that whoever spreads requests should send it none. */
  stopping(): boolean
  /** Starts the next process and hands over to it; resolves with what came of it. */
  upgrade(reason: string): Promise<Upgraded>
}

/** The health of channels by name. */
export type Health = Readonly<Record<string, ChannelHealth>>

/** The parts that there are without a running gateway, when a command has opened the store. */
export interface OfflineParts {
  readonly store: Pick<Store, 'documents'>
  readonly generations: { readonly current: { readonly config: Config } }
  readonly log: Logger
}

/**
 * Which roles a route is for. `see`: all. `manage`: who changes tenancy. `operate`: who runs the gateway. `own`: owners
 * alone, who may do what the user of the gateway may.
 */
export type Need = 'see' | 'manage' | 'operate' | 'own'

/** Where a route says which tenant it is about. */
export type TenantRule =
  /** `{tenant}` in its path. */
  | { readonly in: 'path' }
  /**
   * Its parameter `tenant`, by which it selects what it lists. Actors of a tenant do not see the members `hidden` of an
   * answer, and `closed` are parameters, and words of the parameter `by`, that they may not use.
   */
  | { readonly in: 'query'; readonly hidden?: readonly string[]; readonly closed?: readonly string[] }
  /** The member `tenant` of its body, which they may leave out. */
  | { readonly in: 'body' }
  /** The thing that its path names; undefined when there is none of that name. `kind` is that of the thing. */
  | {
      readonly in: 'thing'
      readonly kind: string
      of(names: Call['names'], parts: OfflineParts): string | undefined
    }
  /**
   * The thing that its path names, which the handler looks for within the tenant of the actor: of another tenant there
   * is none. They do not see the members `hidden` of the answer.
   */
  | { readonly in: 'found'; readonly hidden: readonly string[] }
  /**
   * The thing that the member `kind` of its body names, which actors of a tenant have to name; `of` finds the tenant of
   * a name. They do not see the members `hidden` of the answer.
   */
  | {
      readonly in: 'named'
      readonly kind: string
      readonly hidden: readonly string[]
      of(name: string, parts: OfflineParts): string | undefined
    }
  /** Nowhere: it tells nothing of any tenant, nor of how the gateway is set up. */
  | { readonly in: 'nothing' }

/**
 * Who may use a route: `anyone` who reaches the listener, or whom it is for. Without a rule for `tenant`, actors of one
 * tenant may not use it.
 */
export type Access = 'anyone' | { readonly needs: Need; readonly tenant?: TenantRule }

/** A body: the fields that check it. With `patch`, null takes a member out. */
export interface BodyShape {
  readonly fields: OptionSchemas
  readonly required?: readonly string[]
  readonly patch?: true
}

/** The type of a body that is no JSON. */
export type TextType = 'text/plain' | 'text/html' | 'text/csv' | 'text/event-stream' | 'application/x-ndjson' | '*/*'

/** One operation of a running gateway. */
export interface LiveRoute {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /**
   * Segments are exact, or a name in braces that stands for any text: `/admin/v1/keys/{key}`. `{path...}` at the end
   * stands for one or more segments, whose text is not decoded.
   */
  readonly path: string
  /** What it does, without a full stop, for the OpenAPI document. */
  readonly summary: string
  /** Who may use it. Only what signs in may be for anyone below `/admin/`, and tells nothing of the gateway. */
  readonly access: Access
  /** The parameters that the query may have; others are refused. Absent: the query is ignored. */
  readonly query?: readonly ParameterName[]
  /** The body that it takes; absent: none is read. */
  readonly body?: BodyShape
  /**
   * What it answers by status: the schema of its JSON, or the type of a text; several where it depends on the query.
   * Refusals are alike everywhere.
   */
  readonly answers: Readonly<Record<number, Shape | TextType | readonly (Shape | TextType)[]>>
  /** The most bytes of its body. Default: those of a small object. */
  readonly largest?: number
  /** On a loopback address, the request must name localhost or a loopback address in `Host`, or have the token. */
  readonly local?: boolean
  readonly offline?: undefined
  /**
   * Answers a request.
   * @throws GatewayError when the request is refused
   */
  handle(call: Call, parts: AdminParts): Awaitable<Answer>
}

/** An operation that needs no running gateway: commands may use it on an opened store. */
export interface OfflineRoute extends Omit<LiveRoute, 'handle' | 'offline'> {
  readonly offline: true
  handle(call: Call, parts: OfflineParts): Awaitable<Answer>
}

/** One operation. */
export type Route = LiveRoute | OfflineRoute

/** A request that the guard admitted. */
export interface Call {
  /** The parameters, percent-decoded. None is empty, and none occurs twice. */
  readonly query: ReadonlyMap<string, string>
  /** The texts in the places of the path's braces, percent-decoded, by the names in the braces. */
  readonly names: Readonly<Record<string, string>>
  /** Who asks. */
  readonly by: Actor
  /** The query as it came, with its question mark; empty without one. Of commands it is empty. */
  readonly search: string
  /** The header `Cookie`; empty when there is none. */
  readonly cookies: string
  /** The header `Host`, and `User-Agent`; empty when there is none. */
  readonly host: string
  readonly agent: string
  /** The header `Accept`; empty when there is none. */
  readonly accept: string
  /** The header `Last-Event-ID`, by which a stream goes on; empty when there is none. */
  readonly lastEvent: string
  /** Aborted when the connection of who asks has ended. */
  readonly left: AbortSignal
  /**
   * Reads the body as JSON.
   * @throws GatewayError when it is not JSON or too large
   */
  json(): Promise<unknown>
}

/**
 * Writes a body piece by piece, at the pace of its reader: it waits for `drain` where `write` says so. The body ends
 * when the promise resolves; when it rejects, the connection is broken. `ended` is aborted when the client has left or
 * the listener ends (its reason is a {@link FlowEnd}): then at most a last word may be written. Members of the pieces
 * that an actor may not see are left out by the route itself.
 */
export type Flow = (to: Writable, ended: AbortSignal) => Promise<void>

/** A request whose route reads and answers it by itself, like one of the data listener. */
export interface Carrier {
  readonly request: IncomingMessage
  readonly client: Client
  readonly body: BodySource
  /** Set when it is a WebSocket handshake. */
  readonly socket?: SocketOffer
  /** What the answer is written to: closed when nothing comes any more, and destroyed to end it. */
  readonly over: Writable
  /** Calls `out` when whoever asked would not be let in any more. Returns what ends the watching. */
  watch(out: () => void): () => void
}

/**
 * What the listener writes. `json` is sent as JSON, `text` and `bytes` as they are, a `flow` as it comes. The status is
 * 200 unless it says otherwise.
 */
export type Written = { status?: number; headers?: Readonly<Record<string, string | string[]>> } & (
  | { json: unknown }
  | { text: string; contentType: string }
  | { bytes: Uint8Array; contentType: string }
  | { flow: Flow; contentType: string }
)

/** The answer of a route: what the listener writes, or what takes the request to answer it, and may still refuse it. */
export type Answer = Written | { take(carrier: Carrier): Awaitable<void> }

/**
 * A page of a list, in the form that all lists of the admin API have. `next` is the cursor of the next page; null on
 * the last one.
 */
export interface Page<T> {
  data: T[]
  next: string | null
}
