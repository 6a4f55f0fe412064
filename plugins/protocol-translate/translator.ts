// Translates requests and whole answers: small ones at once, large ones in threads, in which all tenants get their
// share.
import { availableParallelism } from 'node:os'
import { setImmediate as turn } from 'node:timers/promises'
import { GatewayError, translateRequest, unsealRequest, Untranslatable } from '../../core/contract/contract.ts'
import type {
  Allowance,
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

/** Bodies up to this many bytes are translated at once, which takes some milliseconds at most. */
const smallBytes = 128 * 1024
/**
 * Bodies above this many bytes are large. One thread is kept free of them, so that smaller ones need not wait for them.
 */
const largeBytes = 1024 * 1024
/** The most milliseconds for one task in a thread. A body of the largest size takes a few seconds. */
const longest = 30_000
/**
 * There is one thread per core, but at least two, for a large and a small body, and at most four, because of the
 * memory.
 */
const fewestThreads = 2
const mostThreads = 4
/** The bytes that are copied in one turn of the event loop. */
const copiedBytes = 4 * 1024 * 1024
/** The most bytes that may wait for a thread. One tenant alone may have half of them. */
const mostWaiting = 256 * 1024 * 1024
/** When there is no room, the client may try again after this many milliseconds. */
const retryAfterMs = 2000

/** Finds the keepsakes of calls by the ids of the calls. */
type Find = (calls: readonly string[]) => Awaitable<ReadonlyMap<string, Keepsake>>
/** The pieces of a body. They are copied when the task begins, and must not change until then. */
type Pieces = readonly Uint8Array[]

/** The tenant whose share is used. The task is removed from the queue when `left` is aborted. */
export interface Asker {
  readonly tenant: string
  readonly left: AbortSignal
}

interface Waiting extends Waiter {
  readonly pieces: Pieces
  ask(bytes: Uint8Array): Question
  /** Makes the error for a task that takes too much time or memory. */
  tooInvolved(): GatewayError
  resolve(result: unknown): void
  reject(error: Error): void
}

/** Translates for all generations. Its threads are started when there is a large task. */
export class Translator {
  readonly #line = new Line<Waiting>()
  /** The bytes that wait in all threads of the gateway. */
  readonly #waiting: Allowance
  readonly #hands: readonly Hand[]
  /** The number of threads that have a large task. */
  #heavy = 0

  /** `patience`: the most milliseconds for one task. */
  constructor(waiting: Allowance, { patience = longest, threads = usualThreads() } = {}) {
    this.#waiting = waiting
    this.#hands = Array.from({ length: threads }, () => new Hand(patience))
  }

  /**
   * Translates a request.
   * @throws Untranslatable, or rejects with it; GatewayError `invalid_request` for a request that takes too much time
   * or memory, `overloaded` when too much waits, `client_closed` when the client has left
   */
  translate(pieces: Pieces, task: RequestTask, find: Find, asker: Asker): Awaitable<TranslatedRequest> {
    const bytes = small(pieces)
    return bytes ? translateHere(bytes, task, find) : this.#translateBeside(pieces, task, find, asker)
  }

  /**
   * Finds the member of a request that has signatures of the gateway, and gives it as JSON without them. Throws as
   * {@link translate} does.
   */
  unseal(pieces: Pieces, protocol: CodecName, asker: Asker): Awaitable<{ key: string; json: string } | undefined> {
    const bytes = small(pieces)
    return bytes
      ? unsealRequest(bytes, protocol)
      : this.#beside(pieces, (own) => ({ kind: 'unseal', bytes: own, protocol }), requestTooInvolved, asker)
  }

  /**
   * Translates a large answer; undefined for one that can be translated at once. Rejects with Untranslatable, with
   * GatewayError `answer_too_large` for an answer that takes too much time or memory, and with `overloaded` and
   * `client_closed` as {@link translate} does.
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
    return 'body' in first ? first : ask<TranslatedRequest>(await find(first))
  }

  #beside<T>(
    pieces: Pieces,
    ask: Waiting['ask'],
    tooInvolved: Waiting['tooInvolved'],
    { tenant, left }: Asker
  ): Promise<T> {
    const size = sizeOf(pieces)
    if (!this.#waiting.take(size, mostWaiting - this.#line.bytesOf(tenant)))
      return Promise.reject(
        new GatewayError('overloaded', 'Too much waits to be brought into another protocol. Try again later.', {
          retryAfterMs
        })
      )
    return new Promise((resolve, reject) => {
      const one: Waiting = { tenant, size, pieces, ask, tooInvolved, resolve: resolve as Waiting['resolve'], reject }
      const leave = (): void => {
        if (!this.#line.remove(one)) return
        this.#waiting.give(size)
        reject(new GatewayError('client_closed', 'The client left.'))
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
      this.#waiting.give(next.size)
      void this.#serve(hand, next)
    }
  }

  /** Runs a task in a thread. Never rejects. */
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

/**
 * The result of a task.
 * @throws Untranslatable; GatewayError when the task took too much; Error for a bug in the thread
 */
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

/** The error when something that an upstream sent takes too much to translate. */
export function tooInvolved(what: string): GatewayError {
  return new GatewayError(
    'answer_too_large',
    `${what} is too involved to be brought into the protocol of the request. Ask for less at a time.`
  )
}

/** One copy of all pieces, made over several turns of the event loop, because new memory is slow to write to. */
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

/** The bytes of a request that is small enough to be translated at once. */
function small(pieces: Pieces): Buffer | undefined {
  return sizeOf(pieces) > smallBytes ? undefined : Buffer.concat(pieces)
}

/** Translates in one go, or a second time when what was kept is there: where other threads have to be asked for it. */
function translateHere(bytes: Buffer, task: RequestTask, find: Find): Awaitable<TranslatedRequest> {
  let late: Promise<ReadonlyMap<string, Keepsake>> | undefined
  const translated = translateRequest(bytes, task, (calls) => {
    const found = find(calls)
    if (!(found instanceof Promise)) return found
    late = found
    return new Map()
  }) as TranslatedRequest
  return late ? late.then((found) => translateRequest(bytes, task, () => found) as TranslatedRequest) : translated
}
