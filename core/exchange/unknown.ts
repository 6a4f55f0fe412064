// Stands in for the operation of a request that has none, so that its refusal is recorded like any other.
import type { ServedOperation } from '../contract/served.ts'

/** Never asked of anybody. */
export const unknownOperation: ServedOperation = {
  name: 'unknown',
  endpoint: 'unknown',
  summary: 'Nothing that there is.',
  method: 'GET',
  paths: [],
  protocol: 'openai-chat',
  body: 'none'
}
