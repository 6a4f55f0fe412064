// The stages through which a plugin sees or changes the body of an answer.
import type { Protocol, TextBlock, TextPart } from '../protocols/index.ts'
import type { Message } from './message.ts'

export type { TextBlock, TextKind, TextPart } from '../protocols/index.ts'

/** Hands a message on towards the client. */
export type Emit = (message: Message) => void

/**
 * The messages that a stage takes. `messages`: events, and answers that are one JSON value, held until they are whole.
 * `files`: also runs of bytes that are not JSON, such as sound. `runs`: also runs of JSON that is too large to be held.
 * `frames`: also the frames of sessions, from both sides. An answer or session that a stage does not take is refused
 * with `answer_not_inspected`, so that nothing passes a stage unseen. Frames of the client go down the chain and those
 * of the upstream go up; an emitted frame goes in the direction of its `from`.
 */
export type Takes = 'messages' | 'files' | 'runs' | 'frames'

/** Sees messages without changing them. Takes `runs` unless it says otherwise. */
export interface Observer {
  readonly takes?: Takes
  /**
   * True promises that the stage keeps neither a message nor a view of its bytes after the call that brought it. Events
   * and runs of bytes are then not copied for it: what it kept would change, to bytes of other answers.
   */
  readonly borrows?: true
  observe(message: Message): void
  end?(complete: boolean): void
}

/**
 * Decides what goes on: it emits the message itself (its bytes unchanged), other messages in its place, or none. An
 * answer of one message must stay one message, which may be kept and emitted at the end. Takes `messages` unless it
 * says otherwise.
 */
export interface Mapper {
  readonly takes?: Takes
  /** As of an {@link Observer}; and that it emits messages only during that call. */
  readonly borrows?: true
  /** The protocol of the messages that it emits, when the messages it takes are of another protocol. */
  readonly speaks?: Protocol
  map(message: Message, emit: Emit): void
  /**
   * For an answer of one message, asked before `map`. A promise of the replacement, which is made outside the event
   * loop because it takes long; `map` is then not called. `end` waits for the promise, and drops its result when
   * `complete` is false. Not asked when an earlier stage kept the message until the end.
   */
  mapBeside?(message: Message): Promise<Message> | undefined
  /**
   * Messages emitted here go before the end marker of a stream, although the stage has seen that marker as its last
   * message.
   */
  end?(complete: boolean, emit: Emit): void
}

/**
 * Reads and changes the text of an answer, in any protocol, whole or streamed. Text is what the model says: the answer
 * itself, its reasoning, refusals, and the arguments of tools as JSON text.
 */
export interface TextStage {
  /**
   * When true, `text` is called once per block, with the whole text. The block is held until it ends, and refused when
   * it is too large.
   */
  readonly whole?: boolean
  /**
   * When true, content that is not text passes unseen: an answer of sound, the sound of a session, or a protocol whose
   * texts the gateway cannot find. Otherwise such answers are refused with `answer_not_inspected`.
   */
  readonly skip?: boolean
  /**
   * Takes the next part of the text of a block. The returned string replaces it; return less to hold the rest back for
   * the next call, or the empty string for nothing. Undefined leaves the text as it is. Throw a GatewayError to block
   * the answer.
   */
  text(part: TextPart): string | void
  /**
   * Called when a block that had text ends. The returned string is added to the block, before the event that ends it.
   */
  flush?(block: TextBlock): string | void
}

/**
 * A stage is synchronous except for {@link Mapper.mapBeside}, and is called in order, once per message. `end` runs
 * exactly once, after the last message, also when the answer was cut (`complete` is false) or the client left. A
 * GatewayError that a stage throws fails its exchange; any other error fails it with `internal_error` and is logged
 * with the plugin's name.
 */
export type Stage = Observer | Mapper | TextStage
