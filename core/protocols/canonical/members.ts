// Reads the members of a JSON object in a request, checks their types, and lists those that nobody has read.
import { asObject } from '../object.ts'
import { plainNumber } from './json.ts'
import type { JsonObject } from '../object.ts'
import { invalid, Untranslatable } from './untranslatable.ts'

/** Gives the second spelling of a member's name, in protocols that accept two. */
export type Alias = (key: string) => string

/** One object of a request. A member that is null counts as absent. */
export class Members {
  readonly object: JsonObject
  /** The object's place in the request; empty for the request itself. */
  readonly place: string
  readonly #read: string[] = []
  /** Objects inside that have been read, by the member that holds them. */
  readonly #inside = new Map<string, Members[]>()
  readonly #alias: Alias | undefined

  constructor(object: JsonObject, place = '', alias?: Alias) {
    this.object = object
    this.place = place
    this.#alias = alias
  }

  /** The place of a member, as a client would write it. */
  at(key: string): string {
    return this.place === '' ? key : `${this.place}.${key}`
  }

  /** The value as it is; undefined when absent. */
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

  /** @throws Untranslatable also when it is absent */
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

  /** A whole number of at least `least`. */
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

  /** An object inside, to be read in the same way. */
  members(key: string): Members | undefined {
    const value = this.value(key)
    if (value === undefined) return undefined
    return this.#once(key, () => [
      new Members(asObject(value) ?? fail(this.at(key), 'an object'), this.at(key), this.#alias)
    ])[0]
  }

  /** @throws Untranslatable also when it is absent */
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

  /** A list of objects; undefined when absent. */
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

  /** A list of any values. */
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

  /** Whether the member asks for something. An empty list does not. */
  says(key: string): boolean {
    return isSet(this.value(key))
  }

  /** Marks members as read that mean nothing to any other protocol, so that nobody reports them. */
  ignore(...keys: readonly string[]): void {
    this.#read.push(...keys)
  }

  /** The members of this object that ask for something and were not read. */
  unread(): string[] {
    return Object.keys(this.object)
      .filter((key) => !this.#read.includes(key) && isSet(this.object[key]))
      .map((key) => this.at(key))
  }

  /** Such members of this object, and of all objects inside that were read. */
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
