// Translates requests and whole answers: small ones at once, large ones in threads beside the loop, where every tenant
// has its turn.
import { availableParallelism } from 'node:os'
import { setImmediate as turn } from 'node:timers/promises'
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
import { Hand } from './hand.ts'
import { Line } from './line.ts'
import type { Waiter } from './line.ts'
import type { Answer, Question } from './thread.ts'

/** Bytes up to which it is translated at once: some milliseconds, whatever it is made of. */
const smallBytes = 128 * 1024
/** Bytes from which it is large: all threads but one may be busy with such, so that others need not wait for them. */
const largeBytes = 1024 * 1024
/** Milliseconds that a thread may take for one of them: a body of the largest size takes a few seconds. */
const longest = 30_000
/** Threads for each core, but no fewer and no more than these: a large body and a small one, and memory for so many. */
const fewestThreads = 2
const mostThreads = 4
/** Bytes that are copied in one turn of the loop. */
const copiedBytes = 4 * 1024 * 1024
/** Bytes that may wait for a thread. One tenant alone may fill half of that. */
const mostWaiting = 256 * 1024 * 1024
/** Who finds no room may try again then, in milliseconds. */
const retryAfterMs = 2000

/** What was kept under ids of calls. */
type Find = (calls: readonly string[]) => ReadonlyMap<string, Keepsake>
/** The pieces of a body. They are copied when it is the body's turn, and must stay until then. */
type Pieces = readonly Uint8Array[]

/** Who asks: whose turn it is, and until when. What waits is given up when this is aborted. */
export interface Asker {
  readonly tenant: string
  readonly left: AbortSignal
}

interface Waiting extends Waiter {
  readonly pieces: Pieces
  ask(bytes: Uint8Array): Question
  /** Why there is no answer, when it takes too much. */
  tooInvolved(): GatewayError
  resolve(result: unknown): void
  reject(error: Error): void
}

/** One for all generations; its threads begin when there is something large for them. */
export class Translator {
  readonly #line = new Line<Waiting>()
  readonly #hands: readonly Hand[]
  /** Hands that are busy with something large. */
  #heavy = 0

  /** `patience`: milliseconds for one of them. */
  constructor({ patience = longest, threads = usualThreads() } = {}) {
    this.#hands = Array.from({ length: threads }, () => new Hand(patience))
  }

  /**
   * @throws Untranslatable, or rejects with it; GatewayError `invalid_request` for a request that takes too much time
   * or memory, `overloaded` when too much waits, `client_closed` when nobody wants it any more
   */
  translate(pieces: Pieces, task: RequestTask, find: Find, asker: Asker): Awaitable<TranslatedRequest> {
    const bytes = small(pieces)
    // Whoever finds what was kept leaves nothing missing.
    return bytes
      ? (translateRequest(bytes, task, find) as TranslatedRequest)
      : this.#translateBeside(pieces, task, find, asker)
  }

  /** Likewise: the member of a request that has signatures of the gateway's own, as JSON without them. */
  unseal(pieces: Pieces, protocol: CodecName, asker: Asker): Awaitable<{ key: string; json: string } | undefined> {
    const bytes = small(pieces)
    return bytes
      ? unsealRequest(bytes, protocol)
      : this.#beside(pieces, (own) => ({ kind: 'unseal', bytes: own, protocol }), requestTooInvolved, asker)
  }

  /**
   * A whole answer, when it is large: undefined for one that can be translated at once. Rejects with Untranslatable;
   * GatewayError `upstream_bad_response` for an answer that takes too much time or memory, and as requests do.
   */
  answerBeside(bytes: Buffer, task: AnswerTask, head: AnswerHead, asker: Asker): Promise<TranslatedAnswer> | undefined {
    if (bytes.length <= smallBytes) return undefined
    return this.#beside([bytes], (own) => ({ kind: 'answer', bytes: own, task, head }), answerTooInvolved, asker)
  }

  close(): void {
    for (const hand of this.#hands) hand.close()
  }

  async #translateBeside(pieces: Pieces, task: RequestTask, find: Find, asker: Asker): Promise<TranslatedRequest> {
    const ask = <T>(kept: ReadonlyMap<string, Keepsake> | undefined): Promise<T> =>
      this.#beside<T>(pieces, (bytes) => ({ kind: 'translate', bytes, task, kept }), requestTooInvolved, asker)
    const first = await ask<TranslatedRequest | readonly string[]>(undefined)
    return 'body' in first ? first : ask<TranslatedRequest>(find(first))
  }

  #beside<T>(
    pieces: Pieces,
    ask: Waiting['ask'],
    tooInvolved: Waiting['tooInvolved'],
    { tenant, left }: Asker
  ): Promise<T> {
    const size = sizeOf(pieces)
    if (this.#line.bytesOf(tenant) + size > mostWaiting - this.#line.bytes)
      return Promise.reject(
        new GatewayError('overloaded', 'Too much waits to be brought into another protocol. Try again later.', {
          retryAfterMs
        })
      )
    return new Promise((resolve, reject) => {
      const one: Waiting = { tenant, size, pieces, ask, tooInvolved, resolve: resolve as Waiting['resolve'], reject }
      const leave = (): void => {
        if (this.#line.remove(one)) reject(new GatewayError('client_closed', 'The client left.'))
      }
      left.addEventListener('abort', leave, { once: true })
      this.#line.push(one)
      if (left.aborted) leave()
      this.#next()
    })
  }

  #next(): void {
    for (const hand of this.#hands) {
      if (hand.busy) continue
      const mayBeLarge = this.#heavy < Math.max(1, this.#hands.length - 1)
      const next = this.#line.next(mayBeLarge ? Infinity : largeBytes)
      if (!next) return
      void this.#serve(hand, next)
    }
  }

  /** Never rejects. */
  async #serve(hand: Hand, one: Waiting): Promise<void> {
    const heavy = one.size > largeBytes ? 1 : 0
    hand.busy = true
    this.#heavy += heavy
    try {
      const answer = await hand.ask(one.ask(await copied(one.pieces)))
      one.resolve(resultOf(answer, one))
    } catch (cause) {
      one.reject(cause as Error)
    }
    hand.busy = false
    this.#heavy -= heavy
    this.#next()
  }
}

function usualThreads(): number {
  return Math.min(Math.max(availableParallelism(), fewestThreads), mostThreads)
}

/** @throws Untranslatable; GatewayError when there is none, as it takes too much; Error by a mistake of the thread's */
function resultOf(answer: Answer | undefined, { tooInvolved }: Waiting): unknown {
  if (!answer || 'tooInvolved' in answer) throw tooInvolved()
  if ('result' in answer) return answer.result
  if ('refusal' in answer) throw new Untranslatable(answer.refusal.code, answer.refusal.message, answer.refusal.param)
  throw new Error(answer.fault)
}

function requestTooInvolved(): GatewayError {
  return new GatewayError(
    'invalid_request',
    'The request is too involved to be brought into the protocol of the channel that serves this model. Send less at a time.'
  )
}

function answerTooInvolved(): GatewayError {
  return tooInvolved('The answer of the upstream')
}

/** What is answered when something that an upstream sent takes too much. */
export function tooInvolved(what: string): GatewayError {
  return new GatewayError(
    'upstream_bad_response',
    `${what} is too involved to be brought into the protocol of the request.`
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
