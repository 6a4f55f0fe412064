// The error for a request that is refused. Each protocol has its own envelope for it.

/** What an envelope shows besides the message, if the protocol has a place for it. */
export interface RefusalDetails {
  type?: string
  param?: string
  code?: string
  /** More members of the error. */
  more?: Readonly<Record<string, unknown>>
  /** Whether the envelope is put into a list, as the answer would have been. */
  listed?: boolean
}

/** Thrown while a request is read. The request is answered with its status. */
export class Refusal extends Error {
  readonly status: number
  readonly details: RefusalDetails

  constructor(status: number, message: string, details: RefusalDetails = {}) {
    super(message)
    this.status = status
    this.details = details
  }
}
