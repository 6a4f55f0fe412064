// Stands in for the operation of a request that has none, so that its refusal is recorded like any other.
import type { Operation } from '../contract/operation.ts'

/** Never asked of anybody. */
export const unknownOperation: Operation = {
  name: 'unknown',
  endpoint: 'unknown',
  summary: 'Nothing that there is.',
  method: 'GET',
  paths: [],
  protocol: 'openai-chat',
  body: 'none'
}
