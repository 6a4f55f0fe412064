// Finds and edits text in completions: in the prompts, and in the choices of an answer, whole or in chunks.
import { editedList, editedMember, editedText } from '../text/edits.ts'
import { asObject } from '../object.ts'
import type { JsonObject } from '../object.ts'
import { plainText } from '../text/plain-text.ts'
import type { AnswerText, EditedEvent, Payload, ProtocolText, TextBlock, TextEditor, TextEvent } from '../protocol.ts'

/** https://platform.openai.com/docs/api-reference/completions */
export const completionsText: ProtocolText = {
  ...plainText({ prompt: ['prompt', 'suffix'] }),
  answer: () => new ChoicesText()
}

/** Edits the choices of one answer. Each is one block. */
class ChoicesText implements AnswerText {
  readonly #open = new Map<number, TextBlock>()
  /** The latest chunk without its choices. */
  #head: JsonObject = {}

  event(event: Payload, editor: TextEditor): EditedEvent | undefined {
    const body = asObject(event.json())
    const data = body && this.#edited(body, editor, false)
    return data && { before: [], data }
  }

  end(editor: TextEditor): readonly TextEvent[] {
    const choices = [...this.#open.keys()].flatMap((index) => {
      const text = this.#end(index, editor)
      return text === '' ? [] : [{ index, text, logprobs: null, finish_reason: null }]
    })
    return choices.length > 0 ? [{ data: JSON.stringify({ ...this.#head, choices }) }] : []
  }

  whole(answer: Payload, editor: TextEditor): Buffer | undefined {
    const body = asObject(answer.json())
    return body && this.#edited(body, editor, true)
  }

  #edited(body: JsonObject, editor: TextEditor, whole: boolean): Buffer | undefined {
    const { choices: _choices, usage: _usage, ...head } = body
    this.#head = head
    const made = editedMember(body, 'choices', (choices) =>
      editedList(choices, (choice, at) => {
        const index = typeof choice['index'] === 'number' ? choice['index'] : at
        const said = editedText(choice, 'text', (text) => editor.text({ ...this.#blockOf(index), text }))
        const tail = whole || choice['finish_reason'] != null ? this.#end(index, editor) : ''
        const changed =
          tail === '' ? said : { ...said, text: `${typeof said['text'] === 'string' ? said['text'] : ''}${tail}` }
        // Log probabilities repeat the original words.
        return changed === choice || choice['logprobs'] == null ? changed : { ...changed, logprobs: null }
      })
    )
    return made === body ? undefined : Buffer.from(JSON.stringify(made))
  }

  #blockOf(index: number): TextBlock {
    let block = this.#open.get(index)
    if (!block) this.#open.set(index, (block = { block: `${index}.text`, kind: 'text' }))
    return block
  }

  #end(index: number, editor: TextEditor): string {
    const block = this.#open.get(index)
    this.#open.delete(index)
    return block ? editor.end(block) : ''
  }
}
