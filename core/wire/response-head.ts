// The head of a response: nothing in it can be taken for another header or another response.
import { namePattern } from './grammar.ts'
import { STATUS_CODES } from './http.ts'

/**
 * RFC 9110 §5.5: control characters other than a tab end a line for somebody, and what is no single byte cannot be
 * sent.
 */
const notInValue = /[^\t\x20-\x7e\x80-\xff]/

/**
 * Headers that belong to one connection (RFC 9110 §7.6.1), say where a body ends, or are the server's own for another
 * reason.
 */
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
 * Names seen before, with how their lines begin; nothing for the server's own. Saves 0.5 µs a request. Code gives most
 * of them; bounded, as plugins may make some up.
 */
const beginnings = new Map<string, string>()
const mostNames = 500

/** Headers of an answer as the lines that are sent: each is checked once, when it is added. */
export class HeaderLines {
  #text: string

  private constructor(text: string) {
    this.#text = text
  }

  /** Of a name, a value, a name, a value. */
  static of(...pairs: readonly string[]): HeaderLines {
    const lines = new HeaderLines('')
    for (let i = 0; i < pairs.length; i += 2) lines.add(pairs[i]!, pairs[i + 1]!)
    return lines
  }

  /** Both spellings of a request id, OpenAI's and Anthropic's. The id is of our own making. */
  static identified(id: string): HeaderLines {
    return new HeaderLines(`x-request-id: ${id}\r\nrequest-id: ${id}\r\n`)
  }

  /** In the order they were added in. */
  get text(): string {
    return this.#text
  }

  /**
   * Adds a header, its name in the case it is sent in. Those of framing and the date are the server's own: they are
   * left out.
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

  /** How much has been added: a place to {@link forgetFrom}. */
  get length(): number {
    return this.#text.length
  }

  /** Takes out what was added since the lines were so long. */
  forgetFrom(length: number): void {
    if (length < this.#text.length) this.#text = this.#text.slice(0, length)
  }

  /** The same lines, to be added to for themselves. */
  copy(): HeaderLines {
    return new HeaderLines(this.#text)
  }

  /** The value that was added last under a name, in whatever case. */
  find(name: string): string | undefined {
    const pairs = this.pairs()
    const at = pairs.findLastIndex((text, index) => index % 2 === 0 && text.toLowerCase() === name.toLowerCase())
    return at === -1 ? undefined : pairs[at + 1]
  }

  /** Flat: name, value, name, value. */
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

/** Checks a name that was not seen before. */
function beginningOf(name: string): string {
  if (!namePattern.test(name)) throw new TypeError(`${JSON.stringify(name.slice(0, 100))} is not the name of a header`)
  const beginning = own.has(name.toLowerCase()) ? '' : `${name}: `
  if (beginnings.size < mostNames) beginnings.set(name, beginning)
  return beginning
}

/** RFC 9110 §15.5.22: the answer says what to upgrade to, which is one thing here. */
const upgradeRequired = 426

/**
 * The head of an HTTP/1.1 response up to and with its empty line, one byte a character. `framing` holds the headers
 * that belong to the connection, as whole lines. `length`: of the body, undefined when it is not told.
 * @throws RangeError for a status that is none
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

/** The date, which holds until its second is over: 0.8 µs a request. */
function dated(): string {
  const now = new Date()
  dateLine = `Date: ${now.toUTCString()}\r\n`
  setTimeout(() => (dateLine = ''), 1000 - now.getUTCMilliseconds()).unref()
  return dateLine
}
