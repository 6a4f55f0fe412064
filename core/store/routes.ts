// The interface of the routes: which upstream has the thing that a client names by an id.
import type { Owner } from './owner.ts'

/** Which upstream knows an id. */
export interface Route extends Owner {
  /** The id that the upstream gave. */
  readonly id: string
  /** What the id names. */
  readonly kind: 'response' | 'item' | 'other'
  /**
   * The name that the channel had when the route was made, and a fingerprint of the account there, because the channel
   * may have been renamed since.
   */
  readonly channel: string
  readonly account: string
  /** The public name of the model. */
  readonly model: string
  /** The input and output tokens of a response; null when they are not known, and for other things. */
  readonly tokens?: number | null
}

/** The routes of all tenants. Each is kept until it is removed or too old. */
export interface Routes {
  /**
   * Finds a route; undefined when the owner has none of this id, or it is too old.
   * @throws GatewayError `billing_unavailable` when the store cannot be read
   */
  find(owner: Owner, id: string): Promise<Route | undefined>
  /**
   * Keeps routes. They are found at once, and are in one batch with everything else queued in the same tick of the
   * event loop. Resolves when they are on disk; rejects with `billing_unavailable` when the disk has failed for some
   * seconds.
   */
  put(routes: readonly Route[]): Promise<void>
  /** Removes a route. Resolves when it is gone from the disk. */
  remove(owner: Owner, id: string): Promise<void>
}
