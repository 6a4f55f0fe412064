// What the admin listener works with: one type for all of its routes.
import type { Generations, Shared } from '../generation.ts'
import type { Logger } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import type { Reloader } from '../reload.ts'
import type { Settings } from '../settings.ts'
import type { Store } from '../store/store.ts'

/** The services of a gateway that operators look at and act on. */
export interface AdminParts {
  settings: NonNullable<Settings['admin']>
  store: Store
  metrics: Metrics
  generations: Generations
  shared: Shared
  reloader: Reloader
  log: Logger
  /** The gateway is stopping: new requests are refused. */
  draining(): boolean
}
