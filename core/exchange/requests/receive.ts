// Reads the body of a request as its operation takes it: JSON into memory, a form into an upload.
import { RequestBody } from '../../bodies/body.ts'
import type { BodyMemory } from '../../bodies/body-memory.ts'
import type { BodySource } from '../../clients/body-source.ts'
import type { Awaitable } from '../../contract/contract.ts'
import type { BodyKind } from '../../contract/operation.ts'
import { GatewayError } from '../../errors.ts'
import type { Watchdog } from '../../watchdog/watchdog.ts'
import { isJson } from '../../wire/media-type.ts'
import { readBody } from './body-reader.ts'
import type { BodyBounds, TakeBody } from './body-reader.ts'
import type { LiveExchange } from '../state/exchange.ts'
import { readForm } from './form-reader.ts'
import { Gunzipped } from './gunzip.ts'

/** What bodies are read with. */
export interface ReceiveParts {
  memory: BodyMemory
  watchdog: Watchdog
}

/**
 * Reads a body, once, and has the exchange accept it.
 * @throws GatewayError when it is not what the operation takes, or more than the limits allow
 */
export function receive(
  exchange: LiveExchange,
  source: BodySource,
  { memory, watchdog }: ReceiveParts
): Awaitable<RequestBody> {
  const { headers, operation } = exchange.request
  const { limits } = exchange
  const kind = kindOf(operation.body, headers['content-type'])
  if (kind === 'none') return exchange.accept(RequestBody.none)
  const packed = isPacked(kind, String(headers['content-encoding'] ?? 'identity'))
  const declared = headers['content-length'] === undefined ? undefined : Number(headers['content-length'])
  if (kind === 'form') return receiveForm(exchange, source, declared, { memory, watchdog })
  const bounds = { size: limits.jsonBody, time: limits.clientBody, memory, watchdog, whose: exchange }
  const take = (bytes: Buffer): Awaitable<RequestBody> => {
    exchange.held = bytes
    const read = RequestBody.read(bytes)
    return read instanceof Promise ? read.then((body) => exchange.accept(body)) : exchange.accept(read)
  }
  return packed
    ? unpacked(new Gunzipped(source, limits.jsonBody), bounds, take)
    : readBody(source, declared, bounds, take)
}

/** Nobody knows how much comes out: memory is taken as it does. */
async function unpacked(source: Gunzipped, bounds: BodyBounds, take: TakeBody<RequestBody>): Promise<RequestBody> {
  try {
    return await readBody(source, undefined, bounds, take)
  } catch (error) {
    throw source.fault ?? error
  }
}

/** Whether a body comes gzipped. @throws GatewayError `unsupported_media_type` when it comes in any other encoding */
function isPacked(kind: 'json' | 'form', encoding: string): boolean {
  if (encoding === 'identity') return false
  const name = encoding.trim().toLowerCase()
  if (kind === 'json' && (name === 'gzip' || name === 'x-gzip')) return true
  const taken = kind === 'json' ? 'gzip' : 'identity'
  const how = kind === 'json' ? 'as they are or with gzip' : 'as they are'
  throw new GatewayError(
    'unsupported_media_type',
    `Request bodies encoded with ${encoding.slice(0, 50)} are not accepted; send them ${how}.`,
    { headers: [['accept-encoding', taken]] }
  )
}

async function receiveForm(
  exchange: LiveExchange,
  source: BodySource,
  declared: number | undefined,
  parts: ReceiveParts
): Promise<RequestBody> {
  const { limits, request } = exchange
  const bounds = {
    size: limits.multipartBody,
    time: limits.clientBody,
    ...parts,
    whose: exchange,
    sound: request.operation.metering?.sound === true
  }
  const form = await readForm(source, String(request.headers['content-type'] ?? ''), declared, bounds)
  exchange.upload = form.upload
  return exchange.accept(RequestBody.form(form))
}

/** What the body is taken for. @throws GatewayError `unsupported_media_type` when the operation takes another */
function kindOf(body: BodyKind, header: string | string[] | undefined): 'json' | 'form' | 'none' {
  if (body === 'none' || body === 'socket') return 'none'
  const type = String(header ?? (body === 'form' ? '' : 'application/json'))
  if (body !== 'form' && (type === 'application/json' || isJson(type))) return 'json'
  if (body !== 'json' && type.toLowerCase().startsWith('multipart/form-data')) return 'form'
  throw new GatewayError(
    'unsupported_media_type',
    `This endpoint takes ${taken[body]}, not ${type === '' ? 'a body without a type' : type.slice(0, 100)}.`
  )
}

const taken = {
  json: 'application/json',
  form: 'multipart/form-data',
  either: 'application/json or multipart/form-data'
} as const
