// The interface of the client secrets: credentials that a key's owner gives to others, such as a page in a browser.
// Each is valid for minutes and for one model, on behalf of a key.
import type { ClientSecret } from '../catalogue/caller.ts'
import type { Awaitable } from '../awaitable.ts'

/** A client secret as kept. Only the SHA-256 of its text is known. */
export interface KeptSecret extends ClientSecret {
  readonly sha256: Buffer
  /** The one model that it may use. */
  readonly model: string
  /** Unix milliseconds. No session may begin with it from then on. */
  readonly expires: number
}

/** The secrets that have not expired. They do not outlive the process. */
export interface Secrets {
  /** Keeps a secret, or replaces the one with its SHA-256. Returns false when its key has as many as it may. */
  put(secret: KeptSecret): Awaitable<boolean>
  /** Finds a secret that has not expired. */
  find(sha256: Buffer): Awaitable<KeptSecret | undefined>
}
