// Writes the output of an answer's stages to the client, and holds the end of the answer back.
import type { StreamFraming } from '../../protocols/index.ts'
import type { Client } from '../../clients/client.ts'
import type { Message } from '../../contract/message.ts'
import { Stages } from './stages.ts'
import type { PluginStage } from './stages.ts'

/** Buffers of one write are joined up to this size in bytes, which is quicker for small events only. */
const joinedBytes = 256 * 1024

/**
 * The client's end of a relay. Before {@link commit} all output waits. Then each {@link flush} writes the output
 * that waits. After {@link close} the output is the end of the answer, and waits for {@link takeRest}.
 */
export class Outlet {
  /** Bytes of output that wait to be written. */
  waiting = 0
  /** Bytes written so far, without the end of the answer; {@link firstByteAt} is when the first were written. */
  bytes = 0
  /** Events in the output so far. */
  events = 0
  firstByteAt: number | undefined
  committed = false
  /** Of how much that must be on disk first the output waits. */
  awaiting = 0
  /** From now on the output is the end of the answer. */
  holding = false
  /** Nothing marks the last run of the body, so the latest one is always held back. */
  keepsLast = false
  /** Whoever passes in runs of the body keeps nothing of them. */
  ownsRuns = false
  /** The answer is one message, so the stages must make exactly one of it. */
  whole = false
  readonly #client: Client
  readonly #makeFraming: (() => StreamFraming) | undefined
  /** Writes events in another form than server-sent events; undefined where they are written as they are. */
  framing: StreamFraming | undefined
  readonly #stages = new Stages((message) => this.#write(message))
  #out: Buffer[] = []
  /** The end marker of a stream. */
  #last: Message | undefined
  /** Bytes that may still be read for a client that has left; undefined while it is there. */
  #allowance: number | undefined

  constructor(client: Client, framing?: () => StreamFraming) {
    this.#client = client
    this.#makeFraming = framing
    this.framing = framing?.()
  }

  /** Sets the stages, in the order in which messages pass them. Called once, before the first message. */
  use(stages: readonly PluginStage[]): void {
    this.#stages.use(stages)
  }

  /** The plugin that cannot see such an answer, in runs of a file or of JSON; undefined when there is none. */
  blindTo(kind: 'files' | 'runs' | 'large'): string | undefined {
    return this.#stages.blindTo(kind)
  }

  /** Nobody will need an event any more that is passed now, and then flushed. */
  get borrows(): boolean {
    return this.committed && this.#out.length === 0 && this.#stages.borrow && this.#client.borrows === true
  }

  /** Copies the output that waits all the same, as for the disk: it lies in memory that is about to be used again. */
  own(): void {
    if (this.#out.length > 0) this.#out = [Buffer.concat(this.#out)]
  }

  pass(message: Message): void {
    this.#stages.pass(message)
  }

  /** Resolves when all stages are done with a whole answer, undefined if they are. Rejects with a stage's error. */
  get settled(): Promise<void> | undefined {
    return this.#stages.settled
  }

  /** Shows a message to the stages; what they emit is dropped, as the answer has ended for the client. */
  show(message: Message): void {
    const kept = this.#out
    const { waiting } = this
    this.#out = []
    this.#stages.pass(message)
    this.#out = kept
    this.waiting = waiting
  }

  /** Passes on a comment of an event stream. Other framings have no place for it, and drop it. */
  comment(bytes: Buffer): void {
    if (!this.framing) this.#raw(bytes)
  }

  #write(message: Message): void {
    const { framing } = this
    if (message.kind === 'event') this.events++
    if (!framing) this.#raw(message.bytes)
    else if (message.kind === 'event') this.#raw(Buffer.from(framing.event(message.data.toString('utf8'))))
  }

  #raw(bytes: Buffer): void {
    if (this.#allowance !== undefined) {
      this.#allowance -= bytes.length
      return
    }
    this.#out.push(bytes)
    this.waiting += bytes.length
  }

  commit(): void {
    this.committed = true
  }

  /** Writes the waiting output. False: the client's buffer is full. */
  flush(): boolean {
    if (!this.committed || this.holding || this.awaiting > 0 || this.#out.length === 0) return true
    const last = this.keepsLast ? this.#out.pop() : undefined
    const due = this.waiting - (last?.length ?? 0)
    const parts = this.#out
    this.#out = last ? [last] : []
    this.waiting = last?.length ?? 0
    if (due === 0) return true
    this.firstByteAt ??= performance.now()
    this.bytes += due
    if (parts.length === 1) return this.#client.write(parts[0]!, this.#isSpent(parts[0]!))
    if (due <= joinedBytes) return this.#client.write(joinedBuffers(parts))
    let more = true
    for (const part of parts) more = this.#client.write(part)
    return more
  }

  /** Nobody will look at these bytes any more: neither a stage, nor what still waits, which may be cut from them. */
  #isSpent({ buffer }: Buffer): boolean {
    return this.ownsRuns && this.#stages.borrow && this.#out.every((part) => part.buffer !== buffer)
  }

  /** Writes the waiting output. All later output is the end of the answer; `last` is its end marker, which is kept. */
  close(last: Message | undefined): void {
    this.flush()
    this.holding = true
    this.#last = last?.own()
  }

  /** The client has left: all output is dropped from now on, and {@link exhausted} tells when it exceeds `bytes`. */
  discard(bytes: number): void {
    this.drop()
    this.#allowance = bytes
  }

  /** More output was dropped than {@link discard} allows. */
  get exhausted(): boolean {
    return this.#allowance !== undefined && this.#allowance < 0
  }

  /** Drops the waiting output, because the answer broke off. */
  drop(): void {
    this.#out = []
    this.waiting = 0
    // Nothing was written, so the beginning of the answer was dropped too.
    if (this.bytes > 0) return
    this.events = 0
    this.framing = this.#makeFraming?.()
  }

  /**
   * Tells the stages that no message follows, once; they may still emit. @throws GatewayError what one of them threw
   */
  end(complete: boolean): void {
    for (const message of this.#stages.end(complete, this.#last)) this.#write(message)
    if (complete && this.framing) this.#raw(Buffer.from(this.framing.end()))
    if (complete && this.whole && this.#allowance === undefined && this.#out.length !== 1) {
      throw new Error(`the stages of the plugins made ${this.#out.length} bodies of an answer that is one message`)
    }
  }

  /** The end of the answer. It is given once. */
  takeRest(): Buffer {
    const bytes = joinedBuffers(this.#out)
    this.drop()
    return bytes
  }
}

/** Joins buffers. Buffers that are adjacent in memory, as the events of one chunk are, are not copied. */
export function joinedBuffers(parts: readonly Buffer[]): Buffer {
  const first = parts[0]
  if (first === undefined) return Buffer.alloc(0)
  if (parts.length === 1) return first
  let length = first.length
  for (let i = 1; i < parts.length; i++) {
    const part = parts[i]!
    if (part.buffer !== first.buffer || part.byteOffset !== first.byteOffset + length) return Buffer.concat(parts)
    length += part.length
  }
  return Buffer.from(first.buffer, first.byteOffset, length)
}
