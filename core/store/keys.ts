// Keys issued at run time: the interface of the key store. Keys declared in gateway.yaml never enter it.
import type { Budget, KeyLimits } from '../catalogue/caller.ts'

/** A key as stored: its secret only as SHA-256. */
export interface StoredKey {
  /** Unique over the store and gateway.yaml. */
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
  /** Unix milliseconds. */
  expires?: number | undefined
  created: number
  revoked?: number | undefined
}

/** Keys in the store. Reads come from memory and are current at once; writes resolve when they are on disk. */
export interface KeyStore {
  /** Revoked keys included. */
  all(): readonly StoredKey[]
  /** By the hash of a presented secret, revoked ones included. */
  find(sha256: Buffer): StoredKey | undefined
  /** Refuses a name that exists. */
  create(key: StoredKey): Promise<void>
  /** False when there is no such key or it is revoked already. Takes effect for the next request. */
  revoke(name: string): Promise<boolean>
}
