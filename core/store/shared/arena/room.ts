// What is refused when a table has no free row.
import type { GatewayError } from '../../../errors.ts'
import { unavailable } from '../../embedded/writer/unavailable.ts'
import { TableFull } from './directory.ts'

/**
 * Does work that may make rows for balances.
 * @throws GatewayError `billing_unavailable` when there is no room for one
 */
export function withRoom<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw error instanceof TableFull ? noRoom(error) : error
  }
}

function noRoom({ message }: TableFull): GatewayError {
  return unavailable(`too many balances are in use: ${message}`)
}
