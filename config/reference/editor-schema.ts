// Makes the JSON Schema of gateway.yaml for editors: the shape of the file, with the options of every plugin.
import { objectSchema } from '../../core/options/json-schema.ts'
import { fileShape } from '../shape.ts'
import type { Plugin } from '../../core/contract/contract.ts'
import type { JsonSchema } from '../../core/options/json-schema.ts'
import type { Plugins } from '../sections/chain.ts'

type Keywords = { readonly [keyword: string]: unknown }

const variable = '\\$\\{[A-Za-z_]'

/**
 * Makes the schema in draft-07, which YAML language servers read. It requires no section, because included files have
 * only some, and the editor cannot know which file it shows.
 */
export function editorSchema(plugins: Plugins): Keywords {
  const file = objectSchema(fileShape, []) as { properties: Record<string, Keywords> }
  const chain = { ...file.properties['chain'], items: entrySchema([...plugins.values()]) }
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'gateway.yaml',
    description: 'Configuration of the Sluice gateway, or a file that it includes.',
    ...(withVariables({ ...file, properties: { ...file.properties, chain } }) as object),
    patternProperties: { '^x-': { description: 'Free, for anchors.' } }
  }
}

function entrySchema(plugins: readonly Plugin[]): Keywords {
  const properties = plugins.map(({ name, summary, options, required }) => [
    name,
    { title: name, description: summary, ...(objectSchema(options, required) as object) }
  ])
  return {
    title: 'plugin',
    if: { type: 'string' },
    then: { enum: plugins.map(({ name }) => name) },
    else: {
      type: 'object',
      minProperties: 1,
      maxProperties: 1,
      additionalProperties: false,
      properties: Object.fromEntries(properties)
    }
  }
}

/** Allows `${VAR}` wherever a scalar is allowed, because the editor cannot know its value. */
function withVariables(schema: JsonSchema): JsonSchema {
  if (typeof schema === 'boolean') return schema
  const { type, enum: choices, pattern, minimum, maximum, minLength, ...rest } = schema
  const inner = Object.fromEntries(Object.entries(rest).map(([keyword, value]) => [keyword, deeper(keyword, value)]))
  if (typeof pattern === 'string') return { ...inner, type, pattern: `(${pattern})|${variable}` }
  const closed = choices !== undefined || type === 'integer' || type === 'number' || type === 'boolean'
  if (!closed) return { ...inner, ...defined({ type, minLength }) }
  return {
    ...inner,
    anyOf: [defined({ type, enum: choices, minimum, maximum }), { type: 'string', pattern: variable }]
  }
}

function deeper(keyword: string, value: unknown): unknown {
  switch (keyword) {
    case 'properties': {
      const properties = Object.entries(value as Record<string, JsonSchema>)
      return Object.fromEntries(properties.map(([name, schema]) => [name, withVariables(schema)]))
    }
    case 'items':
    case 'additionalProperties':
    case 'then':
    case 'else':
      return withVariables(value as JsonSchema)
    default:
      return value
  }
}

function defined(keywords: Keywords): Keywords {
  return Object.fromEntries(Object.entries(keywords).filter(([, value]) => value !== undefined))
}
