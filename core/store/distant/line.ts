// The line between two processes or threads of a gateway: each calls functions of the other, in order.
import { asGatewayError, GatewayError } from '../../errors.ts'
import type { ErrorCode, ErrorDetails } from '../../errors.ts'

/** What carries the messages: the IPC channel of a child process, or the port of a thread, as either side has it. */
export interface Port {
  send(message: object, sent: (error: Error | null) => void): unknown
  on(event: 'message', take: (message: unknown) => void): unknown
  on(event: 'disconnect', tell: () => void): unknown
  disconnect?(): void
}

/** The functions that the other process may call, by name. */
export type Served = Readonly<Record<string, (...args: never[]) => unknown>>

/** A call of a function of the other process. */
export interface Call {
  readonly name: string
  readonly args: readonly unknown[]
  /** Undefined for a call whose result nobody wants. */
  readonly id: number | undefined
}

/** The calls of one turn of the event loop, which the other process runs in one turn too. */
export interface Batch {
  readonly calls: readonly Call[]
}

interface Reply {
  readonly id: number
  readonly value?: unknown
  readonly error?: Thrown
}

/** A batch with calls that were not answered yet. */
interface Unanswered extends Batch {
  /** How many. */
  open: number
}

/** Who waits for the result of a call. */
interface Waiting extends PromiseWithResolvers<unknown> {
  /** Undefined until the call is on its way. */
  batch: Unanswered | undefined
}

/** An error on its way. One that is no {@link GatewayError} has no code. */
interface Thrown {
  readonly code: ErrorCode | undefined
  readonly message: string
  readonly details: ErrorDetails | undefined
}

/** Runs the calls of a batch, and answers each as soon as its result is there. */
export function runBatch({ calls }: Batch, served: Served, answer: (reply: Reply) => void): void {
  for (const { name, args, id } of calls) {
    const failed = (error: unknown): void => {
      if (id !== undefined) answer({ id, error: thrownOf(error) })
    }
    try {
      const result = (served[name] as (...args: unknown[]) => unknown)(...args)
      if (id === undefined) continue
      if (result instanceof Promise) result.then((value: unknown) => answer({ id, value }), failed)
      else answer({ id, value: result })
    } catch (error) {
      failed(error)
    }
  }
}

/** Calls functions of the other end. */
export type Caller = Pick<Line, 'ask' | 'tell'>

/** One end of the line. Calls wait until the other end serves. */
export class Line {
  /** Resolves when the other process has gone, or has hung up. */
  readonly closed: Promise<void>
  #deliver: (batch: Batch) => void
  #queue: Call[] = []
  #scheduled = false
  #last = 0
  /** By the ids of the calls. */
  readonly #waiting = new Map<number, Waiting>()
  /** Oldest first. */
  readonly #unanswered = new Set<Unanswered>()
  readonly #port: Port
  /** Called for each message that is said beside the calls. */
  onSaid: (message: { readonly kind: string }) => void = () => {}
  #served: Served | undefined
  #unserved: Batch[] = []
  #replies: Reply[] = []
  #over = false

  constructor(port: Port) {
    this.#port = port
    this.#deliver = (batch) => this.#send(batch)
    port.on('message', (message) => this.#take(message as Batch | { replies: readonly Reply[] } | { kind: string }))
    this.closed = new Promise((resolve) => {
      port.on('disconnect', () => {
        this.#over = true
        resolve()
      })
    })
  }

  /**
   * Calls a function of the other process. All calls of one turn of the event loop arrive together.
   * @throws GatewayError as the function throws it, `billing_unavailable` when there is nobody to call any more
   */
  ask<T>(name: string, ...args: readonly unknown[]): Promise<T> {
    const id = ++this.#last
    const waiting: Waiting = { ...Promise.withResolvers<unknown>(), batch: undefined }
    this.#waiting.set(id, waiting)
    this.#enqueue({ name, args, id })
    return waiting.promise as Promise<T>
  }

  /** The same for a call whose result nobody wants. */
  tell(name: string, ...args: readonly unknown[]): void {
    this.#enqueue({ name, args, id: undefined })
  }

  /** Says something beside the calls, at once. */
  say(message: { readonly kind: string }): void {
    this.#send(message)
  }

  /** Lets the other process call functions from now on, beginning with the calls that wait. */
  serve(served: Served): void {
    this.#served = served
    for (const batch of this.#unserved.splice(0)) this.#run(batch)
  }

  /**
   * The other process has gone: from now on this process runs the calls itself. Of a batch with calls that were not
   * answered, it runs again what `again` says; whoever waits for another call of it is told that it was done.
   */
  divert(served: Served, again: (calls: readonly Call[], isOpen: (call: Call) => boolean) => readonly Call[]): void {
    this.#deliver = (batch) => runBatch(batch, served, (reply) => this.#settle(reply))
    for (const batch of this.#unanswered) {
      const calls = again(batch.calls, ({ id }) => id !== undefined && this.#waiting.has(id))
      const repeated = new Set(calls.map(({ id }) => id))
      for (const { id } of batch.calls) if (id !== undefined && !repeated.has(id)) this.#settle({ id })
      this.#deliver({ calls })
    }
  }

  /** Nobody can answer any more: whoever waits, or asks from now on, is told so. */
  fail(): void {
    const lost = { id: 0, error: thrownOf(unreachable()) }
    this.#deliver = ({ calls }) => {
      for (const { id } of calls) if (id !== undefined) this.#settle({ ...lost, id })
    }
    for (const id of this.#waiting.keys()) this.#settle({ ...lost, id })
  }

  /** Ends the line once everything is sent. */
  hangUp(): void {
    setImmediate(() => {
      if (!this.#over) this.#port.disconnect?.()
    })
  }

  #enqueue(call: Call): void {
    this.#queue.push(call)
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => this.#flush())
  }

  #flush(): void {
    this.#scheduled = false
    if (this.#queue.length === 0) return
    const calls = this.#queue
    this.#queue = []
    const batch: Unanswered = { calls, open: 0 }
    for (const { id } of calls) {
      const waiting = id === undefined ? undefined : this.#waiting.get(id)
      if (!waiting) continue
      waiting.batch = batch
      batch.open++
    }
    if (batch.open > 0) this.#unanswered.add(batch)
    this.#deliver({ calls })
  }

  #send(message: object): void {
    // What cannot be sent any more is dealt with when the line has closed.
    if (!this.#over) this.#port.send(message, () => {})
  }

  #take(message: Batch | { replies: readonly Reply[] } | { kind: string }): void {
    if ('kind' in message) this.onSaid(message)
    else if ('replies' in message) for (const reply of message.replies) this.#settle(reply)
    else if (this.#served) this.#run(message)
    else this.#unserved.push(message)
  }

  #run(batch: Batch): void {
    runBatch(batch, this.#served!, (reply) => {
      if (this.#replies.push(reply) > 1) return
      setImmediate(() => {
        // What was called before an answer arrives before it.
        this.#flush()
        this.#send({ replies: this.#replies.splice(0) })
      })
    })
  }

  #settle({ id, value, error }: Reply): void {
    const waiting = this.#waiting.get(id)
    if (!waiting) return
    this.#waiting.delete(id)
    const { batch } = waiting
    if (batch && --batch.open === 0) this.#unanswered.delete(batch)
    if (error) waiting.reject(errorOf(error))
    else waiting.resolve(value)
  }
}

/** What a client is told whose request nobody can account for any more. */
function unreachable(): GatewayError {
  return new GatewayError('billing_unavailable', 'Requests cannot be accounted for at the moment. Try again.', {
    retryAfterMs: 1000,
    cause: 'the process that has the store is gone'
  })
}

function thrownOf(error: unknown): Thrown {
  if (!(error instanceof GatewayError)) return { code: undefined, message: String(error), details: undefined }
  const { code, message, details } = asGatewayError(error)
  return {
    code,
    message,
    details: { ...details, cause: details.cause === undefined ? undefined : String(details.cause) }
  }
}

function errorOf({ code, message, details }: Thrown): Error {
  return code === undefined ? new Error(message) : new GatewayError(code, message, details)
}
