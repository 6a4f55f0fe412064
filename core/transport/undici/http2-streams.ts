// Repairs two faults of undici and Node with HTTP/2 streams: a reset stream can look complete, and a stream that is
// given up is not always reset.
import { subscribe } from 'node:diagnostics_channel'
import type { ClientHttp2Stream } from 'node:http2'
import { errorCodes } from '../../wire/http2.ts'

/** The call on a stream, which must know how the stream ends. */
export interface StreamOwner {
  /** Called once, when END_STREAM has come. A later end of the stream is a complete one only after this call. */
  whole(): void
}

let opening: StreamOwner | undefined

/**
 * Assigns the next stream that is opened to `owner`. Undici opens the stream in the same turn of the event loop in
 * which it tells the call that the request starts.
 */
export function ownNextStream(owner: StreamOwner): void {
  opening = owner
}

subscribe('http2.client.stream.created', (message) => {
  const owner = opening
  opening = undefined
  if (owner) mend((message as { stream: ClientHttp2Stream }).stream, owner)
})

function mend(stream: ClientHttp2Stream, owner: StreamOwner): void {
  const { push, close } = stream
  // Node pushes null in two cases: END_STREAM has come, or the stream was closed. In the second case, undici would take
  // a reset with NO_ERROR or CANCEL for a complete answer. Only in the first case the stream is not closed yet.
  const pushed: typeof push = (chunk, encoding) => {
    if (chunk === null && !stream.closed) owner.whole()
    return push.call(stream, chunk, encoding)
  }
  stream.push = pushed
  // Undici gives up with NO_ERROR, which Node sends only after the whole request, and destroys the stream before that.
  // Then no reset is ever sent, and Node sends empty frames for ever and without a pause.
  const closed: typeof close = (code = errorCodes.cancel, done) => close.call(stream, code, done)
  stream.close = closed
}
