// A gateway.yaml after parsing, checking and resolving: what the core runs on. Made by config/load.ts, immutable.
import type { Channel, Identity, Model, Tenant } from './catalogue.ts'
import type { Budget, KeyLimits } from './caller.ts'

/** Byte sizes and milliseconds. Defaults are those of config/shape.ts. */
export interface Limits {
  /** Largest JSON body, and largest multipart body, of a request. */
  jsonBody: number
  multipartBody: number
  /** All request bodies held at one time; above it new ones are refused with `overloaded`. */
  bodyMemory: number
  /** What plugins keep in caches. */
  cacheMemory: number
  /** How long running exchanges may take to end on SIGTERM, and old generations after a reload. */
  drainTimeout: number
  /** A client that reads nothing for this long is cut. */
  clientStall: number
  /** Time to send the request head, and the body (plus what 1 KiB/s needs). */
  clientHeader: number
  clientBody: number
  /** Idle connections to clients are closed after this. */
  keepAlive: number
  connections: number
  /**
   * What happens to the upstream when the client leaves: read on for the usage within these bounds, or abort at once.
   */
  onDisconnect: 'drain' | 'abort'
  disconnectDrain: { time: number; bytes: number; concurrent: number }
  /**
   * Of realtime sessions: whose pages may connect from a browser; the largest message; how long nothing may be sent,
   * and how long one may last at all; how often either side is asked whether it is there.
   */
  realtime: { origins: readonly string[]; message: number; idle: number; duration: number; ping: number }
}

/** Of work that goes on after its request was answered. Milliseconds. */
export interface TaskSettings {
  /** Exchanges that go on without their client at one time, and how many may wait for that. */
  running: number
  waiting: number
  /** All work that has not ended, and of one tenant's. */
  open: number
  of_tenant: number
  /** Pauses between two questions to an upstream: the first, and the longest. */
  poll: { first: number; most: number }
  /** After which what has not ended is given up. */
  deadline: number
  /** For which what came of it is kept. */
  keep: number
  /** In front of addresses that clients are given, without a slash at its end; empty: what the client itself asked. */
  baseUrl: string
}

/**
 * Of responses that the gateway keeps: the operator's secret, empty for none; milliseconds; bytes of one conversation,
 * of all of a tenant's, and of all.
 */
export interface StateSettings {
  key: string
  keep: number
  largest: number
  of_tenant: number
  size: number
}

/** Listener and store settings; a reload that changes them is refused, unless it is the certificate that changes. */
export interface Settings {
  /** `cors`: the origins whose pages may call from a browser; absent when there are none. */
  listen: { host: string; port: number; tls: Identity | undefined; cors?: readonly string[] }
  /**
   * `token` empty: the admin API answers loopback addresses only. `admin: false` in the file turns the listener off:
   * undefined.
   */
  admin: { host: string; port: number; token: string } | undefined
  store: {
    sqlite: string
    durability: 'power' | 'process'
    /** How much is kept of the request log, and how much of the journal stays in the database. */
    requests: { age: number; size: number }
    journal: { age: number; size: number }
    /** And of answers that are given again. */
    answers: { age: number; size: number }
    /** How long it is known where something is stored. */
    routes: { age: number }
  }
  limits: Limits
  tasks: TaskSettings
  state: StateSettings
}

/** Where something stands in the file, 1-based. */
export interface Position {
  line: number
  column: number
}

/** A key declared in the file. */
export interface ConfigKey {
  name: string
  sha256: Buffer
  tenant: string
  project: string | undefined
  member: string | undefined
  models: readonly string[]
  endpoints: readonly string[]
  limits: KeyLimits
  budget: Budget | undefined
  /** Unix milliseconds. */
  expires: number | undefined
  /** Of the entry, for problems found later. */
  at: Position
}

/** A tenant's tree. */
export interface ConfigTenant extends Tenant {
  readonly projects: ReadonlyMap<
    string,
    {
      readonly budget: Budget | undefined
      readonly members: ReadonlyMap<string, { readonly models: readonly string[]; readonly budget: Budget | undefined }>
    }
  >
}

/** One entry of `chain:`. Options are checked and converted by the plugin's schema. */
export interface ChainEntry {
  plugin: string
  options: unknown
  /** Of the plugin's name, for the order check. */
  at: Position
}

/** Everything the file says. */
export interface Config {
  /** As given on the command line. */
  file: string
  /** SHA-256 of the file's bytes, hex; what `sluice check` and the admin API print. */
  hash: string
  settings: Settings
  channels: ReadonlyMap<string, Channel>
  /** Names of the channels with `protocol: simulator`; they carry the address that the loader was given. */
  simulated: readonly string[]
  models: ReadonlyMap<string, Model>
  tenants: ReadonlyMap<string, ConfigTenant>
  keys: readonly ConfigKey[]
  chain: readonly ChainEntry[]
  /** The file as plain data with every secret replaced by `[redacted]` and `${VAR}` left as written. */
  redacted: unknown
  /** What is most likely a mistake in it, and works as it is written. */
  warnings: readonly Problem[]
}

/** One thing wrong with a file. */
export interface Problem {
  /** `gateway.yaml:31:5`. */
  place: string
  /** What is wrong and what to do, one sentence. */
  message: string
}
