// Makes a stage that works on messages of one that works on their text.
import type { Emit, Mapper, TextStage } from '../../contract/contract.ts'
import { Message } from '../../contract/message.ts'
import { GatewayError } from '../../errors.ts'
import { checkSynchronous } from '../../contract/synchronous.ts'
import { Uninspectable } from '../../protocols/index.ts'
import type { Protocol, TextBlock, TextEditor, TextEvent, TextPart } from '../../protocols/index.ts'

/**
 * Of the text that is held back for a stage that takes whole blocks, in characters, all blocks of an answer together.
 */
const heldCharacters = 8 * 1024 * 1024

/** Gives a plugin each run of text as it comes. */
class Runs implements TextEditor {
  readonly #stage: TextStage

  constructor(stage: TextStage) {
    this.#stage = stage
  }

  get skips(): boolean | undefined {
    return this.#stage.skip
  }

  text(part: TextPart): string {
    return textIn(this.#stage.text(part), part.text)
  }

  end(block: TextBlock): string {
    return textIn(this.#stage.flush?.(block), '')
  }
}

/** Gives a plugin each block when it is whole. */
class WholeBlocks implements TextEditor {
  readonly #plugin: string
  readonly #stage: TextStage
  readonly #held = new Map<string, string[]>()
  #length = 0

  constructor(plugin: string, stage: TextStage) {
    this.#plugin = plugin
    this.#stage = stage
  }

  get skips(): boolean | undefined {
    return this.#stage.skip
  }

  text({ block, text }: TextPart): string {
    this.#length += text.length
    if (this.#length > heldCharacters)
      throw uninspected(this.#plugin, `this answer has more than ${heldCharacters} characters of it`)
    const held = this.#held.get(block)
    if (held) held.push(text)
    else this.#held.set(block, [text])
    return ''
  }

  end(block: TextBlock): string {
    const text = this.#held.get(block.block)!.join('')
    this.#held.delete(block.block)
    return textIn(this.#stage.text({ ...block, text }), text) + textIn(this.#stage.flush?.(block), '')
  }
}

/**
 * A plugin's stage, for messages of this protocol; undefined when it has nothing to see there and skips that. What the
 * plugin throws goes through.
 */
export function textStage(plugin: string, stage: TextStage, protocol: Protocol): Mapper | undefined {
  const answer = protocol.text?.answer()
  if (!answer) {
    if (stage.skip) return undefined
    throw uninspected(plugin, 'where that stands in this protocol is not known')
  }
  const editor = stage.whole ? new WholeBlocks(plugin, stage) : new Runs(stage)
  const shown = <T>(show: () => T): T => {
    try {
      return show()
    } catch (error) {
      throw error instanceof Uninspectable ? uninspected(plugin, error.message) : error
    }
  }
  const emitAll = (events: readonly TextEvent[], emit: Emit): void => {
    for (const { event, data } of events)
      emit(protocol.frames ? Message.frame(data, 'upstream') : Message.event(data, event))
  }
  return {
    takes: protocol.frames ? 'frames' : stage.skip ? 'files' : 'messages',
    map(message, emit) {
      if (message.from === 'client' || message.kind === 'bytes') return emit(message)
      if (message.kind === 'json') {
        const data = shown(() => answer.whole(message, editor))
        return emit(data ? message.withData(data) : message)
      }
      const edited = shown(() => answer.event(message, editor))
      if (edited) emitAll(edited.before, emit)
      emit(edited?.data ? message.withData(edited.data) : message)
    },
    end(complete, emit) {
      if (complete)
        emitAll(
          shown(() => answer.end(editor)),
          emit
        )
    }
  }
}

/**
 * The text that a function of a stage returned, or `otherwise`.
 * @throws TypeError when it returned anything else
 */
function textIn(returned: unknown, otherwise: string): string {
  const text = returned ?? otherwise
  if (typeof text === 'string') return text
  checkSynchronous(text, 'a stage')
  throw new TypeError(`a stage returns a string or nothing, and this one returned a value of type ${typeof text}`)
}

function uninspected(plugin: string, why: string): GatewayError {
  const cause = new Error(`the plugin ${plugin} takes text, and ${why}`)
  return new GatewayError('answer_not_inspected', 'The answer cannot be inspected, which this gateway has to do.', {
    cause
  })
}
