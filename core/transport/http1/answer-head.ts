// Reads the head of an upstream's answer and decides where its body ends (RFC 9112, sections 4 to 6).
import { BadResponse } from '../failure.ts'
import { digits, knownNames, namePattern, trimmed } from '../../wire/grammar.ts'
import { headerFields } from '../../wire/header-fields.ts'
import type { UpstreamHeaders } from '../transport.ts'

/**
 * How long an idle connection is kept. Providers close theirs after about a minute; the gateway must close its own
 * first.
 */
export const keepAliveMs = 55_000
/** The time that is subtracted from an upstream's `keep-alive: timeout`, for bytes that are still in transit. */
const keepAliveMarginMs = 1000

/** How the end of a body is recognized. */
export type Framing = 'none' | 'length' | 'chunked' | 'close'

/** The head of an answer that was accepted. */
export interface AnswerHead {
  readonly status: number
  readonly headers: UpstreamHeaders
  readonly framing: Framing
  /** Bytes of the body; 0 unless `framing` is `length`. */
  readonly length: number
  /**
   * Milliseconds for which the connection may be kept for another request after this answer; 0 when it may not be kept.
   */
  readonly keepMs: number
}

/** Some servers omit the space before an empty reason phrase. */
const statusPattern = /^HTTP\/1\.[01] [1-9]\d\d[ \r]/

const common = [
  'cache-control',
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'date',
  'keep-alive',
  'retry-after',
  'server',
  'set-cookie',
  'transfer-encoding',
  'vary',
  'x-request-id'
]
/** Names that need no check and no change of case, which saves a microsecond per request. */
const known = knownNames(common, (lower) => lower)

/**
 * Reads the status line and the fields of `text`, which is latin1 with CRLF at the end of each line, ends with an empty
 * line, and has no control characters in its lines except tabs. For an interim answer (1xx), only `status` is
 * meaningful.
 * @throws BadResponse
 */
export function readHead(text: string): AnswerHead {
  if (!statusPattern.test(text)) throw new BadResponse('the status line is invalid')
  const status = Number(text.slice(9, 12))
  const headers = readFields(text, text.indexOf('\r\n', 12) + 2)
  const old = text[7] === '0'
  if (old && status < 200) throw new BadResponse('an interim answer in HTTP/1.0')
  const { framing, length } = framingOf(text, status, old, headers)
  return { status, headers, framing, length, keepMs: framing === 'close' ? 0 : keepMsOf(old, headers) }
}

/**
 * Reads the fields of `text`, starting at `from`.
 * @throws BadResponse
 */
function readFields(text: string, from: number): UpstreamHeaders {
  const headers = headerFields<string | string[] | undefined>()
  const last = text.length - 2
  for (let at = from; at < last;) {
    const end = text.indexOf('\r', at)
    const colon = text.indexOf(':', at)
    if (colon === -1 || colon > end) throw new BadResponse('a header line has no colon')
    const name = nameOf(text.slice(at, colon))
    const value = trimmed(text, colon + 1, end)
    const before = headers[name]
    if (before === undefined) headers[name] = value
    else if (typeof before === 'string') headers[name] = [before, value]
    else before.push(value)
    at = end + 2
  }
  return headers
}

function nameOf(written: string): string {
  const name = known.get(written)
  if (name !== undefined) return name
  // This also refuses lines that begin with a space, which once continued the line before (obs-fold, RFC 9112 §5.2).
  if (!namePattern.test(written)) throw new BadResponse('a header name is invalid')
  return written.toLowerCase()
}

/** Refuses a tab behind the value. RFC 9112 allows it, but not every reader understands it. */
const chunkedPattern = /\r\ntransfer-encoding:[\t ]*chunked *\r\n/i

/** How the body ends (RFC 9112 §6.3), without the repairs that the RFC permits. */
function framingOf(
  text: string,
  status: number,
  old: boolean,
  headers: UpstreamHeaders
): { framing: Framing; length: number } {
  const coding = headers['transfer-encoding']
  const length = headers['content-length']
  if (coding !== undefined) {
    if (length !== undefined) throw new BadResponse('both transfer-encoding and content-length')
    if (old) throw new BadResponse('transfer-encoding in HTTP/1.0')
    if (typeof coding !== 'string' || !chunkedPattern.test(text))
      throw new BadResponse('a transfer-encoding other than chunked')
  }
  const bytes = typeof length === 'string' ? digits(length) : undefined
  if (length !== undefined && bytes === undefined) throw new BadResponse('an invalid content-length')
  if (status < 200 || status === 204 || status === 304) return { framing: 'none', length: 0 }
  if (coding !== undefined) return { framing: 'chunked', length: 0 }
  if (bytes === undefined) return { framing: 'close', length: 0 }
  return { framing: bytes === 0 ? 'none' : 'length', length: bytes }
}

function keepMsOf(old: boolean, headers: UpstreamHeaders): number {
  const { connection, 'keep-alive': hint } = headers
  if (connection === undefined ? old : connection !== 'keep-alive') {
    const tokens = String(connection ?? '')
      .toLowerCase()
      .split(/[\t ]*,[\t ]*/)
    if (tokens.includes('close') || (old && !tokens.includes('keep-alive'))) return 0
  }
  const seconds = hint === undefined ? undefined : /(?:^|[\s,;])timeout\s*=\s*"?(\d+)/i.exec(String(hint))?.[1]
  return seconds === undefined
    ? keepAliveMs
    : Math.min(Math.max(Number(seconds) * 1000 - keepAliveMarginMs, 0), keepAliveMs)
}
