// The bytes of request bodies, in any version of HTTP.

/** Takes a body as it arrives. Nothing is called after `end` or `lost`. */
export interface BodySink {
  /** The bytes are valid during the call only. */
  data(chunk: Buffer): void
  /** Memory for a large part of the bytes that follow, which the source may fill before it calls `data` with them. */
  readonly room?: Buffer | undefined
  end(): void
  /** The connection broke, or the request was given up, before the end of the body. */
  lost(): void
}

/** A body that is arriving. Nothing is read until a sink is given; what waits until then is bounded. */
export interface BodySource {
  /** Sends the whole body to `sink`, which may be called before this returns. */
  receive(sink: BodySink): void
  /** Stops reading; at most one more chunk reaches the sink. */
  pause(): void
  resume(): void
  /**
   * Ends the calls to the sink. What still arrives is held back; the server drains or cuts it when the answer is over.
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
