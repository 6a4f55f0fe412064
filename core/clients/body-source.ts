// Where the bytes of a request body come from, whatever HTTP carries them.

/** Takes a body as it arrives. After `end` or `lost` it hears no more. */
export interface BodySink {
  /** The bytes are valid during the call only. */
  data(chunk: Buffer): void
  /**
   * Where a large part of what follows may be put instead, before it is given to `data`. The source may do so or not.
   */
  readonly room?: Buffer | undefined
  end(): void
  /** The connection broke, or the request was given up, before the end. */
  lost(): void
}

/** A body on its way. Nothing of it is read until somebody takes it; what waits is bounded. */
export interface BodySource {
  /** From now on all of it goes to `sink`, which may be called before this returns. */
  receive(sink: BodySink): void
  /** Holds back what is not read yet; at most one chunk still comes. */
  pause(): void
  resume(): void
  /**
   * The sink hears no more. What still comes is held back, and the server's to drain or cut when the answer is over.
   */
  abandon(): void
}

/** The body of a request that has none. */
export const noBody: BodySource = {
  receive: (sink) => sink.end(),
  pause: () => {},
  resume: () => {},
  abandon: () => {}
}
