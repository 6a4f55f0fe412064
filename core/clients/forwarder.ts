// Passes on what still comes on open connections to the process that has taken the place of this one.
import type { ClientHttp2Session, IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { endStream, errorCodes, http2 } from '../wire/http2.ts'
import { reset } from './http1/reset.ts'

/** How long a client may take to close its side of a connection after an answer. */
const lingerMs = 5000

/** Connections to the other process begin with the address of the client, and a line break. */
export class Forwarder {
  readonly #path: string
  /** Sessions to the other process, one for each of a client: what goes over one has the address of one client. */
  readonly #sessions = new WeakMap<object, ClientHttp2Session>()
  #open = 0
  #onIdle: () => void = () => {}

  /** `path`: of the socket on which the other process listens. */
  constructor(path: string) {
    this.#path = path
  }

  /** Requests that were passed on and whose answers are not over. */
  get open(): number {
    return this.#open
  }

  /** Resolves when there are none. */
  idle(): Promise<void> {
    return this.#open === 0 ? Promise.resolve() : new Promise((resolve) => (this.#onIdle = resolve))
  }

  /**
   * Connects an idle connection to the other process, which answers what comes on it. `first` are bytes that were read
   * from it already; `over` is called when the answer is.
   */
  connection(socket: Socket, remoteAddress: string, first: Buffer, over: () => void): void {
    const far = this.#connect(remoteAddress)
    far.write(first)
    const end = this.#begin(over)
    socket.pipe(far).pipe(socket, { end: false })
    // The other process ends an answer by closing its side for writing. When it has closed both sides, the answer was
    // cut, and whoever writes to it is told so.
    far.on('end', () =>
      far.write('\n', (error) => {
        if (error) return reset(socket)
        end()
        // What the client still sends would be answered with a reset, which takes away what it has not read.
        socket.end(() => setTimeout(() => socket.destroy(), lingerMs).unref())
      })
    )
    far.on('error', () => reset(socket))
    socket.on('close', () => {
      end()
      far.destroy()
    })
  }

  /**
   * Sends a request on a stream to the other process, and its answer back. `owner`: the connection of the client;
   * `over` is called when the answer is.
   */
  stream(
    owner: Socket,
    remoteAddress: string,
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    over: () => void
  ): void {
    const session = this.#session(owner, remoteAddress)
    stream.once('close', this.#begin(over))
    if (headers[':protocol'] === undefined) return forward(session, stream, headers)
    // Only the settings of the other side allow what opens a WebSocket (RFC 8441 §3).
    if (session.remoteSettings.enableConnectProtocol) return forward(session, stream, headers)
    session.once('remoteSettings', () => forward(session, stream, headers))
    session.once('close', () => stream.close(errorCodes.internalError))
  }

  #session(owner: Socket, remoteAddress: string): ClientHttp2Session {
    const open = this.#sessions.get(owner)
    if (open && !open.closed && !open.destroyed) return open
    const session = http2().connect('http://localhost', { createConnection: () => this.#connect(remoteAddress) })
    // Its streams tell of the same errors.
    session.on('error', () => {})
    owner.once('close', () => session.close())
    this.#sessions.set(owner, session)
    return session
  }

  /** Counts a request; the function that is returned counts its end, once. */
  #begin(over: () => void): () => void {
    this.#open++
    let ended = false
    return () => {
      if (ended) return
      ended = true
      over()
      if (--this.#open === 0) this.#onIdle()
    }
  }

  #connect(remoteAddress: string): Socket {
    const far = connect({ path: this.#path, allowHalfOpen: true })
    // It closes then, and whoever waits for it hears of that.
    far.on('error', () => {})
    far.write(`${remoteAddress}\n`)
    return far
  }
}

function forward(session: ClientHttp2Session, stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
  if (stream.destroyed) return
  const request = session.request(headers, { endStream: stream.endAfterHeaders })
  request.on('error', () => {})
  request.on('response', (answer, flags) => {
    if (stream.destroyed) return
    const isWhole = (flags & endStream) !== 0
    stream.respond(answer, { endStream: isWhole })
    if (!isWhole) request.pipe(stream)
  })
  if (!stream.endAfterHeaders) stream.pipe(request)
  request.on('close', () => {
    const { rstCode } = request
    if (stream.closed) return
    if (rstCode !== errorCodes.noError) {
      if (stream.headersSent) return cut(stream)
      // Most clients take CANCEL for their own doing, and here it is that the other process is gone.
      return stream.close(rstCode === errorCodes.cancel ? errorCodes.internalError : rstCode)
    }
    // The other process has waited for the rest of a request that it answered early.
    stream.unpipe(request)
    stream.resume()
    if (stream.readableEnded) return
    const close = (): void => stream.close(errorCodes.noError)
    if (stream.writableFinished) close()
    else stream.once('finish', close)
  })
  stream.on('close', () => {
    if (!request.closed) request.close(errorCodes.cancel)
  })
}

/** Ends an answer that is not complete, after what was written of it if its client takes that. */
function cut(stream: ServerHttp2Stream): void {
  // close() would first end the stream, so that the client would get END_STREAM and see a complete answer.
  const destroy = (): void => void stream.destroy(new Error('the answer was cut'))
  if (stream.writableLength === 0) return destroy()
  stream.write(Buffer.alloc(0), destroy)
  stream.setTimeout(lingerMs, destroy)
}
