// Puts a credential that changes into requests: as a header, or as a signature.
import { createHash } from 'node:crypto'
import { isPieces } from '../../bodies/upload.ts'
import { inTurns } from '../../bodies/turns.ts'
import type { UpstreamBody } from '../../bodies/upload.ts'
import type { Channel } from '../../catalogue/catalogue.ts'
import { credentialOf } from '../../credentials/credentials.ts'
import type { Credential } from '../../credentials/credential.ts'
import type { AwsKeys, Secret } from '../../credentials/grant.ts'
import { amzDate, signatureOf } from '../../credentials/signature.ts'
import type { LivingCredential } from '../../credentials/source.ts'
import { GatewayError } from '../../errors.ts'
import { targetOf } from '../http1/channel-head.ts'
import type { UpstreamHeaders, UpstreamRequest } from '../transport.ts'

/** How a channel with a credential that changes authorizes its requests. */
export interface Authorization {
  readonly living: LivingCredential
  readonly credential: Credential
}

/**
 * The authorization of a channel with a living credential.
 * @throws Error for a channel that was not announced
 */
export function authorizationOf(channel: Channel): Authorization {
  const living = channel.living!
  const credential = credentialOf(living.source)
  if (!credential) throw new Error(`the credential of the channel ${channel.name} was not announced`)
  return { living, credential }
}

/**
 * The same request with the credential in it. A promise when it has a signature over a body that takes long to read.
 * @throws GatewayError when the request cannot be sent, or not be signed
 */
export function authorized(
  channel: Channel,
  { living, credential }: Authorization,
  secret: Secret,
  request: UpstreamRequest
): UpstreamRequest | Promise<UpstreamRequest> {
  const { headers } = request
  if (typeof secret === 'string') return { ...request, headers: [...headers, living.header, living.prefix + secret] }
  const hash = hashOf(request.body)
  const signed = (bodyHash: string): UpstreamRequest => ({
    ...request,
    headers: [...headers, ...signature(channel, { living, credential }, secret, request, bodyHash)]
  })
  return typeof hash === 'string' ? signed(hash) : hash.then(signed)
}

function signature(
  channel: Channel,
  { living: { source }, credential }: Authorization,
  keys: AwsKeys,
  { method, path, headers }: UpstreamRequest,
  bodyHash: string
): string[] {
  if (source.kind !== 'aws') throw new Error(`a source of the kind ${source.kind} gave keys`)
  const added: Record<string, string> = {
    'x-amz-date': amzDate(Date.now() + credential.skew),
    'x-amz-content-sha256': bodyHash,
    ...(keys.sessionToken !== undefined && { 'x-amz-security-token': keys.sessionToken })
  }
  const sent: Record<string, string> = { host: channel.baseUrl.host }
  for (const [name, value] of Object.entries(channel.headers)) if (isSigned(name)) sent[name] = value
  for (let i = 0; i < headers.length; i += 2) if (isSigned(headers[i]!)) sent[headers[i]!] = headers[i + 1]!
  const request = { method, target: targetOf(channel, path), headers: { ...sent, ...added }, bodyHash }
  return Object.entries({ ...added, authorization: signatureOf(request, keys, source) }).flat()
}

function isSigned(name: string): boolean {
  return name === 'content-type' || (name.startsWith('x-amzn-') && name !== 'x-amzn-trace-id')
}

/** The most bytes that are hashed at a time: a third of a millisecond. */
const slice = 512 * 1024

/** The SHA-256 of a body in hexadecimal. It stands in the head, so the whole body is read before anything is sent. */
function hashOf(body: UpstreamBody): string | Promise<string> {
  if (!isPieces(body))
    throw new GatewayError('upstream_connection_failed', 'The upload is too large to be signed.', { untaken: true })
  const hash = createHash('sha256')
  let [piece, at] = [0, 0]
  return inTurns({
    advance(until) {
      for (; piece < body.length; piece++, at = 0) {
        const bytes = body[piece]!
        for (; at < bytes.length; at += slice) {
          hash.update(bytes.subarray(at, at + slice))
          if (performance.now() < until) continue
          at += slice
          return undefined
        }
      }
      return hash.digest('hex')
    }
  })
}

/** Names of AWS for keys that are not valid any more, and for signatures whose time is not that of the server. */
const expired = /^(?:ExpiredToken|UnrecognizedClient|InvalidClientTokenId)/
const otherTime =
  /^(?:AuthFailure|InvalidSignature|RequestExpired|RequestInTheFuture|RequestTimeTooSkewed|SignatureDoesNotMatch)/
/** From how many milliseconds on the clocks are taken to differ. */
const leastSkew = 240_000

/**
 * What a refusal asks for: another credential, the same with the upstream's time, or nothing that could be done here.
 */
export function remedyFor(
  { credential }: Authorization,
  secret: Secret,
  status: number,
  headers: UpstreamHeaders
): 'renew' | 'again' | undefined {
  if (status === 401) return 'renew'
  if (status !== 403 || typeof secret === 'string') return undefined
  const [, kind = ''] = /^(?:[^#]*#)?(\w+)/.exec(String(headers['x-amzn-errortype'] ?? '')) ?? []
  if (expired.test(kind)) return 'renew'
  if (!otherTime.test(kind) || headers['age'] !== undefined) return undefined
  const theirs = Date.parse(String(headers['date'] ?? ''))
  const skew = theirs - Date.now()
  if (Number.isNaN(theirs) || Math.abs(skew - credential.skew) < leastSkew) return undefined
  credential.setClock(skew)
  return 'again'
}
