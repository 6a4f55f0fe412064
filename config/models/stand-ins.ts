// Which models of gateway.yaml stand for each other: aliases and fallbacks, each resolved to the models that are asked.
import { mostStandIns } from '../../core/catalogue/catalogue.ts'
import type { Model, StandIns } from '../../core/catalogue/catalogue.ts'
import { isFree } from '../../core/money/price.ts'
import type { Rates } from '../../core/money/price.ts'
import { suggestion } from '../../core/options/suggest.ts'
import type { ModelEntry } from './model-entry.ts'
import type { Report } from '../report.ts'

type Entries = Readonly<Record<string, ModelEntry>>
/** A model under construction: what it is asked with becomes known when all models are read. */
type Made = { -readonly [K in keyof Model]: Model[K] }

/** Whether a name only stands for other models, which have the prices and the channels. */
export function isName({ alias, fallback, price }: ModelEntry): boolean {
  return alias !== undefined || (fallback !== undefined && price === undefined)
}

/** Resolves who stands in for whom, once all models with channels are in `models`; adds those that are only names. */
export class Resolver {
  readonly #entries: Entries
  readonly #models: Map<string, Made>
  readonly #report: Report
  readonly #found = new Map<string, readonly Model[]>()

  constructor(entries: Entries, models: Map<string, Made>, report: Report) {
    this.#entries = entries
    this.#models = models
    this.#report = report
  }

  /** The models that are asked for a name, in order; empty where something is wrong with it, which was reported. */
  asked(name: string, above: readonly string[] = []): readonly Model[] {
    const known = this.#found.get(name)
    if (known) return known
    const entry = this.#entries[name]!
    const own = this.#models.get(name)
    const all = new Set<Model>(own && !isName(entry) ? [own] : [])
    for (const [path, target] of this.#targetsOf(name)) {
      if (!this.#mayStandIn(path, name, target, above)) continue
      for (const model of this.asked(target, [...above, name])) all.add(model)
    }
    const found = [...all].slice(0, mostStandIns)
    if (all.size > mostStandIns)
      this.#report.key(['models', name], `has ${all.size} models that may answer: at most ${mostStandIns}`)
    this.#found.set(name, found)
    return found
  }

  /** Who is asked for a model of the file; undefined where it alone is. */
  standIns(name: string): StandIns | undefined {
    const entry = this.#entries[name]!
    const models = this.asked(name)
    const [first] = models
    if (!first || (entry.alias === undefined && entry.fallback === undefined)) return undefined
    // An alias is the model in every respect.
    if (entry.alias !== undefined) {
      const of = Object.hasOwn(this.#entries, entry.alias) ? this.standIns(entry.alias) : undefined
      return of ?? { models, on: new Set(['failure']), embeddings: false }
    }
    const standIns = { models, on: new Set(entry.fallback_on), embeddings: entry.fallback_embeddings }
    this.#compare(name, standIns)
    return standIns
  }

  #targetsOf(name: string): [path: (string | number)[], target: string][] {
    const { alias, fallback } = this.#entries[name]!
    if (!this.#report.sound('models', name)) return []
    if (alias !== undefined) return [[['models', name, 'alias'], alias]]
    return (fallback ?? []).map((target, at) => [['models', name, 'fallback', at], target])
  }

  #mayStandIn(path: (string | number)[], name: string, target: string, above: readonly string[]): boolean {
    const report = this.#report
    if (target === name) report.value(path, 'is the model itself: name another one')
    else if (above.includes(target))
      report.value(path, `leads in a circle: ${[...above.slice(above.indexOf(target)), name, target].join(' → ')}`)
    else if (target.endsWith('*')) report.value(path, 'is a pattern: name a model that the file lists')
    else if (!Object.hasOwn(this.#entries, target))
      report.value(path, `is no model of this file${suggestion(target, Object.keys(this.#entries))}`)
    else return true
    return false
  }

  /** All that stand in for a model answer what it is asked, and keep responses where it does. */
  #compare(name: string, { models: [first, ...others], embeddings }: StandIns): void {
    const report = this.#report
    const kind = kindOf(first!)
    const path = ['models', name, 'fallback']
    for (const other of others) {
      const its = kindOf(other)
      if (kind && its && kind !== its)
        report.value(
          path,
          `${other.name} is of another kind than ${first!.name}: one is sold by ${kind}, one by ${its}`
        )
      else if (kind === 'vectors' && its && !embeddings)
        report.value(
          path,
          `${first!.name} seems to make vectors, and those of ${other.name} do not compare with them: take it out, or say "fallback_embeddings: true" if that does not matter`
        )
      if (other.state !== first!.state)
        report.value(
          path,
          `${first!.name} has "state: ${first!.state}" and ${other.name} has "state: ${other.state}": conversations could not go on`
        )
    }
  }
}

/** What a model is sold by, as far as its latest price tells. */
function kindOf({ prices }: Model): string | undefined {
  const price = prices.at(-1)?.price
  if (!price || isFree(price)) return undefined
  const has = (name: keyof Rates): boolean => (price.perMillion[name] ?? 0n) > 0n
  if (has('output')) return 'tokens'
  for (const name of ['image', 'second', 'character', 'search'] as const) if (has(name)) return `the ${name}`
  return has('input') ? 'vectors' : undefined
}
