// Changing texts inside parsed JSON: whatever is not changed stays the same object, so that whoever changed nothing is
// known by that.
import { asObject } from './object.ts'
import type { JsonObject } from './object.ts'
import { Uninspectable } from './uninspectable.ts'

/** The list with its objects edited. What is no list, and what is no object in it, stays. */
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

/** The object with a member edited, if it has it. */
export function editedMember(object: JsonObject, member: string, edit: (value: unknown) => unknown): JsonObject {
  const value = object[member]
  if (value === undefined) return object
  const changed = edit(value)
  return changed === value ? object : { ...object, [member]: changed }
}

/** The object with a member edited where that is a text with something in it. */
export function editedText(object: JsonObject, member: string, edit: (text: string) => string): JsonObject {
  return editedMember(object, member, (value) => (typeof value === 'string' && value !== '' ? edit(value) : value))
}

/** A citation of a text that was changed: where in the text it belongs is not known any more, which zeros say. */
export function withoutPlace(citation: JsonObject): JsonObject {
  return ['start_index', 'end_index', 'index'].reduce((made, member) => editedMember(made, member, () => 0), citation)
}

/**
 * The object edited as the JSON text that it is.
 * @throws Uninspectable when what came of it is no JSON object
 */
export function editedJson(object: JsonObject, edit: (text: string) => string): JsonObject {
  const text = JSON.stringify(object)
  const changed = edit(text)
  if (changed === text) return object
  try {
    const made = asObject(JSON.parse(changed))
    if (made) return made
  } catch {
    // It is told below.
  }
  throw new Uninspectable('what it made of the arguments of a tool is no JSON object, which they are in this protocol')
}
