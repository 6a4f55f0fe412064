// The catalogue of a generation: channels, public models, tenants and keys, resolved from gateway.yaml and the key
// store.
import type { Awaitable } from '../awaitable.ts'
import type { LivingCredential } from '../credentials/source.ts'
import type { RuleReason } from '../errors.ts'
import type { Caller, LevelLimits, Rights, Scope } from './caller.ts'
import type { PricePeriod } from '../money/price.ts'

/** The family of protocols that an upstream speaks. */
export type ChannelFamily = 'openai' | 'anthropic' | 'gemini' | 'bedrock'

/** A certificate chain and its private key, as the texts of two PEM files that were checked to belong together. */
export interface Identity {
  readonly cert: string
  readonly key: string
}

/** The TLS settings for an upstream. */
export interface ChannelTls {
  /** Certificates to trust instead of those that Node trusts: the text of a PEM file. */
  readonly ca: string | undefined
  /** The client certificate to show when an upstream asks for one. */
  readonly identity: Identity | undefined
  /** The server name to send, and to require in the upstream's certificate, instead of the host in the address. */
  readonly serverName: string | undefined
  /** False when certificates are not checked. */
  readonly verify: boolean
}

/** An HTTP proxy that connections go through. */
export interface ChannelProxy {
  /** Only its origin is used. */
  readonly url: URL
  /** The value of `proxy-authorization`. It is never logged and never shown. */
  readonly authorization: string | undefined
  /** Where the proxy was configured: `file`, or the name of an environment variable. */
  readonly from: string
}

/**
 * Peculiarities of the models behind a channel, within the channel's protocol. An absent member means the behaviour of
 * the newest models.
 */
export interface ChannelTraits {
  /** Chat: the member that limits the length of an answer. */
  readonly maxTokensMember?: 'max_completion_tokens' | 'max_tokens'
  /** Chat: whether the role `developer` is known. */
  readonly developerRole?: boolean
  /** Chat: whether earlier thoughts are accepted, and expected, in `reasoning_content`. */
  readonly replaysReasoning?: boolean
  /**
   * Messages, Gemini and Converse: how the amount of thinking is set, with a word for the effort or with a budget.
   * Default: a word.
   */
  readonly thinking?: 'effort' | 'budget'
  /** Messages and Converse: whether temperature and top_p may both be sent, or one, or none. Default: one. */
  readonly sampling?: 'both' | 'one' | 'none'
  /**
   * Messages and Converse: whether an answer with a schema is requested as such or with a tool that takes the schema.
   * Default: as such.
   */
  readonly jsonSchema?: 'format' | 'tool'
  /** All except Responses: what happens to the grammar of a tool. Default: the tool's description tells it. */
  readonly grammars?: 'describe' | 'refuse'
  /**
   * Whether the last turn may be the model's own, to be continued. Default: false; the model is told to continue it.
   */
  readonly prefill?: boolean
  /** Responses: false for models that never think. They refuse requests for encrypted thoughts. */
  readonly thinks?: boolean
  /** Gemini: whether pictures and documents are fetched from any address. */
  readonly fetchesUrls?: boolean
  /** Converse: the guardrail of every request, as its id or ARN, a colon, and its version. */
  readonly guardrail?: string
  /** Embeddings of Bedrock: how many texts the models take at a time, where their ids do not say it. */
  readonly vectors?: 'single' | 'list'
}

/**
 * Whether requests are sent to a channel. `draining`: only those that refer to what its account keeps. `off`: none of
 * clients; the gateway itself still asks about work that it has begun there.
 */
export type ChannelSwitch = 'on' | 'draining' | 'off'

/** A configured connection to an upstream. Immutable; each generation has its own objects. */
export interface Channel {
  readonly name: string
  /** A `simulator` channel has become an `openai` channel with a loopback address. */
  readonly protocol: ChannelFamily
  /** How a platform wants the protocol of another vendor; see `UpstreamForm.dialect`. */
  readonly dialect?: string | undefined
  /**
   * With the version and without a trailing slash: `https://api.openai.com/v1`. A query in it is added to every
   * request.
   */
  readonly baseUrl: URL
  /**
   * Never logged and never shown. `headers` contain it in the form of the protocol. Empty where there is none, and
   * where `living` stands for it.
   */
  readonly credential: string
  /** A credential that changes while the gateway runs: what requests carry is known when they are sent. */
  readonly living?: LivingCredential | undefined
  /**
   * With several credentials: this channel with each of them, in the order of the file. Requests are sent by these; its
   * own credential is that of the first. Absent where the file gives one.
   */
  readonly byCredential?: readonly Channel[] | undefined
  /** In {@link byCredential}: the name of the credential. Weight and limits are then those of the credential. */
  readonly credentialName?: string | undefined
  /** What its upstream allows; absent where the file sets no limit. */
  readonly limits?: LevelLimits | undefined
  /** The names of the endpoints that the upstream supports. */
  readonly endpoints: ReadonlySet<string>
  /** Whether the base address may lead to a private or loopback address. */
  readonly private: boolean
  /** Public model name → upstream model name. */
  readonly models: ReadonlyMap<string, string>
  /** As the file says; {@link Catalogue.switched} has what counts. */
  readonly switch: ChannelSwitch
  readonly weight: number
  /** Channels with the lowest number are tried first. */
  readonly priority: number
  /** In milliseconds. */
  readonly timeouts: {
    readonly connect: number
    readonly firstByte: number
    /** For an answer that is not streamed; undefined means that it depends on the model. */
    readonly firstByteWhole?: number | undefined
    readonly idle: number
    readonly total: number
  }
  /** Put before the path of each request that names a model; `{model}` in it stands for the upstream's name. */
  readonly modelPath: string | undefined
  readonly traits: ChannelTraits
  /**
   * Headers for every request to this channel, with lower-case names: the credential in the form of its protocol, and
   * those of the file.
   */
  readonly headers: Readonly<Record<string, string>>
  /** Undefined for the certificates that Node trusts and the name in the address. */
  readonly tls: ChannelTls | undefined
  /** Whether a connection may carry several requests, one after another. */
  readonly reuse: boolean
  readonly proxy: ChannelProxy | undefined
  /** The version of HTTP. No other is offered. */
  readonly http: 1 | 2
  /** Whether the upstream accepts `stream_options`, with which the gateway asks for the usage of streams. */
  readonly streamOptions: boolean
  /** The HTTP client: the gateway's own, which supports neither proxies nor HTTP/2, or undici. */
  readonly transport: 'own' | 'undici'
}

/** The models that answer in the place of another. */
export interface StandIns {
  /**
   * Those that are asked, in order, at most {@link mostStandIns}. The first one is the model itself, or what an alias
   * stands for. None of them is an alias.
   */
  readonly models: readonly Model[]
  /** What lets the next one be asked. */
  readonly on: ReadonlySet<'failure' | 'context' | 'filter'>
  /** Whether they may also answer for each other where vectors are asked for. */
  readonly embeddings: boolean
}

/** The most models that are asked for one request. */
export const mostStandIns = 8

/** A public model. */
export interface Model {
  readonly name: string
  /** Absent where the model alone answers under its name. */
  readonly standIns?: StandIns
  /** The name in the file that stands for this one, `openai/*`; absent for a model that the file lists. */
  readonly pattern?: string
  /** Of a model of a pattern: its name at the upstream. */
  readonly upstreamName?: string
  readonly ownedBy: string
  /**
   * Its prices by date; never empty. `price: free` is one price without rates. The model may not be used before the
   * first date.
   */
  readonly prices: readonly PricePeriod[]
  /** What the upstreams charge the operator, by the name of the channel; absent when nothing is known. */
  readonly costs?: ReadonlyMap<string, readonly PricePeriod[]>
  readonly contextWindow: number | undefined
  readonly maxOutputTokens: number | undefined
  /** The service tiers that may be requested; undefined for those that have a price. */
  readonly tiers: readonly string[] | undefined
  /** Where the responses are stored that clients continue from. */
  readonly state: 'upstream' | 'gateway'
  /** In Unix seconds; the model list shows it as `created`. */
  readonly created: number
  /** Times are in Unix milliseconds. */
  readonly deprecated:
    | { readonly since: number; readonly sunset: number | undefined; readonly replacement: string | undefined }
    | undefined
  /**
   * The channels that serve the model, by priority, then in the order of the file. Empty for a name that only stands
   * for other models; its other members are then those of the first of these.
   */
  readonly channels: readonly Channel[]
}

/** A tenant, for balances and the admin API. */
export interface Tenant extends Rights {
  readonly name: string
  /**
   * What happens to requests that refer to things not made through the gateway. Undefined: they are refused when other
   * tenants use the same account of the upstream.
   */
  readonly foreignReferences?: 'refuse' | 'pass' | undefined
}

/** The configuration that requests use. Immutable, except that the key store may add and revoke keys. */
export interface Catalogue {
  readonly channels: ReadonlyMap<string, Channel>
  /** Its `get` also finds models of patterns: see {@link Models}. */
  readonly models: ReadonlyMap<string, Model>
  readonly tenants: ReadonlyMap<string, Tenant>
  /** The channels that are not on, by the file or by an operator at run time. */
  readonly switched: ReadonlyMap<Channel, Exclude<ChannelSwitch, 'on'>>
  /**
   * The caller with what a client presents: a key, or a client secret, which another process may have made. Undefined
   * when it is not valid, for any reason.
   */
  findPresented(secret: string): Awaitable<Caller | undefined>
  /** The caller with a key, by the SHA-256 of that key: for what goes on after it was presented. */
  findKey(sha256: Buffer): Caller | undefined
  /** Why {@link findPresented} finds no caller, for operators. */
  whyNoKey(sha256: Buffer): RuleReason
  /**
   * The scopes of a caller who was found in an earlier configuration, with the budgets of this one: for what is still
   * open. They stay those of the tenant, project and member that it was opened for, even when the key is another's by
   * now. A level that is gone keeps its budget. The same array as long as nothing changes.
   */
  scopesNow(opened: Caller): readonly Scope[]
  /** The scope with this id, and the budgets that it has by now; undefined when there is none. */
  scope(id: string): Scope | undefined
}
