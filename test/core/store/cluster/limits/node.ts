// One node, as a process of its own: it does what its parent says, and tells what became of it.
import type { LimitSet } from '../../../../../core/catalogue/caller.ts'
import { openSharedLimits } from '../../../../../core/store/cluster/limits/open.ts'
import type { Lease } from '../../../../../core/store/limits.ts'
import { silentLog } from '../../../../../core/telling/log.ts'
import { redisOptions } from '../../../../kit/limits.ts'

/** What a node is told to do: as many decisions as `count`, some at a time. What is admitted is held. */
export interface Task {
  readonly sets: readonly LimitSet[]
  readonly tokens: number
  readonly count: number
}

/** How many decisions are under way at one time. */
const atOnce = 50

const limits = await openSharedLimits({ ...redisOptions, url: process.argv[2]! }, 'refuse', silentLog)
const held: Lease[] = []

async function work({ sets, tokens, count }: Task): Promise<number> {
  let begun = 0
  let admitted = 0
  const one = async (): Promise<void> => {
    while (begun++ < count) {
      const decision = await limits.decide(sets, tokens)
      if (!decision.admitted) continue
      admitted++
      held.push(decision.lease)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, one))
  return admitted
}

process.on('message', (task: Task | 'release') => {
  if (task === 'release') {
    for (const lease of held.splice(0)) lease.release(undefined)
    process.send!(0)
  } else void work(task).then((admitted) => process.send!(admitted))
})
const ready = setInterval(() => {
  if (!limits.health.usable) return
  clearInterval(ready)
  process.send!('ready')
}, 5)
