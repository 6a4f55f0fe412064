// Which names browsers may know this listener by, and which pages may send it requests.
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { GatewayError } from '../../errors.ts'
import { isLoopbackHost, nameIn } from './loopback.ts'

/** The origins of one listener. */
export class Origins {
  readonly #listed: ReadonlySet<string>
  readonly #hosts: ReadonlyMap<string, string>

  /** `listed` are those of gateway.yaml: `https://console.example.com`, without a path. */
  constructor(listed: readonly string[]) {
    this.#listed = new Set(listed)
    this.#hosts = new Map(listed.map((origin) => [new URL(origin).host, new URL(origin).protocol]))
  }

  /**
   * Whether what a browser sends by this `Host` cannot be read along the way: it stays on this machine, or goes by
   * https. Browsers keep secure cookies then, and no others are given.
   */
  isPrivate(host: string): boolean {
    return isLoopbackHost(host) || this.#hosts.get(host.toLowerCase()) === 'https:'
  }

  /**
   * Refuses a request by a name that nobody has given this listener: a site may let its name resolve to any address.
   * @throws GatewayError `host_not_allowed`
   */
  checkHost({ headers: { host = '' } }: IncomingMessage): void {
    // Nobody can let an address resolve to another one.
    if (this.#hosts.has(host.toLowerCase()) || isLoopbackHost(host) || isIP(nameIn(host) ?? '') !== 0) return
    throw new GatewayError(
      'origin_not_allowed',
      'This listener does not know itself by the name in Host: add its origin to admin.origins of gateway.yaml, or open it by its address.',
      { shownCode: 'host_not_allowed' }
    )
  }

  /**
   * Refuses what a browser sends for a page of another origin, another port of this host included. What changes
   * something or opens a socket has to say where it comes from.
   * @throws GatewayError `origin_not_allowed`, `host_not_allowed`
   */
  checkPage(request: IncomingMessage): void {
    this.checkHost(request)
    const { method, headers } = request
    const { host = '', origin, 'sec-fetch-site': site = 'same-origin', upgrade } = headers
    const reads = method === 'GET' || method === 'HEAD'
    const named = origin === undefined ? reads && upgrade === undefined : this.#isOwn(origin, host)
    // An address that was typed, or taken from the bookmarks, comes from no site.
    if (!named || (site !== 'same-origin' && !(site === 'none' && reads)))
      throw new GatewayError(
        'origin_not_allowed',
        'Only pages of this listener may do this: open it by its address, or by one of admin.origins.'
      )
  }

  /** By a name or address that needs no listing, a page that came from here has it in its origin. */
  #isOwn(origin: string, host: string): boolean {
    return (
      this.#listed.has(origin) || (!this.#hosts.has(host.toLowerCase()) && origin === `http://${host.toLowerCase()}`)
    )
  }
}

/**
 * Refuses JSON of a page that is not sent as such: what forms of other pages can send is not taken for it.
 * @throws GatewayError `unsupported_media_type`
 */
export function checkJson({ headers: { 'content-type': type = '' } }: IncomingMessage): void {
  if (!/^application\/json\s*(?:;|$)/i.test(type))
    throw new GatewayError('unsupported_media_type', 'A page sends JSON with the content type application/json.')
}
