// AWS Signature Version 4: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
import { createHash, createHmac } from 'node:crypto'
import type { AwsKeys } from './grant.ts'

/** What is signed. */
export interface Signable {
  method: string
  /** As in the request line, with the query. */
  target: string
  /** The headers to sign, among them `host` and `x-amz-date`; names in lower case. */
  headers: Readonly<Record<string, string>>
  /** The SHA-256 of the body, in hexadecimal. */
  bodyHash: string
}

/** Whom the signature is for. */
export interface Scope {
  readonly region: string
  readonly service: string
}

/** A time as signatures have it: `20150830T123600Z`. */
export function amzDate(time: number): string {
  return new Date(time).toISOString().replace(/[:-]|\.\d{3}/g, '')
}

/** The value of `authorization` for a request. */
export function signatureOf(request: Signable, keys: AwsKeys, { region, service }: Scope): string {
  const { method, target, headers, bodyHash } = request
  const names = Object.keys(headers).sort()
  const mark = target.indexOf('?')
  const [path, query] = mark < 0 ? [target, ''] : [target.slice(0, mark), target.slice(mark + 1)]
  const canonical = [
    method,
    // Every service but S3 encodes the path, which is encoded already, once more.
    path.split('/').map(encoded).join('/'),
    canonicalQuery(query),
    ...names.map((name) => `${name}:${headers[name]!.trim().replace(/ +/g, ' ')}`),
    '',
    names.join(';'),
    bodyHash
  ].join('\n')
  const date = headers['x-amz-date']!
  const scope = [date.slice(0, 8), region, service, 'aws4_request']
  const text = ['AWS4-HMAC-SHA256', date, scope.join('/'), sha256(canonical)].join('\n')
  const key = scope.reduce<string | Buffer>(
    (secret, part) => createHmac('sha256', secret).update(part).digest(),
    `AWS4${keys.secretAccessKey}`
  )
  const signature = createHmac('sha256', key).update(text).digest('hex')
  return `AWS4-HMAC-SHA256 Credential=${keys.accessKeyId}/${scope.join('/')}, SignedHeaders=${names.join(';')}, Signature=${signature}`
}

/** The parameters sorted by name and then by value, as they are encoded; one without a value has an empty one. */
function canonicalQuery(query: string): string {
  if (query === '') return ''
  const pairs = query.split('&').map((pair) => {
    const equals = pair.indexOf('=')
    return equals < 0 ? [pair, ''] : [pair.slice(0, equals), pair.slice(equals + 1)]
  })
  const sorted = pairs.map((parts) => parts.map((part) => encoded(decoded(part)))).sort(byBytes)
  return sorted.map((parts) => parts.join('=')).join('&')
}

function byBytes([a, x]: string[], [b, y]: string[]): number {
  return a! < b! ? -1 : a! > b! ? 1 : x! < y! ? -1 : Number(x! > y!)
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** All but the unreserved characters of RFC 3986 become `%XX`. */
function encoded(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
