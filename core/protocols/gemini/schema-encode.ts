// Converts JSON Schema to Google's subset of OpenAPI (Gemini API reference, "Schema"): every model accepts that for
// functions, and not every model accepts more.
import { asObject, asObjects, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'

/** Keywords that are copied. */
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
/** Keywords that do not restrict values, or that are handled elsewhere. */
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
/** The most schemas that references may be expanded into. */
const mostSchemas = 2000

/** A converted schema. `lost`: keywords of the original that it does not have. */
export interface Written {
  /** Undefined for a function without parameters: the vendor refuses an object without properties. */
  schema: Record<string, unknown> | undefined
  lost: readonly string[]
}

export function toGemini(schema: JsonObject = {}): Written {
  const writer = new SchemaWriter(schema)
  const written = writer.write({ type: 'object', ...schema }, 0, [])
  return { schema: written['properties'] === undefined ? undefined : written, lost: [...writer.lost] }
}

/** A schema being converted. */
interface Making {
  readonly schema: JsonObject
  /** Its only type; undefined when it has none. */
  readonly type: string | undefined
  readonly made: Record<string, unknown>
  /** Sentences to add to its description. */
  readonly told: string[]
  /** Converts a schema inside of it. */
  inside(inner: JsonObject): Record<string, unknown>
}

/** Keywords about a value of several types as a whole, which are not repeated for each type. */
const named = ['description', 'title']

/** Keywords that are put into the description, with the words before each. */
const inWords: Readonly<Record<string, string>> = {
  additionalProperties: 'It has members of any name, each of this schema',
  patternProperties: 'Its members have names like these'
}
/** The longest text of such a keyword, in characters. */
const longestTold = 2000

/** The schema of a value that may be anything. */
function anything(): Record<string, unknown> {
  const single = ['STRING', 'NUMBER', 'BOOLEAN', 'OBJECT'].map((type) => ({ type }))
  return { anyOf: [...single, { type: 'ARRAY', items: { anyOf: single } }] }
}

class SchemaWriter {
  readonly lost = new Set<string>()
  readonly #root: JsonObject
  #count = 0

  constructor(root: JsonObject) {
    this.#root = root
  }

  /** `path`: the references followed so far. One that leads back to itself becomes an object that may be anything. */
  write(given: JsonObject, depth: number, path: readonly string[]): Record<string, unknown> {
    const { schema: meant, followed } = this.#resolve(given, path)
    if (!meant || depth > deepest || ++this.#count > mostSchemas) {
      this.lost.add('$ref')
      return { type: 'OBJECT' }
    }
    const schema = withoutTuple(meant)
    const { names, nullable } = typesOf(schema)
    const [type] = names
    const mixed = names.length > 1
    const alternatives = mixed
      ? names.map((name) => ({ ...only(schema, name), type: name }))
      : (schema['anyOf'] ?? schema['oneOf'])
    const inside = (inner: JsonObject): Written['schema'] & {} => this.write(inner, depth + 1, followed)
    const made: Making['made'] = {}
    const making: Making = { schema, type, made, told: [], inside }
    if (!mixed && type !== undefined) made['type'] = type.toUpperCase()
    if (nullable) made['nullable'] = true
    for (const key of Object.keys(schema)) if (!mixed || named.includes(key)) this.#member(key, making)
    this.#alternatives(asObjects(alternatives), made, inside)
    if (made['type'] === undefined && made['anyOf'] === undefined) Object.assign(made, anything())
    if (made['type'] === 'ARRAY') made['items'] ??= anything()
    if (making.told.length > 0)
      made['description'] = [asText(made['description']), ...making.told].filter(Boolean).join(' ')
    return made
  }

  #member(key: string, { schema, type, made, told, inside }: Making): void {
    const value = schema[key]
    if (key === 'type' || key === 'anyOf' || key === 'oneOf' || idle.includes(key)) return
    // Objects never have other members in this form of schema.
    if (key === 'additionalProperties' && value === false) return
    if (plain.includes(key)) made[key] = value
    else if (key === 'properties') {
      const properties = Object.entries(asObject(value) ?? {})
      if (properties.length === 0) return
      made[key] = Object.fromEntries(properties.map(([name, inner]) => [name, inside(asObject(inner) ?? {})]))
      const names = new Set<unknown>(properties.map(([name]) => name))
      const required = (Array.isArray(schema['required']) ? schema['required'] : []).filter((name) => names.has(name))
      if (required.length > 0) made['required'] = required
    } else if (key === 'items') made[key] = inside(asObject(value) ?? {})
    else if (key === 'enum' || key === 'const')
      this.#values(key === 'enum' && Array.isArray(value) ? value : [value], { schema, type, made, told, inside })
    else if (key === 'format' && typeof value === 'string' && formats[type ?? '']?.includes(value)) made[key] = value
    else if (key === 'exclusiveMinimum' && typeof value === 'number' && type === 'integer')
      made['minimum'] = Math.floor(value) + 1
    else if (key === 'exclusiveMaximum' && typeof value === 'number' && type === 'integer')
      made['maximum'] = Math.ceil(value) - 1
    else {
      this.lost.add(key)
      const words = inWords[key]
      if (words !== undefined) told.push(`${words}: ${JSON.stringify(value).slice(0, longestTold)}.`)
    }
  }

  /** Only non-empty strings can be an `enum`. Other values are listed in the description. */
  #values(values: readonly unknown[], { type, made, told }: Making): void {
    const given = values.filter((value) => value !== null)
    if (
      given.every((value) => typeof value === 'string' && value !== '') &&
      (type === undefined || type === 'string')
    ) {
      made['type'] = 'STRING'
      made['enum'] = given
      return
    }
    made['type'] ??= typeof given[0] === 'number' ? 'NUMBER' : typeof given[0] === 'boolean' ? 'BOOLEAN' : 'STRING'
    told.push(`One of ${JSON.stringify(given)}.`)
  }

  /** A null type among the alternatives becomes `nullable`. */
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

  /** The schema behind references, merged with the keywords beside them and with all schemas of `allOf`. */
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

/** Keywords of lists, objects and texts. A schema that has some of them and no type is of that type. */
const ofLists = ['items', 'minItems', 'maxItems', 'uniqueItems', 'contains']
const ofObjects = [
  'properties',
  'additionalProperties',
  'patternProperties',
  'propertyNames',
  'minProperties',
  'maxProperties'
]
const ofTexts = ['pattern', 'minLength', 'maxLength']

/** The part of a schema of several types that is about one of them. */
function only(schema: JsonObject, type: string): JsonObject {
  const others = [
    ...(type === 'object' ? [] : ofObjects),
    ...(type === 'array' ? [] : ofLists),
    ...(type === 'string' ? [] : ofTexts)
  ]
  const left = ['anyOf', 'oneOf', ...named, ...others]
  return Object.fromEntries(Object.entries(schema).filter(([key]) => !left.includes(key)))
}

function typesOf(schema: JsonObject): { names: string[]; nullable: boolean } {
  const { type } = schema
  const said = (Array.isArray(type) ? type : [type]).flatMap((name) =>
    typeof name === 'string' ? [name.toLowerCase()] : []
  )
  const names = said.filter((name) => name !== 'null')
  const has = (keys: readonly string[]): boolean => keys.some((key) => schema[key] !== undefined)
  if (names.length === 0) {
    if (has(ofObjects)) names.push('object')
    else if (has(ofLists)) names.push('array')
    else if (has(ofTexts) || said.length > 0) names.push('string')
  }
  return { names, nullable: said.includes('null') || schema['nullable'] === true }
}

/**
 * Converts a list with a schema for each place to a list of items of any of these schemas, with the order in the
 * description.
 */
function withoutTuple(schema: JsonObject): JsonObject {
  const { items, prefixItems, additionalItems, ...list } = schema
  const tuple = asObjects(Array.isArray(items) ? items : prefixItems)
  if (tuple.length === 0) return schema
  const rest = Array.isArray(items) ? additionalItems : items
  const each = new Map([...tuple, ...asObjects([rest])].map((item) => [JSON.stringify(item), item]))
  const order = `Its items are, in this order: ${JSON.stringify(tuple).slice(0, longestTold)}.`
  return {
    type: 'array',
    ...list,
    description: [asText(list['description']), order].filter(Boolean).join(' '),
    items: { anyOf: [...each.values()] },
    ...(rest === false && list['maxItems'] === undefined && { maxItems: tuple.length })
  }
}

/** Merges two schemas. Properties and required members are combined; other keywords of the first one win. */
function mergeSchemas(first: JsonObject, more: JsonObject): JsonObject {
  const properties = { ...asObject(more['properties']), ...asObject(first['properties']) }
  const required = [first['required'], more['required']].flatMap((list) =>
    Array.isArray(list) ? (list as unknown[]) : []
  )
  return {
    ...more,
    ...first,
    ...(Object.keys(properties).length > 0 && { properties }),
    required: [...new Set(required)]
  }
}
