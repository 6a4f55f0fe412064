// What an endpoint of the simulator gives back.
import type { Directive } from './directive.ts'
import type { Ending } from './ending.ts'
import type { RefusalDetails } from './refusal.ts'
import type { Counts } from './stats.ts'

/** An answer before it is delivered. */
export interface Answer {
  contentType: string
  /** Written one by one, each in one piece. Pulled only as fast as the client reads. */
  frames: Iterator<string | Buffer>
  /** Bytes of all frames together; undefined: not known, the body is sent in chunks. */
  length: number | undefined
  directive: Directive
  /** What it is worth when it is delivered whole. */
  counts: Counts | undefined
  /** The protocol's own is used when this is not there. */
  failure?: Failure
  /** When the n-th frame may be written, by `performance.now()`; it takes the place of the directive's pauses. */
  dueAt?: (n: number) => number
  /** Called once, when the answer is over in whichever way. */
  ended?: (ending: Ending) => void
  /** What the envelope needs to know when a directive has the request refused. */
  refusal?: RefusalDetails
}

/**
 * The last frame of a stream that breaks off with `cut: "error"`; `given` is the directive's `error`, undefined when it
 * has none.
 */
export type Failure = (given: unknown) => string

/** Whether a directive has a request refused: it must then have no effect. */
export function isRefused({ status = 200 }: Directive): boolean {
  return status >= 300
}

/** A body that is there. */
export function bytesAnswer(contentType: string, body: Buffer, directive: Directive = {}, counts?: Counts): Answer {
  return { contentType, frames: [body].values(), length: body.length, directive, counts }
}

/** A whole JSON body. */
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

/** A stream of events, each a frame of {@link import('./events.ts')}. */
export function streamAnswer(frames: Iterator<string>, directive: Directive, counts: Counts): Answer {
  return { contentType: 'text/event-stream; charset=utf-8', frames, length: undefined, directive, counts }
}
