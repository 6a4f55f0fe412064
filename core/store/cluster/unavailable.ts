// What clients are told while the database does not answer.
import { GatewayError } from '../../errors.ts'

/** An error that says so. `cause`: for the log of the gateway. */
export function unavailable(cause: unknown): GatewayError {
  return new GatewayError('billing_unavailable', 'The database cannot be reached at the moment. Try again.', {
    retryAfterMs: 1000,
    cause
  })
}
