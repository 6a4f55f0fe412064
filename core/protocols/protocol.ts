// What the core asks of a wire protocol: grammar of streams, usage, errors and names. Pure: no I/O, no state but a
// watch's.
import type { Usage } from '../money/usage.ts'
import type { FrameProtocol } from './frames.ts'
import type { Payload, ReportedUsage, ShownError } from './payload.ts'

export type { Payload, ReportedUsage, ShownError } from './payload.ts'

/** The top level of a request body, read without parsing the rest. */
export interface Fields {
  has(key: string): boolean
  /** Bytes of the value as it is written; 0 when absent. */
  size(key: string): number
  flag(key: string): boolean | undefined
  string(key: string): string | undefined
  json(key: string): unknown
}

/**
 * What an event means for its stream. `opening`: nothing of the answer yet, another channel could still take over.
 * `content`: part of the answer. `end`: the protocol's own end marker. `error`: the upstream gave up.
 * `invalid`: no event of this protocol.
 */
export type EventKind = 'opening' | 'content' | 'end' | 'error' | 'invalid'

/** Payloads that go before an event, for clients that hold its protocol to the letter. */
export type Preface = readonly string[]

/** Follows one stream from its first event to its last. */
export interface StreamWatch {
  /** Called once per event, in order. */
  see(event: Payload): EventKind
  /** What the protocol demands before the event just seen and the upstream left out; asked until there was content. */
  missing(event: Payload): Preface
  /** Nothing of the answer that has begun is missing, with or without an end marker. */
  readonly finished: boolean
  /**
   * Likewise, and there is no more to be expected than postscripts: all answers that were asked for have come to their
   * end.
   */
  readonly complete: boolean
}

/** What an upstream said in an error body, as far as it can be understood. */
export interface UpstreamError {
  message: string
  type: string | undefined
  code: string | undefined
  param: string | undefined
  /** Google's own word for why, beside the kind of the error. */
  reason?: string | undefined
  /** How long to wait, in milliseconds, where it is said in the body. */
  retryAfterMs?: number | undefined
}

/** Puts a stream together to the whole answer. */
export interface Collector {
  /** The payload of the next event. */
  add(payload: unknown): void
  /** The whole answer, as JSON data; undefined when these events do not make one. */
  result(): unknown
}

/**
 * What a run of text is. `text`: what the model answers, or a message of the prompt. `reasoning`: what it thinks.
 * `refusal`: why it does not answer. `arguments`: of a tool that it calls, as the JSON text that it writes.
 */
export type TextKind = 'text' | 'reasoning' | 'refusal' | 'arguments'

/** Texts of one block follow each other and are one text; texts of two blocks have nothing to do with each other. */
export interface TextBlock {
  /** Unique within one answer: a choice, a content block, or a part of one. */
  readonly block: string
  readonly kind: TextKind
  /** Who says it, in a prompt: `system`, `user`, `assistant`, `tool`, as the protocol calls it. */
  readonly role?: string | undefined
}

/** A run of text. In a prompt and in a whole answer it is all of its block, in an event the next part of it. */
export interface TextPart extends TextBlock {
  readonly text: string
}

/** Is shown the text of an answer and says what stands in its place. */
export interface TextEditor {
  /** A run of text; what is returned goes on instead. */
  text(part: TextPart): string
  /** A block is over, after its last run: what is returned is added to its text. Once for each block. */
  end(block: TextBlock): string
  /** What is no text (sound, files) may pass; otherwise an answer that has some is refused. */
  readonly skips?: boolean | undefined
}

/** An event to be sent: its payload, and its name in protocols whose events have one. */
export interface TextEvent {
  readonly event?: string
  readonly data: string
}

/** What became of an event: events that go before it, and its own payload if that changed. */
export interface EditedEvent {
  readonly before: readonly TextEvent[]
  readonly data: Buffer | undefined
}

/**
 * The text of one answer, whole or event by event. One for each answer, as a block may go on over many events and be
 * repeated as a whole in the last one. All else in the payload stays as it is, but for what tells of the text that was
 * changed (log probabilities, places in it that are cited), which is left out. Throws Untranslatable when there is more
 * text than may be kept, where the protocol repeats it.
 */
export interface AnswerText {
  /** Shows the text of the next event, end markers included. Undefined when nothing is to be changed. */
  event(event: Payload, editor: TextEditor): EditedEvent | undefined
  /** Ends the blocks that no event has ended: what is to be sent before the end of the stream. */
  end(editor: TextEditor): readonly TextEvent[]
  /** Shows the text of a whole answer, and ends each block. Undefined when nothing is to be changed. */
  whole(answer: Payload, editor: TextEditor): Buffer | undefined
}

/** The top level of a request body on its way, to be read and changed. */
export interface Members {
  json(key: string): unknown
  set(key: string, value: unknown): void
}

/** Where the text of a protocol stands. */
export interface ProtocolText {
  answer(): AnswerText
  /** Shows every text of a prompt in its order, and sets the members in which something else was returned. */
  prompt(body: Members, edit: (part: TextPart) => string): void
}

/**
 * Counts in one answer what upstreams may leave out of their usage: units that the request or the answer itself tells.
 */
export interface Tally {
  /** The next message of the answer, runs of bytes included. */
  see(message: Payload): void
  /** What was counted by now. */
  read(): Partial<Usage>
}

/** Puts the reports of one answer together. */
export interface UsageReader {
  /** The usage by now, when this message tells of some. Called once for each message, in order. */
  read(message: Payload): ReportedUsage
}

/** Writes one stream of events for a client that does not want them as server-sent events. */
export interface StreamFraming {
  /** Of the answer as it is sent. */
  readonly contentType: string
  /** The bytes of the next event. */
  event(payload: string): string
  /** What ends a whole answer, and nothing else: what is cut, or ends with an error, does not look complete. */
  end(): string
  /** The body of an error in place of the answer, which has not begun. */
  errorBody(error: unknown): unknown
}

/** A public model, as far as lists of models show it. */
export interface ListedModel {
  readonly name: string
  readonly ownedBy: string
  /** Unix seconds. */
  readonly created: number
  readonly contextWindow: number | undefined
  readonly maxOutputTokens: number | undefined
  /** Unix milliseconds. */
  readonly deprecated:
    | { readonly since: number; readonly sunset: number | undefined; readonly replacement: string | undefined }
    | undefined
}

/** A protocol of a client or an upstream. */
export interface Protocol {
  /** The wire family; a channel of this family speaks it natively. */
  readonly family: 'openai' | 'anthropic' | 'gemini'
  /** Headers of a client that are passed on to an upstream of the same protocol, lower-case names. */
  readonly passedHeaders: readonly string[]
  /** Headers that an upstream wants where the client sent none of its own, or speaks another protocol. */
  readonly ownHeaders: Readonly<Record<string, string>>
  /** `request`: the body that is answered. */
  watch(request: Fields): StreamWatch
  /**
   * The payload of the event that ends a stream cleanly, added when a whole answer came without one; undefined when the
   * protocol has none.
   */
  readonly endEvent: string | undefined
  /** The name of an event with this payload; absent where events have none. */
  eventName?(payload: string): string
  /**
   * For an upstream that sent a whole answer where a stream was asked for: the payloads of the stream it stands for.
   */
  chunksOf(answer: unknown): string[]
  /** For an upstream that streamed where a whole answer was asked for. */
  collect(): Collector
  /** Statuses of its own for errors that others know by these; absent where there are none. */
  readonly statuses?: Readonly<Record<number, number>>
  /** The body of an error reply. */
  errorBody(error: ShownError): unknown
  /**
   * The event, framing included, that tells of an error in mid-stream. `before`: events that went before it, where they
   * are numbered.
   */
  errorEvent(error: ShownError, before: number): string
  /**
   * There are clients that take a stream with a clean end for a whole answer, whatever its last event says: after that
   * of an error the connection is broken.
   */
  readonly breaksOff?: boolean
  /** Reads an upstream's error body or event; `body` is parsed JSON or text. */
  readError(body: unknown): UpstreamError
  /** A JSON body with status 200 is an answer in truth: neither an error nor something else. */
  isAnswer(message: Payload): boolean
  /** Usage reported in a message: undefined when it reports none. */
  readUsage(message: Payload): ReportedUsage
  /** Follows the usage of one answer, where several messages tell of it; absent where each report says it all. */
  usageReader?(): UsageReader
  /** The new value of a body member that makes a streaming upstream report usage; undefined when it will anyway. */
  askForUsage(fields: Fields): { key: string; json: string } | undefined
  /**
   * What a client that did not ask for usage sees of an event: its payload without it, undefined when there is none in
   * it, or `nothing` when the event exists only to carry it.
   */
  withoutUsage(event: Payload): Buffer | 'nothing' | undefined
  /** Absent where the upstream's report is all there is. `request`: the body that is answered. */
  tally?(request: Fields): Tally
  /**
   * Text of an answer, or of one event of it, in UTF-8 bytes (text, reasoning, tool arguments), for estimates when an
   * upstream reports nothing.
   */
  answerBytes(body: unknown): number
  /** Where answers and events name the model: a member, or one inside of a member. Absent: `model`. */
  readonly modelPlaces?: readonly (readonly [string] | readonly [string, string])[]
  /**
   * Where an answer that counts as one, or one of its events, tells of a failure: the members that lead to it, in which
   * `*` stands for all of a list. Absent: nowhere.
   */
  readonly errorPlaces?: readonly (readonly string[])[]
  /** Absent where there are no sessions. */
  readonly frames?: FrameProtocol
  /** Absent where it is not known yet: then a plugin that has to see the text lets no answer pass. */
  readonly text?: ProtocolText
}
