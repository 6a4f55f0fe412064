// A client of realtime sessions: collects events, and waits for the event that a test needs.
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import type { Test } from 'tap'
import { WebSocket } from 'ws'
import { testKey } from './gateway.ts'
import type { TestGateway } from './gateway.ts'

/** An event as it was received. */
export type RealtimeEvent = { type: string; [name: string]: any }

/** The parts of a request for a session. */
export interface Asking {
  model?: string
  headers?: Record<string, string>
  protocols?: string[]
  query?: string
  /** The path of the endpoint; that of the data listener unless it says otherwise. */
  path?: string
}

/** A refused handshake. */
export interface Refused {
  status: number
  headers: IncomingMessage['headers']
  json: any
}

/** One session. */
export class RealtimeClient {
  readonly socket: WebSocket
  readonly events: RealtimeEvent[] = []
  /** All messages as they were received, also those that are not events. */
  readonly frames: { data: Buffer; binary: boolean }[] = []
  readonly closed: Promise<{ code: number; reason: string }>
  headers: IncomingMessage['headers'] = {}
  #waiting: (() => void)[] = []

  constructor(socket: WebSocket) {
    this.socket = socket
    this.closed = new Promise(
      (resolve) =>
        void socket.once('close', (code, reason) => {
          resolve({ code, reason: reason.toString() })
          this.#wake()
        })
    )
    socket.on('upgrade', (response) => (this.headers = response.headers))
    socket.on('message', (data, binary) => {
      this.frames.push({ data: data as Buffer, binary })
      try {
        this.events.push(JSON.parse((data as Buffer).toString()))
      } catch {
        // Some tests send messages that are not events.
      }
      this.#wake()
    })
  }

  send(event: RealtimeEvent): this {
    this.socket.send(JSON.stringify(event))
    return this
  }

  /** Sends a message, and asks for a response in text. */
  ask(text: string, response: Record<string, unknown> = {}): this {
    return this.say(text).send({ type: 'response.create', response: { output_modalities: ['text'], ...response } })
  }

  say(text: string): this {
    return this.send({
      type: 'conversation.item.create',
      item: { type: 'message', role: 'user', content: [{ type: 'input_text', text }] }
    })
  }

  /** The n-th event of a type, counted from 1. Rejects when the session ends first. */
  async event(type: string, n = 1): Promise<RealtimeEvent> {
    for (;;) {
      const found = this.events.filter((event) => event.type === type)[n - 1]
      if (found) return found
      if (this.socket.readyState === WebSocket.CLOSED)
        throw new Error(`the session ended before ${type} (${n}): ${this.events.map((event) => event.type).join(' ')}`)
      await new Promise<void>((resolve) => void this.#waiting.push(resolve))
    }
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}

function dial(
  t: Test,
  { url }: Pick<TestGateway, 'url'>,
  {
    model = 'demo',
    headers = { authorization: `Bearer ${testKey}` },
    protocols = [],
    query = `model=${model}`,
    path = '/v1/realtime'
  }: Asking
): WebSocket {
  const socket = new WebSocket(`${url.replace('http', 'ws')}${path}${query && `?${query}`}`, protocols, {
    headers,
    rejectUnauthorized: false
  })
  socket.on('error', () => {})
  t.teardown(() => socket.terminate())
  return socket
}

/** Opens a session, with the test's key unless `asking` says otherwise. */
export async function openRealtime(
  t: Test,
  gateway: Pick<TestGateway, 'url'>,
  asking: Asking = {}
): Promise<RealtimeClient> {
  const socket = dial(t, gateway, asking)
  const client = new RealtimeClient(socket)
  await Promise.race([
    once(socket, 'open'),
    client.closed.then(({ code }) => Promise.reject(new Error(`no session: ${code}`)))
  ])
  return client
}

/** Asks for a session that must be refused. */
export async function refusedRealtime(
  t: Test,
  gateway: Pick<TestGateway, 'url'>,
  asking: Asking = {}
): Promise<Refused> {
  const socket = dial(t, gateway, asking)
  const [, response] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage]
  let text = ''
  for await (const piece of response) text += String(piece)
  return { status: response.statusCode!, headers: response.headers, json: JSON.parse(text) }
}
