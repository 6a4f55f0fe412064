// Where things are kept that clients know by an id and an upstream has: the interface.
import type { Owner } from './owner.ts'

/** What leads from an id to the upstream that knows it. */
export interface Route extends Owner {
  /** As the upstream gave it. */
  readonly id: string
  /** What it is the id of. */
  readonly kind: 'response' | 'item' | 'other'
  /**
   * The channel's name when it was made, and a fingerprint of the account there: the channel may have another name
   * since.
   */
  readonly channel: string
  readonly account: string
  /** The public name of the model. */
  readonly model: string
  /** What a response was counted with, input and output; null where nobody said, or it is none. */
  readonly tokens?: number | null
}

/** The routes of all tenants. They go when they are removed, and when they are old. */
export interface Routes {
  /**
   * Undefined when there is none, it is another's, or it is too old.
   * @throws GatewayError `billing_unavailable` when the store cannot be read
   */
  find(owner: Owner, id: string): Promise<Route | undefined>
  /**
   * Resolves when they are on disk; found from then on, and in one batch with what else is queued in the same turn of
   * the loop. Rejects with `billing_unavailable` when the disk has failed for some seconds.
   */
  keep(routes: readonly Route[]): Promise<void>
  /** Resolves when it is gone from the disk. */
  remove(owner: Owner, id: string): Promise<void>
}
