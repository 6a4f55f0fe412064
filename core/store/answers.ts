// Answers that are kept to be given again: the interface. What a client asked for twice is run and charged once.

/** An answer as the client got it. */
export interface KeptAnswer {
  /** Of what was asked: another one under the same id is another request. */
  readonly asked: Buffer
  readonly status: number
  /** Media type, with its parameters. */
  readonly type: string
  /** What else its head said of it, by names in small letters. */
  readonly headers: Readonly<Record<string, string>>
  /** It is a stream of events. */
  readonly streamed: boolean
  /** Undefined: it was too large to be kept, and that it was given is all that is known. */
  readonly body: Buffer | undefined
}

/** Answers by an id of 32 bytes that nobody else comes upon, such as a digest of whose it is and what they call it. */
export interface Answers {
  /**
   * What was kept under an id, unless it is too old or had to make room; undefined without any. What it gives is on
   * disk.
   * @throws GatewayError `billing_unavailable` while that cannot be said
   */
  find(id: Buffer): Promise<KeptAnswer | undefined>
  /**
   * Keeps an answer, in the same write as a settlement of the same turn of the loop; one that is there already is
   * replaced. Resolves when it is on disk.
   * `tenant`: of whose room it takes.
   */
  keep(id: Buffer, tenant: string, answer: KeptAnswer): Promise<void>
}
