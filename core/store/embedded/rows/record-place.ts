// Where the record of a request is in a journal, as the row of a database has it in place of the record.
import type { Row, Value } from '../files/sqlite.ts'
import type { RecordRow } from './record-text.ts'
import { idIn, shortId } from './uuid.ts'

/** A record among those of a batch. */
export interface RecordPlace {
  /** The ordinal of the segment, and of the volume that is made of it. */
  readonly ordinal: number
  readonly batch: number
  /** Where the frame begins in the segment; 0 where that is not known, as it was read from the volume. */
  readonly at: number
  readonly index: number
}

/**
 * The row of a record that is in the frame of a batch: with what it is found by, its place, and nothing else that the
 * record has.
 */
export function placedRow(
  { request_id, time }: RecordRow,
  { ordinal, at }: Pick<RecordPlace, 'ordinal' | 'at'>,
  batch: number,
  index: number
): RecordRow {
  return { request_id, tenant: null, key: null, model: null, time, json: `${ordinal}.${batch}.${at}.${index}` }
}

/** The values of such a row, in the order of the columns of a record in a batch. */
export function storedValues({ request_id, tenant, key, model, time, json }: RecordRow): Value[] {
  return [shortId(request_id), tenant, key, model, time, json]
}

/** Makes the id of a row of the database a text, in whichever form it is stored. Returns the row. */
export function withId(row: Row): Row & RecordRow {
  row['request_id'] = idIn(row['request_id'])
  return row as Row & RecordRow
}

/** Whether a row has this place in place of its record. Where the frame begins is compared where both know it. */
export function isPlace(text: string, { ordinal, batch, at, index }: RecordPlace): boolean {
  const [before, behind] = [`${ordinal}.${batch}.`, `.${index}`]
  if (text.length <= before.length + behind.length || !text.startsWith(before) || !text.endsWith(behind)) return false
  const begins = text.slice(before.length, -behind.length)
  return at === 0 || begins === '0' || begins === String(at)
}

/** Reads what a row has in place of its record; undefined when it has the record. None begins as a place does. */
export function placeIn(text: string): RecordPlace | undefined {
  if (text.startsWith('[') || text.startsWith('{')) return undefined
  const [ordinal = NaN, batch = NaN, at = NaN, index = NaN] = text.split('.').map(Number)
  return { ordinal, batch, at, index }
}
