// Keys as callers are made of them, wherever they are declared.
import type { Rights } from '../catalogue/caller.ts'

/** A key of the file or of the store, as far as a caller is made of it. */
export interface Key extends Rights {
  readonly name: string
  readonly tenant: string
  readonly project?: string | undefined
  readonly member?: string | undefined
  /** Set for a key of the store. */
  readonly stored?: true
}

/** A secret of a key. */
export interface Held {
  readonly sha256: Buffer
  /** A function, because reading the settings of all keys would slow down the start. */
  key(): Key
  /** Unix milliseconds; refused from then on. Undefined for as long as the key is valid. */
  readonly until: number | undefined
}
