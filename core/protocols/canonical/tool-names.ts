// Makes the names of tools unique, and such that an upstream accepts them.
import { digest } from './digest.ts'

/** The tool names that a protocol accepts. */
export interface NameRule {
  /** Matches every character that is not allowed, with the flag `g`. */
  readonly illegal: RegExp
  readonly longest: number
}

/** The upstream's names, each with the client's name and namespace. */
export type NameTable = readonly (readonly [upstream: string, name: string, namespace: string | undefined])[]

/** The names in one request, in both directions. The same names in the same order always give the same result. */
export class ToolNames {
  readonly #rule: NameRule
  readonly #upstream = new Map<string, string>()
  readonly #client = new Map<string, { name: string; namespace?: string }>()

  constructor(rule: NameRule) {
    this.#rule = rule
  }

  /** The upstream's name of a tool. */
  toUpstream(name: string, namespace?: string): string {
    const key = namespace === undefined ? name : `${namespace}\0${name}`
    let found = this.#upstream.get(key)
    if (found === undefined) {
      found = this.#choose(namespace === undefined ? name : `${namespace}__${name}`)
      this.#upstream.set(key, found)
      this.#client.set(found, { name, ...(namespace !== undefined && { namespace }) })
    }
    return found
  }

  /** The client's name and namespace of a tool. A name that is not in the table is returned as it is. */
  toClient(name: string): { name: string; namespace?: string } {
    return this.#client.get(name) ?? { name }
  }

  /** The table as plain data, for {@link ToolNames.of}. */
  get table(): NameTable {
    return [...this.#client].map(([upstream, { name, namespace }]) => [upstream, name, namespace])
  }

  /** Restores a table, of another request or from another thread. It is for taking names back alone. */
  static of(rule: NameRule, table: NameTable): ToolNames {
    const names = new ToolNames(rule)
    for (const [upstream, name, namespace] of table)
      names.#client.set(upstream, { name, ...(namespace !== undefined && { namespace }) })
    return names
  }

  /** Whether no name was changed and none has a namespace. */
  get unchanged(): boolean {
    return [...this.#client].every(([upstream, { name, namespace }]) => upstream === name && namespace === undefined)
  }

  #choose(name: string): string {
    const { illegal, longest } = this.#rule
    const legal = name.replace(illegal, '_')
    if (legal === name && name !== '' && name.length <= longest && !this.#client.has(name)) return name
    for (let salt = 0; ; salt++) {
      const tag = digest(`${salt}${name}`)
      const chosen = `${legal.slice(0, longest - tag.length - 1)}_${tag}`
      if (!this.#client.has(chosen)) return chosen
    }
  }
}
