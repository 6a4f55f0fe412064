// Google's names for HTTP statuses: https://cloud.google.com/apis/design/errors

const names: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  402: 'RESOURCE_EXHAUSTED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  409: 'ABORTED',
  429: 'RESOURCE_EXHAUSTED',
  499: 'CANCELLED',
  500: 'INTERNAL',
  501: 'UNIMPLEMENTED',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED'
}

/** The member `error` of a body, or of the last event of a stream. */
export function errorOf(status: number, message: string): { code: number; message: string; status: string } {
  return { code: status, message, status: names[status] ?? (status < 500 ? 'INVALID_ARGUMENT' : 'INTERNAL') }
}
