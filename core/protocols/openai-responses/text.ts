// Finds and edits text in Responses: in the input of a prompt, in the items of a response, and in events, which have a
// text in pieces and repeat it as a whole.
import { withMembers } from '../../bodies/splice.ts'
import { mostKept } from '../canonical/codec.ts'
import { editedList, withoutPlace } from '../text/edits.ts'
import { asObject, asText } from '../object.ts'
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
import { Uninspectable } from '../text/uninspectable.ts'

type Fields = Record<string, unknown>

/** https://platform.openai.com/docs/api-reference/responses/object */
export const responsesText: ProtocolText = { answer: () => new ResponseText(), prompt: editPrompt }

/** A text of an item. */
interface Place {
  /** Unique in its item, such as `content.0`, `summary.1` or `arguments`. */
  readonly name: string
  readonly kind: TextKind
  readonly text: string
}

type Edit = (place: Place) => string

/** Members of items that are texts, and then members of the parts in their lists. */
const itemTexts = new Map<string, TextKind>([
  ['arguments', 'arguments'],
  ['input', 'arguments'],
  ['code', 'arguments'],
  ['output', 'text'],
  ['content', 'text'],
  ['revised_prompt', 'text']
])
const partTexts = new Map<string, TextKind>([
  ['text', 'text'],
  ['refusal', 'refusal'],
  ['transcript', 'text']
])
const lists = ['content', 'summary', 'output'] as const

/** An item with its texts edited; the same object when nothing changed. */
function editedItem(item: Fields, edit: Edit): Fields {
  let made = item
  for (const [name, kind] of itemTexts) made = editedMember(made, name, { name, kind }, edit)
  for (const list of lists) {
    const parts = item[list]
    const thoughts = item['type'] === 'reasoning'
    const changed = editedList(parts, (part, at) => editedPart(part, `${list}.${at}`, thoughts, edit))
    if (changed !== parts) made = { ...made, [list]: changed }
  }
  return made
}

function editedPart(part: Fields, name: string, thoughts: boolean, edit: Edit): Fields {
  let made = part
  for (const [member, kind] of partTexts)
    made = editedMember(made, member, { name, kind: thoughts ? 'reasoning' : kind }, edit)
  if (made === part) return part
  // Log probabilities repeat the original words, and citations have offsets in them.
  const cited = editedList(part['annotations'], withoutPlace)
  return {
    ...made,
    ...(part['logprobs'] !== undefined && { logprobs: [] }),
    ...(cited !== undefined && { annotations: cited })
  }
}

function editedMember(fields: Fields, member: string, place: Omit<Place, 'text'>, edit: Edit): Fields {
  const text = fields[member]
  if (typeof text !== 'string' || text === '') return fields
  const changed = edit({ ...place, text })
  return changed === text ? fields : { ...fields, [member]: changed }
}

/**
 * Families of events: the member of the item that each is about, and its kind. Families with other names are thoughts.
 */
const families = new Map<string, { member: string; kind: TextKind }>([
  ['output_text', { member: 'content', kind: 'text' }],
  ['refusal', { member: 'content', kind: 'refusal' }],
  // In realtime sessions: the words of a spoken answer, and then two earlier names.
  ['output_audio_transcript', { member: 'content', kind: 'text' }],
  ['audio_transcript', { member: 'content', kind: 'text' }],
  ['text', { member: 'content', kind: 'text' }],
  ['reasoning_text', { member: 'content', kind: 'reasoning' }],
  ['reasoning_summary_text', { member: 'summary', kind: 'reasoning' }],
  ['function_call_arguments', { member: 'arguments', kind: 'arguments' }],
  ['mcp_call_arguments', { member: 'arguments', kind: 'arguments' }],
  ['custom_tool_call_input', { member: 'input', kind: 'arguments' }],
  ['code_interpreter_call_code', { member: 'code', kind: 'arguments' }]
])
/** Families of events with sound, which is no text. */
const sounds: ReadonlySet<string> = new Set(['audio', 'output_audio'])
/** The members in which the last event of a text repeats it. */
const doneMembers = ['text', 'refusal', 'arguments', 'input', 'code', 'transcript'] as const

/** A text that has begun: its edited form, and how to send more of it. */
interface Told {
  readonly block: TextBlock
  edited: string
  changed: boolean
  ended: boolean
  /** An event with a delta of this text, without the delta; undefined when there has been none. */
  delta: Fields | undefined
  /** The sequence number of the latest such event. */
  number: unknown
}

/** How texts of one answer are told apart. */
export interface Keys {
  /** The key of the item that an event is about. */
  of(event: Fields): string
  /** The key of an item in a whole answer, at its place in the list. */
  ofItem(item: Fields, at: number): string
}

/** Within one response, items are known by their place. */
const byPlace: Keys = { of: (event) => String(numberOf(event['output_index'])), ofItem: (_item, at) => String(at) }

/** Edits the text of one response. With other `keys` it edits several responses of one connection. */
export class ResponseText implements AnswerText {
  readonly #keys: Keys
  readonly #told = new Map<string, Told>()
  #kept = 0
  /** How many events were inserted. Later sequence numbers grow by that. */
  #added = 0

  constructor(keys = byPlace) {
    this.#keys = keys
  }

  event(event: Payload, editor: TextEditor): EditedEvent | undefined {
    const body = asObject(event.json()) as Fields | undefined
    if (!body) return undefined
    const before: TextEvent[] = []
    const made = this.#edited(body, editor, before)
    const data = made === body && this.#added === 0 ? undefined : this.#numbered(event, body, made, before.length)
    this.#added += before.length
    return data || before.length > 0 ? { before, data } : undefined
  }

  end(editor: TextEditor): readonly TextEvent[] {
    const events: TextEvent[] = []
    for (const told of this.#told.values()) this.#end(told, editor, events)
    return events
  }

  whole(answer: Payload, editor: TextEditor): Buffer | undefined {
    const output = asObject(answer.json())?.['output']
    const made = editedList(output, (item, at) =>
      editedItem(item, ({ name, kind, text }) => {
        const block = { block: `${at}.${name}`, kind }
        return editor.text({ ...block, text }) + editor.end(block)
      })
    )
    return made === output ? undefined : withChanges(answer, { output: made })
  }

  /** Forgets an item that is complete. Further events of it would count as a new item. */
  forget(item: string): void {
    for (const [name, { edited }] of this.#told) {
      if (!name.startsWith(`${item}.`)) continue
      this.#kept -= edited.length
      this.#told.delete(name)
    }
  }

  /** The event with its texts edited; the same object when nothing changed. */
  #edited(body: Fields, editor: TextEditor, before: TextEvent[]): Fields {
    const type = asText(body['type'])
    const [, family, state] = /^response\.(.+)\.(delta|done)$/.exec(type) ?? []
    const { item, part, response, annotation } = body
    if (state === 'delta' && typeof body['delta'] === 'string' && !sounds.has(family!))
      return this.#delta(body, family!, editor)
    if (asObject(response)) return this.#response(body, editor, before)
    const index = this.#keys.of(body)
    const done = state === 'done'
    if (asObject(annotation)) {
      const told = this.#told.get(`${index}.content.${numberOf(body['content_index'])}`)
      return told?.changed ? { ...body, annotation: withoutPlace(asObject(annotation)!) } : body
    }
    if (asObject(item)) {
      const changed = editedItem(item as Fields, (place) =>
        this.#repeated(`${index}.${place.name}`, place, done, editor, before)
      )
      return changed === item ? body : { ...body, item: changed }
    }
    if (asObject(part)) {
      const [list, at] =
        body['summary_index'] === undefined ? ['content', body['content_index']] : ['summary', body['summary_index']]
      const name = `${index}.${list}.${numberOf(at)}`
      const changed = editedPart(
        part as Fields,
        name,
        /^(?:reasoning|summary)_text$/.test(asText((part as Fields)['type'])),
        (place) => this.#repeated(name, place, done, editor, before)
      )
      return changed === part ? body : { ...body, part: changed }
    }
    const member = done ? doneMembers.find((name) => typeof body[name] === 'string') : undefined
    return member === undefined ? body : this.#done(body, family!, member, editor, before)
  }

  #placeOf(body: Fields, family: string): { name: string; kind: TextKind } {
    const { member, kind } = families.get(family) ?? { member: family, kind: 'reasoning' as const }
    const at = member === 'summary' ? body['summary_index'] : body['content_index']
    const name = member === 'content' || member === 'summary' ? `${member}.${numberOf(at)}` : member
    return { name: `${this.#keys.of(body)}.${name}`, kind }
  }

  #delta(body: Fields, family: string, editor: TextEditor): Fields {
    const text = body['delta'] as string
    if (text === '') return body
    const { name, kind } = this.#placeOf(body, family)
    const told = this.#tell(name, kind)
    told.delta ??= shellOf(body)
    told.number = body['sequence_number']
    const changed = this.#add(told, text, editor.text({ ...told.block, text }))
    return changed === text
      ? body
      : { ...body, delta: changed, ...(body['logprobs'] !== undefined && { logprobs: [] }) }
  }

  #done(body: Fields, family: string, member: string, editor: TextEditor, before: TextEvent[]): Fields {
    const { name, kind } = this.#placeOf(body, family)
    const text = body[member] as string
    const changed = text === '' ? text : this.#repeated(name, { name, kind, text }, true, editor, before)
    return changed === text
      ? body
      : { ...body, [member]: changed, ...(body['logprobs'] !== undefined && { logprobs: [] }) }
  }

  /** The edited form of a text that an event repeats as a whole, or has for the first time. */
  #repeated(name: string, { kind, text }: Place, done: boolean, editor: TextEditor, before: TextEvent[]): string {
    const known = this.#told.get(name)
    const told = known ?? this.#tell(name, kind)
    if (!known) this.#add(told, text, editor.text({ ...told.block, text }))
    if (done) this.#end(told, editor, before)
    return told.changed ? told.edited : text
  }

  #response(body: Fields, editor: TextEditor, before: TextEvent[]): Fields {
    const response = body['response'] as Fields
    const output = response['output']
    const made = editedList(output, (item, at) =>
      editedItem(item, (place) =>
        this.#repeated(`${this.#keys.ofItem(item, at)}.${place.name}`, place, true, editor, before)
      )
    )
    return made === output ? body : { ...body, response: { ...response, output: made } }
  }

  #tell(name: string, kind: TextKind): Told {
    let told = this.#told.get(name)
    if (!told)
      this.#told.set(
        name,
        (told = {
          block: { block: name, kind },
          edited: '',
          changed: false,
          ended: false,
          delta: undefined,
          number: undefined
        })
      )
    return told
  }

  #add(told: Told, text: string, edited: string): string {
    this.#kept += edited.length
    if (this.#kept > mostKept)
      throw new Uninspectable(
        `the answer has more than ${mostKept} characters of text, which are kept as its last event repeats them`
      )
    told.edited += edited
    told.changed ||= edited !== text
    return edited
  }

  /**
   * Ends a block. What the editor holds back is sent as a delta of its own, if the client has been sent deltas of it.
   */
  #end(told: Told, editor: TextEditor, before: TextEvent[]): void {
    if (told.ended) return
    told.ended = true
    const tail = editor.end(told.block)
    if (tail === '') return
    this.#add(told, '', tail)
    if (told.delta) {
      const event = {
        ...told.delta,
        ...(told.number !== undefined && {
          sequence_number: numberOf(told.number) + 1 + this.#added + before.length
        }),
        delta: tail
      }
      before.push({ event: asText(told.delta['type']), data: JSON.stringify(event) })
    }
  }

  /** The event with its sequence number corrected for the events that were inserted. */
  #numbered(event: Payload, body: Fields, made: Fields, before: number): Buffer {
    const number = body['sequence_number']
    const changes = Object.fromEntries(Object.entries(made).filter(([key, value]) => body[key] !== value))
    if (typeof number === 'number' && this.#added + before > 0)
      changes['sequence_number'] = number + this.#added + before
    return withChanges(event, changes)
  }
}

/** The longest string of an event that is kept, such as an id. */
const longestWord = 1024

/** An event without its text: type, ids and indexes. */
function shellOf(body: Fields): Fields {
  const kept = Object.entries(body).filter(
    ([, value]) => typeof value !== 'object' && (typeof value !== 'string' || value.length <= longestWord)
  )
  return { ...Object.fromEntries(kept), ...(body['logprobs'] !== undefined && { logprobs: [] }) }
}

function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : 0
}

/** The payload with other members. All other bytes stay as they are, if a lens can read the payload. */
function withChanges(payload: Payload, changes: Fields): Buffer {
  const { lens } = payload
  if (lens)
    return Buffer.concat(
      withMembers(lens, new Map(Object.entries(changes).map(([key, value]) => [key, JSON.stringify(value)])))
    )
  return Buffer.from(JSON.stringify({ ...(payload.json() as Fields), ...changes }))
}

/** The role of an input item that does not name one. */
const speakers = new Map([
  ['function_call_output', 'tool'],
  ['custom_tool_call_output', 'tool'],
  ['mcp_call', 'tool']
])

function editPrompt(body: Members, edit: (part: TextPart) => string): void {
  const set = (key: string, role: string): void => {
    const text = body.json(key)
    if (typeof text !== 'string') return
    const changed = edit({ block: key, kind: 'text', role, text })
    if (changed !== text) body.set(key, changed)
  }
  set('instructions', 'system')
  set('input', 'user')
  const input = body.json('input')
  const made = editedList(input, (item, at) => {
    const role = typeof item['role'] === 'string' ? item['role'] : (speakers.get(asText(item['type'])) ?? 'assistant')
    return editedItem(item, ({ name, kind, text }) => edit({ block: `${at}.${name}`, kind, role, text }))
  })
  if (made !== input) body.set('input', made)
}
