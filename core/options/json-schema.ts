// Translates option schemas into draft-07 JSON Schema, which ajv compiles and editors use for completion.
import { notations } from './units.ts'
import type { OptionSchema, OptionSchemas } from './schema.ts'

/** A draft-07 schema object, or the `true` schema. */
export type JsonSchema = boolean | { readonly [keyword: string]: unknown }

/** The schema of an object with exactly these options. The `title` of each option is its name. */
export function objectSchema(options: OptionSchemas, required: readonly string[] = []): JsonSchema {
  const properties = Object.entries(options).map(([name, option]) => [name, { title: name, ...valueSchema(option) }])
  return {
    type: 'object',
    properties: Object.fromEntries(properties),
    additionalProperties: false,
    ...(required.length > 0 ? { required } : {})
  }
}

/** The schema of one value, with its description, default and examples. A secret is `writeOnly`. */
function valueSchema(option: OptionSchema): { readonly [keyword: string]: unknown } {
  const about = {
    description: option.description,
    ...('default' in option ? { default: option.default } : {}),
    ...(option.examples ? { examples: option.examples } : {}),
    ...(option.secret ? { writeOnly: true } : {})
  }
  switch (option.type) {
    case undefined:
      return about
    case 'array':
      return { ...about, type: 'array', items: valueSchema(option.items), ...pick(option, ['minItems']) }
    case 'object': {
      if ('additionalProperties' in option) {
        const values = valueSchema(option.additionalProperties)
        return { ...about, type: 'object', additionalProperties: values, ...pick(option, ['propertyNames']) }
      }
      const object = objectSchema(option.properties, option.required) as object
      if (option.orText) {
        const words = 'text, or a map'
        const rest = { type: 'string', writeOnly: true, patternErrorMessage: words }
        return { ...about, if: { type: 'object' }, then: object, else: rest }
      }
      // ajv does not fill in defaults inside anyOf.
      if (!option.or) {
        const list = { type: 'array', items: object }
        return { ...about, ...(option.orList ? { if: { type: 'array' }, then: list, else: object } : object) }
      }
      const words = { enum: option.or }
      const list = { type: 'array', minItems: 1, items: object }
      const rest = option.orList ? { if: { type: 'array' }, then: list, else: words } : words
      return { ...about, if: { type: 'object' }, then: object, else: rest }
    }
    case 'string': {
      if (option.enum) return { ...about, ...choice(option.enum) }
      if (!option.format)
        return { ...about, type: 'string', ...pick(option, ['minLength', 'pattern', 'patternErrorMessage']) }
      const { pattern, words, number } = notations[option.format]
      return { ...about, type: number ? ['string', 'number'] : 'string', pattern, patternErrorMessage: words }
    }
    default: {
      const number = { type: option.type, ...pick(option, ['minimum', 'maximum']) }
      return {
        ...about,
        ...('or' in option ? { if: { type: 'string' }, then: { enum: option.or }, else: number } : number)
      }
    }
  }
}

/** A choice such as `1` is also accepted as a number, because YAML reads it as one. */
function choice(words: readonly string[]): object {
  const numbers = words.map(Number).filter(Number.isFinite)
  return { type: numbers.length > 0 ? ['string', 'number'] : 'string', enum: [...words, ...numbers] }
}

function pick(option: object, keywords: readonly string[]): object {
  return Object.fromEntries(Object.entries(option).filter(([keyword]) => keywords.includes(keyword)))
}
