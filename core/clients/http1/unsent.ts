// How much of what was written to a client is still to be sent.
import type { Socket } from 'node:net'

/**
 * Returns a number that changes with everything that the kernel takes, and is 0 when that is all. Of one large write
 * that goes on only the handle tells: Node's own timeouts look at it too, but it is not documented.
 */
export function unsentOf(socket: Socket): number {
  const { writableLength } = socket
  if (writableLength === 0) return 0
  const { _handle: handle } = socket as { _handle?: { writeQueueSize?: number } | null }
  return writableLength + (handle?.writeQueueSize ?? 0)
}
