// Builds the limiter of many nodes from the options of the configuration.
import type { Logger } from '../../../telling/log.ts'
import { placeOf } from '../redis/address.ts'
import { loadPackage } from '../redis/package.ts'
import { SharedLimits } from './limits.ts'
import type { SharedLimitsOptions } from './limits.ts'
import type { RedisOptions } from './options.ts'
import type { OnUnavailable } from './stand-in.ts'

/** How long a slot is kept for a node that says nothing, in milliseconds. */
const slotLease = 5000

/**
 * Begins to connect, and returns at once: a gateway starts without Redis as it goes on without it. The caller closes
 * the limiter. `liveNodes`: how many nodes there are by what others know, asked when Redis is gone.
 * @throws Error when a URL cannot be read, or a cluster needs the package that is not installed
 */
export async function openSharedLimits(
  { url, sentinels, cluster, ca, prefix, command_timeout, connect_timeout }: RedisOptions,
  onUnavailable: OnUnavailable,
  log: Logger,
  { liveNodes = () => 1, ...rest }: Partial<Pick<SharedLimitsOptions, 'liveNodes' | 'node' | 'onSlots'>> = {}
): Promise<SharedLimits> {
  const place = placeOf({ url, sentinels, cluster, ca })
  if (place.cluster) await loadPackage()
  const times = { command: command_timeout, connect: connect_timeout }
  return new SharedLimits({ place, times, prefix, lease: slotLease, onUnavailable, liveNodes, ...rest }, log)
}
