// One response of a session, from the moment it is asked for to its end: what is limited and charged there.
import type { ReportedUsage } from '../protocols/index.ts'
import type { MeteredUsage } from './slots.ts'

/**
 * A part of an exchange that is charged by itself. Most are responses that the client asks for; an upstream also begins
 * some of its own accord, and charges for other things than responses.
 */
export interface Turn {
  /** Unique within its exchange. */
  readonly part: string
  /**
   * Nothing has been sent yet: a {@link GatewayError} that `onTurn` throws refuses it. False: it has begun already, and
   * such an error only asks the upstream to end it, and is shown to all plugins all the same: whatever it consumes is
   * to be charged.
   */
  readonly asked: boolean
  /** Tokens that it may read: at most, and by a fair guess. */
  readonly input: { readonly worst: number; readonly typical: number }
  /** The limit that the client gave its output; undefined without one. */
  readonly maxOutput: number | undefined
  /** The upstream has begun it. */
  readonly begun: boolean
  /** What the upstream says that it consumed; undefined before it ended, and when nothing was said. */
  readonly reported: ReportedUsage
  /** Tokens of output that have come, by a fair guess. */
  readonly output: number
  /** It came to its end, and the session goes on or may go on. */
  readonly ended: boolean
  /** It was sent to the upstream, and its client left before it ended, or the session ended on the client's account. */
  readonly abandoned: boolean
  /**
   * What it consumed: filled by `usage-meter` in its release, before those of plugins above; undefined when it never
   * began.
   */
  usage: MeteredUsage | undefined
  /**
   * Keeps the first that is heard of it back until the promise resolves; rejecting it ends the session. Sending does
   * not wait.
   */
  showAfter(durable: Promise<void>): void
  /** Tells now and then, while it is under way, how many tokens of output have come. */
  follow(told: (output: number) => void): void
  /** As {@link Exchange.defer}, for this turn. Its last frame is shown when all releases resolved. */
  defer(release: (turn: Turn) => Promise<void> | void): void
}
