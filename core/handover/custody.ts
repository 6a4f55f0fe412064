// Who has the store: this process, or the next one, which it was handed over to.
import type { BackgroundWork } from '../exchange/background/background.ts'
import type { KeptHold } from '../store/embedded/book/book.ts'
import type { FilePlace } from '../catalogue/store-place.ts'
import type { StoreSettings } from '../catalogue/settings.ts'
import type { Server } from '../clients/server.ts'
import type { Claims } from '../store/claims.ts'
import type { DocumentBook } from '../store/embedded/book/document-book.ts'
import type { Caller, Line } from '../store/distant/line.ts'
import type { Lease, Limits } from '../store/limits.ts'
import { MemoryClaims } from '../store/memory/claims.ts'
import { MemoryLimits } from '../store/memory/limits.ts'
import { SecretBook } from '../store/embedded/book/secret-book.ts'
import type { Secrets } from '../store/secrets.ts'
import { openStore, soonMoved } from '../store/embedded/store.ts'
import type { OwnStore, StoreOptions } from '../store/embedded/store.ts'
import { volumeRows } from '../store/embedded/upkeep/upkeep.ts'
import type { Store } from '../store/store.ts'
import type { Logger } from '../telling/log.ts'
import { Deputies } from './deputies.ts'
import { asThread, DistantHolds, distantHeir, servicesThere } from './distant.ts'
import { Faces, servicesOf } from './faces.ts'
import type { StoreServices } from './faces.ts'
import { keptHolds, keptOf, mainThread } from './messages.ts'
import type { Estate, Part } from './messages.ts'
import type { Going, Left as HandedOver, Opened } from './opened.ts'
import type { Predecessor } from './predecessor.ts'
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
  #ownSecrets!: Secrets
  readonly #ownClaims = new MemoryClaims()
  readonly #faces: Faces
  /** Undefined while the next process has it. */
  #own: OwnStore | undefined
  /** The store that was handed over, with the holds that this process must end. */
  #before: { store: OwnStore; distant: DistantHolds; running: readonly string[] } | undefined
  /** The next process, as this one calls it. */
  #there: Caller | undefined
  /** What the process before has left, and its leases by their names. */
  #estate: (Estate & { readonly leases: Map<string, Lease> }) | undefined

  /** Opens a store; `estate`: what the process before has left. */
  static async open(settings: StoreSettings & FilePlace, estate: Estate | undefined, log: Logger): Promise<Custody> {
    const options = storeOptionsOf(settings, log)
    const open = (kept: readonly KeptHold[], busy = true): Promise<OwnStore> => openStore({ ...options, kept, busy })
    const custody = new Custody(await (estate ? whenFree(() => open(keptOf(estate))) : open([], false)), open)
    if (estate) custody.#estate = { ...estate, leases: custody.adopt(estate) }
    return custody
  }

  /** `reopen` opens the store again, if the next process fails. */
  constructor(own: OwnStore, reopen: (kept: readonly KeptHold[]) => Promise<OwnStore>) {
    this.#own = own
    this.#reopen = reopen
    this.#faces = new Faces(this.#servicesOf(own), (documents) => (this.#ownSecrets = new SecretBook(documents)))
    const { store, limits, secrets, claims } = this.#faces
    this.limits = limits
    this.secrets = secrets
    this.claims = claims
    this.store = { ...store, close: () => this.close() }
  }

  begin(background: BackgroundWork): void {
    background.start(this.#estate?.parts.flatMap(({ running }) => running))
  }

  /** Nobody else has the store. */
  tellConfig(): void {}

  async succeed(predecessor: Predecessor, going: Going, server: Pick<Server, 'takeFrom'>): Promise<void> {
    const { parts, leases } = this.#estate!
    await predecessor.serve(server, this.deputies(parts, leases, going), this.store.documents)
  }

  /** Nobody else can go on with anything. */
  async retire(): Promise<void> {}

  /** Takes over what the process before had in memory. Returns its leases by their names. */
  adopt({ limits, claims }: Pick<Estate, 'limits' | 'claims'>): Map<string, Lease> {
    for (const claim of claims) this.#ownClaims.take(...claim)
    return this.#ownLimits.adopt(limits)
  }

  /** Deputies for the threads of a process that has handed over to this one. */
  deputies(parts: readonly Part[], leases: ReadonlyMap<string, Lease>, going: Going): Deputies {
    const passOn = (names: readonly string[]): void => this.#there!.tell('abandon', names)
    return new Deputies(parts, leases, { ...going, store: this.store, passOn }, this.#own!.ledger)
  }

  /**
   * Hands over to the next process: from this turn of the event loop on, everything goes to it by the line. Resolves
   * with what it needs when the store is closed. `running` are the ids of the exchanges under way.
   */
  async leave(line: Line, background: Pick<BackgroundWork, 'close'>, running: readonly string[]): Promise<HandedOver> {
    const there = asThread(line, mainThread)
    background.close((work) => there.tell('takeUp', work))
    const own = this.#own!
    const holds = keptHolds(own.ledger.open)
    const distant = new DistantHolds(there, own.ledger)
    own.ledger.leave(distantHeir(there))
    const limits = this.#ownLimits.leave((lease, used) => there.tell('release', lease, used))
    this.#faces.use(servicesThere(there, this.#servicesOf(own), distant))
    line.serve({ documents: (changes) => own.documents.follow(changes) } satisfies {
      documents: DocumentBook['follow']
    })
    this.#before = { store: own, distant, running }
    const claims = this.#ownClaims.all
    this.#there = there
    this.#own = undefined
    await own.close()
    const leases = limits.leases.map(({ id }) => id)
    const part: Part = { thread: mainThread, holds, running, leases, claims: claims.map(([name]) => name) }
    return { parts: [part], limits, claims }
  }

  /**
   * Takes the store back, because the next process is gone, and goes on as if it had never been there: what it did not
   * acknowledge is done again.
   * @throws Error when another process has the store
   */
  async reclaim(line: Line, going: Going): Promise<void> {
    const { store: before, distant, running } = this.#before!
    const kept = [...keptHolds(before.ledger.unsettled), ...distant.open]
    const own = await this.#reopen(kept)
    this.#own = own
    this.#ownLimits.stay()
    this.#faces.use(this.#servicesOf(own))
    // Those who watch have asked the first store for it.
    own.documents.watch((changes) => before.documents.follow(changes))
    if (before.ledger.watcher) own.ledger.watch(before.ledger.watcher)
    const part: Part = { thread: mainThread, holds: kept, running, leases: [], claims: [] }
    const deputies = this.deputies([part], new Map(), going)
    going.background.start(running)
    line.divert(deputies.served, (...batch) => deputies.again(...batch))
  }

  /** Closes the store, if this process has it. Nothing may be asked after it. */
  async close(): Promise<void> {
    await this.#own?.close()
  }

  #servicesOf(store: OwnStore): StoreServices {
    return servicesOf({ store, limits: this.#ownLimits, secrets: this.#ownSecrets, claims: this.#ownClaims })
  }
}

/** How the store of a file is opened. */
export function storeOptionsOf(
  { sqlite, durability, requests, journal, answers, routes }: StoreSettings & FilePlace,
  log: Logger
): StoreOptions {
  const { form, ...bounds } = journal
  const keeping = { requests, answers, journal: { ...bounds, rows: volumeRows }, patience: clockPatience }
  return { file: sqlite, durability, form, takesOver: soonMoved, keeping, routeAge: routes.age, log }
}
