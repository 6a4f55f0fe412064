// The refusal of what the store cannot take at the moment.
import { GatewayError } from '../../../errors.ts'

/** The error that refuses a request for a temporary reason. `cause` is only for the operator. */
export function unavailable(cause: string | undefined): GatewayError {
  return new GatewayError('billing_unavailable', 'Requests cannot be accounted for at the moment. Try again.', {
    retryAfterMs: 1000,
    cause
  })
}
