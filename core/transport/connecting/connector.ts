// Opens sockets to one origin, TCP or TLS, and only to public addresses unless the channel is private.
import { lookup } from 'node:dns'
import { connect as connectTcp, isIP, Socket } from 'node:net'
import type { LookupFunction, OnReadOpts, TcpNetConnectOpts } from 'node:net'
import { connect as connectTls, createSecureContext } from 'node:tls'
import type { SecureContext } from 'node:tls'
import type { ChannelTls } from '../../catalogue/catalogue.ts'
import { isPublic } from './egress.ts'
import { AddressRefused } from '../failure.ts'

/** TCP keep-alive probes begin after this long without traffic. */
const probeMs = 60_000

/** The destination of a connector: the properties of a channel that it needs. */
export interface Destination {
  /** Only its origin is used. */
  readonly baseUrl: URL
  /** True when private addresses may be connected to. */
  readonly private: boolean
  readonly tls: ChannelTls | undefined
}

/** Opens the sockets of one pool. */
export class Connector {
  readonly secure: boolean
  readonly #host: string
  readonly #port: number
  readonly #private: boolean
  readonly #tls: ChannelTls | undefined
  readonly #protocols: string[]
  #context: SecureContext | undefined
  /** The TLS session of the latest handshake, which makes the next handshake shorter. */
  #session: Buffer | undefined

  /** `protocols`: those to offer under TLS by ALPN, the preferred one first. */
  constructor({ baseUrl, private: mayBePrivate, tls }: Destination, protocols: readonly string[] = ['http/1.1']) {
    this.secure = baseUrl.protocol === 'https:'
    this.#host = baseUrl.hostname.replace(/^\[|\]$/g, '')
    this.#port = Number(baseUrl.port) || (this.secure ? 443 : 80)
    this.#private = mayBePrivate
    this.#tls = tls
    this.#protocols = [...protocols]
  }

  /** The event of a socket that says that it is connected. */
  get event(): 'connect' | 'secureConnect' {
    return this.secure ? 'secureConnect' : 'connect'
  }

  /** Host and port, in the form of a CONNECT request. */
  get authority(): string {
    return `${isIP(this.#host) === 6 ? `[${this.#host}]` : this.#host}:${this.#port}`
  }

  /**
   * A socket that is connecting; {@link event} or `error` says how that ended. Private addresses are refused at this
   * point: IP literals before connecting, and names by the very addresses that are then used, so that the DNS cannot
   * give another answer in between.
   */
  open(onread?: OnReadOpts): Socket {
    const host = this.#host
    const options: TcpNetConnectOpts = {
      host,
      port: this.#port,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: probeMs,
      ...(onread && { onread })
    }
    const { refusal } = this
    if (refusal) return new Socket().destroy(refusal)
    if (!this.#private) options.lookup = publicLookup
    return this.secure ? this.#openTls(options) : connectTcp(options)
  }

  /** Uses a connection that leads to the destination through a proxy. With TLS, it begins the handshake. */
  over(tunnel: Socket): Socket {
    return this.secure ? this.#openTls({ socket: tunnel }) : tunnel
  }

  /** The reason when nothing can be opened: the host is an IP address that may not be connected to. */
  get refusal(): AddressRefused | undefined {
    const host = this.#host
    return !this.#private && isIP(host) !== 0 && !isPublic(host) ? new AddressRefused(host) : undefined
  }

  #openTls(options: TcpNetConnectOpts | { socket: Socket }): Socket {
    const { ca, identity, serverName = this.#host, verify = true } = this.#tls ?? {}
    // One context for all connections: each context would hold its own copy of the certificates.
    this.#context ??= createSecureContext({ ...(ca !== undefined && { ca }), ...identity })
    const socket = connectTls({
      ...options,
      // RFC 6066 §3: an IP address is not allowed as a server name.
      servername: isIP(serverName) ? '' : serverName,
      rejectUnauthorized: verify,
      ALPNProtocols: this.#protocols,
      secureContext: this.#context,
      ...(this.#session && { session: this.#session })
    })
    socket.on('session', (session) => (this.#session = session))
    return socket
  }
}

const publicLookup: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    if (error) return callback(error, '', 0)
    const allowed = addresses.filter(({ address }) => isPublic(address))
    const first = allowed[0]
    if (!first) return callback(new AddressRefused(hostname), '', 0)
    if (options.all) callback(null, allowed)
    else callback(null, first.address, first.family)
  })
}
