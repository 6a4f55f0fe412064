// Who has the store: this process, or the next one, which it was handed over to.
import type { BackgroundWork } from '../exchange/background/background.ts'
import type { KeptHold } from '../store/embedded/book/book.ts'
import type { FilePlace } from '../catalogue/store-place.ts'
import type { StoreSettings } from '../catalogue/settings.ts'
import type { Server } from '../clients/server.ts'
import type { Claims } from '../store/claims.ts'
import type { Hold } from '../store/embedded/balance/hold.ts'
import type { DocumentBook } from '../store/embedded/book/document-book.ts'
import type { Line } from '../store/distant/line.ts'
import { answersThere, documentsThere, requestsThere, routesThere, secretsThere } from '../store/distant/services.ts'
import type { Lease, Limits } from '../store/limits.ts'
import { MemoryClaims } from '../store/memory/claims.ts'
import { MemoryLimits } from '../store/memory/limits.ts'
import { SecretBook } from '../store/embedded/book/secret-book.ts'
import type { Secrets } from '../store/secrets.ts'
import type { Services } from '../store/services.ts'
import { openStore } from '../store/embedded/store.ts'
import type { OwnStore, StoreOptions } from '../store/embedded/store.ts'
import { volumeRows } from '../store/embedded/upkeep/upkeep.ts'
import type { Store } from '../store/store.ts'
import type { Logger } from '../telling/log.ts'
import { Deputy } from './deputy.ts'
import type { DeputyParts, Left } from './deputy.ts'
import { DistantHolds, distantClaims, distantHeir, distantLimits, distantWorks } from './distant.ts'
import type { Estate } from './messages.ts'
import type { Going, Left as HandedOver, Opened } from './opened.ts'
import type { Predecessor } from './predecessor.ts'
import { switchable } from './switch.ts'
import { whenFree } from './when-free.ts'

/**
 * Milliseconds after a start in which the store deletes nothing because of its age: the machine's clock may still be
 * wrong.
 */
const clockPatience = 600_000

/**
 * The store of one process in a SQLite file, and what belongs to it in memory, as everybody in the process has it from
 * start to end.
 */
export class Custody implements Opened {
  readonly store: Store
  readonly limits: Limits
  readonly secrets: Secrets
  readonly claims: Claims
  readonly #reopen: (kept: readonly KeptHold[]) => Promise<OwnStore>
  readonly #ownLimits = new MemoryLimits()
  /** They are documents of the store, whichever process has it. */
  readonly #ownSecrets: Secrets
  readonly #ownClaims = new MemoryClaims()
  readonly #switches
  /** Undefined while the next process has it. */
  #own: OwnStore | undefined
  /** The store that was handed over, with the holds that this process must end. */
  #before: { store: OwnStore; distant: DistantHolds; running: readonly string[] } | undefined
  #line: Line | undefined
  /** What the process before has left, and its leases by their names. */
  #estate: (Estate & { readonly leases: Map<string, Lease> }) | undefined

  /** Opens a store; `estate`: what the process before has left. */
  static async open(settings: StoreSettings & FilePlace, estate: Estate | undefined, log: Logger): Promise<Custody> {
    const options = storeOptionsOf(settings, log)
    const open = (kept: readonly KeptHold[], busy = true): Promise<OwnStore> => openStore({ ...options, kept, busy })
    const custody = new Custody(await (estate ? whenFree(() => open(estate.holds)) : open([], false)), open)
    if (estate) custody.#estate = { ...estate, leases: custody.adopt(estate) }
    return custody
  }

  /** `reopen` opens the store again, if the next process fails. */
  constructor(own: OwnStore, reopen: (kept: readonly KeptHold[]) => Promise<OwnStore>) {
    this.#own = own
    this.#reopen = reopen
    const documents = switchable<Store['documents']>(own.documents, {
      all: true,
      find: true,
      change: true,
      note: true,
      watch: true,
      audit: true
    })
    this.#ownSecrets = new SecretBook(documents.face)
    const switches = {
      documents,
      ledger: switchable<Store['ledger']>(own.ledger, {
        reserve: true,
        look: true,
        detached: true,
        scopes: true,
        balances: true,
        watch: true,
        price: true,
        affordable: true,
        standings: true
      }),
      requests: switchable<Store['requests']>(own.requests, { append: true, list: true, find: true, totals: true }),
      answers: switchable<Store['answers']>(own.answers, { find: true, put: true }),
      routes: switchable<Store['routes']>(own.routes, { find: true, put: true, remove: true }),
      works: switchable<Store['works']>(own.works, {
        open: true,
        running: true,
        runningOf: true,
        current: true,
        at: true,
        errand: true,
        put: true,
        note: true,
        find: true,
        list: true,
        forget: true,
        oldest: true,
        room: true,
        places: true,
        flushed: true,
        expired: true,
        sweep: true,
        keepResult: true,
        result: true
      }),
      limits: switchable<Limits>(this.#ownLimits, { decide: true, look: true }),
      secrets: switchable<Secrets>(this.#ownSecrets, { put: true, find: true, spent: true, hold: true, end: true }),
      claims: switchable<Claims>(this.#ownClaims, { take: true, look: true, leave: true })
    }
    this.#switches = switches
    this.limits = switches.limits.face
    this.secrets = switches.secrets.face
    this.claims = switches.claims.face
    this.store = {
      documents: switches.documents.face,
      ledger: switches.ledger.face,
      requests: switches.requests.face,
      answers: switches.answers.face,
      routes: switches.routes.face,
      works: switches.works.face,
      spend: (query) => this.#own?.spend(query) ?? this.#line!.ask('spend', query),
      traffic: (query) => this.#own?.traffic(query) ?? this.#line!.ask('traffic', query),
      flush: async () => this.#own?.flush(),
      health: () => (this.#own ?? this.#before!.store).health(),
      nodes: () => [],
      close: () => this.close()
    }
  }

  begin(background: BackgroundWork): void {
    background.start(this.#estate?.running)
  }

  /** Nobody else has the store. */
  tellConfig(): void {}

  async succeed(predecessor: Predecessor, { services, background, log }: Going, server: Server): Promise<void> {
    const deputy = this.deputy(services, background, log, this.#estate!)
    await predecessor.serve(server, deputy, this.store.documents)
  }

  /** Nobody else can go on with anything. */
  async retire(): Promise<void> {}

  /** Takes over what the process before had in memory. Returns its leases by their names. */
  adopt({ limits, claims }: Pick<Estate, 'limits' | 'claims'>): Map<string, Lease> {
    for (const claim of claims) this.#ownClaims.take(...claim)
    return this.#ownLimits.adopt(limits)
  }

  /** A deputy for a process that has handed over to this one, for the holds that it has left here. */
  deputy(services: Services, background: DeputyParts['background'], log: Logger, left: Left): Deputy {
    const passOn: DeputyParts['passOn'] = (names) => this.#line!.tell('abandon', names)
    return new Deputy({ services, store: this.store, background, log, passOn }, this.#own!.ledger, left)
  }

  /**
   * Hands over to the next process: from this turn of the event loop on, everything goes to it by the line. Resolves
   * with what it needs when the store is closed. `running` are the ids of the exchanges under way.
   */
  async leave(line: Line, background: Pick<BackgroundWork, 'close'>, running: readonly string[]): Promise<HandedOver> {
    background.close((work) => line.tell('takeUp', work))
    const own = this.#own!
    const holds = own.ledger.open.map(keptOf)
    const { documents, ledger, requests, answers, routes, works, limits, secrets, claims } = this.#switches
    const distant = new DistantHolds(line, own.ledger)
    own.ledger.leave(distantHeir(line))
    const kept = this.#ownLimits.leave((lease, used) => line.tell('release', lease, used))
    documents.use(documentsThere(line, own.documents))
    ledger.use(distant.ledger)
    requests.use(requestsThere(line))
    answers.use(answersThere(line))
    routes.use(routesThere(line))
    works.use(distantWorks(line, own.works))
    limits.use(distantLimits(line))
    secrets.use(secretsThere(line, this.#ownSecrets))
    claims.use(distantClaims(line, this.#ownClaims))
    line.serve(followed(own.documents))
    this.#before = { store: own, distant, running }
    const claimed = this.#ownClaims.all
    this.#line = line
    this.#own = undefined
    await own.close()
    return { holds, running, limits: kept, claims: claimed }
  }

  /**
   * Takes the store back, because the next process is gone, and goes on as if it had never been there: what it did not
   * acknowledge is done again.
   * @throws Error when another process has the store
   */
  async reclaim(line: Line, parts: Going): Promise<void> {
    const { store: before, distant, running } = this.#before!
    const kept = [...before.ledger.unsettled.map(keptOf), ...distant.open]
    const own = await this.#reopen(kept)
    this.#own = own
    const { documents, ledger, requests, answers, routes, works, limits, secrets, claims } = this.#switches
    this.#ownLimits.stay()
    documents.use(own.documents)
    // Those who watch have asked the first store for it.
    own.documents.watch((changes) => before.documents.follow(changes))
    if (before.ledger.watcher) own.ledger.watch(before.ledger.watcher)
    ledger.use(own.ledger)
    requests.use(own.requests)
    answers.use(own.answers)
    routes.use(own.routes)
    works.use(own.works)
    limits.use(this.#ownLimits)
    secrets.use(this.#ownSecrets)
    claims.use(this.#ownClaims)
    const left = { holds: kept, running, leases: new Map<string, Lease>(), claims: [] }
    const deputy = this.deputy(parts.services, parts.background, parts.log, left)
    parts.background.start(running)
    line.divert(deputy.served, (calls, isOpen) => {
      const ends = calls.filter(({ name }) => name === 'end')
      const open = ends.filter(({ args: [requestId, part] }) => deputy.has(String(requestId), String(part)))
      // With its ends all that was told is on disk, such as their records.
      const done = ends.length > 0 && open.length === 0
      return calls.filter((call) =>
        // What was answered is not done twice.
        call.id === undefined ? !done : isOpen(call) && !(done && call.name === 'end')
      )
    })
  }

  /** Closes the store, if this process has it. Nothing may be asked after it. */
  async close(): Promise<void> {
    await this.#own?.close()
  }
}

/** How the store of a file is opened. */
export function storeOptionsOf(
  { sqlite, durability, requests, journal, answers, routes }: StoreSettings & FilePlace,
  log: Logger
): StoreOptions {
  const keeping = { requests, answers, journal: { ...journal, rows: volumeRows }, patience: clockPatience }
  return { file: sqlite, durability, keeping, routeAge: routes.age, log }
}

/** What the next process has to know of a hold: it is charged by the model that it was sent to last. */
function keptOf({ requestId, part, sale: { costs } }: Hold): KeptHold {
  return { requestId, part, costs }
}

function followed(documents: DocumentBook): { documents: DocumentBook['follow'] } {
  return { documents: (changes) => documents.follow(changes) }
}
