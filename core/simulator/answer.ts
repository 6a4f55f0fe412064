// What an endpoint of the simulator is given and gives back.
import type { IncomingHttpHeaders } from 'node:http'
import type { Form } from './body.ts'
import type { Ending } from './delivery.ts'
import type { Directive } from './directive.ts'
import type { RefusalDetails } from './refusal.ts'
import type { State } from './state.ts'
import type { Counts } from './stats.ts'

/** One request, read whole. */
export interface Call {
  /** Empty when it is a form. */
  body: Buffer
  form: Form | undefined
  /** What the braces of the endpoint's path stand for, decoded. */
  params: Readonly<Record<string, string>>
  query: URLSearchParams
  headers: IncomingHttpHeaders
  /** Where the client found the simulator, for addresses in answers: `http://127.0.0.1:9000`. */
  origin: string
  /** The request's `x-request-id`. */
  requestId: string | undefined
  state: State
  /** Model names that are served; undefined: any. */
  models: readonly string[] | undefined
}

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

/** The last frame of a stream that breaks off with `cut: "error"`; `given` is the directive's `error`, undefined when it has none. */
export type Failure = (given: unknown) => string

/** An operation of the simulator: one file each, listed in the protocol's own. */
export interface Endpoint {
  method: 'GET' | 'POST' | 'DELETE'
  /** `{name}` stands for one segment, `{name+}` for one or more, in which a slash is a slash. */
  path: string
  /** @throws Refusal */
  answer(call: Call): Answer
}

/** What is common to the endpoints of one vendor's API. */
export interface Protocol {
  endpoints: readonly Endpoint[]
  /** Whether a request is of this protocol, whether or not it has such an endpoint. */
  claims(path: string, headers: IncomingHttpHeaders, query: URLSearchParams): boolean
  /**
   * Whether a request carries this key where this protocol's clients put it.
   * @throws Refusal in the place of the usual 401
   */
  admits(key: string, headers: IncomingHttpHeaders, query: URLSearchParams): boolean
  /** Header fields of the simulator's n-th answer. */
  headers(n: number): Record<string, string>
  /** The body of a refusal, which is the simulator's n-th answer. */
  envelope(status: number, message: string, details: RefusalDetails, n: number): unknown
  failure: Failure
}

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
  return { contentType: 'application/json', frames: [body].values(), length: Buffer.byteLength(body), directive, counts }
}

/** A stream of events, each a frame of {@link import('./events.ts')}. */
export function streamAnswer(frames: Iterator<string>, directive: Directive, counts: Counts): Answer {
  return { contentType: 'text/event-stream; charset=utf-8', frames, length: undefined, directive, counts }
}
