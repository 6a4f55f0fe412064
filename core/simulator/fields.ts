// Reads the members of a JSON request body, and refuses wrong ones.
import { Refusal } from './refusal.ts'

/** A JSON object of a request, unchecked. */
export type Fields = Readonly<Record<string, unknown>>

/** @throws Refusal when the bytes are not a JSON object */
export function parseObject(bytes: Buffer): Fields {
  let value: unknown
  try {
    value = JSON.parse(bytes.toString('utf8'))
  } catch {
    value = undefined
  }
  if (isObject(value)) return value
  throw new Refusal(
    400,
    'We could not parse the JSON body of your request. The API expects a JSON payload, but what was sent was not valid JSON.'
  )
}

/**
 * The member if it passes the check; undefined when it is absent or null.
 * @throws Refusal when it does not pass
 */
export function optional<T>(
  body: Fields,
  name: string,
  accepts: (value: unknown) => value is T,
  expected: string
): T | undefined {
  const value = body[name]
  if (value === undefined || value === null) return undefined
  if (!accepts(value)) throw invalid(name, `Expected ${expected}.`)
  return value
}

/** The refusal of a member with a wrong type or value. */
export function invalid(param: string, expected: string): Refusal {
  return new Refusal(400, `Invalid value for '${param}'. ${expected}`, { param, code: 'invalid_value' })
}

/** The refusal of a body that lacks a member. */
export function missing(param: string): Refusal {
  return new Refusal(400, `Missing required parameter: '${param}'.`, { param, code: 'missing_required_parameter' })
}

/** Whether it is an object and no array. */
export function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function isString(value: unknown): value is string {
  return typeof value === 'string'
}

export function isBoolean(value: unknown): value is boolean {
  return typeof value === 'boolean'
}

/** Accepts numbers in a range, both ends included. */
export function between(low: number, high: number): (value: unknown) => value is number {
  return (value): value is number => typeof value === 'number' && value >= low && value <= high
}

/** Accepts integers in a range, both ends included. */
export function integer(low: number, high: number): (value: unknown) => value is number {
  return (value): value is number => Number.isInteger(value) && (value as number) >= low && (value as number) <= high
}

/** Accepts one of these words. */
export function oneOf(...words: readonly string[]): (value: unknown) => value is string {
  return (value): value is string => typeof value === 'string' && words.includes(value)
}
