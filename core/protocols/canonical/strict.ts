// Schemas that OpenAI accepts as strict: every object requires all of its members and allows no others ("Structured
// model outputs").
import { asObject, asObjects } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { OutputFormat } from './request.ts'

const deepest = 32

/** Whether the schema is strict as it is. */
export function isStrict(schema: JsonObject): boolean {
  return (
    schema['type'] === 'object' &&
    inner(schema, 0).every((one) => demandsAll(one) && one['additionalProperties'] === false)
  )
}

/**
 * Makes a strict schema from one of a protocol in which every schema can be strict. Undefined when that is impossible:
 * a member is optional, or an object allows other members.
 */
export function madeStrict(schema: Record<string, unknown>): Record<string, unknown> | undefined {
  const objects = inner(schema, 0)
  const closes = objects.every(
    (one) => demandsAll(one) && (one['additionalProperties'] ?? false) === false && one['properties'] !== undefined
  )
  return schema['type'] === 'object' && closes ? (closed(schema) as Record<string, unknown>) : undefined
}

/**
 * The output format for a schema from a protocol without names and strictness; strict if OpenAI accepts the schema so.
 */
export function nameless(schema: Record<string, unknown>): OutputFormat {
  const strict = madeStrict(schema)
  return {
    type: 'json_schema',
    name: 'output',
    description: undefined,
    schema: strict ?? schema,
    strict: strict !== undefined
  }
}

/**
 * All schemas of objects in the schema, itself included. Where it is nested too deep, an object stands in that is not
 * closed.
 */
function inner(schema: unknown, depth: number): JsonObject[] {
  const fields = asObject(schema)
  if (!fields) return []
  if (depth > deepest) return [{ type: 'object', properties: { deeper: {} } }]
  const isObject =
    fields['properties'] !== undefined ||
    fields['type'] === 'object' ||
    (Array.isArray(fields['type']) && fields['type'].includes('object'))
  return [...(isObject ? [fields] : []), ...held(fields).flatMap((one) => inner(one, depth + 1))]
}

function held(fields: JsonObject): unknown[] {
  const maps = [fields['properties'], fields['$defs'], fields['definitions']].flatMap((map) =>
    Object.values(asObject(map) ?? {})
  )
  return [...maps, fields['items'], ...asObjects(fields['anyOf']), ...asObjects(fields['prefixItems'])]
}

function demandsAll(object: JsonObject): boolean {
  const required = new Set(Array.isArray(object['required']) ? (object['required'] as unknown[]) : [])
  return Object.keys(asObject(object['properties']) ?? {}).every((name) => required.has(name))
}

function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed)
  const fields = asObject(value)
  if (!fields) return value
  const made: Record<string, unknown> = {}
  for (const [key, one] of Object.entries(fields)) {
    if (key === 'properties' || key === '$defs' || key === 'definitions')
      made[key] = Object.fromEntries(
        Object.entries(asObject(one) ?? {}).map(([name, schema]) => [name, closed(schema)])
      )
    else made[key] = key === 'items' || key === 'anyOf' || key === 'prefixItems' ? closed(one) : one
  }
  if (fields['properties'] !== undefined) made['additionalProperties'] = false
  return made
}
