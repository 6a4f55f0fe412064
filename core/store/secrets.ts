// The interface of the client secrets: credentials that a key's owner gives to others, such as a page in a browser.
// Each is valid for minutes and for one model, on behalf of a key.
import type { Spent } from '../catalogue/caller.ts'
import type { Awaitable } from '../awaitable.ts'
import { GatewayError } from '../errors.ts'
import type { Nano } from '../money/money.ts'

/** How many client secrets that have not expired one key may have. */
export const mostSecrets = 1000
/** How long what a secret may spend is known after it expired, in milliseconds: longer than any session goes on. */
export const spentKept = 24 * 3_600_000

/** A client secret as kept. Only the SHA-256 of its text is known. */
export interface KeptSecret {
  readonly sha256: Buffer
  /** The SHA-256 of the key that made it. */
  readonly issuer: Buffer
  /** The one model that it may use. */
  readonly model: string
  /** Unix milliseconds. No session may begin with it from then on. */
  readonly expires: number
  /** The settings of a new session, as JSON; absent when there are none. */
  readonly settings?: string | undefined
  /** What all its sessions together may spend; absent when only the budgets of its key limit them. */
  readonly budget?: Nano | undefined
}

/** The secrets that have not expired, and what was spent with them. They outlive the process. */
export interface Secrets {
  /**
   * Keeps a secret, or replaces the one with its SHA-256. Resolves with false when its key has as many as it may.
   * @throws GatewayError rejects with `billing_unavailable`
   */
  put(secret: KeptSecret): Promise<boolean>
  /** Finds a secret that has not expired. */
  find(sha256: Buffer): Awaitable<KeptSecret | undefined>
  /** What was spent of the budget of a secret. Like the next two it is of a secret that has one. */
  spent(sha256: Buffer): Awaitable<Spent>
  /** See {@link Allowance.hold}. */
  hold(sha256: Buffer, name: string, amount: Nano): Awaitable<Spent | undefined>
  /** See {@link Allowance.end}. */
  end(sha256: Buffer, name: string, charged: Nano): void
}

/** The refusal of a turn whose secret is forgotten. */
export function forgotten(): GatewayError {
  return new GatewayError('quota_key_exceeded', 'What this client secret may spend is not known any more.')
}
