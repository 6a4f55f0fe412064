// Opens the store that the process before has just closed, also when a command has taken it in between.
import { setTimeout as sleep } from 'node:timers/promises'
import { StoreInUse } from '../store/embedded/files/lock.ts'

/** How long a command may have the store in between, and how often is tried, in milliseconds. */
const patienceMs = 10_000
const pauseMs = 50

/**
 * Calls `open` until nobody else has the store. Between two processes nobody has it for a moment, in which a command of
 * an operator may begin to read it.
 * @throws StoreInUse when it is still in use after `forMs`, and what `open` throws for other reasons
 */
export async function whenFree<T>(open: () => Promise<T>, forMs = patienceMs): Promise<T> {
  const until = performance.now() + forMs
  for (;;) {
    try {
      return await open()
    } catch (error) {
      if (!(error instanceof StoreInUse) || performance.now() > until) throw error
      await sleep(pauseMs)
    }
  }
}
