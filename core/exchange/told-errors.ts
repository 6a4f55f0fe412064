// Cleans what an upstream tells of its own failure inside of what is an answer all the same, and passed on as it came.
import type { Channel } from '../catalogue/catalogue.ts'
import type { Message } from '../contract/message.ts'
import { Lens, LensError } from '../bodies/lens.ts'
import { withMembers } from '../bodies/splice.ts'
import { asObject } from '../protocols/object.ts'
import type { JsonObject } from '../protocols/object.ts'
import { cleanName, cleanText, isClean } from './redact.ts'
import { inOurWords } from './withheld.ts'

/** Objects and lists inside each other, of an error; what is deeper goes. */
const deepest = 8

/** Bytes of an error of which anything is told. */
const longest = 64 * 1024
const tooLong = 'The upstream told of its failure at too great a length.'
const quote = 0x22

/** Where errors may stand: the names of the members that lead to one. */
type Places = readonly (readonly string[])[]

/**
 * The message without secrets of the channel in the errors at these places; the same message when it has none, so that
 * nearly all pass byte for byte. Parses nothing but these errors, unless the payload was parsed before or has members
 * twice.
 */
export function withCleanErrors(message: Message, places: Places, channel: Channel): Message {
  const { parsed, lens } = message
  if (!parsed && lens) {
    try {
      const changed = cleanMembers(lens, places, channel, (name) => message.inside(name) ?? undefined)
      return changed ? message.withData(changed) : message
    } catch (error) {
      // What has a member twice further down is parsed.
      if (!(error instanceof LensError)) throw error
    }
  }
  const body = asObject(message.json())
  const errors = body && places.filter((place) => at(body, place) != null)
  if (errors?.length === 0) return message
  const text = message.data.toString('utf8')
  if (!body || !errors)
    return isClean(text, channel) ? message : message.withData(Buffer.from(cleanText(text, channel)))
  const json = JSON.stringify(errors.reduce((made, place) => cleanAt(made, place, channel), body))
  // A member that stands there twice is in the bytes, and not in what was parsed.
  return json === JSON.stringify(body) && isClean(text, channel) ? message : message.withData(Buffer.from(json))
}

/**
 * The object with clean errors, of which nothing else is parsed; undefined when they are clean. @throws LensError for
 * one that cannot be looked into
 */
function cleanMembers(
  lens: Lens,
  places: Places,
  channel: Channel,
  inside = (name: string): Lens | undefined => lens.inside(name)
): Buffer | undefined {
  const changes = new Map<string, string>()
  for (const name of new Set(places.map(([first]) => first!))) {
    const type = lens.type(name)
    if (type === undefined || type === 'null') continue
    const value = lens.slice(name)!
    const inner = places.flatMap(([first, ...rest]) => (first === name ? [rest] : []))
    const json = inner.some((rest) => rest.length === 0)
      ? cleanValue(value, channel)
      : type === 'object'
        ? cleanMembers(inside(name) ?? new Lens(value), inner, channel)?.toString('utf8')
        : undefined
    if (json !== undefined) changes.set(name, json)
  }
  return changes.size > 0 ? Buffer.concat(withMembers(lens, changes)) : undefined
}

/** An error as clean JSON; undefined when it is clean as it stands. */
function cleanValue(bytes: Buffer, channel: Channel): string | undefined {
  if (bytes.length > longest) return JSON.stringify(bytes[0] === quote ? tooLong : { message: tooLong })
  const text = bytes.toString('utf8')
  const value: unknown = JSON.parse(text)
  const json = JSON.stringify(told(value, channel))
  // A member that stands there twice is in the bytes, and not in what was parsed.
  return json === JSON.stringify(value) && isClean(text, channel) ? undefined : json
}

function at(body: JsonObject, place: readonly string[]): unknown {
  return place.reduce<unknown>((value, name) => asObject(value)?.[name], body)
}

/** A copy with the error at the end of the place cleaned. */
function cleanAt(value: JsonObject, [name, ...rest]: readonly string[], channel: Channel): JsonObject {
  const inner = value[name!]
  return {
    ...value,
    [name!]: rest.length === 0 ? told(inner, channel) : cleanAt(asObject(inner)!, rest, channel)
  }
}

/** An error as clients may see it. */
function told(error: unknown, channel: Channel): unknown {
  return cleaned(inOurWords(error) ?? error, 'message', channel, 0)
}

/**
 * Messages are for people; any other text is a name, and goes as a whole when there is anything in it that has to go.
 */
function cleaned(value: unknown, name: string, channel: Channel, depth: number): unknown {
  if (typeof value === 'string')
    return name === 'message' ? cleanText(value, channel) : (cleanName(value, channel) ?? null)
  if (typeof value !== 'object' || value === null) return value
  if (depth === deepest) return null
  if (Array.isArray(value)) return value.map((item) => cleaned(item, name, channel, depth + 1))
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, cleaned(item, key, channel, depth + 1)]))
}
