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
