// The interface of the kept answers. A client that repeats a request gets the first answer again, and is charged once.

/** An answer as the client got it. */
export interface KeptAnswer {
  /** A digest of the request. A request with another digest under the same id is a different request. */
  readonly asked: Buffer
  readonly status: number
  /** The media type, with its parameters. */
  readonly type: string
  /** The other headers of the answer; their names are in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** Whether the answer was a stream of events. */
  readonly streamed: boolean
  /** Undefined when the body was too large to keep: then it is known only that the request was answered. */
  readonly body: Buffer | undefined
}

/**
 * Answers by an id of 32 bytes. The caller makes the id unguessable, for example as a digest of the owner and the
 * client's own name for the request.
 */
export interface Answers {
  /**
   * Returns the answer kept under an id; undefined when there is none, when it is too old, or when it was deleted to
   * make room. A returned answer is on disk.
   * @throws GatewayError `billing_unavailable` while the store cannot tell
   */
  find(id: Buffer): Promise<KeptAnswer | undefined>
  /**
   * Keeps an answer, which replaces one with the same id. Resolves when it is on disk. `tenant` is the tenant whose
   * share of the space it takes. `requestId`: the request that was answered. Nobody finds the answer before what that
   * request is charged in the same tick of the event loop is durable: it is in the same write, or comes after it.
   */
  put(id: Buffer, tenant: string, answer: KeptAnswer, requestId?: string): Promise<void>
}
