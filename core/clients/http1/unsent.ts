// How much of what was written to a client is still to be sent.
import type { Socket } from 'node:net'

/** What libuv has of a socket; under TLS `_parent` is that of the connection itself. Node does not document either. */
interface Handle {
  readonly writeQueueSize?: number
  readonly _parent?: Handle
}

/**
 * Returns a number that changes with everything that the kernel takes, and is 0 when that is all. Of one large write
 * that goes on only the handle tells, at which Node's own timeouts look too.
 */
export function unsentOf(socket: Socket): number {
  const { writableLength } = socket
  if (writableLength === 0) return 0
  const { _handle: handle } = socket as { _handle?: Handle | null }
  return writableLength + ((handle?._parent ?? handle)?.writeQueueSize ?? 0)
}
