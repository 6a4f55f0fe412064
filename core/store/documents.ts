// The interface of documents: the small things that operators change while the gateway runs, such as tenants and keys,
// and the audit log of those changes.

/** A kind of document. `name` is stored with each document and never changes. */
export interface DocumentKind<T extends object> {
  readonly name: string
  /** The type of the values, which are plain JSON. It exists for the compiler alone. */
  readonly type?: T
}

/** Declares a kind of document. */
export function documentKind<T extends object>(name: string): DocumentKind<T> {
  return { name }
}

/** One change: the new value of a document, or null to delete it. */
export interface DocumentChange {
  readonly kind: string
  readonly id: string
  readonly value: object | null
}

/** Makes a change of one document, for {@link Documents.change}. */
export function changeOf<T extends object>({ name }: DocumentKind<T>, id: string, value: T | null): DocumentChange {
  return { kind: name, id, value }
}

/** An entry of the audit log: plain JSON without a secret. */
export type AuditEntry = Readonly<Record<string, unknown>>

/** An entry as stored. `seq` counts from 1 without gaps. `hash` covers the entry and the hash before it. */
export interface StoredAuditEntry {
  readonly seq: number
  /** Unix milliseconds. */
  readonly time: number
  readonly entry: AuditEntry
  /** SHA-256 in hexadecimal. */
  readonly hash: string
}

/** The members that the audit log can be searched by, those first that few entries have the same value of. */
export const auditMembers = ['object', 'actor', 'tenant', 'action', 'object_kind', 'outcome'] as const

/** A page of the audit log. */
export interface AuditQuery {
  /** Only entries with a smaller `seq`, newest first. Default: from the newest on. */
  readonly before?: number | undefined
  /** Unix milliseconds, both included. */
  readonly since?: number | undefined
  readonly until?: number | undefined
  /** Members of the entry that must have this text. */
  readonly members?: Readonly<Partial<Record<(typeof auditMembers)[number], string>>> | undefined
  readonly limit: number
}

/**
 * The documents of the store. All are in memory, so reads are immediate and include every change at once. A value is
 * never changed: a change puts another one in its place.
 */
export interface Documents {
  /** All documents of a kind, in the order in which they were first put. */
  all<T extends object>(kind: DocumentKind<T>): readonly T[]
  find<T extends object>(kind: DocumentKind<T>, id: string): T | undefined
  /**
   * Makes changes together, with an entry in the audit log. They count at once, and watchers are told before it
   * returns; where many gateways share the store, when it resolves. Resolves when all is on disk. An entry without
   * changes is of something that happened.
   * @throws GatewayError `billing_unavailable` when the store cannot take it; rejects with it when the disk fails for
   * seconds: then the changes are taken back, of which watchers are told too. An entry without changes is written later
   * all the same. Whether changes were made can be unknown only where the process ends in that time, or a shared store
   * is not heard of for seconds: if they were, they are seen when it is. `changed_meanwhile` (409) when another gateway
   * changed one of the documents since this one read it.
   */
  change(changes: readonly DocumentChange[], entry?: AuditEntry): Promise<void>
  /**
   * Makes changes that the gateway notes for itself, and nobody waits for. They stand: while the disk fails they are
   * kept in memory, and written when it heals. In a document that another gateway changed meanwhile they do not.
   * @throws GatewayError `billing_unavailable` when the store cannot take it
   */
  note(changes: readonly DocumentChange[]): void
  /** Calls `tell` after each change. Returns a function that ends this. */
  watch(tell: (changes: readonly DocumentChange[]) => void): () => void
  /** Lists entries of the audit log, newest first. */
  audit(query: AuditQuery, left?: AbortSignal): Promise<readonly StoredAuditEntry[]>
}
