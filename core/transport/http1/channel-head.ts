// Writes the heads of requests to upstreams. Whatever could be read as something else, such as a line break in a value,
// is refused and never sent.
import { lengthOf } from '../../bodies/upload.ts'
import type { Channel } from '../../catalogue/catalogue.ts'
import { GatewayError } from '../../errors.ts'
import { namePattern } from '../../wire/grammar.ts'
import type { UpstreamRequest } from '../transport.ts'

/** Visible ASCII characters except the number sign (RFC 9112 §3.2). */
const targetPattern = /^\/[!"$-~]*$/
/** RFC 9110 §5.5. Characters that are not ASCII are sent as latin1. */
const valuePattern = /^[\t\x20-\x7e\x80-\xff]*$/
/** Fields of framing and delivery, which only this file writes. */
const framing: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade'
])

/** The head that all requests to one channel have in common. One is made per channel. */
export class ChannelHead {
  readonly #channel: Channel
  readonly #fields: string
  /**
   * The head of the last request, once without a content-length (`start`) and once up to its digits (`sized`). The next
   * request is mostly like it, and reusing it saves a microsecond.
   */
  #last: { method: string; path: string; headers: readonly string[]; start: string; sized: string } | undefined

  /** @throws GatewayError when a header of the channel cannot be sent */
  constructor(channel: Channel) {
    const { baseUrl, headers, reuse } = channel
    this.#channel = channel
    this.#fields =
      ` HTTP/1.1\r\nhost: ${baseUrl.host}\r\nconnection: ${reuse ? 'keep-alive' : 'close'}\r\n` +
      'accept-encoding: identity\r\nuser-agent: sluice\r\n' +
      Object.entries(headers)
        .map(([name, value]) => field(name, value))
        .join('')
  }

  /**
   * The head of one request, in latin1.
   * @throws GatewayError when its path or a header cannot be sent
   */
  render({ method, path, headers, body }: UpstreamRequest): string {
    let last = this.#last
    if (last?.path !== path || last.headers !== headers || last.method !== method) {
      const target = targetOf(this.#channel, path)
      // join() gives a flat string. A string made with `+` would be flattened again at every write.
      const parts = [method, ' ', target, this.#fields, fields(headers)]
      last = this.#last = {
        method,
        path,
        headers,
        start: parts.join(''),
        sized: [...parts, 'content-length: '].join('')
      }
    }
    return method === 'POST' || lengthOf(body) > 0 ? last.sized + (lengthOf(body) + '\r\n\r\n') : `${last.start}\r\n`
  }
}

/**
 * The target of a request to a channel: the path below its base address, and the queries of both.
 * @throws GatewayError when the target cannot be sent
 */
export function targetOf({ baseUrl }: Channel, path: string): string {
  const query = path.includes('?') ? baseUrl.search.replace('?', '&') : baseUrl.search
  const target = baseUrl.pathname.replace(/\/$/, '') + path + query
  if (!targetPattern.test(target)) throw unsendable('the path')
  return target
}

function fields(headers: readonly string[]): string {
  let lines = ''
  for (let i = 0; i < headers.length; i += 2) lines += field(headers[i]!, headers[i + 1]!)
  return lines
}

/**
 * One line of a head.
 * @throws GatewayError when it cannot be sent
 */
export function field(name: string, value: string): string {
  if (!namePattern.test(name) || framing.has(name.toLowerCase())) throw unsendable('the name of a header')
  if (!valuePattern.test(value)) throw unsendable(`the header ${name}`)
  return `${name}: ${value}\r\n`
}

function unsendable(what: string): GatewayError {
  const cause = new Error(`${what} cannot be sent to the upstream`)
  return new GatewayError('upstream_connection_failed', 'The request cannot be sent to the upstream.', { cause })
}
