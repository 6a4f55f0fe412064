// A plugin's part in the body of an answer.
import type { Protocol, TextBlock, TextPart } from '../protocols/index.ts'
import type { Message } from './message.ts'

export type { TextBlock, TextKind, TextPart } from '../protocols/index.ts'

/** Hands a message on towards the client. */
export type Emit = (message: Message) => void

/**
 * What a stage can see. `messages`: events, and answers that are one JSON value; such an answer is held until it is
 * whole. `files`: also runs of what is no JSON, such as sound. `runs`: also those of JSON that is too large to be held.
 * An answer that comes in runs is refused with `answer_not_inspected` when a stage does not take them: nothing passes a
 * stage unseen. `frames`: also those of sessions, from both sides, which are refused likewise: a client's go down the
 * chain, an upstream's up, and what is emitted goes where its `from` says.
 */
export type Takes = 'messages' | 'files' | 'runs' | 'frames'

/** Looks on: bytes go straight through, whatever it does. Takes runs unless it says otherwise. */
export interface Observer {
  readonly takes?: Takes
  observe(message: Message): void
  end?(complete: boolean): void
}

/**
 * Decides what goes on: emits the message itself (its bytes untouched), others in its place, or nothing. An answer that
 * is one message stays one: it may be kept, and emitted at the end. Takes messages unless it says otherwise.
 */
export interface Mapper {
  readonly takes?: Takes
  /** What it emits is of this protocol, and what it takes of another. */
  readonly speaks?: Protocol
  map(message: Message, emit: Emit): void
  /**
   * Of an answer that is one message: asked before `map`, which is not called when this gives a promise of what goes on
   * in the message's place, made beside the event loop because it takes long. `end` waits for it, and drops it where it
   * comes with `complete` false. Not asked for a message that a stage before kept until the end.
   */
  mapBeside?(message: Message): Promise<Message> | undefined
  /** What it emits comes before the end marker of a stream, which the stage has seen by then as the last message. */
  end?(complete: boolean, emit: Emit): void
}

/**
 * Reads the text of an answer and changes it, in whatever protocol and whether it comes as a whole or in events. Text
 * is what the model says: the answer itself, its reasoning, refusals, and the arguments of tools as the JSON text they
 * are.
 */
export interface TextStage {
  /**
   * With true, `text` is called once for each block, with all of it: the block is held until it ends, and refused when
   * it is too large.
   */
  readonly whole?: boolean
  /**
   * With true, what is no text passes unseen: an answer of sound, the sound of a session, a protocol of which nobody
   * knows where its text stands. Without it, such answers are refused with `answer_not_inspected`.
   */
  readonly skip?: boolean
  /**
   * The next run of text, in the order of its block. Returns what goes on in its place: less when the rest is held back
   * for the next call, the empty string for nothing. Nothing returned: as it came. Throw a GatewayError to block the
   * answer.
   */
  text(part: TextPart): string | void
  /**
   * The block ends: what is returned is added to it, before the event that ends it. Once for each block that had text.
   */
  flush?(block: TextBlock): string | void
}

/**
 * Synchronous but for {@link Mapper.mapBeside}, called in order, once for each message. `end` runs exactly once after
 * the last message, also when the answer was cut (`complete` false) or the client left. What a stage throws fails its
 * exchange: a GatewayError with that, anything else with `internal_error`, logged with the plugin's name.
 */
export type Stage = Observer | Mapper | TextStage
