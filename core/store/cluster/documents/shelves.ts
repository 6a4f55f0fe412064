// The documents of the database in memory, with the version of each, and the version up to which all are there.
import type { DocumentChange } from '../../documents.ts'

/** A document as the database has it. `value`: JSON, null when it was deleted. */
export interface DocumentRow {
  readonly kind: string
  readonly id: string
  readonly value: string | null
  readonly version: bigint
  /** Documents of a kind are listed in the order of their places. One that was deleted and put again has a new one. */
  readonly place: bigint
}

/** Up to where documents were read. */
export interface Head {
  readonly version: bigint
  /** Random, of the change that was the last then: a standby that lacked changes gives their versions to others. */
  readonly stamp: string | null
}

interface Kept {
  value: object
  /** 0 when the database has none yet. */
  version: bigint
  /** 0 when the database has given it none yet. */
  place: bigint
}

/** The documents that one gateway has. */
export class Shelves {
  /** By kind, then by id. */
  #kinds = new Map<string, Map<string, Kept>>()
  /** Notes of deletions that the database does not have yet: the version that was deleted. */
  readonly #left = new Map<string, bigint>()
  /** The last place of each kind, at least. */
  readonly #lastPlaces = new Map<string, bigint>()
  #seen: Head = { version: 0n, stamp: null }

  /** Every change up to this version is there. Another object after each step. */
  get seen(): Head {
    return this.#seen
  }

  all(kind: string): object[] {
    return [...(this.#kinds.get(kind)?.values() ?? [])].map(({ value }) => value)
  }

  find(kind: string, id: string): object | undefined {
    return this.#kinds.get(kind)?.get(id)?.value
  }

  /** The version of a document in the database, as far as it is known here; 0 when it has none. */
  versionOf(kind: string, id: string): bigint {
    return this.#kinds.get(kind)?.get(id)?.version ?? this.#left.get(`${kind}\n${id}`) ?? 0n
  }

  /** Makes a change that the database does not have yet. */
  note({ kind, id, value }: DocumentChange): void {
    const version = this.versionOf(kind, id)
    const place = this.#of(kind).get(id)?.place ?? 0n
    if (value) this.#of(kind).set(id, { value, version, place })
    else if (this.#of(kind).delete(id)) this.#left.set(`${kind}\n${id}`, version)
  }

  /**
   * Takes the rows above `from` in the order of their versions, up to `head`: `from` is what was seen when they were
   * asked for. Returns what is new here.
   */
  put(rows: readonly DocumentRow[], from: Head, head: Head): DocumentChange[] {
    const changes: DocumentChange[] = []
    const unordered = new Set<string>()
    const seen = this.#seen
    // Of answers that come in another order the newest counts.
    if (from === seen || head.version > seen.version) this.#seen = head
    for (const { kind, id, value: json, version, place } of rows) {
      if (version <= seen.version) continue
      const kept = this.#of(kind).get(id)
      this.#left.delete(`${kind}\n${id}`)
      if (json === null) {
        if (this.#of(kind).delete(id)) changes.push({ kind, id, value: null })
        continue
      }
      const same = kept !== undefined && JSON.stringify(kept.value) === json
      const value = same ? kept.value : (JSON.parse(json) as object)
      // It was deleted and put again.
      if (kept && kept.place !== place) this.#of(kind).delete(id)
      const last = this.#lastPlaces.get(kind) ?? 0n
      if (place > last) this.#lastPlaces.set(kind, place)
      else if (kept?.place !== place) unordered.add(kind)
      this.#of(kind).set(id, { value, version, place })
      if (!same) changes.push({ kind, id, value })
    }
    // Rows come in the order of their versions: of two that were added, the first may have been changed last.
    for (const kind of unordered) this.#sort(kind)
    return changes
  }

  /** Brings a kind into the order of its places, which it nearly is in. What has none yet stays behind. */
  #sort(kind: string): void {
    const all = [...this.#of(kind)]
    const sorted = all.toSorted(([, { place: one }], [, { place: other }]) =>
      one === other ? 0 : other === 0n || (one !== 0n && one < other) ? -1 : 1
    )
    if (sorted.some((entry, i) => entry !== all[i])) this.#kinds.set(kind, new Map(sorted))
  }

  /** Takes all documents in the order of their lists, maybe an earlier state. Returns what is new here. */
  replace(rows: readonly DocumentRow[], head: Head): DocumentChange[] {
    const before = this.#kinds
    this.#kinds = new Map()
    this.#left.clear()
    this.#seen = head
    const changes: DocumentChange[] = []
    for (const { kind, id, value: json, version, place } of rows) {
      const kept = before.get(kind)?.get(id)
      before.get(kind)?.delete(id)
      const same = kept !== undefined && JSON.stringify(kept.value) === json
      const value = same ? kept.value : (JSON.parse(json!) as object)
      this.#of(kind).set(id, { value, version, place })
      this.#lastPlaces.set(kind, place)
      if (!same) changes.push({ kind, id, value })
    }
    for (const [kind, gone] of before) for (const id of gone.keys()) changes.push({ kind, id, value: null })
    return changes
  }

  #of(kind: string): Map<string, Kept> {
    let documents = this.#kinds.get(kind)
    if (!documents) this.#kinds.set(kind, (documents = new Map()))
    return documents
  }
}
