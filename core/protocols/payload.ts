// What goes into protocols and comes out of them: messages, reported usage, errors.
import type { Lens } from '../bodies/lens.ts'
import type { Usage } from '../money/usage.ts'

/** A message as protocols see it: payload bytes, and the payload looked into or parsed once on demand. */
export interface Payload {
  /** `json` is a whole body. Others than these two are never shown to a protocol. */
  readonly kind: 'event' | 'json' | 'comment' | 'bytes' | 'frame'
  readonly data: Buffer
  /** The event's name, empty without one. */
  readonly event: string
  /** Whether it has been parsed already. */
  readonly parsed: boolean
  json(): unknown
  /** As {@link json}, without what is nested deep in a large payload: for readers of what stands near its top. */
  shallow(): unknown
  /**
   * It is content and tells of no usage: set by the {@link StreamWatch} where it has found that out, so that nobody
   * looks for it again.
   */
  plain: boolean
  /**
   * The payload's members without parsing it; undefined when it is no JSON object, or one that only {@link json} reads.
   */
  readonly lens: Lens | undefined
  /** The members of a member: undefined when it is no object, null when no lens can look into it. */
  inside(key: string): Lens | null | undefined
}

/** An error as a client sees it. All strings; `param` only where it applies. */
export interface ShownError {
  status: number
  type: string
  message: string
  code: string
  param: string | undefined
  /** When to try again, in milliseconds, for protocols that say it in the body too. */
  retryAfterMs?: number | undefined
}

/**
 * `insane`: numbers that cannot be counts (negative, fractional, text, beyond 2^53, parts larger than their whole).
 * `undefined`: nothing was reported.
 */
export type ReportedUsage = Usage | 'insane' | undefined
