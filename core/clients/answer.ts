// What all answers have in common, whatever HTTP carries them: each ends once, and somebody is told when its client
// leaves before.
import type { Client } from './client.ts'
import type { HeaderLines } from '../wire/response-head.ts'

/** Counts answers: the server, or a connection that counts its own beside. */
interface Tally {
  began(): void
  ended(): void
}

/**
 * An answer that its client waits for. Whoever carries it says how it is written and cut, and when the connection is
 * lost.
 */
export abstract class Answer implements Client {
  onDrain: (() => void) | null = null
  headSent = false
  gone = false
  origin: string | undefined = undefined
  /** Nothing more may be written: ended, cut or gone. */
  protected over = false
  readonly #tally: Tally
  #onGone: (() => void) | null = null

  constructor(tally: Tally) {
    this.#tally = tally
    tally.began()
  }

  abstract reply(status: number, headers: HeaderLines, body: Buffer): void
  abstract head(status: number, headers: HeaderLines): void
  abstract write(bytes: Buffer): boolean
  abstract end(bytes?: Buffer): void
  abstract cut(last?: Buffer): void

  get onGone(): (() => void) | null {
    return this.#onGone
  }

  set onGone(listener: (() => void) | null) {
    this.#onGone = listener
    if (this.gone) this.#tell()
  }

  /** The connection is closed, or its input broken. Does nothing to an answer that is over. */
  lost(): void {
    if (this.over) return
    this.gone = true
    this.release()
    this.#tell()
  }

  /** The answer is over, written or not. Once. */
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
