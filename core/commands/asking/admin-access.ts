// Lets commands use the admin API: that of the gateway while it runs, otherwise the same routes on its opened store.
import { userInfo } from 'node:os'
import type { Settings } from '../../catalogue/settings.ts'
import { shownPlace } from '../../catalogue/store-place.ts'
import type { FilePlace, SharedPlace } from '../../catalogue/store-place.ts'
import { everything } from '../../admin/access/roles.ts'
import type { Actor } from '../../admin/api/audit.ts'
import type { OfflineParts, Page } from '../../admin/api/contract.ts'
import { readQuery } from '../../admin/api/query.ts'
import { findRoute } from '../../admin/routes.ts'
import { Database } from '../../store/cluster/database/database.ts'
import { DocumentBook } from '../../store/cluster/documents/document-book.ts'
import { openStore } from '../../store/embedded/store.ts'
import { createLogger } from '../../telling/log.ts'
import { addressOf, configOf, configOption } from '../command/command.ts'
import type { Given, Options } from '../command/command.ts'
import { ownAccess } from './own-access.ts'
import { RemoteAdmin, urlOf } from './remote-admin.ts'
import { Unreachable } from './unreachable.ts'
import type { AdminAccess } from './remote-admin.ts'

/** The options of commands that use the admin API. */
export const accessOptions = {
  ...configOption,
  admin: { value: 'URL', text: 'the admin listener, instead of that of the configuration or SLUICE_ADMIN_URL' },
  'token-file': { value: 'FILE', text: 'a file with a token of your own, instead of SLUICE_TOKEN' }
} as const satisfies Options

/** The option by which a rotation can be repeated. */
export const rotationOption = {
  rotation: {
    value: 'NAME',
    text: 'a name for this rotation: again by the same name, it replaces the one that was lost'
  }
} as const satisfies Options

/** What those options were given as. */
export type Access = Given<typeof accessOptions>

/** The note of all commands that need a running gateway. */
export const gatewayNote = `
Asks the running gateway, with the token in --token-file or SLUICE_TOKEN if there is one, and else by the
address and token of the configuration.`

/** The note of all commands that use the admin API, or the store of a gateway that does not run. */
export const places = `
With a token of your own, in --token-file or SLUICE_TOKEN, it asks the running gateway alone: you may do
what your role allows, and the audit log names you. Without one it goes through the admin API of the
gateway when it runs, by the address and token of the configuration, and else opens its store; in
PostgreSQL also while other gateways run, which hear of it at once.`

/**
 * Calls `work` with the admin API of a gateway: with a token of the user's own as who they are. Without one a running
 * gateway is looked for at the admin address, and recognised by its store, and else the store is opened. A file that
 * another process has open is never written; in a book, many may write.
 */
export async function withAdmin<T>(options: Access, work: (admin: AdminAccess) => Promise<T>): Promise<T> {
  const own = await ownAccess(options)
  if (own) return work(own)
  const config = await configOf(options)
  const { admin, store: place } = config.settings
  const remote = admin && admin.port !== 0 ? new RemoteAdmin(urlOf(admin), admin.token) : undefined
  if (remote && (await remote.keeps(shownPlace(place)))) return work(remote)
  const store = place.sqlite === undefined ? await openBook(place) : await openFile(place, remote?.url)
  try {
    const parts: OfflineParts = { store, generations: { current: { config } }, log: createLogger({ level: 'warn' }) }
    return await work(new LocalAdmin(shownPlace(place), parts))
  } finally {
    await store.close()
  }
}

/** What the routes that need no running gateway find in a store. */
type OpenedStore = OfflineParts['store'] & { close(): Promise<void> }

async function openFile(
  { sqlite: file, durability, journal }: FilePlace & Pick<Settings['store'], 'durability' | 'journal'>,
  asked: string | undefined
): Promise<OpenedStore> {
  // A new store is of the form that its gateway will ask for. One that is there stays what it is.
  const form = journal.form === 'database' ? journal.form : undefined
  return openStore({ file, durability, form }).catch((error: Error) => {
    const missed =
      asked === undefined
        ? 'The configuration has no admin.port at which the gateway could be asked.'
        : `No gateway with this store answers at ${asked}.`
    throw new Error(`${error.message}. ${missed}`)
  })
}

/** Gateways that run elsewhere hear of what is changed. */
async function openBook({ postgres: { url, listen_url: listenUrl } }: SharedPlace): Promise<OpenedStore> {
  const database = await Database.open({ url, listenUrl, name: 'sluice command' })
  try {
    const documents = await DocumentBook.open(database)
    return { documents, close: () => documents.close().then(() => database.close()) }
  } catch (error) {
    await database.close()
    throw error
  }
}

/**
 * Calls `work` with the admin API of a running gateway: with a token of the user's own as who they are, and without one
 * that of the gateway which has the store of the configuration.
 * @throws Error when none answers
 */
export async function withGateway<T>(options: Access, work: (admin: AdminAccess) => Promise<T>): Promise<T> {
  const own = await ownAccess(options)
  if (own) return work(own)
  const { admin, store } = (await addressOf(options)).settings
  if (!admin || admin.port === 0)
    throw new Unreachable('The configuration has no admin.port at which the gateway could be asked.')
  const remote = new RemoteAdmin(urlOf(admin), admin.token)
  if (await remote.keeps(shownPlace(store))) return work(remote)
  throw new Unreachable(
    `No gateway with this store answers at ${remote.url}: start it with \`sluice start\`, and ask again.`
  )
}

/** All items of a list. `query` may be empty, or is like `tenant=acme`. */
export async function allOf<T>(admin: AdminAccess, path: string, query = ''): Promise<T[]> {
  const items: T[] = []
  for await (const item of itemsOf<T>(admin, path, query)) items.push(item)
  return items
}

/** The items of a list, page by page. */
export async function* itemsOf<T>(admin: AdminAccess, path: string, query = ''): AsyncGenerator<T> {
  for (let cursor: string | null = ''; cursor !== null;) {
    const parameters = [query, cursor === '' ? '' : `cursor=${encodeURIComponent(cursor)}`].filter(
      (part) => part !== ''
    )
    const page: Page<T> = await admin.call('GET', parameters.length === 0 ? path : `${path}?${parameters.join('&')}`)
    yield* page.data
    cursor = page.next
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
    if (!route.offline) throw new Unreachable(`${plain} needs a running gateway: start it, and ask again`)
    const query = readQuery(parameters, route.query ?? [])
    const call = {
      query,
      names,
      by: user(),
      search: '',
      cookies: '',
      host: '',
      agent: '',
      accept: '',
      lastEvent: '',
      left: new AbortController().signal,
      json: async () => body ?? {}
    }
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
