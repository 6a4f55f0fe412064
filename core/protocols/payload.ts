// What protocols read and write: messages, reported usage, errors.
import type { Lens } from '../bodies/lens.ts'
import type { Usage } from '../money/usage.ts'

/** A message as protocols see it: bytes that are scanned or parsed on demand, at most once. */
export interface Payload {
  /** Protocols are shown only `event` and `json` (a whole body), and in some methods `bytes` and `frame`. */
  readonly kind: 'event' | 'json' | 'comment' | 'bytes' | 'frame'
  readonly data: Buffer
  /** The event's name; empty when it has none. */
  readonly event: string
  /** Whether it has been parsed. */
  readonly parsed: boolean
  json(): unknown
  /** As {@link json}, without what is nested deep in a large payload. For readers of what stands near its top. */
  shallow(): unknown
  /**
   * Whether it is content without usage. The {@link StreamWatch} sets this when it knows, so that usage is not searched
   * for.
   */
  plain: boolean
  /** The payload's members; undefined when it is not a JSON object, or when only {@link json} can read it. */
  readonly lens: Lens | undefined
  /** A lens on a member: undefined when that is not an object, null when no lens can read it. */
  inside(key: string): Lens | null | undefined
}

/** An error as a client sees it. */
export interface ShownError {
  status: number
  type: string
  message: string
  code: string
  param: string | undefined
  /** When to try again, in milliseconds, for protocols that put it into the body. */
  retryAfterMs?: number | undefined
}

/**
 * `insane`: numbers that cannot be counts (negative, fractional, text, beyond 2^53, parts larger than their whole).
 * `undefined`: nothing was reported.
 */
export type ReportedUsage = Usage | 'insane' | undefined
