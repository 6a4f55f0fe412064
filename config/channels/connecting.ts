// The keys of a channel in gateway.yaml that decide how it connects to its upstream: their shape, and what the core
// gets from them.
import { isIP } from 'node:net'
import { environmentProxy, parseProxy } from './proxy.ts'
import type { Certificates } from '../sections/certificates.ts'
import type { Channel, ChannelProxy, ChannelTls } from '../../core/catalogue/catalogue.ts'
import type { OptionSchema, OptionSchemas, OptionValues } from '../../core/options/schema.ts'
import type { Environment } from '../files/variables.ts'
import type { Report } from '../report.ts'

const file = { type: 'string', minLength: 1 } as const satisfies Partial<OptionSchema>

export const connectingShape = {
  tls: {
    type: 'object',
    description: 'How an https:// upstream is spoken to; what is left out is as usual.',
    properties: {
      ca: {
        ...file,
        description: 'PEM file with the certificates to trust instead of the public ones, relative to this file.'
      },
      cert: {
        ...file,
        description: 'PEM file with the certificate chain to show to the upstream, relative to this file.'
      },
      key: { ...file, description: 'PEM file with the private key of cert, relative to this file.' },
      server_name: {
        type: 'string',
        pattern: '^[A-Za-z0-9_]([A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?$',
        patternErrorMessage: 'a host name',
        description: "Name to ask for, which the upstream's certificate must have, instead of the host of base_url."
      },
      verify: { type: 'boolean', default: true, description: 'false believes whoever answers: for trying out alone.' }
    }
  },
  proxy: {
    type: 'string',
    secret: true,
    examples: ['http://proxy.internal:3128'],
    description:
      'HTTP proxy to go through, or none; when left out, the one that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name.'
  },
  http: {
    type: 'integer',
    minimum: 1,
    maximum: 2,
    default: 1,
    description: 'Version of HTTP: 2 is offered under TLS and the upstream chooses; on http:// it must speak it.'
  },
  transport: {
    type: 'string',
    enum: ['own', 'undici'],
    description: 'Who speaks HTTP; when left out, undici where there is a proxy or http is 2, else own.'
  }
} as const satisfies OptionSchemas

type Entry = OptionValues<typeof connectingShape>

/** What the core gets from these keys. */
type Connecting = Pick<Channel, 'tls' | 'proxy' | 'http' | 'transport'>

/** What reading these keys needs. */
export interface ConnectingSources {
  certificates: Certificates
  env: Environment
}

/** Reads these keys of one channel. */
export class ConnectingReader {
  readonly #name: string
  readonly #entry: Entry
  readonly #baseUrl: URL | undefined
  readonly #simulated: boolean
  readonly #sources: ConnectingSources
  readonly #report: Report

  /** `baseUrl` is undefined when it is faulty. `simulated`: the channel is a simulator. */
  constructor(
    name: string,
    entry: Entry,
    baseUrl: URL | undefined,
    simulated: boolean,
    sources: ConnectingSources,
    report: Report
  ) {
    this.#name = name
    this.#entry = entry
    this.#baseUrl = baseUrl
    this.#simulated = simulated
    this.#sources = sources
    this.#report = report
  }

  /** Reads the keys; undefined when one of them is faulty, which is reported. */
  read(): Connecting | undefined {
    const tls = this.#sound('tls') ? this.#tls() : undefined
    const proxy = this.#sound('proxy') ? this.#proxy() : undefined
    const http = this.#sound('http') ? this.#http() : 1
    const transport = this.#sound('transport') ? this.#transport(proxy, http) : 'own'
    return this.#sound('tls') && this.#sound('proxy') && this.#sound('http') && this.#sound('transport')
      ? { tls, proxy, http, transport }
      : undefined
  }

  #tls(): ChannelTls | undefined {
    const { tls: entry } = this.#entry
    const path = this.#path('tls')
    const report = this.#report
    if (!entry) return undefined
    const { ca: caFile, cert, key, server_name: serverName, verify } = entry
    if (this.#simulated) report.key(path, 'a simulator is spoken to without TLS: remove this')
    else if (this.#baseUrl?.protocol === 'http:')
      report.key(path, 'there is no TLS with an http:// address: remove this, or write https:// in "base_url"')
    if (cert === undefined && key !== undefined)
      report.key([...path, 'key'], 'there is no "cert" that it could be the key of')
    if (cert !== undefined && key === undefined)
      report.key([...path, 'cert'], 'its private key is missing: name it in "key"')
    if (!verify && caFile !== undefined)
      report.key([...path, 'ca'], 'nothing is looked for in it with "verify: false": keep one of the two')
    if (serverName !== undefined && isIP(serverName) !== 0)
      report.value([...path, 'server_name'], 'must be a name, not an address')
    const { certificates } = this.#sources
    const identity = cert === undefined || key === undefined ? undefined : certificates.identity(path, { cert, key })
    const ca = caFile === undefined ? undefined : certificates.authorities([...path, 'ca'], caFile)
    return { ca, identity, serverName, verify }
  }

  #proxy(): ChannelProxy | undefined {
    const { proxy: entry } = this.#entry
    if (this.#simulated) {
      if (entry !== undefined && entry !== 'none')
        this.#report.key(this.#path('proxy'), 'a simulator is on this machine: remove this')
      return undefined
    }
    if (entry === 'none' || !this.#baseUrl) return undefined
    const { proxy, fault } =
      entry === undefined ? environmentProxy(this.#baseUrl, this.#sources.env) : parseProxy(entry, 'file')
    if (fault !== undefined && entry === undefined)
      this.#report.key(['channels', this.#name], `${fault}, or say "proxy: none"`)
    else if (fault !== undefined) this.#report.value(this.#path('proxy'), `${fault}, or none`)
    return proxy
  }

  #http(): 1 | 2 {
    const http = this.#entry.http === 2 ? 2 : 1
    if (this.#simulated && http === 2)
      this.#report.value(this.#path('http'), 'a simulator speaks HTTP/1.1 alone: remove this')
    return http
  }

  #transport(proxy: ChannelProxy | undefined, http: 1 | 2): 'own' | 'undici' {
    const { transport } = this.#entry
    if (!proxy && http === 1) return transport ?? 'own'
    if (transport === 'own') {
      const cause = http === 2 ? '"http: 2"' : proxy?.from === 'file' ? '"proxy"' : `${proxy?.from} in the environment`
      const remedy = http === 2 ? '' : ', or say "proxy: none"'
      this.#report.value(this.#path('transport'), `our own cannot do what ${cause} asks for: remove this${remedy}`)
    }
    return 'undici'
  }

  #path(key: keyof Entry): string[] {
    return ['channels', this.#name, key]
  }

  #sound(key: keyof Entry): boolean {
    return this.#report.sound(...this.#path(key))
  }
}
