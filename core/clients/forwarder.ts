// Passes on what still comes on open connections to the process that has taken the place of this one.
import { connect as connectHttp2, constants } from 'node:http2'
import type { ClientHttp2Session, IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2'
import { connect } from 'node:net'
import type { Socket } from 'node:net'

/** Connections to the other process begin with the address of the client, and a line break. */
export class Forwarder {
  readonly #path: string
  /** Sessions to the other process, one for each of a client: what goes over one has the address of one client. */
  readonly #sessions = new WeakMap<object, ClientHttp2Session>()

  /** `path`: of the socket on which the other process listens. */
  constructor(path: string) {
    this.#path = path
  }

  /**
   * Connects an idle connection to the other process, which answers what comes on it. `first` are bytes that were read
   * from it already.
   */
  connection(socket: Socket, remoteAddress: string, first: Buffer): void {
    const far = this.#connect(remoteAddress)
    far.write(first)
    far.on('close', () => socket.destroySoon())
    socket.on('close', () => far.destroy())
    socket.pipe(far).pipe(socket)
  }

  /** Sends a request on a stream to the other process, and its answer back. `owner`: the session of the client. */
  stream(owner: Socket, remoteAddress: string, stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    const session = this.#session(owner, remoteAddress)
    if (headers[':protocol'] === undefined) return forward(session, stream, headers)
    // Only the settings of the other side allow what opens a WebSocket (RFC 8441 §3).
    if (session.remoteSettings.enableConnectProtocol) return forward(session, stream, headers)
    session.once('remoteSettings', () => forward(session, stream, headers))
  }

  #session(owner: Socket, remoteAddress: string): ClientHttp2Session {
    const open = this.#sessions.get(owner)
    if (open && !open.closed && !open.destroyed) return open
    const session = connectHttp2('http://localhost', { createConnection: () => this.#connect(remoteAddress) })
    // Its streams tell of the same errors.
    session.on('error', () => {})
    owner.once('close', () => session.close())
    this.#sessions.set(owner, session)
    return session
  }

  #connect(remoteAddress: string): Socket {
    const far = connect({ path: this.#path })
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
    const isWhole = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0
    stream.respond(answer, { endStream: isWhole })
    if (!isWhole) request.pipe(stream)
  })
  if (!stream.endAfterHeaders) stream.pipe(request)
  request.on('close', () => {
    const { rstCode } = request
    if (rstCode !== constants.NGHTTP2_NO_ERROR && !stream.closed) stream.close(rstCode)
  })
  stream.on('close', () => {
    if (!request.closed) request.close(constants.NGHTTP2_CANCEL)
  })
}
