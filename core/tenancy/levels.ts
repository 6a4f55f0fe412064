// The tenants, projects and members of a configuration: those of gateway.yaml, and those that were made at run time.
import { readRights } from '../../config/sections/tenants.ts'
import type { Rights } from '../catalogue/caller.ts'
import type { Tenant } from '../catalogue/catalogue.ts'
import type { Config, Problem } from '../catalogue/settings.ts'
import { below, checkerOf } from '../options/schema-check.ts'
import type { Documents } from '../store/documents.ts'
import { idOf, kindOf, levelDocuments, levelKinds, levelSettings } from './stored.ts'
import type { LevelKind, Path, StoredLevel } from './stored.ts'

/** One tenant, project or member. */
export interface Level {
  readonly kind: LevelKind
  readonly path: Path
  readonly rights: Rights
  readonly foreignReferences: Tenant['foreignReferences']
  /** Undefined for a level of the file, which can be changed only there. */
  readonly stored: StoredLevel | undefined
}

/**
 * Levels by the name that balances have for them: `tenant:acme`, `project:acme/web`, `member:acme/web/alice`. Those of
 * the store are read when they are asked for: to read a hundred thousand holds the event loop up.
 */
export class Levels {
  readonly #declared = new Map<string, Level>()
  readonly #documents: Documents

  constructor(config: Config, documents: Documents) {
    this.#documents = documents
    for (const [tenant, { projects, foreignReferences, ...rights }] of config.tenants) {
      this.#declare([tenant], rights, foreignReferences)
      for (const [project, { members, ...ofProject }] of projects) {
        this.#declare([tenant, project], ofProject)
        for (const [member, ofMember] of members) this.#declare([tenant, project, member], ofMember)
      }
    }
  }

  /** All levels, those of the file first. Of two with the same name that of the file counts, as in {@link find}. */
  all(): Level[] {
    return [...this.#declared.values(), ...levelKinds.flatMap((kind) => this.#storedOf(kind))]
  }

  /** All levels of a kind, in the same order. */
  of(kind: LevelKind): Level[] {
    return [...[...this.#declared.values()].filter((level) => level.kind === kind), ...this.#storedOf(kind)]
  }

  find(path: Path): Level | undefined {
    return this.at(scopeOf(path))
  }

  /** The level that balances have this name for. */
  at(scope: string): Level | undefined {
    return this.#declared.get(scope) ?? this.#storedAt(scope)
  }

  /** The level that a path leads to, and those above it, outermost first; undefined when one of them is missing. */
  lineOf(path: Path): Level[] | undefined {
    const line = path.flatMap((name, depth) => {
      if (name === undefined) return []
      return [this.find(path.slice(0, depth + 1) as unknown as Path)]
    })
    return line.every((level) => level !== undefined) ? line : undefined
  }

  /** The level that a document describes, whether it is in the store or not yet. */
  read(kind: LevelKind, stored: StoredLevel): Level {
    return levelOf(kind, stored)
  }

  /** The levels of the file whose name one in the store has too. `places` are those of the configuration. */
  clashes(places: Config['places']): Problem[] {
    return [...this.#declared]
      .filter(([scope]) => this.#storedAt(scope))
      .map(([, { kind, path }]) => ({
        place: places.get(pointerOf(path))!,
        message: `a ${kind} ${idOf(path)} is in the store too, maybe closed: choose another name`
      }))
  }

  #declare(path: Path, rights: Rights, foreignReferences?: Tenant['foreignReferences']): void {
    this.#declared.set(scopeOf(path), { kind: kindOf(path), path, rights, foreignReferences, stored: undefined })
  }

  #storedOf(kind: LevelKind): Level[] {
    const stored = this.#documents.all(levelDocuments[kind])
    return stored.flatMap((one) => (this.#declared.has(scopeOf(one.path)) ? [] : [levelOf(kind, one)]))
  }

  /** The level of the store with this name, whatever the file has. */
  #storedAt(scope: string): Level | undefined {
    const colon = scope.indexOf(':')
    const kind = levelKinds.find((one) => one === scope.slice(0, colon))
    const stored = kind && this.#documents.find(levelDocuments[kind], scope.slice(colon + 1))
    return stored && levelOf(kind, stored)
  }
}

/** The pointer to a level of the file. */
export function pointerOf([tenant, project, member]: Path): string {
  const names = [
    tenant,
    ...(project === undefined ? [] : ['projects', project]),
    ...(member === undefined ? [] : ['members', member])
  ]
  return names.reduce<string>(below, '/tenants')
}

/** The name of a level's balances. */
export function scopeOf(path: Path): string {
  return `${kindOf(path)}:${idOf(path)}`
}

type StoredRights = Rights & Pick<Level, 'foreignReferences'>

/** The rights by settings, which never change: to check them again and again would take long. */
const understood = new WeakMap<object, StoredRights>()

/**
 * The rights that stored settings describe. Settings that the schema of this version refuses give no rights: nobody
 * knows what they were meant to allow.
 */
export function storedRights(settings: object, kind: LevelKind | 'key'): StoredRights {
  const known = understood.get(settings)
  if (known) return known
  const { value, faults } = checkerOf(kind === 'tenant' ? levelSettings.tenant : levelSettings.project)(settings)
  const rights = readRights(value)
  const foreignReferences =
    'foreign_references' in value ? (value.foreign_references as Level['foreignReferences']) : undefined
  const result =
    faults.length === 0
      ? { ...rights, foreignReferences }
      : { ...rights, enabled: false, budgets: [], foreignReferences }
  understood.set(settings, result)
  return result
}

/** The levels by what is stored of them, which never changes. */
const made = new WeakMap<StoredLevel, Level>()

function levelOf(kind: LevelKind, stored: StoredLevel): Level {
  let level = made.get(stored)
  if (!level) {
    const { foreignReferences, ...rights } = storedRights(stored.settings, kind)
    const enabled = rights.enabled && stored.closed === undefined
    level = { kind, path: stored.path, rights: { ...rights, enabled }, foreignReferences, stored }
    made.set(stored, level)
  }
  return level
}
