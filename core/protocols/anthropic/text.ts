// Finds and edits text in Anthropic's Messages: in the blocks of a prompt and of an answer, and in the deltas of a
// stream.
import { editedJson, editedList, editedMember, editedText } from '../text/edits.ts'
import { asObject, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type {
  AnswerText,
  EditedEvent,
  Members,
  Payload,
  ProtocolText,
  TextBlock,
  TextEditor,
  TextEvent,
  TextKind,
  TextPart
} from '../protocol.ts'

/** Edits one text. `place`: where it stands inside its block. */
type Edit = (place: string, kind: TextKind, text: string) => string

/** https://platform.claude.com/docs/en/api/messages */
export const messagesText: ProtocolText = { answer: () => new MessageText(), prompt: editPrompt }

/** Members of blocks and deltas that hold text, and the kind of each. */
const kinds: ReadonlyMap<string, TextKind> = new Map([
  ['text', 'text'],
  ['thinking', 'reasoning'],
  ['partial_json', 'arguments'],
  ['content', 'text'],
  ['title', 'text'],
  ['context', 'text'],
  ['stdout', 'text'],
  ['stderr', 'text']
])

/** A block with its texts edited. `place`: a prefix for the names of texts in nested blocks. */
function editedBlock(block: JsonObject, edit: Edit, place = ''): JsonObject {
  let made = block
  for (const [member, kind] of kinds) {
    const name = `${place}${member}`
    made = editedText(made, member, (text) => edit(name, kind, text))
    made = editedMember(made, member, (value) => editedInside(value, edit, name))
  }
  if (block['type'] === 'document') {
    made = editedMember(made, 'source', (value) => {
      const source = asObject(value)
      if (source?.['type'] === 'text') return editedText(source, 'data', (text) => edit(`${place}source`, 'text', text))
      return source
        ? editedMember(source, 'content', (content) =>
            typeof content === 'string'
              ? edit(`${place}source`, 'text', content)
              : editedInside(content, edit, `${place}source`)
          )
        : value
    })
  }
  return editedMember(made, 'input', (value) => {
    const input = asObject(value)
    return input ? editedJson(input, (text) => edit(`${place}input`, 'arguments', text)) : value
  })
}

/** Edits a member that is a list of blocks or a single block: results of tools have either. */
function editedInside(value: unknown, edit: Edit, name: string): unknown {
  const object = asObject(value)
  if (object) return editedBlock(object, edit, `${name}.`)
  return editedList(value, (block, at) => editedBlock(block, edit, `${name}.${at}.`))
}

class MessageText implements AnswerText {
  /** By index of a block, its texts that have begun and not ended: the kind of each by its place. */
  readonly #open = new Map<number, Map<string, TextKind>>()

  event(event: Payload, editor: TextEditor): EditedEvent | undefined {
    const body = asObject(event.json())
    const index = typeof body?.['index'] === 'number' ? body['index'] : 0
    const before: TextEvent[] = []
    const made = body && this.#edited(body, index, editor, before)
    if (made === body && before.length === 0) return undefined
    return { before, data: made === body ? undefined : Buffer.from(JSON.stringify(made)) }
  }

  end(editor: TextEditor): readonly TextEvent[] {
    const events: TextEvent[] = []
    for (const index of this.#open.keys()) this.#end(index, editor, events)
    return events
  }

  whole(answer: Payload, editor: TextEditor): Buffer | undefined {
    const body = asObject(answer.json())
    if (!body) return undefined
    const made = editedMember(body, 'content', (content) =>
      editedList(content, (block, at) =>
        editedBlock(block, (place, kind, text) => {
          const part = { block: `${at}.${place}`, kind }
          return editor.text({ ...part, text }) + editor.end(part)
        })
      )
    )
    return made === body ? undefined : Buffer.from(JSON.stringify(made))
  }

  #edited(body: JsonObject, index: number, editor: TextEditor, before: TextEvent[]): JsonObject {
    switch (body['type']) {
      case 'content_block_start':
        return editedMember(body, 'content_block', (value) => {
          const block = asObject(value)
          return block
            ? editedBlock(block, (place, kind, text) => this.#begin(index, place, kind, text, editor))
            : value
        })
      case 'content_block_delta':
        return editedMember(body, 'delta', (value) => {
          const delta = asObject(value)
          // The signature of a thought comes after all of its text.
          if (delta?.['type'] === 'signature_delta') this.#end(index, editor, before)
          return delta ? this.#delta(delta, index, editor) : value
        })
      case 'content_block_stop': {
        this.#end(index, editor, before)
        return body
      }
      default:
        return body
    }
  }

  /** Edits the text that a block begins with. Text and thoughts may continue in deltas; other texts are complete. */
  #begin(index: number, place: string, kind: TextKind, text: string, editor: TextEditor): string {
    // The input of a call begins as an empty object, before the real one comes.
    if (place === 'input' && text === '{}') return text
    if (place === 'text' || place === 'thinking') return editor.text({ ...this.#blockOf(index, place, kind), text })
    const block = blockAt(index, place, kind)
    return editor.text({ ...block, text }) + editor.end(block)
  }

  #delta(delta: JsonObject, index: number, editor: TextEditor): JsonObject {
    let made = delta
    for (const [member, kind] of kinds) {
      made = editedText(made, member, (text) => editor.text({ ...this.#blockOf(index, member, kind), text }))
    }
    return made
  }

  #blockOf(index: number, place: string, kind: TextKind): TextBlock {
    let open = this.#open.get(index)
    if (!open) this.#open.set(index, (open = new Map()))
    open.set(place, kind)
    return blockAt(index, place, kind)
  }

  /** Ends the texts of a block. What the editor still holds back of a text is sent as a delta. */
  #end(index: number, editor: TextEditor, events: TextEvent[]): void {
    const open = this.#open.get(index)
    this.#open.delete(index)
    for (const [place, kind] of open ?? []) {
      const tail = editor.end(blockAt(index, place, kind))
      if (tail !== '')
        events.push({
          event: 'content_block_delta',
          data: JSON.stringify({ type: 'content_block_delta', index, delta: deltaOf(place, tail) })
        })
    }
  }
}

function blockAt(index: number, place: string, kind: TextKind): TextBlock {
  return { block: `${index}.${place}`, kind }
}

function deltaOf(place: string, text: string): JsonObject {
  if (place === 'thinking') return { type: 'thinking_delta', thinking: text }
  if (place === 'partial_json') return { type: 'input_json_delta', partial_json: text }
  return { type: 'text_delta', text }
}

function editPrompt(body: Members, edit: (part: TextPart) => string): void {
  const system = body.json('system')
  const shown =
    (at: string, role: string): Edit =>
    (place, kind, text) =>
      edit({ block: `${at}.${place}`, kind, role, text })
  const instructed =
    typeof system === 'string' && system !== ''
      ? edit({ block: 'system', kind: 'text', role: 'system', text: system })
      : editedList(system, (block, at) => editedBlock(block, shown(`system.${at}`, 'system')))
  if (instructed !== system) body.set('system', instructed)
  const messages = body.json('messages')
  const made = editedList(messages, (message, at) => {
    const role = asText(message['role'])
    const said = editedText(message, 'content', (text) => edit({ block: `${at}.content`, kind: 'text', role, text }))
    return editedMember(said, 'content', (content) =>
      editedList(content, (block, place) =>
        editedBlock(block, shown(`${at}.${place}`, block['type'] === 'tool_result' ? 'tool' : role))
      )
    )
  })
  if (made !== messages) body.set('messages', made)
}
