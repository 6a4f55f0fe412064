// The interface of the claims: what is being done for a name at present, so that it is done by one alone.
import type { Awaitable } from '../awaitable.ts'

/** Claims by name. Names are unguessable for whoever may not know of them. They do not outlive the process. */
export interface Claims {
  /**
   * Claims a name. Returns undefined when it is the caller's now, and otherwise what whoever has it said that it is
   * for. `what`: a digest.
   */
  take(name: string, what: Buffer): Awaitable<Buffer | undefined>
  /** What a claimed name is for; undefined when it is free. */
  look(name: string): Awaitable<Buffer | undefined>
  /** Gives up a name that the caller has, once. What others shall find then must be durable before. */
  leave(name: string): void
}
