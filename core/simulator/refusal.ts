// A request that is refused, in the error envelope of an OpenAI-compatible upstream.

/** What goes into the envelope beside the message; absent members are null on the wire. */
export interface RefusalDetails {
  type?: string
  param?: string
  code?: string
}

/** Thrown while a request is read; answered with its status. */
export class Refusal extends Error {
  readonly status: number
  readonly details: RefusalDetails

  constructor(status: number, message: string, details: RefusalDetails = {}) {
    super(message)
    this.status = status
    this.details = details
  }
}

/** `{"error": {message, type, param, code}}`, all four always there. */
export function errorEnvelope(message: string, { type = 'invalid_request_error', param, code }: RefusalDetails = {}): unknown {
  return { error: { message, type, param: param ?? null, code: code ?? null } }
}
