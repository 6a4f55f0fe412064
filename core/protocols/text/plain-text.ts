// Finds and edits text in top-level members, for operations without streams.
import { asObject } from '../object.ts'
import type { JsonObject } from '../object.ts'
import { Uninspectable } from './uninspectable.ts'
import type { AnswerText, Members, Payload, ProtocolText, TextEditor, TextPart } from '../protocol.ts'

/**
 * The text in these top-level members: a string, a list of strings, or a list of objects with a `text`. Without
 * `answer`, answers hold no text.
 */
export function plainText({
  prompt,
  answer = []
}: {
  prompt: readonly string[]
  answer?: readonly string[]
}): ProtocolText {
  return {
    answer: () => ({ ...noText(), whole: (payload, editor) => editedAnswer(payload, answer, editor) }),
    prompt: (body, edit) => editPrompt(body, prompt, edit)
  }
}

/** For answers that hold no text. */
export function noText(): AnswerText {
  return { event: () => undefined, end: () => [], whole: () => undefined }
}

function editedAnswer(payload: Payload, names: readonly string[], editor: TextEditor): Buffer | undefined {
  if (names.length === 0) return undefined
  const body = asObject(payload.json())
  if (!body) return undefined
  const made: Record<string, unknown> = { ...body }
  for (const name of names) {
    made[name] = edited(
      body[name],
      name,
      (part) => editor.text(part) + editor.end({ block: part.block, kind: part.kind })
    )
  }
  return names.some((name) => made[name] !== body[name]) ? Buffer.from(JSON.stringify(made)) : undefined
}

function editPrompt(body: Members, names: readonly string[], edit: (part: TextPart) => string): void {
  for (const name of names) {
    const value = body.json(name)
    const made = edited(value, name, edit)
    if (made !== value) body.set(name, made)
  }
}

/**
 * The value with its texts edited; the same value when nothing changed.
 * @throws Uninspectable for a text that is given in tokens
 */
function edited(value: unknown, block: string, edit: (part: TextPart) => string): unknown {
  if (typeof value === 'string') return value === '' ? value : edit({ block, kind: 'text', text: value })
  if (!Array.isArray(value)) return value
  const list = value as unknown[]
  if (typeof list[0] === 'number') throw new Uninspectable('it is given in tokens: send the text itself')
  const made = list.map((item, at) => {
    const object = asObject(item)
    return object ? editedObject(object, `${block}.${at}`, edit) : edited(item, `${block}.${at}`, edit)
  })
  return made.some((item, at) => item !== list[at]) ? made : value
}

function editedObject(object: JsonObject, block: string, edit: (part: TextPart) => string): JsonObject {
  const text = edited(object['text'], block, edit)
  return text === object['text'] ? object : { ...object, text }
}
