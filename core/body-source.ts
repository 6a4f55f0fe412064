// Where the bytes of a request body come from, whatever HTTP carries them.

/** Takes a body as it arrives. After `end` or `lost` it hears no more. */
export interface BodySink {
  /** The bytes are the sink's own, unless it returns true: it has copied them, and their memory is the source's again. */
  data(chunk: Buffer): boolean | void
  end(): void
  /** The connection broke, or the request was given up, before the end. */
  lost(): void
}

/** A body on its way. Nothing of it is read until somebody takes it; what waits is bounded. */
export interface BodySource {
  /** From now on all of it goes to `sink`, which may be called before this returns. */
  receive(sink: BodySink): void
  /** The sink hears no more. What still comes is held back, and the server's to drain or cut when the answer is over. */
  abandon(): void
}

/** The body of a request that has none. */
export const noBody: BodySource = {
  receive: (sink) => sink.end(),
  abandon: () => {}
}
