// The sessions of people who signed in: opaque ids in cookies, kept as documents by their hashes.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { offered } from '../../clients/handshake.ts'
import { GatewayError } from '../../errors.ts'
import { changeOf, documentKind } from '../../store/documents.ts'
import type { Documents } from '../../store/documents.ts'
import type { Logger } from '../../telling/log.ts'
import { auditEntry } from '../api/audit.ts'
import type { Actor } from '../api/audit.ts'
import { actorOf, refused } from './sign-in.ts'
import type { Identity, SignIn } from './sign-in.ts'

/** Milliseconds from the sign-in, and from the last request, after which a session is over. */
const total = 8 * 3_600_000
const idle = 30 * 60_000
/** The least milliseconds between two writes of when a session was last seen. */
const writeEvery = 60_000
/** How many sessions there are at most, of one person and of all: the one that began first goes. */
const mostOfOne = 16
const most = 1000

/** A session. Times are Unix milliseconds. */
export interface StoredSession {
  /** SHA-256 of its id in hexadecimal. */
  readonly sha256: string
  readonly who: Identity
  readonly created: number
  readonly seen: number
  readonly address: string | null
}

/** The documents of sessions; their ids are the hashes. */
export const sessionDocuments = documentKind<StoredSession>('session')

/** A session as shown. Times are RFC 3339. */
export interface ShownSession {
  /** What it is called, which opens nothing. */
  session: string
  issuer: string
  subject: string
  name: string
  role: string | null
  tenant: string | null
  address: string | null
  created: string
  seen: string
  expires: string
}

/** The sessions of a running gateway. */
export class Sessions {
  readonly #documents: Documents
  readonly #log: Logger
  readonly #signIn: SignIn
  readonly #origin: string
  readonly #cookie: string
  readonly #attributes: string
  readonly #journey: string
  /** When sessions were last seen, where that is not written yet. */
  readonly #seen = new Map<string, number>()

  /** `base` is the address by which browsers reach the listener: of https, or on a loopback address. */
  constructor(documents: Documents, signIn: SignIn, base: string, log: Logger) {
    this.#documents = documents
    this.#log = log
    this.#signIn = signIn
    const { origin, port, protocol } = new URL(base)
    this.#origin = origin
    const secure = protocol === 'https:'
    // Gateways on one host share cookies whatever their ports, and not all browsers keep secure ones of loopback
    // addresses.
    const name = (what: string): string => (secure ? `__Host-sluice_${what}` : `sluice_${what}_${port}`)
    this.#cookie = name('admin')
    this.#journey = name('login')
    this.#attributes = `Path=/; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`
  }

  /** The header that makes a browser keep a journey to the provider, or forget it. */
  journeyCookie(journey: string | undefined): string {
    return this.#setCookie(this.#journey, journey, 600)
  }

  /** The journey that a browser brings back. */
  journeyIn(cookies: string): string | undefined {
    return valueIn(cookies, this.#journey)
  }

  /** The header that makes a browser forget its session. */
  get forgetCookie(): string {
    return this.#setCookie(this.#cookie, undefined, 0)
  }

  /**
   * Begins a session. Resolves with the header that the browser gets.
   * @throws GatewayError `sign_in_refused` when no group gives a role
   */
  async begin(who: Identity, address: string | null, requestId: string | undefined): Promise<string> {
    const grant = this.#signIn.grantOf(who)
    if (!grant)
      throw refused(`No group of ${who.name} has a role here: who runs the gateway gives one, in admin.oidc.roles.`)
    const id = randomBytes(32).toString('base64url')
    const now = Date.now()
    const stored: StoredSession = { sha256: digestOf(id), who, created: now, seen: now, address }
    const by: Actor = {
      kind: 'session',
      ...actorOf(who),
      ...grant,
      address,
      ...(requestId !== undefined && { requestId })
    }
    const entry = auditEntry(by, 'session.begin', { kind: 'session', id: nameOf(stored) }, undefined, { ...grant })
    await this.#documents.change([...this.#leaving(who, now), changeOf(sessionDocuments, stored.sha256, stored)], entry)
    return this.#setCookie(this.#cookie, id, total / 1000)
  }

  /**
   * The actor of a request with the cookie of a session; undefined when it has none.
   * @throws GatewayError `session_over`; `csrf_missing` when it would change something, and no page of this listener
   * proves to have sent it
   */
  actorOf(request: IncomingMessage): Actor | undefined {
    const id = valueIn(request.headers.cookie ?? '', this.#cookie)
    if (id === undefined) return undefined
    const session = this.#documents.find(sessionDocuments, digestOf(id))
    const now = Date.now()
    const grant = session && this.#valid(session, now) ? this.#signIn.grantOf(session.who) : undefined
    if (!session || !grant)
      throw new GatewayError('expired_api_key', 'This session is over: sign in again at /admin/login.', {
        shownCode: 'session_over'
      })
    this.#checkOrigin(request, id)
    this.#note(session, now)
    return {
      kind: 'session',
      ...actorOf(session.who),
      ...grant,
      address: request.socket.remoteAddress ?? null,
      session: session.sha256
    }
  }

  /** What proves that a page which could read the session's own answer sends a request. */
  csrfOf(cookies: string): string | null {
    const id = valueIn(cookies, this.#cookie)
    return id === undefined ? null : csrfFor(id)
  }

  /** All sessions that are not over. */
  list(): ShownSession[] {
    const now = Date.now()
    return this.#documents
      .all(sessionDocuments)
      .filter((session) => this.#valid(session, now))
      .map((session) => this.#show(session))
  }

  /** Ends a session by its hash or its name, from its next request on. Returns it; undefined when there is none. */
  async end(name: string, by: Actor): Promise<ShownSession | undefined> {
    const session = this.#documents.all(sessionDocuments).find((one) => one.sha256 === name || nameOf(one) === name)
    if (!session) return undefined
    const shown = this.#show(session)
    const entry = auditEntry(by, 'session.end', { kind: 'session', id: nameOf(session) }, shown, undefined)
    await this.#documents.change([changeOf(sessionDocuments, session.sha256, null)], entry)
    return shown
  }

  #valid({ sha256, created, seen }: StoredSession, now: number): boolean {
    return now - created < total && now - Math.max(seen, this.#seen.get(sha256) ?? 0) < idle
  }

  /** What takes out sessions that are over, and those for which there is no room beside a new one of somebody. */
  #leaving({ issuer, subject }: Identity, now: number): ReturnType<typeof changeOf>[] {
    const all = this.#documents.all(sessionDocuments)
    const newestFirst = all.filter((session) => this.#valid(session, now)).reverse()
    const own = newestFirst.filter(({ who }) => who.issuer === issuer && who.subject === subject)
    const tooMany = new Set(own.slice(mostOfOne - 1))
    const kept = new Set(newestFirst.filter((session) => !tooMany.has(session)).slice(0, most - 1))
    return all
      .filter((session) => !kept.has(session))
      .map(({ sha256 }) => {
        this.#seen.delete(sha256)
        return changeOf(sessionDocuments, sha256, null)
      })
  }

  #note(session: StoredSession, now: number): void {
    this.#seen.set(session.sha256, now)
    if (now - session.seen < writeEvery) return
    try {
      this.#documents.note([changeOf(sessionDocuments, session.sha256, { ...session, seen: now })])
    } catch (error) {
      this.#log.warn('when a session was seen was not written', { error: String(error) })
    }
  }

  #checkOrigin({ method = '', headers }: IncomingMessage, id: string): void {
    // A socket is opened by GET, and what goes over it spends. Browsers say where every one comes from.
    const isSocket = headers.upgrade !== undefined
    if ((method === 'GET' || method === 'HEAD') && !isSocket) return
    const site = headers['sec-fetch-site'] ?? 'same-origin'
    const origin = headers.origin ?? (isSocket ? undefined : this.#origin)
    const given = String(headers['x-sluice-csrf'] ?? offered(headers, 'sluice-csrf.') ?? '')
    const [one, other] = [digestOf(given), digestOf(csrfFor(id))].map((text) => Buffer.from(text))
    if (site === 'same-origin' && origin === this.#origin && timingSafeEqual(one!, other!)) return
    throw new GatewayError(
      'origin_not_allowed',
      'A change by a session needs the header X-Sluice-CSRF with the csrf of GET /admin/v1/session, from a page of this listener.',
      { shownCode: 'csrf_missing' }
    )
  }

  #setCookie(name: string, value: string | undefined, seconds: number): string {
    return `${name}=${value ?? ''}; ${this.#attributes}; Max-Age=${value === undefined ? 0 : seconds}`
  }

  #show(session: StoredSession): ShownSession {
    const { who, created, seen, address, sha256 } = session
    let grant
    try {
      grant = this.#signIn.grantOf(who)
    } catch {
      // Groups that would have to choose a tenant now give no role.
    }
    return {
      session: nameOf(session),
      issuer: who.issuer,
      subject: who.subject,
      name: who.name,
      role: grant?.role ?? null,
      tenant: grant?.tenant ?? null,
      address,
      created: showTime(created),
      seen: showTime(Math.max(seen, this.#seen.get(sha256) ?? 0)),
      expires: showTime(created + total)
    }
  }
}

function showTime(time: number): string {
  return new Date(time).toISOString()
}

function nameOf({ sha256 }: StoredSession): string {
  return sha256.slice(0, 16)
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

function csrfFor(id: string): string {
  return createHash('sha256').update(`csrf ${id}`).digest('base64url')
}

/** The value of a cookie. A name that is there twice counts as absent: somebody else may have set one of them. */
function valueIn(cookies: string, name: string): string | undefined {
  const values = cookies.split(';').flatMap((pair) => {
    const [, key, value] = /^\s*([^=\s]+)=(.*)$/.exec(pair) ?? []
    return key === name && value !== undefined && value !== '' ? [value.trim()] : []
  })
  return values.length === 1 ? values[0] : undefined
}
