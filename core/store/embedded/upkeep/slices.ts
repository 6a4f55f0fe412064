// Does work of the background in short slices, so that its thread is free for other work in between.

/** After a slice, the thread is free for other work for this many times the slice's duration. */
const rest = 4
/** Milliseconds until the next slice when there was nothing to do, and after a failure. */
const leisure = 1000
const sulk = 10_000

/** The owner of work in slices. */
export interface SliceHost {
  /** Does a slice, which takes some milliseconds. Returns whether there is more to do. */
  slice(): boolean
  /** A slice threw. None is done until {@link Slices.begin} is called again, and then only after a while. */
  failed(error: unknown): void
  /** A slice succeeded after one that threw. */
  healed(): void
}

/** The slices of one owner. */
export class Slices {
  readonly #host: SliceHost
  #timer: NodeJS.Timeout | undefined
  #ailing = false

  constructor(host: SliceHost) {
    this.#host = host
  }

  /** Does slices until {@link Slices.stop}. Does nothing when it does them already. */
  begin(): void {
    if (!this.#timer) this.#again(this.#ailing ? sulk : leisure)
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #again(delay: number): void {
    this.#timer = setTimeout(this.#slice, delay).unref()
  }

  readonly #slice = (): void => {
    const began = performance.now()
    try {
      const more = this.#host.slice()
      this.#again(more ? rest * (performance.now() - began) : leisure)
      if (this.#ailing) this.#host.healed()
      this.#ailing = false
    } catch (error) {
      this.#ailing = true
      this.stop()
      this.#host.failed(error)
    }
  }
}
