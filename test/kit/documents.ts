// Documents in memory, with the promises of the interface, and keys to put in them.
import { createHash } from 'node:crypto'
import { changeOf } from '../../core/store/documents.ts'
import type {
  AuditEntry,
  DocumentChange,
  DocumentKind,
  Documents,
  StoredAuditEntry
} from '../../core/store/documents.ts'
import { keyDocuments } from '../../core/tenancy/stored.ts'
import type { StoredKey } from '../../core/tenancy/stored.ts'

/** Documents that nothing writes to a disk. */
export class MemoryDocuments implements Documents {
  readonly entries: AuditEntry[] = []
  readonly #kinds = new Map<string, Map<string, object>>()
  readonly #watchers = new Set<(changes: readonly DocumentChange[]) => void>()

  all<T extends object>({ name }: DocumentKind<T>): readonly T[] {
    return [...(this.#kinds.get(name)?.values() ?? [])] as T[]
  }

  find<T extends object>({ name }: DocumentKind<T>, id: string): T | undefined {
    return this.#kinds.get(name)?.get(id) as T | undefined
  }

  async change(changes: readonly DocumentChange[], entry?: AuditEntry): Promise<void> {
    if (entry) this.entries.push(entry)
    this.note(changes)
  }

  note(changes: readonly DocumentChange[]): void {
    for (const { kind, id, value } of changes) {
      const documents = this.#kinds.get(kind) ?? new Map<string, object>()
      this.#kinds.set(kind, documents)
      if (value) documents.set(id, value)
      else documents.delete(id)
    }
    for (const tell of this.#watchers) tell(changes)
  }

  watch(tell: (changes: readonly DocumentChange[]) => void): () => void {
    this.#watchers.add(tell)
    return () => void this.#watchers.delete(tell)
  }

  /** How many follow the changes. */
  get watched(): number {
    return this.#watchers.size
  }

  async audit(): Promise<readonly StoredAuditEntry[]> {
    return this.entries.map((entry, index) => ({ seq: index + 1, time: 0, entry, hash: '' })).reverse()
  }
}

/** The SHA-256 of a secret. */
export function digestOf(secret: string): Buffer {
  return createHash('sha256').update(secret).digest()
}

/** A stored key of the tenant acme, whose secret is `sk-` and its name. */
export function storedKey(
  name: string,
  settings: Record<string, unknown> = {},
  more: Partial<StoredKey> = {}
): StoredKey {
  const secrets = [{ sha256: digestOf(`sk-${name}`).toString('hex'), hint: 'sk-…', created: 0 }]
  return { name, tenant: 'acme', settings, secrets, created: 0, ...more }
}

/** Puts a key into documents, in the place of the one of its name. */
export function putKey(documents: Documents, key: StoredKey): Promise<void> {
  return documents.change([changeOf(keyDocuments, key.name, key)])
}
