// Reads what a server of a test is sent.
import type { IncomingMessage } from 'node:http'
import { buffer } from 'node:stream/consumers'

/** The whole body; undefined when the client has left before its end, as a gateway does that waits no longer. */
export async function received(request: IncomingMessage): Promise<Buffer | undefined> {
  try {
    return await buffer(request)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ECONNRESET') return undefined
    throw error
  }
}
