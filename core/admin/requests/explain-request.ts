// Reads which request is to be explained, and makes of it what a client would send.
import { randomBytes } from 'node:crypto'
import type { ServedOperation } from '../../contract/served.ts'
import { GatewayError } from '../../errors.ts'
import type { AskedRequest } from '../../exchange/rehearsal/rehearse.ts'
import { checkerOf, isMap } from '../../options/schema-check.ts'
import type { OptionSchemas } from '../../options/schema.ts'
import { suggestion } from '../../options/suggest.ts'
import type { AdminParts } from '../api/contract.ts'
import { digestOfKey } from '../tenancy/key-digest.ts'
import { invalidField, shown } from '../api/query.ts'

const text = (description: string) => ({ type: 'string', description }) as const

/** The fields of a request to explain. */
const fields = {
  key: text('The name of the key that asks.'),
  secret: text('The key itself, in the place of its name.'),
  endpoint: text('An operation such as `chat` or `images.edits`, in the place of a path. Default: `chat`.'),
  model: text('The model that is asked for, where the body does not say it.'),
  stream: { type: 'boolean', description: 'Whether a stream is asked for, where the body does not say it.' },
  method: text('The method of the request. Default: that of the endpoint.'),
  path: text('The path of the request with its query, such as `/v1/chat/completions`.')
} as const satisfies OptionSchemas

/** All fields: those, and what has any form. */
export const askedFields: OptionSchemas = {
  ...fields,
  headers: {
    type: 'object',
    additionalProperties: text('The value.'),
    description: 'Headers of the request by name.'
  },
  body: { description: 'The body: JSON as such, or a text as it is; for a form, an object of fields.' }
}

/** What a body has without one, so that an endpoint and a model are enough. */
const usual: Readonly<Record<string, unknown>> = {
  messages: [{ role: 'user', content: 'Hello' }],
  contents: [{ parts: [{ text: 'Hello' }] }],
  content: { parts: [{ text: 'Hello' }] },
  input: 'Hello',
  prompt: 'Hello',
  query: 'Hello',
  documents: ['Hello'],
  voice: 'alloy',
  max_tokens: 1024
}

/**
 * Reads a request to explain.
 * @throws GatewayError naming the field that is wrong
 */
export function readAsked(
  request: unknown,
  parts: Pick<AdminParts, 'generations' | 'store' | 'operations'>
): AskedRequest {
  if (!isMap(request))
    throw new GatewayError(
      'invalid_request',
      'A request to explain is a JSON object such as {"key": "alice-laptop", "model": "gpt-5"}.'
    )
  const { body, headers = {}, ...rest } = request
  const { value, faults } = checkerOf(fields)(rest)
  const [fault] = faults
  if (fault) throw invalidField(fault.pointer.slice(1), `${fault.pointer.slice(1)} ${fault.message}`)
  const { key, secret, endpoint, model, stream, method, path } = value
  if (key !== undefined && secret !== undefined) throw invalidField('key', 'key and secret are there both: give one')
  const shape =
    path === undefined ? shapeOf(operationOf(endpoint ?? 'chat', parts.operations), model, stream, body) : undefined
  const given = { endpoint, model, stream }
  for (const [name, other] of Object.entries(given))
    if (path !== undefined && other !== undefined)
      throw invalidField(name, `${name} and path are there both: with a path, the path and the body say it`)
  if (path !== undefined && !path.startsWith('/'))
    throw invalidField('path', `path is ${shown(path)}: it must begin with a slash, like /v1/chat/completions`)
  const content = shape ? shape.content : contentOf(body, 'either')
  return {
    method: method?.toUpperCase() ?? shape?.method ?? (body === undefined ? 'GET' : 'POST'),
    target: path ?? shape!.target,
    headers: {
      ...(content.type !== undefined && { 'content-type': content.type }),
      ...headersOf(headers),
      ...(secret !== undefined && { authorization: `Bearer ${secret}` })
    },
    body: content.bytes,
    key: key === undefined ? undefined : digestOfKey(key, parts)
  }
}

/** The request that an endpoint and a model stand for. */
function shapeOf(
  operation: ServedOperation,
  model: string | undefined,
  stream: boolean | undefined,
  body: unknown
): { method: string; target: string; content: Content } {
  const { paths, method, model: place, stream: streams } = operation
  if (model?.isWellFormed() === false)
    throw invalidField('model', `model is ${shown(model)}: it is no Unicode text, and no path can have it`)
  const isIn = (where: string): boolean => model !== undefined && place?.in === where
  let target = paths[0]!
  if (isIn('path')) target = target.replace(/\{\w+(?:\.\.\.)?\}/, encodeURIComponent(model!))
  if (isIn('query')) target += `?${place!.name}=${encodeURIComponent(model!)}`
  const open = /\{(\w+)/.exec(target)?.[1]
  if (open !== undefined)
    throw invalidField(
      open === place?.name ? 'model' : 'path',
      open === place?.name
        ? `the endpoint ${operation.name} needs a model`
        : `the endpoint ${operation.name} is about something by its ${open}: give the path with it`
    )
  if (operation.body === 'none' || operation.body === 'socket')
    return { method, target, content: contentOf(undefined, 'json') }
  if (body !== undefined && !isMap(body)) return { method, target, content: contentOf(body, operation.body) }
  const whole = {
    ...(isIn('body') && { [place!.name]: model }),
    ...(stream !== undefined && streams !== 'always' && streams?.in === 'body' && { [streams.name]: stream }),
    ...(body ?? usualBody(operation))
  }
  return { method, target, content: contentOf(whole, operation.body) }
}

function usualBody({ required = [], parameters = {} }: ServedOperation): Record<string, unknown> {
  const names = [...required, 'input'].filter((name) => name in parameters && name in usual)
  return Object.fromEntries(names.map((name) => [name, usual[name]]))
}

function operationOf(name: string, operations: readonly ServedOperation[]): ServedOperation {
  const found = operations.find((one) => one.name === name) ?? operations.find((one) => one.endpoint === name)
  if (found) return found
  const known = operations.map((one) => one.name)
  throw invalidField('endpoint', `there is no endpoint ${shown(name)}${suggestion(name, known)}`)
}

interface Content {
  readonly bytes: Buffer
  readonly type: string | undefined
}

/** A text as it is, and anything else as JSON; what only takes forms, as a form. */
function contentOf(body: unknown, kind: 'json' | 'form' | 'either'): Content {
  if (body === undefined) return { bytes: Buffer.alloc(0), type: undefined }
  if (typeof body === 'string') return { bytes: Buffer.from(body), type: 'application/json' }
  return kind === 'form' && isMap(body)
    ? formOf(body)
    : { bytes: Buffer.from(JSON.stringify(body)), type: 'application/json' }
}

/** A form of fields, and of files: objects with a `filename`, and with their content in `base64`. */
function formOf(body: Record<string, unknown>): Content {
  const boundary = `sluice-${randomBytes(12).toString('hex')}`
  const pieces = Object.entries(body).flatMap(([name, value]) => {
    const file = isMap(value) && typeof value['filename'] === 'string' ? value : undefined
    const heading = `content-disposition: form-data; name=${JSON.stringify(name)}`
    const content = file
      ? Buffer.from(typeof file['base64'] === 'string' ? file['base64'] : '', 'base64')
      : Buffer.from(typeof value === 'string' ? value : JSON.stringify(value))
    const named = file ? `; filename=${JSON.stringify(file['filename'])}\r\ncontent-type: application/octet-stream` : ''
    return [Buffer.from(`--${boundary}\r\n${heading}${named}\r\n\r\n`), content, Buffer.from('\r\n')]
  })
  return {
    bytes: Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)]),
    type: `multipart/form-data; boundary=${boundary}`
  }
}

/** @throws GatewayError when they are no texts by name */
function headersOf(given: unknown): Record<string, string> {
  const pairs = isMap(given) ? Object.entries(given) : undefined
  if (!pairs || !pairs.every((pair): pair is [string, string] => typeof pair[1] === 'string'))
    throw invalidField('headers', 'headers must be an object of texts by name, like {"x-api-key": "sk-…"}')
  return Object.fromEntries(pairs.map(([name, value]) => [name.toLowerCase(), value]))
}
