// JSON Schemas as the API and gateway.yaml have them, read for forms: what a member is, and of which kind its field.

/** The parts of a JSON Schema (2020-12) that forms look at. */
export interface Schema {
  readonly title?: string
  readonly description?: string
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly default?: unknown
  readonly examples?: readonly unknown[]
  readonly pattern?: string
  readonly patternErrorMessage?: string
  readonly format?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly writeOnly?: boolean
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: boolean | Schema
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly then?: Schema
  readonly else?: Schema
}

/** The kind of field that a schema takes. */
export type Kind = 'choice' | 'flag' | 'number' | 'text' | 'lines' | 'list' | 'object' | 'map' | 'variants' | 'json'

/** What forms take of a schema: references to the environment are for files, and null is an empty field. */
export function plain(schema: Schema): Schema {
  const choices = schema.anyOf ?? schema.oneOf
  if (!choices) return schema
  const kept = choices.filter((one) => one.type !== 'null' && !one.pattern?.startsWith('\\$\\{'))
  const { anyOf: _any, oneOf: _one, ...rest } = schema
  return kept.length === 1 ? { ...rest, ...plain(kept[0]!) } : { ...rest, anyOf: kept }
}

/** The alternatives of a schema: those of `anyOf`, or of a condition on its form. */
export function variantsOf({ anyOf, then, else: otherwise }: Schema): readonly Schema[] {
  return anyOf ?? [otherwise, then].filter((one) => one !== undefined)
}

/** The kind of field for a schema that {@link plain} gave. */
export function kindOf(schema: Schema): Kind {
  const type = typeof schema.type === 'string' ? schema.type : undefined
  if (schema.enum) return 'choice'
  if (schema.anyOf || (schema.then && schema.else)) return 'variants'
  if (type === 'boolean') return 'flag'
  if (type === 'integer' || type === 'number') return 'number'
  if (type === 'string' || Array.isArray(schema.type)) return 'text'
  if (type === 'array') return schema.items && isLine(plain(schema.items)) ? 'lines' : schema.items ? 'list' : 'json'
  if (schema.properties) return 'object'
  return typeof schema.additionalProperties === 'object' ? 'map' : 'json'
}

function isLine(schema: Schema): boolean {
  return schema.type === 'string' || schema.type === 'integer' || schema.type === 'number'
}

/** Whether a value could be of a schema, by its form alone. */
export function fits(schema: Schema, value: unknown): boolean {
  const kind = kindOf(plain(schema))
  if (Array.isArray(value)) return kind === 'lines' || kind === 'list'
  if (typeof value === 'object' && value !== null) return kind === 'object' || kind === 'map'
  return kind !== 'object' && kind !== 'map' && kind !== 'lines' && kind !== 'list'
}

/** The value to begin with. */
export function emptyOf(schema: Schema): unknown {
  const kind = kindOf(plain(schema))
  if (kind === 'object' || kind === 'map') return {}
  return kind === 'lines' || kind === 'list' ? [] : undefined
}

/** A value as people read it: a text as it is, and anything else as JSON. */
export function shownValue(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** A short name of an alternative. */
export function variantName(schema: Schema): string {
  const { title, const: constant, type } = schema
  if (title !== undefined) return title
  if (constant !== undefined) return shownValue(constant)
  return (
    { array: 'Several', object: 'One', boolean: 'Yes or no', string: 'Text' }[String(type)] ?? String(type ?? 'Other')
  )
}
