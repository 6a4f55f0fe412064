// Brings one attempt's answer to the client: frames it, passes it through the stages, holds the end back until it is settled.
import type { Attempt } from './attempt.ts'
import type { Client } from './client.ts'
import type { Awaitable, Emit, Stage, UpstreamResponse } from './contract.ts'
import { asGatewayError, GatewayError } from './errors.ts'
import { Message } from './message.ts'
import type { StreamWatch } from './protocols/index.ts'
import { EventFramer, EventTooLarge } from './sse.ts'
import type { UpstreamCall, UpstreamSink } from './transport.ts'
import { errorFromBody, errorFromResponse } from './upstream-error.ts'
import type { Watchdog, Watched } from './watchdog.ts'

/** Of an upstream's error body. */
const errorBodyBytes = 64 * 1024
/** A JSON answer up to this size is one message; a larger one is relayed in runs of bytes. */
const wholeBodyBytes = 256 * 1024
/** Held before the first byte may go out: openings of an answer, and what arrives while the reservation is written. */
const pendingBytes = 64 * 1024
/** How long an upstream may take to close its answer after the protocol's end marker. */
const trailMs = 250

/** How the answer ended, known before the client sees its end. */
export interface RelayEnd {
  /** The whole answer arrived. */
  complete: boolean
  error?: GatewayError
}

/** What the engine decides for every relay. */
export interface RelayOptions {
  /** The client asked for a stream of events. */
  streaming: boolean
  client: Client
  watchdog: Watchdog
  /** Milliseconds without the client reading. */
  clientStall: number
  /** Runs the `onResponse` hooks; stages in the order in which messages pass them. */
  accept(response: UpstreamResponse): Awaitable<Stage[]>
}

type Mode = 'head' | 'error' | 'events' | 'body' | 'runs' | 'over'

/**
 * One per attempt. Until {@link commit} nothing reaches the client, and the attempt may be given up for another; afterwards
 * messages go out as they come. `finished` resolves when the upstream is done, with the last message still held; the
 * engine settles and then calls {@link release}.
 */
export class Relay implements UpstreamSink, Watched {
  /** Resolves when there is something to commit; rejects with a GatewayError when the attempt failed before. */
  readonly opened: Promise<void>
  readonly finished: Promise<RelayEnd>
  /** The head that was accepted. */
  response: UpstreamResponse | undefined
  /** The whole body was one message: it can be sent with its length. */
  whole = false
  /** Payload bytes handed to the client, and when the first of them were (`performance.now()`). */
  bytes = 0
  firstByteAt: number | undefined
  readonly #options: RelayOptions
  readonly #attempt: Attempt
  readonly #watch: StreamWatch
  readonly #emits: Emit[] = []
  #call!: UpstreamCall
  #mode: Mode = 'head'
  #stages: readonly Stage[] = []
  #framer: EventFramer | undefined
  #open!: () => void
  #refuse!: (error: GatewayError) => void
  #finish!: (end: RelayEnd) => void
  #isOpen = false
  #committed = false
  #end: RelayEnd | undefined
  /** Bytes of the answer waiting to be written: all of it before the commit, this turn's afterwards, the last at the end. */
  #out: Buffer[] = []
  #held = 0
  /** Raw bytes not yet made into messages: an error body, a JSON body, or what came while a hook was awaited. */
  #raw: Buffer[] = []
  #rawBytes = 0
  #ended = false
  /** The protocol's end marker has passed: what follows is looked at and never written. */
  #marked = false
  #awaitingHooks = false
  #drainLimit: number | undefined
  #lastDataAt: number
  #markedAt = 0
  #pausedAt: number | undefined
  #drainUntil = Infinity

  constructor(attempt: Attempt, options: RelayOptions) {
    this.#attempt = attempt
    this.#options = options
    this.#watch = attempt.protocol.watch()
    this.#lastDataAt = attempt.startedAt
    this.opened = new Promise((resolve, reject) => {
      this.#open = resolve
      this.#refuse = reject
    })
    this.finished = new Promise((resolve) => (this.#finish = resolve))
    options.watchdog.add(this)
  }

  /** The call this relay is the sink of; set right after it was sent. */
  set call(call: UpstreamCall) {
    this.#call = call
  }

  // --- from the upstream -------------------------------------------------------------------------------------------

  onHead(status: number, headers: UpstreamResponse['headers']): void {
    this.#attempt.status = status
    this.#lastDataAt = this.#options.watchdog.now
    if (status < 200 || status > 299) {
      this.response = { attempt: this.#attempt, status, headers, streaming: false }
      this.#mode = 'error'
      return
    }
    const streaming = String(headers['content-type'] ?? '').trimStart().toLowerCase().startsWith('text/event-stream')
    if (streaming !== this.#options.streaming) {
      const [asked, sent] = streaming ? ['a JSON body', 'a stream'] : ['a stream', 'something else']
      return this.fail(new GatewayError('upstream_bad_response', `The upstream was asked for ${asked} and sent ${sent}.`))
    }
    if (String(headers['content-encoding'] ?? 'identity') !== 'identity') {
      return this.fail(new GatewayError('upstream_bad_response', 'The upstream sent an encoded body although none was asked for.'))
    }
    this.response = { attempt: this.#attempt, status, headers, streaming }
    this.#mode = streaming ? 'events' : 'body'
    if (streaming) this.#framer = new EventFramer((event) => this.#event(event))
    let stages: Awaitable<Stage[]>
    try {
      stages = this.#options.accept(this.response)
    } catch (error) {
      return this.fail(error)
    }
    if (!(stages instanceof Promise)) return this.#use(stages)
    this.#awaitingHooks = true
    this.#call.pause()
    stages.then(
      (made) => {
        this.#awaitingHooks = false
        this.#use(made)
        this.#call.resume()
        const early = this.#raw
        this.#raw = []
        this.#rawBytes = 0
        for (const chunk of early) this.onData(chunk)
        if (this.#ended) this.onEnd()
      },
      (error: unknown) => this.fail(error)
    )
  }

  onData(chunk: Buffer): void {
    if (this.#mode === 'over') return
    this.#lastDataAt = this.#options.watchdog.now
    this.#attempt.firstByteAt ??= performance.now()
    if (this.#awaitingHooks) {
      this.#raw.push(chunk)
      return
    }
    try {
      if (this.#mode === 'events') this.#framer!.push(chunk)
      else if (this.#mode === 'runs') this.#pass(new Message('bytes', chunk))
      else this.#collect(chunk)
      this.#flush()
    } catch (error) {
      this.fail(error instanceof EventTooLarge ? new GatewayError('upstream_bad_response', 'The upstream sent an event too large to relay.') : error)
    }
  }

  onEnd(): void {
    if (this.#mode === 'over') return
    this.#ended = true
    if (this.#awaitingHooks) return
    if (this.#mode === 'error') return this.#refuseByStatus()
    try {
      if (this.#mode === 'body') this.#wholeBody()
      else if (this.#mode === 'runs') this.#conclude({ complete: true })
      else this.#endOfStream()
    } catch (error) {
      this.fail(error)
    }
  }

  onError(error: GatewayError): void {
    // Once the end marker was seen, a connection that is lost takes nothing away from the answer.
    if (this.#marked) this.#endOfStream()
    else if (this.#mode === 'error') this.#refuseByStatus()
    else this.fail(error)
  }

  // --- from the engine ---------------------------------------------------------------------------------------------

  /** The head is out: from here on messages go to the client as they come. */
  commit(): void {
    this.#committed = true
    const { client } = this.#options
    client.onDrain = () => this.#resume()
    if (!this.#end && this.#flush()) this.#resume()
  }

  /** The last bytes of a complete answer, or of the part that may be shown; given once, after the settlement. */
  release(): Buffer {
    const last = joined(this.#out)
    this.#out = []
    this.#count(last)
    return last
  }

  /** Nothing more will come of it. */
  get over(): boolean {
    return this.#mode === 'over'
  }

  /** Ends the answer from our side: a limit, the client's leaving, a plugin's mistake. Safe to call at any time. */
  fail(error: unknown): void {
    if (this.#mode === 'over') return
    this.#call?.abort()
    this.#conclude({ complete: false, error: asGatewayError(error) })
  }

  /** The client left: reads on for the usage, writing nothing, until the answer ends or a bound is reached. */
  drain(untilMs: number, bytes: number): void {
    if (this.#mode === 'over') return
    this.#drainLimit = bytes
    this.#drainUntil = performance.now() + untilMs
    this.#out = []
    this.#held = 0
    this.#resume()
  }

  check(now: number): void {
    const { timeouts } = this.#attempt.channel
    const age = now - this.#attempt.startedAt
    if (this.#marked) {
      if (now - this.#markedAt > trailMs) {
        this.#call.abort()
        this.#endOfStream()
      }
    } else if (now > this.#drainUntil) this.fail(new GatewayError('client_closed', 'The client left.'))
    else if (!this.#isOpen && age > timeouts.firstByte) {
      this.fail(new GatewayError('upstream_timeout_first_byte', `The upstream did not begin to answer within ${timeouts.firstByte} ms.`))
    } else if (this.#pausedAt !== undefined) {
      if (now - this.#pausedAt > this.#options.clientStall) {
        this.fail(new GatewayError('client_stalled', `The client has read nothing for ${this.#options.clientStall} ms.`))
      }
    } else if (this.#isOpen && now - this.#lastDataAt > timeouts.idle) {
      this.fail(new GatewayError('upstream_timeout_idle', `The upstream sent nothing for ${timeouts.idle} ms.`))
    }
    if (age > timeouts.total) {
      this.fail(new GatewayError('upstream_timeout_total', `The answer took longer than ${timeouts.total} ms.`))
    }
  }

  // --- messages ----------------------------------------------------------------------------------------------------

  #use(stages: readonly Stage[]): void {
    this.#stages = stages
    for (let i = 0; i <= stages.length; i++) this.#emits.push((message) => this.#pass(message, i))
  }

  #event(event: Message): void {
    if (this.#mode === 'over') return
    if (event.kind === 'comment') {
      if (this.#committed && !this.#marked) this.#output(event.bytes)
      return
    }
    // An event whose data line is empty says nothing, and clients that parse every event fail on it.
    if (event.data.length === 0) return
    if (this.#marked) return this.#observe(event)
    const kind = this.#watch.see(event)
    if (kind === 'error') return this.fail(errorFromBody(this.#attempt.protocol, this.#attempt.channel, event.json()))
    if (kind === 'invalid') return this.fail(new GatewayError('upstream_bad_response', 'The upstream sent an event that is not of its protocol.'))
    if (kind === 'end') {
      if (!this.#isOpen) return this.fail(new GatewayError('upstream_bad_response', 'The upstream ended its answer without one.'))
      this.#flush()
      this.#marked = true
      this.#markedAt = performance.now()
    }
    this.#pass(event)
    if (kind === 'content') this.#opening()
  }

  /** Runs a message through the stages from `from` on. */
  #pass(message: Message, from = 0): void {
    for (let i = from; i < this.#stages.length; i++) {
      const stage = this.#stages[i]!
      if ('map' in stage) return stage.map(message, this.#emits[i + 1]!)
      stage.observe(message)
    }
    this.#output(message.bytes)
  }

  /** After the end marker: stages may still learn something, usage above all; what they emit is not for the client. */
  #observe(message: Message): void {
    const out = this.#out
    this.#out = []
    this.#pass(message)
    this.#out = out
  }

  #output(bytes: Buffer): void {
    if (this.#drainLimit !== undefined) {
      this.#drainLimit -= bytes.length
      if (this.#drainLimit < 0) this.fail(new GatewayError('client_closed', 'The client left.'))
      return
    }
    this.#out.push(bytes)
    this.#held += bytes.length
  }

  /**
   * One write for everything this turn brought. Before the commit it waits; after the end marker it is held. False when
   * the client's buffer is full.
   */
  #flush(): boolean {
    if (this.#mode === 'over' || this.#marked) return true
    if (!this.#committed) {
      if (this.#held > pendingBytes) {
        this.#opening()
        this.#pause()
      }
      return false
    }
    // The end of a body relayed in runs is not known before it comes: its latest run stays behind.
    const keep = this.#mode === 'runs' ? this.#out.pop() : undefined
    const bytes = joined(this.#out)
    this.#out = keep ? [keep] : []
    this.#held = keep?.length ?? 0
    if (bytes.length === 0) return true
    this.#count(bytes)
    const flowing = this.#options.client.write(bytes)
    if (!flowing) this.#pause()
    return flowing
  }

  #count(bytes: Buffer): void {
    if (bytes.length === 0) return
    this.firstByteAt ??= performance.now()
    this.bytes += bytes.length
  }

  #opening(): void {
    if (this.#isOpen) return
    this.#isOpen = true
    this.#open()
  }

  #pause(): void {
    if (this.#pausedAt !== undefined) return
    this.#pausedAt = performance.now()
    this.#call.pause()
  }

  #resume(): void {
    if (this.#pausedAt === undefined) return
    this.#pausedAt = undefined
    this.#lastDataAt = performance.now()
    this.#call.resume()
  }

  // --- bodies and ends ---------------------------------------------------------------------------------------------

  #collect(chunk: Buffer): void {
    this.#raw.push(chunk)
    this.#rawBytes += chunk.length
    if (this.#mode === 'error') {
      if (this.#rawBytes > errorBodyBytes) {
        this.#call.abort()
        this.#refuseByStatus()
      }
    } else if (this.#rawBytes > wholeBodyBytes) {
      this.#mode = 'runs'
      for (const run of this.#raw) this.#pass(new Message('bytes', run))
      this.#raw = []
      this.#opening()
    }
  }

  #refuseByStatus(): void {
    const { status, headers } = this.response!
    const body = Buffer.concat(this.#raw).subarray(0, errorBodyBytes)
    this.#conclude({ complete: false, error: errorFromResponse(this.#attempt.protocol, this.#attempt.channel, status, headers, body) })
  }

  #wholeBody(): void {
    const message = new Message('json', joined(this.#raw))
    this.#raw = []
    const { protocol } = this.#attempt
    const body = message.json()
    if (!protocol.isAnswer(body)) {
      const error =
        body !== undefined && protocol.readError(body).message !== ''
          ? errorFromBody(protocol, this.#attempt.channel, body)
          : new GatewayError('upstream_bad_response', 'The upstream sent a body that is no answer.')
      return this.fail(error)
    }
    this.whole = true
    this.#pass(message)
    this.#conclude({ complete: true })
  }

  #endOfStream(): void {
    const cut = this.#framer!.rest().length > 0
    if (cut || !this.#watch.finished()) {
      const error = this.#isOpen
        ? new GatewayError('upstream_stream_interrupted', 'The upstream ended its answer before it was complete.')
        : new GatewayError('upstream_bad_response', 'The upstream sent an empty answer.')
      return this.#conclude({ complete: false, error })
    }
    if (!this.#marked) {
      this.#flush()
      this.#marked = true
      const { endEvent } = this.#attempt.protocol
      if (endEvent !== undefined) this.#pass(new Message('event', Buffer.from(endEvent), Buffer.from('[DONE]')))
    }
    this.#conclude({ complete: true })
  }

  /** The one end: stages are told, whoever waits is woken, nothing is accepted any more. */
  #conclude(end: RelayEnd): void {
    if (this.#mode === 'over') return
    this.#mode = 'over'
    this.#end = end
    this.#attempt.endedAt = performance.now()
    if (end.error) this.#attempt.error = end.error
    this.#options.watchdog.delete(this)
    this.#options.client.onDrain = null
    // What had not been released of an incomplete answer stays unreleased: it is not clear that it is whole.
    if (!end.complete) this.#out = []
    for (let i = 0; i < this.#stages.length; i++) {
      const stage = this.#stages[i]!
      try {
        if ('map' in stage) stage.end?.(end.complete, this.#emits[i + 1]!)
        else stage.end?.(end.complete)
      } catch (error) {
        end = this.#end = { complete: false, error: asGatewayError(error) }
      }
    }
    if (!end.complete) this.#out = []
    if (this.#isOpen || end.complete) {
      this.#opening()
      this.#finish(end)
    } else this.#refuse(end.error!)
  }
}

/** Buffers as one: a view when they lie side by side in memory, as the events of one chunk do. */
function joined(parts: readonly Buffer[]): Buffer {
  const first = parts[0]
  if (first === undefined) return Buffer.alloc(0)
  if (parts.length === 1) return first
  let length = first.length
  for (let i = 1; i < parts.length; i++) {
    const part = parts[i]!
    if (part.buffer !== first.buffer || part.byteOffset !== first.byteOffset + length) return Buffer.concat(parts)
    length += part.length
  }
  return Buffer.from(first.buffer, first.byteOffset, length)
}
