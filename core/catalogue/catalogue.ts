// The catalogue of a generation: channels, public models, tenants and keys, resolved from gateway.yaml and the key
// store.
import type { Caller } from './caller.ts'
import type { PricePeriod } from '../money/price.ts'
import type { Nano } from '../money/money.ts'

/** The wire family of an upstream. */
export type ChannelFamily = 'openai' | 'anthropic' | 'gemini'

/** A certificate chain and its private key: the text of two PEM files, found to belong together. */
export interface Identity {
  readonly cert: string
  readonly key: string
}

/** How TLS is spoken to an upstream. */
export interface ChannelTls {
  /** Certificates to trust instead of those that Node trusts: the text of a PEM file. */
  readonly ca: string | undefined
  /** What is shown to an upstream that asks who is there. */
  readonly identity: Identity | undefined
  /** What is asked for and must be in the upstream's certificate, instead of the host of its address. */
  readonly serverName: string | undefined
  /** False: whoever answers is believed. */
  readonly verify: boolean
}

/** An HTTP proxy that connections go through. */
export interface ChannelProxy {
  /** Its origin alone. */
  readonly url: URL
  /** Value of `proxy-authorization`; never logged, never shown. */
  readonly authorization: string | undefined
  /** Where it stands: `file`, or the name of the environment variable. */
  readonly from: string
}

/**
 * What is special about the models behind a channel, within the protocol it speaks; what is absent is as the newest
 * models have it.
 */
export interface ChannelTraits {
  /** Chat: the member for the longest answer. */
  readonly maxTokensMember?: 'max_completion_tokens' | 'max_tokens'
  /** Chat: the role `developer` is known. */
  readonly developerRole?: boolean
  /** Chat: thoughts are taken back, and wanted, as `reasoning_content`. */
  readonly replaysReasoning?: boolean
  /** Messages and Gemini: what sets how much to think. Default: effort and level in words. */
  readonly thinking?: 'effort' | 'budget'
  /** Messages: of temperature and top_p the model takes both, one, or none. Default: one. */
  readonly sampling?: 'both' | 'one' | 'none'
  /** Messages: answers of a schema are asked for as such, or with a tool that takes the schema. Default: as such. */
  readonly jsonSchema?: 'format' | 'tool'
  /** All but Responses: what becomes of the grammar of a tool. Default: it is told in the tool's description. */
  readonly grammars?: 'describe' | 'refuse'
  /** The last turn may be the model's own, to be continued. Default: the model is told to go on with it. */
  readonly prefill?: boolean
  /** Responses: false for models that never think, which refuse to be asked for encrypted thoughts. */
  readonly thinks?: boolean
  /** Gemini: pictures and documents are fetched from any address. */
  readonly fetchesUrls?: boolean
}

/** A configured way to an upstream. Immutable; one object per generation. */
export interface Channel {
  readonly name: string
  /** The wire family of the upstream. A `simulator` channel has been resolved to `openai` on a loopback address. */
  readonly protocol: ChannelFamily
  /**
   * With the version and without a trailing slash: `https://api.openai.com/v1`. May carry a query, kept on every call.
   */
  readonly baseUrl: URL
  /** Never logged, never shown; it stands in `headers` as its protocol wants it. */
  readonly credential: string
  /** Endpoint names the upstream speaks natively. */
  readonly endpoints: ReadonlySet<string>
  /** The base address may resolve to a private or loopback address. */
  readonly private: boolean
  /** Public model name → upstream model name. */
  readonly models: ReadonlyMap<string, string>
  readonly weight: number
  /** Lower is tried first. */
  readonly priority: number
  /** Milliseconds. */
  readonly timeouts: {
    readonly connect: number
    readonly firstByte: number
    /** Of an answer that is not streamed; undefined: as its model needs. */
    readonly firstByteWhole?: number | undefined
    readonly idle: number
    readonly total: number
  }
  /** Stands before the path of each call that asks for a model; `{model}` in it is the upstream's name. */
  readonly modelPath: string | undefined
  readonly traits: ChannelTraits
  /**
   * Sent with every request to this channel, lower-case names: the credential in the form of its protocol, and those of
   * the file.
   */
  readonly headers: Readonly<Record<string, string>>
  /** Undefined: what Node trusts is trusted, under the name in the address. */
  readonly tls: ChannelTls | undefined
  /** A connection may carry one request after another. */
  readonly reuse: boolean
  readonly proxy: ChannelProxy | undefined
  /** The version that is spoken: nothing else is offered. */
  readonly http: 1 | 2
  /** The upstream takes `stream_options`, by which the gateway asks for the usage of streams. */
  readonly streamOptions: boolean
  /** Who speaks HTTP: our own client, which knows neither proxies nor HTTP/2, or undici. */
  readonly transport: 'own' | 'undici'
}

/** A public model. */
export interface Model {
  readonly name: string
  readonly ownedBy: string
  /**
   * What it costs, by date; never empty. `price: free` is one price with no rates. Before the first it is not to be
   * used.
   */
  readonly prices: readonly PricePeriod[]
  readonly contextWindow: number | undefined
  readonly maxOutputTokens: number | undefined
  /** Service tiers that may be asked for; undefined: those that there is a price for. */
  readonly tiers: readonly string[] | undefined
  /** Who keeps responses, for clients that go on with them. */
  readonly state: 'upstream' | 'gateway'
  /** Unix seconds; what the model list shows as `created`. */
  readonly created: number
  /** Unix milliseconds. */
  readonly deprecated:
    | { readonly since: number; readonly sunset: number | undefined; readonly replacement: string | undefined }
    | undefined
  /** Channels that serve it, by priority, then in the order of the file. Never empty. */
  readonly channels: readonly Channel[]
}

/** One level of a tenant's tree, for balances and the admin API. */
export interface Tenant {
  readonly name: string
  readonly models: readonly string[]
  readonly budget: { readonly limit: Nano; readonly per: 'day' | 'month' | 'total' } | undefined
  /**
   * What becomes of requests that refer to what was not made through the gateway. Undefined: refused where others have
   * the same account of the upstream.
   */
  readonly foreignReferences?: 'refuse' | 'pass' | undefined
}

/** Everything a request is resolved against. Immutable except for keys, which the key store may add and revoke. */
export interface Catalogue {
  readonly channels: ReadonlyMap<string, Channel>
  readonly models: ReadonlyMap<string, Model>
  readonly tenants: ReadonlyMap<string, Tenant>
  /** The caller of a presented key, by the SHA-256 of it; undefined when there is no such key, whatever the reason. */
  findKey(sha256: Buffer): Caller | undefined
}
