// Sends one attempt to its upstream over HTTP/1.1 and hands the answer's bytes to a sink as they arrive.
import { lookup } from 'node:dns'
import { isIP } from 'node:net'
import type { LookupFunction } from 'node:net'
import { Pool, buildConnector } from 'undici'
import type { Dispatcher } from 'undici'
import type { Channel } from './catalogue.ts'
import { isPublic } from './egress.ts'
import { GatewayError } from './errors.ts'

/** What is sent. The body is complete: an attempt can be made again on another channel. */
export interface UpstreamRequest {
  method: 'GET' | 'POST' | 'DELETE'
  /** Below the channel's base address, with a leading slash. */
  path: string
  /** Flat pairs, lower-case names; the channel's own are added. */
  headers: string[]
  body: Buffer | null
}

/** Receives an answer. Calls come in this order, `onEnd` or `onError` exactly once and last; none after `abort`. */
export interface UpstreamSink {
  onHead(status: number, headers: Readonly<Record<string, string | string[] | undefined>>): void
  /** The bytes are the sink's: they do not change later. */
  onData(chunk: Buffer): void
  onEnd(): void
  /** Source `upstream`; retryable until the sink has released something. */
  onError(error: GatewayError): void
}

/** A request under way. */
export interface UpstreamCall {
  /** Stops reading from the upstream's socket; at most one chunk still arrives. */
  pause(): void
  resume(): void
  /** Closes the connection unless the answer has ended. The sink hears nothing more. */
  abort(): void
}

/** The upstream side, as small as it can be so that it can be replaced. */
export interface Transport {
  send(channel: Channel, request: UpstreamRequest, sink: UpstreamSink): UpstreamCall
  /** Open connections, for metrics. */
  readonly connections: number
  /** Ends idle connections at once and the others when their answers end. */
  close(): Promise<void>
}

/** undici looks through all sockets of a pool for a free one, so pools are kept small. */
const socketsPerPool = 256
/** Providers close idle connections after about a minute; ours go first. */
const keepAliveMs = 55_000

/**
 * A connection that its upstream closes for idleness in the very moment of reuse fails the request unseen. Within this
 * time of sending, and with no new connection made meanwhile, that is taken to be what happened, and it is sent once more
 * (RFC 9112, section 9.3.1).
 */
const staleMs = 500

interface Shard {
  pool: Pool
  active: number
  /** Connections made so far. */
  connects: number
}

/** Pools of one origin and connect policy, shared by channels and generations. */
interface Origin {
  shards: Shard[]
}

interface Prepared {
  origin: Origin
  basePath: string
  query: string
  headers: string[]
}

/** The transport on undici's `dispatch`: no promise and no stream per request. */
export class UndiciTransport implements Transport {
  readonly #origins = new Map<string, Origin>()
  readonly #prepared = new WeakMap<Channel, Prepared>()

  send(channel: Channel, request: UpstreamRequest, sink: UpstreamSink): UpstreamCall {
    let prepared = this.#prepared.get(channel)
    if (!prepared) this.#prepared.set(channel, (prepared = this.#prepare(channel)))
    const options: Dispatcher.DispatchOptions = {
      method: request.method,
      path: prepared.basePath + request.path + prepared.query,
      headers: prepared.headers.concat(request.headers),
      body: request.body
    }
    const call = new Call(sink, this.#shard(channel, prepared.origin), options)
    call.send()
    return call
  }

  get connections(): number {
    let open = 0
    for (const { shards } of this.#origins.values()) for (const { pool } of shards) open += pool.stats.connected
    return open
  }

  async close(): Promise<void> {
    const pools = [...this.#origins.values()].flatMap(({ shards }) => shards.map(({ pool }) => pool))
    this.#origins.clear()
    await Promise.all(pools.map((pool) => pool.close()))
  }

  #prepare(channel: Channel): Prepared {
    const { baseUrl } = channel
    const key = `${baseUrl.origin} ${channel.private} ${channel.timeouts.connect}`
    let origin = this.#origins.get(key)
    if (!origin) this.#origins.set(key, (origin = { shards: [] }))
    const headers = ['authorization', `Bearer ${channel.credential}`, 'accept-encoding', 'identity', 'user-agent', 'sluice']
    if (channel.credential === '') headers.splice(0, 2)
    for (const [name, value] of Object.entries(channel.headers)) headers.push(name, value)
    return { origin, basePath: baseUrl.pathname.replace(/\/$/, ''), query: baseUrl.search, headers }
  }

  #shard(channel: Channel, origin: Origin): Shard {
    for (const shard of origin.shards) if (shard.active < socketsPerPool) return shard
    const pool = new Pool(channel.baseUrl.origin, {
      connections: socketsPerPool,
      pipelining: 1,
      allowH2: false,
      keepAliveTimeout: keepAliveMs,
      keepAliveMaxTimeout: keepAliveMs,
      // The engine watches all times itself, per exchange and while the client is slow.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: guardedConnector(channel)
    })
    const shard = { pool, active: 0, connects: 0 }
    pool.on('connect', () => shard.connects++)
    origin.shards.push(shard)
    return shard
  }
}

class Call implements UpstreamCall, Dispatcher.DispatchHandler {
  readonly #sink: UpstreamSink
  readonly #shard: Shard
  readonly #options: Dispatcher.DispatchOptions
  readonly #sentAt = performance.now()
  #connects = 0
  #again = false
  #controller: Dispatcher.DispatchController | undefined
  #headed = false
  #aborted = false
  #done = false

  constructor(sink: UpstreamSink, shard: Shard, options: Dispatcher.DispatchOptions) {
    this.#sink = sink
    this.#shard = shard
    this.#options = options
    shard.active++
  }

  send(): void {
    this.#connects = this.#shard.connects
    this.#shard.pool.dispatch(this.#options, this)
  }

  pause(): void {
    if (!this.#done) this.#controller?.pause()
  }

  resume(): void {
    if (!this.#done) this.#controller?.resume()
  }

  abort(): void {
    if (this.#done || this.#aborted) return
    this.#aborted = true
    this.#controller?.abort(aborted)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#aborted) controller.abort(aborted)
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Record<string, string | string[] | undefined>): void {
    // 1xx heads come before the real one.
    if (status < 200 || this.#aborted) return
    this.#headed = true
    this.#sink.onHead(status, headers)
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#aborted) this.#sink.onData(chunk)
  }

  onResponseEnd(): void {
    this.#finish()
    if (!this.#aborted) this.#sink.onEnd()
  }

  onResponseError(_controller: Dispatcher.DispatchController, cause: Error): void {
    if (this.#wasStale(cause)) {
      this.#again = true
      this.send()
      return
    }
    this.#finish()
    if (!this.#aborted) this.#sink.onError(describe(cause, this.#headed))
  }

  #wasStale(cause: Error & { code?: unknown }): boolean {
    if (this.#again || this.#headed || this.#aborted || this.#connects !== this.#shard.connects) return false
    if (performance.now() - this.#sentAt > staleMs) return false
    return ['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'].includes(String(cause.code))
  }

  #finish(): void {
    if (this.#done) return
    this.#done = true
    this.#shard.active--
  }
}

const aborted = new Error('the exchange is over')

/** The message is for the client: it says what happened and never where. */
function describe(cause: Error & { code?: unknown }, headed: boolean): GatewayError {
  const code = String(cause.code ?? '')
  if (code.startsWith('HPE_')) return new GatewayError('upstream_bad_response', 'The upstream sent an invalid HTTP response.', { cause })
  if (headed) return new GatewayError('upstream_stream_interrupted', 'The upstream connection was lost before the answer was complete.', { cause })
  if (code === 'UND_ERR_CONNECT_TIMEOUT') return new GatewayError('upstream_connection_failed', 'Connecting to the upstream took too long.', { cause })
  if (code === 'SLUICE_EGRESS') return new GatewayError('upstream_connection_failed', 'The upstream address is not allowed.', { cause })
  return new GatewayError('upstream_connection_failed', 'The upstream could not be reached or closed the connection.', { cause })
}

/**
 * Refuses private addresses where the connection is made: IP literals before connecting, names by the very addresses that
 * the connection will use, so that a name can not change its answer in between.
 */
function guardedConnector(channel: Channel): buildConnector.connector {
  const connect = buildConnector({
    timeout: channel.timeouts.connect,
    allowH2: false,
    ...(!channel.private && { lookup: publicLookup })
  })
  if (channel.private) return connect
  return (options, callback) => {
    const host = options.hostname.replace(/^\[|\]$/g, '')
    if (isIP(host) && !isPublic(host)) callback(refusal(host), null)
    else connect(options, callback)
  }
}

const publicLookup: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    if (error) return callback(error, '', 0)
    const allowed = addresses.filter(({ address }) => isPublic(address))
    const first = allowed[0]
    if (!first) return callback(refusal(hostname), '', 0)
    if (options.all) callback(null, allowed)
    else callback(null, first.address, first.family)
  })
}

function refusal(host: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${host} is a private address; set \`private: true\` on the channel to allow it`), { code: 'SLUICE_EGRESS' })
}
