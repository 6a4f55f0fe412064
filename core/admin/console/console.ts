// Answers requests below /console/: the page for every address of it, and the files that the page loads.
import type { IncomingHttpHeaders } from 'node:http'
import { GatewayError } from '../../errors.ts'
import type { Answer } from '../api/contract.ts'
import { versionOf } from './asset.ts'
import type { Asset } from './asset.ts'
import { places } from './app/places.ts'
import { BuiltShelf, isBuilt } from './built-shelf.ts'
import type { Shelf } from './shelf.ts'
import { workerHeaders } from './protection.ts'
import { SourceShelf } from './source-shelf.ts'

/** Whether a path is one of the console. */
export function isOfConsole(path: string): boolean {
  return path === '/' || path === '/console' || path.startsWith('/console/')
}

/** The console of one listener. */
export class Console {
  readonly #shelf: Shelf

  /** `built` is a folder of files that were built, in place of those of the package or the sources. */
  constructor(built?: string) {
    this.#shelf = built !== undefined || isBuilt() ? new BuiltShelf(built) : new SourceShelf()
  }

  /**
   * Answers a request for a path of the console. It needs nobody to be known: the page asks the admin API who is there.
   * `parameters` is what follows the question mark.
   * @throws GatewayError `route_not_found`, or `method_not_allowed`
   */
  async answer(method: string, path: string, parameters: string, headers: IncomingHttpHeaders): Promise<Answer> {
    if (method !== 'GET' && method !== 'HEAD')
      throw new GatewayError('method_not_allowed', 'The console takes GET, HEAD.', {
        headers: [['allow', 'GET, HEAD']]
      })
    const name = path.slice('/console/'.length)
    if (path === '/' || path === '/console')
      return { status: 308, text: '', contentType: 'text/plain', headers: { location: '/console/' } }
    const asset = await this.#shelf.find(name)
    if (asset)
      return send(asset, headers, {
        'cache-control':
          asset.lasting || parameters === versionOf(asset) ? 'public, max-age=31536000, immutable' : 'no-cache',
        ...(name.endsWith('-worker.ts') && workerHeaders)
      })
    if (!isPlace(name)) throw new GatewayError('route_not_found', 'There is nothing here: the console is at /console/.')
    const shell = await this.#shelf.shell(name.split('/', 1)[0]!)
    return send(shell.page, headers, { 'cache-control': 'no-cache', ...shell.headers })
  }
}

/** Whether an address is one that the page draws itself: that of a place, of something in it, or of none. */
function isPlace(name: string): boolean {
  const [place] = name.split('/', 1)
  return name === '' || places.some(({ path }) => path === place)
}

function send(asset: Asset, headers: IncomingHttpHeaders, more: Readonly<Record<string, string>>): Answer {
  const common = { ...more, etag: asset.etag, vary: 'accept-encoding' }
  if ((headers['if-none-match'] ?? '').split(',').some((tag) => tag.trim().replace(/^W\//, '') === asset.etag))
    return { status: 304, bytes: new Uint8Array(), contentType: asset.type, headers: common }
  const accepted = new Set(
    String(headers['accept-encoding'] ?? '')
      .toLowerCase()
      .split(',')
      .map((one) => one.replace(/\s/g, ''))
      .flatMap((one) => (/;q=0(?:\.0*)?$/.test(one) ? [] : one.split(';', 1)))
  )
  const encoding = accepted.has('br') ? 'br' : accepted.has('gzip') ? 'gzip' : undefined
  return {
    bytes: encoding === 'br' ? asset.br : encoding === 'gzip' ? asset.gz : asset.body,
    contentType: asset.type,
    headers: { ...common, ...(encoding !== undefined && { 'content-encoding': encoding }) }
  }
}
