// Cross-origin requests from browsers (Fetch standard, section 3.3): only pages of listed origins may call, compared
// exactly.
import { namePattern } from '../wire/grammar.ts'
import { HeaderLines } from '../wire/response-head.ts'
import type { Incoming } from './client.ts'
import { GatewayError } from '../errors.ts'

/** Seconds for which a browser may remember the answer to a preflight request. */
const maxAge = 7200
/** The headers that a page may read, in addition to those that browsers always show. */
const exposed = [
  'x-request-id',
  'request-id',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
  'x-ratelimit-limit',
  'x-ratelimit-remaining',
  'x-ratelimit-reset',
  'deprecation',
  'sunset',
  'link',
  'location',
  'x-sluice-max-output',
  'x-sluice-dropped',
  'x-sluice-model'
].join(', ')
const nothing = Buffer.alloc(0)

/**
 * Decides for every request whether a browser may show the answer to its page. Keys are not cookies, so credentials are
 * never allowed.
 */
export class Cors {
  readonly #origins: ReadonlySet<string>

  constructor(origins: readonly string[]) {
    this.#origins = new Set(origins)
  }

  /**
   * Called first for every request. True when it was a preflight request, which carries no key and has been answered.
   * @throws GatewayError `origin_not_allowed` for a preflight request from an origin that is not listed
   */
  answers({ method, headers, client }: Incoming): boolean {
    const { origin } = headers
    const known = typeof origin === 'string' && this.#origins.has(origin)
    client.origin = known ? origin : ''
    const wanted = headers['access-control-request-method']
    if (method !== 'OPTIONS' || origin === undefined || wanted === undefined) return false
    if (!known) throw new GatewayError('origin_not_allowed', 'Pages of this origin may not call from a browser.')
    const lines = HeaderLines.of(
      'access-control-allow-methods',
      'GET, POST, DELETE',
      'access-control-max-age',
      String(maxAge)
    )
    const names = namesOf(headers['access-control-request-headers'])
    if (names.length > 0) lines.add('access-control-allow-headers', names.join(', '))
    client.reply(204, lines, nothing)
    return true
  }
}

/** A page may send any headers: only a key gives access. */
function namesOf(list: string | string[] | undefined): string[] {
  return String(list ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => namePattern.test(name))
}

/**
 * Adds the headers that the browser needs to show an answer to a page of that origin. For an empty origin, only `vary`
 * is added.
 */
export function addOrigin(headers: HeaderLines, origin: string): void {
  headers.add('vary', 'origin')
  if (origin !== '') headers.add('access-control-allow-origin', origin).add('access-control-expose-headers', exposed)
}
