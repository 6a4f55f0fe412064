// The parts of the store that are in PostgreSQL, over the connections of one node.
import type { Logger } from '../../telling/log.ts'
import { steadyNow } from '../../watchdog/steady-time.ts'
import { ClaimBook } from './answers/claim-book.ts'
import { Shelf } from './answers/shelf.ts'
import type { ShelfBounds } from './answers/shelf.ts'
import type { Database } from './database/database.ts'
import { DocumentBook } from './documents/document-book.ts'
import { Logbook } from './requests/logbook.ts'
import type { LogBounds } from './requests/logbook.ts'
import { RouteBook } from './routes/route-book.ts'
import { SecretBook } from './secrets/secret-book.ts'
import { Upkeep } from './upkeep.ts'
import { WorkList } from './works/work-list.ts'

/** How much is kept of what grows. */
export interface BookBounds {
  /** How long a route is kept, in milliseconds. */
  readonly routeAge: number
  readonly answers: ShelfBounds
  readonly requests: LogBounds
}

/** The parts of the book that all gateways share, as one of them has them. */
export interface SharedBook {
  readonly documents: DocumentBook
  readonly routes: RouteBook
  readonly works: WorkList
  readonly answers: Shelf
  readonly claims: ClaimBook
  readonly secrets: SecretBook
  /** And traffic. */
  readonly requests: Logbook
  /** Resolves when nothing waits to be written. */
  flush(): Promise<void>
  /** Writes what waits. The connections stay open: they are the caller's. */
  close(): Promise<void>
}

/** How they are opened. */
export interface BookOptions {
  /** Unix milliseconds. */
  readonly now?: (() => number) | undefined
  /** Is told of what waits. */
  readonly log?: Logger
  /** Whose open work is; by default a name made by chance. */
  readonly owner?: string | undefined
  /** Whether what is over is removed from here. */
  readonly sweeps?: boolean
  /** Milliseconds between two removals. */
  readonly upkeepEvery?: number
}

/**
 * Opens the parts over connections whose schema is up to date.
 * @throws DatabaseFault when they cannot be read
 */
export async function openSharedBook(
  database: Database,
  bounds: BookBounds,
  { now = steadyNow, log, owner, sweeps = true, upkeepEvery }: BookOptions = {}
): Promise<SharedBook> {
  const documents = await DocumentBook.open(database)
  const works = await WorkList.open(database, now, { log, owner })
  const routes = new RouteBook(database, bounds.routeAge, now)
  const answers = new Shelf(database, bounds.answers, now)
  const claims = new ClaimBook(database)
  const secrets = new SecretBook(database, now)
  const requests = new Logbook(database, bounds.requests, now)
  const over = [
    () => routes.sweep(),
    () => answers.sweep(),
    () => requests.sweep(),
    () => secrets.sweep(),
    () => works.sweepErrands(),
    () => works.sweepGone()
  ]
  const upkeep = sweeps ? new Upkeep(database.clock, over, upkeepEvery) : undefined
  const flush = async (): Promise<void> => {
    await Promise.all([routes.idle(), answers.idle(), works.flushed(), requests.idle(), secrets.idle()])
  }
  return {
    documents,
    routes,
    works,
    answers,
    claims,
    secrets,
    requests,
    flush,
    async close() {
      await upkeep?.close()
      await Promise.all([requests.close(), secrets.close()])
      await flush()
      await Promise.all([documents.close(), works.close(), claims.close()])
    }
  }
}
