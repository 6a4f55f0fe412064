// The sessions of people who signed in: opaque ids in cookies, kept as documents by their hashes.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { offered } from '../../clients/handshake.ts'
import { GatewayError } from '../../errors.ts'
import { changeOf, documentKind } from '../../store/documents.ts'
import type { DocumentChange, Documents } from '../../store/documents.ts'
import type { Logger } from '../../telling/log.ts'
import { auditEntry } from '../api/audit.ts'
import type { Actor } from '../api/audit.ts'
import { namedOf, wayOf } from './entrants.ts'
import type { Entrant, Entrants, Standing } from './entrants.ts'
import type { Origins } from './origins.ts'
import type { SessionCookies } from './session-cookies.ts'
import { refused } from './sign-in.ts'
import { thrownText } from '../../thrown.ts'

/** The least milliseconds between two writes of when a session was last seen. */
const writeEvery = 60_000
/** How many sessions there are at most, of one person and of all: the one that began first goes. */
const mostOfOne = 16
const most = 1000
const longestAgent = 200

/** A session. Times are Unix milliseconds. */
interface StoredSession {
  /** SHA-256 of its id in hexadecimal. */
  readonly sha256: string
  readonly who: Entrant
  readonly created: number
  readonly seen: number
  readonly address: string | null
  /** What the browser calls itself. */
  readonly agent?: string
}

const sessionDocuments = documentKind<StoredSession>('session')

/** The name of the kind of documents that sessions are. */
export const sessionKind = sessionDocuments.name

/** A session as shown. Times are RFC 3339. */
export interface ShownSession {
  /** What it is called, which opens nothing. */
  session: string
  how: ReturnType<typeof wayOf>
  /** As the audit log names the actor. */
  id: string
  name: string | null
  role: string | null
  tenant: string | null
  address: string | null
  agent: string | null
  created: string
  seen: string
  /** When it ends without a further request, and with any number of them. */
  idle_ends: string
  expires: string
}

/** How long sessions last without a request and in all, in milliseconds. */
export interface Lifetimes {
  readonly idle: number
  readonly total: number
}

/** Where a session is begun from: the headers of the request, its address and id. */
export interface Beginning {
  readonly host: string
  readonly cookies: string
  readonly agent: string
  readonly address: string | null
  readonly requestId?: string | undefined
}

/** The sessions of a running gateway. */
export class Sessions {
  readonly #documents: Documents
  readonly #log: Logger
  readonly #entrants: Entrants
  readonly #origins: Origins
  readonly #cookies: SessionCookies
  readonly #lifetimes: Lifetimes
  /** When sessions were last seen, where that is not written yet. */
  readonly #seen = new Map<string, number>()

  constructor(
    documents: Documents,
    entrants: Entrants,
    { origins, cookies }: { origins: Origins; cookies: SessionCookies },
    lifetimes: Lifetimes,
    log: Logger
  ) {
    this.#documents = documents
    this.#log = log
    this.#entrants = entrants
    this.#origins = origins
    this.#cookies = cookies
    this.#lifetimes = lifetimes
  }

  /**
   * Begins a session, and ends the one that the browser had. Resolves with its actor, and the header `Set-Cookie`.
   * @throws GatewayError `sign_in_refused` when nothing gives a role
   */
  async begin(who: Entrant, from: Beginning): Promise<{ by: Actor; csrf: string; cookie: string }> {
    const named = namedOf(who)
    const standing = await this.#entrants.standing(who)
    if (!standing)
      throw refused(
        `No group of ${named.name ?? named.id} has a role here: who runs the gateway gives one, in admin.oidc.roles.`
      )
    const { host, cookies, agent, address, requestId } = from
    const id = randomBytes(32).toString('base64url')
    const now = Date.now()
    const stored = { sha256: digestOf(id), who, created: now, seen: now, address, agent: agent.slice(0, longestAgent) }
    const { role, tenant } = standing
    const by: Actor = {
      ...named,
      role,
      tenant,
      address,
      session: stored.sha256,
      ...(requestId !== undefined && { requestId })
    }
    const entry = auditEntry(by, 'session.begin', { kind: 'session', id: nameOf(stored) }, undefined, { role, tenant })
    const before = this.#cookies.find('admin', cookies, host)
    const leaving = this.#leaving(named, before === undefined ? undefined : digestOf(before), now)
    await this.#documents.change([...leaving, changeOf(sessionDocuments, stored.sha256, stored)], entry)
    const cookie = this.#cookies.keep('admin', id, host, Math.ceil(this.#lifetimes.total / 1000))
    return { by, csrf: csrfFor(id), cookie }
  }

  /**
   * The actor of a request with the cookie of a session; undefined when it has none. `unseen`: the request is looked at
   * again, which does not keep the session from becoming idle.
   * @throws GatewayError `session_over`, which makes the browser forget the cookie; `csrf_missing`; those of
   * {@link Origins.checkPage}
   */
  actorOf(request: IncomingMessage, unseen = false): Promise<Actor> | undefined {
    const { host = '', cookie = '' } = request.headers
    const id = this.#cookies.find('admin', cookie, host)
    return id === undefined ? undefined : this.#recognise(id, request, unseen)
  }

  async #recognise(id: string, request: IncomingMessage, unseen: boolean): Promise<Actor> {
    this.#origins.checkPage(request)
    const session = this.#documents.find(sessionDocuments, digestOf(id))
    const now = Date.now()
    const standing = session && this.#isOpen(session, now) ? await this.#standing(session) : undefined
    // It may have been ended while this was found out.
    if (!session || !standing || !this.#documents.find(sessionDocuments, session.sha256)) {
      throw new GatewayError('expired_api_key', 'This session is over: sign in again.', {
        shownCode: 'session_over',
        headers: [['set-cookie', this.forgetting(request.headers.host ?? '')]]
      })
    }
    checkCsrf(request, id)
    if (!unseen) this.#note(session, now)
    return {
      ...namedOf(session.who),
      role: standing.role,
      tenant: standing.tenant,
      address: request.socket.remoteAddress ?? null,
      session: session.sha256
    }
  }

  /** What proves that a page which could read the session's own answer sends a request; null without a session. */
  csrfOf(cookies: string, host: string): string | null {
    const id = this.#cookies.find('admin', cookies, host)
    return id === undefined ? null : csrfFor(id)
  }

  /** The session of an actor; undefined when it has none. */
  async find(sha256: string | undefined): Promise<ShownSession | undefined> {
    const session = sha256 === undefined ? undefined : this.#documents.find(sessionDocuments, sha256)
    return session && this.#show(session, await this.#standing(session))
  }

  /** All sessions that are not over; with `of`, those of this person. */
  async list(of?: Pick<Actor, 'kind' | 'id'>): Promise<ShownSession[]> {
    const now = Date.now()
    const open = this.#documents
      .all(sessionDocuments)
      .filter((session) => this.#isOpen(session, now) && (!of || isSame(namedOf(session.who), of)))
    const shown = await Promise.all(open.map(async (session) => ({ session, standing: await this.#standing(session) })))
    return shown.flatMap(({ session, standing }) => (standing ? [this.#show(session, standing)] : []))
  }

  /** Ends a session by its hash or its name, from its next request on, and its streams at once. */
  async end(name: string, by: Actor): Promise<void> {
    const session = this.#documents.all(sessionDocuments).find((one) => one.sha256 === name || nameOf(one) === name)
    if (!session) return
    const shown = this.#show(session, await this.#standing(session))
    const entry = auditEntry(by, 'session.end', { kind: 'session', id: nameOf(session) }, shown, undefined)
    await this.#documents.change([this.#out(session)], entry)
  }

  /** The header `Set-Cookie` that makes a browser forget its session. */
  forgetting(host: string): string {
    return this.#cookies.keep('admin', undefined, host, 0)
  }

  #isOpen({ sha256, created, seen }: StoredSession, now: number): boolean {
    const { idle, total } = this.#lifetimes
    return now - created < total && now - Math.max(seen, this.#seen.get(sha256) ?? 0) < idle
  }

  async #standing({ who }: StoredSession): Promise<Standing | undefined> {
    try {
      return await this.#entrants.standing(who)
    } catch {
      // Groups that would have to choose a tenant now give no role.
      return undefined
    }
  }

  /** What takes out sessions that are over, the one that the browser had, and those for which there is no room. */
  #leaving(named: Pick<Actor, 'kind' | 'id'>, before: string | undefined, now: number): DocumentChange[] {
    const all = this.#documents.all(sessionDocuments)
    const newestFirst = all.filter((session) => session.sha256 !== before && this.#isOpen(session, now)).reverse()
    const own = newestFirst.filter(({ who }) => isSame(namedOf(who), named))
    const tooMany = new Set(own.slice(mostOfOne - 1))
    const kept = new Set(newestFirst.filter((session) => !tooMany.has(session)).slice(0, most - 1))
    return all.filter((session) => !kept.has(session)).map((session) => this.#out(session))
  }

  #out({ sha256 }: StoredSession): DocumentChange {
    this.#seen.delete(sha256)
    return changeOf(sessionDocuments, sha256, null)
  }

  #note(session: StoredSession, now: number): void {
    this.#seen.set(session.sha256, now)
    if (now - session.seen < writeEvery) return
    try {
      this.#documents.note([changeOf(sessionDocuments, session.sha256, { ...session, seen: now })])
    } catch (error) {
      this.#log.warn('when a session was seen was not written', { error: thrownText(error) })
    }
  }

  #show(session: StoredSession, standing: Standing | undefined): ShownSession {
    const { who, created, address, agent = null, sha256 } = session
    const { idle, total } = this.#lifetimes
    const seen = Math.max(session.seen, this.#seen.get(sha256) ?? 0)
    const expires = Math.min(created + total, standing?.until ?? Infinity)
    const { id, name = null } = namedOf(who)
    return {
      session: nameOf(session),
      how: wayOf(who),
      id,
      name,
      role: standing?.role ?? null,
      tenant: standing?.tenant ?? null,
      address,
      agent,
      created: showTime(created),
      seen: showTime(seen),
      idle_ends: showTime(Math.min(seen + idle, expires)),
      expires: showTime(expires)
    }
  }
}

function checkCsrf({ method, headers }: IncomingMessage, id: string): void {
  // A socket is opened by GET, and what goes over it spends; a page cannot give it headers.
  if ((method === 'GET' || method === 'HEAD') && headers.upgrade === undefined) return
  const given = String(headers['x-sluice-csrf'] ?? offered(headers, 'sluice-csrf.') ?? '')
  const [one, other] = [given, csrfFor(id)].map((text) => Buffer.from(digestOf(text)))
  if (timingSafeEqual(one!, other!)) return
  throw new GatewayError(
    'origin_not_allowed',
    'A change by a session needs the header X-Sluice-CSRF with the csrf of GET /admin/v1/session.',
    { shownCode: 'csrf_missing' }
  )
}

function isSame(one: Pick<Actor, 'kind' | 'id'>, other: Pick<Actor, 'kind' | 'id'>): boolean {
  return one.kind === other.kind && one.id === other.id
}

function showTime(time: number): string {
  return new Date(time).toISOString()
}

function nameOf({ sha256 }: Pick<StoredSession, 'sha256'>): string {
  return sha256.slice(0, 16)
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

function csrfFor(id: string): string {
  return createHash('sha256').update(`csrf ${id}`).digest('base64url')
}
