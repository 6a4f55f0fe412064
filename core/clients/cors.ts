// Which pages of other sites may call from a browser (Fetch standard, section 3.3): whoever is listed, by exactly its
// origin.
import { namePattern } from '../wire/grammar.ts'
import { HeaderLines } from '../wire/response-head.ts'
import type { Incoming } from './client.ts'
import { GatewayError } from '../errors.ts'

/** Seconds for which a browser need not ask again. */
const maxAge = 7200
/** What a page is shown of an answer beside what browsers show of any. */
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
  'x-sluice-dropped'
].join(', ')
const nothing = Buffer.alloc(0)

/**
 * Says of every request whether its browser may let the page read the answer. Keys are no cookies, so that credentials
 * are never allowed.
 */
export class Cors {
  readonly #origins: ReadonlySet<string>

  constructor(origins: readonly string[]) {
    this.#origins = new Set(origins)
  }

  /**
   * Looks at a request before anybody else. True when it was a browser's question whether a page may ask, which carries
   * no key and has been answered.
   * @throws GatewayError `origin_not_allowed` when such a question comes from a page that may not
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

/** Which headers a page wants to send is its own affair: none of them lets anybody in but a key. */
function namesOf(list: string | string[] | undefined): string[] {
  return String(list ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => namePattern.test(name))
}

/**
 * Adds to an answer what the browser of a page from that origin wants to see; nothing but that answers differ when the
 * origin is empty.
 */
export function addOrigin(headers: HeaderLines, origin: string): void {
  headers.add('vary', 'origin')
  if (origin !== '') headers.add('access-control-allow-origin', origin).add('access-control-expose-headers', exposed)
}
