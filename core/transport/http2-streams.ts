// Streams of HTTP/2 beneath undici: whether one ended as it should, and that one which is given up is reset. Undici and
// Node see to neither.
import { subscribe } from 'node:diagnostics_channel'
import { constants } from 'node:http2'
import type { ClientHttp2Stream } from 'node:http2'

/** Who wants to know how a stream ends. */
export interface StreamOwner {
  /** Called once, when END_STREAM has come. What is told of the stream's end later is true only then. */
  whole(): void
}

let opening: StreamOwner | undefined

/** The stream that is opened next is this one's: undici tells what it begins with, and opens it in the same turn. */
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
  // Node ends what is read in two cases: END_STREAM has come, or the stream is closed, and then undici takes what was
  // reset with NO_ERROR or CANCEL for whole. Only in the first the stream is not closed yet.
  stream.push = (chunk, encoding) => {
    if (chunk === null && !stream.closed) owner.whole()
    return push.call(stream, chunk, encoding)
  }
  // Undici gives up with NO_ERROR, which Node says only after all of the request is sent, and destroys the stream
  // before. It is never said then, and Node sends empty frames of a body that is not there any more, for ever and
  // without a pause.
  stream.close = (code = constants.NGHTTP2_CANCEL, done) => close.call(stream, code, done)
}
