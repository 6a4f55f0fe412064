// The limiter of a node whose limits Redis keeps.
import type { Test } from 'tap'
import { openSharedLimits } from '../../core/store/cluster/limits/open.ts'
import type { SharedLimits, SharedLimitsOptions } from '../../core/store/cluster/limits/limits.ts'
import type { RedisOptions } from '../../core/store/cluster/limits/options.ts'
import type { OnUnavailable } from '../../core/store/cluster/limits/stand-in.ts'
import { silentLog } from '../../core/telling/log.ts'
import { eventually } from './probe.ts'

/** Options as the configuration fills them in, but that a busy machine has time to answer. */
export const redisOptions: RedisOptions = {
  url: '',
  cluster: false,
  prefix: 'sluice',
  command_timeout: 20_000,
  connect_timeout: 5000
}

/** The limiter of one node, when Redis keeps its limits. It is closed with the test. */
export async function sharedLimits(
  t: Pick<Test, 'teardown'>,
  options: Partial<RedisOptions>,
  onUnavailable: OnUnavailable = 'share',
  node: Pick<Partial<SharedLimitsOptions>, 'node' | 'onSlots'> = {}
): Promise<SharedLimits> {
  const limits = await openSharedLimits({ ...redisOptions, ...options }, onUnavailable, silentLog, node)
  t.teardown(() => limits.close())
  await eventually(() => limits.health.usable, 20_000)
  return limits
}
