// Waits until the event loop has looked for input.

/**
 * Hands on what it was given as soon as the event loop has looked for input from the beginning, and what it found has
 * been taken. Whatever is done in the middle of a look waits for the next one.
 */
export class AfterLook<T> {
  readonly #ready: (item: T) => void
  #came: T[] = []
  /** Came in the turn before this one. */
  #waiting: T[] = []

  /** `ready` is called once for each, in their order, and must not throw. */
  constructor(ready: (item: T) => void) {
    this.#ready = ready
  }

  add(item: T): void {
    if (this.#came.length + this.#waiting.length === 0) setImmediate(looked, this)
    this.#came.push(item)
  }

  /** What has not been handed on, which now never will be. */
  clear(): T[] {
    return [...this.#waiting.splice(0), ...this.#came.splice(0)]
  }

  /** Runs at the end of every turn as long as something waits. */
  looked(): void {
    const waiting = this.#waiting
    this.#waiting = this.#came
    this.#came = []
    if (this.#waiting.length > 0) setImmediate(looked, this)
    for (let i = 0; i < waiting.length; i++) this.#ready(waiting[i]!)
  }
}

function looked(waits: { looked(): void }): void {
  waits.looked()
}
