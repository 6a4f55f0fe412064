// Makes a request of what arrived: splits the target, and finds the operation.
import type { Incoming } from '../../clients/client.ts'
import type { Match, OperationFinder, ServedRequest } from '../../contract/served.ts'
import { unknownOperation } from './unknown.ts'

/** The request, and what its path leads to; undefined when nothing is there. */
export function requestOf(
  { method, target, headers, remoteAddress }: Pick<Incoming, 'method' | 'target' | 'headers' | 'remoteAddress'>,
  operations: OperationFinder
): { request: ServedRequest; match: Match | undefined } {
  const mark = target.indexOf('?')
  const path = mark === -1 ? target : target.slice(0, mark)
  const query = mark === -1 ? '' : target.slice(mark + 1)
  const match = operations.find(method, path, headers, query)
  const operation = match?.operation ?? unknownOperation({ method, path, query, headers }, operations)
  return {
    request: { method, path, query, headers, operation, parameters: match?.parameters ?? {}, remoteAddress },
    match
  }
}
