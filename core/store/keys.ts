// The interface of the key store, for keys issued at run time. Keys declared in gateway.yaml are never in it.
import type { Budget, KeyLimits, Tags } from '../catalogue/caller.ts'

/** A key as stored. Of its secret only the SHA-256 is stored. */
export interface StoredKey {
  /** Unique among the keys of the store and of gateway.yaml. */
  name: string
  sha256: Buffer
  /** First and last characters of the secret, for people to recognise it: `sk-ab12…9f3c`. */
  hint: string
  tenant: string
  project?: string | undefined
  member?: string | undefined
  models: readonly string[]
  endpoints: readonly string[]
  limits: KeyLimits
  budget?: Budget | undefined
  tags?: Tags | undefined
  /** Unix milliseconds. */
  expires?: number | undefined
  created: number
  revoked?: number | undefined
}

/**
 * The keys of the store. Reads are from memory and include every change at once; writes resolve when they are on disk.
 */
export interface KeyStore {
  /** All keys, including revoked ones. */
  all(): readonly StoredKey[]
  /** Finds a key, revoked ones included, by the hash of a secret. */
  find(sha256: Buffer): StoredKey | undefined
  /**
   * Stores a key.
   * @throws Error when the name or the secret exists already
   */
  create(key: StoredKey): Promise<void>
  /** Revokes a key from the next request on. Resolves to false when there is no such key, or it is already revoked. */
  revoke(name: string): Promise<boolean>
}
