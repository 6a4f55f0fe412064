// JSON as translation reads it: numbers keep their digits, whatever is done with them in between.
import { asObject, isDeep } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { Payload } from '../protocol.ts'
import { badAnswer } from './untranslatable.ts'

/** A number that may be more than a double can hold. */
const longNumber = /[0-9.]{16}|[eE][+-]?[0-9]{3}/
const safeDigits = 15

/**
 * Parses JSON text. Numbers that a double cannot hold become what `JSON.stringify` writes as they were written, so that
 * an id of twenty digits in the arguments of a tool arrives with all of them. Throws SyntaxError.
 */
export function parseJson(text: string): unknown {
  if (!longNumber.test(text)) return JSON.parse(text)
  return (JSON.parse as ParseWithSource)(text, (_key, value, { source }) => {
    if (typeof value !== 'number' || source === undefined || String(value) === source) return value
    return source.length > safeDigits || !Number.isFinite(value) ? rawJson(source) : value
  })
}

/**
 * Half of a character that is written in two, as `JSON.stringify` writes it; with an even number of backslashes before
 * it.
 */
const half = /\\ud[89a-f][0-9a-f]{2}(?<=(?<!\\)(?:\\\\)*.{6})/g

/** JSON text that every upstream can read: many refuse half of a character, which is nothing that anybody has said. */
export function writeJson(value: unknown): string {
  const text = JSON.stringify(value)
  return text.includes('\\ud') ? text.replace(half, '\ufffd') : text
}

/**
 * `JSON.parse` and `JSON.rawJSON` of ECMAScript's proposal "JSON.parse source text access", which the types do not know
 * yet.
 */
type ParseWithSource = (
  text: string,
  reviver: (key: string, value: unknown, context: { source?: string }) => unknown
) => unknown
const { rawJSON: rawJson, isRawJSON: isRawJson } = JSON as unknown as {
  rawJSON(text: string): unknown
  isRawJSON(value: unknown): value is { rawJSON: string }
}

/** A number that {@link parseJson} kept as it was written, as a double; any other value as it is. */
export function plainNumber(value: unknown): unknown {
  return isRawJson(value) ? Number(value.rawJSON) : value
}

/**
 * The payload of an event as {@link parseJson} reads it, where the arguments of a call are an object in it. @throws
 * Untranslatable
 */
export function exactJson(event: Payload): unknown {
  const value = event.json()
  const text = value === undefined ? '' : event.data.toString('utf8')
  return longNumber.test(text) ? parseAnswer(text) : value
}

/**
 * An object in JSON text; undefined when it is none. Empty text is an empty object, as upstreams say it for calls
 * without arguments.
 */
export function parseObject(text: string): JsonObject | undefined {
  if (text.trim() === '') return {}
  try {
    const object = asObject(parseJson(text))
    return object && !isDeep(object) ? object : undefined
  } catch {
    return undefined
  }
}

/** The arguments of a call as text, for upstreams that say them as an object. @throws Untranslatable */
export function writeArguments(args: JsonObject): string {
  if (isDeep(args)) throw badAnswer('The upstream called a tool with arguments that are nested too deep.')
  return JSON.stringify(args)
}

/**
 * The arguments of a call, as text or as an object; none are empty text.
 * @throws Untranslatable for anything else: a call without what it was made with is another call
 */
export function readArguments(args: unknown): string {
  if (args === undefined || args === null) return ''
  if (typeof args === 'string') return args
  const object = asObject(args)
  if (!object) throw notAnObject()
  return writeArguments(object)
}

/** Likewise, for a protocol that has them as an object: text has to be one. @throws Untranslatable */
export function readArgumentsObject(args: unknown): string {
  const text = readArguments(args)
  if (typeof args === 'string' && !parseObject(text)) throw notAnObject()
  return text
}

function notAnObject(): Error {
  return badAnswer('The upstream called a tool with arguments that are not a JSON object.')
}

/**
 * An upstream's whole answer. @throws Untranslatable when it is no JSON, or none that can be read with all digits of
 * its numbers
 */
export function parseAnswer(text: string): unknown {
  try {
    return parseJson(text)
  } catch {
    throw badAnswer('The upstream sent an answer that is not JSON.')
  }
}
