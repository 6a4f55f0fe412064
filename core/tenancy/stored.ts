// What operators make at run time, as the store keeps it: tenants, projects, members and keys.
import { rightsShape, tenantSettings } from '../../config/sections/tenants.ts'
import { documentKind } from '../store/documents.ts'

/** The names of a level, outermost first: of its tenant, project and member. */
export type Path = readonly [tenant: string, project?: string | undefined, member?: string | undefined]

/** The three levels above keys, outermost first. */
export const levelKinds = ['tenant', 'project', 'member'] as const
/** The kind of a level above keys. */
export type LevelKind = (typeof levelKinds)[number]

/**
 * A tenant, project or member. `settings` is in the form of its entry in gateway.yaml, without projects and members.
 * Times are in Unix milliseconds.
 */
export interface StoredLevel {
  readonly path: Path
  readonly settings: Readonly<Record<string, unknown>>
  readonly created: number
  readonly changed?: number
  /** Closed for good: its requests are refused, and its name stays taken. */
  readonly closed?: number
}

/** One secret of a key. Of the secret itself only the hash is kept. */
export interface StoredSecret {
  /** SHA-256 in hexadecimal. */
  readonly sha256: string
  /** First and last characters of the secret, for people to recognise it: `sk-ab12…9f3c`. */
  readonly hint: string
  readonly created: number
  /** It is refused from then on, because another one took its place. */
  readonly until?: number
  /** What the caller of the rotation that made it called that rotation. */
  readonly rotation?: string
}

/** A key. `settings` is in the form of its entry in gateway.yaml, without its name, owner and secret. */
export interface StoredKey {
  readonly name: string
  readonly tenant: string
  readonly project?: string | undefined
  readonly member?: string | undefined
  readonly settings: Readonly<Record<string, unknown>>
  /** The newest first. */
  readonly secrets: readonly StoredSecret[]
  readonly created: number
  readonly changed?: number
  /** Revoked for good: its requests are refused, and its name stays taken. */
  readonly revoked?: number | undefined
}

/** The documents of keys; their ids are the names. */
export const keyDocuments = documentKind<StoredKey>('key')

/** The documents of levels; their ids are the names of the path, joined by slashes. */
export const levelDocuments = {
  tenant: documentKind<StoredLevel>('tenant'),
  project: documentKind<StoredLevel>('project'),
  member: documentKind<StoredLevel>('member')
} as const

/** The settings that a level may have at run time, as option schemas. */
export const levelSettings = {
  tenant: { ...rightsShape, ...tenantSettings },
  project: rightsShape,
  member: rightsShape
} as const

/** The id of a level among those of its kind: `acme/web/alice`. Names have no slash. */
export function idOf(path: Path): string {
  return path.filter((name) => name !== undefined).join('/')
}

/** The kind of the level that a path leads to. */
export function kindOf(path: Path): LevelKind {
  return levelKinds[path.filter((name) => name !== undefined).length - 1]!
}
