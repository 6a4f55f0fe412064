// What an endpoint of the simulator is given and gives back.
import type { Directive } from './directive.ts'

/** One request, read whole. */
export interface Call {
  body: Buffer
  /** What stands behind the endpoint's path; empty when nothing may. */
  argument: string
  /** Model names that are served; undefined: any. */
  models: readonly string[] | undefined
}

/** Tokens that an answer is worth when it is delivered whole. */
export interface Tokens {
  prompt: number
  cached: number
  completion: number
}

/** An answer before it is delivered. */
export interface Answer {
  contentType: string
  /** Written one by one, each in one piece. Pulled only as fast as the client reads. */
  frames: Iterator<string>
  /** Bytes of all frames together; undefined: not known, the body is sent in chunks. */
  length: number | undefined
  directive: Directive
  tokens: Tokens | undefined
}

/** An operation of the simulator: one file each, listed in `simulator.ts`. */
export interface Endpoint {
  method: 'GET' | 'POST'
  /** Ends in a slash when an argument follows. */
  path: string
  /** @throws Refusal */
  answer(call: Call): Answer
}

/** A whole JSON body. */
export function jsonAnswer(value: unknown, directive: Directive = {}, tokens?: Tokens): Answer {
  const body = JSON.stringify(value)
  return { contentType: 'application/json', frames: [body].values(), length: Buffer.byteLength(body), directive, tokens }
}
