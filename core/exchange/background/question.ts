// Asks an upstream on the gateway's own account: a small question, and a small answer in JSON.
import type { Channel } from '../../catalogue/catalogue.ts'
import type { WorkQuestion } from '../../contract/background.ts'
import { Deadline } from '../../watchdog/deadline.ts'
import type { Transport, UpstreamCall, UpstreamSink } from '../../transport/transport.ts'

/** Of an answer, unless its kind says otherwise; a larger one is none. */
const answerBytes = 256 * 1024
/** Milliseconds that an answer may take, unless the channel allows less. */
const patience = 30_000

const headers: readonly string[] = ['accept', 'application/json']

/** What came: the body parsed, undefined when it is no JSON. */
export interface ChannelAnswer {
  status: number
  body: unknown
}

/** The questions of a process. */
export class Questions {
  readonly #transport: Transport
  readonly #open = new Set<Answer>()

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /**
   * Asks a channel; resolves with undefined when no whole answer came. Never rejects. `largest`: bytes of the answer.
   */
  ask(channel: Channel, { method, path }: WorkQuestion, largest = answerBytes): Promise<ChannelAnswer | undefined> {
    return new Promise((resolve) => {
      const sink = new Answer((answer) => {
        deadline.clear()
        this.#open.delete(sink)
        resolve(answer)
      }, largest)
      const deadline = new Deadline(Math.min(patience, channel.timeouts.total), () => sink.giveUp())
      this.#open.add(sink)
      try {
        sink.call = this.#transport.send(channel, { method, path, headers, body: [] }, sink)
      } catch {
        sink.giveUp()
      }
    })
  }

  /** Waits for no answer any more. */
  close(): void {
    for (const answer of this.#open) answer.giveUp()
  }
}

class Answer implements UpstreamSink {
  call: UpstreamCall | undefined
  readonly #done: (answer: ChannelAnswer | undefined) => void
  readonly #chunks: Buffer[] = []
  #length = 0
  #status = 0
  readonly #largest: number

  constructor(done: (answer: ChannelAnswer | undefined) => void, largest: number) {
    this.#done = done
    this.#largest = largest
  }

  giveUp(): void {
    this.call?.abort()
    this.#done(undefined)
  }

  onHead(status: number): void {
    this.#status = status
  }

  onData(chunk: Buffer): void {
    this.#length += chunk.length
    if (this.#length > this.#largest) this.giveUp()
    else this.#chunks.push(chunk)
  }

  onEnd(): void {
    this.#done({ status: this.#status, body: parsed(Buffer.concat(this.#chunks)) })
  }

  onError(): void {
    this.#done(undefined)
  }
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    return undefined
  }
}
