// What the core needs of a wire protocol: streams, usage, errors and names. Protocols do no I/O, and only the watch,
// the collectors and similar objects for one answer have state.
import type { Usage } from '../money/usage.ts'
import type { FrameProtocol } from './frames.ts'
import type { Payload, ReportedUsage, ShownError } from './payload.ts'

export type { Payload, ReportedUsage, ShownError } from './payload.ts'

/** The members of a request body, by name. */
export interface Fields {
  has(key: string): boolean
  /** How many bytes the value takes as it is written; 0 when absent. */
  size(key: string): number
  flag(key: string): boolean | undefined
  string(key: string): string | undefined
  json(key: string): unknown
}

/**
 * What an event means for its stream. `opening`: no content yet, so another channel may still answer. `content`: part
 * of the answer. `end`: the protocol's end marker. `error`: the upstream gave up. `invalid`: not an event of this
 * protocol.
 */
export type EventKind = 'opening' | 'content' | 'end' | 'error' | 'invalid'

/** Payloads to insert before an event, for clients that insist on what the protocol requires. */
export type Preface = readonly string[]

/** Follows one stream from its first event to its last. */
export interface StreamWatch {
  /** Says what an event means. Called once for each event, in order. */
  see(event: Payload): EventKind
  /**
   * What the protocol requires before the event just seen and the upstream left out. Called until there was content.
   */
  missing(event: Payload): Preface
  /** Whether the answer that has begun is complete, with or without an end marker. */
  readonly finished: boolean
  /** Whether all answers that were asked for are complete, so that only usage and the like may follow. */
  readonly complete: boolean
}

/** The headers that an error came with. */
export type ErrorHeaders = Readonly<Record<string, string | string[] | undefined>>

/** An upstream's error, as far as it can be understood. */
export interface UpstreamError {
  message: string
  type: string | undefined
  code: string | undefined
  param: string | undefined
  /** Google's `reason`, besides the kind of error. */
  reason?: string | undefined
  /** How long to wait, in milliseconds, if the body says so. */
  retryAfterMs?: number | undefined
  /** What the error means as a status of HTTP, where that is not the status that it came with, or came with none. */
  status?: number | undefined
}

/** Collects a stream into the whole answer. */
export interface Collector {
  /** Takes the payload of the next event. */
  add(payload: unknown): void
  /** The whole answer, as JSON data; undefined when the events are not a complete one. */
  result(): unknown
}

/**
 * The kind of a text. `text`: an answer, or a message of a prompt. `reasoning`: what the model thinks. `refusal`: why
 * it does not answer. `arguments`: of a call, as JSON text.
 */
export type TextKind = 'text' | 'reasoning' | 'refusal' | 'arguments'

/** A block of text: the texts of one block are consecutive pieces of it. Different blocks are independent. */
export interface TextBlock {
  /** Unique within one answer: a choice, a content block, or a part of one. */
  readonly block: string
  readonly kind: TextKind
  /** In a prompt, the role as the protocol calls it: `system`, `user`, `assistant`, `tool`. */
  readonly role?: string | undefined
}

/** A piece of text. In a prompt and in a whole answer it is the whole block; in an event it is the next piece. */
export interface TextPart extends TextBlock {
  readonly text: string
}

/** Edits the text of an answer. */
export interface TextEditor {
  /** Returns what to send in place of this text. */
  text(part: TextPart): string
  /** Called once for each block, after its last text. What it returns is appended to the block. */
  end(block: TextBlock): string
  /** Whether sound, files and the like may pass. Otherwise an answer with some is refused. */
  readonly skips?: boolean | undefined
}

/** An event to send: its payload, and its name in protocols whose events have names. */
export interface TextEvent {
  readonly event?: string
  readonly data: string
}

/** The result of editing an event: events to send before it, and its own payload if that changed. */
export interface EditedEvent {
  readonly before: readonly TextEvent[]
  readonly data: Buffer | undefined
}

/**
 * Edits the text of one answer, whole or event by event. One is made for each answer, because a block may span many
 * events and be repeated in the last one. Everything else in the payload stays, except for what describes the changed
 * text, such as log probabilities and offsets of citations, which is left out. Throws Untranslatable when the protocol
 * repeats the text and there is more of it than may be kept.
 */
export interface AnswerText {
  /** Edits the text of the next event, end markers included. Undefined when nothing changes. */
  event(event: Payload, editor: TextEditor): EditedEvent | undefined
  /** Ends the blocks that no event has ended. Returns what to send before the end of the stream. */
  end(editor: TextEditor): readonly TextEvent[]
  /** Edits the text of a whole answer, and ends each block. Undefined when nothing changes. */
  whole(answer: Payload, editor: TextEditor): Buffer | undefined
}

/** The top level of an attempt's body, to be read and changed. */
export interface Members {
  json(key: string): unknown
  set(key: string, value: unknown): void
}

/** How to find and edit the text of a protocol. */
export interface ProtocolText {
  answer(): AnswerText
  /** Calls `edit` for every text of a prompt, in order, and sets the members whose text changed. */
  prompt(body: Members, edit: (part: TextPart) => string): void
}

/** Counts units in one answer that its usage may lack, but that the request or the answer shows. */
export interface Tally {
  /** Takes the next message of the answer, runs of bytes included. */
  see(message: Payload): void
  /** What has been counted so far. */
  read(): Partial<Usage>
}

/** Combines the usage reports of one answer. */
export interface UsageReader {
  /** The usage so far, if this message reports some. Called once for each message, in order. */
  read(message: Payload): ReportedUsage
}

/** The bytes of a stream cannot be cut into events, or end within one. The message may be shown to clients. */
export class BrokenStream extends Error {}

/** Cuts bytes into events as they arrive. */
export interface EventCutter {
  /**
   * Takes the next bytes; they must not change afterwards, as events point into them.
   * @throws BrokenStream
   */
  push(chunk: Buffer): void
  /**
   * Called once, after the last bytes.
   * @throws BrokenStream when they end within an event
   */
  close(): void
  /** Whether an event has begun and not ended. */
  readonly begun: boolean
}

/** How an upstream frames its events when not as server-sent events. */
export interface UpstreamFraming {
  /** The media type of such a stream, in lower case and without parameters. */
  readonly mediaType: string
  /**
   * Makes the cutter of one stream. It calls `emit` with the payload and the name of each event, and with the bytes
   * that a client of the same protocol is sent for it; where there are no such clients, these are the payload.
   */
  cutter(emit: (data: Buffer, name: string, bytes: Buffer) => void): EventCutter
}

/** Writes a stream of events for a client that does not want server-sent events. */
export interface StreamFraming {
  /** The content type of the answer. */
  readonly contentType: string
  /** The bytes of the next event. */
  event(payload: string): string
  /** The end of a complete answer. It is not sent after a cut or an error, so that these do not look complete. */
  end(): string
  /** The body of an error before the answer has begun. */
  errorBody(error: unknown): unknown
}

/** A public model, as lists of models show it. */
export interface ListedModel {
  readonly name: string
  readonly ownedBy: string
  /** Unix seconds. */
  readonly created: number
  readonly contextWindow: number | undefined
  readonly maxOutputTokens: number | undefined
  /** `since` and `sunset` are Unix milliseconds. */
  readonly deprecated:
    | { readonly since: number; readonly sunset: number | undefined; readonly replacement: string | undefined }
    | undefined
}

/** A protocol of a client or an upstream. */
export interface Protocol {
  /** The family. Channels of this family speak the protocol natively. */
  readonly family: 'openai' | 'anthropic' | 'gemini' | 'bedrock'
  /** Headers of a client that are sent on to upstreams of the same protocol, in lower case. */
  readonly passedHeaders: readonly string[]
  /** Headers that an upstream requires, for clients that did not send them or speak another protocol. */
  readonly ownHeaders: Readonly<Record<string, string>>
  /** A watch for one stream. `request`: the body that it answers. */
  watch(request: Fields): StreamWatch
  /**
   * The payload of the event that ends a complete stream. It is added when an upstream leaves it out; undefined when
   * the protocol has none.
   */
  readonly endEvent: string | undefined
  /** The name of an event with this payload; absent when events have no names. */
  eventName?(payload: string): string
  /** For an upstream that sent a whole answer instead of a stream: the payloads of the stream. */
  chunksOf(answer: unknown): string[]
  /** For an upstream that streamed instead of sending a whole answer. */
  collect(): Collector
  /** The protocol's own statuses for errors that usually have another; absent when there are none. */
  readonly statuses?: Readonly<Record<number, number>>
  /** The body of an error reply. */
  errorBody(error: ShownError): unknown
  /**
   * The event that reports an error in mid-stream, framing included. `before`: how many events came before it, for
   * protocols that number them.
   */
  errorEvent(error: ShownError, before: number): string
  /**
   * Whether some clients take every stream that ends cleanly for a whole answer, so that the connection is broken after
   * an error event.
   */
  readonly breaksOff?: boolean
  /**
   * Reads an upstream's error body or event. `body`: parsed JSON, or text. `headers`: those that it came with, with
   * names in lower case; absent for events.
   */
  readError(body: unknown, headers?: ErrorHeaders): UpstreamError
  /** Whether a JSON body with status 200 really is an answer, and not an error or something else. */
  isAnswer(message: Payload): boolean
  /**
   * Why the prompt was blocked, where an answer or its first event says that and has nothing else; absent where an
   * upstream says so with an error.
   */
  blockOf?(message: Payload): string | undefined
  /** The usage that a message reports; undefined when it reports none. */
  readUsage(message: Payload): ReportedUsage
  /** Combines the usage of an answer that is spread over several messages; absent when every report is complete. */
  usageReader?(): UsageReader
  /** The member that makes a streaming upstream report usage, with its new value; undefined when none is needed. */
  askForUsage(fields: Fields): { key: string; json: string } | undefined
  /**
   * For a client that did not ask for usage: the payload without it, undefined when there is none to remove, or
   * `nothing` when the event holds nothing else.
   */
  withoutUsage(event: Payload): Buffer | 'nothing' | undefined
  /**
   * Counts what usage may lack. `request`: the body that is answered. Absent when the upstream's report is all there
   * is.
   */
  tally?(request: Fields): Tally
  /**
   * The bytes of text in an answer or an event, in UTF-8: text, reasoning and arguments. For estimates when an upstream
   * reports no usage.
   */
  answerBytes(body: unknown): number
  /**
   * Members of answers and events that are objects whose members are read, too. What has one of them twice there, or at
   * its top, is refused, as every reader could take another one.
   */
  readonly looksInto?: readonly string[]
  /** Where answers and events name the model: a member, or a member of a member. Absent: in `model`. */
  readonly modelPlaces?: readonly (readonly [string] | readonly [string, string])[]
  /**
   * Where answers and events may report a failure although they count as an answer: the path of members, in which `*`
   * stands for each element of a list. Absent: nowhere.
   */
  readonly errorPlaces?: readonly (readonly string[])[]
  /** Absent when all upstreams send server-sent events. */
  readonly framing?: UpstreamFraming
  /** Absent for protocols without sessions. */
  readonly frames?: FrameProtocol
  /** Absent when the text cannot be found yet. A plugin that has to see the text then lets no answer pass. */
  readonly text?: ProtocolText
}
