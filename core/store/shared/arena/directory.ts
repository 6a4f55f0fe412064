// Finds the rows of a table by their names, for all threads alike: whoever asks for a name first makes its row.
import { hash } from 'node:crypto'
import type { Arena, Table } from './arena.ts'
import { dataOf, metaUnits } from './arena.ts'
import type { Seat } from './seat.ts'

/** Where a row is. It is the row of its name as long as the row has this serial. */
export interface Place {
  readonly row: number
  readonly serial: number
  /** The lock that guards the data of the row: that of the home which the name had when it was first asked for. */
  readonly lock: number
}

/**
 * The words of what is known of a row: the next of its chain, its serial, its lock (from 1 on), when it is over, and
 * its digest.
 */
const [next, serial, home, until, digest] = [0, 1, 2, 3, 4]
const digestWords = 4
/** In the place of the lock of a row that nobody has asked for yet. */
export const unclaimed = -2

/** The words of the counts of a table. */
const [everUsed, firstFree, named] = [0, 1, 2]

/** That a table has no free row. */
export class TableFull extends Error {}

/** The names of one table, as one thread sees them. */
export class Directory {
  readonly #arena: Arena
  readonly #table: Table
  readonly #seat: Seat
  readonly #locks: readonly number[]

  constructor(table: Table, seat: Seat) {
    this.#arena = seat.arena
    this.#table = table
    this.#seat = seat
    this.#locks = [table.lock]
  }

  /** The lock of the table, for a change of several tables. */
  get lock(): number {
    return this.#table.lock
  }

  /**
   * The row of a name, which is made when there is none. A new row is guarded by `lock`, that of the name's home. A
   * name is known by half of its SHA-256, so that it takes no memory, whatever its length. `over`: what
   * {@link Directory.overAt} says of a new row.
   * @throws TableFull
   */
  find(name: string, lock: number, over = 0): Place {
    const key = digestOf(name)
    return this.#seat.change(this.#locks, () => this.#seek(key, lock) ?? this.#make(key, lock, over))
  }

  /** The row of a name that is there already. `lock`: guards it from now on, if it had none. */
  look(name: string, lock = unclaimed): Place | undefined {
    const key = digestOf(name)
    return this.#seat.change(this.#locks, () => this.#seek(key, lock))
  }

  /**
   * Makes the row of a name whose home nobody knows yet, and calls `fill` with it. Whoever finds it first decides
   * which lock guards it; until then it is changed here alone. A row that is there is left as it is. Returns the row.
   * @throws TableFull
   */
  prepare(name: string, fill: (row: number) => void, over = 0): Place {
    const key = digestOf(name)
    return this.#seat.change(this.#locks, () => {
      const known = this.#seek(key, unclaimed)
      if (known) return known
      const place = this.#make(key, unclaimed, over)
      fill(place.row)
      return place
    })
  }

  /** Whether a row is still that of its name. Only a thread that has the lock of its home may ask. */
  isAt({ row, serial: known }: Place): boolean {
    return this.#arena.words[this.#meta(row) + serial] === known
  }

  /** How many rows have a name, or had one once: all others lie behind them. */
  get used(): number {
    return this.#count(everUsed)
  }

  /** How many rows have a name, and how many there can be. */
  get room(): { readonly named: number; readonly rows: number } {
    return { named: this.#count(named), rows: this.#table.rows }
  }

  /**
   * The place of a row; undefined when it has no name. Its lock may be `unclaimed`. It may be forgotten until the lock
   * of its home is taken, or that of the table when it has none.
   */
  at(row: number): Place | undefined {
    const meta = this.#meta(row)
    const lock = this.#arena.words[meta + home]!
    return lock === 0 ? undefined : { row, serial: this.#arena.words[meta + serial]!, lock: lock - 1 }
  }

  /** When nobody needs a row any more, as an hour counted from 1970; 0 for never. */
  overAt(row: number): number {
    return this.#arena.words[this.#meta(row) + until]!
  }

  /**
   * Takes the name from a row, and makes its data nothing. The caller is within a change under the lock of its home, if
   * it has one.
   */
  forget({ row }: Pick<Place, 'row'>): void {
    const { words } = this.#arena
    this.#seat.change(this.#locks, () => {
      const meta = this.#meta(row)
      const key = words.subarray(meta + digest, meta + digest + digestWords)
      let link = this.#chain(key)
      while (words[link] !== row) link = this.#meta(words[link]!) + next
      this.#set(link, words[meta + next]!)
      const free = this.#counts + firstFree
      this.#set(this.#counts + named, words[this.#counts + named]! - 1)
      this.#set(meta + next, words[free]!)
      this.#set(meta + serial, (words[meta + serial]! + 1) | 0)
      this.#set(meta + home, 0)
      this.#set(free, row)
      const data = dataOf(this.#table, row)
      this.#seat.save(data, this.#table.width)
      this.#arena.floats.fill(0, data, data + this.#table.width)
    })
  }

  #seek(key: Int32Array, lock: number): Place | undefined {
    const { words } = this.#arena
    for (let row = words[this.#chain(key)]!; row !== 0; row = words[this.#meta(row) + next]!) {
      const meta = this.#meta(row)
      let same = true
      for (let at = 0; at < digestWords; at++) same &&= words[meta + digest + at] === key[at]
      if (!same) continue
      if (words[meta + home] === unclaimed + 1 && lock !== unclaimed) this.#set(meta + home, lock + 1)
      return { row, serial: words[meta + serial]!, lock: words[meta + home]! - 1 }
    }
    return undefined
  }

  #make(key: Int32Array, lock: number, over: number): Place {
    const { words } = this.#arena
    const counts = this.#counts
    const again = words[counts + firstFree]!
    const row = again === 0 ? words[counts + everUsed]! + 1 : again
    if (row > this.#table.rows) throw new TableFull(`there are ${this.#table.rows} names already`)
    const meta = this.#meta(row)
    if (again === 0) this.#set(counts + everUsed, row)
    else this.#set(counts + firstFree, words[meta + next]!)
    this.#set(counts + named, words[counts + named]! + 1)
    const chain = this.#chain(key)
    this.#set(meta + next, words[chain]!)
    this.#set(meta + home, lock + 1)
    this.#set(meta + until, over)
    for (let at = 0; at < digestWords; at++) this.#set(meta + digest + at, key[at]!)
    this.#set(chain, row)
    return { row, serial: words[meta + serial]!, lock }
  }

  /** Changes a word, within a change. */
  #set(word: number, value: number): void {
    this.#seat.save(word >> 1)
    this.#arena.words[word] = value
  }

  /** The first word of the counts. */
  get #counts(): number {
    return 2 * this.#table.counts
  }

  #count(which: number): number {
    return this.#arena.words[this.#counts + which]!
  }

  #meta(row: number): number {
    return 2 * (this.#table.metas + row * metaUnits)
  }

  /** The word of the first row of a digest's chain. */
  #chain(key: Int32Array): number {
    return 2 * this.#table.chains + (key[0]! & (this.#table.rows - 1))
  }
}

/** The locks of all these rows, in the order in which they are taken. Rows that nobody has asked for have none. */
export function locksOf(places: readonly Place[]): readonly number[] {
  return [...new Set(places.map(({ lock }) => lock))].filter((lock) => lock !== unclaimed).sort((a, b) => a - b)
}

function digestOf(name: string): Int32Array {
  const bytes = hash('sha256', name, 'buffer')
  return new Int32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + digestWords * 4))
}
