// Why the database does not do a batch.
import { DatabaseFault } from '../../database/fault.ts'

/** The database says so where another node has ended what this one left open. */
export const fencedCode = 'SL001'
/** And so where a later start of this node has begun: this one is over. */
export const replacedCode = 'SL003'
/** A hold that is to be ended, or has made progress, is not there, or another node has it. */
export const lostCode = 'SL002'

/** What went wrong with a batch. What cannot even be made into one is refused as well. */
export function faultOf(error: unknown): DatabaseFault {
  if (error instanceof DatabaseFault) return error
  return new DatabaseFault('unmade', `it cannot be sent to PostgreSQL: ${String((error as Error).stack)}`)
}
