// The store as one thread has it. What it decides and writes, it does at its desk; what is looked up and changed by few
// is done where the store is.
import type { Claims } from '../../claims.ts'
import type { RequestBook } from '../../requests.ts'
import type { Secrets } from '../../secrets.ts'
import type { Store } from '../../store.ts'
import type { Work } from '../../works.ts'
import { sharedNow } from '../arena/clock.ts'
import type { Desk } from './desk.ts'
import { WorkerLimits } from '../arena/limits.ts'
import { SeatAnswers } from './seat-answers.ts'
import { SeatClaims } from './seat-claims.ts'
import { SeatRoutes } from './seat-routes.ts'
import { SeatWorks } from './seat-works.ts'
import type { Attendant, StoredWork } from './seat-works.ts'

/** What a thread has of the store: all that it has in a process of one thread. */
export interface Seated {
  readonly store: Store
  /** The ledger of the store, which can hand its holds over. */
  readonly book: Desk['ledger']
  readonly limits: WorkerLimits
  readonly secrets: Secrets
  readonly claims: Claims
  /**
   * Takes part in what goes on behind answers. `takeUp` is told of open work whose thread has gone, to go on with; only
   * the supervisor is.
   */
  follow(takeUp: (work: Work) => void, attendant: Attendant): void
  /** Resolves when nothing that this thread has put is missing in the journal, however long that takes. */
  emptied(): Promise<void>
}

/** Where the store is: the supervisor's books, or the line to them. */
export interface Source extends Pick<Store, 'documents' | 'spend' | 'traffic' | 'health'> {
  readonly requests: RequestBook
  readonly answers: Pick<Store['answers'], 'find'>
  readonly routes: Pick<Store['routes'], 'find' | 'remove'>
  readonly works: StoredWork
  readonly secrets: Secrets
  readonly claims: Claims
  /** Brings the database up to the journal. */
  flush(): Promise<void>
  /** Ends what the thread has of the store, when all that it has put is in the journal. */
  close(): Promise<void>
}

/** What a store is made of besides its source. */
export interface SeatOptions {
  /** How long routes are kept, in milliseconds. */
  readonly routeAge: number
  /** Unix milliseconds that go on evenly, see `steadyNow`. */
  readonly lasting: () => number
}

/** Makes the store of a seat. Its work hears of that of others by {@link SeatWorks.hear}. */
export function storeAt(
  desk: Desk,
  source: Source,
  { routeAge, lasting }: SeatOptions
): Omit<Seated, 'follow'> & { readonly works: SeatWorks } {
  const { ledger, drafts } = desk
  const works = new SeatWorks(drafts, source.works, lasting)
  /** What this thread has put is to be found. */
  const put = async <T>(ask: () => Promise<T>): Promise<T> => {
    if (!drafts.full) await drafts.flushed()
    return ask()
  }
  const { requests } = source
  return {
    works,
    book: ledger,
    emptied: () => drafts.emptied(),
    store: {
      documents: source.documents,
      ledger,
      requests: {
        append: (...record) => requests.append(...record),
        list: (query) => put(() => requests.list(query)),
        find: (id, tenant) => put(() => requests.find(id, tenant)),
        totals: (query, parts) => put(() => requests.totals(query, parts))
      },
      answers: new SeatAnswers(drafts, source.answers, lasting),
      routes: new SeatRoutes(drafts, source.routes, routeAge, lasting),
      works,
      spend: (query) => put(() => source.spend(query)),
      traffic: (query) => put(() => source.traffic(query)),
      flush: () => put(() => source.flush()),
      health: () => source.health(),
      nodes: () => [],
      async close() {
        await drafts.flushed()
        await source.close()
      }
    },
    limits: new WorkerLimits(desk.seat, sharedNow),
    secrets: source.secrets,
    claims: new SeatClaims(drafts, source.claims)
  }
}
