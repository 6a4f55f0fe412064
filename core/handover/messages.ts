// What two processes of a gateway say to each other when one takes the place of the other.
import type { Settings } from '../catalogue/settings.ts'
import { shownPlace } from '../catalogue/store-place.ts'
import type { Hold } from '../store/embedded/balance/hold.ts'
import type { KeptHold } from '../store/embedded/book/book.ts'
import { migrations } from '../store/embedded/database/schema.ts'
import { canonicalPath } from '../store/embedded/files/lock.ts'
import type { KeptClaim } from '../store/memory/claims.ts'
import type { KeptLimits } from '../store/memory/limits.ts'

/**
 * The version of everything that is said, which both processes must have. It changes with each change of a message, or
 * of what a function of the {@link Deputy} takes.
 */
export const protocol = 9

/** In the environment of a process that takes the place of its parent: which generation it is. */
export const generationVariable = 'SLUICE_GENERATION'

/** What a process and its configuration have in common with the process whose place it takes. */
export interface Place {
  readonly protocol: number
  /** The canonical path of the store, or how a shared one is shown. */
  readonly store: string
  readonly listen: string
  readonly admin: string | null
  /** The newest migration of a SQLite file that the program knows. What the old process has may not be newer. */
  readonly schema: number
}

/** What a process that takes the place of this one must have in common with it. */
export function placeOf({ store, listen, admin }: Settings): Place {
  const addressOf = ({ host, port }: { host: string; port: number }): string => `${host}:${port}`
  return {
    protocol: protocol,
    store: store.sqlite === undefined ? shownPlace(store) : canonicalPath(store.sqlite),
    listen: addressOf(listen),
    admin: admin ? addressOf(admin) : null,
    schema: store.sqlite === undefined ? 0 : migrations.length
  }
}

/** The number of the thread that has the store. */
export const mainThread = 0

/** What one thread of a process goes on with, which the others do not know of. */
export interface Part {
  /** Its number in the process: 0 is the main thread. */
  readonly thread: number
  /** The holds that it will end itself, by messages. */
  readonly holds: readonly KeptHold[]
  /** The ids of the exchanges that it goes on with. */
  readonly running: readonly string[]
  /** The names of its leases among the limits, and of its claims. */
  readonly leases: readonly string[]
  readonly claims: readonly string[]
}

/** What a process leaves to the next one, besides the store: what is only in its memory. */
export interface Estate {
  readonly parts: readonly Part[]
  readonly limits: KeptLimits
  readonly claims: readonly KeptClaim[]
  readonly shared: SharedLeft
}

/** What plugins share, by plugin and key. */
export type SharedLeft = readonly (readonly [place: string, left: unknown])[]

/** What the next process has to know of holds: each is charged by the model that it was sent to last. */
export function keptHolds(holds: readonly Hold[]): readonly KeptHold[] {
  return holds.map(({ requestId, part, sale: { costs } }) => ({ requestId, part, costs }))
}

/** All holds of an estate. */
export function keptOf({ parts }: Pick<Estate, 'parts'>): readonly KeptHold[] {
  return parts.flatMap(({ holds }) => holds)
}

/** What the old process sends. */
export type FromOld = { kind: 'place'; place: Place } | { kind: 'estate'; estate: Estate }

/** What the new process sends: that it has loaded everything, that it has the store and serves, or why it cannot. */
export type FromNew =
  | { kind: 'loaded' }
  /** `path` leads to the socket on which it takes what still comes on connections of the old process. */
  | { kind: 'serving'; path: string }
  | { kind: 'failed'; reason: string }
