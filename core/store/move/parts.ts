// What a store consists of when it is carried from one engine to another: parts of rows, each in an order of its own.
import type { Breach } from '../embedded/care/verify/invariants.ts'
import type { Tell } from '../embedded/care/tell.ts'
import type { Row } from '../embedded/files/sqlite.ts'

/**
 * The parts in the order in which they are carried: what a row refers to comes before it. What follows from other rows
 * is not carried: spend, and what records are searched by.
 */
export const parts = [
  'price',
  'balance',
  'journal',
  'origin',
  'hold',
  'document',
  'secret',
  'audit',
  'route',
  'work',
  'result',
  'answer',
  'request',
  'traffic'
] as const

/** The name of a part. */
export type Part = (typeof parts)[number]

/** What a row is found by among those of its part, in their order. */
export type Key = readonly (string | number)[]

/** How many rows each part has. */
export type Counts = Readonly<Record<Part, number>>

/** How far a move has come. */
export interface Place {
  /** The part that is being carried; undefined when all are. */
  readonly part: Part | undefined
  /** The last row of it that was carried, and how many were. */
  readonly after?: Key | undefined
  readonly done: number
  /** Whether all was verified, and was being given over. */
  readonly verified?: boolean
}

/** The place where a move begins. */
export const beginning: Place = { part: parts[0], done: 0 }

/** A store that is read, and stays as it is. Nobody writes it meanwhile. */
export interface Source {
  /** For people. */
  readonly shown: string
  /** Different after any change, and the same when the store is opened again without one. */
  readonly stamp: string
  /** What all copies of the store share, in hexadecimal; undefined for a book that was none before. */
  readonly identity: string | undefined
  counts(): Promise<Counts>
  /** The rows of a part behind a key. Money is bigint, hashes are hexadecimal, columns are named as in the book. */
  rows(part: Part, after: Key | undefined): AsyncIterable<Carried>
}

/** A row on its way, and its key. */
export interface Carried {
  readonly key: Key
  readonly row: Row
}

/** A store that is made. */
export interface Target {
  readonly shown: string
  /**
   * Whether a move of this source has begun.
   * @throws Error when something else is there, or the source has changed since
   */
  begun(source: Source): Promise<boolean>
  /**
   * Begins a move, or goes on with it: returns its place.
   * @throws Error likewise
   */
  begin(source: Source): Promise<Place>
  /** Writes rows of a part together with the place that the move has then. */
  write(part: Part, rows: readonly Row[], place: Place): Promise<void>
  /** Adds what is of no part, when all parts are there. It may be done again. */
  complete(): Promise<void>
  counts(): Promise<Counts>
  /** Every row that breaks an invariant. */
  verify(tell: Tell): Promise<readonly Breach[]>
  /** From here on a gateway may start on it. */
  giveOver(): Promise<void>
}

/** The node that the rows of a store of one machine are of in a book. */
export function nodeOf(identity: string): string {
  return `sqlite-${identity.slice(0, 12)}`
}

/** The bytes of a piece of a result, as the book has them. */
export const pieceBytes = 1024 * 1024
