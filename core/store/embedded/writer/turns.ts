// When a draft is sent that somebody waits for: at the end of a tick of the event loop, and not before others had time
// to join it.

/** How many ticks of a busy event loop it waits for more operations. */
const busyTurns = 3

/** The ticks until the next draft is sent. */
export class Turns {
  readonly #send: () => void
  /** How often somebody asked in this tick, or since the last draft was sent. */
  #asked = 0
  #left = 0
  #running = false

  constructor(send: () => void) {
    this.#send = send
  }

  /** Whether the draft will be sent. */
  get running(): boolean {
    return this.#running
  }

  /** Somebody waits for the draft. Unless `busy`, it is sent at the end of this tick, or a few ticks later. */
  ask(busy: boolean): void {
    this.#asked++
    if (this.#running || busy) return
    this.#running = true
    this.#left = busyTurns
    setImmediate(this.#look)
  }

  /** The draft is sent, or is not to be. */
  end(): void {
    this.#running = false
    this.#asked = 0
  }

  /** If several asked for it in one tick, more input is probably waiting, so it waits another tick. */
  readonly #look = (): void => {
    if (this.#asked < 2 || this.#left === 0) return this.#send()
    this.#asked = 0
    this.#left--
    setImmediate(this.#look)
  }
}
