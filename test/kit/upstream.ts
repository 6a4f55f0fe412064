// An upstream on a raw socket that plays a script per request: exact bytes, pauses, resets. It keeps everything it
// receives.
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { MessageReader } from './http.ts'
import type { Head, Read } from './http.ts'
import { readByPeer } from './unread.ts'

/** A request as it was received. */
export interface ReceivedRequest {
  method: string
  target: string
  headers: Record<string, string>
  head: Head
  body: Buffer
  /** Whether the client sent the whole request. */
  complete: boolean
  /** When the request was received completely, or the connection ended, as `performance.now()`. */
  at: number
  connection: UpstreamConnection
  json(): any
}

/** One accepted connection. */
export interface UpstreamConnection {
  openedAt: number
  reads: Read[]
  /** Bytes given to the kernel. The number stays the same while the peer does not read. */
  readonly written: number
  /** Undefined while the connection is open. */
  end: ConnectionEnd | undefined
  readonly closed: Promise<ConnectionEnd>
}

/** How a connection ended, and by which side. `peer` is the gateway. */
export interface ConnectionEnd {
  at: number
  by: 'upstream' | 'peer'
  how: 'fin' | 'reset'
}

/** What a step of a script acts on. */
export interface Stage {
  socket: Socket
  connection: UpstreamConnection
  /** Resolves when this many bytes of the request's body have arrived, or the whole body. */
  bodyBytes(count: number): Promise<void>
  /** Writes, and waits until the peer takes more. Does nothing on a closed connection. */
  write(bytes: Buffer | string): Promise<void>
}

/**
 * Waits for some milliseconds, and then for a few turns of the event loop, in each of which a gateway in this process
 * reads. When the machine had no time for the process, the timer comes before the reading.
 */
async function silence(ms: number): Promise<void> {
  await sleep(ms)
  for (let n = 0; n < 3; n++) await turn()
}

/** One action of an upstream. The rest of a script is dropped when the connection ends. */
export type Step = (stage: Stage) => Promise<unknown> | void

/** How a body is split into writes, each of which arrives as one read. */
export type Cut = 'one' | 'event' | 'byte'

/** Writes exact bytes at once. */
export const bytes =
  (data: Buffer | string): Step =>
  (stage) =>
    stage.write(data)
/** Stays silent for some milliseconds, and until what was sent before has been read. */
export const pause =
  (ms: number): Step =>
  () =>
    silence(ms)
/** Waits for a signal of the test. */
export const until =
  (signal: Promise<unknown>): Step =>
  () =>
    signal
/** Closes the connection in the regular way after everything was sent. */
export const fin =
  (): Step =>
  ({ socket }) =>
    void socket.destroySoon()
/** Closes the connection for writing, and continues to read. */
export const halfClose =
  (): Step =>
  ({ socket }) =>
    void socket.end()
/** Resets the connection 20 ms after the last byte was read: a reset destroys what was not read. */
export const reset =
  (): Step =>
  async ({ socket }) => {
    await readByPeer(socket)
    await silence(20)
    socket.resetAndDestroy()
  }
/** Keeps the connection open and silent. */
export const stall =
  (): Step =>
  ({ connection }) =>
    connection.closed
/** Stops reading from the socket. */
export const stopReading =
  (): Step =>
  ({ socket }) =>
    void socket.pause()
/** Waits for this many bytes of the request's body. For scripts that begin at the head. */
export const readBody =
  (count = Infinity): Step =>
  (stage) =>
    stage.bodyBytes(count)

/**
 * Sends the head of a response. The body is chunked unless the headers have `content-length` or `connection: close`.
 */
export function head(status: number, headers: Record<string, string> = {}): Step {
  const chunked = !('content-length' in headers) && headers['connection'] !== 'close'
  const fields = { ...(chunked && { 'transfer-encoding': 'chunked' }), ...headers }
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  return bytes(`HTTP/1.1 ${status} Scripted\r\n${lines.join('')}\r\n`)
}

/** Sends one chunk of a chunked body. */
export const chunk = (data: Buffer | string): Step => bytes(chunkBytes(data))
/** Sends the end of a chunked body. */
export const endOfBody = (): Step => bytes('0\r\n\r\n')

function chunkBytes(data: Buffer | string): Buffer {
  const body = Buffer.from(data)
  return Buffer.concat([Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from('\r\n')])
}

/**
 * Sends events as chunks. Strings and buffers are sent as they are, other values as `data: {json}`. `byte` splits all
 * bytes, including the framing of the chunks.
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

/** The bytes of an event. A value becomes one `data:` line of JSON. */
export function eventBytes(event: unknown): Buffer {
  if (Buffer.isBuffer(event)) return event
  return Buffer.from(typeof event === 'string' ? event : `data: ${JSON.stringify(event)}\n\n`)
}

interface Script {
  steps: readonly Step[]
  from: 'head' | 'body'
}

/** A scripted upstream. Each request takes the next script, in the order of arrival. */
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

  /** Starts an upstream on a free port. It is closed when the test is over. */
  static async start(t: Test): Promise<Upstream> {
    const server = createServer({ allowHalfOpen: true, noDelay: true })
    const upstream = new Upstream(server)
    server.on('connection', (socket) => upstream.#accept(socket))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => upstream.close())
    return upstream
  }

  /** The base address with the version, for a channel. */
  get url(): URL {
    return new URL(`http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`)
  }

  /** The number of open connections. */
  get open(): number {
    return this.connections.filter((connection) => !connection.end).length
  }

  /** Adds a script for a request, to be played when the whole request has arrived. */
  script(...steps: Step[]): this {
    this.#scripts.push({ steps, from: 'body' })
    return this
  }

  /** Adds a script for a request, to be played when its head has arrived. */
  scriptFromHead(...steps: Step[]): this {
    this.#scripts.push({ steps, from: 'head' })
    return this
  }

  /** Sets the script for requests when no other script is left. */
  always(...steps: Step[]): this {
    this.#always = { steps, from: 'body' }
    return this
  }

  /** Adds a script that sends a stream of events. `[DONE]` is added unless it is there or `done` is false. */
  sse(list: readonly unknown[], { cut = 'event', done = true }: { cut?: Cut; done?: boolean } = {}): this {
    const closing = done && !String(list.at(-1)).includes('[DONE]') ? ['data: [DONE]\n\n'] : []
    return this.script(
      head(200, { 'content-type': 'text/event-stream' }),
      events([...list, ...closing], cut),
      endOfBody()
    )
  }

  /** Adds a script that sends a JSON answer. A string is sent as it is. */
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

  /** The n-th request, counted from 0, once it has arrived completely. */
  async request(n = 0): Promise<ReceivedRequest> {
    while (this.requests.length <= n) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    return this.requests[n]!
  }

  /** Stops listening and closes all connections. */
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
    // Waits one turn of the event loop, so that a peer in this process reads this before the next write.
    await turn()
    return
  }
  const stop = new AbortController()
  const { signal } = stop
  // A write to a connection that was just lost also returns false, and its error comes later.
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
        // The connection is half open only while a script needs it, because the peer reads nothing more.
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
