// Closes JSON Schemas, as Anthropic and Bedrock require it for strict output and strict tools.
import { asObject } from '../object.ts'

/** Keywords that its grammar does not support. They are put into the description instead. */
const limits = [
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'pattern',
  'minItems',
  'maxItems',
  'uniqueItems',
  'minProperties',
  'maxProperties',
  'propertyNames',
  'patternProperties'
] as const

/** Keywords that hold schemas: a single one, a list, or a map by name. */
const single = ['items', 'not', 'if', 'then', 'else', 'contains', 'additionalItems']
const lists = ['anyOf', 'allOf', 'oneOf', 'prefixItems']
const maps = ['properties', '$defs', 'definitions']

const deepest = 100

/** The schema with every object closed, `oneOf` as `anyOf`, and unsupported limits as part of the description. */
export function closeSchema(schema: Record<string, unknown>): Record<string, unknown> {
  return closed(schema, 0) as Record<string, unknown>
}

/** Whether an object of the schema may have members that it does not name. Closing it would lose them. */
export function hasMaps(value: unknown, depth = 0): boolean {
  if (Array.isArray(value)) return value.some((item) => hasMaps(item, depth))
  const schema = asObject(value)
  if (!schema || depth > deepest) return false
  const { additionalProperties: more, patternProperties, properties, type } = schema
  if (asObject(more) !== undefined || patternProperties !== undefined) return true
  const isObject = type === 'object' || (Array.isArray(type) && type.includes('object'))
  const elsewhere = lists.some((key) => schema[key] !== undefined) || schema['$ref'] !== undefined
  if (isObject && properties === undefined && !elsewhere && more !== false) return true
  return (
    [...single, ...lists].some((key) => hasMaps(schema[key], depth + 1)) ||
    maps.some((key) => Object.values(asObject(schema[key]) ?? {}).some((inner) => hasMaps(inner, depth + 1)))
  )
}

function closed(value: unknown, depth: number): unknown {
  const schema = asObject(value)
  if (!schema || depth > deepest) return value
  const made: Record<string, unknown> = {}
  const told: string[] = []
  for (const [key, inner] of Object.entries(schema)) {
    if ((limits as readonly string[]).includes(key)) told.push(`${key}: ${JSON.stringify(inner)}`)
    else if (key === 'oneOf' && schema['anyOf'] === undefined) made['anyOf'] = closedList(inner, depth)
    else if (lists.includes(key)) made[key] = closedList(inner, depth)
    else if (maps.includes(key)) made[key] = closedMap(inner, depth)
    else if (single.includes(key))
      made[key] = Array.isArray(inner) ? closedList(inner, depth) : closed(inner, depth + 1)
    else if (key !== 'additionalProperties') made[key] = inner
  }
  const { type } = schema
  if (type === 'object' || schema['properties'] !== undefined || (Array.isArray(type) && type.includes('object')))
    made['additionalProperties'] = false
  if (told.length > 0) {
    const { description } = schema
    made['description'] = `${typeof description === 'string' ? `${description} ` : ''}(${told.join(', ')})`
  }
  return made
}

function closedList(value: unknown, depth: number): unknown {
  return Array.isArray(value) ? value.map((item) => closed(item, depth + 1)) : value
}

function closedMap(value: unknown, depth: number): unknown {
  const map = asObject(value)
  return map ? Object.fromEntries(Object.entries(map).map(([name, inner]) => [name, closed(inner, depth + 1)])) : value
}
