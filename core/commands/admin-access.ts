// Lets commands use the admin API: that of the gateway while it runs, otherwise the same routes on its opened store.
import { userInfo } from 'node:os'
import type { Address } from '../../config/address.ts'
import { everything } from '../admin/access/roles.ts'
import type { Actor } from '../admin/audit.ts'
import type { OfflineParts, Page } from '../admin/contract.ts'
import { readQuery } from '../admin/query.ts'
import { findRoute } from '../admin/routes.ts'
import type { Config, Settings } from '../catalogue/settings.ts'
import { isMap } from '../options/schema-check.ts'
import { openStore } from '../store/store.ts'
import { createLogger } from '../telling/log.ts'

/** The admin API of one gateway. Its methods throw errors with messages for people. */
export interface AdminAccess {
  /** How the gateway is reached, for messages: `the gateway at http://127.0.0.1:9090`, or the path of the store. */
  readonly where: string
  /** Sends a request. `path` begins with `/admin/v1/`; `patience` is in milliseconds. */
  call<T>(method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: unknown, patience?: number): Promise<T>
}

/**
 * Calls `work` with the admin API of a gateway. A running gateway is looked for at the admin address, and recognised by
 * its store. A store that another process has open is never written.
 */
export async function withAdmin<T>(config: Config, work: (admin: AdminAccess) => Promise<T>): Promise<T> {
  const {
    admin,
    store: { sqlite: file, durability }
  } = config.settings
  const remote = admin && admin.port !== 0 ? new RemoteAdmin(admin) : undefined
  if (remote && (await remote.keeps(file))) return work(remote)
  const store = await openStore({ file, durability }).catch((error: Error) => {
    const missed = remote
      ? `No gateway with this store answers at ${remote.url}.`
      : 'The configuration has no admin.port at which the gateway could be asked.'
    throw new Error(`${error.message}. ${missed}`)
  })
  try {
    const parts: OfflineParts = { store, generations: { current: { config } }, log: createLogger({ level: 'warn' }) }
    return await work(new LocalAdmin(file, parts))
  } finally {
    await store.close()
  }
}

/**
 * Calls `work` with the admin API of the running gateway that has the store of the configuration.
 * @throws Error when none answers
 */
export async function withGateway<T>(config: Address, work: (admin: AdminAccess) => Promise<T>): Promise<T> {
  const { admin, store } = config.settings
  if (!admin || admin.port === 0)
    throw new Error('The configuration has no admin.port at which the gateway could be asked.')
  const remote = new RemoteAdmin(admin)
  if (await remote.keeps(store.sqlite)) return work(remote)
  throw new Error(`No gateway with this store answers at ${remote.url}: start it with \`sluice start\`, and ask again.`)
}

/** All items of a list, page by page. `query` may be empty, or is like `tenant=acme`. */
export async function allOf<T>(admin: AdminAccess, path: string, query = ''): Promise<T[]> {
  const items: T[] = []
  let cursor = ''
  for (;;) {
    const parameters = [query, cursor].filter((part) => part !== '').join('&')
    const page: Page<T> = await admin.call('GET', parameters === '' ? path : `${path}?${parameters}`)
    items.push(...page.data)
    if (page.next === null) return items
    cursor = `cursor=${encodeURIComponent(page.next)}`
  }
}

/** The routes that need no running gateway, on an opened store. */
class LocalAdmin implements AdminAccess {
  readonly where: string
  readonly #parts: OfflineParts

  constructor(where: string, parts: OfflineParts) {
    this.where = where
    this.#parts = parts
  }

  async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const [plain, parameters = ''] = path.split('?', 2) as [string, string?]
    const { route, names } = findRoute(method, plain)
    if (!route.offline) throw new Error(`${plain} needs a running gateway: start it, and ask again`)
    const query = readQuery(parameters, route.query ?? [])
    const call = { query, names, by: user(), search: '', cookies: '', accept: '', json: async () => body ?? {} }
    const answer = await route.handle(call, this.#parts)
    if (!('json' in answer)) throw new Error(`${plain} has no JSON`)
    return answer.json as T
  }
}

/** The user who runs the command. */
function user(): Actor {
  let id = 'unknown'
  try {
    id = userInfo().username
  } catch {
    // The machine does not know the user's name, as in a container with a number alone.
    id = `uid ${process.getuid?.() ?? '?'}`
  }
  return { kind: 'command', id, address: null, ...everything }
}

type Admin = NonNullable<Settings['admin']>

/** The address to connect to for an address that a listener is bound to. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  if (host === '::') return '[::1]'
  return host.includes(':') ? `[${host}]` : host
}

const patienceMs = 10_000

/** A running gateway. */
class RemoteAdmin implements AdminAccess {
  readonly url: string
  readonly #token: string

  constructor({ host, port, token }: Admin) {
    this.url = `http://${reachable(host)}:${port}`
    this.#token = token
  }

  get where(): string {
    return `the gateway at ${this.url}`
  }

  /**
   * Whether a gateway with this store answers.
   * @throws Error when the gateway refuses the token
   */
  async keeps(store: string): Promise<boolean> {
    const { status, body } = await this.#ask('GET', '/admin/v1/config').catch(() => ({ status: 0, body: undefined }))
    if ((status === 401 || status === 403) && isMap(body) && isMap(body['error'])) {
      throw new Error(
        `${this.url} does not let this command in: ${String(body['error']['message'])} Is the environment the same as the gateway's?`
      )
    }
    return status === 200 && isMap(body) && body['store'] === store
  }

  async call<T>(method: string, path: string, request?: unknown, patience?: number): Promise<T> {
    const { status, body } = await this.#ask(method, path, request, patience)
    if (status < 300) return body as T
    const error = isMap(body) && isMap(body['error']) ? body['error']['message'] : undefined
    throw new Error(String(error ?? `${this.url} answered with ${status}`))
  }

  /**
   * Sends one request.
   * @throws Error when there is no answer in JSON
   */
  async #ask(
    method: string,
    path: string,
    request?: unknown,
    patience = patienceMs
  ): Promise<{ status: number; body: unknown }> {
    const headers: Record<string, string> = this.#token === '' ? {} : { authorization: `Bearer ${this.#token}` }
    if (request !== undefined) headers['content-type'] = 'application/json'
    const reply = await fetch(this.url + path, {
      method,
      headers,
      body: request === undefined ? null : JSON.stringify(request),
      redirect: 'error',
      signal: AbortSignal.timeout(patience)
    })
    return { status: reply.status, body: await reply.json() }
  }
}
