// The public models by name: those of the file, and those that a pattern of the file stands for.
import type { Channel, Model } from './catalogue.ts'

/** A name with a star at its end, and what makes the model of a name that it fits. */
export interface ModelPattern {
  /** All before the star. */
  readonly prefix: string
  /** Those of all its models. */
  readonly channels: readonly Channel[]
  of(name: string): Model
}

/** The most models of patterns that are remembered. Clients choose their names. */
const mostRemembered = 1000
/** What would lead to another address where an upstream takes the name in its path. */
const climbing = /(?:^|[/\\])\.{1,2}(?:[/\\]|$)/
/** The most characters of such a name. */
const longestName = 128

/**
 * The models that the file lists, by name; `get` also answers names that fit a pattern, the longest one first. Nothing
 * else knows of those: what goes through the map, `has` and `size` are about listed models.
 */
export class Models extends Map<string, Model> {
  readonly patterns: readonly ModelPattern[]
  readonly #made = new Map<string, Model>()

  constructor(listed: Iterable<readonly [string, Model]> = [], patterns: readonly ModelPattern[] = []) {
    super(listed)
    this.patterns = patterns.toSorted((one, other) => other.prefix.length - one.prefix.length)
  }

  override get(name: string): Model | undefined {
    return super.get(name) ?? (this.patterns.length === 0 ? undefined : this.#matched(name))
  }

  #matched(name: string): Model | undefined {
    const known = this.#made.get(name)
    if (known) return known
    if (name.length > longestName || !/^[\x21-\x7e]+$/.test(name)) return undefined
    const pattern = this.patterns.find(({ prefix }) => name.startsWith(prefix) && name.length > prefix.length)
    if (!pattern || climbing.test(name) || climbing.test(name.slice(pattern.prefix.length))) return undefined
    if (this.#made.size >= mostRemembered) this.#made.delete(this.#made.keys().next().value!)
    const made = pattern.of(name)
    this.#made.set(name, made)
    return made
  }
}

/** The name of a model for metrics and counts: one of the file, whatever names clients use. */
export function labelOf(model: Model | undefined): string {
  return model ? (model.pattern ?? model.name) : 'other'
}
