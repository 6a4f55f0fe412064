// Carries the rows of a store into another one, in batches, from where the target says that it stopped.
import type { Tell } from '../embedded/care/tell.ts'
import type { Row } from '../embedded/files/sqlite.ts'
import { parts } from './parts.ts'
import type { Carried, Counts, Key, Part, Place, Source, Target } from './parts.ts'

/** How many rows one transaction writes at most, and about how many bytes. */
const [rowsAtOnce, bytesAtOnce] = [2000, 4 * 1024 * 1024]

/** What is said of each part. */
const words: Readonly<Record<Part, string>> = {
  price: 'prices',
  balance: 'balances',
  journal: 'the journal',
  origin: 'the ends of earlier chains',
  hold: 'open holds',
  document: 'documents',
  secret: 'client secrets',
  audit: 'the audit log',
  route: 'routes',
  work: 'work',
  result: 'results of work',
  answer: 'kept answers',
  request: 'the request log',
  traffic: 'figures over time'
}

/** Carries everything behind a place. When it is killed, the target has whole batches, and the place behind them. */
export async function carry(source: Source, target: Target, from: Place, counts: Counts, tell: Tell): Promise<void> {
  let place = from
  while (place.part !== undefined) {
    const { part } = place
    const told = (done: number): void => tell(`carrying ${words[part]}`, { done, of: counts[part], unit: 'rows' })
    told(place.done)
    for await (const { rows, key } of batches(source.rows(part, place.after))) {
      place = { part, after: key, done: place.done + rows.length }
      await target.write(part, rows, place)
      told(place.done)
    }
    place = { part: parts[parts.indexOf(part) + 1], done: 0 }
    await target.write(part, [], place)
  }
}

async function* batches(carried: AsyncIterable<Carried>): AsyncGenerator<{ rows: Row[]; key: Key }> {
  let rows: Row[] = []
  let last: Key = []
  let bytes = 0
  for await (const { key, row } of carried) {
    rows.push(row)
    last = key
    bytes += sizeOf(row)
    if (rows.length < rowsAtOnce && bytes < bytesAtOnce) continue
    yield { rows, key: last }
    rows = []
    bytes = 0
  }
  if (rows.length > 0) yield { rows, key: last }
}

function sizeOf(row: Row): number {
  let size = 0
  for (const value of Object.values(row))
    size += typeof value === 'string' ? value.length : value instanceof Uint8Array ? value.byteLength : 8
  return size
}

/**
 * The parts of which a target has not what the source has, in words; empty when there is none. Ends of chains are added
 * where those of nodes become one.
 */
export function differences(source: Counts, target: Counts): string[] {
  return parts
    .filter((part) => (part === 'origin' ? source[part] > target[part] : source[part] !== target[part]))
    .map((part) => `${words[part]}: ${source[part]} rows there, ${target[part]} here`)
}
