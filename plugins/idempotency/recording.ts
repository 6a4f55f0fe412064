// Takes an answer down while it goes to its client, to be given again.
import type { Message, Observer } from '../../core/contract/contract.ts'
import type { KeptAnswer } from '../../core/store/answers.ts'

/** Bytes that all recordings may take at one time; above it answers count as too large. */
const mostBytes = 128 * 1024 * 1024
let taken = 0

/** The parts of an answer's head that a recording needs. */
interface Head {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly streaming: boolean
}

/** Of one exchange: the answer of its last attempt. */
export class Recording {
  readonly #largest: number
  #head: Head | undefined
  #chunks: Buffer[] | undefined = []
  #bytes = 0
  #complete = false

  /** `largest`: bytes. */
  constructor(largest: number) {
    this.#largest = largest
  }

  /** An answer begins: what was taken down of another attempt is not part of it. */
  begin(head: Head): Observer {
    this.close()
    this.#chunks = []
    this.#head = head
    return {
      observe: (message) => this.#take(message),
      end: (complete) => void (this.#complete = complete)
    }
  }

  /** What is to be kept; undefined when the answer did not come to its end. */
  answer(asked: Buffer): KeptAnswer | undefined {
    if (!this.#complete || !this.#head) {
      this.close()
      return undefined
    }
    const { status, headers, streaming } = this.#head
    const type = headers['content-type']
    return {
      asked,
      status,
      streamed: streaming,
      type: typeof type === 'string' ? type : 'application/json',
      body: this.#chunks && Buffer.concat(this.#chunks)
    }
  }

  /** Nothing of it is in memory any more. */
  close(): void {
    taken -= this.#bytes
    this.#bytes = 0
    this.#chunks = undefined
  }

  #take({ bytes }: Message): void {
    if (!this.#chunks) return
    if (this.#bytes + bytes.length > this.#largest || taken + bytes.length > mostBytes) return this.close()
    this.#chunks.push(bytes)
    this.#bytes += bytes.length
    taken += bytes.length
  }
}
