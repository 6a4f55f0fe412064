// Client secrets: keys for somebody else's hands, such as a page in a browser. Few minutes old, for one model, on
// behalf of a key.
import type { ClientSecret } from '../catalogue/caller.ts'

/** A client secret as it is kept: its text only as SHA-256. */
export interface KeptSecret extends ClientSecret {
  readonly sha256: Buffer
  /** The one model that it may use. */
  readonly model: string
  /** Unix milliseconds; no session begins with it from then on. */
  readonly expires: number
}

/** Secrets that have not expired. They do not outlive the process. */
export interface Secrets {
  /** False when the key that it stands for has as many as it may have. */
  keep(secret: KeptSecret): boolean
  /** Expired ones are not found. */
  find(sha256: Buffer): KeptSecret | undefined
}
