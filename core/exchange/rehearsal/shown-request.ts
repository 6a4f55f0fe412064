// Shows an operator the request that an attempt would send, without secrets.
import { FormError } from '../../bodies/part-head.ts'
import { Multipart } from '../../bodies/multipart.ts'
import { isPieces } from '../../bodies/upload.ts'
import type { Attempt } from '../../contract/attempt.ts'
import { formFor } from '../../contract/operation.ts'
import { Secrets } from '../../contract/secrets.ts'
import type { ProtocolName } from '../../protocols/index.ts'
import { mark } from '../../protocols/told/identities.ts'
import { targetOf } from '../../transport/http1/channel-head.ts'
import { upstreamRequest } from '../attempts/attempts.ts'
import type { LiveExchange } from '../state/exchange.ts'
import { socketHeadersOf } from '../attempts/upstream-head.ts'

/** What would be sent, as it is shown. Its members are the public format of the admin API. */
export interface ShownRequest {
  readonly channel: string
  readonly protocol: ProtocolName
  /** Whether the request was brought from the client's protocol into another. */
  readonly translated: boolean
  /** The upstream's name for the model. */
  readonly model: string
  readonly method: string
  readonly url: string
  /** By lower-case name; those of framing are left out. */
  readonly headers: Readonly<Record<string, string>>
  /** JSON as such; of a form, its parts, each a text or what is known of its file; null without a body. */
  readonly body: unknown
}

/** What an attempt would send to its upstream. */
export function shownRequest(exchange: LiveExchange, attempt: Attempt): ShownRequest {
  const { channel, upstreamModel, translated } = attempt
  const { operation } = exchange.request
  const socket = operation.body === 'socket'
  const secrets = new Secrets([channel], 'keys')
  const { method, path, headers, body } = upstreamRequest(exchange, attempt)
  const { protocol, host } = channel.baseUrl
  const scheme = socket ? protocol.replace('http', 'ws') : protocol
  const named = [...Object.keys(channel.headers), ...(channel.living ? [channel.living.header] : [])]
  const own = Object.fromEntries(named.map((name) => [name, mark]))
  const sent = socket ? socketHeadersOf(exchange, attempt) : pairsOf(headers)
  return {
    channel: channel.name,
    protocol: formFor(operation, channel)!.protocol,
    translated,
    model: upstreamModel,
    method,
    url: secrets.without(`${scheme}//${host}${targetOf(channel, path)}`),
    headers: { ...own, ...mapped(sent, (value) => secrets.without(value)) },
    body: isPieces(body)
      ? shownBody(Buffer.concat(body), exchange.body.contentType, secrets)
      : 'a form with large files'
  }
}

function pairsOf(flat: readonly string[]): Record<string, string> {
  const pairs: Record<string, string> = {}
  for (let i = 0; i < flat.length; i += 2) pairs[flat[i]!] = flat[i + 1]!
  return pairs
}

function mapped(pairs: Readonly<Record<string, string>>, change: (value: string) => string): Record<string, string> {
  return Object.fromEntries(Object.entries(pairs).map(([name, value]) => [name, change(value)]))
}

function shownBody(bytes: Buffer, type: string | undefined, secrets: Secrets): unknown {
  if (bytes.length === 0) return null
  if (type?.startsWith('multipart/')) return shownForm(bytes, type, secrets)
  const text = secrets.without(bytes.toString('utf8'))
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function shownForm(bytes: Buffer, type: string, secrets: Secrets): unknown {
  const boundary = /boundary="?([^";]+)/.exec(type)?.[1] ?? ''
  const form = new Multipart(boundary)
  try {
    form.push(bytes)
    form.end()
  } catch (error) {
    if (error instanceof FormError) return null
    throw error
  }
  return Object.fromEntries(
    form.parts.map(({ name, filename, type: ofPart, from, to }) => [
      name,
      filename === undefined
        ? secrets.without(bytes.toString('utf8', from, to))
        : { filename, type: ofPart, bytes: to - from }
    ])
  )
}
