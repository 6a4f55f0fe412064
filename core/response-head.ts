// Renders the head of an HTTP/1.1 response: nothing in it can be taken for another header or another response.
import { STATUS_CODES } from 'node:http'
import { isFraming } from './client.ts'
import type { FlatHeaders } from './client.ts'

const namePattern = /^[-!#$%&'*+.^_`|~\dA-Za-z]+$/
/** RFC 9110 §5.5: control characters other than a tab end a line for somebody, and what is no single byte can not be sent. */
const notInValue = /[^\t\x20-\x7e\x80-\xff]/

/** Header names seen before, with whether they are written as given. Code gives most of them; bounded, as plugins may make some up. */
const knownNames = new Map<string, boolean>()
const mostNames = 500

let datedSecond = 0
let dateLine = ''

/**
 * The head up to and with its empty line, one byte a character. The date is the server's own, and so are the headers that
 * belong to the connection: `framing` holds those, as whole lines.
 * @throws RangeError for a status that is none, TypeError for a name or value that can not be sent
 */
export function renderHead(status: number, headers: FlatHeaders, framing: string): string {
  if (!Number.isInteger(status) || status < 200 || status > 999) throw new RangeError(`${status} is not the status of a response`)
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Unknown'}\r\n`
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]!
    const value = headers[i + 1]!
    if (!checkHeader(name, value)) continue
    head += `${name}: ${value}\r\n`
  }
  return `${head}${dated()}${framing}\r\n`
}

/**
 * Whether a header is written.
 * @throws TypeError for a name or value that can not be sent
 */
export function checkHeader(name: string, value: string): boolean {
  const written = knownNames.get(name) ?? isWritten(name)
  if (notInValue.test(value)) throw new TypeError(`the value of the header ${name} can not be sent: it holds a line break or another control character`)
  return written
}

/** Checks a name that was not seen before; false when headers of this name are the server's own. */
function isWritten(name: string): boolean {
  if (!namePattern.test(name)) throw new TypeError(`${JSON.stringify(name.slice(0, 100))} is not the name of a header`)
  const written = !isFraming(name) && name.toLowerCase() !== 'date'
  if (knownNames.size < mostNames) knownNames.set(name, written)
  return written
}

function dated(): string {
  const second = Math.floor(Date.now() / 1000)
  if (second !== datedSecond) {
    datedSecond = second
    dateLine = `Date: ${new Date(second * 1000).toUTCString()}\r\n`
  }
  return dateLine
}
