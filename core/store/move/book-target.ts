// Makes a book in PostgreSQL of a store that is moved there. What was carried, and how far that is, is one transaction.
import type { Breach } from '../embedded/care/verify/invariants.ts'
import type { Tell } from '../embedded/care/tell.ts'
import { toldOf } from '../embedded/care/verify/checking.ts'
import type { Row } from '../embedded/files/sqlite.ts'
import type { Database } from '../cluster/database/database.ts'
import type { Transaction } from '../cluster/database/lane.ts'
import { verifyBook } from '../cluster/money/verify/verify.ts'
import { countBook } from './book-source.ts'
import { writers } from './book-rows.ts'
import { beginning, nodeOf } from './parts.ts'
import type { Counts, Part, Place, Source, Target } from './parts.ts'

/** How long a statement may take, in milliseconds. */
const within = { deadline: 120_000 }

/** The row of the table move. */
interface MoveRow {
  readonly stamp: string
  readonly node: string
  readonly identity: string
  readonly progress: string
  readonly done: string | null
}

/** A book that a store is moved to. */
export class BookTarget implements Target {
  readonly shown: string
  readonly #database: Database
  #move!: { node: string; series: string }
  /** As it is stored. Another command that goes on with the move changes it. */
  #progress = ''

  /** The schema of the database is up to date. */
  constructor(database: Database, shown: string) {
    this.#database = database
    this.shown = shown
  }

  begun(source: Source): Promise<boolean> {
    return this.#database.changes.transaction(
      async (transaction) => (await this.#find(transaction, source)) !== undefined,
      within
    )
  }

  begin(source: Source): Promise<Place> {
    return this.#database.changes.transaction(async (transaction) => {
      // Whoever joins waits, and finds the move then.
      await transaction.query('lock table sluice.node in share row exclusive mode')
      const { stamp, identity = '' } = source
      let move = await this.#find(transaction, source)
      if (!move) {
        const progress = JSON.stringify(beginning)
        const node = nodeOf(identity)
        await transaction.query('insert into sluice.move (stamp, identity, node, progress) values ($1, $2, $3, $4)', [
          stamp,
          identity,
          node,
          progress
        ])
        move = { stamp, identity, node, progress, done: null }
      }
      const { node, progress } = move
      this.#move = { node, series: uuidOf(identity) }
      this.#progress = progress
      return JSON.parse(progress) as Place
    }, within)
  }

  /** The move of this source; undefined when there is none, and nothing else. */
  async #find(transaction: Transaction, source: Source): Promise<MoveRow | undefined> {
    const { rows } = await transaction.query<MoveRow>(
      'select stamp, node, identity, progress, done::text from sluice.move for update'
    )
    if (rows[0]) refuseOther(rows[0], source, this.shown)
    else await refuseRows(transaction, this.shown)
    return rows[0]
  }

  async write(part: Part, rows: readonly Row[], place: Place): Promise<void> {
    const progress = JSON.stringify(place)
    await this.#database.changes.transaction(async (transaction) => {
      const { count } = await transaction.query('update sluice.move set progress = $1 where progress = $2', [
        progress,
        this.#progress
      ])
      if (count === 0) throw new Error(`another command moves a store to ${this.shown}: let it go on, and end this one`)
      await writers[part](rows, { transaction, ...this.#move, before: place.done - rows.length })
    }, within)
    this.#progress = progress
  }

  async complete(): Promise<void> {}

  counts(): Promise<Counts> {
    return countBook((text) => this.#database.reads.query(text, undefined, { deadline: 600_000 }))
  }

  verify(tell: Tell): Promise<readonly Breach[]> {
    return verifyBook(this.#database.reads, toldOf(tell))
  }

  async giveOver(): Promise<void> {
    await this.#database.changes.query('update sluice.move set done = clock_timestamp()')
  }
}

/** @throws Error unless the move of a database is this one, and not complete */
function refuseOther(
  { stamp, identity, done }: MoveRow,
  { shown: from, ...source }: Pick<Source, 'shown' | 'stamp' | 'identity'>,
  shown: string
): void {
  const anew = `give another database, or remove what was carried with "drop schema sluice cascade"`
  if (done !== null && stamp === source.stamp)
    throw new Error(`${from} was moved to ${shown} at ${done}, completely: there is nothing left to do`)
  if (done !== null) throw new Error(`${shown} has a store already, which was moved there at ${done}: ${anew}`)
  if (identity !== source.identity)
    throw new Error(`another store than ${from} is being moved to ${shown}: go on with that one, or ${anew}`)
  if (stamp !== source.stamp)
    throw new Error(
      `${from} has changed since the move to ${shown} began, as its gateway was started: ${anew}, and begin again`
    )
}

/** @throws Error when a database has rows of any table of a store */
export async function refuseRows(transaction: Transaction, shown: string): Promise<void> {
  const { rows: tables } = await transaction.query<{ name: string }>(
    `select relname as name from pg_class c where relnamespace = 'sluice'::regnamespace and relkind in ('r', 'p')
       and not relispartition and relname not in ('migration', 'book', 'move') order by relname`
  )
  const filled: string[] = []
  for (const { name } of tables) {
    const { rows } = await transaction.query<{ some: boolean }>(`select exists (select from sluice.${name}) as some`)
    if (rows[0]!.some) filled.push(name)
  }
  if (filled.length > 0)
    throw new Error(
      `${shown} is not empty, as gateways have written there (${filled.join(', ')}): give a database in which none has started`
    )
}

function uuidOf(identity: string): string {
  const hex = identity.padEnd(32, '0').slice(0, 32)
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
