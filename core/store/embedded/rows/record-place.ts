// Where the record of a request is in a journal, as the row of a database has it in place of the record.

/** A record among those of a batch. */
export interface RecordPlace {
  /** The ordinal of the segment, and of the volume that is made of it. */
  readonly ordinal: number
  readonly batch: number
  /** Where the frame begins in the segment; 0 where that is not known, as it was read from the volume. */
  readonly at: number
  readonly index: number
}

/** The text of a place. No record begins as it does. */
export function textOfPlace({ ordinal, batch, at, index }: RecordPlace): string {
  return `${ordinal}.${batch}.${at}.${index}`
}

/** Reads what a row has in place of its record; undefined when it has the record itself. */
export function placeIn(text: string): RecordPlace | undefined {
  if (text.startsWith('[') || text.startsWith('{')) return undefined
  const [ordinal = NaN, batch = NaN, at = NaN, index = NaN] = text.split('.').map(Number)
  return { ordinal, batch, at, index }
}
