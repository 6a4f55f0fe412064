// The secrets of the keys of the store by their digests: one index for all configurations, as reading a hundred
// thousand keys holds the event loop up.
import type { DocumentChange, Documents } from '../store/documents.ts'
import type { Held, Key } from './held.ts'
import { storedRights } from './levels.ts'
import { keyDocuments } from './stored.ts'
import type { StoredKey } from './stored.ts'

const made = new WeakMap<Documents, StoredKeys>()

/** Follows the documents for as long as there are any. */
export class StoredKeys {
  readonly #documents: Documents
  /** The secrets of keys that are not revoked, by the SHA-256 as latin1. */
  readonly #held = new Map<string, Held>()
  /** The same texts by the name of the key. */
  readonly #digests = new Map<string, string[]>()
  /** The names of revoked keys, by their secrets as in `#held`. */
  readonly #revoked = new Map<string, string>()

  private constructor(documents: Documents) {
    this.#documents = documents
    for (const key of documents.all(keyDocuments)) this.#hold(key)
    documents.watch((changes) => this.#follow(changes))
  }

  /** The index of these documents, made when it is first asked for. */
  static of(documents: Documents): StoredKeys {
    let keys = made.get(documents)
    if (!keys) made.set(documents, (keys = new StoredKeys(documents)))
    return keys
  }

  /** `digest`: a SHA-256 as latin1. */
  find(digest: string): Held | undefined {
    return this.#held.get(digest)
  }

  /** The name of a key with this secret that was revoked; it may have been given back since. */
  revoked(digest: string): string | undefined {
    return this.#revoked.get(digest)
  }

  #follow(changes: readonly DocumentChange[]): void {
    for (const { kind, id } of changes) {
      if (kind !== keyDocuments.name) continue
      for (const text of this.#digests.get(id) ?? []) this.#held.delete(text)
      this.#digests.delete(id)
      const key = this.#documents.find(keyDocuments, id)
      if (key) this.#hold(key)
    }
  }

  #hold(stored: StoredKey): void {
    const { name, secrets, revoked } = stored
    if (revoked !== undefined) {
      for (const { sha256 } of secrets) this.#revoked.set(Buffer.from(sha256, 'hex').toString('latin1'), name)
      return
    }
    let read: Key | undefined
    const key = (): Key => (read ??= keyOf(stored))
    const texts = secrets.map(({ sha256: hex, until }) => {
      const sha256 = Buffer.from(hex, 'hex')
      const text = sha256.toString('latin1')
      this.#held.set(text, { sha256, key, until })
      return text
    })
    this.#digests.set(name, texts)
  }
}

function keyOf({ name, tenant, project, member, settings }: StoredKey): Key {
  return { ...storedRights(settings, 'key'), name, tenant, project, member, stored: true }
}
