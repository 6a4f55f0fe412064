// JSON objects, as everything that reads what was parsed has to tell them from the rest.
import { maxDepth } from '../bodies/lens.ts'

/** A JSON object. Whatever is in it came from outside. */
export type JsonObject = Readonly<Record<string, unknown>>

/** `value` when it is an object that is no array. */
export function asObject(value: unknown): JsonObject | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : undefined
}

/** The objects of a list; none when it is no list. */
export function asObjects(value: unknown): JsonObject[] {
  return Array.isArray(value)
    ? (value as unknown[]).flatMap((item) => {
        const object = asObject(item)
        return object ? [object] : []
      })
    : []
}

/** `value` when it is text, and otherwise empty text. */
export function asText(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/**
 * Whether it is nested deeper than requests may be: whoever walks through it, or writes it again, has a stack that
 * ends.
 */
export function isDeep(value: unknown, depth = 0): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (depth === maxDepth) return true
  if (Array.isArray(value)) return value.some((inner) => isDeep(inner, depth + 1))
  for (const key in value) if (isDeep((value as JsonObject)[key], depth + 1)) return true
  return false
}
