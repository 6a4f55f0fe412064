// Checks values against option schemas: fills in defaults, converts units, and describes faults in sentences. What it
// accepts is what the JSON Schema of json-schema.ts accepts, and tests hold the two against each other.
import { nearest, suggestion } from './suggest.ts'
import { convertUnit, notations } from './units.ts'
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

/**
 * The checker for a set of options, made on first use and kept as long as the options are. `required` must be the same
 * in every call for the same options. The checker throws an Error where a value has an option that is no valid schema,
 * which is a bug of its author.
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
  const root: OptionSchema = { description: '', type: 'object', properties: options, required }
  return (value, origin = plainOrigin) => {
    const copy = plainCopy(root, value ?? {}, '', origin)
    const check: Check = { faults: [], show: origin.show }
    checkValue(root, copy, '', check)
    const { faults } = check
    const broken = new Set(faults.map((fault) => fault.pointer))
    return { value: convert(root, copy, '', { faults, broken, show: origin.show }), faults }
  }
}

const plainOrigin: Origin = { show: showPlain, untyped: () => false }

/**
 * Shows a value in a message: short texts in quotes, long ones cut, numbers and words as they are, and lists and maps
 * by their kind. A text that looks like a key is hidden.
 */
export function showPlain(_pointer: string, value: unknown): string {
  if (Array.isArray(value)) return 'a list'
  if (isMap(value)) return 'a map'
  if (value === null || value === undefined) return 'nothing'
  if (typeof value !== 'string') return String(value as number | bigint | boolean)
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

/** The check of one value: where faults go, and how values are shown. */
interface Check {
  readonly faults: Fault[]
  readonly show: Origin['show']
}

/** Adds what is wrong with a value to the faults, and fills in the defaults of the maps in it. */
function checkValue(schema: OptionSchema, value: unknown, pointer: string, check: Check): void {
  const must = (what: string, secret: unknown = schema.secret, hint = ''): void => {
    const message = withValue(`must be ${what}`, secret, pointer, value, check.show) + hint
    check.faults.push({ pointer, on: 'value', message })
  }
  switch (schema.type) {
    case undefined:
      break
    case 'boolean':
      if (typeof value !== 'boolean') must('true or false')
      break
    case 'integer':
    case 'number':
      checkNumber(schema, value, must)
      break
    case 'string':
      if (schema.enum) checkChoice(schema.enum, value, must, schema.secret)
      else
        checkText(schema, value, () => check.faults.push({ pointer, on: 'value', message: 'must not be empty' }), must)
      break
    case 'array':
      if (Array.isArray(value)) checkList(schema.items, schema.minItems ?? 0, value, pointer, check)
      else must('a list')
      break
    case 'object':
      if (isMap(value)) checkMap(schema, value, pointer, check)
      else checkNoMap(schema, value, pointer, check, must)
      break
    default:
      throw new Error(
        `an option has the type ${JSON.stringify((schema as { type: unknown }).type)}, which there is not`
      )
  }
}

/** Adds a fault of the value that is checked. `secret`: whether the value is kept out of it; that of the schema. */
type Must = (what: string, secret?: unknown, hint?: string) => void

function checkNumber(schema: OptionSchema & { type: 'integer' | 'number' }, value: unknown, must: Must): void {
  const { minimum = -Infinity, maximum = Infinity, or = [] } = schema
  if (or.includes(value as string)) return
  const otherwise = or.map((word) => ` or ${word}`).join('')
  if (typeof value !== 'number' || !Number.isFinite(value))
    return must((schema.type === 'integer' ? 'a whole number' : 'a number') + otherwise, undefined, meant(value, or))
  if (schema.type === 'integer' && !Number.isInteger(value)) must(`a whole number${otherwise}`)
  if (value < minimum || value > maximum) must(rangeWords(schema) + otherwise)
}

function checkText(schema: OptionSchema & { type: 'string' }, value: unknown, empty: () => void, must: Must): void {
  const unit = schema.format && notations[schema.format]
  const pattern = unit ? unit.pattern : schema.pattern
  const words = unit ? unit.words : schema.patternErrorMessage
  if (typeof value !== 'string') {
    if (unit?.number && Number.isFinite(value)) return
    return must((words ?? 'text') + (unit?.number ? '' : quotesHelp(value, pattern)))
  }
  if (!unit && Array.from(value).length < (schema.minLength ?? 0)) empty()
  if (pattern !== undefined && !expression(pattern).test(value)) must(words ?? `text that matches ${pattern}`)
}

/** A choice such as `1` is also accepted as a number, because YAML reads it as one. */
function checkChoice(words: readonly string[], value: unknown, must: Must, secret: unknown): void {
  const numbers = words.map(Number).filter(Number.isFinite)
  if (typeof value !== 'string' && numbers.length === 0) must(`text${quotesHelp(value)}`)
  if (!words.includes(value as string) && !numbers.includes(value as number))
    must(oneOf(words), secret, secret ? '' : meant(value, words))
}

function checkList(items: OptionSchema, least: number, value: readonly unknown[], pointer: string, check: Check): void {
  if (value.length < least) check.faults.push({ pointer, on: 'value', message: 'must not be empty' })
  for (const [index, item] of value.entries()) checkValue(items, item, below(pointer, index), check)
}

/** What stands where a map is expected: a list of maps, or a word or a secret text instead of one. */
function checkNoMap(
  schema: OptionSchema & { type: 'object' },
  value: unknown,
  pointer: string,
  check: Check,
  must: Must
): void {
  if ('additionalProperties' in schema) return must('a map')
  const { or, orList, orText, properties, required = [] } = schema
  if (orText) {
    if (typeof value !== 'string') must(`text, or a map${quotesHelp(value)}`, true)
  } else if (orList && Array.isArray(value)) {
    const items: OptionSchema = { description: '', type: 'object', properties, required }
    checkList(items, or ? 1 : 0, value, pointer, check)
  } else if (!or) must('a map', orList ? false : schema.secret)
  else if (!or.includes(value as string)) must(`a map or ${oneOf(or)}`, false, meant(value, or))
}

function checkMap(
  schema: OptionSchema & { type: 'object' },
  value: Record<string, unknown>,
  pointer: string,
  check: Check
): void {
  if ('additionalProperties' in schema) {
    const { additionalProperties: values, propertyNames: names } = schema
    for (const [name, item] of Object.entries(value)) {
      const at = below(pointer, name)
      if (names && !expression(names.pattern).test(name))
        check.faults.push({ pointer: at, on: 'name', message: `the name must be ${names.patternErrorMessage}` })
      checkValue(values, item, at, check)
    }
    return
  }
  const { properties, required = [] } = schema
  for (const [name, option] of Object.entries(properties))
    if (value[name] === undefined && 'default' in option && option.default !== undefined)
      value[name] = structuredClone(option.default)
  for (const name of required)
    if (value[name] === undefined) check.faults.push({ pointer, on: 'missing', message: `"${name}" is missing` })
  for (const name of Object.keys(value)) {
    if (Object.hasOwn(properties, name)) continue
    const message = `unknown key${suggestion(name, Object.keys(properties))}`
    check.faults.push({ pointer: below(pointer, name), on: 'name', message })
  }
  for (const [name, option] of Object.entries(properties))
    if (value[name] !== undefined) checkValue(option, value[name], below(pointer, name), check)
}

function oneOf(words: readonly (string | false)[]): string {
  return words.length === 1 ? String(words[0]) : `one of ${words.join(', ')}`
}

function meant(value: unknown, words: readonly (string | false)[]): string {
  const near = typeof value === 'string' ? nearest(value, words.map(String)) : undefined
  return near === undefined ? '' : `: did you mean "${near}"?`
}

/** YAML reads `123` and `true` as a number and a boolean, so a hint says to put them in quotes. */
function quotesHelp(value: unknown, pattern?: string): string {
  if (typeof value !== 'number' && typeof value !== 'boolean') return ''
  return pattern === undefined || expression(pattern).test(String(value)) ? ' (put it in quotes)' : ''
}

const expressions = new Map<string, RegExp>()

/** The compiled pattern, kept: schemas have some dozens. */
function expression(pattern: string): RegExp {
  let made = expressions.get(pattern)
  if (!made) expressions.set(pattern, (made = new RegExp(pattern, 'u')))
  return made
}

function rangeWords({ minimum, maximum }: { minimum?: number; maximum?: number }): string {
  if (minimum === undefined) return `at most ${maximum}`
  return maximum === undefined ? `at least ${minimum}` : `from ${minimum} to ${maximum}`
}
