// Converts schemas from Google's subset of OpenAPI to JSON Schema.
import { asObject } from '../object.ts'

/** Numbers of 64 bits, which Google's JSON writes as strings. */
const counts = ['minItems', 'maxItems', 'minLength', 'maxLength', 'minProperties', 'maxProperties']
const deepest = 100

/** The schema as JSON Schema. */
export function fromGemini(schema: Record<string, unknown>): Record<string, unknown> {
  return convert(schema, 0) as Record<string, unknown>
}

function convert(value: unknown, depth: number): unknown {
  const schema = asObject(value)
  if (!schema || depth > deepest) return value
  const made: Record<string, unknown> = {}
  for (const [key, inner] of Object.entries(schema)) {
    if (key === 'type') made[key] = typeOf(inner, schema['nullable'] === true)
    else if (key === 'properties') made[key] = convertMap(inner, depth)
    else if (key === 'anyOf' || key === 'prefixItems')
      made[key] = Array.isArray(inner) ? inner.map((item) => convert(item, depth + 1)) : inner
    else if (key === 'items') made[key] = convert(inner, depth + 1)
    else if (counts.includes(key)) {
      // In Google's JSON a member that is null is one that is not given.
      if (inner !== null) made[key] = typeof inner === 'string' ? Number(inner) : inner
    } else if (key === 'example') made['examples'] = [inner]
    else if (key !== 'nullable' && key !== 'propertyOrdering') made[key] = inner
  }
  return made
}

function typeOf(type: unknown, nullable: boolean): unknown {
  if (typeof type !== 'string') return type
  const name = type.toLowerCase()
  return nullable ? [name, 'null'] : name
}

function convertMap(value: unknown, depth: number): unknown {
  const map = asObject(value)
  return map ? Object.fromEntries(Object.entries(map).map(([name, inner]) => [name, convert(inner, depth + 1)])) : value
}
