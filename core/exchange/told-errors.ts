// Cleans what an upstream tells of its own failure inside of what is an answer all the same, and passed on as it came.
import type { Channel } from '../catalogue/catalogue.ts'
import type { Message } from '../contract/message.ts'
import { asObject } from '../protocols/object.ts'
import type { JsonObject } from '../protocols/object.ts'
import { cleanName, cleanText, isClean } from './redact.ts'

/** Objects and lists inside each other, of an error; what is deeper goes. */
const deepest = 8

/** Where errors may stand: the names of the members that lead to one. */
type Places = readonly (readonly string[])[]

/**
 * The message without secrets of the channel in the errors at these places; the same message when it has none, so that nearly all pass byte for
 * byte. Looks into the payload only when it was parsed before, or has a member that leads to an error.
 */
export function withCleanErrors(message: Message, places: Places, channel: Channel): Message {
  if (!message.parsed && message.lens && !places.some(([first]) => message.lens!.has(first!) && message.lens!.type(first!) !== 'null')) return message
  const body = asObject(message.json())
  const errors = body && places.filter((place) => at(body, place) != null)
  if (errors?.length === 0) return message
  const text = message.data.toString('utf8')
  if (!body || !errors) return isClean(text, channel) ? message : message.withData(Buffer.from(cleanText(text, channel)))
  const json = JSON.stringify(errors.reduce((made, place) => cleanAt(made, place, channel), body))
  // A member that stands there twice is in the bytes, and not in what was parsed.
  return json === JSON.stringify(body) && isClean(text, channel) ? message : message.withData(Buffer.from(json))
}

function at(body: JsonObject, place: readonly string[]): unknown {
  return place.reduce<unknown>((value, name) => asObject(value)?.[name], body)
}

/** A copy with the error at the end of the place cleaned. */
function cleanAt(value: JsonObject, [name, ...rest]: readonly string[], channel: Channel): JsonObject {
  const inner = value[name!]
  return { ...value, [name!]: rest.length === 0 ? cleaned(inner, 'message', channel, 0) : cleanAt(asObject(inner)!, rest, channel) }
}

/** Messages are for people; any other text is a name, and goes as a whole when there is anything in it that has to go. */
function cleaned(value: unknown, name: string, channel: Channel, depth: number): unknown {
  if (typeof value === 'string') return name === 'message' ? cleanText(value, channel) : (cleanName(value, channel) ?? null)
  if (typeof value !== 'object' || value === null) return value
  if (depth === deepest) return null
  if (Array.isArray(value)) return value.map((item) => cleaned(item, name, channel, depth + 1))
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, cleaned(item, key, channel, depth + 1)]))
}
