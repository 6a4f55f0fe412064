// Checks values against option schemas: defaults filled in, units converted, faults in sentences.
import { Ajv } from 'ajv'
import { objectSchema } from './json-schema.ts'
import { nearest, suggestion } from './suggest.ts'
import { convertUnit, notations } from './units.ts'
import type { ErrorObject, ValidateFunction } from 'ajv'
import type { OptionSchema, OptionSchemas, OptionValues } from './schema.ts'

/** One thing wrong with a value. */
export interface Fault {
  /** JSON pointer to what is wrong. */
  pointer: string
  /**
   * What is wrong there: the value, the name it has in the object around it, or that the object there lacks something.
   */
  on: 'value' | 'name' | 'missing'
  /** Without the subject: `must be a duration like 30s, not "soon"`. */
  message: string
}

/** `value` has the schema's type when there are no faults; with faults it is as far as it could be converted. */
export interface Checked<T> {
  value: T
  faults: Fault[]
}

/** What is known of where a value comes from. */
export interface Origin {
  /** The value at a pointer for a message; a file shows variables as they are written, so that no secret leaks. */
  show(pointer: string, value: unknown): string
  /** The text there comes from a variable and may stand for a number, or for true or false. */
  untyped(pointer: string): boolean
}

/** Checks one value; the value given is not changed. */
export type Checker<T> = (value: unknown, origin?: Origin) => Checked<T>

const checkers = new WeakMap<OptionSchemas, Checker<unknown>>()
let ajv: Ajv | undefined

/**
 * The checker for a set of options, made on first use and kept as long as the options are; `required` belongs to the
 * options and must be the same in every call. Throws when the options are no proper schema, which is their author's
 * bug.
 */
export function checkerOf<O extends OptionSchemas, R extends keyof O & string = never>(
  options: O,
  required: readonly R[] = []
): Checker<OptionValues<O, R>> {
  let checker = checkers.get(options)
  if (!checker) checkers.set(options, (checker = makeChecker(options, required)))
  return checker as Checker<OptionValues<O, R>>
}

function makeChecker(options: OptionSchemas, required: readonly string[]): Checker<unknown> {
  // A checker runs once per file or key: optimising its code takes longer than that ever saves.
  ajv ??= new Ajv({
    allErrors: true,
    strict: true,
    allowUnionTypes: true,
    useDefaults: true,
    verbose: true,
    code: { optimize: false }
  }).addVocabulary(['patternErrorMessage'])
  const validate: ValidateFunction = ajv.compile(objectSchema(options, required) as object)
  const root: OptionSchema = { description: '', type: 'object', properties: options }
  return (value, origin = plainOrigin) => {
    const copy = plainCopy(root, value ?? {}, '', origin)
    validate(copy)
    const faults = (validate.errors ?? []).flatMap((error) => faultOf(error, origin.show) ?? [])
    const broken = new Set(faults.map((fault) => fault.pointer))
    return { value: convert(root, copy, '', { faults, broken, show: origin.show }), faults }
  }
}

const plainOrigin: Origin = { show: showPlain, untyped: () => false }

/**
 * Texts in quotes and cut short, numbers and words as they are, lists and maps by name; what looks like a key is
 * hidden.
 */
export function showPlain(_pointer: string, value: unknown): string {
  if (Array.isArray(value)) return 'a list'
  if (isMap(value)) return 'a map'
  if (value === null || value === undefined) return 'nothing'
  if (typeof value !== 'string') return String(value)
  if (/sk-/i.test(value)) return 'what looks like a key'
  return JSON.stringify(value.length > 40 ? `${value.slice(0, 39)}…` : value)
}

/** A value that has named parts: no list, nothing empty. */
export function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** One step down a JSON pointer. */
export function below(pointer: string, name: string | number): string {
  return `${pointer}/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`
}

/**
 * Copies without prototypes, so that a key called `constructor` is only a key. An empty value (`limits:` with all lines
 * commented out) counts as absent where a known option stands, and as an empty map where a map stands below a free
 * name. What no schema speaks of is a fault and never looked into, however deep it goes.
 */
function plainCopy(schema: OptionSchema | undefined, value: unknown, pointer: string, origin: Origin): unknown {
  if (schema === undefined) return value
  if (Array.isArray(value)) {
    const items = itemsOf(schema)
    return value.map((item, index) => plainCopy(items, item, below(pointer, index), origin))
  }
  if (typeof value === 'string' && origin.untyped(pointer)) return typed(schema, value)
  if (!isMap(value)) return value
  const copy: Record<string, unknown> = Object.create(null)
  for (const [name, item] of Object.entries(value)) {
    const known = propertyOf(schema, name)
    if (item !== null) copy[name] = plainCopy(known.schema, item, below(pointer, name), origin)
    else if (known.free && known.schema?.type === 'object') copy[name] = Object.create(null)
    else if (known.free || !known.schema) copy[name] = null
  }
  return copy
}

/** A variable's text as what the schema asks for, when it looks like it. */
function typed(schema: OptionSchema, text: string): unknown {
  const takesNumber = schema.type === 'integer' || schema.type === 'number'
  if (takesNumber && /^-?\d{1,15}(\.\d{1,15})?$/.test(text)) return Number(text)
  const takesFalse =
    schema.type === 'boolean' || (schema.type === 'object' && 'or' in schema && schema.or?.includes(false))
  if (takesFalse && text === 'false') return false
  return schema.type === 'boolean' && text === 'true' ? true : text
}

/** The schema of one key of an object, and whether its name is free. */
export function propertyOf(
  schema: OptionSchema | undefined,
  name: string
): { schema: OptionSchema | undefined; free: boolean } {
  if (schema?.type !== 'object') return { schema: undefined, free: false }
  if ('additionalProperties' in schema) return { schema: schema.additionalProperties, free: true }
  return { schema: Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined, free: false }
}

/** The schema of the entries where a list stands; undefined where none may. */
function itemsOf(schema: OptionSchema | undefined): OptionSchema | undefined {
  if (schema?.type === 'array') return schema.items
  return schema?.type === 'object' && 'orList' in schema ? schema : undefined
}

interface Conversion {
  faults: Fault[]
  /** Pointers that have a fault already. */
  broken: ReadonlySet<string>
  show: Origin['show']
}

function convert(schema: OptionSchema, value: unknown, pointer: string, conversion: Conversion): unknown {
  const items = itemsOf(schema)
  if (items && Array.isArray(value))
    return value.map((item, index) => convert(items, item, below(pointer, index), conversion))
  if (schema.type === 'object' && isMap(value)) {
    for (const [name, item] of Object.entries(value)) {
      const property = propertyOf(schema, name).schema
      if (property) value[name] = convert(property, item, below(pointer, name), conversion)
    }
    // Where all names are known, plain objects are safe, and what authors expect.
    return 'properties' in schema ? Object.fromEntries(Object.entries(value)) : value
  }
  const scalar = typeof value === 'string' || typeof value === 'number'
  if (schema.type !== 'string' || !scalar || conversion.broken.has(pointer)) return value
  if (!schema.format) return String(value)
  const converted = convertUnit(schema.format, value)
  const message = converted === undefined ? `must be ${notations[schema.format].words}` : outside(schema, converted)
  if (message === undefined) return converted
  const shown = withValue(message, schema.secret, pointer, value, conversion.show)
  conversion.faults.push({ pointer, on: 'value', message: shown })
  return undefined
}

/** What a duration or size is outside of, if it is. */
function outside(schema: OptionSchema & { type: 'string' }, value: number | bigint | string): string | undefined {
  const { format, atLeast, atMost } = schema
  if (format === undefined) return undefined
  if (atLeast !== undefined && value < convertUnit(format, atLeast)!) return `must be at least ${atLeast}`
  return atMost !== undefined && value > convertUnit(format, atMost)! ? `must be at most ${atMost}` : undefined
}

function withValue(message: string, secret: unknown, pointer: string, value: unknown, show: Origin['show']): string {
  return secret ? message : `${message}, not ${show(pointer, value)}`
}

const typeWords: Readonly<Record<string, string>> = {
  string: 'text',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  array: 'a list',
  object: 'a map'
}

/** Ajv's error as ours; undefined for those that only frame others. */
function faultOf(error: ErrorObject, show: Origin['show']): Fault | undefined {
  const pointer = error.instancePath
  const schema = (error.parentSchema ?? {}) as Readonly<Record<string, unknown>>
  const must = (what: string): Fault => ({
    pointer,
    on: 'value',
    message: withValue(`must be ${what}`, schema['writeOnly'], pointer, error.data, show)
  })
  switch (error.keyword) {
    case 'additionalProperties': {
      const unknown: string = error.params['additionalProperty']
      const known = Object.keys(schema['properties'] as object)
      return { pointer: below(pointer, unknown), on: 'name', message: `unknown key${suggestion(unknown, known)}` }
    }
    case 'required':
      return { pointer, on: 'missing', message: `"${error.params['missingProperty']}" is missing` }
    case 'type':
      return must(
        (schema['patternErrorMessage'] ?? typeWords[error.params['type']]) + quotesHelp(error, schema['pattern'])
      )
    case 'pattern': {
      const words = String(schema['patternErrorMessage'] ?? `text that matches ${error.params['pattern']}`)
      if (error.propertyName === undefined) return must(words)
      return { pointer: below(pointer, error.propertyName), on: 'name', message: `the name must be ${words}` }
    }
    case 'enum': {
      const allowed = [...new Set((error.params['allowedValues'] as unknown[]).map(String))]
      const choices = allowed.length === 1 ? allowed[0] : `one of ${allowed.join(', ')}`
      const near = typeof error.data === 'string' && !schema['writeOnly'] ? nearest(error.data, allowed) : undefined
      const fault = must(error.schemaPath.endsWith('/else/enum') ? `a map or ${choices}` : `${choices}`)
      return near === undefined ? fault : { ...fault, message: `${fault.message}: did you mean "${near}"?` }
    }
    case 'minimum':
    case 'maximum':
      return must(rangeWords(schema))
    case 'minLength':
    case 'minItems':
      return { pointer, on: 'value', message: 'must not be empty' }
    default:
      return undefined
  }
}

/** YAML reads `123` and `true` as what they look like; quotes make them text. */
function quotesHelp({ params, data }: ErrorObject, pattern: unknown): string {
  if (params['type'] !== 'string' || (typeof data !== 'number' && typeof data !== 'boolean')) return ''
  return typeof pattern !== 'string' || new RegExp(pattern, 'u').test(String(data)) ? ' (put it in quotes)' : ''
}

function rangeWords({ minimum, maximum }: Readonly<Record<string, unknown>>): string {
  if (minimum === undefined) return `at most ${maximum}`
  return maximum === undefined ? `at least ${minimum}` : `from ${minimum} to ${maximum}`
}
