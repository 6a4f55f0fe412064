// Reads HTTP/1.1 messages from raw bytes, without the parser under test.

/** One read from a socket. */
export interface Read {
  /** `performance.now()` of its arrival. */
  at: number
  bytes: Buffer
}

/**
 * A head: its start line split at the spaces, and its fields by lower-case name. Repeated fields are joined with a
 * comma.
 */
export interface Head {
  start: [string, string, string]
  headers: Record<string, string>
  /** The bytes as they arrived, without the empty line. */
  raw: string
}

const endOfHead = Buffer.from('\r\n\r\n')

/**
 * Takes bytes as they arrive, and reads one message after another from them. `onHead` and `onEnd` are called in order.
 * `complete` is false when the connection ended before the message did.
 */
export class MessageReader {
  head: Head | undefined
  /** The body of the current message so far. */
  body: Buffer[] = []
  bodyBytes = 0
  readonly #side: 'request' | 'response'
  readonly #onHead: (head: Head) => void
  readonly #onEnd: (head: Head, body: Buffer, complete: boolean) => void
  #pending: Buffer = Buffer.alloc(0)
  /** The bytes of the body or chunk that are still to come; Infinity for a body that ends with the connection. */
  #left = 0
  #chunked = false
  #inTrailer = false

  constructor(
    side: 'request' | 'response',
    onHead: (head: Head) => void,
    onEnd: (head: Head, body: Buffer, complete: boolean) => void
  ) {
    this.#side = side
    this.#onHead = onHead
    this.#onEnd = onEnd
  }

  push(bytes: Buffer): void {
    this.#pending = this.#pending.length > 0 ? Buffer.concat([this.#pending, bytes]) : bytes
    while (this.#pending.length > 0 && this.#step());
  }

  /** Says that the connection ended. */
  end(): void {
    if (this.head) this.#finish(this.#left === Infinity)
  }

  /** Reads the next part; false when it needs more bytes. */
  #step(): boolean {
    if (!this.head) return this.#readHead()
    if (this.#left > 0) return this.#readBody()
    return this.#readChunkLine()
  }

  #readHead(): boolean {
    const end = this.#pending.indexOf(endOfHead)
    if (end === -1) return false
    const raw = this.#pending.toString('latin1', 0, end)
    this.#pending = this.#pending.subarray(end + endOfHead.length)
    const [startLine = '', ...lines] = raw.split('\r\n')
    const headers: Record<string, string> = {}
    for (const line of lines) {
      const colon = line.indexOf(':')
      const name = line.slice(0, colon).toLowerCase()
      const value = line.slice(colon + 1).trim()
      headers[name] = name in headers ? `${headers[name]}, ${value}` : value
    }
    const [first = '', second = '', ...rest] = startLine.split(' ')
    const head: Head = { start: [first, second, rest.join(' ')], headers, raw }
    // An interim response has no body, and another head follows it.
    if (this.#side === 'response' && /^1\d\d$/.test(second)) return true
    this.head = head
    this.#chunked = /chunked/i.test(headers['transfer-encoding'] ?? '')
    const length = headers['content-length']
    const bodiless = this.#side === 'request' || second === '204' || second === '304'
    this.#left = this.#chunked ? 0 : length !== undefined ? Number(length) : bodiless ? 0 : Infinity
    this.#onHead(head)
    if (!this.#chunked && this.#left === 0) this.#finish(true)
    return true
  }

  #readBody(): boolean {
    const part = this.#pending.subarray(0, this.#left)
    this.#pending = this.#pending.subarray(part.length)
    this.#left -= part.length
    this.body.push(part)
    this.bodyBytes += part.length
    if (this.#left === 0 && !this.#chunked) this.#finish(true)
    return true
  }

  #readChunkLine(): boolean {
    const end = this.#pending.indexOf('\r\n')
    if (end === -1) return false
    const line = this.#pending.toString('latin1', 0, end)
    this.#pending = this.#pending.subarray(end + 2)
    if (this.#inTrailer) {
      if (line === '') this.#finish(true)
      return true
    }
    // The end of line after a chunk.
    if (line === '') return true
    if (!/^[0-9a-f]+(;.*)?$/i.test(line)) throw new Error(`not a chunk size: ${JSON.stringify(line)}`)
    this.#left = Number.parseInt(line, 16)
    this.#inTrailer = this.#left === 0
    return true
  }

  #finish(complete: boolean): void {
    const head = this.head!
    const body = Buffer.concat(this.body)
    this.head = undefined
    this.body = []
    this.bodyBytes = 0
    this.#inTrailer = false
    this.#left = 0
    this.#onEnd(head, body, complete)
  }
}
