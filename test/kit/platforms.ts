// Platforms on loopback that serve models of others and take nothing but what they take: Vertex AI and Azure, with the
// servers that give out their tokens.
import { verify } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

type Json = Record<string, any>

/** The token that they give out, and take. */
const token = 'scripted-platform-token'

/** A request that was taken. */
export interface PlatformAsked {
  path: string
  headers: IncomingMessage['headers']
  body: Json
}

/** What is answered: JSON, or server-sent events as they stand. */
export type PlatformAnswer = { status?: number; json: unknown } | { sse: string }

export interface Platform {
  readonly url: string
  readonly asked: PlatformAsked[]
}

/** A refusal: status, and what is wrong. */
type Fault = readonly [status: number, message: string] | undefined

async function platform(
  t: Test,
  give: (path: string, body: string, headers: IncomingMessage['headers']) => Json | undefined,
  check: (asked: PlatformAsked) => Fault,
  refuse: (status: number, message: string) => Json,
  answer: (asked: PlatformAsked) => PlatformAnswer | Promise<PlatformAnswer>
): Promise<Platform> {
  const asked: PlatformAsked[] = []
  const json = (response: ServerResponse, status: number, body: unknown): void => {
    response.writeHead(status, { 'content-type': 'application/json', 'metadata-flavor': 'Google' })
    response.end(JSON.stringify(body))
  }
  const server = createServer((request, response) => {
    const pieces: Buffer[] = []
    request.on('data', (piece: Buffer) => pieces.push(piece))
    request.on('end', async () => {
      const { headers, url: path = '' } = request
      const text = Buffer.concat(pieces).toString('utf8')
      const given = give(path, text, headers)
      if (given) return json(response, 200, given)
      const one = { path, headers, body: JSON.parse(text || '{}') as Json }
      const fault = request.method === 'POST' ? check(one) : ([404, 'no such method'] as const)
      if (fault) return json(response, fault[0], refuse(...fault))
      asked.push(one)
      const made = await answer(one)
      if ('json' in made) return json(response, made.status ?? 200, made.json)
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(made.sse)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
}

/** Whether a request for a token carries an assertion that a service account has signed. */
function isSigned(body: string, key: KeyObject): boolean {
  const form = new URLSearchParams(body)
  const [head, claims, signature = ''] = (form.get('assertion') ?? '').split('.')
  const isGrant = form.get('grant_type') === 'urn:ietf:params:oauth:grant-type:jwt-bearer'
  return isGrant && verify('RSA-SHA256', Buffer.from(`${head}.${claims}`), key, Buffer.from(signature, 'base64url'))
}

/**
 * `account`: the public key of a service account that may have tokens, beside the machine itself.
 *
 * Below the address of a project and a location: Gemini's methods, and Anthropic's Messages as predictions. */
export async function scriptedVertex(
  t: Test,
  answer: (asked: PlatformAsked) => PlatformAnswer | Promise<PlatformAnswer>,
  account?: KeyObject
): Promise<Platform> {
  const metadata = '/computeMetadata/v1/instance/service-accounts/default/token'
  return platform(
    t,
    (path, body, headers) =>
      (path.startsWith(metadata) && headers['metadata-flavor'] === 'Google') ||
      (path === '/token' && account && isSigned(body, account))
        ? { access_token: token, expires_in: 3600, token_type: 'Bearer' }
        : undefined,
    ({ path, headers, body }) => {
      if (headers.authorization !== `Bearer ${token}`) return [401, 'Request had invalid authentication credentials.']
      const [, publisher, model, method] =
        /^\/v1\/projects\/p\/locations\/(?:global|europe-west4)\/publishers\/(google|anthropic)\/models\/([\w.@-]+):(\w+)(?:\?alt=sse)?$/.exec(
          path
        ) ?? []
      if (publisher === 'google') {
        if (method === 'predict' || method === 'embedContent') return vertexFault(model!, method, body)
        if (!['generateContent', 'streamGenerateContent', 'countTokens'].includes(method!))
          return [404, 'no such method']
        const contents = body['contents'] as Json[]
        return contents.every(({ role }) => role === 'user' || role === 'model')
          ? undefined
          : [400, 'Please use a valid role: user, model.']
      }
      if (publisher !== 'anthropic' || !['rawPredict', 'streamRawPredict'].includes(method!)) return [404, 'not found']
      if (headers['anthropic-version'] !== undefined) return [400, 'anthropic-version is no header here']
      if (body['anthropic_version'] !== 'vertex-2023-10-16') return [400, 'anthropic_version: Field required']
      if ('model' in body !== (model === 'count-tokens')) return [400, 'model: Extra inputs are not permitted']
      const streams = body['stream'] === true
      return streams === (method === 'streamRawPredict') ? undefined : [400, 'stream does not fit the method']
    },
    (status, message) => ({ error: { code: status, message, status: 'INVALID_ARGUMENT' } }),
    answer
  )
}

/** Predictions are of the text models; the newer ones take one content. */
function vertexFault(model: string, method: string, body: Json): Fault {
  const takesContent = model.startsWith('gemini-embedding-2')
  if (takesContent !== (method === 'embedContent')) return [400, `${model} does not support ${method}`]
  if (takesContent) return Array.isArray(body['content']?.parts) ? undefined : [400, 'content is required']
  const instances = (body['instances'] ?? []) as Json[]
  if (!instances.every(({ content }) => typeof content === 'string')) return [400, 'content must be a text']
  const most = model === 'gemini-embedding-001' ? 1 : 250
  return instances.length > most ? [400, `at most ${most} instances`] : undefined
}

/** A resource of Azure: deployments with a version in the query, and the address that needs none. */
export async function scriptedAzure(
  t: Test,
  key: string,
  answer: (asked: PlatformAsked) => PlatformAnswer
): Promise<Platform> {
  return platform(
    t,
    (path, body) => {
      const form = new URLSearchParams(body)
      const fits =
        path === '/tenant-1/oauth2/v2.0/token' &&
        form.get('grant_type') === 'client_credentials' &&
        form.get('client_secret') === 'scripted-client-secret' &&
        form.get('scope') === 'https://cognitiveservices.azure.com/.default'
      return fits ? { access_token: token, expires_in: 3600, token_type: 'Bearer' } : undefined
    },
    ({ path, headers, body }) => {
      if (headers['api-key'] !== key && headers.authorization !== `Bearer ${token}`)
        return [401, 'Access token is missing, invalid, audience is incorrect or have expired.']
      const deployed = /^\/openai\/deployments\/my-deployment\/chat\/completions\?api-version=2024-10-21$/.test(path)
      if (deployed) return undefined
      if (path !== '/openai/v1/chat/completions' && path !== '/openai/v1/responses') return [404, 'Resource not found']
      return body['model'] === 'my-deployment'
        ? undefined
        : [404, 'The API deployment for this resource does not exist.']
    },
    (status, message) => ({ error: { code: String(status), message } }),
    answer
  )
}
