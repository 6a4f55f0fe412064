// What an endpoint of the simulator is, and what it gets.
import type { IncomingHttpHeaders } from 'node:http'
import type { Answer, Failure } from './answer.ts'
import type { Form } from './body.ts'
import type { RefusalDetails } from './refusal.ts'
import type { State } from './state.ts'

/** One request with its whole body. */
export interface Call {
  /** Empty when the body is a form. */
  body: Buffer
  form: Form | undefined
  /** The values of the parameters in the endpoint's path, decoded. */
  params: Readonly<Record<string, string>>
  query: URLSearchParams
  headers: IncomingHttpHeaders
  /**
   * The origin under which the client reached the simulator, for addresses in answers, such as `http://127.0.0.1:9000`.
   */
  origin: string
  /** The request's `x-request-id`. */
  requestId: string | undefined
  state: State
  /** The names of the models that are served; undefined: any name. */
  models: readonly string[] | undefined
}

/** An operation of the simulator. The protocol's own file lists its endpoints. */
export interface Endpoint {
  method: 'GET' | 'POST' | 'DELETE'
  /** `{name}` matches one segment, `{name+}` one or more, slashes included. */
  path: string
  /** @throws Refusal */
  answer(call: Call): Answer
}

/** What the endpoints of one vendor's API share. */
export interface Protocol {
  endpoints: readonly Endpoint[]
  /** Whether a request is of this protocol, even when it has no such endpoint. */
  claims(path: string, headers: IncomingHttpHeaders, query: URLSearchParams): boolean
  /**
   * Whether a request carries this key, in the place where this protocol's clients put it.
   * @throws Refusal to replace the usual 401
   */
  admits(key: string, headers: IncomingHttpHeaders, query: URLSearchParams): boolean
  /** Header fields of the simulator's n-th answer. */
  headers(n: number): Record<string, string>
  /** The body of a refusal. `n`: as for {@link headers}. */
  envelope(status: number, message: string, details: RefusalDetails, n: number): unknown
  failure: Failure
}
