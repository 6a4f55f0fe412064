// Clients of many kinds, who send requests to a gateway at a steady rate and never repeat one, and note what they
// notice of its processes.
import { once } from 'node:events'
import { Agent, request as requestHttp } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { Agent as TlsAgent, request as requestHttps } from 'node:https'
import type { Socket } from 'node:net'
import { WebSocket } from 'ws'
import { Http2Pool, readHttp2 } from '../kit/http2.ts'

/** The key that the clients have. */
export const key = 'sk-test-000000000000000000000000'
/** Nano-dollars of a token: one dollar per million of input, two per million of output. */
const price = { input: 1000n, output: 2000n }

type Kind = 'new' | 'kept' | 'http2' | 'stream'
const kinds: readonly Kind[] = ['new', 'kept', 'http2', 'kept', 'new', 'http2', 'kept', 'stream']
/** Sessions that are open at one time. */
const sessions = 4
/** How long this process may stand still without anybody's noticing, in milliseconds. */
const standstillMs = 200

/** What clients noticed, by who noticed it and by its reason. */
export interface Noticed {
  readonly client: Kind | 'session'
  /** Refused: no connection, or a status other than 200; reset: no answer; cut: a part of one. */
  readonly what: 'refused' | 'reset' | 'cut'
  readonly reason: string
  times: number
  /** Milliseconds from the request to this. */
  leastMs: number
  mostMs: number
}

/** What the clients need to know of the gateway. */
export interface Processes {
  /** The number of the process that serves. */
  readonly generation: number
  /** When a process ended, by `performance.now()`; undefined while it runs. */
  endOf(generation: number): number | undefined
}

/** What a client knows of a connection. */
interface Connection {
  /** The process that served when it was made. */
  readonly generation: number
  /** When it was last used, by `performance.now()`; undefined when it was not. */
  usedAt: number | undefined
}

/** The clients. They begin at once. */
export class Load {
  /** The cost of each answer, by the id of its request. */
  readonly due = new Map<string, bigint>()
  /** What turns of sessions cost. */
  readonly turns: bigint[] = []
  /** The versions of the program that answered, as far as they say so in `x-code`. */
  readonly codes = new Set<string>()
  readonly tally = { answered: 0, refused: 0, reset: 0, cut: 0, takenBack: 0, slowestMs: 0 }
  readonly #url: URL
  readonly #processes: Processes
  readonly #isTls: boolean
  readonly #keeping: Agent | TlsAgent
  readonly #connections = new WeakMap<object, Connection>()
  readonly #http2: Http2Pool
  readonly #noticed = new Map<string, Noticed>()
  readonly #open = new Set<Promise<void>>()
  #sent = 0
  readonly #began = performance.now()
  readonly #timer: NodeJS.Timeout
  #tickedAt = performance.now()
  /** When this process had last stood still. */
  #stoodStillAt = -Infinity
  #ending = false

  constructor(url: string, rate: number, processes: Processes) {
    this.#url = new URL(url)
    this.#processes = processes
    this.#isTls = this.#url.protocol === 'https:'
    const options = { keepAlive: true, maxSockets: 40, rejectUnauthorized: false }
    this.#keeping = this.#isTls ? new TlsAgent(options) : new Agent(options)
    this.#http2 = new Http2Pool(url, { rejectUnauthorized: false })
    this.#timer = setInterval(() => {
      const now = performance.now()
      if (now - this.#tickedAt > standstillMs) this.#stoodStillAt = now
      this.#tickedAt = now
      const wanted = Math.floor(((now - this.#began) / 1000) * rate)
      // After a pause of this process there is no use in catching up at once.
      for (let burst = 0; this.#sent < wanted && burst < 50; burst++) this.#send(kinds[this.#sent++ % kinds.length]!)
    }, 5)
    for (let one = 0; one < sessions; one++) this.#follow(this.#session((sessions * 1000) / rate))
  }

  /** What the clients noticed until now, the most frequent first. */
  get noticed(): readonly Noticed[] {
    return [...this.#noticed.values()].sort((one, other) => other.times - one.times)
  }

  /** Sends no more, and resolves when all is answered. */
  async end(): Promise<void> {
    clearInterval(this.#timer)
    this.#ending = true
    while (this.#open.size > 0) await Promise.all(this.#open)
    this.#http2.close()
    this.#keeping.destroy()
  }

  #follow(done: Promise<void>): void {
    const noted = done.finally(() => this.#open.delete(noted))
    this.#open.add(noted)
  }

  #send(kind: Kind): void {
    const began = performance.now()
    const place: { connection: Connection } = { connection: this.#fresh() }
    const done = kind === 'http2' ? this.#overHttp2(place) : this.#overHttp1(kind, place)
    this.#follow(
      done.then(
        () => void (this.tally.slowestMs = Math.max(this.tally.slowestMs, performance.now() - began)),
        (error: NodeJS.ErrnoException) => this.#failed(kind, error, began, place.connection)
      )
    )
  }

  #fresh(): Connection {
    return { generation: this.#processes.generation, usedAt: undefined }
  }

  /** What is known of a connection, from when it is first seen. */
  #known(connection: object): Connection {
    let known = this.#connections.get(connection)
    if (!known) this.#connections.set(connection, (known = this.#fresh()))
    return known
  }

  #failed(client: Kind | 'session', error: NodeJS.ErrnoException, began: number, connection: Connection): void {
    const { message } = error
    const isRefused = error.code === 'ECONNREFUSED' || message.startsWith('status')
    const what = message.startsWith('cut') ? 'cut' : isRefused ? 'refused' : 'reset'
    const { generation, usedAt } = connection
    const idleMs = usedAt === undefined ? 0 : began - usedAt
    const kept = usedAt === undefined ? 'new connection' : `connection idle for ${idleMs < 1000 ? 'under' : 'over'} 1 s`
    const still = performance.now() - this.#stoodStillAt < 1000 ? '; the client stood still before' : ''
    // What differs from one to the next is no reason.
    const text = message.replaceAll(/\b(req_)?[0-9a-f]{12,}\b/g, '…')
    this.#notice({ client, what, reason: `${text}; ${kept}; ${this.#stateOf(generation)}${still}` }, began)
  }

  #stateOf(generation: number): string {
    const endedAt = this.#processes.endOf(generation)
    if (endedAt !== undefined) return `its process ended ${Math.floor((performance.now() - endedAt) / 1000)} s ago`
    return generation === this.#processes.generation ? 'its process serves' : 'its process drains'
  }

  #notice(noticed: Pick<Noticed, 'client' | 'what' | 'reason'>, began: number): void {
    this.tally[noticed.what]++
    const ms = Math.round(performance.now() - began)
    const name = `${noticed.client} ${noticed.what} ${noticed.reason}`
    let known = this.#noticed.get(name)
    if (!known && this.#noticed.size >= 100) return
    if (!known) this.#noticed.set(name, (known = { ...noticed, times: 0, leastMs: ms, mostMs: ms }))
    known.times++
    known.leastMs = Math.min(known.leastMs, ms)
    known.mostMs = Math.max(known.mostMs, ms)
  }

  async #overHttp1(kind: Kind, place: { connection: Connection }): Promise<void> {
    const ask = this.#isTls ? requestHttps : requestHttp
    const request = ask(new URL('/v1/chat/completions', this.#url), {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      agent: kind === 'kept' ? this.#keeping : false,
      rejectUnauthorized: false
    })
    let known: Connection | undefined
    request.once('socket', (socket: Socket) => {
      known = this.#known(socket)
      place.connection = { ...known }
    })
    // An error that comes after the answer shows on the answer too.
    request.on('error', () => {})
    request.end(bodyOf(kind === 'stream'))
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    let text = ''
    try {
      for await (const piece of response) text += String(piece)
    } catch (error) {
      throw new Error(`cut: ${(error as Error).message}`, { cause: error })
    }
    if (known) known.usedAt = performance.now()
    const { 'x-code': code } = response.headers
    if (code !== undefined) this.codes.add(String(code))
    this.#answered(response.statusCode!, String(response.headers['x-request-id']), text, kind === 'stream')
  }

  async #overHttp2(place: { connection: Connection }): Promise<void> {
    const session = this.#http2.take()
    const known = this.#known(session)
    place.connection = { ...known }
    const stream = session.request({
      ':method': 'POST',
      ':path': '/v1/chat/completions',
      authorization: `Bearer ${key}`,
      'content-type': 'application/json'
    })
    stream.end(bodyOf(false))
    let begun = false
    stream.once('response', () => (begun = true))
    try {
      const { headers, text } = await readHttp2(stream)
      known.usedAt = performance.now()
      this.#answered(Number(headers[':status']), String(headers['x-request-id']), text, false)
    } catch (error) {
      // Node's client ends a request that waits in it when it hears of the end of the session: nothing was sent.
      if (!begun && /NGHTTP2_REFUSED_STREAM/.test(String(error))) {
        this.tally.takenBack++
        return this.#overHttp2(place)
      }
      throw begun ? new Error(`cut: ${(error as Error).message}`, { cause: error }) : error
    } finally {
      this.#http2.give(session)
    }
  }

  #answered(status: number, id: string, text: string, streamed: boolean): void {
    if (status !== 200) throw new Error(`status ${status}: ${text.slice(0, 300)}`)
    if (streamed && !text.includes('data: [DONE]')) throw new Error(`cut: a stream ended with ${text.slice(-80)}`)
    const said = /"usage":(\{"prompt_tokens":(\d+),"completion_tokens":(\d+)[^}]*\})/.exec(text)
    if (!said) throw new Error(`cut: an answer without its usage: ${text.slice(-200)}`)
    if (this.due.has(id)) throw new Error('cut: an id was given twice')
    this.due.set(id, costOf(Number(said[2]), Number(said[3])))
    this.tally.answered++
  }

  /**
   * Opens sessions one after another, and asks for one response after another in each, until it is closed. After each
   * it pauses for so many milliseconds, so that all sessions together ask about as often as the other clients.
   */
  async #session(pause: number): Promise<void> {
    while (!this.#ending) {
      const socket = new WebSocket(`${this.#url.origin.replace('http', 'ws')}/v1/realtime?model=demo`, {
        headers: { authorization: `Bearer ${key}` },
        rejectUnauthorized: false
      })
      const connection = this.#fresh()
      let began = performance.now()
      let answering = false
      const ask = (): void => {
        if (this.#ending) return socket.close()
        answering = true
        began = performance.now()
        for (const event of turn) socket.send(JSON.stringify(event))
      }
      socket.on('open', ask)
      socket.on('message', (data: Buffer) => {
        const event = JSON.parse(data.toString())
        if (event.type !== 'response.done') return
        answering = false
        connection.usedAt = performance.now()
        const { input_tokens: input, output_tokens: output } = event.response.usage
        this.turns.push(costOf(input, output))
        setTimeout(ask, pause)
      })
      socket.on('error', (error) => this.#failed('session', error, began, connection))
      const [code] = await once(socket, 'close').catch(() => [0])
      // A request that crosses the end of a session was not begun by the gateway.
      if (answering && code !== 1012)
        this.#failed('session', new Error(`cut: closed with ${code} inside a response`), began, connection)
    }
  }
}

const turn = [
  {
    type: 'conversation.item.create',
    item: { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hi [[simulator {"gap_ms": 20}]]' }] }
  },
  { type: 'response.create', response: { output_modalities: ['text'] } }
]

function bodyOf(stream: boolean): string {
  const directive = stream ? ' [[simulator {"text": "one two three four five six seven eight", "gap_ms": 150}]]' : ''
  return JSON.stringify({
    model: 'demo',
    messages: [{ role: 'user', content: `Hi${directive}` }],
    ...(stream && { stream: true, stream_options: { include_usage: true } })
  })
}

function costOf(input: number, output: number): bigint {
  return BigInt(input) * price.input + BigInt(output) * price.output
}
