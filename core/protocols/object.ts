// Helpers for reading parsed JSON.
import { maxDepth } from '../bodies/lens.ts'

export { hasEscapedKey, parseStrictly } from '../bodies/lens.ts'

/** A JSON object. Nothing about its contents has been checked. */
export type JsonObject = Readonly<Record<string, unknown>>

/** The value if it is an object and no array. */
export function asObject(value: unknown): JsonObject | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : undefined
}

/** The objects in a list; none when it is not a list. */
export function asObjects(value: unknown): JsonObject[] {
  return Array.isArray(value)
    ? (value as unknown[]).flatMap((item) => {
        const object = asObject(item)
        return object ? [object] : []
      })
    : []
}

/** The value if it is a string, else an empty string. */
export function asText(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/** The value if it is a number, or the number that a string spells; NaN for anything else. */
export function asNumber(value: unknown): number {
  return typeof value === 'number' || typeof value === 'string' ? Number(value) : NaN
}

/** Compares values as {@link asNumber} reads them, for sorting: what is no number comes before all numbers. */
export function compareNumbers(first: unknown, second: unknown): number {
  const [a, b] = [asNumber(first), asNumber(second)]
  if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(b)) - Number(Number.isNaN(a))
  return a - b
}

/** Whether a value is nested deeper than requests may be, so that recursion over it could exhaust the stack. */
export function isDeep(value: unknown, depth = 0): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (depth === maxDepth) return true
  if (Array.isArray(value)) return value.some((inner) => isDeep(inner, depth + 1))
  for (const key in value) if (isDeep((value as JsonObject)[key], depth + 1)) return true
  return false
}
