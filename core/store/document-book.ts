// The documents of this store: held in memory, and left to the writer to save.
import type { AuditEntry, AuditQuery, DocumentChange, DocumentKind, Documents, StoredAuditEntry } from './documents.ts'
import type { Reader } from './reader.ts'
import type { Row } from './sqlite.ts'
import type { Writer } from './writer.ts'

/** The documents of one store. */
export class DocumentBook implements Documents {
  readonly #writer: Writer
  readonly #reader: Reader
  readonly #now: () => number
  /** The documents by kind, then by id. */
  readonly #kinds = new Map<string, Map<string, object>>()
  readonly #watchers = new Set<(changes: readonly DocumentChange[]) => void>()

  /** `rows` are those of the table document. `now` gives the time of entries in the audit log. */
  constructor(writer: Writer, reader: Reader, rows: readonly Row[], now: () => number) {
    this.#writer = writer
    this.#reader = reader
    this.#now = now
    for (const { kind, id, json } of rows)
      this.#of(kind as string).set(id as string, JSON.parse(json as string) as object)
  }

  all<T extends object>({ name }: DocumentKind<T>): readonly T[] {
    return [...(this.#kinds.get(name)?.values() ?? [])] as T[]
  }

  find<T extends object>({ name }: DocumentKind<T>, id: string): T | undefined {
    return this.#kinds.get(name)?.get(id) as T | undefined
  }

  async change(changes: readonly DocumentChange[], entry?: AuditEntry): Promise<void> {
    const draft = this.#writer.admit()
    for (const { kind, id, value } of changes) {
      const json = value && JSON.stringify(value)
      draft.documents.push(kind, id, json)
      draft.count(json?.length ?? 0)
      if (value) this.#of(kind).set(id, value)
      else this.#of(kind).delete(id)
    }
    if (entry) {
      const json = JSON.stringify(entry)
      draft.audit.push(this.#now(), json)
      draft.count(json.length)
    }
    const { durable } = draft
    this.#writer.wake()
    if (changes.length > 0) for (const tell of this.#watchers) tell(changes)
    await durable
  }

  watch(tell: (changes: readonly DocumentChange[]) => void): () => void {
    this.#watchers.add(tell)
    return () => void this.#watchers.delete(tell)
  }

  async audit(query: AuditQuery): Promise<readonly StoredAuditEntry[]> {
    if (this.#writer.health.healthy) await this.#writer.flushed()
    const { rows } = await this.#reader.ask({ kind: 'audit', query })
    return rows.map((row) => ({
      seq: Number(row['seq']),
      time: Number(row['time']),
      entry: JSON.parse(row['json'] as string) as AuditEntry,
      hash: Buffer.from(row['hash'] as Uint8Array).toString('hex')
    }))
  }

  #of(kind: string): Map<string, object> {
    let documents = this.#kinds.get(kind)
    if (!documents) this.#kinds.set(kind, (documents = new Map()))
    return documents
  }
}
