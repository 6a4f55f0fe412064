// Documents in memory, with the promises of the interface, and keys to put in them.
import { createHash } from 'node:crypto'
import { DocumentTable } from '../../core/store/document-table.ts'
import { changeOf } from '../../core/store/documents.ts'
import type { AuditEntry, DocumentChange, Documents, StoredAuditEntry } from '../../core/store/documents.ts'
import { keyDocuments } from '../../core/tenancy/stored.ts'
import type { StoredKey } from '../../core/tenancy/stored.ts'

/** Documents that nothing writes to a disk. */
export class MemoryDocuments extends DocumentTable implements Documents {
  readonly entries: AuditEntry[] = []
  #watched = 0

  async change(changes: readonly DocumentChange[], entry?: AuditEntry): Promise<void> {
    if (entry) this.entries.push(entry)
    this.note(changes)
  }

  note(changes: readonly DocumentChange[]): void {
    this.follow(changes)
  }

  override watch(tell: (changes: readonly DocumentChange[]) => void): () => void {
    const leave = super.watch(tell)
    this.#watched++
    return () => {
      this.#watched--
      leave()
    }
  }

  /** How many follow the changes. */
  get watched(): number {
    return this.#watched
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
