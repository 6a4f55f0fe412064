// The port of a thread as the port of a line.
import { deserialize, serialize } from 'node:v8'
import type { MessagePort } from 'node:worker_threads'
import type { Port } from './line.ts'

/**
 * Messages are what they are between processes: a Buffer stays one. It keeps no event loop running. `disconnect` comes
 * behind all messages of the other side, also when its thread was ended.
 */
export function threadPort(port: MessagePort): Port {
  return {
    send(message, sent) {
      port.postMessage(serialize(message))
      sent(null)
    },
    on(event: 'message' | 'disconnect', take: (message?: unknown) => void) {
      if (event === 'disconnect') return port.on('close', () => take())
      port.on('message', (bytes: Uint8Array) => take(deserialize(bytes)))
      return port.unref()
    },
    disconnect: () => port.close()
  }
}
