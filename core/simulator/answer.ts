// What an endpoint of the simulator returns.
import type { Directive } from './directive.ts'
import type { Ending } from './ending.ts'
import type { RefusalDetails } from './refusal.ts'
import type { Counts } from './stats.ts'

/** An answer before it is delivered. */
export interface Answer {
  contentType: string
  /** Written one by one, each in one piece, and produced only as fast as the client reads. */
  frames: Iterator<string | Buffer>
  /** The bytes of all frames together. Undefined when they are not known: the body is then sent in chunks. */
  length: number | undefined
  directive: Directive
  /** What to add to the statistics when the answer is delivered completely. */
  counts: Counts | undefined
  /** The last frame when the stream breaks off; absent: the protocol's own. */
  failure?: Failure
  /** When the n-th frame may be written (`performance.now()`). It replaces the pauses of the directive. */
  dueAt?: (n: number) => number
  /** Called once, however the answer ends. */
  ended?: (ending: Ending) => void
  /** Details for the envelope, if a directive has the request refused. */
  refusal?: RefusalDetails
}

/**
 * Writes the last frame of a stream that breaks off with `cut: "error"`. `given`: the `error` of the directive, if any.
 */
export type Failure = (given: unknown) => string

/** Whether a directive has the request refused. The request must then have no effect. */
export function isRefused({ status = 200 }: Directive): boolean {
  return status >= 300
}

/** An answer with this body. */
export function bytesAnswer(contentType: string, body: Buffer, directive: Directive = {}, counts?: Counts): Answer {
  return { contentType, frames: [body].values(), length: body.length, directive, counts }
}

/** An answer with a whole JSON body. */
export function jsonAnswer(value: unknown, directive: Directive = {}, counts?: Counts): Answer {
  const body = JSON.stringify(value)
  return {
    contentType: 'application/json',
    frames: [body].values(),
    length: Buffer.byteLength(body),
    directive,
    counts
  }
}

/** A stream of events. Each frame is one event, as events.ts writes it. */
export function streamAnswer(frames: Iterator<string>, directive: Directive, counts: Counts): Answer {
  return { contentType: 'text/event-stream; charset=utf-8', frames, length: undefined, directive, counts }
}
