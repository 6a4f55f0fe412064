// Names of tools as an upstream allows them, each the name of one tool and no other.
import { digest } from './digest.ts'

/** What a protocol allows as a tool's name. */
export interface NameRule {
  /** Every character that may not be in it, with the flag `g`. */
  readonly illegal: RegExp
  readonly longest: number
}

/** Names for the upstream, each with the client's and its namespace. */
export type NameTable = readonly (readonly [upstream: string, name: string, namespace: string | undefined])[]

/** Two-way table of the names in one request. The same names in the same order always become the same. */
export class ToolNames {
  readonly #rule: NameRule
  readonly #upstream = new Map<string, string>()
  readonly #client = new Map<string, { name: string; namespace?: string }>()

  constructor(rule: NameRule) {
    this.#rule = rule
  }

  /** The name for the upstream. */
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

  /** The client's name for what the upstream calls; a name that nobody gave stays as it is. */
  toClient(name: string): { name: string; namespace?: string } {
    return this.#client.get(name) ?? { name }
  }

  /** As plain data, for {@link ToolNames.of}. */
  get table(): NameTable {
    return [...this.#client].map(([upstream, { name, namespace }]) => [upstream, name, namespace])
  }

  /** The names of another request, or of another thread. */
  static of(rule: NameRule, table: NameTable): ToolNames {
    const names = new ToolNames(rule)
    for (const [upstream, name, namespace] of table) {
      names.#upstream.set(namespace === undefined ? name : `${namespace}\0${name}`, upstream)
      names.#client.set(upstream, { name, ...(namespace !== undefined && { namespace }) })
    }
    return names
  }

  /** No name was changed, and none is in a namespace. */
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
