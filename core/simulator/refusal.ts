// A request that is refused. Each protocol has its own envelope for it.

/** What an envelope may say beside the message, where the protocol has a place for it. */
export interface RefusalDetails {
  type?: string
  param?: string
  code?: string
  /** More members for the error, in protocols that have some. */
  more?: Readonly<Record<string, unknown>>
  /** The answer would have been a list, and so is the refusal. */
  listed?: boolean
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
