// The admin API of a running gateway, over HTTP.
import { networkInterfaces } from 'node:os'
import { isLocal } from '../../../config/channels/proxy.ts'
import type { Settings } from '../../catalogue/settings.ts'
import { isMap } from '../../options/schema-check.ts'
import { Unreachable } from './unreachable.ts'

/** The admin API of one gateway. Its methods throw errors with messages for people. */
export interface AdminAccess {
  /** How the gateway is reached, for messages: `the gateway at http://127.0.0.1:9090`, or the path of the store. */
  readonly where: string
  /** Sends a request. `path` begins with `/admin/v1/`; `patience` is in milliseconds. */
  call<T>(method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: unknown, patience?: number): Promise<T>
}

const patienceMs = 10_000

/** Who a token belongs to, as the gateway says. */
interface Self {
  id: string
  role: string
  tenant: string | null
}

/** The address at which the admin listener of a configuration is reached: `http://127.0.0.1:9090`. */
export function urlOf({ host, port }: Pick<NonNullable<Settings['admin']>, 'host' | 'port'>): string {
  return `http://${reachable(host)}:${port}`
}

/** The address to connect to for an address that a listener is bound to. */
export function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  if (host === '::') return '[::1]'
  return host.includes(':') ? `[${host}]` : host
}

/** A running gateway. */
export class RemoteAdmin implements AdminAccess {
  readonly url: string
  readonly #token: string
  #self: Self | undefined
  #warned = false

  /** An empty token is not sent. */
  constructor(url: string, token: string) {
    this.url = url
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
    const refused = status === 401 || status === 403 ? refusalIn(body) : undefined
    if (refused)
      throw new Unreachable(
        `${this.url} does not let this command in: ${refused.message} Is the environment the same as the gateway's?`
      )
    return status === 200 && isMap(body) && body['store'] === store
  }

  /**
   * Asks who the token belongs to, so that refusals can say it. `by` is where the token comes from, for messages.
   * @throws Error when no gateway answers, or when it refuses the token
   */
  async introduce(by: string): Promise<void> {
    const { status, body } = await this.#ask('GET', '/admin/v1/session').catch((error: Error) => {
      const { cause } = error
      throw new Unreachable(
        `No gateway answers at ${this.url}: ${cause instanceof Error ? cause.message : error.message}`
      )
    })
    const refused = refusalIn(body)
    if (refused) throw new Unreachable(`${this.url} does not let you in with ${by}: ${refused.message}`)
    if (status !== 200 || !isMap(body) || typeof body['id'] !== 'string' || typeof body['role'] !== 'string')
      throw new Unreachable(`What answers at ${this.url} is no admin listener of a gateway: it says ${status}.`)
    const { id, role, tenant } = body
    this.#self = { id, role, tenant: typeof tenant === 'string' ? tenant : null }
  }

  async call<T>(method: string, path: string, request?: unknown, patience?: number): Promise<T> {
    const { status, body } = await this.#ask(method, path, request, patience)
    if (status < 300) return body as T
    const refused = refusalIn(body)
    const who = refused?.code === 'role_not_allowed' ? this.#introduction() : ''
    throw new Error(refused ? refused.message + who : `${this.url} answered with ${status}`)
  }

  #introduction(): string {
    if (!this.#self) return ''
    const { id, role, tenant } = this.#self
    return ` You are ${id}, with the role ${role}${tenant === null ? '' : ` of the tenant ${tenant}`}.`
  }

  /** Warns once of a token that others may read on its way. */
  #warn(): void {
    if (this.#warned) return
    this.#warned = true
    if (!isOpen(new URL(this.url))) return
    process.stderr.write(
      `Warning: the token is sent to ${this.url} without encryption, and whoever can read that network has it: use an https address.\n`
    )
  }

  /**
   * Sends one request.
   * @throws Error when there is no answer in JSON, or when a part of the path would be taken for a step in it
   */
  async #ask(
    method: string,
    path: string,
    request?: unknown,
    patience = patienceMs
  ): Promise<{ status: number; body: unknown }> {
    // No name is called so, and `members/../tenants/acme` would be the address of something else.
    const step = path
      .split('?', 1)[0]!
      .split('/')
      .find((part) => part === '.' || part === '..')
    if (step !== undefined) throw new Error(`There is nothing of the name ${JSON.stringify(step)}: give its whole name`)
    const headers: Record<string, string> = this.#token === '' ? {} : { authorization: `Bearer ${this.#token}` }
    if (this.#token !== '') this.#warn()
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

/** Whether what is sent to an address may be read on a network: it leaves the machine, and is not encrypted. */
function isOpen(url: URL): boolean {
  const host = url.hostname.replace(/^\[|\]$/g, '')
  if (url.protocol === 'https:' || isLocal(host)) return false
  return !Object.values(networkInterfaces()).some((addresses) => addresses?.some(({ address }) => address === host))
}

/** The refusal that a body is; undefined when it is something else. */
function refusalIn(body: unknown): { code: string; message: string } | undefined {
  if (!isMap(body) || !isMap(body['error'])) return undefined
  const { code, message } = body['error']
  return typeof code === 'string' && typeof message === 'string' ? { code, message } : undefined
}
