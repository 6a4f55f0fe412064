// HTTP/2 clients that use Node's own API.
import { connect } from 'node:http2'
import type {
  ClientHttp2Session,
  ClientHttp2Stream,
  ClientSessionOptions,
  IncomingHttpHeaders,
  OutgoingHttpHeaders,
  SecureClientSessionOptions
} from 'node:http2'
import type { Test } from 'tap'

/** An answer that ended properly. */
export interface Http2Reply {
  headers: IncomingHttpHeaders
  body: Buffer
  text: string
  json(): any
}

/**
 * Connects. The session is closed when the test is over. Its errors are ignored, because they also show on its streams.
 */
export function openSession(
  t: Test,
  url: string,
  options: ClientSessionOptions | SecureClientSessionOptions = {}
): ClientHttp2Session {
  const session = connect(url, options)
  session.on('error', () => {})
  t.teardown(() => session.destroy())
  return session
}

/**
 * The sessions of a client that never waits for one: when each has as many requests as the server takes at a time,
 * another is opened, as Go's client and gRPC's do. Node's own keeps what waits in memory, and above ten megabytes of
 * that (some 9,400 requests) it resets the answers of its session with ENHANCE_YOUR_CALM, though they were served.
 */
export class Http2Pool {
  readonly #url: string | URL
  readonly #options: SecureClientSessionOptions
  /** The requests that each has under way. */
  readonly #sessions = new Map<ClientHttp2Session, number>()

  constructor(url: string | URL, options: SecureClientSessionOptions = {}) {
    this.#url = url
    this.#options = options
  }

  /** How many there are. */
  get size(): number {
    return this.#sessions.size
  }

  /** One with room for a request, to be given back behind the answer. Errors of sessions show on their streams. */
  take(): ClientHttp2Session {
    const found = [...this.#sessions].find(([session, running]) => !session.closed && running < mostOf(session))
    const session = found?.[0] ?? this.#open()
    this.#sessions.set(session, (found?.[1] ?? 0) + 1)
    return session
  }

  give(session: ClientHttp2Session): void {
    const running = this.#sessions.get(session)
    if (running !== undefined) this.#sessions.set(session, running - 1)
  }

  /** Ends them when what is under way is answered. */
  close(): void {
    for (const session of this.#sessions.keys()) session.close()
  }

  #open(): ClientHttp2Session {
    const session = connect(this.#url, this.#options)
    const leave = (): void => void this.#sessions.delete(session)
    session.on('error', () => {})
    session.on('goaway', leave)
    session.on('close', leave)
    return session
  }
}

/** How many requests of a session the server takes at a time: a hundred until it says so, and where it takes more. */
function mostOf({ remoteSettings }: ClientHttp2Session): number {
  return Math.min(remoteSettings.maxConcurrentStreams ?? 100, 100)
}

/** Sends one request on a session; rejects when its stream is reset. */
export function askHttp2(
  session: ClientHttp2Session,
  headers: OutgoingHttpHeaders,
  body?: string | Buffer
): Promise<Http2Reply> {
  const stream = session.request(headers, { endStream: body === undefined })
  if (body !== undefined) stream.end(body)
  return readHttp2(stream)
}

/**
 * The answer on a stream; rejects when the stream is reset. The iterator of a stream is not used: on a busy machine and
 * under TLS, Node's may throw ERR_STREAM_PREMATURE_CLOSE after the whole of an answer.
 */
export function readHttp2(stream: ClientHttp2Stream): Promise<Http2Reply> {
  return new Promise((resolve, reject) => {
    let headers: IncomingHttpHeaders | undefined
    const chunks: Buffer[] = []
    stream.once('response', (received) => (headers = received))
    stream.on('data', (chunk: Buffer) => void chunks.push(chunk))
    stream.once('error', reject)
    stream.once('end', () => {
      if (!headers || stream.rstCode !== 0) return
      const body = Buffer.concat(chunks)
      const text = body.toString()
      resolve({ headers, body, text, json: () => JSON.parse(text) as unknown })
    })
    // Without an error where the code is CANCEL.
    stream.once('close', () => {
      reject(new Error(`the stream was reset with code ${stream.rstCode} ${headers ? 'after' : 'before'} its head`))
    })
  })
}
