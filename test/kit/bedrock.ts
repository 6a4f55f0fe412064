// A Bedrock on loopback that takes nothing but what the vendor takes: signed requests, its paths, and bodies of its own
// form. Signatures are checked by the vendor's library.
import { createHash, createHmac } from 'node:crypto'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { SignatureV4 } from '@smithy/signature-v4'
import type { Test } from 'tap'
import { received } from './received.ts'

type Json = Record<string, any>

/** The keys that its requests must be signed with. */
export const awsKeys = {
  accessKeyId: 'AKIDEXAMPLE',
  secretAccessKey: 'scripted-secret-key',
  sessionToken: 'scripted-session'
}
export const awsRegion = 'us-east-1'

/** What it was asked. */
export interface BedrockAsked {
  /** The model's id, decoded. */
  model: string
  operation: string
  /** As on the wire. */
  path: string
  headers: IncomingMessage['headers']
  body: Json
}

/** An answer: JSON, or the bytes of a stream in pieces; `cut` ends the connection in mid-answer. */
export type BedrockAnswer =
  | { status?: number; headers?: Record<string, string>; json: unknown }
  | { frames: readonly Buffer[]; cut?: boolean }

export interface ScriptedBedrock {
  readonly url: string
  readonly asked: BedrockAsked[]
  /** How far its clock is ahead, in milliseconds. */
  ahead: number
  /** Set to answer without a date, as some proxies do. */
  undated: boolean
}

/** The hash that the library wants. */
class Sha256 {
  readonly #hash
  constructor(secret?: string | Uint8Array) {
    this.#hash = secret === undefined ? createHash('sha256') : createHmac('sha256', secret)
  }
  update(data: string | Uint8Array): void {
    this.#hash.update(data)
  }
  async digest(): Promise<Uint8Array> {
    return this.#hash.digest()
  }
}

class Refused extends Error {
  readonly status: number
  readonly kind: string
  constructor(status: number, kind: string, message: string) {
    super(message)
    this.status = status
    this.kind = kind
  }
}

/** Sets the keys in the environment, where AWS's chain finds them, until the test is over. */
export function withAwsKeys(t: Test): void {
  const set = {
    AWS_ACCESS_KEY_ID: awsKeys.accessKeyId,
    AWS_SECRET_ACCESS_KEY: awsKeys.secretAccessKey,
    AWS_SESSION_TOKEN: awsKeys.sessionToken
  }
  const before = Object.fromEntries(Object.keys(set).map((name) => [name, process.env[name]]))
  Object.assign(process.env, set)
  t.teardown(() => {
    for (const [name, value] of Object.entries(before)) if (value === undefined) delete process.env[name]
  })
}

/** Starts one on a free port; it is closed when the test is over. `answer` is asked for every request that it takes. */
export async function scriptedBedrock(
  t: Test,
  answer: (asked: BedrockAsked) => BedrockAnswer | Promise<BedrockAnswer>
): Promise<ScriptedBedrock> {
  const server = createServer((request, response) => void take(request, response))
  const bedrock: ScriptedBedrock = { url: '', asked: [], ahead: 0, undated: false }
  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await received(request)
    if (body === undefined) return
    if (bedrock.undated) response.sendDate = false
    else response.setHeader('date', new Date(Date.now() + bedrock.ahead).toUTCString())
    response.setHeader('x-amzn-requestid', 'scripted-1')
    try {
      await checkSignature(request, body, Date.now() + bedrock.ahead)
      const asked = readRequest(request, body)
      bedrock.asked.push(asked)
      await send(response, await answer(asked))
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      response.writeHead(error.status, { 'content-type': 'application/json', 'x-amzn-errortype': error.kind })
      response.end(JSON.stringify({ message: error.message }))
    }
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return Object.assign(bedrock, { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
}

async function send(response: ServerResponse, answer: BedrockAnswer): Promise<void> {
  if ('json' in answer) {
    response.writeHead(answer.status ?? 200, { 'content-type': 'application/json', ...answer.headers })
    response.end(JSON.stringify(answer.json))
    return
  }
  response.writeHead(200, { 'content-type': 'application/vnd.amazon.eventstream' })
  for (const frame of answer.frames)
    await new Promise<void>((resolve) => response.write(frame, () => setImmediate(resolve)))
  if (answer.cut) response.destroy()
  else response.end()
}

const fiveMinutes = 300_000

async function checkSignature(request: IncomingMessage, body: Buffer, now: number): Promise<void> {
  const { headers } = request
  const authorization = headers.authorization ?? ''
  const [, names = ''] =
    /^AWS4-HMAC-SHA256 Credential=[^,]+, SignedHeaders=([^,]*), Signature=[0-9a-f]{64}$/.exec(authorization) ?? []
  if (names === '') throw new Refused(403, 'MissingAuthenticationTokenException', 'Missing Authentication Token')
  const date = String(headers['x-amz-date'])
  const [, y, mo, d, h, mi, s] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(date) ?? []
  const sent = Date.parse(`${y}-${mo}-${d}T${h}:${mi}:${s}Z`)
  const expired = `Signature expired: ${date} is now earlier than ${new Date(now - fiveMinutes).toISOString()}`
  if (!(Math.abs(sent - now) < fiveMinutes)) throw new Refused(403, 'InvalidSignatureException', expired)
  const signed = Object.fromEntries(names.split(';').map((name) => [name, String(headers[name])]))
  for (const needed of ['host', 'content-type', 'x-amz-content-sha256', 'x-amz-security-token'])
    if (signed[needed] === undefined) throw new Refused(403, 'InvalidSignatureException', `${needed} is not signed`)
  for (const name of Object.keys(headers))
    if (name.startsWith('x-amzn-bedrock-') && signed[name] === undefined)
      throw new Refused(403, 'InvalidSignatureException', `${name} is not signed`)
  const hash = createHash('sha256').update(body).digest('hex')
  const theirs = await new SignatureV4({
    service: 'bedrock',
    region: awsRegion,
    sha256: Sha256 as never,
    credentials: awsKeys,
    applyChecksum: true
  }).sign(
    {
      method: request.method!,
      protocol: 'http:',
      hostname: String(headers.host),
      path: request.url!,
      headers: signed,
      body
    },
    { signingDate: new Date(sent) }
  )
  if (theirs.headers['authorization'] !== authorization || headers['x-amz-content-sha256'] !== hash)
    throw new Refused(403, 'InvalidSignatureException', 'The request signature we calculated does not match.')
}

const operations = ['converse', 'converse-stream', 'invoke', 'invoke-with-response-stream', 'count-tokens']

function readRequest(request: IncomingMessage, bytes: Buffer): BedrockAsked {
  const { headers } = request
  const path = request.url!
  const [, id = '', operation = ''] = /^\/model\/([A-Za-z0-9._~%-]+)\/([a-z-]+)$/.exec(path) ?? []
  if (request.method !== 'POST' || !operations.includes(operation))
    throw new Refused(404, 'UnknownOperationException', 'no such operation')
  if (headers['content-type'] !== 'application/json') throw refusal('Content-Type must be application/json')
  if (headers['anthropic-version'] !== undefined) throw refusal('anthropic-version is no header here')
  const body = JSON.parse(bytes.toString('utf8')) as Json
  if (operation.startsWith('converse')) checkConverse(body)
  if (operation === 'invoke' && id.includes('embed')) checkEmbedding(decodeURIComponent(id), body)
  return { model: decodeURIComponent(id), operation, path, headers, body }
}

function refusal(message: string): Refused {
  return new Refused(400, 'ValidationException', message)
}

function only(what: string, object: Json, names: readonly string[]): void {
  for (const name of Object.keys(object))
    if (!names.includes(name)) throw refusal(`${what} has an unknown member ${name}`)
}

/** Titan's models take one text, and Cohere's up to 96 with what they are for. */
function checkEmbedding(model: string, body: Json): void {
  if (model.includes('titan')) {
    only('the request', body, ['inputText', 'dimensions', 'normalize'])
    if (typeof body['inputText'] !== 'string') throw refusal('expected type: String, found: JSONArray')
    return
  }
  only('the request', body, ['texts', 'input_type', 'truncate', 'embedding_types', 'output_dimension'])
  const types = ['search_document', 'search_query', 'classification', 'clustering']
  if (!types.includes(body['input_type'] as string)) throw refusal('input_type is required')
  if ((body['texts'] as unknown[]).length > 96) throw refusal('at most 96 texts')
}

const blocks = [
  'text',
  'image',
  'document',
  'video',
  'audio',
  'toolUse',
  'toolResult',
  'reasoningContent',
  'cachePoint',
  'guardContent'
]

function checkConverse(body: Json): void {
  only('the request', body, [
    'messages',
    'system',
    'inferenceConfig',
    'toolConfig',
    'additionalModelRequestFields',
    'outputConfig',
    'guardrailConfig',
    'serviceTier',
    'requestMetadata'
  ])
  only('inferenceConfig', (body['inferenceConfig'] ?? {}) as Json, [
    'maxTokens',
    'temperature',
    'topP',
    'stopSequences'
  ])
  const messages = body['messages'] as { role: string; content: Json[] }[]
  messages.forEach(({ role, content }, at) => {
    if (role !== (at % 2 === 0 ? 'user' : 'assistant')) throw refusal('roles must alternate, and the user begins')
    if (content.length === 0) throw refusal('a message has no content')
    for (const block of content) {
      const [kind, ...others] = Object.keys(block)
      if (others.length > 0 || !blocks.includes(kind!))
        throw refusal(`a block must have one member, not ${Object.keys(block).join()}`)
      if (kind === 'text' && String(block['text']).trim() === '') throw refusal('a text is blank')
      if ((kind === 'toolUse' || kind === 'toolResult') && !body['toolConfig'])
        throw refusal('The toolConfig field must be defined when using toolUse and toolResult content blocks.')
    }
  })
}
