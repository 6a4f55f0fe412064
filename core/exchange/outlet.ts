// Writes what the stages of an answer let through to the client, and keeps its end back.
import type { StreamFraming } from '../protocols/index.ts'
import type { Client } from '../clients/client.ts'
import type { Message } from '../contract/message.ts'
import { Stages } from './stages.ts'
import type { PluginStage } from './stages.ts'

/** Bytes up to which what is written together is joined first: that is quicker for small events, not for large ones. */
const joinedBytes = 256 * 1024

/**
 * The client's end of a relay. Before {@link commit} everything waits; then each {@link flush} is one write of what the
 * turn brought; after {@link close} what comes is the answer's end and waits for {@link release}.
 */
export class Outlet {
  /** Bytes let through and not written. */
  waiting = 0
  /** Payload bytes written, all but the end of the answer, and when the first of them were (`performance.now()`). */
  bytes = 0
  /** Events let through. */
  events = 0
  firstByteAt: number | undefined
  committed = false
  /** What comes is the answer's end. */
  holding = false
  /** The end of the body shows only when it is there, so its latest run stays behind. */
  keepsLast = false
  /** The body is one message: exactly one comes out. */
  whole = false
  readonly #client: Client
  readonly #makeFraming: (() => StreamFraming) | undefined
  /** How events are written where that is not as they come. */
  framing: StreamFraming | undefined
  #stages = new Stages([], (message) => this.#write(message))
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

  /** The stages, in the order in which messages pass them. Once, before the first message. */
  use(stages: readonly PluginStage[]): void {
    this.#stages = new Stages(stages, (message) => this.#write(message))
  }

  /** The plugin that cannot see such an answer, in runs of a file or of JSON; undefined when there is none. */
  blindTo(kind: 'files' | 'runs' | 'large'): string | undefined {
    return this.#stages.blindTo(kind)
  }

  pass(message: Message): void {
    this.#stages.pass(message)
  }

  /** Until a whole answer that was passed has come through; undefined when it has. Rejects with what a stage threw. */
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

  /** A block of a stream that is no event. Only server-sent events have a place for it. */
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

  /** Writes what is due. False when the client's buffer is full. */
  flush(): boolean {
    if (!this.committed || this.holding || this.#out.length === 0) return true
    const last = this.keepsLast ? this.#out.pop() : undefined
    const due = this.waiting - (last?.length ?? 0)
    const parts = due > joinedBytes ? this.#out : [joinedBuffers(this.#out)]
    this.#out = last ? [last] : []
    this.waiting = last?.length ?? 0
    if (due === 0) return true
    this.firstByteAt ??= performance.now()
    this.bytes += due
    let more = true
    for (const part of parts) more = this.#client.write(part)
    return more
  }

  /** Writes what is due; what comes from now on is the end, and `last` the very end. */
  close(last: Message | undefined): void {
    this.flush()
    this.holding = true
    this.#last = last
  }

  /** The client left: nothing is kept any more, and at most `bytes` more are let through to nowhere. */
  discard(bytes: number): void {
    this.drop()
    this.#allowance = bytes
  }

  /** More was let through than {@link discard} allows. */
  get exhausted(): boolean {
    return this.#allowance !== undefined && this.#allowance < 0
  }

  /** Forgets what waits: it is not known to be whole. */
  drop(): void {
    this.#out = []
    this.waiting = 0
    // What was to begin the answer is gone with it.
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

  /** Hands over what was held. */
  release(): Buffer {
    const bytes = joinedBuffers(this.#out)
    this.drop()
    return bytes
  }
}

/** Buffers as one: a view when they lie side by side in memory, as the events of one chunk do. */
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
