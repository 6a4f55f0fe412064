// Makes values that fit a JSON Schema, for arguments of tools and for structured answers.
import { isString } from '../fields.ts'
import type { Dice } from './prose.ts'

type Schema = Readonly<Record<string, unknown>>

const words = ['harbour', 'lantern', 'meadow', 'copper', 'willow', 'granite', 'ferry', 'orchard'] as const
const formats = new Map<unknown, string>([
  ['date', '2026-01-31'],
  ['time', '12:30:00Z'],
  ['date-time', '2026-01-31T12:30:00Z'],
  ['email', 'simulator@example.com'],
  ['uri', 'https://example.com/'],
  ['uuid', '6f1c2f3e-0b7a-4c58-9d21-3f5e8a7b9c10']
])
/** Recursive schemas have no end: null is used below this depth, and after this many values. */
const deepest = 12
const mostValues = 1000

/** A value that the schema accepts, as far as types, enums, bounds and required members go. Patterns are ignored. */
export function sampleOf(schema: unknown, dice: Dice): unknown {
  return sample(schema, { root: schema, dice, values: 0 }, 0)
}

interface Sampling {
  root: unknown
  dice: Dice
  values: number
}

function sample(given: unknown, sampling: Sampling, depth: number): unknown {
  const { dice } = sampling
  const schema = resolve(given, sampling.root)
  if (++sampling.values > mostValues || !schema || depth > deepest) return null
  if ('const' in schema) return schema['const']
  if (Array.isArray(schema['enum']) && schema['enum'].length > 0) return dice.pick(schema['enum'])
  for (const choice of ['anyOf', 'oneOf'] as const) {
    const options = schema[choice]
    if (Array.isArray(options) && options.length > 0) return sample(options[0], sampling, depth + 1)
  }
  const type = Array.isArray(schema['type']) ? (schema['type'][0] as unknown) : schema['type']
  switch (type ?? ('properties' in schema ? 'object' : undefined)) {
    case 'object':
      return sampleObject(schema, sampling, depth)
    case 'array': {
      const length = Math.min(Math.max(bound(schema['minItems'], 1), 1), 100)
      return Array.from({ length }, () => sample(schema['items'] ?? {}, sampling, depth + 1))
    }
    case 'integer':
    case 'number': {
      const low = Math.ceil(
        bound(schema['minimum'], bound(schema['exclusiveMinimum'], 0) + ('exclusiveMinimum' in schema ? 1 : 0))
      )
      const high = Math.floor(bound(schema['maximum'], low + 99))
      return low + dice.below(Math.max(high - low, 0) + 1)
    }
    case 'boolean':
      return dice.below(2) === 1
    case 'null':
      return null
    default: {
      const word = formats.get(schema['format']) ?? dice.pick(words)
      return word
        .padEnd(Math.min(bound(schema['minLength'], 0), 10_000), '.')
        .slice(0, bound(schema['maxLength'], Infinity))
    }
  }
}

function sampleObject(schema: Schema, sampling: Sampling, depth: number): unknown {
  const properties = asSchema(schema['properties']) ?? {}
  const required = Array.isArray(schema['required']) ? schema['required'].filter(isString) : Object.keys(properties)
  return Object.fromEntries(required.map((name) => [name, sample(properties[name] ?? {}, sampling, depth + 1)]))
}

/** Follows a reference within the schema. */
function resolve(given: unknown, root: unknown): Schema | undefined {
  const schema = asSchema(given)
  const reference = schema?.['$ref']
  if (typeof reference !== 'string') return schema
  let at: unknown = root
  for (const step of reference.split('/').slice(1)) at = asSchema(at)?.[step]
  const found = asSchema(at)
  return typeof found?.['$ref'] === 'string' ? undefined : found
}

function asSchema(value: unknown): Schema | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Schema) : undefined
}

function bound(value: unknown, otherwise: number): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : otherwise
}
