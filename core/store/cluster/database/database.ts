// The connections of one process to PostgreSQL: those for changes and for reads, and the listener.
import type { Logger } from '../../../telling/log.ts'
import { silentLog } from '../../../telling/log.ts'
import { readAddress } from './address.ts'
import { DatabaseClock } from './clock.ts'
import { Lane } from './lane.ts'
import { Lineage } from './lineage.ts'
import { Listener } from './listener.ts'
import { migrate, readMigrations } from './migrations.ts'
import type { Migration } from './migrations.ts'
import { loadPackage } from './package.ts'
import { refuseUnfinished } from './reading.ts'

/** Which database, and who asks. */
export interface DatabaseOptions {
  readonly url: string
  /** Where to listen when `url` is that of a pooler that gives each transaction another connection. Default: `url`. */
  readonly listenUrl?: string | undefined
  /** What `pg_stat_activity` shows of this process. Default: `sluice`. */
  readonly name?: string
  readonly log?: Logger | undefined
  /** The changes of the schema. Default: those of this program. */
  readonly migrations?: readonly Migration[]
  /** Operators ask another thread: searches have no connections of their own, and go with the reads. */
  readonly serving?: boolean
  /** Opens it also while a store is being moved into it, which nobody may use yet. */
  readonly moving?: boolean
}

/** How many connections there are for changes, for reads, and for searches, so that a large one holds up no others. */
const [changers, readers, searchers] = [2, 2, 2]

/** How many connections a worker has: for batches of money, other changes, reads, and the listener. */
const connectionsOfWorker = 1 + changers + readers + 1

/** How many one process has with so many workers: its own are those of a worker, and some for searches. */
export function connectionsOf(workers: number): number {
  return connectionsOfWorker * (1 + workers) + searchers
}

/** The connections of one process, or of one of its workers. */
export class Database {
  /** For batches of money alone, one after another. */
  readonly batches: Lane
  /** For all other changes. */
  readonly changes: Lane
  /** For reads that requests wait for. */
  readonly reads: Lane
  /** For what operators ask, which may take long. */
  readonly searches: Lane
  readonly listener: Listener
  readonly clock: DatabaseClock
  readonly migrations: readonly Migration[]

  private constructor({
    url,
    listenUrl,
    name = 'sluice',
    log = silentLog,
    serving = false,
    migrations = readMigrations()
  }: DatabaseOptions) {
    const address = readAddress(url)
    const listenAddress = listenUrl === undefined ? address : readAddress(listenUrl)
    const lineage = new Lineage()
    this.batches = new Lane(address, `${name} batches`, 1, lineage)
    this.changes = new Lane(address, `${name} changes`, changers, lineage)
    this.reads = new Lane(address, `${name} reads`, readers, lineage)
    this.searches = serving ? this.reads : new Lane(address, `${name} searches`, searchers, lineage)
    this.listener = new Listener(listenAddress, `${name} listener`, lineage, log)
    this.clock = new DatabaseClock(this.reads)
    this.migrations = migrations
    for (const { shown } of new Set([address, listenAddress].filter(({ exposed }) => exposed)))
      log.warn('the connection to PostgreSQL is not encrypted: set sslmode=verify-full in its URL', { database: shown })
  }

  /**
   * Connects, and brings the schema up to date.
   * @throws Error when the package is missing, the URL is wrong, the database cannot be reached, or its schema is newer
   */
  static async open(options: DatabaseOptions): Promise<Database> {
    await loadPackage()
    const database = new Database(options)
    try {
      await migrate(database.changes, database.migrations, { log: options.log })
      if (!options.moving) await refuseUnfinished(database.reads)
      await database.clock.compare()
      return database
    } catch (error) {
      await database.close()
      throw error
    }
  }

  /** Waits for what is under way, and ends the connections. */
  async close(): Promise<void> {
    const lanes = new Set([this.batches, this.changes, this.reads, this.searches])
    await Promise.all([...Array.from(lanes, (lane) => lane.close()), this.listener.close()])
  }
}
