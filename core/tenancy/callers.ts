// Makes callers of keys: the rights of a key and of the levels above it, as one.
import { tagsOf } from '../catalogue/caller.ts'
import type { Caller, LevelLimits, LimitSet, Scope } from '../catalogue/caller.ts'
import { compileGlobs } from '../catalogue/globs.ts'
import type { Matches } from '../catalogue/globs.ts'
import type { Held, Key } from './held.ts'
import { whyNotOf } from './refusals.ts'
import { scopeOf } from './levels.ts'
import type { Level, Levels } from './levels.ts'
import { idOf } from './stored.ts'
import type { Path } from './stored.ts'

/** The levels above keys, outermost first, and what is the same for all of these. */
interface Line {
  readonly levels: readonly Level[]
  readonly enabled: boolean
  readonly scopes: readonly Scope[]
  readonly sets: readonly LimitSet[]
}

/** The callers by secret, each made on its first request. */
export class Callers {
  readonly #generation: () => number
  readonly #levels: Levels
  readonly #models: ReadonlyMap<string, unknown>
  readonly #made = new WeakMap<Held, Caller>()
  /** The scopes of callers whose key has moved since they were found. */
  readonly #moved = new WeakMap<Caller, { now: Caller; scopes: readonly Scope[] }>()
  readonly #lines = new Map<string, Line>()
  /** Compiled lists of globs, shared by all keys and levels with the same list. */
  readonly #compiled = new Map<string, Matches>()
  /** The same of lists of models that all have to match. */
  readonly #layered = new Map<string, Matches>()

  /** `generation` is greater for later budgets; `models` are the known ones. */
  constructor(generation: () => number, levels: Levels, models: ReadonlyMap<string, unknown>) {
    this.#generation = generation
    this.#levels = levels
    this.#models = models
  }

  /** Undefined when the key or a level above it is disabled, or there is no such level any more. */
  of(held: Held): Caller | undefined {
    const made = this.#made.get(held)
    if (made) return made
    const caller = this.#make(held.key(), held.sha256)
    if (caller) this.#made.set(held, caller)
    return caller
  }

  /** See {@link Catalogue.scopesNow}. `now` is who has the key in this configuration. */
  scopesNow(opened: Caller, now: Caller): readonly Scope[] {
    const { scopes, tenant, project, member } = opened
    if (scopes.length === now.scopes.length && scopes.every(({ id }, at) => id === now.scopes[at]!.id))
      return now.scopes
    let moved = this.#moved.get(opened)
    if (moved?.now !== now) {
      const paths = { tenant: [tenant], project: [tenant, project], member: [tenant, project, member] } as const
      const own = scopes.map((scope) => {
        const level = scope.kind === 'key' ? now.scopes.at(-1) : this.#levels.find(paths[scope.kind])?.rights
        return level ? { ...scope, budgets: level.budgets, generation: this.#generation() } : scope
      })
      this.#moved.set(opened, (moved = { now, scopes: own }))
    }
    return moved.scopes
  }

  #make(key: Key, digest: Buffer): Caller | undefined {
    const { name, tenant, project, member } = key
    const line = this.#lineOf([tenant, project, member])
    if (!line?.enabled || !key.enabled) return undefined
    const { levels } = line
    const rights = [...levels.map((level) => level.rights), key]
    const own: Scope = {
      kind: 'key',
      id: `key:${name}`,
      budgets: key.budgets,
      generation: this.#generation(),
      tags: key.tags
    }
    const scopes = line.scopes.concat(own)
    const expires = Math.min(...rights.map((level) => level.expires ?? Infinity))
    return {
      key: name,
      digest,
      tenant,
      project,
      member,
      scopes,
      tags: tagsOf(scopes),
      limitsOf: this.#limitsOf(line.sets.concat(setsOf(own, scopes[0]!.id, key.limits))),
      mayUse: this.#remembered(rights.map(({ models }) => models)),
      mayCall: this.#allOf(rights.map(({ endpoints }) => endpoints)),
      whyNot: whyNotOf(key, levels, this.#compile),
      expires: expires === Infinity ? undefined : expires
    }
  }

  /** What all keys of a tenant, project or member have in common; undefined when there is no such level. */
  #lineOf(path: Path): Line | undefined {
    const id = idOf(path)
    const known = this.#lines.get(id)
    if (known) return known
    const levels = this.#levels.lineOf(path)
    if (!levels) return undefined
    const generation = this.#generation()
    const scopes = levels.map(({ kind, path: own, rights: { budgets, tags } }) => ({
      kind,
      id: scopeOf(own),
      budgets,
      generation,
      tags
    }))
    const sets = scopes.flatMap((scope, at) => setsOf(scope, scopes[0]!.id, levels[at]!.rights.limits))
    const line = { levels, enabled: levels.every(({ rights }) => rights.enabled), scopes, sets }
    this.#lines.set(id, line)
    return line
  }

  /** The sets of limits by model. They are remembered for known models only, because clients may send any name. */
  #limitsOf(sets: readonly LimitSet[]): Caller['limitsOf'] {
    if (sets.every(({ models }) => models === null)) return always(sets)
    const matching = new Map(
      sets.flatMap((set) => (set.models === null ? [] : [[set, this.#compile([set.models])] as const]))
    )
    const known = new Map<string, readonly LimitSet[]>([['', sets.filter(({ models }) => models === null)]])
    return (model) => {
      let found = known.get(model)
      if (!found) {
        found = sets.filter((set) => matching.get(set)?.(model) ?? true)
        if (this.#models.has(model)) known.set(model, found)
      }
      return found
    }
  }

  /** Whether all lists match. Keys with the same lists share one function. */
  #allOf(lists: readonly (readonly string[])[]): Matches {
    const limiting = [...new Map(lists.map((globs) => [JSON.stringify(globs), globs])).values()].filter(
      (globs) => !globs.includes('*')
    )
    if (limiting.length <= 1) return this.#compile(limiting[0] ?? ['*'])
    const id = JSON.stringify(limiting)
    let matches = this.#compiled.get(id)
    if (!matches) {
      const all = limiting.map((globs) => this.#compile(globs))
      this.#compiled.set(id, (matches = (name) => all.every((one) => one(name))))
    }
    return matches
  }

  /** A field, as what says why something is not allowed takes it along. */
  readonly #compile = (globs: readonly string[]): Matches => {
    const id = JSON.stringify(globs)
    let matches = this.#compiled.get(id)
    if (!matches) this.#compiled.set(id, (matches = compileGlobs(globs)))
    return matches
  }

  /**
   * Whether all layers match a model. Results are remembered for known models only, because clients may send any name.
   * Keys with the same layers share one function.
   */
  #remembered(layers: readonly (readonly string[])[]): Matches {
    const id = JSON.stringify(layers)
    const known = this.#layered.get(id)
    if (known) return known
    const models = this.#models
    const answers = new Map<string, boolean>()
    const compiled = layers.map(this.#compile)
    const matches = (model: string): boolean => {
      let answer = answers.get(model)
      if (answer === undefined) {
        answer = compiled.every((one) => one(model))
        if (models.has(model)) answers.set(model, answer)
      }
      return answer
    }
    this.#layered.set(id, matches)
    return matches
  }
}

/** A function of its own, so that 100,000 of them keep nothing else in memory. */
function always(sets: readonly LimitSet[]): Caller['limitsOf'] {
  return () => sets
}

/** The sets of limits of a scope: of all its requests, and one for each pattern of models. */
function setsOf({ id, kind }: Scope, home: string, { models = {}, ...rates }: LevelLimits): LimitSet[] {
  const all = { id, home, level: kind, scope: id, models: null, rates }
  // A space is in no name of a scope.
  const each = Object.entries(models).map(([glob, rates]) => ({ ...all, id: `${id} ${glob}`, models: glob, rates }))
  return [all, ...each].filter(({ rates }) => Object.values(rates).some((limit) => limit !== undefined))
}
