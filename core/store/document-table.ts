// Documents in memory, and who is told of their changes.
import type { DocumentChange, DocumentKind, Documents } from './documents.ts'

/** The documents of a process or a thread as it sees them. */
export class DocumentTable implements Pick<Documents, 'all' | 'find' | 'watch'> {
  /** By kind, then by id. */
  readonly #kinds = new Map<string, Map<string, object>>()
  readonly #watchers = new Set<(changes: readonly DocumentChange[]) => void>()

  all<T extends object>({ name }: DocumentKind<T>): readonly T[] {
    return [...(this.#kinds.get(name)?.values() ?? [])] as T[]
  }

  find<T extends object>({ name }: DocumentKind<T>, id: string): T | undefined {
    return this.#kinds.get(name)?.get(id) as T | undefined
  }

  /** The changes that make these documents, for a copy. */
  get whole(): readonly DocumentChange[] {
    return [...this.#kinds].flatMap(([kind, documents]) => [...documents].map(([id, value]) => ({ kind, id, value })))
  }

  /** Where a document is among those of its kind, from 0 on; -1 when there is none. */
  placeOf(kind: string, id: string): number {
    return [...this.#of(kind).keys()].indexOf(id)
  }

  /** Makes a change, of which nobody is told. `place`: where a new document is put; by default behind all others. */
  set({ kind, id, value }: DocumentChange, place?: number): void {
    const documents = this.#of(kind)
    if (!value) return void documents.delete(id)
    documents.set(id, value)
    if (place === undefined) return
    const all = [...documents]
    all.splice(place, 0, all.pop()!)
    this.#kinds.set(kind, new Map(all))
  }

  watch(tell: (changes: readonly DocumentChange[]) => void): () => void {
    this.#watchers.add(tell)
    return () => void this.#watchers.delete(tell)
  }

  tell(changes: readonly DocumentChange[]): void {
    if (changes.length > 0) for (const tell of this.#watchers) tell(changes)
  }

  /** Takes over changes that were made elsewhere, and tells the watchers. */
  follow(changes: readonly DocumentChange[]): void {
    for (const change of changes) this.set(change)
    this.tell(changes)
  }

  #of(kind: string): Map<string, object> {
    let documents = this.#kinds.get(kind)
    if (!documents) this.#kinds.set(kind, (documents = new Map()))
    return documents
  }
}
