// What all answers have in common in every version of HTTP: each ends once, and a listener is told when the client
// leaves before that.
import type { Client } from './client.ts'
import type { HeaderLines } from '../wire/response-head.ts'

/** Counts answers. The server is one; an HTTP/2 connection also counts its own. */
interface Tally {
  began(): void
  ended(): void
}

/**
 * An answer to a client. The subclass for a version of HTTP writes and cuts it, and calls `lost` when the connection is
 * lost.
 */
export abstract class Answer implements Client {
  onDrain: (() => void) | null = null
  headSent = false
  gone = false
  origin: string | undefined = undefined
  /** True when nothing more may be written: the answer was ended or cut, or the client has left. */
  protected over = false
  readonly #tally: Tally
  #onGone: (() => void) | null = null

  constructor(tally: Tally) {
    this.#tally = tally
    tally.began()
  }

  abstract reply(status: number, headers: HeaderLines, body: Buffer): void
  abstract head(status: number, headers: HeaderLines): void
  abstract write(bytes: Buffer, spent?: boolean): boolean
  abstract end(bytes?: Buffer): void
  abstract cut(last?: Buffer): void

  get onGone(): (() => void) | null {
    return this.#onGone
  }

  set onGone(listener: (() => void) | null) {
    this.#onGone = listener
    if (this.gone) this.#tell()
  }

  /** Says that the connection closed, or that its input is invalid. Does nothing when the answer is over. */
  lost(): void {
    if (this.over) return
    this.gone = true
    this.release()
    this.#tell()
  }

  /** Ends the answer, written or not. Called once. */
  protected release(): void {
    this.over = true
    this.#tally.ended()
  }

  #tell(): void {
    const listener = this.#onGone
    this.#onGone = null
    listener?.()
  }
}
