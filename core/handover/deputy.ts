// Does for a process what it cannot do any more since it handed the store over: ends its holds, releases its leases,
// writes what it has to write, and looks up what it asks for.
import type { BackgroundWork } from '../exchange/background/background.ts'
import { GatewayError } from '../errors.ts'
import { formatDollars } from '../money/money.ts'
import type { Book, KeptHold } from '../store/embedded/book/book.ts'
import { Clerk } from '../store/distant/clerk.ts'
import type { Served } from '../store/distant/line.ts'
import { endAbandoned } from '../store/embedded/abandoned.ts'
import type { Hold, HoldEnd } from '../store/embedded/balance/hold.ts'
import type { Reservation, ReserveRequest, Sale } from '../store/ledger.ts'
import type { CountedSet, Decision, Lease } from '../store/limits.ts'
import type { Services } from '../store/services.ts'
import type { Store } from '../store/store.ts'
import { isOpen } from '../store/works.ts'
import type { Work } from '../store/works.ts'
import type { Logger } from '../telling/log.ts'

/** A decision as it is sent: its lease stays here, under a name. */
export type SentDecision<S extends CountedSet = CountedSet> =
  | (Omit<Extract<Decision<S>, { admitted: true }>, 'lease'> & { readonly lease: string })
  | Extract<Decision<S>, { admitted: false }>

/** What a deputy works with. */
export interface DeputyParts {
  services: Services
  store: Pick<Store, 'requests' | 'spend' | 'traffic'>
  background: Pick<BackgroundWork, 'attendFor' | 'takeUp'>
  log: Logger
  /** Has the process that this one has handed over to end holds by estimate, by their names. */
  passOn(names: readonly string[]): void
}

/** What a thread has left when its process handed over; see {@link Part}. `leases`: those that it had taken itself. */
export interface Left {
  readonly holds: readonly KeptHold[]
  readonly running: readonly string[]
  readonly leases: Map<string, Lease>
  /** Their names. */
  readonly claims: readonly string[]
}

/** The deputy of one thread of a process, in the process that took its place. */
export class Deputy {
  readonly #parts: DeputyParts
  readonly #book: Pick<Book, 'left'>
  /** The holds that are not its own, by {@link nameOf}. */
  readonly #holds = new Map<string, Reservation>()
  readonly #leases: Map<string, Lease>
  #lastLease = 0
  readonly #clerk: Clerk
  /** Work whose exchange that process goes on with, by the id of the request. */
  readonly #attended = new Map<string, Work>()

  /** The holds are in `book`. */
  constructor(parts: DeputyParts, book: Pick<Book, 'find' | 'left'>, { holds, leases, running, claims }: Left) {
    this.#parts = parts
    this.#book = book
    this.#leases = leases
    this.#clerk = new Clerk(parts, claims)
    for (const { requestId, part } of holds) {
      const hold = book.find(requestId, part)
      if (hold) this.#holds.set(nameOf(requestId, part), hold)
    }
    const going = new Set(running)
    for (const work of parts.services.works.open()) if (going.has(work.requestId)) this.#attend(work)
  }

  /** Whether a hold has not ended. */
  has(requestId: string, part: string): boolean {
    return this.#holds.has(nameOf(requestId, part))
  }

  /** The functions that the process may call. */
  get served(): Served {
    const { ledger, requests, answers, routes, works, limits } = this.#parts.services
    return {
      ...this.#clerk.served,
      reserve: (request: ReserveRequest) => this.#reserve(request),
      durable: (requestId: string, part: string) => this.#hold(requestId, part).durable,
      touch: (
        requestId: string,
        part: string,
        channel: string | null,
        delivered: number,
        moved: boolean,
        sale?: Sale
      ) => {
        const hold = this.#holds.get(nameOf(requestId, part))
        if (moved && channel !== null) hold?.dispatched(channel, sale)
        hold?.delivered(delivered)
      },
      detach: (requestId: string, part: string, until: number) => this.#hold(requestId, part).detach(until),
      end: (requestId: string, part: string, end: HoldEnd) => this.#end(requestId, part, end),
      abandon: (names: readonly string[]) => this.#abandon(names),
      scopes: () => ledger.scopes(),
      balances: (...filter: Parameters<typeof ledger.balances>) => ledger.balances(...filter),
      affordable: (...scopes: Parameters<typeof ledger.affordable>) => ledger.affordable(...scopes),
      standings: (...scopes: Parameters<typeof ledger.standings>) => ledger.standings(...scopes),
      decide: (sets: readonly CountedSet[], tokens: number, within: boolean) => this.#decide(sets, tokens, within),
      look: async (sets: readonly CountedSet[], tokens: number) => {
        const decision = await limits.look(sets, tokens)
        return decision.admitted ? { ...decision, lease: '' } : decision
      },
      release: (lease: string, used: number | undefined) => {
        this.#leases.get(lease)?.release(used)
        this.#leases.delete(lease)
      },
      append: (...record: Parameters<typeof requests.append>) => requests.append(...record),
      putAnswer: (...answer: Parameters<typeof answers.put>) => answers.put(...answer),
      putRoutes: (...all: Parameters<typeof routes.put>) => routes.put(...all),
      putWork: (work: Work) => this.#put(work),
      noteWork: (work: Work) => {
        this.#attend(work)
        works.note(work)
      },
      takeUp: (work: Work) => this.#takeUp(work)
    }
  }

  /** The process is gone. Ends what it has left open, as a start does after a crash. */
  end(): void {
    for (const lease of this.#leases.values()) lease.release(undefined)
    this.#leases.clear()
    this.#clerk.end()
    this.#abandon([...this.#holds.keys()])
    for (const work of this.#attended.values()) this.#takeUp(work)
  }

  /** Ends holds, by their names. Those of work that goes on are the work's, which may have ended some by now. */
  #abandon(names: readonly string[]): void {
    const { services, log, passOn } = this.#parts
    const left = names.flatMap((name) => this.#holds.get(name) ?? [])
    for (const name of names) this.#holds.delete(name)
    // Only whoever has the store knows all that the requests were charged.
    if (this.#book.left) return passOn(names)
    const holds = (left as Hold[]).filter(({ detached, ended }) => !detached && !ended)
    const total = endAbandoned(holds, services.requests, log)
    if (holds.length > 0)
      log.warn('a process that had handed over left requests open: they were ended and charged by estimate', {
        requests: holds.length,
        charged_usd: formatDollars(total)
      })
  }

  /** @throws GatewayError `billing_unavailable` for a hold that was lost with the process that made it */
  #hold(requestId: string, part: string): Reservation {
    const hold = this.#holds.get(nameOf(requestId, part))
    if (hold) return hold
    throw new GatewayError('billing_unavailable', 'The request cannot be accounted for any more. Try again.', {
      retryAfterMs: 1000
    })
  }

  async #reserve(request: ReserveRequest): Promise<void> {
    // The call is repeated, and the hold was on disk.
    if (this.#holds.has(nameOf(request.requestId, request.part))) return
    const reservation = await this.#parts.services.ledger.reserve(request)
    this.#holds.set(nameOf(request.requestId, request.part), reservation)
  }

  #end(requestId: string, part: string, end: HoldEnd): Promise<void> {
    const name = nameOf(requestId, part)
    const hold = this.#holds.get(name)
    // It ended before a call that is repeated.
    if (!hold) return Promise.resolve()
    this.#holds.delete(name)
    return 'settlement' in end ? hold.settle(end.settlement) : hold.void(end.costs)
  }

  async #decide(sets: readonly CountedSet[], tokens: number, within: boolean): Promise<SentDecision> {
    const decision = await this.#parts.services.limits.decide(sets, tokens, within)
    if (!decision.admitted) return decision
    const lease = `new ${++this.#lastLease}`
    this.#leases.set(lease, decision.lease)
    return { ...decision, lease }
  }

  #put(work: Work): Promise<void> {
    if (isOpen(work)) this.#attend(work)
    else this.#attended.delete(work.requestId)
    return this.#parts.services.works.put(work)
  }

  #attend(work: Work): void {
    if (!isOpen(work)) return
    this.#attended.set(work.requestId, work)
    this.#parts.background.attendFor(work)
  }

  /** The exchange of the work has left it: it goes on in this process. */
  #takeUp(work: Work): void {
    this.#attended.delete(work.requestId)
    this.#parts.background.takeUp(work)
  }
}

function nameOf(requestId: string, part = ''): string {
  return `${requestId} ${part}`
}
