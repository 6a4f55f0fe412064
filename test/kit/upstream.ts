// An upstream on a raw socket that plays a script per request: exact bytes, pauses, resets. It keeps everything it was
// sent.
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { MessageReader } from './http.ts'
import type { Head, Read } from './http.ts'

/** A request as it arrived. */
export interface ReceivedRequest {
  method: string
  target: string
  headers: Record<string, string>
  head: Head
  body: Buffer
  /** The client sent all of it. */
  complete: boolean
  /** `performance.now()` of the last byte of the head. */
  at: number
  connection: UpstreamConnection
  json(): any
}

/** One accepted connection. */
export interface UpstreamConnection {
  openedAt: number
  reads: Read[]
  /** Bytes handed to the kernel; stands still while the peer does not read. */
  readonly written: number
  /** Undefined while open. */
  end: ConnectionEnd | undefined
  readonly closed: Promise<ConnectionEnd>
}

/** Who ended a connection and how. `peer` is the gateway. */
export interface ConnectionEnd {
  at: number
  by: 'upstream' | 'peer'
  how: 'fin' | 'reset'
}

/** Where a step of a script acts. */
export interface Stage {
  socket: Socket
  connection: UpstreamConnection
  /** Resolves when that many bytes of the request's body have arrived, or all of it. */
  bodyBytes(count: number): Promise<void>
  /** Writes and waits until the peer takes more; does nothing on a closed connection. */
  write(bytes: Buffer | string): Promise<void>
}

/** One thing an upstream does. The rest of a script is dropped when the connection ends. */
export type Step = (stage: Stage) => Promise<unknown> | void

/** How the bytes of a body are spread over writes, each of which arrives as a read of its own. */
export type Cut = 'one' | 'event' | 'byte'

/** Exact bytes in one write. */
export const bytes =
  (data: Buffer | string): Step =>
  (stage) =>
    stage.write(data)
/** Milliseconds of silence. */
export const pause =
  (ms: number): Step =>
  () =>
    sleep(ms)
/** Waits for a test's signal. */
export const until =
  (signal: Promise<unknown>): Step =>
  () =>
    signal
/** Ends the connection properly after what was written. */
export const fin =
  (): Step =>
  ({ socket }) =>
    void socket.destroySoon()
/** Says that nothing more will be sent, and goes on reading. */
export const halfClose =
  (): Step =>
  ({ socket }) =>
    void socket.end()
/** Resets the connection, a moment after the last byte so that it arrives first. */
export const reset =
  (): Step =>
  async ({ socket }) => {
    await sleep(20)
    socket.resetAndDestroy()
  }
/** Keeps the connection open and silent. */
export const stall =
  (): Step =>
  ({ connection }) =>
    connection.closed
/** Stops taking bytes from the socket. */
export const stopReading =
  (): Step =>
  ({ socket }) =>
    void socket.pause()
/** Waits for that many bytes of the request's body. For scripts that begin at the head. */
export const readBody =
  (count = Infinity): Step =>
  (stage) =>
    stage.bodyBytes(count)

/**
 * A response head; the body is announced as chunked unless a `content-length` or `connection: close` says otherwise.
 */
export function head(status: number, headers: Record<string, string> = {}): Step {
  const chunked = !('content-length' in headers) && headers['connection'] !== 'close'
  const fields = { ...(chunked && { 'transfer-encoding': 'chunked' }), ...headers }
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  return bytes(`HTTP/1.1 ${status} Scripted\r\n${lines.join('')}\r\n`)
}

/** One chunk of a chunked body. */
export const chunk = (data: Buffer | string): Step => bytes(chunkBytes(data))
/** The proper end of a chunked body. */
export const endOfBody = (): Step => bytes('0\r\n\r\n')

function chunkBytes(data: Buffer | string): Buffer {
  const body = Buffer.from(data)
  return Buffer.concat([Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from('\r\n')])
}

/**
 * A run of events as chunks. Strings and buffers go out as they are, other values as `data: {json}`. `byte` cuts the
 * bytes on the wire, chunk framing included.
 */
export function events(list: Iterable<unknown>, cut: Cut = 'event'): Step {
  return async (stage) => {
    const all: Buffer[] = []
    for (const event of list) {
      const framed = chunkBytes(eventBytes(event))
      if (cut === 'one') all.push(framed)
      else
        for (const piece of cut === 'event' ? [framed] : framed)
          await stage.write(typeof piece === 'number' ? Buffer.from([piece]) : piece)
    }
    if (all.length > 0) await stage.write(Buffer.concat(all))
  }
}

/** An event's bytes: a value becomes one `data:` line of JSON. */
export function eventBytes(event: unknown): Buffer {
  if (Buffer.isBuffer(event)) return event
  return Buffer.from(typeof event === 'string' ? event : `data: ${JSON.stringify(event)}\n\n`)
}

interface Script {
  steps: readonly Step[]
  from: 'head' | 'body'
}

/** A scripted upstream. Scripts are used up in the order in which requests arrive. */
export class Upstream {
  readonly requests: ReceivedRequest[] = []
  readonly connections: UpstreamConnection[] = []
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  readonly #scripts: Script[] = []
  readonly #waiting: (() => void)[] = []
  #always: Script | undefined

  private constructor(server: Server) {
    this.#server = server
  }

  /** Starts one on a free port; it is closed when the test is over. */
  static async start(t: Test): Promise<Upstream> {
    const server = createServer({ allowHalfOpen: true, noDelay: true })
    const upstream = new Upstream(server)
    server.on('connection', (socket) => upstream.#accept(socket))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => upstream.close())
    return upstream
  }

  /** Base address with the version, as a channel has it. */
  get url(): URL {
    return new URL(`http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`)
  }

  /** Connections open now. */
  get open(): number {
    return this.connections.filter((connection) => !connection.end).length
  }

  /** What happens when the next request without a script has arrived whole. */
  script(...steps: Step[]): this {
    this.#scripts.push({ steps, from: 'body' })
    return this
  }

  /** Likewise, beginning as soon as the head is there. */
  scriptFromHead(...steps: Step[]): this {
    this.#scripts.push({ steps, from: 'head' })
    return this
  }

  /** What happens whenever no script is left. */
  always(...steps: Step[]): this {
    this.#always = { steps, from: 'body' }
    return this
  }

  /** Scripts a stream of events. `[DONE]` is added unless the last event is one or `done` is false. */
  sse(list: readonly unknown[], { cut = 'event', done = true }: { cut?: Cut; done?: boolean } = {}): this {
    const closing = done && !String(list.at(-1)).includes('[DONE]') ? ['data: [DONE]\n\n'] : []
    return this.script(
      head(200, { 'content-type': 'text/event-stream' }),
      events([...list, ...closing], cut),
      endOfBody()
    )
  }

  /** Scripts a JSON answer; a string goes out as it is. */
  json(
    body: unknown,
    { status = 200, headers = {} }: { status?: number; headers?: Record<string, string> } = {}
  ): this {
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    return this.script(
      head(status, {
        'content-type': 'application/json',
        'content-length': String(Buffer.byteLength(text)),
        ...headers
      }),
      bytes(text)
    )
  }

  /** The n-th request, from 0, once it has arrived whole. */
  async request(n = 0): Promise<ReceivedRequest> {
    while (this.requests.length <= n) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    return this.requests[n]!
  }

  /** Stops listening and ends all connections. */
  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    if (!this.#server.listening) return
    this.#server.close()
    await once(this.#server, 'close')
  }

  #accept(socket: Socket): void {
    const connection = new Connection(socket)
    this.connections.push(connection)
    this.#sockets.add(socket)
    socket.once('close', () => this.#sockets.delete(socket))
    let script: Script | undefined
    let playing = Promise.resolve()
    const bodyWaits: (() => void)[] = []
    const wake = (): void => bodyWaits.splice(0).forEach((resolve) => resolve())
    const stage: Stage = {
      socket,
      connection,
      async bodyBytes(count) {
        while (reader.head && reader.bodyBytes < count && !connection.end)
          await new Promise<void>((resolve) => bodyWaits.push(resolve))
      },
      write: (data) => write(socket, data)
    }
    const play = ({ steps }: Script): void => {
      playing = playing.then(async () => {
        for (const step of steps) {
          if (connection.end || socket.destroyed) return
          await step(stage)
        }
      })
    }
    const reader = new MessageReader(
      'request',
      () => {
        script = this.#scripts.shift() ?? this.#always ?? unscripted
        if (script.from === 'head') play(script)
      },
      (requestHead, body, complete) => {
        const [method, target] = requestHead.start
        const json = (): unknown => JSON.parse(body.toString('utf8'))
        this.requests.push({
          method,
          target,
          headers: requestHead.headers,
          head: requestHead,
          body,
          complete,
          at: performance.now(),
          connection,
          json
        })
        this.#waiting.splice(0).forEach((resolve) => resolve())
        if (complete && script!.from === 'body') play(script!)
        wake()
      }
    )
    socket.on('data', (data: Buffer) => {
      connection.reads.push({ at: performance.now(), bytes: data })
      reader.push(data)
      wake()
    })
    socket.once('close', () => {
      reader.end()
      wake()
    })
  }
}

const unscripted: Script = {
  from: 'body',
  steps: [
    head(500, { 'content-type': 'text/plain', connection: 'close' }),
    bytes('this upstream has no script left'),
    fin()
  ]
}

async function write(socket: Socket, data: Buffer | string): Promise<void> {
  if (socket.destroyed || socket.writableEnded) return
  if (socket.write(data)) {
    // A turn of the loop, so that a peer in this process reads it before the next write.
    await turn()
    return
  }
  const stop = new AbortController()
  const { signal } = stop
  // A write to a connection that was just lost returns false as well, and then its error arrives.
  await Promise.race([once(socket, 'drain', { signal }), once(socket, 'close', { signal })]).catch(() => {})
  stop.abort()
}

class Connection implements UpstreamConnection {
  readonly openedAt = performance.now()
  readonly reads: Read[] = []
  readonly closed: Promise<ConnectionEnd>
  end: ConnectionEnd | undefined
  readonly #socket: Socket

  constructor(socket: Socket) {
    this.#socket = socket
    this.closed = new Promise((resolve) => {
      const ended = (by: ConnectionEnd['by'], how: ConnectionEnd['how']): void => {
        this.end ??= { at: performance.now(), by, how }
        resolve(this.end)
      }
      socket.once('end', () => {
        if (!socket.writableEnded) ended('peer', 'fin')
        // Half open only as long as a script wants it: nobody reads what would follow.
        socket.destroySoon()
      })
      socket.once('error', () => ended('peer', 'reset'))
      socket.once('close', () => ended('upstream', 'fin'))
    })
  }

  get written(): number {
    return this.#socket.bytesWritten - this.#socket.writableLength
  }
}
