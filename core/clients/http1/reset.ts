// The end of a connection whose answer is not complete.
import type { Socket } from 'node:net'

/**
 * Closes a connection so that an answer on it cannot look complete. TLS connections cannot be reset, nor can those of
 * another process, which have no address, and neither can one whose end was sent.
 */
export function reset(socket: Socket): void {
  const ended = socket.writableEnded && socket.writableLength === 0
  if ('encrypted' in socket || socket.remoteAddress === undefined || ended) socket.destroy()
  else socket.resetAndDestroy()
}
