// Which models of a draft stand in for each other, as the check of the file allows it.
import { mostStandIns } from '../../catalogue/catalogue.ts'
import type { Fates } from './fates.ts'

type Entry = Record<string, unknown>
type Models = ReadonlyMap<string, Entry>

/** The models that may answer for a name: itself, what it is another name of, and all that stand in for these. */
export function answering(models: Models, name: string): ReadonlySet<string> {
  const found = new Set([name])
  for (const each of found) {
    const { alias, fallback = [] } = (models.get(each) ?? {}) as { alias?: string; fallback?: string[] }
    for (const next of alias === undefined ? fallback : [alias]) found.add(next)
  }
  return found
}

/**
 * Takes out the stand-ins that the check would refuse: those of another kind than their model, and more than may answer
 * for one. `prices`: those of the list, by model.
 */
export function trimStandIns(models: Models, prices: ReadonlyMap<string, object>, fates: Fates): void {
  const kindOf = (name: string): string | undefined => {
    const price = prices.get(name) ?? models.get(name)?.['price']
    return typeof price === 'object' ? soldBy.find((by) => Number((price as Entry)[by] ?? 0) > 0) : undefined
  }
  for (const [name, entry] of models) {
    if (!('fallback' in entry)) continue
    const kind = kindOf(name)
    const isOther = (one: string): boolean => kind !== undefined && (kindOf(one) ?? kind) !== kind
    let all: ReadonlySet<string> = new Set([name])
    const left = (entry['fallback'] as string[]).filter((other) => {
      const its = answering(models, other)
      const together = new Set([...all, ...its])
      const why = [...its].some(isOther)
        ? 'is sold by something else, or something behind it is'
        : together.size > mostStandIns
          ? `is one too many: at most ${mostStandIns} models may answer`
          : undefined
      if (why) fates.dropped('fallbacks', `${other} ${why}`, name)
      else all = together
      return !why
    })
    entry['fallback'] = left
    if (left.length === 0) for (const member of ['fallback', 'fallback_on']) delete entry[member]
    else if (kind === 'input') {
      entry['fallback_embeddings'] = true
      fates.approximated('fallbacks', 'vectors of two models do not compare: see fallback_embeddings', name)
    }
  }
}

/** What models are sold by, in the order in which the check looks; those that are sold by input alone make vectors. */
const soldBy = ['output', 'image', 'second', 'character', 'search', 'input'] as const
