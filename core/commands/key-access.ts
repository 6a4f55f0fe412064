// The way to the keys of a gateway: its admin API while it runs, else its store.
import { isMap } from '../options/schema-check.ts'
import type { IssuedKey, ShownKey } from '../admin/key-desk.ts'
import { KeyDesk } from '../admin/key-desk.ts'
import type { Page } from '../admin/contract.ts'
import type { Awaitable } from '../contract/contract.ts'
import type { Config, Settings } from '../catalogue/settings.ts'
import { openStore } from '../store/store.ts'

/** What can be done with keys; refusals are errors with messages for people. */
export interface KeyAccess {
  list(): Awaitable<ShownKey[]>
  create(request: object): Promise<IssuedKey>
  revoke(name: string): Promise<ShownKey>
}

/**
 * Does something with the keys of a gateway; `where` says how they were reached. A gateway that is running is found at
 * its admin address, and known by its store. A store that another process has is never written to beside it.
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

/** An address to connect to, for one to listen on. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  if (host === '::') return '[::1]'
  return host.includes(':') ? `[${host}]` : host
}

const patienceMs = 10_000

/** Keys behind an admin API. */
class RemoteKeys implements KeyAccess {
  readonly url: string
  readonly #token: string

  constructor({ host, port, token }: Admin) {
    this.url = `http://${reachable(host)}:${port}`
    this.#token = token
  }

  /** Whether somebody answers who keeps keys in this store. @throws Error when the token is not the right one */
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

  /** One request. @throws when nothing answers in JSON */
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
