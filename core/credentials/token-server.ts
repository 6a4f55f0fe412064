// Asks servers that hand out credentials, and believes only what can be used.
import { SourceFault, sendable, tokenExpiryOf } from './grant.ts'
import type { Grant } from './grant.ts'

/** The most bytes of an answer. */
const largest = 64 * 1024
/** The life of a token of which nobody said how long it lives, in seconds. */
const usualLife = 300

/** What is asked, and whom. */
export interface Question {
  url: string
  /** Who is asked, as people call it: `the token server`. */
  who: string
  headers?: Readonly<Record<string, string>>
  /** With a form or a JSON body it is a POST, otherwise a GET unless `method` says otherwise. */
  form?: Readonly<Record<string, string>>
  json?: unknown
  method?: 'PUT'
  signal: AbortSignal
}

/** An answer with status 200. */
export interface Answered {
  readonly headers: Headers
  readonly text: string
}

/**
 * Asks a server. Redirects are not followed, because they would carry a secret to somewhere else.
 * @throws SourceFault when there is no answer with status 200
 */
export async function askServer({ url, who, headers, form, json, method, signal }: Question): Promise<Answered> {
  const body = form ? new URLSearchParams(form) : json === undefined ? undefined : JSON.stringify(json)
  const type = json === undefined ? undefined : { 'content-type': 'application/json' }
  let status: number
  let answer: Answered
  try {
    const response = await fetch(url, {
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      headers: { accept: 'application/json', ...type, ...headers },
      ...(body !== undefined && { body }),
      redirect: 'manual',
      signal
    })
    status = response.status
    answer = { headers: response.headers, text: await textOf(response, who) }
  } catch (error) {
    if (error instanceof SourceFault) throw error
    if (signal.aborted) throw new SourceFault(`${who} did not answer in time`)
    throw new SourceFault(`${who} cannot be reached${codeOf(error)}`)
  }
  if (status !== 200) throw new SourceFault(`${who} answered with status ${status}${errorIn(answer.text)}`)
  return answer
}

/**
 * The object in an answer.
 * @throws SourceFault when there is none
 */
export function objectIn(text: string, who: string): Readonly<Record<string, unknown>> {
  const value = parsed(text)
  if (value === undefined) throw new SourceFault(`${who} answered with something that is no JSON object`)
  return value
}

/**
 * The token in an answer (RFC 6749 section 5.1); `asked` is when the question was sent, in Unix milliseconds.
 * @throws SourceFault when there is none that can be used
 */
export function tokenIn(text: string, who: string, asked: number): Grant {
  const { access_token: token, token_type: type, expires_in: life, expires_on: end } = objectIn(text, who)
  if (typeof token !== 'string') throw new SourceFault(`${who} answered without an access_token`)
  if (type !== undefined && !(typeof type === 'string' && /^bearer$/i.test(type)))
    throw new SourceFault(`${who} gave a token of another type than Bearer`)
  const secret = sendable(token, `the token of ${who}`)
  const [seconds, until] = [numberIn(life, who, 'expires_in'), numberIn(end, who, 'expires_on')]
  const told = seconds !== undefined || until === undefined ? asked + (seconds ?? usualLife) * 1000 : until * 1000
  return { secret, expiresAt: Math.min(told, tokenExpiryOf(secret) ?? Infinity) }
}

/** A number, which some servers send as digits. */
function numberIn(value: unknown, who: string, name: string): number | undefined {
  if (value === undefined || value === null) return undefined
  const number = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value
  if (typeof number === 'number' && Number.isFinite(number)) return number
  throw new SourceFault(`${who} answered with an ${name} that is no number`)
}

async function textOf(response: Response, who: string): Promise<string> {
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of response.body ?? []) {
    size += piece.length
    if (size > largest) throw new SourceFault(`${who} answered with more than ${largest} bytes`)
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString('utf8')
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}

/** Codes of RFC 6749 section 5.2, and those that Google's and Microsoft's servers have beside them. */
const knownErrors = new Set(
  `invalid_request invalid_client invalid_grant unauthorized_client unsupported_grant_type invalid_scope access_denied
  server_error temporarily_unavailable invalid_resource invalid_target interaction_required consent_required
  admin_policy_enforced org_internal deleted_client internal_failure`.split(/\s+/)
)

/** The code of an error in an answer, when it is a known one; anything else may repeat what was sent. */
function errorIn(text: string): string {
  const { error, error_description: description } = parsed(text) ?? {}
  const [number] = (typeof description === 'string' && /^AADSTS\d{1,10}/.exec(description)) || []
  const words = [typeof error === 'string' && knownErrors.has(error) ? error : undefined, number]
  const said = words.filter((word) => word !== undefined).join(', ')
  return said === '' ? '' : ` (${said})`
}

function codeOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause as NodeJS.ErrnoException | undefined) : undefined
  return typeof cause?.code === 'string' && /^[A-Z0-9_]{1,64}$/.test(cause.code) ? ` (${cause.code})` : ''
}
