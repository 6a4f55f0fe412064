// The connections of one process to PostgreSQL: those for changes and for reads, and the listener.
import type { Logger } from '../../../telling/log.ts'
import { silentLog } from '../../../telling/log.ts'
import { readAddress } from './address.ts'
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
  /** Opens it also while a store is being moved into it, which nobody may use yet. */
  readonly moving?: boolean
}

/** How many connections there are for changes, for reads, and for searches, so that a large one holds up no others. */
const [changers, readers, searchers] = [2, 2, 2]

/** How many connections one process has: for batches of money, other changes, reads, searches, and the listener. */
export const connectionsOfProcess = 1 + changers + readers + searchers + 1

/** The connections of one process. */
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
  readonly migrations: readonly Migration[]

  private constructor({
    url,
    listenUrl,
    name = 'sluice',
    log = silentLog,
    migrations = readMigrations()
  }: DatabaseOptions) {
    const address = readAddress(url)
    const listenAddress = listenUrl === undefined ? address : readAddress(listenUrl)
    const lineage = new Lineage()
    this.batches = new Lane(address, `${name} batches`, 1, lineage)
    this.changes = new Lane(address, `${name} changes`, changers, lineage)
    this.reads = new Lane(address, `${name} reads`, readers, lineage)
    this.searches = new Lane(address, `${name} searches`, searchers, lineage)
    this.listener = new Listener(listenAddress, `${name} listener`, lineage, log)
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
      return database
    } catch (error) {
      await database.close()
      throw error
    }
  }

  /** Waits for what is under way, and ends the connections. */
  async close(): Promise<void> {
    const lanes = [this.batches, this.changes, this.reads, this.searches]
    await Promise.all([...lanes.map((lane) => lane.close()), this.listener.close()])
  }
}
