// The words that shapes of answers are made of: JSON Schemas (2020-12).
import type { JsonSchema } from '../../options/json-schema.ts'

/** A schema object. */
export type Shape = Exclude<JsonSchema, boolean>

/** Any text. */
export const text: Shape = { type: 'string' }
/** True or false. */
export const flag: Shape = { type: 'boolean' }
/** Any number. */
export const number: Shape = { type: 'number' }
/** A whole number from zero on. */
export const count: Shape = { type: 'integer', minimum: 0 }
/** RFC 3339. */
export const time: Shape = { type: 'string', format: 'date-time' }
/** Nano-dollars as decimal text. */
export const nano: Shape = { type: 'string', pattern: '^-?\\d+$', description: 'Nano-dollars.' }
/** US dollars as decimal text. */
export const usd: Shape = { type: 'string', pattern: '^-?\\d+(\\.\\d+)?$', description: 'US dollars.' }
/** Any JSON. */
export const anything: Shape = {}

/** A shape, or null. */
export const nullable = (shape: Shape): Shape => ({ anyOf: [shape, { type: 'null' }] })
/** A list of a shape. */
export const listOf = (items: Shape): Shape => ({ type: 'array', items })
/** An object with any names. */
export const mapOf = (values: Shape): Shape => ({ type: 'object', additionalProperties: values })
/** One of these texts. */
export const oneOf = (...words: readonly string[]): Shape => ({ type: 'string', enum: words })

/** A shape with a description for readers of the document. */
export const said = (shape: Shape, description: string): Shape => ({ ...shape, description })

/** An object of these members. All are required but the `optional` ones, and there are no others unless `open`. */
export function object(
  properties: Readonly<Record<string, Shape>>,
  { optional = [], open = false }: { optional?: readonly string[]; open?: boolean } = {}
): Shape {
  return {
    type: 'object',
    properties,
    required: Object.keys(properties).filter((name) => !optional.includes(name)),
    ...(!open && { additionalProperties: false })
  }
}

/** An amount in both forms. */
export function amount(name: string): Record<string, Shape> {
  return { [`${name}_usd`]: nullable(usd), [`${name}_nano`]: nullable(nano) }
}
