// What the core asks of a protocol that is spoken in frames, in sessions of realtime.
import type { Payload, ReportedUsage, ShownError } from './payload.ts'

/**
 * What a frame of a client is about, as far as the gateway goes by it. `response`: asks for a response. `model`: sets
 * the model of the session. Either may name a `model`, which has to be that of the session. `invalid`: could be read as
 * something else than it is, and must not be passed on; `reason` says why.
 */
export type ClientFrame =
  | { readonly kind: 'other' }
  | {
      readonly kind: 'response'
      readonly event: string | undefined
      readonly maxOutput: number | undefined
      readonly model: string | undefined
    }
  | { readonly kind: 'model'; readonly event: string | undefined; readonly model: string }
  | { readonly kind: 'invalid'; readonly event: string | undefined; readonly reason: string }

/**
 * What a frame of an upstream tells. `began` and `ended`: of a response. `heard`: something else that is charged by
 * itself, such as the transcript of what was said. `error`: an event of the client (`event`, when it is named) had no
 * effect. `failed`: something else went wrong. `session`: shows the settings, the model among them. `invalid`: could be
 * read in several ways, and must not be passed on.
 */
export type UpstreamFrame =
  | { readonly kind: 'other' }
  | { readonly kind: 'began'; readonly id: string }
  | { readonly kind: 'ended' | 'heard'; readonly id: string; readonly usage: ReportedUsage }
  | { readonly kind: 'error'; readonly event: string | undefined }
  | { readonly kind: 'session' | 'failed' | 'invalid' }

/** Follows the frames of one session, as they are exchanged with the upstream. */
export interface FrameWatch {
  client(frame: Payload): ClientFrame
  upstream(frame: Payload): UpstreamFrame
  /** Tokens that the next response may read: at most, and by a fair guess. */
  readonly input: { readonly worst: number; readonly typical: number }
  /** The session's own limit of the output of one response; undefined when it has none. */
  readonly maxOutput: number | undefined
  /** Tokens of output that have come since the latest response began, by a fair guess. */
  readonly output: number
}

/** What is spoken in sessions. */
export interface FrameProtocol {
  /** Members of frames that are objects and are looked into. */
  readonly looksInto: readonly string[]
  watch(): FrameWatch
  /** A client's frame with another name for the model that it names; undefined when there is none in it. */
  withModel(frame: Payload, model: string): Buffer | undefined
  /**
   * An upstream's frame of the kind `session` as its client may see it: without keys of the upstream's own, and with
   * another name for the model where one is given; undefined when it may be seen as it is.
   */
  shown(frame: Payload, model: string | undefined): Buffer | undefined
  /** Tells a client of an error. `event`: its own that was refused, when it has a name. */
  error(error: ShownError, event?: string): string
  /** Gives a session these settings, which are JSON. */
  configure(settings: string): string
  /** Asks an upstream to end a response. */
  cancel(id: string): string
}
