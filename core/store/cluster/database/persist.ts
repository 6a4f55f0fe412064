// Asks again for what may be done twice.
import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseFault } from './fault.ts'

/** For how long, in milliseconds. */
const usualTime = 5000

/**
 * Runs something, again after a lost answer or a conflict, until it succeeds or the time is over. Doing it twice must
 * be like doing it once.
 * @throws what it throws at last
 */
export async function persist<T>(run: () => Promise<T>, within = usualTime): Promise<T> {
  for (const until = performance.now() + within; ;) {
    try {
      return await run()
    } catch (error) {
      const again = error instanceof DatabaseFault && (error.unknown || error.conflict)
      if (!again || performance.now() > until) throw error
      await sleep(Math.random() * 50)
    }
  }
}
