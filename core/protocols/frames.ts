// What the core needs of a protocol that is spoken in frames, in realtime sessions.
import type { Payload, ReportedUsage, ShownError } from './payload.ts'

/**
 * What a client's frame does, as far as the gateway has to know. `response`: it asks for a response. `model`: it sets
 * the session's model. A `model` in either has to be the session's. `invalid`: it could be understood in several ways
 * and must not be passed on; `reason` says why.
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
 * What an upstream's frame reports. `began`, `ended`: a response did. `heard`: something else with its own charge, such
 * as a transcript of the client's speech. `error`: a client's event, named by `event` if it has an id, had no effect.
 * `failed`: something else went wrong. `session`: it shows the settings, with the model. `invalid`: it could be
 * understood in several ways and must not be passed on.
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
  /** How many tokens the next response may read: at most, and probably. */
  readonly input: { readonly worst: number; readonly typical: number }
  /** The session's limit on the output tokens of a response; undefined when it has none. */
  readonly maxOutput: number | undefined
  /** An estimate of the output tokens since the latest response began. */
  readonly output: number
}

/** A protocol of realtime sessions. */
export interface FrameProtocol {
  /** Members of frames that are objects whose contents are checked, too. */
  readonly looksInto: readonly string[]
  watch(): FrameWatch
  /** A client's frame with its model renamed; undefined when it names none. */
  withModel(frame: Payload, model: string): Buffer | undefined
  /**
   * An upstream's frame of the kind `session` as its client may see it: without the upstream's keys, and with the model
   * renamed if one is given. Undefined when it can be passed on unchanged.
   */
  shown(frame: Payload, model: string | undefined): Buffer | undefined
  /**
   * A frame that reports an error to the client. `event`: the id of the client's event that was refused, if it has one.
   */
  error(error: ShownError, event?: string): string
  /** A frame that changes the session's settings. `settings`: JSON text. */
  configure(settings: string): string
  /** A frame that asks the upstream to end a response. */
  cancel(id: string): string
}
