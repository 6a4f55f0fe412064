// Reads what is made or changed by the admin API: entries in the form that gateway.yaml has for them.
import { budgetFault, mostPatterns, mostTags } from '../../../config/sections/tenants.ts'
import type { RightsEntry } from '../../../config/sections/tenants.ts'
import { names } from '../../../config/names.ts'
import { endpointNames } from '../../catalogue/endpoints.ts'
import { GatewayError } from '../../errors.ts'
import { checkerOf, isMap } from '../../options/schema-check.ts'
import type { Fault } from '../../options/schema-check.ts'
import type { OptionSchemas, OptionValues } from '../../options/schema.ts'
import { suggestion } from '../../options/suggest.ts'
import { invalidField, sentence, shown } from './query.ts'

/** Something wrong with a field, in a sentence without its full stop. */
export interface FieldFault {
  field: string
  message: string
}

/** Settings as they are stored, and as the schema understands them. */
export interface Entry<O extends OptionSchemas, R extends keyof O & string> {
  settings: Record<string, unknown>
  value: OptionValues<O, R>
}

/**
 * Checks an entry. `example` shows what is meant when it is no JSON object.
 * @throws GatewayError `invalid_field` that names the first faulty field, with all faults in its message
 */
export function readEntry<O extends OptionSchemas, R extends keyof O & string = never>(
  fields: O,
  required: readonly R[],
  request: unknown,
  example: string
): Entry<O, R> {
  if (!isMap(request)) throw new GatewayError('invalid_request', `This takes a JSON object such as ${example}.`)
  const value = checked(fields, required, request)
  refuse(faultsOf(value as Readonly<Record<string, unknown>>))
  return { settings: request, value }
}

/**
 * Checks a change of settings in the form of a JSON merge patch, and returns the settings after it.
 * @throws GatewayError as {@link readEntry} does
 */
export function changed(
  fields: OptionSchemas,
  settings: Readonly<Record<string, unknown>>,
  patch: unknown,
  example: string
): Record<string, unknown> {
  readEntry(fields, [], withoutNulls(patch), example)
  const after = patched(settings, patch as Record<string, unknown>)
  checked(fields, [], after)
  // Each patch may have few tags or patterns, and all of them together too many.
  refuse(faultsOf({ tags: after['tags'], limits: after['limits'] }))
  return after
}

function checked<O extends OptionSchemas, R extends keyof O & string>(
  fields: O,
  required: readonly R[],
  settings: Readonly<Record<string, unknown>>
): OptionValues<O, R> {
  const { value, faults } = checkerOf(fields, required)(settings)
  refuse(faults.map((fault) => ({ field: fault.pointer.slice(1).replaceAll('/', '.'), message: messageOf(fault) })))
  return value
}

/** A patch without its nulls, which take something out and so have no value to check. */
function withoutNulls(patch: unknown): unknown {
  if (!isMap(patch)) return patch
  return Object.fromEntries(
    Object.entries(patch).flatMap(([name, value]) => (value === null ? [] : [[name, withoutNulls(value)]]))
  )
}

/** The maps of settings that a patch merges, by their names from the outside in; other members it replaces whole. */
interface Merged {
  readonly [name: string]: Merged
}

const merged: Merged = { tags: {}, limits: { models: {} } }

/**
 * The settings after a merge patch (RFC 7396): a member replaces what was there, null takes it out. What is not in
 * `merges` is replaced whole.
 */
function patched(
  settings: Readonly<Record<string, unknown>>,
  patch: Readonly<Record<string, unknown>>,
  merges: Merged = merged
): Record<string, unknown> {
  // Patterns of models may have any name, also `__proto__`, which a plain assignment would lose.
  const result = new Map(Object.entries(settings))
  for (const [name, value] of Object.entries(patch)) {
    const before = result.get(name)
    const inner = Object.hasOwn(merges, name) ? merges[name] : undefined
    if (value === null) result.delete(name)
    else result.set(name, inner && isMap(value) ? patched(isMap(before) ? before : {}, value, inner) : value)
  }
  return Object.fromEntries(result)
}

/** Refuses with all faults in one error, which names the first field. Does nothing without faults. */
export function refuse(faults: readonly FieldFault[]): void {
  if (faults.length > 0) throw invalidField(faults[0]!.field, faults.map(({ message }) => sentence(message)).join(' '))
}

/** A fault when a text is no name. */
export function nameFaults(field: string, name: string): FieldFault[] {
  if (new RegExp(names.pattern, 'u').test(name)) return []
  return [{ field, message: `${field} is ${shown(name)}: it must be ${names.patternErrorMessage}` }]
}

/** Makes the error for a thing that is there already, or that may not be changed here. */
export function conflict(code: string, message: string, param = 'name'): GatewayError {
  return new GatewayError('invalid_request', message, { status: 409, shownCode: code, param })
}

/** Shows a time in Unix milliseconds as RFC 3339; null when there is none. */
export function showTime(time: number | undefined): string | null {
  return time === undefined ? null : new Date(time).toISOString()
}

/** What schemas cannot say: endpoints that there are, times to come, budgets of different kinds, not too many tags. */
function faultsOf({ endpoints, expires, tags, limits, budget }: Readonly<Record<string, unknown>>): FieldFault[] {
  const faults = (Array.isArray(endpoints) ? (endpoints as string[]) : [])
    .filter((glob) => !glob.includes('*') && !endpointNames.includes(glob))
    .map((glob) => ({
      field: 'endpoints',
      message: `there is no endpoint ${shown(glob)}${suggestion(glob, endpointNames)}`
    }))
  if (typeof expires === 'number' && expires <= Date.now())
    faults.push({ field: 'expires', message: 'expires is in the past' })
  if (isMap(tags) && Object.keys(tags).length > mostTags)
    faults.push({ field: 'tags', message: `tags are ${Object.keys(tags).length}: at most ${mostTags} are kept` })
  const patterns = isMap(limits) && isMap(limits['models']) ? Object.keys(limits['models']).length : 0
  if (patterns > mostPatterns)
    faults.push({
      field: 'limits.models',
      message: `limits.models has ${patterns} patterns: at most ${mostPatterns} are kept`
    })
  const twice = budgetFault(budget as RightsEntry['budget'])
  if (twice !== undefined) faults.push({ field: 'budget', message: `budget ${twice}` })
  return faults
}

function messageOf({ pointer, on, message }: Fault): string {
  const name = pointer.slice(1).replaceAll('/', '.')
  if (name === '') return message
  return on === 'value' ? `${name} ${message}` : `${name}: ${message}`
}
