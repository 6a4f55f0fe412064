// Translates requests and whole answers: small ones at once, large ones in a thread beside the loop, in the order in
// which they come.
import { setImmediate as turn } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { GatewayError, translateRequest, unsealRequest, Untranslatable } from '../../core/contract/contract.ts'
import type {
  AnswerHead,
  AnswerTask,
  Awaitable,
  CodecName,
  Keepsake,
  RequestTask,
  TranslatedAnswer,
  TranslatedRequest
} from '../../core/contract/contract.ts'
import type { Answer, Question } from './thread.ts'

/** Bytes up to which it is translated at once: some milliseconds, whatever it is made of. */
const smallBytes = 128 * 1024
/** Milliseconds that the thread may take for one of them: a body of the largest size takes a few seconds. */
const longest = 30_000
const memoryMiB = 2048
/** Bytes that are copied in one turn of the loop. */
const copiedBytes = 4 * 1024 * 1024
/** Bytes of answers that may wait for the thread. Requests are bounded where they are read. */
const mostWaiting = 256 * 1024 * 1024

/** What was kept under ids of calls. */
type Find = (calls: readonly string[]) => ReadonlyMap<string, Keepsake>
/** The pieces of a body. They are copied when it is the body's turn, and must stay until then. */
type Pieces = readonly Uint8Array[]

interface Waiting {
  pieces: Pieces
  answer: boolean
  ask(bytes: Uint8Array): Question
  /** Why there is none, when the thread is lost over it. */
  lost(): GatewayError
  resolve(result: unknown): void
  reject(error: Error): void
}

/** One for all generations; the thread begins with the first that is large. */
export class Translator {
  readonly #patience: number
  readonly #queue: Waiting[] = []
  /** Whose turn it is, while the bytes are copied and then with the thread. */
  #busy: Waiting | undefined
  /** The one that the thread has been asked for. */
  #asked: Waiting | undefined
  #thread: Worker | undefined
  #timer: NodeJS.Timeout | undefined

  /** `patience`: milliseconds for one of them. */
  constructor(patience = longest) {
    this.#patience = patience
  }

  /**
   * @throws Untranslatable, or rejects with it; GatewayError `invalid_request` for a request that the thread cannot
   * cope with
   */
  translate(pieces: Pieces, task: RequestTask, find: Find): Awaitable<TranslatedRequest> {
    const bytes = small(pieces)
    // Whoever finds what was kept leaves nothing missing.
    return bytes
      ? (translateRequest(bytes, task, find) as TranslatedRequest)
      : this.#translateBeside(pieces, task, find)
  }

  /** Likewise: the member of a request that has signatures of the gateway's own, as JSON without them. */
  unseal(pieces: Pieces, protocol: CodecName): Awaitable<{ key: string; json: string } | undefined> {
    const bytes = small(pieces)
    return bytes
      ? unsealRequest(bytes, protocol)
      : this.#beside(pieces, (own) => ({ kind: 'unseal', bytes: own, protocol }))
  }

  /**
   * A whole answer, when it is large: undefined for one that can be translated at once. One that nobody wants any more
   * does not wait. Rejects with Untranslatable; GatewayError `upstream_bad_response` for an answer that the thread
   * cannot cope with, `overloaded` when too much waits.
   */
  answerBeside(
    bytes: Buffer,
    task: AnswerTask,
    head: AnswerHead,
    left: AbortSignal
  ): Promise<TranslatedAnswer> | undefined {
    if (bytes.length <= smallBytes) return undefined
    const waiting = this.#queue.reduce((sum, { answer, pieces }) => (answer ? sum + sizeOf(pieces) : sum), 0)
    if (waiting + bytes.length > mostWaiting)
      return Promise.reject(
        new GatewayError('overloaded', 'Too many large answers are being translated at the moment.')
      )
    return new Promise((resolve, reject) => {
      const one: Waiting = {
        pieces: [bytes],
        answer: true,
        ask: (own) => ({ kind: 'answer', bytes: own, task, head }),
        lost: () =>
          new GatewayError(
            'upstream_bad_response',
            'The answer of the upstream is too involved to be brought into the protocol of the request.'
          ),
        resolve: resolve as Waiting['resolve'],
        reject
      }
      left.addEventListener(
        'abort',
        () => {
          const at = this.#queue.indexOf(one)
          if (at === -1) return
          this.#queue.splice(at, 1)
          reject(new GatewayError('client_closed', 'The client left.'))
        },
        { once: true }
      )
      this.#queue.push(one)
      this.#next()
    })
  }

  close(): void {
    clearTimeout(this.#timer)
    void this.#thread?.terminate()
  }

  async #translateBeside(pieces: Pieces, task: RequestTask, find: Find): Promise<TranslatedRequest> {
    const ask =
      (kept: ReadonlyMap<string, Keepsake> | undefined) =>
      (bytes: Uint8Array): Question => ({ kind: 'translate', bytes, task, kept })
    const first = await this.#beside<TranslatedRequest | readonly string[]>(pieces, ask(undefined))
    if ('body' in first) return first
    return await this.#beside<TranslatedRequest>(pieces, ask(find(first)))
  }

  #beside<T>(pieces: Pieces, ask: Waiting['ask']): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#queue.push({
        pieces,
        answer: false,
        ask,
        lost: tooInvolved,
        resolve: resolve as Waiting['resolve'],
        reject
      })
      this.#next()
    })
  }

  #next(): void {
    const next = this.#busy ? undefined : this.#queue.shift()
    if (!next) return
    this.#busy = next
    void this.#ask(next)
  }

  /** Never rejects. */
  async #ask(next: Waiting): Promise<void> {
    try {
      const bytes = await copied(next.pieces)
      const thread = (this.#thread ??= this.#begin())
      thread.postMessage(next.ask(bytes), [bytes.buffer])
      thread.ref()
      this.#asked = next
      this.#timer = setTimeout(() => this.#giveUp(thread), this.#patience)
    } catch (cause) {
      this.#busy = undefined
      next.reject(cause as Error)
      this.#next()
    }
  }

  #begin(): Worker {
    // Source and compiled files stand in the same places, with other endings.
    const file = new URL(`./thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url)
    const thread = new Worker(file, { name: 'translation', resourceLimits: { maxOldGenerationSizeMb: memoryMiB } })
    // What one says that was given up belongs to nobody who asks now.
    thread.on('message', (answer: Answer) => void (thread === this.#thread && this.#answered(answer)))
    // It ran out of memory: the next one has another thread.
    thread.on('error', () => {})
    thread.on('exit', () => this.#lost(thread))
    return thread
  }

  /** Whoever the thread had been asked by has its answer, or gets none. */
  #over(): Waiting | undefined {
    const over = this.#asked
    clearTimeout(this.#timer)
    this.#asked = this.#busy = undefined
    return over
  }

  #answered(answer: Answer): void {
    const over = this.#over()
    // An idle thread keeps no process alive.
    if (this.#queue.length === 0) this.#thread?.unref()
    if ('result' in answer) over?.resolve(answer.result)
    else if ('refusal' in answer)
      over?.reject(new Untranslatable(answer.refusal.code, answer.refusal.message, answer.refusal.param))
    else over?.reject(new Error(answer.fault))
    this.#next()
  }

  #giveUp(thread: Worker): void {
    this.#lost(thread)
    void thread.terminate()
  }

  #lost(thread: Worker): void {
    if (thread !== this.#thread) return
    this.#thread = undefined
    // What is only being copied for it is asked of the next one.
    if (!this.#asked) return
    const over = this.#over()
    over?.reject(over.lost())
    this.#next()
  }
}

function tooInvolved(): GatewayError {
  return new GatewayError(
    'invalid_request',
    'The request is too involved to be brought into the protocol of the channel that serves this model. Send less at a time.'
  )
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
