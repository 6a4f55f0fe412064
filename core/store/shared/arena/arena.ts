// The memory that all threads of a gateway share: where in it locks, seats, limits and balances lie.
import { hour } from '../../window.ts'

/** How much the memory is for. All of it is zero at first, and what is never used takes no memory of the machine. */
export interface ArenaSizes {
  /** Threads that may change something, the supervisor included. */
  readonly seats: number
  /** Sets of limits at the same time. */
  readonly sets: number
  /** Balances at the same time, and the latest hours of rolling budgets. */
  readonly cells: number
}

/** A table of rows that are found by their names. Places are counted in units of 64 bits. */
export interface Table {
  /** The lock of the table itself, which is held while a name is looked up. */
  readonly lock: number
  /** How many rows there can be. They are counted from 1. */
  readonly rows: number
  /** Counts: the rows that were ever used, the first of the rows that are free again, and the rows that have a name. */
  readonly counts: number
  /** The first row of each chain, two in a unit. */
  readonly chains: number
  /** What is known of each row, see {@link metaUnits}. */
  readonly metas: number
  /** The data of the rows, and how much each has. */
  readonly data: number
  readonly width: number
}

/** Of each row: the next one of its chain, its serial, its home's lock, when it is over, and its name's digest. */
export const metaUnits = 4

/** Units of the data of a set of limits without what each seat has of it: three buckets, and one for the counts. */
export const setUnits = 10

/** Units of the data of a balance without what each seat has of it: posted, used, and where else they are. */
export const cellUnits = 3

/** Units of what is known of a scope's hours, see `hours.ts`. */
export const hoursUnits = 4

/** Units of a day: posted and used of each of its hours, and who needs it, see `days.ts`. */
export const dayUnits = 49

/** The locks of homes, which share them by the hash of their names. Four more are those of the tables. */
export const homeLocks = 1024
/** A lock has a line of the processor's cache for itself. */
const lockUnits = 8
const locks = homeLocks + 4

/** The numbers of a seat, before its undo row. */
const seatUnits = 8
/** The units that one change may alter at most. */
export const undoUnits = 4096
/** An entry of the undo row has the place of a unit, and its two halves as they were. */
export const undoWords = 3

const magic = 0x5c1ce001
const headUnits = 8

/** The memory, and views of it. Every thread has an object of its own over the same buffer. */
export class Arena {
  readonly buffer: SharedArrayBuffer
  readonly words: Int32Array
  readonly floats: Float64Array
  readonly sums: BigInt64Array
  readonly seats: number
  readonly sets: Table
  readonly cells: Table
  readonly hours: Table
  readonly days: Table
  readonly #locksAt: number
  readonly #seatsAt: number

  /** Takes a buffer that {@link Arena.create} made, in this thread or another one. */
  constructor(buffer: SharedArrayBuffer) {
    this.buffer = buffer
    this.words = new Int32Array(buffer)
    this.floats = new Float64Array(buffer)
    this.sums = new BigInt64Array(buffer)
    const [mark, seats, sets, cells] = this.words
    if (mark !== magic) throw new Error('this is no memory of an arena: make one with Arena.create')
    this.seats = seats!
    const layout = layoutOf({ seats: seats!, sets: sets!, cells: cells! })
    this.#locksAt = layout.locks
    this.#seatsAt = layout.seats
    this.sets = layout.sets
    this.cells = layout.cells
    this.hours = layout.hours
    this.days = layout.days
  }

  /** Makes the memory. The numbers of rows become powers of two, and there are twice as many days as balances. */
  static create({ seats, sets, cells }: ArenaSizes): Arena {
    const sizes = { seats, sets: powerOfTwo(sets), cells: powerOfTwo(cells) }
    const buffer = new SharedArrayBuffer(layoutOf(sizes).end * 8)
    new Int32Array(buffer).set([magic, seats, sizes.sets, sizes.cells])
    return new Arena(buffer)
  }

  /** Says, before anybody uses the memory, since when all balances are put into it: the beginning of a day. */
  begin(since: number): void {
    this.words[this.sinceAt] = this.words[this.keptAt] = since / hour
  }

  /** The word of a lock: 0, or who has it, see `seat.ts`. */
  lockAt(lock: number): number {
    return 2 * (this.#locksAt + lock * lockUnits)
  }

  /** The number of locks. */
  get locks(): number {
    return locks
  }

  /** The float with the latest time of decisions under a lock, in microseconds. */
  timeAt(lock: number): number {
    return this.#locksAt + lock * lockUnits + 1
  }

  /** The word that counts the changes under a lock. */
  sequenceAt(lock: number): number {
    return 2 * (this.#locksAt + lock * lockUnits + 2)
  }

  /**
   * The first word of a seat: boot, heartbeat, the lock that it waits for (from 1 on), and the length of its undo
   * row.
   */
  seatAt(seat: number): number {
    return 2 * (this.#seatsAt + seat * seatStride)
  }

  /** The first word of the undo row of a seat. */
  undoAt(seat: number): number {
    return this.seatAt(seat) + 2 * seatUnits
  }

  /** The word that counts how many threads were given a seat. */
  get bootsAt(): number {
    return 4
  }

  /** The word that counts how many seats were left. */
  get leftAt(): number {
    return 5
  }

  /** The word with the hour since which all balances are here, counted from 1970. */
  get sinceAt(): number {
    return 6
  }

  /** The word with the hour since which nothing is forgotten: it is earlier while older balances are being read. */
  get keptAt(): number {
    return 7
  }
}

const seatStride = seatUnits + Math.ceil((undoUnits * undoWords) / 2)

function layoutOf({ seats, sets, cells }: ArenaSizes): {
  locks: number
  seats: number
  sets: Table
  cells: Table
  hours: Table
  days: Table
  end: number
} {
  const seatsAt = headUnits + locks * lockUnits
  const setsTable = tableAt(seatsAt + seats * seatStride, homeLocks, sets, setUnits + seats)
  const cellsTable = tableAt(endOf(setsTable), homeLocks + 1, cells, cellUnits + 2 * seats)
  const hoursTable = tableAt(endOf(cellsTable), homeLocks + 2, cells, hoursUnits)
  const daysTable = tableAt(endOf(hoursTable), homeLocks + 3, 2 * cells, dayUnits)
  const tables = { sets: setsTable, cells: cellsTable, hours: hoursTable, days: daysTable }
  return { locks: headUnits, seats: seatsAt, ...tables, end: endOf(daysTable) }
}

function tableAt(counts: number, lock: number, rows: number, width: number): Table {
  const chains = counts + 2
  const metas = chains + Math.ceil(rows / 2)
  return { lock, rows, counts, chains, metas, data: metas + (rows + 1) * metaUnits, width }
}

function endOf({ data, rows, width }: Table): number {
  return data + (rows + 1) * width
}

function powerOfTwo(count: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(2, count)))
}

/** Where the data of a row begins, in units. */
export function dataOf({ data, width }: Table, row: number): number {
  return data + row * width
}

/**
 * The lock of a home, such as a tenant: all that one decision changes has the same home, and is under this one
 * lock.
 */
export function lockOf(home: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < home.length; at++) hash = Math.imul(hash ^ home.charCodeAt(at), 0x01000193)
  return (hash ^ (hash >>> 15)) & (homeLocks - 1)
}
