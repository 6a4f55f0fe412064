// Opens sockets to one origin, TCP or TLS, and only to public addresses unless the channel is private.
import { lookup } from 'node:dns'
import { connect as connectTcp, isIP, Socket } from 'node:net'
import type { LookupFunction, OnReadOpts, TcpNetConnectOpts } from 'node:net'
import { connect as connectTls, createSecureContext } from 'node:tls'
import type { SecureContext } from 'node:tls'
import type { ChannelTls } from '../catalogue/catalogue.ts'
import { isPublic } from './egress.ts'
import { AddressRefused } from './failure.ts'

/** After this long without a byte the kernel asks whether the peer is still there. */
const probeMs = 60_000

/** Where a connector leads, and how: what it needs of a channel. */
export interface Destination {
  /** Only its origin counts. */
  readonly baseUrl: URL
  /** Addresses that are not public may be connected to. */
  readonly private: boolean
  readonly tls: ChannelTls | undefined
}

/** One per pool. */
export class Connector {
  readonly secure: boolean
  readonly #host: string
  readonly #port: number
  readonly #private: boolean
  readonly #tls: ChannelTls | undefined
  readonly #protocols: string[]
  #context: SecureContext | undefined
  /** Of the latest handshake, for a shorter next one. */
  #session: Buffer | undefined

  /** `protocols`: what is offered under TLS, the preferred one first. */
  constructor({ baseUrl, private: mayBePrivate, tls }: Destination, protocols: readonly string[] = ['http/1.1']) {
    this.secure = baseUrl.protocol === 'https:'
    this.#host = baseUrl.hostname.replace(/^\[|\]$/g, '')
    this.#port = Number(baseUrl.port) || (this.secure ? 443 : 80)
    this.#private = mayBePrivate
    this.#tls = tls
    this.#protocols = [...protocols]
  }

  /** Emitted by a socket once it is connected. */
  get event(): 'connect' | 'secureConnect' {
    return this.secure ? 'secureConnect' : 'connect'
  }

  /** Host and port, as a proxy is asked for them. */
  get authority(): string {
    return `${isIP(this.#host) === 6 ? `[${this.#host}]` : this.#host}:${this.#port}`
  }

  /**
   * A socket that is connecting; {@link event} or `error` tell how that went. Private addresses are refused where the
   * connection is made: IP literals here, names by the very addresses that will be used, so that a name cannot change
   * its answer in between.
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

  /** The same over a connection that leads there already, through a proxy. Under TLS it has to be shaken hands on. */
  over(tunnel: Socket): Socket {
    return this.secure ? this.#openTls({ socket: tunnel }) : tunnel
  }

  /** Why nothing can be opened: the host is an address, and one that may not be connected to. */
  get refusal(): AddressRefused | undefined {
    const host = this.#host
    return !this.#private && isIP(host) !== 0 && !isPublic(host) ? new AddressRefused(host) : undefined
  }

  #openTls(options: TcpNetConnectOpts | { socket: Socket }): Socket {
    const { ca, identity, serverName = this.#host, verify = true } = this.#tls ?? {}
    // One context for all connections: each would hold the certificates it was made of.
    this.#context ??= createSecureContext({ ...(ca !== undefined && { ca }), ...identity })
    const socket = connectTls({
      ...options,
      // RFC 6066 §3: an address is no server name.
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
