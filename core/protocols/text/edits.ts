// Helpers for editing texts in parsed JSON. What is not changed stays the same object, so that callers can compare.
import { asObject } from '../object.ts'
import type { JsonObject } from '../object.ts'
import { Uninspectable } from './uninspectable.ts'

/** The list with its objects edited. Anything else stays as it is. */
export function editedList(value: unknown, edit: (item: JsonObject, at: number) => JsonObject): unknown {
  if (!Array.isArray(value)) return value
  let made: unknown[] = value
  for (const [at, item] of (value as unknown[]).entries()) {
    const object = asObject(item)
    if (!object) continue
    const changed = edit(object, at)
    if (changed !== object) made = made.with(at, changed)
  }
  return made
}

/** The object with a member edited, if it has that. */
export function editedMember(object: JsonObject, member: string, edit: (value: unknown) => unknown): JsonObject {
  const value = object[member]
  if (value === undefined) return object
  const changed = edit(value)
  return changed === value ? object : { ...object, [member]: changed }
}

/** The object with a member edited if that is a text and not empty. */
export function editedText(object: JsonObject, member: string, edit: (text: string) => string): JsonObject {
  return editedMember(object, member, (value) => (typeof value === 'string' && value !== '' ? edit(value) : value))
}

/** A citation of a text that was edited. Its place in the text is not known any more, so it is set to zero. */
export function withoutPlace(citation: JsonObject): JsonObject {
  return ['start_index', 'end_index', 'index'].reduce((made, member) => editedMember(made, member, () => 0), citation)
}

/**
 * The object edited as JSON text.
 * @throws Uninspectable when the result is no JSON object
 */
export function editedJson(object: JsonObject, edit: (text: string) => string): JsonObject {
  const text = JSON.stringify(object)
  const changed = edit(text)
  if (changed === text) return object
  try {
    const made = asObject(JSON.parse(changed))
    if (made) return made
  } catch {
    // The error below tells it.
  }
  throw new Uninspectable('what it made of the arguments of a tool is no JSON object, which they are in this protocol')
}
