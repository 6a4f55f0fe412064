// Converts Gemini's own schemas, a subset of OpenAPI's, to JSON Schema: https://ai.google.dev/api/caching#Schema
import { isObject, isString } from '../fields.ts'
import { Refusal } from '../refusal.ts'
import { membersOf } from './fields.ts'

const members = [
  'type',
  'format',
  'title',
  'description',
  'nullable',
  'enum',
  'maxItems',
  'minItems',
  'properties',
  'required',
  'minProperties',
  'maxProperties',
  'minLength',
  'maxLength',
  'pattern',
  'example',
  'anyOf',
  'propertyOrdering',
  'default',
  'items',
  'minimum',
  'maximum'
]
const types = ['STRING', 'NUMBER', 'INTEGER', 'BOOLEAN', 'ARRAY', 'OBJECT', 'NULL', 'TYPE_UNSPECIFIED']

/** @throws Refusal when it has a member that these schemas do not have */
export function jsonSchemaOf(given: unknown, path: string): Record<string, unknown> {
  const { type, properties, items, anyOf, ...rest } = membersOf(given, path, members)
  if (type !== undefined && !(isString(type) && types.includes(type.toUpperCase())))
    throw new Refusal(400, `Invalid value at '${path}.type': ${JSON.stringify(type)}`)
  return {
    ...rest,
    ...(isString(type) && { type: type.toLowerCase() }),
    ...(isObject(properties) && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, value]) => [name, jsonSchemaOf(value, `${path}.properties[${name}]`)])
      )
    }),
    ...(items !== undefined && { items: jsonSchemaOf(items, `${path}.items`) }),
    ...(Array.isArray(anyOf) && { anyOf: anyOf.map((value, i) => jsonSchemaOf(value, `${path}.any_of[${i}]`)) })
  }
}
