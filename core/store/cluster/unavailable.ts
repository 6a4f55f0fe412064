// What clients are told while the database does not answer.
import { GatewayError } from '../../errors.ts'
import { DatabaseFault } from './database/fault.ts'

/** An error that says so. `cause`: for the log of the gateway. */
export function unavailable(cause: unknown): GatewayError {
  return new GatewayError('billing_unavailable', 'The database cannot be reached at the moment. Try again.', {
    retryAfterMs: 1000,
    cause
  })
}

/**
 * Of a search that failed.
 * @throws GatewayError always: what it took too long for is told from a database that is away
 */
export function unfound(cause: unknown): never {
  if (!(cause instanceof DatabaseFault)) throw cause
  if (cause.code === 'left') throw new GatewayError('client_closed', 'Who asked has left.', { cause })
  if (cause.code !== '57014') throw unavailable(cause)
  const message = 'The search took too long, and was ended. Ask for less: a shorter time, or one tenant.'
  throw new GatewayError('overloaded', message, { cause })
}
