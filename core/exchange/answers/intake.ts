// Makes messages of an upstream's body: one intake for streams, one for whole bodies, one for errors.
import { Following, LensError } from '../../bodies/json/scan.ts'
import type { Attempt } from '../../contract/attempt.ts'
import { GatewayError } from '../../errors.ts'
import { Message } from '../../contract/message.ts'
import { joinedBuffers } from './outlet.ts'
import type { Outlet } from './outlet.ts'
import type { UpstreamHeaders } from '../../transport/transport.ts'
import type { Collector, StreamWatch } from '../../protocols/index.ts'
import { BrokenStream } from '../../protocols/protocol.ts'
import type { EventCutter, UpstreamFraming } from '../../protocols/protocol.ts'
import { withCleanErrors } from '../failures/told-errors.ts'
import { EventFramer, EventTooLarge, maxEventBytes } from './sse.ts'
import { errorFromBody, errorFromEvent, errorFromResponse, refusalInside } from '../failures/upstream-error.ts'

const brace = 0x7b
const lineOfJson = Buffer.from('\n{')

/** Ends the streams of some, whatever protocol they speak. */
const done = Buffer.from('[DONE]')

/** Of an upstream's error body. */
const errorBodyBytes = 64 * 1024
/**
 * A JSON answer up to this size is one message; a larger one is relayed in runs of bytes, unless a stage cannot see
 * those, or it may tell of a failure.
 */
const wholeBodyBytes = 256 * 1024
/** A JSON answer up to this size is looked into at once. */
const scannedBytes = 64 * 1024
/** The largest JSON answer that is held then: what is larger is refused. */
const inspectedBytes = 8 * 1024 * 1024
/** Likewise, where all that have to see it look at it beside the loop: pictures in four thousand lines take 20 MiB. */
const besideBytes = 32 * 1024 * 1024

/**
 * Milliseconds that an upstream may take after the protocol's end marker to close, after the answer's end to mark it,
 * and for the body of an error.
 */
const trail = { marked: 250, finished: 1500, error: 2000 }

/** What an intake tells its relay. */
export interface IntakeHost {
  readonly attempt: Attempt
  readonly outlet: Outlet
  /** The client asked for a stream of events. */
  readonly streaming: boolean
  /** Something of the answer has come, or of its beginning: not a heartbeat. */
  heard(): void
  /** There is something to commit. */
  open(): void
  readonly isOpen: boolean
  /** The body is text, which may have no bytes. */
  readonly mayBeEmpty: boolean
  /** The answer arrived to its end. */
  complete(): void
  /** Likewise, and it goes on with `onward` when that resolves: nothing more is read. What either throws fails it. */
  goOnAfter(work: Promise<void>, onward: () => void): void
  fail(error: GatewayError): void
}

/** Takes the decoded bytes of one body, in order; `end` comes last, at most once, and not after a failure. */
export interface Intake {
  data(chunk: Buffer): void
  end(): void
  /**
   * Nothing that matters is missing, whatever becomes of the connection: milliseconds after which the answer is taken
   * as it is. Undefined while something is.
   */
  readonly trail: number | undefined
  /** Content has come in pieces, and the next one may be waited for only so long. */
  readonly begun: boolean
}

/** The body of an answer with a status other than 2xx. */
export class ErrorIntake implements Intake {
  /** The status says enough. */
  readonly trail = trail.error
  readonly begun = false
  readonly #host: IntakeHost
  readonly #status: number
  readonly #headers: UpstreamHeaders
  readonly #chunks: Buffer[] = []
  #length = 0

  constructor(host: IntakeHost, status: number, headers: UpstreamHeaders) {
    this.#host = host
    this.#status = status
    this.#headers = headers
  }

  data(chunk: Buffer): void {
    this.#chunks.push(chunk)
    this.#length += chunk.length
    if (this.#length > errorBodyBytes) this.end()
  }

  end(): void {
    const body = Buffer.concat(this.#chunks).subarray(0, errorBodyBytes)
    this.#host.fail(errorFromResponse(this.#host.attempt, this.#status, this.#headers, body))
  }
}

/** A stream of events, for a client that wants them, or collected to a whole body for one that does not. */
export class EventIntake implements Intake {
  begun = false
  readonly #host: IntakeHost
  readonly #watch: StreamWatch
  readonly #cutter: EventCutter
  readonly #collector: Collector | undefined
  #collected = 0
  /** The end marker has passed. */
  #marked = false
  /** No more bytes come. */
  #ending = false
  #failed = false

  /** `framing`: that of the upstream's events, where they are not server-sent events. */
  constructor(host: IntakeHost, framing?: UpstreamFraming) {
    this.#host = host
    this.#watch = host.attempt.protocol.watch(host.attempt.body.original.lens)
    this.#cutter = framing
      ? framing.cutter((data, name, bytes) => this.event(new Message('event', bytes, data, name)))
      : new EventFramer((event) => this.#take(event))
    if (!host.streaming) this.#collector = host.attempt.protocol.collect()
  }

  get trail(): number | undefined {
    return this.#marked ? trail.marked : this.#watch.complete ? trail.finished : undefined
  }

  data(chunk: Buffer): void {
    try {
      this.#cutter.push(chunk)
    } catch (error) {
      if (error instanceof EventTooLarge) this.#fail(tooLarge('The upstream sent an event too large to relay.'))
      else this.#broke(error)
    }
    if (this.#cutter.begun) this.#host.heard()
  }

  /** Takes a server-sent event, between which some servers tell of errors in another way. */
  #take(event: Message): void {
    const stray = this.#failed ? undefined : strayJson(event.bytes)
    if (stray === undefined) return this.event(event)
    if (!this.#marked) this.#fail(errorFromEvent(this.#host.attempt, Message.event(stray), this.#host.isOpen))
  }

  event(seen: Message): void {
    const { outlet, attempt } = this.#host
    let event = seen
    if (this.#failed) return
    if (event.kind === 'comment') {
      if (outlet.committed && !this.#marked) outlet.comment(event.bytes)
      return
    }
    // An event whose data line is empty says nothing, and clients that parse every event fail on it.
    if (event.data.length === 0 || (event.data.length === done.length && this.#isOver(event))) return
    this.#host.heard()
    if (this.#marked) return outlet.show(event)
    const kind = this.#watch.see(event)
    if (kind === 'error') return this.#fail(errorFromEvent(attempt, event, this.#host.isOpen))
    const refusal = this.begun ? undefined : refusalInside(attempt, event)
    if (refusal) return this.#fail(refusal)
    if (kind === 'invalid') {
      // What is left of an event that was cut: whether the answer is whole without it is looked at next.
      return this.#ending ? undefined : this.#fail(bad('The upstream sent an event that is not of its protocol.'))
    }
    // What was not looked into is like an event that was.
    if (event.seen && event.isTwofold(attempt.protocol.looksInto))
      return this.#fail(bad('The upstream sent an event that could be understood in more than one way.'))
    if (kind === 'end') {
      if (!this.#watch.finished) return this.#fail(this.#incomplete())
      this.#marked = true
    }
    if (kind === 'end' || (!event.plain && event.data.includes('"error"'))) event = cleaned(attempt, event)
    this.begun ||= kind === 'content'
    if (this.#collector) return this.#collect(event)
    if (this.#marked) return outlet.close(event)
    if (!this.#host.isOpen) for (const payload of this.#watch.missing(event)) outlet.pass(Message.event(payload))
    outlet.pass(event)
    if (kind === 'content') this.#host.open()
  }

  /** An end marker that says nothing any more: a second one, or one that the protocol does not have. */
  #isOver({ data }: Message): boolean {
    const { protocol } = this.#host.attempt
    return data.equals(done) && (this.#marked || (protocol.endEvent === undefined && this.#watch.finished))
  }

  end(): void {
    this.#ending = true
    try {
      this.#cutter.close()
    } catch (error) {
      this.#broke(error)
    }
    if (this.#failed) return
    if (!this.#watch.finished) return this.#fail(this.#incomplete())
    const { outlet, attempt } = this.#host
    if (this.#collector) {
      const whole = new Message('json', Buffer.from(JSON.stringify(this.#collector.result()) ?? ''))
      if (!attempt.protocol.isAnswer(whole)) return this.#fail(bad('The upstream sent a stream that makes no answer.'))
      return passWhole(this.#host, whole)
    }
    if (!this.#marked) {
      const { endEvent } = attempt.protocol
      outlet.close(endEvent === undefined ? undefined : Message.event(endEvent))
    }
    this.#host.complete()
  }

  #collect(event: Message): void {
    this.#collected += event.data.length
    if (this.#collected > maxEventBytes)
      this.#fail(tooLarge('The upstream sent a stream too large to be put together.'))
    else this.#collector!.add(event.json())
  }

  /** Nothing that comes after what cannot be read is part of the answer, and what came before it is not all of it. */
  #broke(error: unknown): void {
    if (!(error instanceof BrokenStream)) throw error
    this.#fail(this.begun ? new GatewayError('upstream_stream_interrupted', error.message) : bad(error.message))
  }

  #incomplete(): GatewayError {
    return this.begun
      ? new GatewayError('upstream_stream_interrupted', 'The upstream ended its answer before it was complete.')
      : bad('The upstream sent an empty answer.')
  }

  #fail(error: GatewayError): void {
    this.#failed = true
    this.#host.fail(error)
  }
}

/** A body with one JSON value, as one message while it is small, or in runs of bytes. */
export class BodyIntake implements Intake {
  readonly trail = undefined
  /** More has come than white space, by which some upstreams show that they are there. */
  begun = false
  readonly #host: IntakeHost
  #chunks: Buffer[] = []
  #length = 0
  #inRuns = false
  /** In runs, of what begins as an object: nobody else looks whether it has come to its end. */
  #object: Following | undefined

  constructor(host: IntakeHost) {
    this.#host = host
  }

  data(chunk: Buffer): void {
    const { outlet } = this.#host
    if (this.#inRuns) return this.#run(chunk)
    this.begun ||= !chunk.every(isBlank)
    this.#chunks.push(chunk)
    this.#length += chunk.length
    if (this.#length <= wholeBodyBytes) return
    if (this.#host.streaming) return this.#host.fail(bad('The upstream was asked for a stream and sent a large body.'))
    // What tells of a failure is cleaned, wherever in the answer it stands.
    const core = this.#host.attempt.protocol.errorPlaces && 'the core'
    const blind = outlet.blindTo('runs') ?? core
    if (blind !== undefined) {
      const most = (core ?? outlet.blindTo('large')) === undefined ? besideBytes : inspectedBytes
      if (this.#length > most) this.#host.fail(uninspected(blind, `larger than ${most} bytes`))
      return
    }
    this.#inRuns = outlet.keepsLast = outlet.ownsRuns = true
    if (this.#chunks[0]!.toString('latin1', 0, 64).trimStart().startsWith('{')) this.#object = new Following()
    for (const run of this.#chunks) this.#run(run)
    this.#chunks = []
    this.#host.open()
  }

  #run(chunk: Buffer): void {
    follow(
      () => this.#object?.push(chunk),
      () => bad('The upstream sent a body that is no JSON.')
    )
    const run = new Message('bytes', chunk)
    run.body = this.#object
    this.#host.outlet.pass(run)
  }

  end(): void {
    if (this.#inRuns) {
      // How the connection ended does not say it: to some upstreams, and to all that break, an end is an end.
      follow(
        () => this.#object?.end(),
        () => new GatewayError('upstream_stream_interrupted', 'The upstream ended its answer before it was complete.')
      )
      return this.#host.complete()
    }
    const message = new Message('json', joinedBuffers(this.#chunks))
    const looked = this.#length > scannedBytes ? message.lookInto() : undefined
    if (looked) this.#host.goOnAfter(looked, () => this.#take(message))
    else this.#take(message)
  }

  #take(message: Message): void {
    const { attempt } = this.#host
    const { protocol } = attempt
    if (message.isTwofold(protocol.looksInto))
      return this.#host.fail(bad('The upstream sent an answer that could be understood in more than one way.'))
    const refusal = protocol.isAnswer(message) ? refusalInside(attempt, message) : errorFromBody(attempt, message)
    if (refusal) return this.#host.fail(refusal)
    if (this.#host.streaming) return this.#asEvents(protocol.chunksOf(message.json()))
    passWhole(this.#host, cleaned(attempt, message))
  }

  #asEvents(payloads: readonly string[]): void {
    const events = new EventIntake(this.#host)
    const { protocol } = this.#host.attempt
    for (const payload of payloads) events.event(Message.event(payload, protocol.eventName?.(payload)))
    events.end()
  }
}

/** White space of JSON (RFC 8259 §2). */
function isBlank(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}

/** A body that is passed on as it comes: sound, pictures, files, plain text. */
export class BytesIntake implements Intake {
  readonly trail = undefined
  begun = false
  readonly #host: IntakeHost

  constructor(host: IntakeHost) {
    this.#host = host
  }

  data(chunk: Buffer): void {
    const { outlet } = this.#host
    const blind = outlet.blindTo('files')
    if (blind !== undefined) return this.#host.fail(uninspected(blind, 'of a kind that is no message'))
    outlet.keepsLast = outlet.ownsRuns = this.begun = true
    this.#host.heard()
    outlet.pass(new Message('bytes', chunk))
    this.#host.open()
  }

  end(): void {
    // There is no sound, picture or file without bytes; a text may be empty.
    if (!this.#host.isOpen && !this.#host.mayBeEmpty) return this.#host.fail(bad('The upstream sent an empty answer.'))
    this.#host.complete()
  }
}

/** Throws an error of ours in the place of what a text is refused with. */
function follow(step: () => void, refusal: () => GatewayError): void {
  try {
    step()
  } catch (error) {
    throw error instanceof LensError ? refusal() : error
  }
}

function passWhole(host: IntakeHost, message: Message): void {
  const { outlet } = host
  outlet.whole = true
  outlet.pass(message)
  const { settled } = outlet // Each look makes a promise: one that nobody waits for would end the process.
  if (settled) host.goOnAfter(settled, () => host.complete())
  else host.complete()
}

/**
 * Line of JSON without the name of a field, by which some servers tell of an error in mid-stream; nearly all events
 * have no second line to look at.
 */
function strayJson(bytes: Buffer): string | undefined {
  const from = bytes[0] === brace ? 0 : bytes.indexOf(lineOfJson) + 1
  if (from === 0 && bytes[0] !== brace) return undefined
  return bytes.toString('utf8', from).split(/[\r\n]/, 1)[0]
}

/** What is an answer may tell that it failed. */
function cleaned({ protocol: { errorPlaces }, channel }: Attempt, message: Message): Message {
  return errorPlaces ? withCleanErrors(message, errorPlaces, channel) : message
}

/** What a plugin has to look at and cannot is not passed on. */
export function uninspected(plugin: string, why: string): GatewayError {
  const cause = new Error(`the plugin ${plugin} takes whole messages, and this answer is ${why}`)
  const told = 'The answer cannot be inspected, which this gateway has to do.'
  return new GatewayError('answer_not_inspected', told, { cause })
}

/** What obeys its protocol and exceeds a bound of ours has been made, would be made again elsewhere, and is charged. */
function tooLarge(message: string): GatewayError {
  return new GatewayError('answer_too_large', `${message} Ask for less at a time.`)
}

function bad(message: string): GatewayError {
  return new GatewayError('upstream_bad_response', message)
}
