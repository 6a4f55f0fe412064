// One turn of a session, from the request for it to its end. Turns are what is limited and charged in a session.
import type { ReportedUsage } from '../protocols/index.ts'
import type { MeteredUsage } from './slots.ts'

/**
 * A part of a session that is charged by itself. Most turns are responses that the client asks for; an upstream also
 * begins some by itself, and charges for other things than responses.
 */
export interface Turn {
  /** Unique within its exchange. */
  readonly part: string
  /**
   * True when nothing has been sent yet, so that a {@link GatewayError} from `onTurn` refuses the turn. False when the
   * turn has begun already: such an error then only asks the upstream to end the turn. All plugins see the turn all the
   * same, because its usage must be charged.
   */
  readonly asked: boolean
  /** The tokens that the turn may read: the most possible, and a fair estimate. */
  readonly input: { readonly worst: number; readonly typical: number }
  /** The client's limit of the output tokens; undefined without one. */
  readonly maxOutput: number | undefined
  /** True when the upstream has begun the turn. */
  readonly begun: boolean
  /** The usage that the upstream reported; undefined before the turn ended, and when nothing was reported. */
  readonly reported: ReportedUsage
  /** The output tokens so far, estimated. */
  readonly output: number
  /** True when the turn came to its end while the session goes on or could go on. */
  readonly ended: boolean
  /** True when the turn was sent and, before it ended, the client left or the session ended because of the client. */
  readonly abandoned: boolean
  /**
   * What the turn consumed. `usage-meter` fills it by {@link Turn.measure}, so that every release sees it; undefined
   * when the turn never began.
   */
  usage: MeteredUsage | undefined
  /**
   * Keeps the first message of the turn back from the client until the promise resolves; a rejection ends the session.
   * The turn is sent upstream without waiting.
   */
  showAfter(durable: Promise<void>): void
  /** Calls `told` from time to time during the turn, with the output tokens so far. */
  follow(told: (output: number) => void): void
  /** Runs when the turn is over, before all releases of all plugins: for the plugin that fills {@link Turn.usage}. */
  measure(count: (turn: Turn) => void): void
  /** As {@link Exchange.defer}, for this turn. The client sees the last frame when all releases have resolved. */
  defer(release: (turn: Turn) => Promise<void> | void): void
}
