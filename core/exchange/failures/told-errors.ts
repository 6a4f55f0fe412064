// Cleans what an upstream tells of its own failure inside of what is an answer all the same, and passed on as it came.
import { lensOf } from '../../bodies/lens.ts'
import type { Lens } from '../../bodies/lens.ts'
import { withMembers } from '../../bodies/splice.ts'
import type { Channel } from '../../catalogue/catalogue.ts'
import type { Message } from '../../contract/message.ts'
import { GatewayError } from '../../errors.ts'
import { skipSpace } from '../../protocols/text/likeness.ts'
import { cleanName, cleanText, isClean } from './redact.ts'
import { inOurWords } from './withheld.ts'

/** Objects and lists inside each other, of an error; what is deeper goes. */
const deepest = 8

/** Bytes of an error of which anything is told. */
const longest = 16 * 1024
const tooLong = 'The upstream told of its failure at too great a length.'
const [quote, backslash, colon] = [0x22, 0x5c, 0x3a]
const [opening, closing] = [new Set(Buffer.from('{[')), new Set(Buffer.from('}]'))]
const behindWords = new Set(Buffer.from(',]} \t\r\n'))

/**
 * Where errors may stand: the names of the members that lead to one. A `*` stands for all that is in a list, and the
 * name behind it for every member of that name there.
 */
type Places = readonly (readonly string[])[]

/**
 * The message without secrets of the channel in the errors at these places; the same message when it has none, so that
 * nearly all pass byte for byte. Parses nothing but these errors.
 * @throws GatewayError `upstream_bad_response` when it cannot be looked into
 */
export function withCleanErrors(message: Message, places: Places, channel: Channel): Message {
  if (message.data.length === 0) return message
  const changed = cleanMembers(seen(message.lens), places, channel, (name) => seen(message.inside(name)))
  return changed ? message.withData(changed) : message
}

/** The object with clean errors, of which nothing else is parsed; undefined when they are clean. */
function cleanMembers(
  lens: Lens,
  places: Places,
  channel: Channel,
  inside: (name: string) => Lens
): Buffer | undefined {
  const changes = new Map<string, string>()
  for (const name of new Set(places.map(([first]) => first!))) {
    const inner = places.flatMap(([first, ...rest]) => (first === name ? [rest] : []))
    const json = cleanMember(lens, name, inner, channel, inside)
    if (json !== undefined) changes.set(name, json)
  }
  return changes.size > 0 ? Buffer.concat(withMembers(lens, changes)) : undefined
}

/** The value of one of its members; undefined when that is clean. `places`: within it. */
function cleanMember(
  lens: Lens,
  name: string,
  places: Places,
  channel: Channel,
  inside: (name: string) => Lens
): string | undefined {
  const type = lens.type(name)
  if (type === undefined || type === 'null') return undefined
  if (places.some((rest) => rest.length === 0)) return cleanValue(lens.slice(name)!, channel)
  if (type === 'object') {
    const within = inside(name)
    return cleanMembers(within, places, channel, (key) => seen(lensOf(within.slice(key)!)))?.toString('utf8')
  }
  const named = places.find(([first]) => first === '*')?.[1]
  return type === 'array' && named !== undefined
    ? cleanNamed(lens.slice(name)!, named, channel)?.toString('utf8')
    : undefined
}

function seen(lens: Lens | null | undefined): Lens {
  if (lens) return lens
  throw new GatewayError('upstream_bad_response', 'The upstream sent what could be understood in more than one way.')
}

/** JSON with every member of a name cleaned, wherever it stands: nothing but a name is a string before a colon. */
function cleanNamed(json: Buffer, name: string, channel: Channel): Buffer | undefined {
  const key = Buffer.from(`"${name}"`)
  const pieces: Buffer[] = []
  let at = 0
  let next = 0
  for (let found = json.indexOf(key); found !== -1; found = json.indexOf(key, next)) {
    next = skipSpace(json, found + key.length)
    if (json[next] !== colon) continue
    const from = skipSpace(json, next + 1)
    next = endOfValue(json, from)
    const clean = json[from] === 0x6e ? undefined : cleanValue(json.subarray(from, next), channel)
    if (clean === undefined) continue
    pieces.push(json.subarray(at, from), Buffer.from(clean))
    at = next
  }
  return at === 0 ? undefined : Buffer.concat([...pieces, json.subarray(at)])
}

/** Of a value in JSON that has been checked. */
function endOfValue(json: Buffer, from: number): number {
  let depth = 0
  for (let at = from; at < json.length; at++) {
    const byte = json[at]!
    if (byte === quote) {
      for (at++; json[at] !== quote; at++) if (json[at] === backslash) at++
    } else if (opening.has(byte)) depth++
    else if (closing.has(byte)) depth--
    else if (depth > 0 || !behindWords.has(json[at + 1]!)) continue
    if (depth === 0) return at + 1
  }
  return json.length
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

/** An error as clients may see it. */
function told(error: unknown, channel: Channel): unknown {
  return cleaned(typeof error === 'string' ? (inOurWords(error) ?? error) : error, 'message', channel, 0)
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
  const members = Object.entries(inOurWords(value) ?? value).filter(([key]) => cleanName(key, channel) !== undefined)
  return Object.fromEntries(members.map(([key, item]) => [key, cleaned(item, key, channel, depth + 1)]))
}
