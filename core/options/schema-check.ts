// Checks values against option schemas: fills in defaults, converts units, and describes faults in sentences.
import { Ajv } from 'ajv'
import { objectSchema } from './json-schema.ts'
import type { JsonSchema } from './json-schema.ts'
import { nearest, suggestion } from './suggest.ts'
import { convertUnit, notations } from './units.ts'
import type { ErrorObject, ValidateFunction } from 'ajv'
import type { OptionSchema, OptionSchemas, OptionValues } from './schema.ts'

/** One thing wrong with a value. */
export interface Fault {
  /** A JSON pointer to the faulty value. */
  pointer: string
  /**
   * What is wrong at the pointer: the value, its name in the object around it, or a missing member of the object there.
   */
  on: 'value' | 'name' | 'missing'
  /** Without the subject: `must be a duration like 30s, not "soon"`. */
  message: string
}

/** `value` has the type of the schema when there are no faults. With faults, it is converted as far as possible. */
export interface Checked<T> {
  value: T
  faults: Fault[]
}

/** Facts about where a value comes from. */
export interface Origin {
  /**
   * The value at a pointer, as text for a message. For a file, variables are shown as they are written, so that no
   * secret is revealed.
   */
  show(pointer: string, value: unknown): string
  /** Whether the text at a pointer comes from a variable, and may therefore stand for a number or a boolean. */
  untyped(pointer: string): boolean
}

/** Checks one value, without changing it. */
export type Checker<T> = (value: unknown, origin?: Origin) => Checked<T>

const checkers = new WeakMap<OptionSchemas, Checker<unknown>>()
let ajv: Ajv | undefined

/**
 * The checker for a set of options, made on first use and kept as long as the options are. `required` must be the same
 * in every call for the same options.
 * @throws Error when the options are not a valid schema, which is a bug of their author; the checker throws it for
 * large parts that a value has
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
  const validate = compiled(objectSchema(options, required))
  const root: OptionSchema = { description: '', type: 'object', properties: options }
  return (value, origin = plainOrigin) => {
    const copy = plainCopy(root, value ?? {}, '', origin)
    const faults = errorsOf(validate, copy).flatMap((error) => faultOf(error, origin.show) ?? [])
    const broken = new Set(faults.map((fault) => fault.pointer))
    return { value: convert(root, copy, '', { faults, broken, show: origin.show }), faults }
  }
}

/**
 * Compiles a schema but for its large parts, each of which is compiled when a value first has it: of all that
 * gateway.yaml may have, which takes 0.2 s of CPU time, a file has little.
 */
function compiled(schema: JsonSchema): ValidateFunction {
  // A checker runs once per file or key, so optimising its code would cost more time than it saves.
  ajv ??= new Ajv({
    allErrors: true,
    strict: true,
    allowUnionTypes: true,
    useDefaults: true,
    verbose: true,
    code: { optimize: false }
  })
    .addVocabulary(['patternErrorMessage'])
    .addKeyword({
      keyword: 'later',
      modifying: true,
      errors: false,
      compile(part: JsonSchema) {
        let validate: ValidateFunction | undefined
        return (value, place) => {
          validate ??= compiled(part)
          if (!validate(value, place)) later.push(...validate.errors!)
          return true
        }
      }
    })
  return ajv.compile(isMap(schema) ? withoutLarge(schema) : schema)
}

/** What is wrong with large parts of the value that is being checked. */
const later: ErrorObject[] = []

function errorsOf(validate: ValidateFunction, value: unknown): ErrorObject[] {
  later.length = 0
  validate(value)
  return [...(validate.errors ?? []), ...later.splice(0)]
}

/** The schema with `later` in the place of parts that are large. Their defaults stay, as ajv looks for them there. */
function withoutLarge(schema: Record<string, unknown>): Record<string, unknown> {
  const parts = Object.entries(schema).map(([keyword, part]): [string, unknown] => {
    if (!isMap(part) || keyword === 'default' || JSON.stringify(part).length < large) return [keyword, part]
    if (keyword === 'properties') return [keyword, withoutLarge(part)]
    const { default: fallback, ...rest } = part
    return [keyword, { ...(fallback !== undefined && { default: fallback }), later: rest }]
  })
  return Object.fromEntries(parts)
}

/** Characters of a part that is compiled when a value first has it. */
const large = 2000

const plainOrigin: Origin = { show: showPlain, untyped: () => false }

/**
 * Shows a value in a message: short texts in quotes, long ones cut, numbers and words as they are, and lists and maps
 * by their kind. A text that looks like a key is hidden.
 */
export function showPlain(_pointer: string, value: unknown): string {
  if (Array.isArray(value)) return 'a list'
  if (isMap(value)) return 'a map'
  if (value === null || value === undefined) return 'nothing'
  if (typeof value !== 'string') return String(value)
  if (/sk-/i.test(value)) return 'what looks like a key'
  return JSON.stringify(value.length > 40 ? `${value.slice(0, 39)}…` : value)
}

/** Whether a value is an object with named members, and not a list or null. */
export function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Adds one step to a JSON pointer. */
export function below(pointer: string, name: string | number): string {
  // Few names have one of these, and a large file has a hundred thousand places.
  if (typeof name === 'number' || !/[~/]/.test(name)) return `${pointer}/${name}`
  return `${pointer}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
}

/**
 * Copies a value into objects without prototypes, so that a key named `constructor` is an ordinary key. An empty value
 * (`limits:` with all its lines commented out) is left out for a known option, and becomes an empty map where a free
 * name has a map. Parts that the schema does not know are faults, and are not copied, however deep they are.
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

/** Converts the text of a variable to the type of the schema when it looks like that type. */
function typed(schema: OptionSchema, text: string): unknown {
  const takesNumber = schema.type === 'integer' || schema.type === 'number'
  if (takesNumber && /^-?\d{1,15}(\.\d{1,15})?$/.test(text)) return Number(text)
  const takesFalse =
    schema.type === 'boolean' || (schema.type === 'object' && 'or' in schema && schema.or?.includes(false))
  if (takesFalse && text === 'false') return false
  return schema.type === 'boolean' && text === 'true' ? true : text
}

/** The schema of one key of an object, and whether the object allows any name. */
export function propertyOf(
  schema: OptionSchema | undefined,
  name: string
): { schema: OptionSchema | undefined; free: boolean } {
  if (schema?.type !== 'object') return { schema: undefined, free: false }
  if ('additionalProperties' in schema) return { schema: schema.additionalProperties, free: true }
  return { schema: Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined, free: false }
}

/** The schema of a list's entries; undefined where no list is allowed. */
function itemsOf(schema: OptionSchema | undefined): OptionSchema | undefined {
  if (schema?.type === 'array') return schema.items
  return schema?.type === 'object' && 'orList' in schema ? schema : undefined
}

interface Conversion {
  faults: Fault[]
  /** Pointers that already have a fault. */
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
    // With known names only, ordinary objects are safe, and they are what authors of plugins expect.
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

/** Says which bound a duration or size violates; undefined when it violates none. */
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

/** Translates an error of ajv; undefined for errors that only repeat another one. */
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

/** YAML reads `123` and `true` as a number and a boolean, so a hint says to put them in quotes. */
function quotesHelp({ params, data }: ErrorObject, pattern: unknown): string {
  if (params['type'] !== 'string' || (typeof data !== 'number' && typeof data !== 'boolean')) return ''
  return typeof pattern !== 'string' || new RegExp(pattern, 'u').test(String(data)) ? ' (put it in quotes)' : ''
}

function rangeWords({ minimum, maximum }: Readonly<Record<string, unknown>>): string {
  if (minimum === undefined) return `at most ${maximum}`
  return maximum === undefined ? `at least ${minimum}` : `from ${minimum} to ${maximum}`
}
