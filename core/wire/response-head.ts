// Writes the head of a response, in which no value can be taken for another header or another response.
import { namePattern } from './grammar.ts'
import { STATUS_CODES } from './http.ts'

/**
 * What a value must not contain (RFC 9110 §5.5): control characters other than tabs, which some readers take for the
 * end of a line, and characters that are not a single byte.
 */
const notInValue = /[^\t\x20-\x7e\x80-\xff]/

/** Headers that belong to one connection (RFC 9110 §7.6.1), say where a body ends, or are set by the server itself. */
const own = new Set([
  'connection',
  'content-length',
  'date',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade'
])

/**
 * For each name seen before, the beginning of its line; empty for the server's own headers. Saves 0.5 µs per request.
 * Most names are constants, but plugins may invent some, so the size is limited.
 */
const beginnings = new Map<string, string>()
const mostNames = 500

/** The headers of an answer, in the form in which they are sent. Each is checked once, when it is added. */
export class HeaderLines {
  #text: string

  private constructor(text: string) {
    this.#text = text
  }

  /** Made from names and values in turn. */
  static of(...pairs: readonly string[]): HeaderLines {
    const lines = new HeaderLines('')
    for (let i = 0; i < pairs.length; i += 2) lines.add(pairs[i]!, pairs[i + 1]!)
    return lines
  }

  /**
   * The request id under the names that OpenAI and Anthropic use. The id needs no check, because the gateway made it.
   */
  static identified(id: string): HeaderLines {
    return new HeaderLines(`x-request-id: ${id}\r\nrequest-id: ${id}\r\n`)
  }

  /** The lines, in the order in which they were added. */
  get text(): string {
    return this.#text
  }

  /**
   * Adds a header; its name is sent as it is written here. Headers of framing and the date are left out, because the
   * server sets them.
   * @throws TypeError for a name or value that cannot be sent
   */
  add(name: string, value: string | number): this {
    const beginning = beginnings.get(name) ?? beginningOf(name)
    if (typeof value !== 'number' && notInValue.test(value)) {
      throw new TypeError(
        `the value of the header ${name} cannot be sent: it holds a line break or another control character`
      )
    }
    if (beginning !== '') this.#text += `${beginning}${value}\r\n`
    return this
  }

  /** The present length, to be given to {@link forgetFrom} later. */
  get length(): number {
    return this.#text.length
  }

  /** Removes everything that was added since {@link length} had this value. */
  forgetFrom(length: number): void {
    if (length < this.#text.length) this.#text = this.#text.slice(0, length)
  }

  /** Makes one string of what was added: V8 keeps the parts, and an object for each, until somebody reads it. */
  join(): void {
    this.#text = Buffer.from(this.#text, 'latin1').toString('latin1')
  }

  /** A copy, which can be added to independently. */
  copy(): HeaderLines {
    return new HeaderLines(this.#text)
  }

  /** The value that was added last for a name, ignoring case. */
  find(name: string): string | undefined {
    const pairs = this.pairs()
    const at = pairs.findLastIndex((text, index) => index % 2 === 0 && text.toLowerCase() === name.toLowerCase())
    return at === -1 ? undefined : pairs[at + 1]
  }

  /** A flat list: name, value, name, value. */
  pairs(): string[] {
    return this.#text
      .split('\r\n')
      .slice(0, -1)
      .flatMap((line) => {
        const colon = line.indexOf(': ')
        return [line.slice(0, colon), line.slice(colon + 2)]
      })
  }
}

/** Checks a name that was not seen before, and remembers the beginning of its line. */
function beginningOf(name: string): string {
  if (!namePattern.test(name)) throw new TypeError(`${JSON.stringify(name.slice(0, 100))} is not the name of a header`)
  const beginning = own.has(name.toLowerCase()) ? '' : `${name}: `
  if (beginnings.size < mostNames) beginnings.set(name, beginning)
  return beginning
}

/** RFC 9110 §15.5.22: the answer names the protocols to upgrade to. Here that is always WebSocket. */
const upgradeRequired = 426

/**
 * The head of an HTTP/1.1 response, up to and including its empty line, in latin1. `framing`: the headers of the
 * connection, as whole lines. `length`: that of the body, undefined when it is not announced.
 * @throws RangeError for an invalid status
 */
export function renderHead(status: number, headers: HeaderLines, length: number | undefined, framing: string): string {
  if (status === upgradeRequired)
    framing = `${framing.replace('Connection: ', 'Connection: upgrade, ')}Upgrade: websocket\r\n`
  if (!Number.isInteger(status) || status < 200 || status > 999)
    throw new RangeError(`${status} is not the status of a response`)
  const sized = length === undefined ? '' : `Content-Length: ${length}\r\n`
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Unknown'}\r\n${headers.text}${sized}${dateLine || dated()}${framing}\r\n`
}

let dateLine = ''

/** The line with the date, which is kept until the second is over. This saves 0.8 µs per request. */
function dated(): string {
  const now = new Date()
  dateLine = `Date: ${now.toUTCString()}\r\n`
  setTimeout(() => (dateLine = ''), 1000 - now.getUTCMilliseconds()).unref()
  return dateLine
}
