// Answers that come in pieces: event streams, exports. Each is written by its route, and ended with the listener.
import type { ServerResponse } from 'node:http'
import type { Flow } from './api/contract.ts'

/** Why a flow has to end before its route has written all of it. */
export type FlowEnd = 'gone' | 'stopping' | 'signed_out'

/** How long a route may take to write its last words, in milliseconds. */
const lastWordsMs = 1000

/** The flows of one listener. */
export class Flows {
  readonly #running = new Map<AbortController, Promise<void>>()

  /**
   * Lets a route write its answer, whose head is sent. Resolves when the answer has ended: cleanly when the route was
   * done, also with its last words when it was told to end; else by resetting the connection, so that nobody takes a
   * part for the whole, not even where a body ends with its connection. Rejects with what the route threw.
   */
  async run(response: ServerResponse, flow: Flow): Promise<void> {
    const ending = new AbortController()
    const left = (): void => ending.abort('gone' satisfies FlowEnd)
    response.once('close', left)
    // What is written to a connection that broke is an error of the response, and no more than its end.
    response.on('error', left)
    if (response.destroyed) left()
    const running = flow(response, ending.signal)
    this.#running.set(ending, running)
    try {
      await running
      response.end()
    } catch (error) {
      // A proxy that speaks HTTP/1.0 to us would take a connection that is closed for the end of the body.
      response.socket?.resetAndDestroy()
      response.destroy()
      if (!ending.signal.aborted) throw error
    } finally {
      this.#running.delete(ending)
    }
  }

  /** Tells all flows to end, and resolves when they did, or after a second. */
  async end(why: FlowEnd): Promise<void> {
    const all = [...this.#running]
    for (const [ending] of all) ending.abort(why)
    const timeout = AbortSignal.timeout(lastWordsMs)
    const late = new Promise<void>((resolve) => timeout.addEventListener('abort', () => resolve(), { once: true }))
    await Promise.race([Promise.allSettled(all.map(([, running]) => running)), late])
  }
}
