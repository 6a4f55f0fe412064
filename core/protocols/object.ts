// JSON objects, as everything that reads what was parsed has to tell them from the rest.

/** A JSON object. Whatever is in it came from outside. */
export type JsonObject = Readonly<Record<string, unknown>>

/** `value` when it is an object that is no array. */
export function asObject(value: unknown): JsonObject | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : undefined
}
