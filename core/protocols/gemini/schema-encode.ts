// From JSON Schema to Google's subset of OpenAPI (Gemini API reference, "Schema"), which is all that every model takes
// for functions.
import { asObject, asObjects } from '../object.ts'
import type { JsonObject } from '../object.ts'

/** Taken as they are. */
const plain = [
  'title',
  'description',
  'default',
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
  'minLength',
  'maxLength',
  'pattern',
  'minimum',
  'maximum'
]
/** Says nothing about what is allowed. */
const idle = [
  '$schema',
  '$id',
  '$comment',
  '$defs',
  'definitions',
  'examples',
  'readOnly',
  'writeOnly',
  'deprecated',
  '$anchor',
  '$ref',
  'required',
  'nullable'
]
const formats: Readonly<Record<string, readonly string[]>> = {
  string: ['enum', 'date-time'],
  number: ['float', 'double'],
  integer: ['int32', 'int64']
}
const deepest = 32
/** Of the schemas that references unfold into. */
const mostSchemas = 2000

/** What a schema came to. `lost`: keywords that are not in it any more. */
export interface Written {
  /** Undefined for a function without parameters: an object without properties is refused. */
  schema: Record<string, unknown> | undefined
  lost: readonly string[]
}

export function toGemini(schema: JsonObject | undefined): Written {
  if (!schema) return { schema: undefined, lost: [] }
  const writer = new SchemaWriter(schema)
  const written = writer.write({ type: 'object', ...schema }, 0, [])
  return { schema: written['properties'] === undefined ? undefined : written, lost: [...writer.lost] }
}

class SchemaWriter {
  readonly lost = new Set<string>()
  readonly #root: JsonObject
  #count = 0

  constructor(root: JsonObject) {
    this.#root = root
  }

  /** `path`: the references on the way here. One that leads back to itself ends in an object that may be anything. */
  write(given: JsonObject, depth: number, path: readonly string[]): Record<string, unknown> {
    const { schema, followed } = this.#resolve(given, path)
    if (!schema || depth > deepest || ++this.#count > mostSchemas) {
      this.lost.add('$ref')
      return { type: 'OBJECT' }
    }
    const made: Record<string, unknown> = {}
    const { names, nullable } = typesOf(schema)
    const [name] = names
    const alternatives =
      names.length > 1 ? names.map((type) => ({ ...only(schema, type), type })) : (schema['anyOf'] ?? schema['oneOf'])
    const inside = (inner: JsonObject): Record<string, unknown> => this.write(inner, depth + 1, followed)
    if (names.length < 2 && name !== undefined) made['type'] = name.toUpperCase()
    if (nullable) made['nullable'] = true
    for (const key of Object.keys(schema)) this.#member(key, schema, name, names.length > 1, made, inside)
    if (Array.isArray(alternatives)) this.#alternatives(asObjects(alternatives), made, inside)
    if (made['type'] === undefined && made['anyOf'] === undefined) made['type'] = 'STRING'
    if (made['type'] === 'ARRAY') made['items'] ??= { type: 'STRING' }
    return made
  }

  #member(
    key: string,
    schema: JsonObject,
    type: string | undefined,
    mixed: boolean,
    made: Record<string, unknown>,
    inside: (inner: JsonObject) => unknown
  ): void {
    const value = schema[key]
    if (key === 'type' || key === 'anyOf' || key === 'oneOf' || idle.includes(key)) return
    if (mixed && key !== 'description' && key !== 'title') return
    // Its models know no others than those that are told.
    if (key === 'additionalProperties' && value === false) return
    if (plain.includes(key)) made[key] = value
    else if (key === 'properties') {
      const properties = Object.entries(asObject(value) ?? {})
      if (properties.length === 0) return
      made[key] = Object.fromEntries(properties.map(([name, inner]) => [name, inside(asObject(inner) ?? {})]))
      const required = (Array.isArray(schema['required']) ? schema['required'] : []).filter((name) =>
        properties.some(([own]) => own === name)
      )
      if (required.length > 0) made['required'] = required
    } else if (key === 'items') made[key] = inside(asObject(value) ?? {})
    else if (key === 'enum' || key === 'const')
      this.#values(key === 'enum' && Array.isArray(value) ? value : [value], type, made)
    else if (key === 'format' && typeof value === 'string' && formats[type ?? '']?.includes(value)) made[key] = value
    else if (key === 'exclusiveMinimum' && typeof value === 'number' && type === 'integer')
      made['minimum'] = Math.floor(value) + 1
    else if (key === 'exclusiveMaximum' && typeof value === 'number' && type === 'integer')
      made['maximum'] = Math.ceil(value) - 1
    else if (key !== 'allOf') this.lost.add(key)
  }

  /** Only text can be enumerated; other values are told in words. */
  #values(values: readonly unknown[], type: string | undefined, made: Record<string, unknown>): void {
    const told = values.filter((value) => value !== null)
    if (told.every((value) => typeof value === 'string') && (type === undefined || type === 'string')) {
      made['type'] = 'STRING'
      made['enum'] = told
      return
    }
    made['type'] ??= typeof told[0] === 'number' ? 'NUMBER' : typeof told[0] === 'boolean' ? 'BOOLEAN' : 'STRING'
    made['description'] = [made['description'], `One of ${JSON.stringify(told)}.`].filter(Boolean).join(' ')
  }

  /** Null among them means nullable. */
  #alternatives(
    given: readonly JsonObject[],
    made: Record<string, unknown>,
    inside: (inner: JsonObject) => Record<string, unknown>
  ): void {
    const others = given.filter(({ type }) => type !== 'null')
    if (others.length < given.length) made['nullable'] = true
    if (others.length === 1)
      Object.assign(made, {
        ...inside(others[0]!),
        ...(made['description'] !== undefined && { description: made['description'] })
      })
    else if (others.length > 1) {
      made['anyOf'] = others.map(inside)
      delete made['type']
    }
  }

  /** The schema that is meant, with what is said beside a reference, and with all of `allOf` in it. */
  #resolve(
    given: JsonObject,
    path: readonly string[]
  ): { schema: JsonObject | undefined; followed: readonly string[] } {
    let schema = given
    let followed = path
    for (let ref = schema['$ref']; typeof ref === 'string'; ref = schema['$ref']) {
      if (followed.includes(ref)) return { schema: undefined, followed }
      followed = [...followed, ref]
      const { $ref: _ref, ...beside } = schema
      schema = { ...this.#lookUp(ref), ...beside }
    }
    if (!Array.isArray(schema['allOf'])) return { schema, followed }
    const { allOf, ...beside } = schema
    let merged: JsonObject = beside
    for (const part of asObjects(allOf)) {
      const { schema: inner, followed: more } = this.#resolve(part, followed)
      followed = more
      merged = mergeSchemas(merged, inner ?? {})
    }
    return { schema: merged, followed }
  }

  #lookUp(ref: string): JsonObject {
    if (!ref.startsWith('#')) return {}
    let found: unknown = this.#root
    for (const step of ref.slice(1).split('/').filter(Boolean))
      found = asObject(found)?.[step.replaceAll('~1', '/').replaceAll('~0', '~')]
    return asObject(found) ?? {}
  }
}

/** What a schema of several types says of one of them. */
function only(schema: JsonObject, type: string): JsonObject {
  const { anyOf: _anyOf, oneOf: _oneOf, description: _description, title: _title, ...rest } = schema
  if (type !== 'object') delete (rest as Record<string, unknown>)['properties']
  if (type !== 'array') delete (rest as Record<string, unknown>)['items']
  return rest
}

function typesOf(schema: JsonObject): { names: string[]; nullable: boolean } {
  const { type } = schema
  const said = (Array.isArray(type) ? type : [type]).flatMap((name) =>
    typeof name === 'string' ? [name.toLowerCase()] : []
  )
  const names = said.filter((name) => name !== 'null')
  if (names.length === 0) {
    if (schema['properties'] !== undefined) names.push('object')
    else if (schema['items'] !== undefined) names.push('array')
  }
  return { names, nullable: said.includes('null') || schema['nullable'] === true }
}

/** Properties and what is required come together; of the rest the first word holds. */
function mergeSchemas(first: JsonObject, more: JsonObject): JsonObject {
  const properties = { ...asObject(more['properties']), ...asObject(first['properties']) }
  const required = [first['required'], more['required']].flatMap((list) =>
    Array.isArray(list) ? (list as unknown[]) : []
  )
  return {
    ...more,
    ...first,
    ...(Object.keys(properties).length > 0 && { properties }),
    ...(required.length > 0 && { required: [...new Set(required)] })
  }
}
