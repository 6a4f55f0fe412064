// The members of a request that the gateway goes by: of what type and size they must be, and what must not be taken for
// one of them.
import type { RequestBody } from '../../bodies/body.ts'
import type { Fields } from '../../bodies/fields.ts'
import { Lens, LensError, lensOf } from '../../bodies/lens.ts'
import { folded, KnownNames } from '../../bodies/lookalike.ts'
import type { Operation } from '../../contract/operation.ts'
import { GatewayError } from '../../errors.ts'

/** Of a text that is read before anybody has looked at its size, in bytes as it is written. */
const longestText = 1024
const largestOptions = 4096
const MiB = 1024 * 1024

/** Known whatever the operation says of itself: what is held, estimated and asked of an upstream depends on them. */
const known = new Set([
  'model',
  'stream',
  'stream_options',
  'n',
  'max_tokens',
  'max_completion_tokens',
  'max_output_tokens',
  'messages',
  'prompt',
  'input',
  'instructions',
  'system',
  'tools',
  'background',
  'store',
  'previous_response_id'
])
const knownOptions = new KnownNames(['include_usage', 'include_obfuscation'])

/** What an operation goes by: members, and members of these. */
interface Names {
  readonly outer: KnownNames
  readonly inner: ReadonlyMap<string, KnownNames>
}

const namesOf = new WeakMap<Operation, Names>()

/**
 * Makes sure that an upstream finds the same members: many parsers take a member for another one that is written with
 * other capitals, or a 1 for true, and what they run then is not what was held for.
 * @throws GatewayError `invalid_field` with the name of the member
 */
export function checkMembers({ fields, lens, form }: RequestBody, operation: Operation): void {
  const { oddKeys } = fields
  const { outer, inner } = knownNames(operation)
  refuseLookalikes(fields, outer)
  if (form !== undefined) return refuseParts(oddKeys, (name) => known.has(name) || isOne(operation, name))
  if (lens.has('stream_options')) checkStreamOptions(lens)
  // Before anything looks into one of them.
  for (const name in operation.parsed) {
    const most = operation.parsed[name]!
    if (lens.size(name) <= most || lens.type(name) === 'string') continue
    throw invalid(name, `must not be larger than ${most / MiB} MiB`)
  }
  for (const [key, names] of inner) {
    const within = lens.type(key) === 'object' ? lensOf(lens.slice(key)!) : undefined
    // What cannot be looked into is refused by whoever reads it.
    if (within) refuseLookalikes(within, names, `${key}.`)
  }
}

/**
 * A flag of a request: null is the same as nothing.
 * @throws GatewayError `invalid_field` when it is neither true nor false
 */
export function flagOf(fields: Fields, key: string, place = ''): boolean {
  const flag = fields.flag(key)
  if (flag !== undefined) return flag
  throw invalid(`${place}${key}`, 'must be true or false')
}

/** A name in a request; undefined when absent, of another type, or longer than any name. */
export function shortText(fields: Fields, key: string): string | undefined {
  return fields.size(key) > longestText ? undefined : fields.string(key)
}

function knownNames(operation: Operation): Names {
  let names = namesOf.get(operation)
  if (!names) namesOf.set(operation, (names = readNames(operation)))
  return names
}

function readNames({ parameters, model, stream, metering }: Operation): Names {
  const outer = new Set([...known, ...Object.keys(parameters ?? {})])
  if (model?.name !== undefined) outer.add(model.name)
  if (typeof stream === 'object') outer.add(stream.name)
  const inner = new Map<string, string[]>()
  for (const field of [...(metering?.outputLimits ?? []), ...(metering?.counts ?? [])]) {
    const [key, within] = field.split('.', 2)
    outer.add(key!)
    if (within !== undefined) inner.set(key!, [...(inner.get(key!) ?? []), within])
  }
  return {
    outer: new KnownNames(outer),
    inner: new Map([...inner].map(([key, names]) => [key, new KnownNames(names)]))
  }
}

/** Whether there is one of it, which is text. */
function isOne({ parameters }: Operation, name: string): boolean {
  const schema = parameters?.[name]
  return schema !== undefined && schema['type'] !== 'array' && schema['format'] !== 'binary'
}

/** They are read and set, so that the usage is reported. */
function checkStreamOptions(lens: Lens): void {
  const key = 'stream_options'
  const type = lens.type(key)
  if (type === 'null') return
  if (type !== 'object') throw invalid(key, 'must be an object')
  if (lens.size(key) > largestOptions) throw invalid(key, `must not be larger than ${largestOptions} bytes`)
  let options: Lens
  try {
    options = new Lens(lens.slice(key)!)
  } catch (error) {
    if (!(error instanceof LensError)) throw error
    throw invalid(key, `cannot be read: ${error.message}`)
  }
  refuseLookalikes(options, knownOptions, `${key}.`)
  flagOf(options, 'include_usage', `${key}.`)
}

function refuseLookalikes(members: Fields, names: KnownNames, place = ''): void {
  const found = names.lookalike(members)
  if (found) throw taken(`${place}${found.name}`, `${place}${found.taken}`)
}

/** Fields whose names end in brackets are lists, or members of one, and some readers put them to what stands before. */
function refuseParts(names: readonly string[], isOne: (name: string) => boolean): void {
  for (const name of names) {
    const whole = folded(name.split('[', 1)[0]!)
    if (whole.length < name.length && isOne(whole)) throw taken(name, whole)
  }
}

function taken(name: string, other: string): GatewayError {
  const param = name.slice(0, 64)
  const message = `The field ${JSON.stringify(param)} would be taken for \`${other}\` by some: write \`${other}\`.`
  return new GatewayError('invalid_field', message, { param })
}

function invalid(param: string, message: string): GatewayError {
  return new GatewayError('invalid_field', `The field \`${param}\` ${message}.`, { param })
}
