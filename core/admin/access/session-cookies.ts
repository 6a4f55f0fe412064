// The cookies of sign-ins and sessions. Scripts cannot read them, and pages of other sites do not send them.
import type { Origins } from './origins.ts'

/** What a browser keeps: the id of a session, or somebody's way to the provider and back. */
type Kept = 'admin' | 'login'

/** The cookies of one listener. */
export class SessionCookies {
  readonly #origins: Origins

  constructor(origins: Origins) {
    this.#origins = origins
  }

  /** What a browser that came by this `Host` brought in a header `Cookie`; undefined when there is nothing. */
  find(what: Kept, cookies: string, host: string): string | undefined {
    return valueIn(cookies, this.#name(what, host))
  }

  /**
   * The header that makes a browser keep something for so many seconds, or without a value, forget it. The way back
   * from the provider comes from another site, with what is lax alone.
   */
  keep(what: Kept, value: string | undefined, host: string, seconds: number): string {
    const strict = what === 'admin' ? 'Strict' : 'Lax'
    const secure = this.#origins.isPrivate(host) ? '; Secure' : ''
    const age = value === undefined ? 0 : seconds
    return `${this.#name(what, host)}=${value ?? ''}; Path=/; HttpOnly; SameSite=${strict}${secure}; Max-Age=${age}`
  }

  /**
   * Listeners on one host share cookies whatever their ports. By a host that takes secure cookies the name has a prefix
   * that nothing else of that host, and nobody on the way, can set without https.
   */
  #name(what: Kept, host: string): string {
    const port = /:(\d+)$/.exec(host)?.[1]
    return `${this.#origins.isPrivate(host) ? '__Host-' : ''}sluice_${what}${port === undefined ? '' : `_${port}`}`
  }
}

/** The value of a cookie. A name that is there twice counts as absent: somebody else may have set one of them. */
function valueIn(cookies: string, name: string): string | undefined {
  const values = cookies.split(';').flatMap((pair) => {
    const [, key, value] = /^\s*([^=\s]+)=(.*)$/.exec(pair) ?? []
    return key === name && value !== undefined && value !== '' ? [value.trim()] : []
  })
  return values.length === 1 ? values[0] : undefined
}
