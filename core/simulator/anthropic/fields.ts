// Reads members of Anthropic's requests. Refusals name the path, as Anthropic's do: `messages.0.content: …`.
import { isString } from '../fields.ts'
import type { Fields } from '../fields.ts'
import { Refusal } from '../refusal.ts'

/** The refusal of the value at a path. */
export function wrong(path: string, what: string): Refusal {
  return new Refusal(400, `${path}: ${what}`)
}

/**
 * The member if it passes the check; undefined when it is absent or null.
 * @throws Refusal when it does not pass
 */
export function allowed<T>(
  fields: Fields,
  path: string,
  name: string,
  accepts: (value: unknown) => value is T,
  what: string
): T | undefined {
  const value = fields[name]
  if (value === undefined || value === null) return undefined
  if (!accepts(value)) throw wrong(under(path, name), `Input should be ${what}`)
  return value
}

/**
 * The member if it passes the check.
 * @throws Refusal when it is absent or does not pass
 */
export function required<T>(
  fields: Fields,
  path: string,
  name: string,
  accepts: (value: unknown) => value is T,
  what: string
): T {
  const value = allowed(fields, path, name, accepts, what)
  if (value === undefined) throw wrong(under(path, name), 'Field required')
  return value
}

/**
 * A string that must be there.
 * @throws Refusal
 */
export function requiredText(fields: Fields, path: string, name: string): string {
  return required(fields, path, name, isString, 'a valid string')
}

function under(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`
}
