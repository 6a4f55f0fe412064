// One HTTP/1.x connection: reads requests one after another, hands each on, and keeps or closes itself after the
// answer.
import type { Socket } from 'node:net'
import { noBody } from '../body-source.ts'
import type { Front, Incoming } from '../client.ts'
import { asGatewayError, GatewayError } from '../../errors.ts'
import type { Inlet, Taker } from '../inlet.ts'
import { rawRefusal } from '../refusal.ts'
import type { Watched } from '../../watchdog/watchdog.ts'
import { Backlog } from './backlog.ts'
import { Http1Body } from './body.ts'
import type { BodyCarrier } from './body.ts'
import { Http1Client } from './client.ts'
import type { AnswerCarrier } from './client.ts'
import type { Http1Head } from './request-head.ts'
import { RequestParser } from './request-parser.ts'
import { reset } from './reset.ts'
import { unsentOf } from './unsent.ts'
import { Upgrade } from './upgrade.ts'

/**
 * The most bytes that are read ahead of their turn. Above this the connection is not read, so a client's leaving is
 * noticed late.
 */
const aheadBytes = 64 * 1024
/**
 * Some clients read a refusal only after they have sent their whole body, and lose it when the connection is reset
 * before that. So as many bytes are read and thrown away as the largest body has. Anything beyond stays unread, which
 * holds the client back without a reset. After `lingerMs` the connection is closed in any case.
 */
const lingerBytes = 128 * 1024 * 1024
const lingerMs = 5000
/** How long a client may take to close its side of a connection that was idle. */
const farewellMs = 1000
/** How long a client may take to send the rest of a small body that is thrown away. */
const restMs = 2000
/** An idle connection is kept this much longer than its client was told. */
const graceMs = 1000
const nothing = Buffer.alloc(0)
const invitation = 'HTTP/1.1 100 Continue\r\n\r\n'

/** The server, as its HTTP/1.x connections see it. */
export interface Http1Front extends Front {
  /** Milliseconds that the head of a request may take to arrive. */
  readonly clientHeader: number
  /** Milliseconds until the first request of a connection must come when the server stops. */
  readonly firstRequest: number
  /** Takes a valid request. It always answers the request, and never throws. */
  serve(incoming: Incoming): void
  /** Counts a request that was refused before it could be served. */
  refused(): void
  /** The connection is closed. Called once. */
  closed(connection: Http1Connection): void
}

/** Answers requests one after another. What follows a request waits, unread as far as possible. */
export class Http1Connection implements Watched, Taker, BodyCarrier, AnswerCarrier {
  rosterPlace: number | undefined = undefined
  readonly socket: Socket
  readonly remoteAddress: string
  readonly front: Http1Front
  /** The answer that is being written. */
  client: Http1Client | undefined
  /** True when the current answer is the last. */
  closing = false
  readonly single: boolean
  readonly #inlet: Inlet
  readonly #parser = new RequestParser()
  readonly #backlog = new Backlog()
  /** The body of the latest request until it is complete. */
  #body: Http1Body | undefined
  /** True when the connection is closed for writing. Input is then thrown away, `#linger` more bytes at most. */
  #retired = false
  #linger = lingerBytes
  /** True when the socket was handed to a WebSocket handshake. */
  #upgraded = false
  #reading = false
  /**
   * While a request is handed on: the bytes that were read with its head, and the position up to which they were used.
   * Most bodies are complete in them.
   */
  #rest: Buffer | undefined
  #at = 0
  #scheduled = false
  #paused = false
  /** True when the connection is to be closed as soon as it is idle. */
  #leaving = false
  /** Whether no request has come on it. */
  #isNew = true
  /** How long the client is waited for, 0 when it is not, and when that time ends, 0 until the next {@link check}. */
  #limit: number
  #until = 0
  /** What of an answer was not sent at the latest check, and since when it is as much, 0 until the next one. */
  #unsent = 0
  #unsentSince = 0

  /** `single`: one request is answered, and the connection is closed. */
  constructor(inlet: Inlet, remoteAddress: string, front: Http1Front, single = false) {
    const { socket } = inlet
    this.single = single
    this.#inlet = inlet
    this.socket = socket
    this.remoteAddress = remoteAddress
    this.front = front
    this.#limit = front.clientHeader
    inlet.feed(this)
    socket.on('end', () => this.#ended())
    socket.on('drain', () => this.#drained())
    socket.on('close', () => {
      this.#lost()
      front.closed(this)
    })
  }

  /**
   * Closes the connection as soon as it is idle, for writing first: a request that crosses the end of the connection is
   * read and not answered with a reset, which would also take away an answer that the client has not read. The first
   * request is waited for, as it comes right behind the connection.
   */
  leave(): void {
    this.#leaving = true
    if (this.client !== undefined || this.#backlog.length > 0 || this.closing) return
    if (this.#isNew) this.#wait(this.front.firstRequest)
    else this.#retire(farewellMs)
  }

  /** Closes the connection now. An unfinished answer must not look complete. */
  destroy(): void {
    if (this.client || this.socket.writableLength > 0) reset(this.socket)
    else this.socket.destroy()
  }

  cut(): void {
    this.closing = true
    reset(this.socket)
  }

  /** Enforces the time limits. Called a few times a second at most, so that requests need no timers. */
  check(now: number): void {
    if (this.#limit === 0) return
    if (this.#stalls(now)) this.destroy()
    else if (this.#until === 0) this.#until = now + this.#limit
    else if (now > this.#until) this.#expired()
  }

  wanted(body: Http1Body): void {
    if (body.awaited && !body.complete) {
      body.awaited = false
      if (!this.closing && this.socket.writable) this.socket.write(invitation, 'latin1')
    }
    if (this.#rest) this.#at = this.#readBody(body, this.#rest, this.#at)
    else this.#schedule()
  }

  released(): void {
    this.client = undefined
    if (this.closing) return this.#retire()
    if (this.#body) {
      this.#body.discard()
      this.#wait(restMs)
    } else this.#wait(this.front.keepAlive + graceMs)
    if (this.#backlog.length > 0) this.#schedule()
    else if (this.#leaving && !this.#reading) this.#retire(farewellMs)
  }

  /** Takes what the socket has read. Called by the inlet. */
  input(bytes: Buffer): void {
    if (this.#retired) {
      this.#linger -= bytes.length
      if (this.#linger < 0) this.socket.pause()
    } else if (this.#backlog.length > 0 || this.#scheduled) this.#hold(bytes)
    else this.#read(bytes, false)
  }

  /** The memory where the inlet reads a large body to. */
  get room(): Buffer | undefined {
    return this.#backlog.length > 0 ? undefined : this.#body?.room
  }

  /**
   * Reads on in a body, or reads one request; the next request is read in a later turn of the event loop. `waited`: the
   * bytes come from the backlog.
   */
  #read(bytes: Buffer, waited: boolean): void {
    const parser = this.#parser
    const { length } = bytes
    if (this.front.forwarder && !this.#body && !parser.begun && this.#ready()) return this.#forward(bytes)
    this.#reading = true
    let at = this.#body ? this.#readBody(this.#body, bytes, 0) : 0
    if (this.#ready() && this.#body === undefined && at < length) {
      const { begun } = parser
      at = parser.readHead(bytes, at)
      if (parser.head) {
        at = this.#begin(parser.head, bytes, at)
        if (this.#body && at < length) at = this.#readBody(this.#body, bytes, at)
      } else if (!begun) this.#wait(this.front.clientHeader)
    }
    this.#reading = false
    if (parser.fault && !this.#retired) this.#fail(parser.fault)
    else if (at < length && !this.#retired && !this.#upgraded) {
      // Copying the rest again for each of many requests in one read would take quadratic time.
      if (waited) this.#backlog.giveBack(bytes.subarray(at))
      else this.#hold(at === 0 ? bytes : bytes.subarray(at))
      this.#schedule()
    } else if (this.#leaving) this.leave()
  }

  #begin(head: Http1Head, bytes: Buffer, at: number): number {
    this.#limit = 0
    this.#isNew = false
    const { method, target, headers, httpVersion, length } = head
    if (head.webSocket) {
      this.#upgrade(head, at < bytes.length ? Buffer.from(bytes.subarray(at)) : nothing)
      return bytes.length
    }
    const body = length === 0 ? undefined : new Http1Body(this, head.expects)
    const client = new Http1Client(this, head, body)
    this.#body = body
    this.client = client
    this.#at = at
    if (body) this.#rest = bytes
    this.front.serve({
      method,
      target,
      headers,
      remoteAddress: this.remoteAddress,
      httpVersion,
      body: body ?? noBody,
      client
    })
    this.#rest = undefined
    return this.#at
  }

  #readBody(body: Http1Body, bytes: Buffer, from: number): number {
    const parser = this.#parser
    if (from === bytes.length || !body.flowing || this.#retired) return from
    const at = parser.readBody(bytes, from)
    const { from: start, to, ended } = parser
    if (ended) this.#body = undefined
    if (to > start) body.data(start === 0 && to === bytes.length ? bytes : bytes.subarray(start, to))
    if (ended) {
      body.end()
      // The rest of a body that was thrown away has come.
      if (this.client === undefined && !this.closing) this.#wait(this.front.keepAlive + graceMs)
    }
    return at
  }

  /** Whether the next bytes can be processed. */
  #ready(): boolean {
    if (this.#body) return this.#body.flowing
    // A client that does not read its answers gets no more of them.
    return this.client === undefined && !this.closing && !this.socket.writableNeedDrain
  }

  #hold(bytes: Buffer): void {
    this.#backlog.add(bytes)
    if (this.#backlog.length <= aheadBytes || this.#paused) return
    this.#paused = true
    this.socket.pause()
  }

  #schedule(): void {
    if (this.#scheduled || this.#reading || this.#backlog.length === 0 || !this.#ready()) return
    this.#scheduled = true
    setImmediate(readOn, this)
  }

  /** Processes the backlog. */
  readOn(): void {
    this.#scheduled = false
    if (this.socket.destroyed || this.#backlog.length === 0 || !this.#ready()) return
    this.#read(this.#backlog.take(), true)
    if (!this.#paused || this.#upgraded || this.#backlog.length > aheadBytes) return
    this.#paused = false
    this.socket.resume()
  }

  /** Hands the connection over to a WebSocket handshake, even when that is then refused. */
  #upgrade({ method, target, headers, httpVersion, length }: Http1Head, rest: Buffer): void {
    if (length !== 0) return this.#fail(new GatewayError('invalid_request', 'A WebSocket handshake has no body.'))
    let upgrade: Upgrade
    try {
      upgrade = new Upgrade(this.front, headers, this.socket, rest, this.#inlet)
    } catch (error) {
      return this.#fail(asGatewayError(error))
    }
    this.closing = this.#upgraded = true
    this.#inlet.handOver()
    this.front.serve({
      method,
      target,
      headers,
      remoteAddress: this.remoteAddress,
      httpVersion,
      body: noBody,
      client: upgrade,
      socket: upgrade
    })
  }

  /** Leaves the connection to the process that has taken the place of this one. */
  #forward(bytes: Buffer): void {
    const { front } = this
    this.closing = this.#upgraded = true
    this.#limit = 0
    front.began()
    front.forwarder!.connection(this.#inlet.handOver(), this.remoteAddress, Buffer.from(bytes), () => front.ended())
  }

  #wait(ms: number): void {
    this.#limit = ms
    this.#until = this.#unsentSince = 0
  }

  /**
   * Whether the client has taken nothing of what is left of an answer for too long, which no exchange watches over any
   * more. What it sends meanwhile does not count.
   */
  #stalls(now: number): boolean {
    const unsent = unsentOf(this.socket)
    if (unsent !== this.#unsent || this.#unsentSince === 0) {
      this.#unsent = unsent
      this.#unsentSince = now
      return false
    }
    return unsent > 0 && now - this.#unsentSince > this.front.clientStall
  }

  #expired(): void {
    const { socket } = this
    this.#until = 0
    // Who has ended its side is told nothing more, and may still read what is left of an answer.
    if (!socket.writableEnded && this.#parser.begun)
      this.#fail(new GatewayError('request_timeout', 'The head of the request did not arrive in time.'))
    else if (socket.writableLength === 0) socket.destroy()
  }

  /**
   * Ends the connection because the request is invalid or did not come in time. Says so, unless the answer has begun.
   */
  #fail(error: GatewayError): void {
    const { client } = this
    const body = this.#body
    this.#body = undefined
    this.front.refused()
    const headSent = client?.headSent === true
    this.closing = true
    client?.lost()
    this.client = undefined
    body?.lose()
    if (headSent) return reset(this.socket)
    this.socket.write(rawRefusal(error))
    this.#retire()
  }

  /** Closes the connection for writing at once, and fully when the client has closed it too or had time to. */
  #retire(patienceMs = lingerMs): void {
    this.closing = this.#retired = true
    if (this.#backlog.length > 0) this.#backlog.take()
    if (this.#paused) this.socket.resume()
    this.socket.end()
    this.#wait(patienceMs)
  }

  /** The client has closed its side, which counts as leaving. */
  #ended(): void {
    if (this.#upgraded) return
    this.closing = true
    if (this.client?.headSent) return reset(this.socket)
    this.#lost()
    // It may still read what is left of an answer.
    this.#wait(lingerMs)
  }

  /** The socket has sent everything that was written. */
  #drained(): void {
    if (this.client) this.client.onDrain?.()
    else this.#schedule()
  }

  #lost(): void {
    const { client } = this
    const body = this.#body
    this.#body = this.client = undefined
    this.#limit = 0
    client?.lost()
    body?.lose()
  }
}

function readOn(connection: Http1Connection): void {
  connection.readOn()
}
