// Gives commands access to the keys of a gateway: through its admin API while it runs, otherwise by opening its store.
import { isMap } from '../options/schema-check.ts'
import type { IssuedKey, ShownKey } from '../admin/key-desk.ts'
import { KeyDesk } from '../admin/key-desk.ts'
import type { Page } from '../admin/contract.ts'
import type { Awaitable } from '../contract/contract.ts'
import type { Config, Settings } from '../catalogue/settings.ts'
import { openStore } from '../store/store.ts'

/** The operations on keys. They throw errors with messages for people. */
export interface KeyAccess {
  list(): Awaitable<ShownKey[]>
  create(request: object): Promise<IssuedKey>
  revoke(name: string): Promise<ShownKey>
}

/**
 * Calls `work` with the keys of a gateway; `where` says how they were reached. A running gateway is looked for at the
 * admin address, and recognised by its store. A store that another process has open is never written.
 */
export async function withKeys<T>(config: Config, work: (keys: KeyAccess, where: string) => Promise<T>): Promise<T> {
  const {
    admin,
    store: { sqlite: file, durability }
  } = config.settings
  const remote = admin && admin.port !== 0 ? new RemoteKeys(admin) : undefined
  if (remote && (await remote.keeps(file))) return work(remote, `the gateway at ${remote.url}`)
  const store = await openStore({ file, durability }).catch((error: Error) => {
    const missed = remote
      ? `No gateway with this store answers at ${remote.url}.`
      : 'The configuration has no admin.port at which the gateway could be asked.'
    throw new Error(`${error.message}. ${missed}`)
  })
  try {
    return await work(new KeyDesk(config, store.keys), file)
  } finally {
    await store.close()
  }
}

type Admin = NonNullable<Settings['admin']>

/** The address to connect to for an address that a listener is bound to. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  if (host === '::') return '[::1]'
  return host.includes(':') ? `[${host}]` : host
}

const patienceMs = 10_000

/** The keys of a running gateway, through its admin API. */
class RemoteKeys implements KeyAccess {
  readonly url: string
  readonly #token: string

  constructor({ host, port, token }: Admin) {
    this.url = `http://${reachable(host)}:${port}`
    this.#token = token
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

  async list(): Promise<ShownKey[]> {
    const keys: ShownKey[] = []
    let next: string | null = ''
    while (next !== null) {
      const page: Page<ShownKey> = await this.#call('GET', `/admin/v1/keys${next === '' ? '' : `?cursor=${next}`}`)
      keys.push(...page.data)
      next = page.next
    }
    return keys
  }

  create(request: object): Promise<IssuedKey> {
    return this.#call('POST', '/admin/v1/keys', request)
  }

  revoke(name: string): Promise<ShownKey> {
    return this.#call('DELETE', `/admin/v1/keys/${encodeURIComponent(name)}`)
  }

  async #call<T>(method: string, path: string, request?: object): Promise<T> {
    const { status, body } = await this.#ask(method, path, request)
    if (status < 300) return body as T
    const error = isMap(body) && isMap(body['error']) ? body['error']['message'] : undefined
    throw new Error(String(error ?? `${this.url} answered with ${status}`))
  }

  /**
   * Sends one request.
   * @throws Error when there is no answer in JSON
   */
  async #ask(method: string, path: string, request?: object): Promise<{ status: number; body: unknown }> {
    const headers: Record<string, string> = this.#token === '' ? {} : { authorization: `Bearer ${this.#token}` }
    if (request) headers['content-type'] = 'application/json'
    const reply = await fetch(this.url + path, {
      method,
      headers,
      body: request ? JSON.stringify(request) : null,
      redirect: 'error',
      signal: AbortSignal.timeout(patienceMs)
    })
    return { status: reply.status, body: await reply.json() }
  }
}
