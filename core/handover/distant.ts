// The services of a thread whose process has handed the store over: what they do goes to the next process as messages.
import type { Book, Heir, KeptHold } from '../store/embedded/book/book.ts'
import type { Claims } from '../store/claims.ts'
import {
  answersThere,
  claimsThere,
  documentsThere,
  requestsThere,
  routesThere,
  secretsThere,
  sumsThere,
  workThere
} from '../store/distant/services.ts'
import type { Caller } from '../store/distant/line.ts'
import type { Hold } from '../store/embedded/balance/hold.ts'
import type { AttemptCost, Ledger, Reservation, ReserveRequest, Sale, Settlement } from '../store/ledger.ts'
import type { CountedSet, Decision, Limits } from '../store/limits.ts'
import type { Works } from '../store/works.ts'
import type { SentDecision } from './deputy.ts'
import type { StoreServices } from './faces.ts'

/** The holds that were made in the next process for exchanges of this one. */
export class DistantHolds {
  readonly ledger: Ledger
  readonly #open = new Set<DistantHold>()

  /** `before`: what is only explained is as it was when it was handed over, and so are the prices. */
  constructor(line: Caller, before: Book) {
    this.ledger = {
      reserve: async (request) => {
        const over = (): void => void this.#open.delete(hold)
        const hold = new DistantHold(request, line, over)
        // It may be on disk although no answer comes.
        this.#open.add(hold)
        await line.ask('reserve', request).catch((error: unknown) => {
          over()
          throw error
        })
        return hold
      },
      look: (request) => before.look(request),
      detached: (requestId, part) => before.detached(requestId, part),
      scopes: () => line.ask('scopes'),
      balances: (filter) => line.ask('balances', filter),
      watch: () => {},
      price: (version) => before.price(version),
      affordable: (scopes, time) => line.ask('affordable', scopes, time),
      standings: (scopes, time) => line.ask('standings', scopes, time)
    }
  }

  /** Those whose end was not acknowledged. */
  get open(): readonly KeptHold[] {
    return [...this.#open].map((hold) => hold.kept)
  }
}

/** A hold that was made in the next process for an exchange of this one. */
class DistantHold implements Reservation {
  readonly requestId: string
  readonly amount: bigint
  #sale: Sale
  readonly #part: string
  readonly #line: Caller
  readonly #over: () => void
  #channel: string | null = null
  #durable: Promise<void> | undefined
  #detached = false
  #ended = false

  /** `over` is called when its end is on disk. */
  constructor(request: ReserveRequest, line: Caller, over: () => void) {
    const { requestId, part = '', amount } = request
    this.requestId = requestId
    this.#part = part
    this.amount = amount
    this.#sale = request
    this.#line = line
    this.#over = over
  }

  get price(): Reservation['price'] {
    return this.#sale.price
  }

  /** What the process after the next one has to know of it. */
  get kept(): KeptHold {
    return { requestId: this.requestId, part: this.#part, costs: this.#sale.costs }
  }

  get detached(): boolean {
    return this.#detached && !this.#ended
  }

  get durable(): Promise<void> {
    return (this.#durable ??= this.#line.ask('durable', this.requestId, this.#part))
  }

  dispatched(channel: string, sale?: Sale): void {
    if (this.#ended) throw this.#twice()
    this.#channel = channel
    if (sale) this.#sale = sale
    this.#line.tell('touch', this.requestId, this.#part, channel, 0, true, sale)
  }

  delivered(units: number): void {
    if (!this.#ended) this.#line.tell('touch', this.requestId, this.#part, this.#channel, units, false)
  }

  detach(until: number): Promise<void> {
    if (this.#ended) throw this.#twice()
    this.#detached = true
    return (this.#durable = this.#line.ask('detach', this.requestId, this.#part, until))
  }

  settle(settlement: Settlement): Promise<void> {
    return this.#end({ settlement })
  }

  void(costs?: readonly AttemptCost[]): Promise<void> {
    return this.#end({ costs })
  }

  #end(end: Hold['end']): Promise<void> {
    if (this.#ended) throw this.#twice()
    this.#ended = true
    this.#durable = this.#line.ask<void>('end', this.requestId, this.#part, end).then(this.#over)
    return this.#durable
  }

  #twice(): Error {
    return new Error(`${this.requestId} has ended already: a reservation ends once`)
  }
}

/** Calls the deputy of one thread of this process. */
export function asThread(line: Caller, thread: number): Caller {
  return {
    ask: (name, ...args) => line.ask('as', thread, name, args),
    tell: (name, ...args) => line.tell('as', thread, name, args)
  }
}

/** All services from a distance. `before`: those that did it until now; `holds`: those that are made from now on. */
export function servicesThere(line: Caller, before: StoreServices, holds: DistantHolds): StoreServices {
  return {
    documents: documentsThere(line, before.documents),
    ledger: holds.ledger,
    requests: requestsThere(line),
    answers: answersThere(line),
    routes: routesThere(line),
    works: distantWorks(line, before.works),
    limits: distantLimits(line),
    secrets: secretsThere(line, before.secrets),
    claims: distantClaims(line, before.claims),
    sums: { ...sumsThere(line), flush: async () => {}, health: () => before.sums.health() }
  }
}

/** Tells the next process what becomes of the holds that it has taken over. */
export function distantHeir(line: Caller): Heir {
  return {
    touch({ requestId, part, progress: { channel, delivered, sale } }) {
      line.tell('touch', requestId, part, channel, delivered, true, sale)
    },
    detach: ({ requestId, part }, until) => line.ask('detach', requestId, part, until),
    end: ({ requestId, part, end }) => line.ask('end', requestId, part, end)
  }
}

function distantLimits(line: Caller): Limits {
  const received = <S extends CountedSet>(sent: SentDecision<S>): Decision<S> => {
    if (!sent.admitted) return sent
    const { lease } = sent
    let released = false
    return {
      ...sent,
      lease: {
        release(used) {
          if (!released) line.tell('release', lease, used)
          released = true
        }
      }
    }
  }
  return {
    decide: async <S extends CountedSet>(sets: readonly S[], tokens: number, within = false) =>
      received(await line.ask<SentDecision<S>>('decide', sets, tokens, within)),
    look: async <S extends CountedSet>(sets: readonly S[], tokens: number) =>
      received(await line.ask<SentDecision<S>>('look', sets, tokens))
  }
}

/** Names are claimed there, and noted here for the case that the next process fails. */
function distantClaims(line: Caller, before: Claims): Claims {
  const there = claimsThere(line)
  return {
    async take(name, what) {
      const taken = await there.take(name, what)
      if (!taken) await before.take(name, what)
      return taken
    },
    look: (name) => there.look(name),
    leave(name) {
      before.leave(name)
      there.leave(name)
    }
  }
}

/** Open work is known here as the exchanges of this process know it; their results are files, and written by it. */
function distantWorks(line: Caller, before: Works): Works {
  return {
    ...workThere(line),
    open: () => before.open(),
    get running() {
      return before.running
    },
    runningOf: (tenant) => before.runningOf(tenant),
    current: (owner, id) => before.current(owner, id),
    at: (account, upstreamId) => before.at(account, upstreamId),
    errand: () => undefined,
    // The threads of this process go on with what they make, and ask each other for it as before.
    told: (work, from, seat) => before.told(work, from, seat),
    put(work) {
      before.note(work)
      return line.ask('putWork', work)
    },
    note(work) {
      before.note(work)
      line.tell('noteWork', work)
    },
    get room() {
      return before.room
    },
    flushed: async () => true,
    expired: async () => [],
    sweep: async () => 0,
    keepResult: (work, bytes) => before.keepResult(work, bytes),
    result: (work) => before.result(work)
  }
}
