// The types of a gateway.yaml that was parsed, checked and resolved. config/load.ts makes the values, which are
// immutable.
import type { Channel, Identity, Model, Tenant } from './catalogue.ts'
import type { Rights } from './caller.ts'
import type { StorePlace } from './store-place.ts'

/** In bytes and milliseconds. The defaults are in config/shape.ts. */
export interface Limits {
  /** The largest JSON body, and the largest multipart body, of a request. */
  jsonBody: number
  multipartBody: number
  /** The most memory for all request bodies at one time. Above it, new requests are refused with `overloaded`. */
  bodyMemory: number
  /** The most memory for the caches of plugins. */
  cacheMemory: number
  /** How long everything is served as before after SIGTERM, although the gateway says that it is not ready. */
  lameDuck: number
  /** How long running exchanges may take to end on SIGTERM, and in old generations after a reload. */
  drainTimeout: number
  /** A client that reads nothing for this long is cut off. */
  clientStall: number
  /** The time for sending the head of a request, and the body (in addition to the time that it needs at 1 KiB/s). */
  clientHeader: number
  clientBody: number
  /** Idle connections to clients are closed after this time. */
  keepAlive: number
  connections: number
  /**
   * What happens to the upstream's answer when the client leaves: it is read on for its usage, within these bounds, or
   * aborted at once.
   */
  onDisconnect: 'drain' | 'abort'
  disconnectDrain: { time: number; bytes: number; concurrent: number }
  /**
   * For realtime sessions: the origins whose pages may connect from a browser, the largest message, how long a session
   * may be silent, how long it may last, and how often each side is sent a ping.
   */
  realtime: { origins: readonly string[]; message: number; idle: number; duration: number; ping: number }
  /** How many keys, projects and members in the store a tenant may have for its own admins to make another one. */
  perTenant: { keys: number; projects: number; members: number }
}

/** Settings of work that goes on after its request was answered. Times are in milliseconds. */
export interface TaskSettings {
  /** How many exchanges may go on without their client at one time, and how many may wait for that. */
  running: number
  waiting: number
  /** How much unfinished work there may be, in all and per tenant. */
  open: number
  of_tenant: number
  /** The pauses between two requests to an upstream about its work: the first one, and the longest. */
  poll: { first: number; most: number }
  /** The time after which unfinished work is given up. */
  deadline: number
  /** The time for which results are kept. */
  keep: number
  /**
   * The beginning of addresses that are given to clients, without a trailing slash; empty to use the address that the
   * client itself used.
   */
  baseUrl: string
}

/**
 * Settings of responses that the gateway stores: the operator's secret, empty for none; the time they are kept, in
 * milliseconds; and the most bytes of one conversation, of one tenant, and in all.
 */
export interface StateSettings {
  key: string
  keep: number
  largest: number
  of_tenant: number
  size: number
}

/** How people sign in to the admin API by OpenID Connect. The names are those of the file. */
export interface OidcSettings {
  readonly issuer: string
  readonly client_id: string
  /** Empty for a public client. */
  readonly client_secret: string
  readonly scopes: readonly string[]
  readonly groups_claim: string
  /** Groups by the role that they give; those of `tenant_admin` and `tenant_viewer` by tenant. */
  readonly roles: {
    readonly owner: readonly string[]
    readonly operator: readonly string[]
    readonly viewer: readonly string[]
    readonly tenant_admin: { readonly [tenant: string]: readonly string[] }
    readonly tenant_viewer: { readonly [tenant: string]: readonly string[] }
  }
  /** The address by which browsers reach the admin listener, without a slash at its end. */
  readonly base_url?: string | undefined
}

/**
 * Settings of the listeners, the stores and the limits. A reload that changes the listeners or stores is refused,
 * unless only the certificate changes.
 */
export interface Settings {
  /** `cors`: the origins whose pages may call from a browser; absent when there are none. */
  listen: { host: string; port: number; tls: Identity | undefined; cors?: readonly string[] }
  /**
   * Undefined with `admin: false`, which turns the listener off. With an empty `token`, only loopback addresses may use
   * the admin API. `origins` are those by which browsers reach it through a proxy; times of sessions are milliseconds.
   * `write_config`: whether owners may write the files of the configuration there.
   */
  admin:
    | {
        host: string
        port: number
        token: string
        write_config: boolean
        console: boolean
        origins: readonly string[]
        session: { idle: number; total: number }
        oidc?: OidcSettings | undefined
      }
    | undefined
  store: StoreSettings
  /** How many threads serve clients. */
  workers: number
  limits: Limits
  tasks: TaskSettings
  state: StateSettings
}

/** Where the store is, and how much it keeps. Times are milliseconds, and sizes bytes. */
export type StoreSettings = StorePlace & {
  /**
   * What is on this machine's disk survives a power failure, or only the death of the process. `deferred`: a power
   * failure, but answers do not wait for the disk. Only for a store in a file.
   */
  durability: 'power' | 'process' | 'deferred'
  /** How much of the request log is kept. */
  requests: { age: number; size: number }
  /** Where the journal of a SQLite file is, undefined where nobody has said; and how much of it stays in a database. */
  journal: { form?: 'database' | 'segments' | undefined; age: number; size: number }
  /** How long, and how many bytes of, answers are kept to be given again. */
  answers: { age: number; size: number }
  /** How long it is remembered at which upstream something is stored. */
  routes: { age: number }
  /** Regular backups of a SQLite database, which a reload may change; undefined for none. */
  backups: BackupSettings | undefined
}

/** Regular backups: the folder for them, milliseconds between two, and how many are kept. */
export interface BackupSettings {
  readonly to: string
  readonly every: number
  readonly keep: number
}

/** Where alerts are sent. */
export interface AlertSettings {
  /** The webhook, as a channel with only what connections need. */
  readonly channel: Channel
  readonly path: string
  /** Every one signs. The older of two goes when all receivers know the newer. */
  readonly secrets: readonly string[]
}

/** What a collector is told, and how. Times are in milliseconds. The names are those of the file. */
export interface TelemetrySettings {
  /** Without a slash at its end. */
  readonly otlp: string
  readonly headers: Readonly<Record<string, string>>
  readonly signals: readonly ('traces' | 'metrics' | 'logs')[]
  readonly service: string
  /** Of the resource. */
  readonly attributes: Readonly<Record<string, string>>
  /** The share of new traces, from 0 to 1. */
  readonly sample: number
  /** What becomes of the trace that a client names. */
  readonly accept: 'continue' | 'link' | 'ignore'
  /** Patterns of the channels whose upstreams go on with the trace, and whether these get the client's baggage. */
  readonly propagate: readonly string[]
  readonly baggage: boolean
  /** The names of providers by channel. */
  readonly providers: Readonly<Record<string, string>>
  /** The most items of a signal that wait. */
  readonly queue: number
  readonly timeout: number
  /** From one export of metrics to the next. */
  readonly interval: number
  readonly compression: 'gzip' | 'none'
}

/** A key declared in the file. */
export interface ConfigKey extends Rights {
  name: string
  sha256: Buffer
  tenant: string
  project: string | undefined
  member: string | undefined
  /** Where the entry stands, for problems that are found later: `gateway.yaml:31:5`. */
  place: string
}

/** A tenant with its projects and members. */
export interface ConfigTenant extends Tenant {
  readonly projects: ReadonlyMap<string, ConfigProject>
}

/** A project with the rights of its members. */
export interface ConfigProject extends Rights {
  readonly members: ReadonlyMap<string, Rights>
}

/** One entry of `chain:`. The schema of the plugin checks and converts its options. */
export interface ChainEntry {
  plugin: string
  options: unknown
  /** Where the plugin's name stands, for the check of the order. */
  place: string
}

/** One of the files of a configuration. */
export interface ConfigText {
  /** Its path, relative to the folder of gateway.yaml unless it was included by an absolute path. */
  readonly name: string
  /** Its path as places show it, which leads to it from the working directory. */
  readonly file: string
  /** What is in it, with what it has of secrets in clear. It must never be shown. */
  readonly text: string
}

/** Everything that gateway.yaml and the files that it includes say. */
export interface Config {
  /** The path of gateway.yaml that was given on the command line. */
  file: string
  /**
   * The SHA-256 in hex of the file, or with included files, of what `sha256sum` prints for all of them. `sluice check`
   * and the admin API print it.
   */
  hash: string
  settings: Settings
  channels: ReadonlyMap<string, Channel>
  /** The names of the channels with `protocol: simulator`. Their address is the one that the loader was given. */
  simulated: readonly string[]
  models: ReadonlyMap<string, Model>
  tenants: ReadonlyMap<string, ConfigTenant>
  keys: readonly ConfigKey[]
  chain: readonly ChainEntry[]
  /** Undefined when alerts are only logged. */
  alerts: AlertSettings | undefined
  /** Undefined when no collector is told. */
  telemetry: TelemetrySettings | undefined
  /** The file as plain data with every secret replaced by `[redacted]` and `${VAR}` left as written. */
  redacted: Readonly<Record<string, unknown>>
  /**
   * The SHA-256 in hex of each value that `redacted` shows as something else, by its JSON pointer. It tells whether a
   * secret or a variable has changed, and must never be shown.
   */
  hidden: ReadonlyMap<string, string>
  /** The SHA-256 in hex of the files that the configuration names, such as certificates, by path. */
  named: ReadonlyMap<string, string>
  /** All files, gateway.yaml first. */
  texts: readonly ConfigText[]
  /** The included folders, as {@link ConfigText.name}. */
  folders: readonly string[]
  /**
   * The places (`gateway.yaml:31:5`) of the sections, of the tenants, projects and members, and of the prices of
   * models, by JSON pointer: `/models/gpt-5/price`.
   */
  places: ReadonlyMap<string, string>
  /** Settings that work as written, but are most likely mistakes. */
  warnings: readonly Problem[]
}

/** One thing wrong with a file. */
export interface Problem {
  /** `gateway.yaml:31:5`. */
  place: string
  /** One sentence that says what is wrong and what to do. */
  message: string
}
