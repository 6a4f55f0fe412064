// Errors in the form of Google's APIs.
import { readError as readAnyError } from '../told/errors.ts'
import { asObject, asObjects, asText } from '../object.ts'
import type { ShownError, UpstreamError } from '../protocol.ts'

/** https://github.com/googleapis/googleapis, google/rpc/error_details.proto */
const retryInfo = 'type.googleapis.com/google.rpc.RetryInfo'

/** https://ai.google.dev/gemini-api/docs/troubleshooting */
const statuses: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  402: 'RESOURCE_EXHAUSTED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  408: 'DEADLINE_EXCEEDED',
  409: 'ABORTED',
  429: 'RESOURCE_EXHAUSTED',
  499: 'CANCELLED',
  501: 'UNIMPLEMENTED',
  502: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
  529: 'UNAVAILABLE'
}

export function errorBody({ status, message, retryAfterMs }: ShownError): unknown {
  const kind = statuses[status] ?? (status >= 500 ? 'INTERNAL' : 'INVALID_ARGUMENT')
  // Google's clients read here how long to wait, and ignore the header.
  const details =
    retryAfterMs === undefined
      ? {}
      : { details: [{ '@type': retryInfo, retryDelay: `${Math.ceil(retryAfterMs / 1000)}s` }] }
  return { error: { code: status, message, status: kind, ...details } }
}

/** Reads an error. Its `code` is a number and its `status` a kind; the details have the reason and how long to wait. */
export function readError(body: unknown): UpstreamError {
  const said = readAnyError(body)
  const outer = asObject(Array.isArray(body) ? (body[0] as unknown) : body)
  const { status, details } = asObject(outer?.['error']) ?? {}
  const delay = asObjects(details).find((detail) => detail['@type'] === retryInfo)?.['retryDelay']
  const reason = asObjects(details).find((detail) => typeof detail['reason'] === 'string')?.['reason']
  const [, seconds] = /^(\d{1,9}(?:\.\d{1,9})?)s$/.exec(asText(delay)) ?? []
  return {
    ...said,
    type: typeof status === 'string' ? status : said.type,
    ...(typeof reason === 'string' && { reason }),
    ...(seconds !== undefined && { retryAfterMs: Math.ceil(Number(seconds) * 1000) })
  }
}
