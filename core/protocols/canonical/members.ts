// Reads the members of a JSON object that came from outside, checks their types, and knows which of them nobody asked
// for.
import { asObject } from '../object.ts'
import { plainNumber } from './json.ts'
import type { JsonObject } from '../object.ts'
import { invalid, Untranslatable } from './untranslatable.ts'

/** Another spelling of a member's name, for protocols that know two. */
export type Alias = (key: string) => string

/** One object of a request. A member that is null is as good as absent. */
export class Members {
  readonly object: JsonObject
  /** Of the object in the request, empty for the whole of it. */
  readonly place: string
  readonly #read: string[] = []
  /** Objects inside, by the member that holds them. */
  readonly #inside = new Map<string, Members[]>()
  readonly #alias: Alias | undefined

  constructor(object: JsonObject, place = '', alias?: Alias) {
    this.object = object
    this.place = place
    this.#alias = alias
  }

  /** Where a member stands, as a client would say it. */
  at(key: string): string {
    return this.place === '' ? key : `${this.place}.${key}`
  }

  /** The value as it is; undefined when there is none. */
  value(key: string): unknown {
    this.#read.push(key)
    const value = this.object[key] ?? undefined
    if (value !== undefined || !this.#alias) return value
    const alias = this.#alias(key)
    this.#read.push(alias)
    return this.object[alias] ?? undefined
  }

  string(key: string): string | undefined {
    const value = this.value(key)
    if (value === undefined || typeof value === 'string') return value
    throw invalid(this.at(key), 'a string')
  }

  /** @throws Untranslatable when there is none, too */
  needString(key: string): string {
    const value = this.string(key)
    if (value === undefined) throw new Untranslatable('missing_field', `${this.at(key)} is missing.`, this.at(key))
    return value
  }

  number(key: string): number | undefined {
    const value = plainNumber(this.value(key))
    if (value === undefined || typeof value === 'number') return value
    throw invalid(this.at(key), 'a number')
  }

  /** A whole number that is at least `least`. */
  count(key: string, least = 0): number | undefined {
    const value = this.number(key)
    if (value === undefined || (Number.isSafeInteger(value) && value >= least)) return value
    throw invalid(this.at(key), `a whole number, ${least} or more`)
  }

  flag(key: string): boolean | undefined {
    const value = this.value(key)
    if (value === undefined || typeof value === 'boolean') return value
    throw invalid(this.at(key), 'true or false')
  }

  /** An object inside, to be read in its turn. */
  members(key: string): Members | undefined {
    const value = this.value(key)
    if (value === undefined) return undefined
    return this.#once(key, () => [
      new Members(asObject(value) ?? fail(this.at(key), 'an object'), this.at(key), this.#alias)
    ])[0]
  }

  /** @throws Untranslatable when there is none, too */
  needMembers(key: string): Members {
    const members = this.members(key)
    if (!members) throw new Untranslatable('missing_field', `${this.at(key)} is missing.`, this.at(key))
    return members
  }

  /** An object that is taken as it is, such as a schema. */
  json(key: string): Record<string, unknown> | undefined {
    const value = this.value(key)
    return value === undefined ? undefined : { ...(asObject(value) ?? fail(this.at(key), 'an object')) }
  }

  /** A list of objects; undefined when there is none. */
  list(key: string): Members[] | undefined {
    const items = this.array(key)
    return (
      items &&
      this.#once(key, () =>
        items.map((item, index) => {
          const place = `${this.at(key)}[${index}]`
          return new Members(asObject(item) ?? fail(place, 'an object'), place, this.#alias)
        })
      )
    )
  }

  /** A list of anything. */
  array(key: string): unknown[] | undefined {
    const value = this.value(key)
    if (value === undefined || Array.isArray(value)) return value
    throw invalid(this.at(key), 'an array')
  }

  /** A list of strings. */
  strings(key: string): string[] | undefined {
    return this.array(key)?.map((item, index) =>
      typeof item === 'string' ? item : fail(`${this.at(key)}[${index}]`, 'a string')
    )
  }

  /** The member says something. An empty list asks for nothing. */
  says(key: string): boolean {
    return isSet(this.value(key))
  }

  /** Members that mean nothing to any other protocol, and are not missed. */
  ignore(...keys: readonly string[]): void {
    this.#read.push(...keys)
  }

  /** Members that say something and that nobody has read, here alone. */
  unread(): string[] {
    return Object.keys(this.object)
      .filter((key) => !this.#read.includes(key) && isSet(this.object[key]))
      .map((key) => this.at(key))
  }

  /** Likewise, here and in all objects inside that have been read. */
  rest(): string[] {
    const inside = [...this.#inside.values()].flat()
    return inside.length === 0 ? this.unread() : [...this.unread(), ...inside.flatMap((members) => members.rest())]
  }

  #once(key: string, make: () => Members[]): Members[] {
    let found = this.#inside.get(key)
    if (!found) this.#inside.set(key, (found = make()))
    return found
  }
}

function isSet(value: unknown): boolean {
  return value !== undefined && value !== null && !(Array.isArray(value) && value.length === 0)
}

function fail(place: string, expected: string): never {
  throw invalid(place, expected)
}
