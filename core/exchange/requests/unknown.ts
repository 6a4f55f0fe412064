// Requests for what there is not: what stands in for their operation, so that they are recorded like any other, and
// what they are told.
import type { ClientRequest } from '../../contract/contract.ts'
import type { OperationFinder, ServedOperation } from '../../contract/served.ts'
import { GatewayError } from '../../errors.ts'

/** What is known of a request before its operation is. */
type Asked = Pick<ClientRequest, 'path' | 'method' | 'headers' | 'query'>

/** What stands in for an operation that there is not. It is asked of nobody, and speaks as what is most like it. */
export function unknownOperation({ path, headers, query }: Asked, operations: OperationFinder): ServedOperation {
  const mended = mistakes.find(({ mend }) => operations.find('', mend(path), headers, query))?.mend(path)
  const { protocol } = operations.nearest(mended ?? path, headers, query)
  return {
    name: 'unknown',
    endpoint: 'unknown',
    summary: 'Nothing that there is.',
    method: 'GET',
    paths: [],
    protocol,
    body: 'none'
  }
}

/**
 * The refusal of a request that has no operation. `allow`: the methods of its path, undefined when nothing is there.
 */
export function noRoute(
  { path, method, headers, query }: Asked,
  allow: readonly string[] | undefined,
  operations: OperationFinder
): GatewayError {
  const shown = path.slice(0, 200)
  if (allow) {
    const methods = allow.join(', ')
    return new GatewayError('method_not_allowed', `${shown} takes ${methods}, not ${method.slice(0, 20)}.`, {
      headers: [['allow', methods]]
    })
  }
  const meant = mistakes.find(({ mend }) => mend(path) !== path && operations.find(method, mend(path), headers, query))
  const hint = meant ? ` ${meant.remedy}: ${meant.mend(path).slice(0, 200)} is there.` : ''
  return new GatewayError('route_not_found', `There is nothing at ${shown}.${hint}`)
}

/** One slash where there are several, and none at the end. */
const tidy = (path: string): string => path.replace(/\/{2,}/g, '/').replace(/(.)\/$/, '$1')

/** What base addresses are written with and without. */
const mistakes: readonly { mend(path: string): string; remedy: string }[] = [
  { mend: tidy, remedy: 'Take the surplus slash out of the path or the base address' },
  { mend: (path) => `/v1${tidy(path)}`, remedy: 'The base address ends in /v1' },
  {
    mend: (path) => tidy(path).replace(/^\/v1(?=\/v1)/, ''),
    remedy: 'The base address must not end in /v1 for this client, which adds it'
  }
]
