// Records an answer while it goes to its client, so that it can be given again.
import type { Allowance, Message, Observer } from '../../core/contract/contract.ts'
import type { KeptAnswer } from '../../core/store/answers.ts'

/** The most bytes of all recordings at one time. Above it, answers count as too large. */
const mostBytes = 128 * 1024 * 1024

/**
 * The memory of all recordings of a gateway, as one thread has it. A tenant may take at most as much there as is left,
 * so one tenant alone gets half of it in one thread, and more of it in several.
 */
export class RecordingRoom {
  readonly #most: number
  /** The bytes that are taken in all threads. */
  readonly #all: Allowance
  /** Those that are taken in this one, by tenant. */
  readonly #taken = new Map<string, number>()

  constructor(all: Allowance, most = mostBytes) {
    this.#all = all
    this.#most = most
  }

  /** Takes memory if the tenant may have that much more. */
  take(tenant: string, bytes: number): boolean {
    const taken = this.#taken.get(tenant) ?? 0
    if (!this.#all.take(bytes, this.#most - taken)) return false
    this.#taken.set(tenant, taken + bytes)
    return true
  }

  give(tenant: string, bytes: number): void {
    const left = (this.#taken.get(tenant) ?? 0) - bytes
    if (left > 0) this.#taken.set(tenant, left)
    else this.#taken.delete(tenant)
    this.#all.give(bytes)
  }
}

/** The headers that belong to the answer itself, and not to the request that got it. */
const lasting = ['location', 'retry-after', 'x-sluice-dropped', 'x-sluice-estimate'] as const

/** The parts of an answer's head that a recording needs. */
interface Head {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly streaming: boolean
}

/** Records the answer of the last attempt of one exchange. */
export class AnswerRecording {
  readonly #room: RecordingRoom
  readonly #tenant: string
  readonly #largest: number
  #head: Head | undefined
  #chunks: Buffer[] | undefined = []
  #bytes = 0
  #complete = false

  /** `largest`: the most bytes of an answer that are kept. */
  constructor(room: RecordingRoom, tenant: string, largest: number) {
    this.#room = room
    this.#tenant = tenant
    this.#largest = largest
  }

  /** Whether the answer ended properly. */
  get complete(): boolean {
    return this.#complete
  }

  /** Begins with an answer, and drops what was recorded of an earlier attempt. */
  begin(head: Head): Observer {
    this.close()
    this.#chunks = []
    this.#head = head
    return {
      observe: (message) => this.#take(message),
      end: (complete) => void (this.#complete = complete)
    }
  }

  /** The answer to store; undefined when the answer was not complete. */
  answer(asked: Buffer, replyHeader: (name: string) => string | undefined): KeptAnswer | undefined {
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
      headers: Object.fromEntries(
        lasting.flatMap((name) => {
          const value = headers[name] ?? replyHeader(name)
          return typeof value === 'string' ? [[name, value]] : []
        })
      ),
      type: typeof type === 'string' ? type : 'application/json',
      body: this.#chunks && Buffer.concat(this.#chunks)
    }
  }

  /** Frees the memory of the recording. */
  close(): void {
    this.#room.give(this.#tenant, this.#bytes)
    this.#bytes = 0
    this.#chunks = undefined
  }

  #take({ bytes }: Message): void {
    if (!this.#chunks) return
    if (this.#bytes + bytes.length > this.#largest || !this.#room.take(this.#tenant, bytes.length)) return this.close()
    this.#chunks.push(bytes)
    this.#bytes += bytes.length
  }
}
