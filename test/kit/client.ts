// A client on a raw socket: sends exact bytes, reads when it is told to, and leaves in any way that a test wants.
import { once } from 'node:events'
import { connect as dial } from 'node:net'
import type { Socket } from 'node:net'
import { connect as dialTls } from 'node:tls'
import type { Test } from 'tap'
import { MessageReader } from './http.ts'
import type { Head, Read } from './http.ts'

/** An answer as it arrived. */
export interface ReceivedReply {
  status: number
  headers: Record<string, string>
  head: Head
  body: Buffer
  text: string
  /** True when the body ended as its framing demands, and not only with the connection. */
  complete: boolean
  json(): any
}

/** The parts of a request. A `body` that is not a string or buffer is sent as JSON. */
export interface RequestParts {
  method?: string
  path?: string
  headers?: Record<string, string>
  body?: unknown
}

/** One connection. */
export class Client {
  readonly socket: Socket
  /** Everything received, in the pieces in which it arrived. */
  readonly reads: Read[] = []
  readonly replies: ReceivedReply[] = []
  /** How the connection ended; undefined while it is open. */
  end: 'fin' | 'reset' | 'left' | undefined
  readonly closed: Promise<'fin' | 'reset' | 'left'>
  readonly #host: string
  readonly #reader: MessageReader
  readonly #heads: Head[] = []
  readonly #waiting: (() => void)[] = []
  #leaving = false
  #leaveAt = Infinity
  #leaveWith: 'fin' | 'reset' = 'fin'
  #received = 0

  /** Use {@link connect}. */
  constructor(socket: Socket, host: string) {
    this.socket = socket
    this.#host = host
    this.#reader = new MessageReader(
      'response',
      (head) => this.#heads.push(head),
      (head, body, complete) => {
        const text = body.toString('utf8')
        this.replies.push({
          status: Number(head.start[1]),
          headers: head.headers,
          head,
          body,
          text,
          complete,
          json: () => JSON.parse(text) as unknown
        })
      }
    )
    socket.on('data', (bytes: Buffer) => this.#read(bytes))
    this.closed = new Promise((resolve) => {
      const ended = (how: 'fin' | 'reset' | 'left'): void => {
        this.end ??= this.#leaving ? 'left' : how
        this.#reader.end()
        this.#wake()
        resolve(this.end)
      }
      socket.once('end', () => ended('fin'))
      socket.once('error', () => ended('reset'))
      socket.once('close', () => ended('fin'))
    })
  }

  /** Bytes received, heads and framing included. */
  get received(): number {
    return this.#received
  }

  /** Sends bytes as they are. */
  write(bytes: Buffer | string): this {
    this.socket.write(bytes)
    return this
  }

  /** Sends a request with `host`, and with `content-length` when it has a body. Fields given here replace those. */
  send(parts: RequestParts): this {
    return this.write(composeRequest(this.#host, parts))
  }

  /** The head of the n-th answer, counted from 0, as soon as it has arrived. */
  async head(n = 0): Promise<Head> {
    await this.#until(() => this.#heads.length > n)
    return this.#heads[n]!
  }

  /** The n-th answer, counted from 0, when it is over. If the connection ends first, it contains what has arrived. */
  async reply(n = 0): Promise<ReceivedReply> {
    await this.#until(() => this.replies.length > n)
    return this.replies[n]!
  }

  /** Waits until the body of the current answer contains this text or this many bytes. */
  async body(contains: string | number): Promise<void> {
    await this.#until(() => {
      if (typeof contains === 'number') return this.#reader.bodyBytes >= contains
      return Buffer.concat(this.#reader.body).includes(contains)
    })
  }

  /** Stops reading from the socket, so that its kernel buffer fills up. */
  stopReading(): this {
    this.socket.pause()
    return this
  }

  /** Continues to read. */
  resume(): this {
    this.socket.resume()
    return this
  }

  /** Leaves with FIN, and reads nothing more. */
  close(): this {
    this.#leaving = true
    this.socket.destroy()
    return this
  }

  /** Leaves with RST. */
  reset(): this {
    this.#leaving = true
    this.socket.resetAndDestroy()
    return this
  }

  /** Leaves as soon as this many bytes have been received. */
  leaveAt(received: number, how: 'fin' | 'reset' = 'fin'): this {
    this.#leaveAt = received
    this.#leaveWith = how
    return this
  }

  #read(bytes: Buffer): void {
    this.reads.push({ at: performance.now(), bytes })
    this.#received += bytes.length
    this.#reader.push(bytes)
    if (this.#received >= this.#leaveAt) {
      if (this.#leaveWith === 'fin') this.close()
      else this.reset()
    }
    this.#wake()
  }

  #wake(): void {
    this.#waiting.splice(0).forEach((resolve) => resolve())
  }

  async #until(done: () => boolean): Promise<void> {
    while (!done()) {
      if (this.end) throw new Error(`the connection ended (${this.end}) after ${this.#received} bytes: ${this.#tail()}`)
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    }
  }

  #tail(): string {
    return JSON.stringify(
      Buffer.concat(this.reads.map((read) => read.bytes))
        .toString('utf8')
        .slice(-300)
    )
  }
}

/** Connects, with TLS when a certificate authority is given. The connection is closed when the test is over. */
export async function connect(t: Test, url: URL | string, ca?: string): Promise<Client> {
  const { hostname, port, host } = new URL(url)
  const place = { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) }
  const socket = ca === undefined ? dial({ ...place, noDelay: true }) : dialTls({ ...place, ca })
  t.teardown(() => socket.destroy())
  await once(socket, ca === undefined ? 'connect' : 'secureConnect')
  return new Client(socket, host)
}

/** Sends one request on a connection of its own. */
export async function ask(t: Test, url: URL | string, parts: RequestParts): Promise<ReceivedReply> {
  const client = await connect(t, url)
  const reply = await client.send({ ...parts, headers: { connection: 'close', ...parts.headers } }).reply()
  client.close()
  return reply
}

function composeRequest(host: string, { method, path = '/', headers = {}, body }: RequestParts): Buffer {
  const raw = typeof body === 'string' || Buffer.isBuffer(body)
  const bytes = body === undefined ? undefined : raw ? Buffer.from(body) : Buffer.from(JSON.stringify(body))
  const fields: Record<string, string> = { host }
  if (bytes) {
    if (!('transfer-encoding' in headers)) fields['content-length'] = String(bytes.length)
    fields['content-type'] = 'application/json'
  }
  const lines = Object.entries({ ...fields, ...headers }).map(([name, value]) => `${name}: ${value}\r\n`)
  const start = `${method ?? (bytes ? 'POST' : 'GET')} ${path} HTTP/1.1\r\n`
  return Buffer.concat([Buffer.from(`${start}${lines.join('')}\r\n`, 'latin1'), bytes ?? Buffer.alloc(0)])
}
