// The interface of the vault: stored values, such as responses, that the gateway keeps for clients where an upstream
// does not. Each belongs to one owner, and nobody reads it without the key; their age and size are bounded.
import type { Owner } from './owner.ts'
import type { Work } from './works.ts'

/** What is stored unencrypted beside a value. */
export interface Label extends Owner {
  readonly id: string
  readonly model: string
  readonly requestId: string
}

/** What is known of a value without decrypting it. */
export interface Outline {
  /** How many bytes and tokens a request takes in when it continues from the value. */
  readonly length: number
  readonly tokens: number
  /** The parts of the value that have ids of their own, with the bytes of each. */
  readonly parts: Readonly<Record<string, number>>
}

/** A value that was found but not decrypted yet. */
export interface Kept {
  readonly work: Work
  readonly outline: Outline
}

/** The kind of work that stands for a value. */
export const keptKind = 'kept'

/** The values of all tenants. */
export interface Vault {
  /** The most bytes that one conversation may have. */
  readonly largest: number
  /** How long a value is kept, in milliseconds. */
  readonly age: number
  /**
   * Keeps a value; resolves when it is on disk. To make room, the oldest values of its tenant, or of the tenant that
   * keeps most, are deleted.
   * @throws GatewayError `overloaded` when there is no room and nothing that can be deleted
   */
  put(label: Label, value: unknown, outline: Outline): Promise<void>
  /**
   * Keeps the value of work that the caller puts itself; the caller must include what this returns in the work.
   * Resolves when it is on disk.
   * @throws GatewayError `overloaded` when there is no room and nothing that can be deleted
   */
  fill(work: Work, value: unknown, outline: Outline): Promise<Required<Pick<Work, 'bytes' | 'details'>>>
  /** Finds a value without decrypting it; undefined when the owner has none of this id, or it is too old. */
  find(owner: Owner, id: string): Promise<Kept | undefined>
  /** Finds the value that contains a part; `length` is the bytes of the part. */
  findWhole(owner: Owner, part: string): Promise<{ id: string; length: number } | undefined>
  /** The value that a request made which was under way between two times; undefined when there is none. */
  ofRequest(owner: Owner, requestId: string, from: number, to: number): Promise<Kept | undefined>
  /** Decrypts a value; undefined when it is gone, or was encrypted with another key. */
  read(kept: Kept): Promise<unknown>
  /** Deletes a value. Resolves when it is gone from the disk. */
  forget(kept: Kept): Promise<void>
}
