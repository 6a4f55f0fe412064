// Waits until the event loop has looked for input.

/**
 * Hands on each item as soon as the event loop has looked for input once in full, and that input has been processed. An
 * item that is added during such a look waits for the next one.
 */
export class AfterLook<T> {
  readonly #ready: (item: T) => void
  #came: T[] = []
  /** The items that were added in the previous turn of the event loop. */
  #waiting: T[] = []

  /** `ready` is called once per item, in order, and must not throw. */
  constructor(ready: (item: T) => void) {
    this.#ready = ready
  }

  add(item: T): void {
    if (this.#came.length + this.#waiting.length === 0) setImmediate(looked, this)
    this.#came.push(item)
  }

  /** Removes and returns the items that were not handed on; `ready` is not called for them. */
  clear(): T[] {
    return [...this.#waiting.splice(0), ...this.#came.splice(0)]
  }

  /** Runs at the end of every turn while an item waits. */
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
