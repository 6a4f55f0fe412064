// Finds and edits text in chat completions: in the messages of a prompt, in whole answers and in the chunks of a
// stream.
import { withMembers } from '../../bodies/splice.ts'
import { editedList, editedMember as editedIn, withoutPlace } from '../text/edits.ts'
import { asObject } from '../object.ts'
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

type Fields = Record<string, unknown>

/**
 * Text members of a message that are not said by anybody. All other text members count as text, as vendors add their
 * own.
 */
const words = new Set(['role', 'type', 'id', 'name', 'tool_call_id', 'index'])
const kinds = new Map<string, TextKind>([
  ['content', 'text'],
  ['text', 'text'],
  ['transcript', 'text'],
  ['refusal', 'refusal'],
  ['arguments', 'arguments'],
  ['input', 'arguments']
])

/** A text in a message or delta. */
interface Place {
  /** Unique in its message, such as `content` or `tool_calls.0.arguments`. */
  readonly name: string
  readonly kind: TextKind
  readonly text: string
  /** A delta with only this text, in the same place. */
  alone(text: string): Fields
}

/** https://platform.openai.com/docs/api-reference/chat/object */
export const chatText: ProtocolText = { answer: () => new ChatAnswerText(), prompt: editPrompt }

/** A message or delta with its texts edited; the same object when nothing changed. */
function edited(message: Fields, edit: (place: Place) => string): Fields {
  let made = message
  for (const [key, value] of Object.entries(message)) {
    const changed = editedMember(key, value, edit)
    if (changed !== value) made = { ...made, [key]: changed }
  }
  return made
}

function editedMember(key: string, value: unknown, edit: (place: Place) => string): unknown {
  if (typeof value === 'string') {
    return words.has(key)
      ? value
      : edit({ name: key, kind: kinds.get(key) ?? 'reasoning', text: value, alone: (text) => ({ [key]: text }) })
  }
  if (key === 'tool_calls')
    return editedList(value, (call, at) =>
      editedCall(call, `tool_calls.${numberOf(call['index'], at)}`, edit, (inner) => ({
        tool_calls: [{ index: numberOf(call['index'], at), ...inner }]
      }))
    )
  if (key === 'function_call' && asObject(value))
    return editedInner(value as Fields, key, edit, (inner) => ({ function_call: inner }))
  if (key === 'audio' && asObject(value))
    return editedText(value as Fields, 'transcript', `${key}.transcript`, edit, (inner) => ({ audio: inner }))
  // The parts of a content, and the lists in which some vendors send reasoning.
  const kind = kinds.get(key) ?? 'reasoning'
  return editedList(value, (part, at) =>
    ['text', 'refusal', 'summary', 'thinking'].reduce(
      (made, member) =>
        editedText(
          made,
          member,
          `${key}.${numberOf(part['index'], at)}.${member}`,
          edit,
          (inner) => ({ [key]: [{ ...shell(part), ...inner }] }),
          member === 'refusal' ? 'refusal' : kind
        ),
      part
    )
  )
}

/** The members that identify a part. */
function shell({ type, index }: Fields): Fields {
  return { ...(type !== undefined && { type }), ...(index !== undefined && { index }) }
}

function editedCall(
  call: Fields,
  name: string,
  edit: (place: Place) => string,
  around: (inner: Fields) => Fields
): Fields {
  let made = call
  for (const key of ['function', 'custom']) {
    const inner = asObject(call[key])
    if (!inner) continue
    const changed = editedInner(inner as Fields, name, edit, (member) => around({ [key]: member }))
    if (changed !== inner) made = { ...made, [key]: changed }
  }
  return made
}

function editedInner(
  inner: Fields,
  name: string,
  edit: (place: Place) => string,
  around: (inner: Fields) => Fields
): Fields {
  return ['arguments', 'input'].reduce(
    (made, member) => editedText(made, member, `${name}.${member}`, edit, around),
    inner
  )
}

/** The object with one text member edited, if it has it. */
function editedText(
  object: Fields,
  member: string,
  name: string,
  edit: (place: Place) => string,
  around: (inner: Fields) => Fields,
  kind = kinds.get(member) ?? 'text'
): Fields {
  const text = object[member]
  if (typeof text !== 'string') return object
  const changed = edit({ name, kind, text, alone: (alone) => around({ [member]: alone }) })
  return changed === text ? object : { ...object, [member]: changed }
}

function numberOf(index: unknown, otherwise: number): number {
  return typeof index === 'number' ? index : otherwise
}

/** A block that has not ended, and the place where more of its text goes. */
interface OpenBlock {
  readonly block: TextBlock
  readonly place: Place
}

/** The blocks of one choice. */
interface ChoiceText {
  readonly open: Map<string, OpenBlock>
  /** How many blocks each place has had: after text in another place a new block begins. */
  readonly begun: Map<string, number>
  /** Whether any of its text was changed. */
  changed: boolean
}

class ChatAnswerText implements AnswerText {
  readonly #choices = new Map<number, ChoiceText>()
  /** The latest event without its choices. */
  #head: Fields = {}

  event(event: Payload, editor: TextEditor): EditedEvent | undefined {
    const body = asObject(event.json())
    const choices = body?.['choices']
    if (!body || !Array.isArray(choices)) return undefined
    const { choices: _choices, usage: _usage, ...head } = body as Fields
    this.#head = head
    const before: TextEvent[] = []
    const made = editedList(choices, (choice, at) =>
      this.#choice(choice, numberOf(choice['index'], at), editor, before)
    )
    const data = made === choices ? undefined : withChoices(event, made)
    return data || before.length > 0 ? { before, data } : undefined
  }

  end(editor: TextEditor): readonly TextEvent[] {
    const events: TextEvent[] = []
    for (const [index, { open }] of this.#choices)
      for (const name of open.keys()) this.#end(index, name, editor, events)
    return events
  }

  whole(answer: Payload, editor: TextEditor): Buffer | undefined {
    const choices = asObject(answer.json())?.['choices']
    const made = editedList(choices, (choice, at) => {
      const index = numberOf(choice['index'], at)
      const message = asObject(choice['message'])
      if (!message) return choice
      const changed = edited(message as Fields, ({ name, kind, text }) => {
        if (text === '') return ''
        const block = { block: `${index}.${name}`, kind }
        return editor.text({ ...block, text }) + editor.end(block)
      })
      return changed === message ? choice : withoutChances({ ...choice, message: withoutPlaces(changed) })
    })
    return made === choices ? undefined : withChoices(answer, made)
  }

  #choice(choice: Fields, index: number, editor: TextEditor, before: TextEvent[]): Fields {
    const delta = asObject(choice['delta']) as Fields | undefined
    const here = new Set<string>()
    const over = new Set<string>()
    let changed =
      delta &&
      edited(delta, (place) => {
        // An empty string opens or closes a choice, and is no text.
        if (place.text === '') return ''
        here.add(place.name)
        return editor.text({ ...this.#blockOf(index, place, over), text: place.text })
      })
    const ends = choice['finish_reason'] != null
    // A call ends the text before it, even before its arguments begin.
    const calls = delta?.['tool_calls'] != null || delta?.['function_call'] != null
    if (ends || calls)
      for (const [name, { block }] of this.#choices.get(index)?.open ?? [])
        if (ends || block.kind !== 'arguments') over.add(name)
    for (const name of over) {
      if (!here.has(name)) this.#end(index, name, editor, before)
      else
        changed = edited(changed!, (place) =>
          place.name === name ? place.text + this.#tail(index, name, editor) : place.text
        )
    }
    const said = this.#choices.get(index)
    if (said && changed !== delta) said.changed = true
    const shown = said?.changed && changed ? withoutPlaces(changed) : changed
    return shown === delta
      ? choice
      : changed === delta
        ? { ...choice, delta: shown }
        : withoutChances({ ...choice, delta: shown })
  }

  /**
   * The block that a text belongs to. It ends the choice's blocks in other places, except calls, which may be parallel.
   */
  #blockOf(index: number, place: Place, over: Set<string>): TextBlock {
    let choice = this.#choices.get(index)
    if (!choice) this.#choices.set(index, (choice = { open: new Map(), begun: new Map(), changed: false }))
    const known = choice.open.get(place.name)
    if (known) return known.block
    for (const [name, { block }] of choice.open) if (block.kind !== 'arguments') over.add(name)
    const count = choice.begun.get(place.name) ?? 0
    choice.begun.set(place.name, count + 1)
    const block = { block: `${index}.${place.name}${count === 0 ? '' : `.${count}`}`, kind: place.kind }
    choice.open.set(place.name, { block, place })
    return block
  }

  /** Ends a block. What the editor holds back is sent in an event of its own. */
  #end(index: number, name: string, editor: TextEditor, before: TextEvent[]): void {
    const { place } = this.#choices.get(index)!.open.get(name)!
    const tail = this.#tail(index, name, editor)
    if (tail !== '')
      before.push({
        data: JSON.stringify({ ...this.#head, choices: [{ index, delta: place.alone(tail), finish_reason: null }] })
      })
  }

  #tail(index: number, name: string, editor: TextEditor): string {
    const { open } = this.#choices.get(index)!
    const { block } = open.get(name)!
    open.delete(name)
    return editor.end(block)
  }
}

/** Removes log probabilities, as they repeat the original words. */
function withoutChances(choice: Fields): Fields {
  return choice['logprobs'] == null ? choice : { ...choice, logprobs: null }
}

/** Removes the offsets of citations, as the text has changed. */
function withoutPlaces(message: Fields): Fields {
  return editedIn(message, 'annotations', (value) =>
    editedList(value, (annotation) =>
      editedIn(annotation, 'url_citation', (cited) => (asObject(cited) ? withoutPlace(asObject(cited)!) : cited))
    )
  )
}

/** The payload with other choices. All other bytes stay as they are, if a lens can read the payload. */
function withChoices(payload: Payload, choices: unknown): Buffer {
  const { lens } = payload
  if (lens) return Buffer.concat(withMembers(lens, new Map([['choices', JSON.stringify(choices)]])))
  return Buffer.from(JSON.stringify({ ...(payload.json() as Fields), choices }))
}

function editPrompt(body: Members, edit: (part: TextPart) => string): void {
  const messages = body.json('messages')
  const made = editedList(messages, (message, at) => {
    const role = typeof message['role'] === 'string' ? message['role'] : undefined
    return edited(message, ({ name, kind, text }) => edit({ block: `${at}.${name}`, kind, role, text }))
  })
  if (made !== messages) body.set('messages', made)
}
