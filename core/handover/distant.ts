// The services of a process that has handed the store over: what they do goes to the next process as messages.
import type { Answers } from '../store/answers.ts'
import type { Book, Heir, KeptHold } from '../store/embedded/book/book.ts'
import type { Claims } from '../store/claims.ts'
import type { Documents } from '../store/documents.ts'
import type { Hold } from '../store/embedded/balance/hold.ts'
import type { AttemptCost, Ledger, Reservation, ReserveRequest, Sale, Settlement } from '../store/ledger.ts'
import type { CountedSet, Decision, Limits } from '../store/limits.ts'
import type { RequestBook } from '../store/requests.ts'
import type { Routes } from '../store/routes.ts'
import type { Secrets } from '../store/secrets.ts'
import type { Works } from '../store/works.ts'
import type { SentDecision } from './deputy.ts'
import type { Line } from './line.ts'

/** The holds that were made in the next process for exchanges of this one. */
export class DistantHolds {
  readonly ledger: Ledger
  readonly #open = new Set<DistantHold>()

  /** `before`: what is only explained is as it was when it was handed over, and so are the prices. */
  constructor(line: Line, before: Book) {
    this.ledger = {
      reserve: async (request) => {
        await line.ask('reserve', request)
        const hold = new DistantHold(request, line, () => void this.#open.delete(hold))
        this.#open.add(hold)
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
  readonly #line: Line
  readonly #over: () => void
  #channel: string | null = null
  #durable: Promise<void> | undefined
  #ended = false

  /** `over` is called when its end is on disk. */
  constructor(request: ReserveRequest, line: Line, over: () => void) {
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

/** Tells the next process what becomes of the holds that it has taken over. */
export function distantHeir(line: Line): Heir {
  return {
    touch({ requestId, part, progress: { channel, delivered, sale } }) {
      line.tell('touch', requestId, part, channel, delivered, true, sale)
    },
    detach: ({ requestId, part }, until) => line.ask('detach', requestId, part, until),
    end: ({ requestId, part, end }) => line.ask('end', requestId, part, end)
  }
}

export function distantLimits(line: Line): Limits {
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

export function distantRequests(line: Line): RequestBook {
  return {
    append: (...record) => line.tell('append', ...record),
    list: (query) => line.ask('list', query),
    find: (id, tenant) => line.ask('findRequest', id, tenant),
    totals: (query, parts) => line.ask('totals', query, parts)
  }
}

export function distantAnswers(line: Line): Answers {
  return {
    find: (id) => line.ask('findAnswer', id),
    put: (id, tenant, answer) => line.ask('putAnswer', id, tenant, answer)
  }
}

export function distantRoutes(line: Line): Routes {
  return {
    find: (owner, id) => line.ask('findRoute', owner, id),
    put: (routes) => line.ask('putRoutes', routes),
    remove: (owner, id) => line.ask('removeRoute', owner, id)
  }
}

/** Reads are of the documents in this process, which follow those of the next one. */
export function distantDocuments(line: Line, before: Documents): Documents {
  return {
    all: (kind) => before.all(kind),
    find: (kind, id) => before.find(kind, id),
    change: (changes, entry) => line.ask('change', changes, entry),
    note: (changes) => line.tell('note', changes),
    watch: (tell) => before.watch(tell),
    audit: (query) => line.ask('audit', query)
  }
}

/** Secrets are among the documents. What is spent with them is counted there, for both processes. */
export function distantSecrets(line: Line, before: Secrets): Secrets {
  return {
    put: (secret) => before.put(secret),
    find: (sha256) => before.find(sha256),
    spent: (sha256) => line.ask('spentOfSecret', sha256),
    hold: (sha256, name, amount) => line.ask('holdOfSecret', sha256, name, amount),
    end: (sha256, name, charged) => line.tell('endOfSecret', sha256, name, charged)
  }
}

/** Names are claimed there, and noted here for the case that the next process fails. */
export function distantClaims(line: Line, before: Claims): Claims {
  return {
    async take(name, what) {
      const taken = await line.ask<Buffer | undefined>('claim', name, what)
      if (!taken) await before.take(name, what)
      return taken
    },
    look: (name) => line.ask('lookAtClaim', name),
    leave(name) {
      before.leave(name)
      line.tell('leaveClaim', name)
    }
  }
}

/** Open work is known here as the exchanges of this process know it; their results are files, and written by it. */
export function distantWorks(line: Line, before: Works): Works {
  return {
    open: () => before.open(),
    get running() {
      return before.running
    },
    runningOf: (tenant) => before.runningOf(tenant),
    current: (owner, id) => before.current(owner, id),
    at: (account, upstreamId) => before.at(account, upstreamId),
    errand: () => undefined,
    put(work) {
      before.note(work)
      return line.ask('putWork', work)
    },
    note(work) {
      before.note(work)
      line.tell('noteWork', work)
    },
    find: (owner, id) => line.ask('findWork', owner, id),
    list: (query) => line.ask('listWork', query),
    forget: (work) => line.ask('forgetWork', work),
    oldest: (tenant, limit) => line.ask('oldestWork', tenant, limit),
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
