// The port: accepts connections and tells HTTP/2 from HTTP/1.1, by ALPN under TLS and by the first bytes without.
import { rm } from 'node:fs/promises'
import type { Http2Server } from 'node:http2'
import { Server as NetServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { Server as TlsServer } from 'node:tls'
import type { TLSSocket } from 'node:tls'
import { OwnAllowance } from '../allowance.ts'
import type { Allowance } from '../allowance.ts'
import { backlog, bind, descriptorOf } from './bind.ts'
import type { BoundSocket } from './bind.ts'
import { Inlet } from './inlet.ts'
import type { Logger } from '../telling/log.ts'
import { Peek } from './peek.ts'
import type { PeekHost } from './peek.ts'
import { http2 } from '../wire/http2.ts'
import { maxHeadBytes, maxHeaders } from './request-head.ts'
import type { Identity } from '../catalogue/catalogue.ts'
import type { Limits, Settings } from '../catalogue/settings.ts'
import type { Watchdog } from '../watchdog/watchdog.ts'

/** Where a server listens. `port` is the real one when 0 was asked for. */
export interface Address {
  host: string
  port: number
  protocol: 'http' | 'https'
}

/** TCP keep-alive probes, which find dead peers, begin after this long without traffic. */
const probeAfterMs = 60_000

/** The limits of every HTTP/2 session. Each stops a known flood (rapid reset, CONTINUATION, SETTINGS, PING, HPACK). */
const http2Options = {
  settings: {
    enablePush: false,
    enableConnectProtocol: true,
    maxConcurrentStreams: 128,
    maxHeaderListSize: maxHeadBytes,
    // With the protocol's 64 KiB, the round trip time would limit uploads.
    initialWindowSize: 256 * 1024
  },
  maxHeaderListPairs: maxHeaders + 4,
  maxOutstandingPings: 5,
  maxOutstandingSettings: 5,
  maxSettings: 16,
  // In MiB. There is room for every stream with full buffers, because streams above this limit are refused.
  maxSessionMemory: 32,
  maxSessionInvalidFrames: 50,
  maxSessionRejectedStreams: 50,
  streamResetBurst: 100,
  streamResetRate: 33
}

/** What a listener needs. It hands each connection on before the first request is read. */
export interface ListenerOptions {
  listen: Settings['listen']
  limits: Pick<Limits, 'clientHeader' | 'connections'>
  /** Enforces the time limits of connections. */
  watchdog: Watchdog
  log: Logger
  /** How many connections all threads may have that listen on the port; absent: this one alone does. */
  together?: Allowance | undefined
  /**
   * Takes over an HTTP/1.x connection. `first`: the bytes that were read already. `single`: it is closed after one
   * answer.
   */
  onHttp1(inlet: Inlet, remoteAddress: string, first: Buffer | undefined, single: boolean): void
  /** Takes over an HTTP/2 connection. `isInner`: it is that of another process, for a client of that. */
  onHttp2(socket: Socket, remoteAddress: string, isInner: boolean): void
}

/** The port of a gateway, with clear text or TLS. It may have several sockets, of which each has a queue of its own. */
export class Listener implements PeekHost {
  /** The open connections whose version of HTTP is known. */
  readonly open = { http1: 0, http2: 0 }
  /** Connections that were closed at once because `limits.connections` was reached. */
  refused = 0
  readonly #options: ListenerOptions
  /** The sockets that connections are accepted on. */
  readonly #doors = new Set<NetServer>()
  #stopped = false
  #identity: Identity | undefined
  /** Where the processes before connect, for their clients. */
  #inner: NetServer | undefined
  #http2: Http2Server | undefined
  readonly #sockets = new Set<Socket>()
  /** How many there may be. */
  readonly #room: Allowance
  /** How many connections were accepted. */
  #accepted = 0
  /** Those on which nothing was sent yet. */
  readonly #peeking = new Set<Peek>()
  /** The callbacks of callers that wait for the last connection to close. */
  readonly #onEmpty: (() => void)[] = []
  #complainedAt = -Infinity

  constructor(options: ListenerOptions) {
    this.#options = options
    this.#room = options.together ?? new OwnAllowance(options.limits.connections)
    this.#identity = options.listen.tls
  }

  /**
   * Binds the port, or listens on sockets that are bound.
   * @throws Error naming the address and the remedy
   */
  async listen(sockets: readonly BoundSocket[] = []): Promise<Address> {
    const { listen, together } = this.#options
    const protocol = listen.tls ? 'https' : 'http'
    if (sockets.length === 0) {
      const { address, port } = await this.#open((door) => bind(door, listen, 'listen', undefined, !!together))
      return { host: address, port, protocol }
    }
    let first: AddressInfo | undefined
    for (const socket of sockets) {
      const bound = await this.#open((door) => bind(door, listen, 'listen', socket))
      first ??= bound
    }
    return { host: first!.address, port: first!.port, protocol }
  }

  /**
   * Accepts connections on another socket of the port too, until the function is called that is returned.
   * @throws Error when that is none to listen on
   */
  async accept(socket: BoundSocket): Promise<() => void> {
    let opened: NetServer
    await this.#open((door) => bind((opened = door), this.#options.listen, 'listen', socket))
    return () => {
      this.#doors.delete(opened)
      opened.close()
    }
  }

  /**
   * Sets the certificate for new TLS connections; open ones keep theirs. The caller has checked that certificate and
   * key belong together.
   */
  certify(identity: Identity): void {
    this.#identity = identity
    for (const door of this.#doors) (door as TlsServer).setSecureContext(identity)
  }

  /** The file descriptors of the listening sockets. */
  get descriptors(): readonly number[] {
    return Array.from(this.#doors, descriptorOf)
  }

  /** Makes HTTP/2 sessions on the sockets that it is given. */
  get http2(): Http2Server {
    return (this.#http2 ??= http2().createServer(http2Options))
  }

  /** All open connections, including those whose version of HTTP is not known yet. */
  get connections(): number {
    return this.#sockets.size
  }

  /** Takes connections from the processes before, for their clients, at a path in the file system. */
  async takeFrom(path: string): Promise<void> {
    // One that took them before may have crashed.
    await rm(path, { force: true })
    const inner = (this.#inner = new NetServer({ pauseOnConnect: true }))
    inner.on('connection', (socket) => this.#accept(socket, true))
    inner.on('error', (error) => this.#acceptFailed(error))
    await new Promise<void>((resolve, reject) => inner.once('error', reject).listen({ path, backlog }, resolve))
  }

  /** Accepts no more connections, from now on. Those that are open can be used on. */
  stop(): void {
    this.#stopped = true
    for (const door of this.#doors) door.close()
  }

  /**
   * Accepts those who wait for it, and then no more: the kernel resets those who wait at a port that is closed, and
   * they cannot tell whether what they have sent was begun. Node accepts one in a turn of the loop, so a process that
   * is busy may have many. Of those who come meanwhile no more are accepted than may wait at one time.
   */
  async lastCall(): Promise<void> {
    await turn()
    for (let most = backlog; most > 0 && this.#isListening; most--) {
      const before = this.#accepted
      await turn()
      if (this.#accepted === before) break
    }
    this.stop()
  }

  /** Closes the connections on which nothing is sent within `ms`. */
  leave(ms: number): void {
    for (const peek of this.#peeking) peek.hasten(this.#options.watchdog.time() + ms)
  }

  /** Resolves true when the last connection is closed, false after the time. */
  async emptied(withinMs = Infinity): Promise<boolean> {
    if (this.#sockets.size === 0) return true
    let timer: NodeJS.Timeout | undefined
    const empty = await Promise.race([
      new Promise<true>((resolve) => void this.#onEmpty.push(() => resolve(true))),
      new Promise<false>((resolve) => {
        if (withinMs !== Infinity) timer = setTimeout(() => resolve(false), withinMs)
      })
    ])
    clearTimeout(timer)
    return empty
  }

  /** Closes the port, and every connection that does not close by itself within 100 ms. */
  async destroy(): Promise<void> {
    this.stop()
    this.#inner?.close()
    if (await this.emptied(100)) return
    for (const socket of this.#sockets) socket.destroy()
    await this.emptied(1000)
  }

  get #isListening(): boolean {
    for (const door of this.#doors) if (door.listening) return true
    return false
  }

  /** Opens a door with a socket that `listen` gives it. */
  async #open<T>(listen: (door: NetServer) => Promise<T>): Promise<T> {
    const door = this.#door()
    this.#doors.add(door)
    try {
      return await listen(door)
    } catch (error) {
      this.#doors.delete(door)
      throw error
    } finally {
      if (this.#stopped) door.close()
    }
  }

  #door(): NetServer {
    const options = { noDelay: true, keepAlive: true, keepAliveInitialDelay: probeAfterMs }
    let door: NetServer
    if (this.#identity) {
      const handshakeTimeout = this.#options.limits.clientHeader
      const port = new TlsServer({ ...options, handshakeTimeout, ALPNProtocols: ['h2', 'http/1.1'] })
      port.setSecureContext(this.#identity)
      port.on('secureConnection', (socket) => this.#secured(socket))
      port.on('tlsClientError', (_error, socket) => socket.destroy())
      door = port
    } else door = new NetServer({ ...options, pauseOnConnect: true })
    door.on('connection', (socket) => this.#accept(socket))
    // When file descriptors run out, libuv closes new connections by itself without an error. This is for other errors.
    door.on('error', (error) => this.#acceptFailed(error))
    return door
  }

  #accept(accepted: Socket, isInner = false): void {
    this.#accepted++
    if (!this.#room.take(1)) {
      this.refused++
      accepted.destroy()
      return
    }
    const inlet = this.#options.listen.tls && !isInner ? undefined : new Inlet(accepted)
    const socket = inlet?.socket ?? accepted
    this.#sockets.add(socket)
    // `once` would keep three objects more for each open connection.
    socket.on('close', () => {
      this.#sockets.delete(socket)
      this.#room.give(1)
      if (this.#sockets.size === 0) for (const resolve of this.#onEmpty.splice(0)) resolve()
    })
    // A connection may break at any moment; without a listener, the error would end the process.
    socket.on('error', () => {})
    if (!inlet) return
    const peek = new Peek(inlet, isInner, this.#options.watchdog.time() + this.#options.limits.clientHeader, this)
    this.#peeking.add(peek)
    this.#options.watchdog.add(peek)
  }

  known(peek: Peek, isHttp2: boolean, first: Buffer, client: string | undefined): void {
    const { inlet } = peek
    this.#forget(peek)
    // The session takes the connection over, and reads the bytes that were put back by itself.
    if (isHttp2) inlet.handOver().unshift(Buffer.from(first))
    this.#route(inlet, isHttp2, first, client)
  }

  left(peek: Peek): void {
    this.#forget(peek)
  }

  #forget(peek: Peek): void {
    this.#peeking.delete(peek)
    this.#options.watchdog.delete(peek)
  }

  #secured(socket: TLSSocket): void {
    socket.on('error', () => {})
    if (!socket.destroyed) this.#route(new Inlet(socket), socket.alpnProtocol === 'h2', undefined)
  }

  /** `client`: the address of the client, where another process has its connection. */
  #route(inlet: Inlet, isHttp2: boolean, first: Buffer | undefined, client?: string): void {
    const { socket } = inlet
    const { onHttp1, onHttp2 } = this.#options
    const remoteAddress = client ?? plainAddress(socket.remoteAddress)
    const isInner = client !== undefined
    if (isHttp2) onHttp2(socket, remoteAddress, isInner)
    else onHttp1(inlet, remoteAddress, first, isInner)
  }

  #acceptFailed(error: Error): void {
    // Before the port listens, the error is about binding, and the caller of listen() gets it.
    if (!this.#isListening) return
    this.refused++
    // Such an error comes with every connection while its cause lasts, so one line per minute is enough.
    if (performance.now() - this.#complainedAt < 60_000) return
    this.#complainedAt = performance.now()
    this.#options.log.error('a connection could not be accepted', { error: error.message })
  }
}

/** An IPv4 address stays one when it came through an IPv6 socket; empty when the connection is already gone. */
function plainAddress(address: string | undefined): string {
  return address?.startsWith('::ffff:') ? address.slice(7) : (address ?? '')
}
