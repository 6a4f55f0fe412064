// The documents of this store: held in memory, and left to the writer to save.
import type {
  AuditEntry,
  AuditQuery,
  DocumentChange,
  DocumentKind,
  Documents,
  StoredAuditEntry
} from '../../documents.ts'
import { DocumentTable } from '../../document-table.ts'
import type { Reader } from '../reader/reader.ts'
import type { Row } from '../files/sqlite.ts'
import type { Writer } from '../writer/writer.ts'

/** What takes a change back. `place`: of a deletion, where the document was among those of its kind. */
interface Undo extends DocumentChange {
  readonly before: object | null
  readonly place: number | undefined
}

/** The documents of one store. */
export class DocumentBook implements Documents {
  readonly #writer: Writer
  readonly #reader: Reader
  readonly #now: () => number
  readonly #table = new DocumentTable()
  /** The changes that are not on disk and can be taken back, in their order. */
  readonly #undos: Undo[] = []

  /** `rows` are those of the table document. `now` gives the time of entries in the audit log. */
  constructor(writer: Writer, reader: Reader, rows: readonly Row[], now: () => number) {
    this.#writer = writer
    this.#reader = reader
    this.#now = now
    for (const { kind, id, json } of rows)
      this.#table.set({ kind: kind as string, id: id as string, value: JSON.parse(json as string) as object })
  }

  all<T extends object>(kind: DocumentKind<T>): readonly T[] {
    return this.#table.all(kind)
  }

  find<T extends object>(kind: DocumentKind<T>, id: string): T | undefined {
    return this.#table.find(kind, id)
  }

  /** See {@link DocumentTable.whole}. */
  get whole(): readonly DocumentChange[] {
    return this.#table.whole
  }

  async change(changes: readonly DocumentChange[], entry?: AuditEntry): Promise<void> {
    const durable = this.#make(changes, changes.length > 0, entry)
    try {
      await durable
    } catch (error) {
      this.#takeBack()
      throw error
    }
    // What is in one batch is on disk together, and in the order of the changes.
    this.#undos.splice(0, changes.length)
  }

  note(changes: readonly DocumentChange[]): void {
    void this.#make(changes, false)
  }

  /** Makes changes in memory, and queues their rows. Returns the promise that they are on disk. */
  #make(changes: readonly DocumentChange[], revocable: boolean, entry?: AuditEntry): Promise<void> {
    const draft = this.#writer.admit()
    const render = (value: object | null): string | null => {
      const json = value && JSON.stringify(value)
      draft.count(json?.length)
      return json
    }
    const rows = changes.flatMap(({ kind, id, value }) => [kind, id, render(value)])
    const audit = entry ? [this.#now(), render(entry)] : []
    draft.changes.push({ documents: rows, audit, revocable })
    for (const change of changes) {
      if (revocable) this.#undos.push(this.#undoOf(change))
      this.#table.set(change)
    }
    const { durable } = draft
    this.#writer.wake()
    this.#table.tell(changes)
    return durable
  }

  #undoOf({ kind, id, value }: DocumentChange): Undo {
    const before = this.#table.find({ name: kind }, id) ?? null
    return { kind, id, value, before, place: value ? undefined : this.#table.placeOf(kind, id) }
  }

  /**
   * Takes back all changes that are not on disk, the latest first: those who made them are told that they failed. What
   * was noted in a document since then stays.
   */
  #takeBack(): void {
    const undone: DocumentChange[] = []
    for (const { kind, id, value, before, place } of this.#undos.splice(0).reverse()) {
      if ((this.#table.find({ name: kind }, id) ?? null) !== value) continue
      const change = { kind, id, value: before }
      undone.push(change)
      // What was deleted is put where it was before.
      this.#table.set(change, before ? place : undefined)
    }
    this.#table.tell(undone)
  }

  watch(tell: (changes: readonly DocumentChange[]) => void): () => void {
    return this.#table.watch(tell)
  }

  /** Takes over changes that another process has made and saved, and tells the watchers. */
  follow(changes: readonly DocumentChange[]): void {
    this.#table.follow(changes)
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
}
