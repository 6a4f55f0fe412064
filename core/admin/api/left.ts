// Whether whoever asks is still there.
import type { Socket } from 'node:net'

const signals = new WeakMap<Socket, AbortSignal>()

/** The signal that is aborted when a connection has ended: the same for all that is asked on it. */
export function leftOf(socket: Socket): AbortSignal {
  let signal = signals.get(socket)
  if (signal) return signal
  const left = new AbortController()
  socket.once('close', () => left.abort())
  signals.set(socket, (signal = left.signal))
  return signal
}
