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
  #context: SecureContext | undefined
  /** Of the latest handshake, for a shorter next one. */
  #session: Buffer | undefined

  constructor({ baseUrl, private: mayBePrivate, tls }: Destination) {
    this.secure = baseUrl.protocol === 'https:'
    this.#host = baseUrl.hostname.replace(/^\[|\]$/g, '')
    this.#port = Number(baseUrl.port) || (this.secure ? 443 : 80)
    this.#private = mayBePrivate
    this.#tls = tls
  }

  /**
   * A socket that is connecting; `connect` (TLS: `secureConnect`) or `error` tell how that went. Private addresses are
   * refused where the connection is made: IP literals here, names by the very addresses that will be used, so that a name
   * cannot change its answer in between.
   */
  open(onread: OnReadOpts): Socket {
    const host = this.#host
    const options: TcpNetConnectOpts = {
      host, port: this.#port, onread, noDelay: true, keepAlive: true, keepAliveInitialDelay: probeMs
    }
    if (!this.#private) {
      if (isIP(host) && !isPublic(host)) return new Socket().destroy(new AddressRefused(host))
      options.lookup = publicLookup
    }
    return this.secure ? this.#openTls(options) : connectTcp(options)
  }

  #openTls(options: TcpNetConnectOpts): Socket {
    const { ca, identity, serverName = this.#host, verify = true } = this.#tls ?? {}
    // One context for all connections: each would hold the certificates it was made of.
    this.#context ??= createSecureContext({ ...(ca !== undefined && { ca }), ...identity })
    const socket = connectTls({
      ...options,
      // RFC 6066 §3: an address is no server name.
      servername: isIP(serverName) ? '' : serverName,
      rejectUnauthorized: verify,
      ALPNProtocols: ['http/1.1'],
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
