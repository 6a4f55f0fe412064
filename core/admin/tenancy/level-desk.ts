// The level desk: creates, changes and closes tenants, projects and members, checked against the configuration and the
// store.
import { GatewayError } from '../../errors.ts'
import type { Config } from '../../catalogue/settings.ts'
import type { OptionSchemas } from '../../options/schema.ts'
import { suggestion } from '../../options/suggest.ts'
import { changeOf } from '../../store/documents.ts'
import type { Documents } from '../../store/documents.ts'
import { Levels, pointerOf, scopeOf } from '../../tenancy/levels.ts'
import type { Level } from '../../tenancy/levels.ts'
import { idOf, kindOf, levelDocuments, levelKinds, levelSettings } from '../../tenancy/stored.ts'
import type { LevelKind, Path, StoredLevel } from '../../tenancy/stored.ts'
import { auditEntry } from '../api/audit.ts'
import type { Actor } from '../api/audit.ts'
import { changed, conflict, nameFaults, readEntry, refuse, showTime } from '../api/entry.ts'
import type { FieldFault } from '../api/entry.ts'
import { checkRoom } from './per-tenant.ts'
import { sentence, shown } from '../api/query.ts'
import { showRights } from './rights.ts'
import type { ShownRights } from './rights.ts'

/** A tenant, project or member as shown. Absent values are null. */
export interface ShownLevel extends ShownRights {
  name: string
  tenant: string
  /** The project; absent for tenants. */
  project?: string
  /** The name that balances have for it: `project:acme/web`. */
  scope: string
  /** Levels of the file can be changed only there. */
  source: 'file' | 'store'
  /** `unowned`: the level above it is missing, closed or disabled, so its requests are refused. */
  state: 'active' | 'disabled' | 'expired' | 'closed' | 'unowned'
  /** Of tenants alone. */
  foreign_references?: 'refuse' | 'pass' | null
  /** RFC 3339. */
  created: string | null
  changed: string | null
  closed: string | null
}

const examples: Readonly<Record<LevelKind, string>> = {
  tenant: '{"name": "acme", "budget": {"usd": 100, "per": "month"}}',
  project: '{"tenant": "acme", "name": "web"}',
  member: '{"tenant": "acme", "project": "web", "name": "alice"}'
}

const text = (description: string) => ({ type: 'string', description }) as const
const nameField = text('Its name, which it keeps.')
const tenantField = text('The tenant it belongs to.')

/** What each level is created with: its names, and an entry of gateway.yaml without projects and members. */
export const levelFields = {
  tenant: { name: nameField, ...levelSettings.tenant },
  project: { tenant: tenantField, name: nameField, ...levelSettings.project },
  member: {
    tenant: tenantField,
    project: text('The project it belongs to.'),
    name: nameField,
    ...levelSettings.member
  }
} as const satisfies Readonly<Record<LevelKind, OptionSchemas>>

/** The fields without which a level is not created: the names of those above it, and its own. */
export function requiredOf(kind: LevelKind): string[] {
  return [...levelKinds.slice(0, levelKinds.indexOf(kind)), 'name']
}

/** The level desk of one gateway. Every refusal is a GatewayError that names the field or the place. */
export class LevelDesk {
  readonly #config: Config
  readonly #documents: Documents
  readonly #levels: Levels

  /** Uses one configuration: make a new level desk after a reload. */
  constructor(config: Config, documents: Documents) {
    this.#config = config
    this.#documents = documents
    this.#levels = new Levels(config, documents)
  }

  /** Lists the levels of a kind, those of the file first, closed ones too. */
  list(kind: LevelKind): ShownLevel[] {
    return this.#levels.of(kind).map((level) => this.#show(level))
  }

  /** @throws GatewayError `tenant_not_found`, `project_not_found` or `member_not_found` */
  find(path: Path): ShownLevel {
    return this.#show(this.#known(path))
  }

  /** Creates a level from a request with {@link levelFields}. Resolves when it is on disk and can be used. */
  async create(kind: LevelKind, request: unknown, by: Actor): Promise<ShownLevel> {
    const fields: OptionSchemas = levelFields[kind]
    const { settings: given } = readEntry(fields, requiredOf(kind), request, examples[kind])
    const { name, tenant, project, ...rest } = given as { name: string; tenant: string; project: string }
    const path: Path = kind === 'tenant' ? [name] : kind === 'project' ? [tenant, name] : [tenant, project, name]
    refuse([...nameFaults('name', name), ...ownerFaults(this.#levels, path.slice(0, -1) as unknown as Path)])
    const taken = this.#levels.find(path)
    if (taken) {
      const where = taken.stored
        ? taken.stored.closed === undefined
          ? 'in the store'
          : 'in the store, closed'
        : `in ${this.#place(path)}`
      throw conflict(`${kind}_exists`, `There is a ${kind} ${name} already, ${where}: choose another name.`)
    }
    if (kind !== 'tenant') checkRoom(kind, tenant, by, this.#config.settings.limits, this.#documents)
    const level: StoredLevel = { path, settings: rest, created: Date.now() }
    return this.#put(kind, level, by, `${kind}.create`, undefined)
  }

  /** Changes the rights of a level by a merge patch, from the next request on. Resolves when that is on disk. */
  async change(path: Path, patch: unknown, by: Actor): Promise<ShownLevel> {
    const kind = kindOf(path)
    const { shown: before, stored } = this.#changeable(path)
    if (stored.closed !== undefined)
      throw conflict(`${kind}_closed`, `The ${kind} ${idOf(path)} is closed for good: create another one.`)
    const settings = changed(levelSettings[kind], stored.settings, patch, '{"budget": {"usd": 10, "per": "day"}}')
    return this.#put(kind, { ...stored, settings, changed: Date.now() }, by, `${kind}.change`, before)
  }

  /**
   * Closes a level for good, from the next request on: what is below it is refused too. Closing it again changes
   * nothing. Resolves when that is on disk.
   */
  async close(path: Path, by: Actor): Promise<ShownLevel> {
    const kind = kindOf(path)
    const { shown: before, stored } = this.#changeable(path)
    if (stored.closed !== undefined) return before
    return this.#put(kind, { ...stored, closed: Date.now() }, by, `${kind}.close`, before)
  }

  async #put(
    kind: LevelKind,
    stored: StoredLevel,
    by: Actor,
    action: string,
    before: ShownLevel | undefined
  ): Promise<ShownLevel> {
    const id = idOf(stored.path)
    const change = changeOf(levelDocuments[kind], id, stored)
    // What is shown after the change is known only with it, and the entry of the audit log belongs to the same write.
    const after = this.#show(this.#levels.read(kind, stored))
    await this.#documents.change([change], auditEntry(by, action, { kind, id, tenant: stored.path[0] }, before, after))
    return after
  }

  #changeable(path: Path): { shown: ShownLevel; stored: StoredLevel } {
    const level = this.#known(path)
    if (level.stored) return { shown: this.#show(level), stored: level.stored }
    const { kind } = level
    throw conflict(`${kind}_read_only`, `The ${kind} ${idOf(path)} stands in ${this.#place(path)}: change it there.`)
  }

  #place(path: Path): string {
    return this.#config.places.get(pointerOf(path))!
  }

  #known(path: Path): Level {
    const level = this.#levels.find(path)
    if (level) return level
    const kind = kindOf(path)
    const known = this.#levels
      .all()
      .flatMap((one) => (one.kind === kind && above(one.path) === above(path) ? [idOf(one.path)] : []))
    const message = sentence(`There is no ${kind} ${shown(idOf(path))}${suggestion(idOf(path), known)}`)
    throw new GatewayError('route_not_found', message, { shownCode: `${kind}_not_found`, param: kind })
  }

  #show({ kind, path, rights, foreignReferences, stored }: Level): ShownLevel {
    const [tenant, project] = path
    const outer = this.#levels.lineOf(path.slice(0, -1) as unknown as Path)
    const owned = outer?.every((level) => level.rights.enabled) ?? false
    const state =
      stored?.closed !== undefined
        ? 'closed'
        : !owned
          ? 'unowned'
          : !rights.enabled
            ? 'disabled'
            : rights.expires !== undefined && rights.expires <= Date.now()
              ? 'expired'
              : 'active'
    return {
      name: path.at(-1)!,
      tenant,
      ...(kind === 'member' && { project: project! }),
      scope: scopeOf(path),
      source: stored ? 'store' : 'file',
      state,
      ...showRights(rights),
      ...(kind === 'tenant' && { foreign_references: foreignReferences ?? null }),
      created: showTime(stored?.created),
      changed: showTime(stored?.changed),
      closed: showTime(stored?.closed)
    }
  }
}

/** Finds which of the levels that a path names there is not, or is closed. */
export function ownerFaults(levels: Levels, path: Path): FieldFault[] {
  const [, project, member] = path
  if (project === undefined && member !== undefined)
    return [{ field: 'project', message: 'project is missing: a member belongs to one' }]
  for (const [depth, name] of path.entries()) {
    if (name === undefined) continue
    const part = path.slice(0, depth + 1) as unknown as Path
    const kind = kindOf(part)
    const level = levels.find(part)
    if (level?.stored?.closed !== undefined) return [{ field: kind, message: `the ${kind} ${shown(name)} is closed` }]
    if (level) continue
    const beside = levels.of(kind).filter((one) => above(one.path) === above(part))
    const names = beside.map((one) => one.path[depth]!)
    return [{ field: kind, message: `there is no ${kind} ${shown(name)}${suggestion(name, names)}` }]
  }
  return []
}

function above(path: Path): string {
  return path.slice(0, -1).join('/')
}
