// Parses and writes JSON for translation, so that long numbers keep all their digits.
import { asObject, hasEscapedKey, isDeep, parseStrictly } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { Payload } from '../protocol.ts'
import { badAnswer } from './untranslatable.ts'

/** A number in this form may be more than a double can hold. */
const longNumber = /[0-9.]{16}|[eE][+-]?[0-9]{3}/
const safeDigits = 15

/**
 * Parses JSON text. A number that a double cannot hold becomes a value that `JSON.stringify` writes unchanged, so that
 * an id of twenty digits in a tool's arguments keeps all of them. Throws SyntaxError.
 */
export function parseJson(text: string): unknown {
  if (hasEscapedKey(text)) return parseStrictly(text, exactNumber)
  if (!longNumber.test(text)) return JSON.parse(text)
  return (JSON.parse as ParseWithSource)(text, (_key, value, { source }) => {
    return typeof value !== 'number' || source === undefined ? value : exactNumber(source)
  })
}

function exactNumber(written: string): unknown {
  const value = Number(written)
  if (String(value) === written) return value
  return written.length > safeDigits || !Number.isFinite(value) ? rawJson(written) : value
}

/** Half of a surrogate pair as `JSON.stringify` writes it, with an even number of backslashes before it. */
const half = /\\ud[89a-f][0-9a-f]{2}(?<=(?<!\\)(?:\\\\)*.{6})/g

/** JSON text without halves of surrogate pairs, which many upstreams refuse. */
export function writeJson(value: unknown): string {
  const text = JSON.stringify(value)
  return text.includes('\\ud') ? text.replace(half, '\ufffd') : text
}

/** `JSON.parse` and `JSON.rawJSON` of the ECMAScript proposal "JSON.parse source text access", which the types lack. */
type ParseWithSource = (
  text: string,
  reviver: (key: string, value: unknown, context: { source?: string }) => unknown
) => unknown
const { rawJSON: rawJson, isRawJSON: isRawJson } = JSON as unknown as {
  rawJSON(text: string): unknown
  isRawJSON(value: unknown): value is { rawJSON: string }
}

/** A number that {@link parseJson} kept as text, as a double. Any other value is returned as it is. */
export function plainNumber(value: unknown): unknown {
  return isRawJson(value) ? Number(value.rawJSON) : value
}

/**
 * The payload of an event as {@link parseJson} reads it. For protocols whose arguments are objects in it.
 * @throws Untranslatable
 */
export function exactJson(event: Payload): unknown {
  const value = event.json()
  const text = value === undefined ? '' : event.data.toString('utf8')
  return longNumber.test(text) ? parseAnswer(text) : value
}

/**
 * The object in JSON text; undefined when there is none. Empty text is an empty object: upstreams send it for calls
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

/**
 * The arguments of a call as text, for upstreams that send an object.
 * @throws Untranslatable when they are nested too deep
 */
export function writeArguments(args: JsonObject): string {
  if (isDeep(args)) throw badAnswer('The upstream called a tool with arguments that are nested too deep.')
  return JSON.stringify(args)
}

/**
 * The arguments of a call that may be text or an object; empty text when there are none.
 * @throws Untranslatable for anything else, as the call would lose its arguments
 */
export function readArguments(args: unknown): string {
  if (args === undefined || args === null) return ''
  if (typeof args === 'string') return args
  const object = asObject(args)
  if (!object) throw notAnObject()
  return writeArguments(object)
}

/**
 * The arguments of a call in a protocol where they are an object. Text must hold a JSON object.
 * @throws Untranslatable
 */
export function readArgumentsObject(args: unknown): string {
  const text = readArguments(args)
  if (typeof args === 'string' && !parseObject(text)) throw notAnObject()
  return text
}

function notAnObject(): Error {
  return badAnswer('The upstream called a tool with arguments that are not a JSON object.')
}

/**
 * Parses an upstream's whole answer.
 * @throws Untranslatable when it is not JSON
 */
export function parseAnswer(text: string): unknown {
  try {
    return parseJson(text)
  } catch {
    throw badAnswer('The upstream sent an answer that is not JSON.')
  }
}
