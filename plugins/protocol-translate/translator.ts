// Translates requests: small ones at once, large ones in a thread beside the loop, in the order in which they come.
import { setImmediate as turn } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { GatewayError, translateRequest, unsealRequest, Untranslatable } from '../../core/contract/contract.ts'
import type { Awaitable, CodecName, Keepsake, RequestTask, TranslatedRequest } from '../../core/contract/contract.ts'
import type { Answer, Question } from './thread.ts'

/** Bytes of a request up to which it is translated at once: some milliseconds, whatever it is made of. */
const smallBytes = 128 * 1024
/** Milliseconds that the thread may take for one request: a body of the largest size takes a few seconds. */
const longest = 30_000
const memoryMiB = 2048
/** Bytes that are copied in one turn of the loop. */
const copiedBytes = 4 * 1024 * 1024

/** What was kept under ids of calls. */
type Find = (calls: readonly string[]) => ReadonlyMap<string, Keepsake>
/** The pieces of a body. They are copied when it is the body's turn, and must stay until then. */
type Pieces = readonly Uint8Array[]

interface Waiting {
  pieces: Pieces
  ask(bytes: Uint8Array): Question
  resolve(result: unknown): void
  reject(error: Error): void
}

/** One for all generations; the thread begins with the first large request. */
export class Translator {
  readonly #patience: number
  readonly #queue: Waiting[] = []
  #busy: Waiting | undefined
  #thread: Worker | undefined
  #timer: NodeJS.Timeout | undefined

  /** `patience`: milliseconds for one request. */
  constructor(patience = longest) {
    this.#patience = patience
  }

  /** @throws Untranslatable, or rejects with it; GatewayError `invalid_request` for a request that the thread cannot cope with */
  translate(pieces: Pieces, task: RequestTask, find: Find): Awaitable<TranslatedRequest> {
    const bytes = small(pieces)
    // Whoever finds what was kept leaves nothing missing.
    return bytes ? (translateRequest(bytes, task, find) as TranslatedRequest) : this.#translateBeside(pieces, task, find)
  }

  /** Likewise: the member of a request that has signatures of the gateway's own, as JSON without them. */
  unseal(pieces: Pieces, protocol: CodecName): Awaitable<{ key: string; json: string } | undefined> {
    const bytes = small(pieces)
    return bytes ? unsealRequest(bytes, protocol) : this.#beside(pieces, (own) => ({ kind: 'unseal', bytes: own, protocol }))
  }

  close(): void {
    clearTimeout(this.#timer)
    void this.#thread?.terminate()
  }

  async #translateBeside(pieces: Pieces, task: RequestTask, find: Find): Promise<TranslatedRequest> {
    const ask = (kept: ReadonlyMap<string, Keepsake> | undefined) => (bytes: Uint8Array): Question => ({ kind: 'translate', bytes, task, kept })
    const first = await this.#beside<TranslatedRequest | readonly string[]>(pieces, ask(undefined))
    if ('body' in first) return first
    return (await this.#beside<TranslatedRequest>(pieces, ask(find(first))))
  }

  #beside<T>(pieces: Pieces, ask: Waiting['ask']): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ pieces, ask, resolve: resolve as Waiting['resolve'], reject })
      this.#next()
    })
  }

  #next(): void {
    const next = this.#busy ? undefined : this.#queue.shift()
    if (!next) return
    this.#busy = next
    void copied(next.pieces).then((bytes) => {
      const thread = (this.#thread ??= this.#begin())
      thread.ref()
      thread.postMessage(next.ask(bytes), [bytes.buffer])
      this.#timer = setTimeout(() => void thread.terminate(), this.#patience)
    })
  }

  #begin(): Worker {
    // Source and compiled files stand in the same places, with other endings.
    const file = new URL(`./thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url)
    const thread = new Worker(file, { name: 'translation', resourceLimits: { maxOldGenerationSizeMb: memoryMiB } })
    thread.on('message', (answer: Answer) => this.#answered(answer))
    // It ran out of memory: the next request has another thread.
    thread.on('error', () => {})
    thread.on('exit', () => this.#lost(thread))
    return thread
  }

  #over(): Waiting | undefined {
    const over = this.#busy
    clearTimeout(this.#timer)
    this.#busy = undefined
    return over
  }

  #answered(answer: Answer): void {
    const over = this.#over()
    // An idle thread keeps no process alive.
    if (this.#queue.length === 0) this.#thread?.unref()
    if ('result' in answer) over?.resolve(answer.result)
    else if ('refusal' in answer) over?.reject(new Untranslatable(answer.refusal.code, answer.refusal.message, answer.refusal.param))
    else over?.reject(new Error(answer.fault))
    this.#next()
  }

  #lost(thread: Worker): void {
    if (this.#thread === thread) this.#thread = undefined
    this.#over()?.reject(new GatewayError('invalid_request', 'The request is too involved to be brought into the protocol of the channel that serves this model. Send less at a time.'))
    this.#next()
  }
}

/** One copy of all pieces, made in several turns of the loop: new memory is slow to write to. */
async function copied(pieces: Pieces): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(sizeOf(pieces))
  let at = 0
  for (const piece of pieces) {
    for (let from = 0; from < piece.length; from += copiedBytes) {
      const part = piece.subarray(from, from + copiedBytes)
      bytes.set(part, at)
      at += part.length
      if (part.length === copiedBytes) await turn()
    }
  }
  return bytes
}

function sizeOf(pieces: Pieces): number {
  return pieces.reduce((sum, { length }) => sum + length, 0)
}

/** The bytes of a request that is translated at once. */
function small(pieces: Pieces): Buffer | undefined {
  return sizeOf(pieces) > smallBytes ? undefined : Buffer.concat(pieces)
}
