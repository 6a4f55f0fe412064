// HTTP/2 to one upstream through undici's sessions, each of which carries many calls.
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { Pool as UndiciPool } from 'undici'
import type { Channel } from '../../catalogue/catalogue.ts'
import { keepAliveMs } from '../http1/answer-head.ts'
import type { Answering, Carrier, Keeper } from '../carrier.ts'
import { Dial, Dialer } from '../connecting/dialer.ts'
import { BadResponse, ConnectionLost, ConnectTimeout } from '../failure.ts'
import { Deadline } from '../../watchdog/deadline.ts'
import { ownNextStream } from './http2-streams.ts'
import type { StreamOwner } from './http2-streams.ts'
import { Pool } from '../pool.ts'
import { maxHeadBytes } from '../http1/response-parser.ts'
import { tunnelsOf } from '../connecting/tunnel.ts'
import { Pool as SessionPool } from './parts.ts'
import { UndiciCall } from './call.ts'
import type { Bearer } from './call.ts'

/** How often a ping is sent to an upstream, which must answer it at once. */
const pingMs = 30_000
/**
 * A session on which nothing was read for this long is dead. It is closed, so that its calls and later ones do not wait
 * for nothing.
 */
const deadMs = 75_000
/** How long an upstream may take to close its side of a session that has ended. */
const lingerMs = 1000
/**
 * The most calls on one session, if the upstream allows as many. What all of them together have queued stays below the
 * limit of a session.
 */
const maxStreams = 64

/** The pool of a channel with HTTP/2. A carrier is made per call and never kept; the sessions are what is kept. */
export function sessionPool(channel: Channel): Pool {
  let sessions: Sessions | undefined
  return new Pool(
    (keeper) => new SessionStream((sessions ??= new Sessions(channel, keeper))),
    false,
    () => sessions?.retire()
  )
}

/** The sessions of a channel, as many as its calls need. */
class Sessions {
  readonly timeout: number
  readonly #open: () => UndiciPool
  #pool: UndiciPool | undefined

  /** `keeper` is told about the sockets of the sessions. */
  constructor(channel: Channel, keeper: Keeper) {
    const dialer = new Dialer(channel, tunnelsOf(channel), ['h2'])
    const clear = channel.baseUrl.protocol === 'http:'
    this.timeout = dialer.timeout
    const open = (): UndiciPool =>
      new SessionPool(channel.baseUrl.origin, {
        headersTimeout: 0,
        bodyTimeout: 0,
        maxHeaderSize: maxHeadBytes,
        keepAliveTimeout: keepAliveMs,
        keepAliveMaxTimeout: keepAliveMs,
        allowH2: true,
        h2Options: { pingInterval: pingMs, maxConcurrentStreams: maxStreams },
        ...(clear && { useH2c: true }),
        connect: (_options, done) => {
          new Dial(dialer, keeper, (error, socket) => {
            if (!socket) return done(error!, null)
            // Without TLS there is no ALPN, so undici must be told the protocol.
            if (clear) Object.assign(socket, { alpnProtocol: 'h2' })
            else if ((socket as TLSSocket).alpnProtocol !== 'h2') {
              socket.destroy()
              return done(new BadResponse('the upstream does not speak HTTP/2'), null)
            }
            watchOver(socket)
            done(null, socket)
          })
        }
      })
    this.#open = open
  }

  get pool(): UndiciPool {
    return (this.#pool ??= this.#open())
  }

  /** Closes each session after its last call. Later calls open new sessions. */
  retire(): void {
    void this.#pool?.close()
    this.#pool = undefined
  }
}

/** Closes the socket of a session that has ended, and of one on which not even the answer to a ping comes. */
function watchOver(socket: Socket): void {
  let read = -1
  const dead = new Deadline(deadMs, () => {
    if (socket.bytesRead === read) return void socket.destroy(new Error('the session is dead'))
    read = socket.bytesRead
    dead.refresh()
  })
  let linger: NodeJS.Timeout | undefined
  socket.once('finish', () => (linger = setTimeout(() => socket.destroy(), lingerMs)))
  socket.once('close', () => {
    dead.clear()
    clearTimeout(linger)
  })
}

/** One call on a session. */
class SessionStream implements Carrier, Bearer, StreamOwner {
  readonly shared = true
  readonly #sessions: Sessions
  #call: UndiciCall | undefined
  #deadline: Deadline | undefined
  #paused = false
  #whole = false

  constructor(sessions: Sessions) {
    this.#sessions = sessions
  }

  get unsent(): boolean {
    return this.#call?.started === false
  }

  send(call: Answering): void {
    const { pool, timeout } = this.#sessions
    const handler = (this.#call = new UndiciCall(call, this))
    if (this.#paused) handler.pause()
    pool.dispatch(handler.request(call), handler)
    if (handler.started || this.#call === undefined) return
    // Sessions are opened one after another, so a call may have to wait for several that fail.
    const late = (): void => handler.fail(new ConnectTimeout(`no session within ${timeout} ms`))
    this.#deadline = new Deadline(timeout, late)
  }

  pause(): void {
    this.#paused = true
    this.#call?.pause()
  }

  resume(): void {
    this.#paused = false
    this.#call?.resume()
  }

  destroy(): void {
    this.#deadline?.clear()
    const call = this.#call
    this.#call = undefined
    call?.abort()
  }

  wait(): void {}

  usable(): boolean {
    return false
  }

  started(): void {
    this.#deadline?.clear()
    ownNextStream(this)
  }

  whole(): void {
    this.#whole = true
  }

  ended(): Error | undefined {
    if (!this.#whole) return new ConnectionLost('the stream was reset')
    this.#call = undefined
    return undefined
  }

  lost({ cause }: Error): boolean {
    this.#deadline?.clear()
    const { heard } = this.#call!
    this.#call = undefined
    if (heard || !(cause instanceof Error)) return false
    const { code, http2ErrorCode } = cause as { code?: string; http2ErrorCode?: number }
    const over = code === 'ERR_HTTP2_INVALID_SESSION' || code === 'ERR_HTTP2_GOAWAY_SESSION'
    // Undici has not noticed yet that the session is over, and would use it again.
    if (over) this.#sessions.retire()
    return over || http2ErrorCode === refusedStream || cause.message.includes('GOAWAY')
  }
}

/** REFUSED_STREAM says that the request was not processed, as GOAWAY does for later streams (RFC 9113 §8.7). */
const refusedStream = 7
