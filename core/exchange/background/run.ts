// An exchange that goes on after its client was answered: who stands in for the client, and how many go on at a time.
import type { Client } from '../../clients/client.ts'
import { GatewayError } from '../../errors.ts'
import type { Work, Works } from '../../store/works.ts'
import { clientClosed } from '../attempts.ts'
import type { LiveExchange } from '../exchange.ts'

/** Of a result. */
const resultBytes = 64 * 1024 * 1024

/** One of them. */
export class Run {
  readonly work: Work
  /** Takes the answer in the place of the client. */
  readonly client: Client
  /** Its work was called off. */
  cancelled = false
  /** What it was ended with, before it was done. */
  failure: GatewayError | undefined
  /** It has a place in the pool. */
  placed = false
  /** Resolves when it is settled. */
  readonly over: Promise<void>
  readonly #exchange: LiveExchange
  readonly #works: Works
  readonly #chunks: Buffer[] = []
  #length = 0
  #answered = false
  #end!: () => void
  readonly #pool: Pool

  constructor(exchange: LiveExchange, work: Work, works: Works, pool: Pool) {
    this.#exchange = exchange
    this.#pool = pool
    this.work = work
    this.#works = works
    this.over = new Promise((resolve) => (this.#end = resolve))
    this.client = this.#standIn()
  }

  /** Ends it, wherever it is, with an error. What has been answered to its end stays answered. */
  fail(error: GatewayError): void {
    if (this.#answered) return
    this.failure ??= error
    // Wherever it is on its way, nothing is begun for it any more.
    this.#exchange.gone = true
    this.#pool.withdraw(this, error)
    this.#exchange.abort()
    this.#exchange.relay?.fail(error)
  }

  cancel(): void {
    this.cancelled = true
    this.fail(clientClosed())
  }

  /** Resolves when what was answered is kept as the result; `last` is the end of it. @throws GatewayError when it cannot be kept */
  async keep(last: Buffer): Promise<void> {
    this.#answered = true
    try {
      await this.#works.keepResult(this.work, Buffer.concat([...this.#chunks, last]))
    } catch (cause) {
      throw new GatewayError('internal_error', 'The result could not be kept.', { cause })
    }
  }

  /** It is settled. */
  settled(): void {
    this.#chunks.length = 0
    this.#end()
  }

  #take(bytes: Buffer): void {
    this.#length += bytes.length
    if (this.#length > resultBytes) return this.fail(new GatewayError('upstream_bad_response', `The result is larger than ${resultBytes / 1024 / 1024} MiB.`))
    this.#chunks.push(bytes)
  }

  /** Never leaves, and takes what comes. */
  #standIn(): Client {
    let headSent = false
    return {
      reply: () => {},
      head: () => void (headSent = true),
      write: (bytes) => {
        this.#take(bytes)
        return true
      },
      end: () => {},
      cut: () => {},
      gone: false,
      get headSent() {
        return headSent
      },
      origin: undefined,
      onDrain: null,
      onGone: null
    }
  }
}

/** Lets so many go on at a time, the others in the order in which they came. */
export class Pool {
  readonly #waiting = new Map<Run, PromiseWithResolvers<void>>()
  #running = 0

  /** How many wait. */
  get waiting(): number {
    return this.#waiting.size
  }

  /** Resolves when it is its turn; {@link Pool.leave} gives the place back. `most`: how many go on at a time. */
  enter(run: Run, most: number): Promise<void> {
    if (run.failure) return Promise.reject(run.failure)
    if (this.#running < most) {
      this.#running++
      run.placed = true
      return Promise.resolve()
    }
    const turn = Promise.withResolvers<void>()
    this.#waiting.set(run, turn)
    return turn.promise
  }

  /** It waits no more. */
  withdraw(run: Run, error: GatewayError): void {
    const turn = this.#waiting.get(run)
    this.#waiting.delete(run)
    turn?.reject(error)
  }

  /** It is over: somebody else has its place, if it had one. */
  leave(run: Run): void {
    if (!run.placed) return
    const [next] = this.#waiting
    if (!next) return void this.#running--
    const [heir, turn] = next
    this.#waiting.delete(heir)
    heir.placed = true
    turn.resolve()
  }
}
