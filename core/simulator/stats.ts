// What the simulator knows to be true about the traffic it saw, to be held against what a gateway recorded.
import type { Tokens } from './answer.ts'
import type { Ending } from './delivery.ts'

/** Answers that are remembered by request id. */
const remembered = 10_000

/** Counts since the start. */
export class Stats {
  /** Requests whose body arrived whole. */
  requests = 0
  refused = 0
  completed = 0
  cut = 0
  aborted = 0
  /** Answers being written, and sockets open, now. */
  active = 0
  connections = 0
  /** Of completed answers. */
  readonly tokens: Tokens = { prompt: 0, cached: 0, completion: 0 }
  /** Tokens of completed answers by the request's `x-request-id`, the newest 10,000. */
  readonly byRequest = new Map<string, Tokens>()

  /** An answer is over. */
  ended(ending: Ending, tokens: Tokens | undefined, requestId: string | undefined): void {
    this.active--
    this[ending]++
    if (ending !== 'completed' || !tokens) return
    this.tokens.prompt += tokens.prompt
    this.tokens.cached += tokens.cached
    this.tokens.completion += tokens.completion
    if (requestId === undefined) return
    if (this.byRequest.size >= remembered) this.byRequest.delete(this.byRequest.keys().next().value!)
    this.byRequest.set(requestId, tokens)
  }

  toJSON(): unknown {
    return { ...this, byRequest: Object.fromEntries(this.byRequest) }
  }
}
