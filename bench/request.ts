// Reads the requests on one connection of the upstream, and compares large bodies with what the client sent.

/** The bodies that are accepted, all of the same length. They differ only in what a gateway may or must write. */
export type Wanted = readonly Buffer[]

/** Takes bytes as they come. A body is checked piece by piece and never assembled. */
export class RequestReader {
  readonly #onRequest: (wrong: string | undefined) => void
  readonly #wanted: () => Wanted
  /** The incomplete head at the end of the last read. */
  #cut: Buffer | null = null
  /** The bytes of the body seen so far, and those still to come; 0 when no body is being read. */
  #at = 0
  #left = 0
  /** The accepted bodies that the current body equals so far. */
  #candidates: Wanted = []
  #wrong: string | undefined

  /** `onRequest` runs after each whole request. Bodies are checked when `wanted` gives any. */
  constructor(wanted: () => Wanted, onRequest: (wrong: string | undefined) => void) {
    this.#wanted = wanted
    this.#onRequest = onRequest
  }

  read(bytes: Buffer): void {
    if (this.#cut) bytes = Buffer.concat([this.#cut, bytes])
    this.#cut = null
    let at = 0
    while (at < bytes.length) {
      if (this.#left === 0) {
        const end = bytes.indexOf('\r\n\r\n', at, 'latin1')
        if (end < 0) {
          this.#cut = Buffer.from(bytes.subarray(at))
          return
        }
        this.#begin(bytes.toString('latin1', at, end))
        at = end + 4
      }
      const end = Math.min(at + this.#left, bytes.length)
      if (this.#candidates.length > 0) this.#check(bytes, at, end)
      this.#at += end - at
      this.#left -= end - at
      at = end
      if (this.#left === 0) this.#onRequest(this.#wrong)
    }
  }

  #begin(head: string): void {
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)
    if (!length) throw new Error(`a request without a length reached the upstream: ${head}`)
    this.#left = Number(length[1])
    this.#at = 0
    this.#wrong = undefined
    this.#candidates = this.#wanted()
    const [first] = this.#candidates
    if (!first || first.length === this.#left) return
    this.#wrong = `the upstream got a body of ${this.#left} bytes instead of ${first.length}`
    this.#candidates = []
  }

  #check(bytes: Buffer, start: number, end: number): void {
    const left = this.#candidates.filter(
      (body) => bytes.compare(body, this.#at, this.#at + end - start, start, end) === 0
    )
    if (left.length === 0) this.#wrong = `the upstream got a wrong byte within ${end - start} from byte ${this.#at} on`
    this.#candidates = left
  }
}
