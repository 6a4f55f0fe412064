// Why the database does not do a batch.
import { DatabaseFault } from '../../database/fault.ts'

/** The database says so where another node has ended what this one left open. */
export const fencedCode = 'SL001'
/** And so where a later start of this node has begun: this one is over. */
export const replacedCode = 'SL003'
/** A hold that is to be ended, or has made progress, is not there, or another node has it. */
export const lostCode = 'SL002'

/** And so where an end is to be written without its hold, and another node has that open. */
const heldCode = 'SL005'
/** PostgreSQL says so of an end where the journal has one of that name. */
const uniqueCode = '23505'

/** Whether what is to be written is refused as others have written, or hold, what has its name. */
export function isTaken({ code }: DatabaseFault): boolean {
  return code === heldCode || code === uniqueCode
}

/** What went wrong with a batch. What cannot even be made into one is refused as well. */
export function faultOf(error: unknown): DatabaseFault {
  if (error instanceof DatabaseFault) return error
  return new DatabaseFault('unmade', `it cannot be sent to PostgreSQL: ${String((error as Error).stack)}`)
}
