// Brings an answer that the gateway gives by itself past the plugins above the one that gave it, as one of an upstream
// comes.
import type { OwnReply } from './ask.ts'
import { Attempt } from '../contract/attempt.ts'
import { held } from './attempts/attempts.ts'
import type { AttemptParts } from './attempts/attempts.ts'
import type { Channel } from '../catalogue/catalogue.ts'
import type { Chain } from './state/chain.ts'
import type { StreamReply, UpstreamResponse, WholeReply } from '../contract/contract.ts'
import { asGatewayError } from '../errors.ts'
import type { LiveExchange } from './state/exchange.ts'
import { uninspected } from './answers/intake.ts'
import { Message } from '../contract/message.ts'
import { Outlet } from './answers/outlet.ts'
import { protocols } from '../protocols/index.ts'
import { Relay } from './answers/relay.ts'
import { bytesOf, typeIn } from './replies.ts'
import { dismiss } from './answers/stages.ts'
import { stagesOf } from './attempts/staging.ts'
import { isJson } from '../wire/media-type.ts'
import type { UpstreamCall, UpstreamSink } from '../transport/transport.ts'

/** Bytes handed on at one time, of a stream that is there as a whole. */
const pieceBytes = 64 * 1024

/**
 * Stands in for the channel of an answer that comes from none, as far as a relay knows one: how long a plugin may be
 * silent, and no secrets.
 */
const ownChannel = {
  name: '',
  baseUrl: new URL('own:'),
  credential: '',
  headers: {},
  timeouts: { connect: 60_000, firstByte: 60_000, idle: 60_000, total: 600_000 }
} as Channel

/** Likewise, of one that follows something else. */
const patientChannel: Channel = {
  ...ownChannel,
  timeouts: { connect: Infinity, firstByte: Infinity, idle: Infinity, total: Infinity }
}

/**
 * What is to be sent for the reply of a plugin, or of an operation's own handler: the reply as the stages of the
 * plugins above leave it, or a relay of its events when there is something to commit.
 * @throws GatewayError what a stage or the stream throws
 */
export async function ownAnswer(
  exchange: LiveExchange,
  { reply, plugin }: OwnReply,
  chain: Chain,
  parts: AttemptParts
): Promise<WholeReply | Relay> {
  const hooks = exchange.request.operation.open ? [] : chain.above(plugin)
  if ('stream' in reply) return replayed(exchange, reply, plugin, hooks, parts)
  if (reply.status < 200 || reply.status > 299) return reply
  const stages = await stagesOf(exchange, hooks, {
    attempt: undefined,
    status: reply.status,
    headers: headersOf(reply),
    streaming: false,
    frames: false
  })
  if (stages.length === 0) return reply
  const { message, headers } = messageOf(reply)
  const outlet = new Outlet(exchange.client)
  outlet.use(stages)
  outlet.whole = message.kind === 'json'
  try {
    const blind = message.kind === 'bytes' ? outlet.blindTo('files') : undefined
    if (blind !== undefined) throw uninspected(blind, 'of a kind that is no message')
    outlet.pass(message)
    const { settled } = outlet
    if (settled) await settled
  } catch (error) {
    dismiss(stages)
    throw error
  }
  outlet.end(true)
  return { status: reply.status, headers, body: outlet.takeRest() }
}

function headersOf({ headers = [] }: WholeReply): UpstreamResponse['headers'] {
  return Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value]))
}

/** A reply that is JSON by its type, or has no bytes of its own, is one message. */
function messageOf({ headers = [], body }: WholeReply): {
  message: Message
  headers: NonNullable<WholeReply['headers']>
} {
  const bytes = bytesOf(body)
  const type = typeIn(headers)
  if (bytes) return { message: new Message(isJson(type ?? '') ? 'json' : 'bytes', bytes), headers }
  const message = new Message('json', Buffer.from(JSON.stringify(body)))
  return { message, headers: type === undefined ? [...headers, ['content-type', 'application/json']] : headers }
}

async function replayed(
  exchange: LiveExchange,
  { headers = [], stream, follows }: StreamReply,
  plugin: string,
  hooks: Chain['onResponse'],
  parts: AttemptParts
): Promise<Relay> {
  const protocol = protocols[exchange.request.operation.protocol]
  const attempt = new Attempt(
    0,
    follows ? patientChannel : ownChannel,
    exchange.model,
    { protocol, method: 'GET', path: '/' },
    exchange.body,
    protocol
  )
  const relay = new Relay(attempt, {
    streaming: exchange.streaming,
    answers: undefined,
    media: undefined,
    client: exchange.client,
    framing: exchange.request.operation.framing,
    watchdog: parts.watchdog,
    clientStall: exchange.limits.clientStall,
    patience: { streamed: attempt.channel.timeouts.firstByte, whole: Infinity },
    accept: (response) => stagesOf(exchange, hooks, { ...response, attempt: undefined })
  })
  exchange.relay = relay
  for (const [name, value] of headers) if (name.toLowerCase() !== 'content-type') exchange.setHeader(name, value)
  const source = new Source(stream, typeIn(headers) ?? 'text/event-stream; charset=utf-8', relay)
  relay.call = source
  source.start(plugin)
  await relay.opened
  if (!relay.whole && exchange.awaited.length > 0) await held(exchange, relay)
  return relay
}

/** Feeds a relay from what a plugin gives. */
class Source implements UpstreamCall {
  /** No upstream has it: when its client leaves, there is nothing to be read on for. */
  readonly unsent = true
  readonly #stream: StreamReply['stream']
  readonly #type: string
  readonly #sink: UpstreamSink
  #paused = false
  #over = false
  #wake: (() => void) | undefined

  constructor(stream: StreamReply['stream'], type: string, sink: UpstreamSink) {
    this.#stream = stream
    this.#type = type
    this.#sink = sink
  }

  /** When the sink knows its call. */
  start(plugin: string): void {
    this.#feed().catch((error: unknown) => {
      if (!this.#over) this.#sink.onError(asGatewayError(error, plugin))
    })
  }

  pause(): void {
    this.#paused = true
  }

  resume(): void {
    this.#paused = false
    this.#wake?.()
  }

  abort(): void {
    this.#over = true
    this.#wake?.()
  }

  async #feed(): Promise<void> {
    const stream = this.#stream
    this.#sink.onHead(200, { 'content-type': this.#type })
    for await (const bytes of ArrayBuffer.isView(stream) ? piecesOf(stream) : stream) {
      // What waits for something more may say so, to be closed when nobody does.
      if (!this.#over && bytes.length > 0)
        this.#sink.onData(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength))
      while (this.#paused && !this.#over) await new Promise<void>((resolve) => (this.#wake = resolve))
      if (this.#over) return
    }
    this.#sink.onEnd()
  }
}

function* piecesOf(stream: Uint8Array): Iterable<Uint8Array> {
  for (let at = 0; at < stream.length; at += pieceBytes) yield stream.subarray(at, at + pieceBytes)
}
