// Passes the messages of an answer through its stages and writes what they let through to the client.
import type { Client } from '../clients/client.ts'
import type { Emit, Stage } from '../contract/contract.ts'
import type { Message } from '../contract/message.ts'

/**
 * The client's end of a relay. Before {@link commit} everything waits; then each {@link flush} is one write of what the
 * turn brought; after {@link hold} what comes is the answer's end and waits for {@link release}.
 */
export class Outlet {
  /** Bytes let through and not written. */
  waiting = 0
  /** Payload bytes written, all but the end of the answer, and when the first of them were (`performance.now()`). */
  bytes = 0
  firstByteAt: number | undefined
  committed = false
  /** The end of the body shows only when it is there, so its latest run stays behind. */
  keepsLast = false
  readonly #client: Client
  /** By the stage that what is emitted goes to; only for those that decide what goes on, which few do. */
  readonly #emits: Emit[] = []
  #stages: readonly Stage[] = []
  #out: Buffer[] = []
  #holding = false
  /** Bytes that may still be read for a client that has left; undefined while it is there. */
  #allowance: number | undefined

  constructor(client: Client) {
    this.#client = client
  }

  /** The stages, in the order in which messages pass them. Once, before the first message. */
  use(stages: readonly Stage[]): void {
    this.#stages = stages
  }

  pass(message: Message): void {
    this.#from(message, 0)
  }

  /** Shows a message to the stages; what they emit is dropped, as the end of the answer has passed. */
  show(message: Message): void {
    const kept = this.#out
    this.#out = []
    this.#from(message, 0)
    this.#out = kept
  }

  /** Bytes that are no message: comments of a stream. */
  raw(bytes: Buffer): void {
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
    if (!this.committed || this.#holding || this.#out.length === 0) return true
    const last = this.keepsLast ? this.#out.pop() : undefined
    const bytes = joined(this.#out)
    this.#out = last ? [last] : []
    this.waiting = last?.length ?? 0
    if (bytes.length === 0) return true
    this.firstByteAt ??= performance.now()
    this.bytes += bytes.length
    return this.#client.write(bytes)
  }

  /** Writes what is due; what comes from now on is the end. */
  hold(): void {
    this.flush()
    this.#holding = true
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
  }

  /** Tells the stages that no message follows, once; they may still emit. All are told, then the first error is thrown. */
  end(complete: boolean): void {
    let failure: { error: unknown } | undefined
    for (let i = 0; i < this.#stages.length; i++) {
      const stage = this.#stages[i]!
      try {
        if ('map' in stage) stage.end?.(complete, this.#emitTo(i + 1))
        else stage.end?.(complete)
      } catch (error) {
        failure ??= { error }
      }
    }
    if (failure) throw failure.error
  }

  /** Hands over what was held. */
  release(): Buffer {
    const bytes = joined(this.#out)
    this.drop()
    return bytes
  }

  #emitTo(index: number): Emit {
    return (this.#emits[index] ??= (message) => this.#from(message, index))
  }

  #from(message: Message, index: number): void {
    for (let i = index; i < this.#stages.length; i++) {
      const stage = this.#stages[i]!
      if ('map' in stage) {
        stage.map(message, this.#emitTo(i + 1))
        return
      }
      stage.observe(message)
    }
    this.raw(message.bytes)
  }
}

/** Buffers as one: a view when they lie side by side in memory, as the events of one chunk do. */
export function joined(parts: readonly Buffer[]): Buffer {
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
