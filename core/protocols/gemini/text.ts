// Finds and edits text in Gemini's generateContent: in the parts of a prompt and of candidates, whole or in chunks.
import { editedJson, editedList, editedMember, editedText } from '../text/edits.ts'
import { asObject, asObjects, asText } from '../object.ts'
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

/** https://ai.google.dev/api/generate-content */
export const geminiText: ProtocolText = { answer: () => new CandidatesText(), prompt: editPrompt }

/** Edits one text. `place`: where it stands in its part. */
type Edit = (place: string, kind: TextKind, text: string) => string

/** A part with the texts of its call or result edited. Its own text is edited with the parts around it. */
function editedCalls(part: JsonObject, edit: Edit): JsonObject {
  let made = part
  for (const [names, member, kind] of [
    [['functionCall', 'function_call'], 'args', 'arguments'],
    [['functionResponse', 'function_response'], 'response', 'text']
  ] as const) {
    for (const name of names) {
      made = editedMember(made, name, (value) => {
        const object = asObject(value)
        const inner = asObject(object?.[member])
        return object && inner
          ? editedMember(object, member, () => editedJson(inner, (text) => edit(member, kind, text)))
          : value
      })
    }
  }
  for (const [names, member, kind] of [
    [['executableCode', 'executable_code'], 'code', 'arguments'],
    [['codeExecutionResult', 'code_execution_result'], 'output', 'text']
  ] as const) {
    for (const name of names) {
      made = editedMember(made, name, (value) => {
        const object = asObject(value)
        return object ? editedText(object, member, (text) => edit(member, kind, text)) : value
      })
    }
  }
  return made
}

/** The state of one candidate: the block it is in, and how many it has begun. */
interface Speech {
  open: TextBlock | undefined
  begun: number
  /** Whether any of its text was changed. */
  changed: boolean
}

class CandidatesText implements AnswerText {
  readonly #candidates = new Map<number, Speech>()
  /** The latest chunk without its candidates. */
  #head: JsonObject = {}

  event(event: Payload, editor: TextEditor): EditedEvent | undefined {
    const body = asObject(event.json())
    const made = body && this.#chunk(body, editor)
    return made === body ? undefined : { before: [], data: Buffer.from(JSON.stringify(made)) }
  }

  end(editor: TextEditor): readonly TextEvent[] {
    const candidates = [...this.#candidates].flatMap(([index, speech]) => {
      const saying = new Saying(speech, index, editor)
      saying.end()
      return saying.made.length > 0 ? [{ index, content: { role: 'model', parts: saying.made } }] : []
    })
    return candidates.length > 0 ? [{ data: JSON.stringify({ ...this.#head, candidates }) }] : []
  }

  /** Edits an answer that is one chunk, or a list of chunks. */
  whole(answer: Payload, editor: TextEditor): Buffer | undefined {
    const body = answer.json()
    const chunks = asObjects(Array.isArray(body) ? body : [body])
    const made = chunks.map((chunk, at) => this.#chunk(chunk, editor, at === chunks.length - 1))
    if (made.every((chunk, at) => chunk === chunks[at])) return undefined
    return Buffer.from(JSON.stringify(Array.isArray(body) ? made : made[0]))
  }

  /** `last`: the chunk ends all blocks. */
  #chunk(chunk: JsonObject, editor: TextEditor, last = false): JsonObject {
    const { candidates: _candidates, usageMetadata: _usage, ...head } = chunk
    this.#head = head
    return editedMember(chunk, 'candidates', (candidates) =>
      editedList(candidates, (candidate, at) => {
        const index = typeof candidate['index'] === 'number' ? candidate['index'] : at
        return this.#candidate(candidate, index, editor, last || candidate['finishReason'] != null)
      })
    )
  }

  #candidate(candidate: JsonObject, index: number, editor: TextEditor, ends: boolean): JsonObject {
    let speech = this.#candidates.get(index)
    if (!speech) this.#candidates.set(index, (speech = { open: undefined, begun: 0, changed: false }))
    const content = asObject(candidate['content'])
    const parts = Array.isArray(content?.['parts']) ? (content['parts'] as unknown[]) : []
    const saying = new Saying(speech, index, editor)
    for (const value of parts) {
      const part = asObject(value)
      if (part) saying.part(part)
      else saying.made.push(value)
    }
    if (ends) saying.end()
    const { made } = saying
    const same = made.length === parts.length && made.every((part, at) => part === parts[at])
    speech.changed ||= !same
    if (!speech.changed) return candidate
    return withoutChances(same ? candidate : { ...candidate, content: { role: 'model', ...content, parts: made } })
  }
}

/** Edits the parts of one candidate in one chunk. */
class Saying {
  /** The edited parts. */
  readonly made: unknown[] = []
  readonly #speech: Speech
  readonly #index: number
  readonly #editor: TextEditor
  /** The last part of this chunk that belongs to the open block. */
  #last: { at: number; part: JsonObject; text: string } | undefined

  constructor(speech: Speech, index: number, editor: TextEditor) {
    this.#speech = speech
    this.#index = index
    this.#editor = editor
  }

  part(part: JsonObject): void {
    const speech = this.#speech
    const { text } = part
    // The signature of a text comes with its end.
    const proven = part['thoughtSignature'] !== undefined
    if (text === '') {
      if (proven) this.end()
      this.made.push(part)
    } else if (typeof text === 'string') {
      const kind = part['thought'] === true ? 'reasoning' : 'text'
      if (speech.open && speech.open.kind !== kind) this.end()
      speech.open ??= { block: `${this.#index}.${speech.begun++}`, kind }
      const said = this.#editor.text({ ...speech.open, text })
      this.#last = { at: this.made.length, part, text: said }
      this.made.push(said === text ? part : { ...part, text: said })
      if (proven) this.end()
    } else {
      this.end()
      this.made.push(
        editedCalls(part, (_place, kind, said) => {
          const block = { block: `${this.#index}.${speech.begun++}`, kind }
          return this.#editor.text({ ...block, text: said }) + this.#editor.end(block)
        })
      )
    }
  }

  /** Ends the open block. What the editor holds back is added to its last part in this chunk, or becomes a part. */
  end(): void {
    const { open } = this.#speech
    const last = this.#last
    this.#speech.open = this.#last = undefined
    const text = open ? this.#editor.end(open) : ''
    if (text === '') return
    if (last) this.made[last.at] = { ...last.part, text: last.text + text }
    else this.made.push({ text, ...(open!.kind === 'reasoning' && { thought: true }) })
  }
}

/**
 * Removes what repeats or counts the original words: log probabilities, grounding supports and offsets of citations.
 */
function withoutChances(candidate: JsonObject): JsonObject {
  const rest = without(candidate, ['avgLogprobs', 'logprobsResult'])
  const grounded = editedMember(rest, 'groundingMetadata', (value) =>
    without(asObject(value) ?? {}, ['groundingSupports'])
  )
  return editedMember(grounded, 'citationMetadata', (value) => {
    const metadata = asObject(value) ?? {}
    return ['citationSources', 'citations'].reduce(
      (made, list) =>
        editedMember(made, list, (cited) => editedList(cited, (source) => without(source, ['startIndex', 'endIndex']))),
      metadata
    )
  })
}

/** The object without these members; the same object when it has none of them. */
function without(object: JsonObject, members: readonly string[]): JsonObject {
  return members.some((member) => member in object)
    ? Object.fromEntries(Object.entries(object).filter(([member]) => !members.includes(member)))
    : object
}

/** Also for counting tokens and embeddings, whose requests have contents in other places. */
function editPrompt(body: Members, edit: (part: TextPart) => string): void {
  const editedContent = (content: JsonObject, name: string, role: string): JsonObject =>
    editedMember(content, 'parts', (parts) =>
      editedList(parts, (part, at) => {
        const said = editedText(part, 'text', (text) =>
          edit({ block: `${name}.${at}`, kind: part['thought'] === true ? 'reasoning' : 'text', role, text })
        )
        return editedCalls(said, (place, kind, text) =>
          edit({ block: `${name}.${at}.${place}`, kind, role: kind === 'text' ? 'tool' : role, text })
        )
      })
    )
  const editedIn = (owner: JsonObject, around: string): JsonObject => {
    let made = owner
    for (const name of ['systemInstruction', 'system_instruction']) {
      made = editedMember(made, name, (value) =>
        asObject(value) ? editedContent(asObject(value)!, `${around}system`, 'system') : value
      )
    }
    made = editedMember(made, 'content', (value) =>
      asObject(value) ? editedContent(asObject(value)!, `${around}content`, 'user') : value
    )
    made = editedMember(made, 'contents', (value) =>
      asObject(value)
        ? editedContent(asObject(value)!, `${around}0`, 'user')
        : editedList(value, (content, at) =>
            editedContent(content, `${around}${at}`, asText(content['role']) || 'user')
          )
    )
    made = editedMember(made, 'requests', (value) =>
      editedList(value, (request, at) => editedIn(request, `${around}requests.${at}.`))
    )
    return editedMember(made, 'generateContentRequest', (value) =>
      asObject(value) ? editedIn(asObject(value)!, around) : value
    )
  }
  for (const name of [
    'systemInstruction',
    'system_instruction',
    'content',
    'contents',
    'requests',
    'generateContentRequest'
  ]) {
    const value = body.json(name)
    const made = editedIn({ [name]: value }, '')[name]
    if (value !== undefined && made !== value) body.set(name, made)
  }
}
