// Reads members of Gemini's requests, in camel case or snake case, and refuses wrong ones as Google does.
import { isObject } from '../fields.ts'
import type { Fields } from '../fields.ts'
import { Refusal } from '../refusal.ts'

/** The refusal of the value at a path. */
export function wrong(path: string, what: string): Refusal {
  return new Refusal(400, `* ${path}: ${what}`)
}

const camel = (name: string): string => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())

/**
 * The members of an object, by their names in camel case.
 * @throws Refusal when it is not an object, or has an unknown member
 */
export function membersOf(value: unknown, path: string, known: readonly string[]): Fields {
  if (!isObject(value)) throw new Refusal(400, `Invalid value at '${path}': Expected an object.`)
  const members: Record<string, unknown> = {}
  for (const [name, member] of Object.entries(value)) {
    if (!known.includes(camel(name))) {
      throw new Refusal(
        400,
        `Invalid JSON payload received. Unknown name ${JSON.stringify(name)}${path === '' ? '' : ` at '${path}'`}: Cannot find field.`
      )
    }
    if (member !== null) members[camel(name)] = member
  }
  return members
}

/**
 * The member if it passes the check; undefined when it is absent.
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
  if (value === undefined) return undefined
  if (!accepts(value))
    throw new Refusal(400, `Invalid value at '${path === '' ? name : `${path}.${name}`}': Expected ${what}.`)
  return value
}

/**
 * A list; empty when it is absent.
 * @throws Refusal when it is not a list
 */
export function listOf(fields: Fields, path: string, name: string): readonly unknown[] {
  return allowed(fields, path, name, Array.isArray, 'a list') ?? []
}
