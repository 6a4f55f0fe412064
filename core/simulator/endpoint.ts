// What an endpoint of the simulator is, and what it is given.
import type { IncomingHttpHeaders } from 'node:http'
import type { Answer, Failure } from './answer.ts'
import type { Form } from './body.ts'
import type { RefusalDetails } from './refusal.ts'
import type { State } from './state.ts'

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
