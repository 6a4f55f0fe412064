// A plugin by which a request ends the worker that serves it. Its header `x-bomb` names a hook and a way: `exit`,
// `fault`, `hang`, `late N`, where the thread stands still for N milliseconds before, or `steps N`, where it ends N
// steps later, whichever request they are of. A step is what others see of a thread at once: a lock that is taken or
// freed, an entry of the undo row, a piece of a record.
import { isMainThread } from 'node:worker_threads'
import { definePlugin } from '../../../core/contract/contract.ts'
import type { Exchange } from '../../../core/contract/contract.ts'
import { Seat } from '../../../core/store/shared/arena/seat.ts'

/** How many steps are left; 0 while nobody counts them. */
let left = 0

function step(): void {
  if (left > 0 && --left === 0) process.exit(9)
}

function countSteps(): void {
  const atomics = Atomics as unknown as Record<string, (...args: unknown[]) => unknown>
  for (const name of ['compareExchange', 'exchange', 'store', 'add', 'notify']) {
    const act = atomics[name]!
    atomics[name] = (...args) => {
      step()
      return act(...args)
    }
  }
  const { save, change } = Seat.prototype
  Seat.prototype.save = function (unit, length) {
    step()
    save.call(this, unit, length)
    step()
  }
  Seat.prototype.change = function <T>(this: Seat, locks: readonly number[], work: () => T): T {
    return change.call(this, locks, () => {
      const made = work()
      step()
      return made
    }) as T
  }
}

/** The thread does nothing for so many milliseconds, or for ever. To others that is like a loop, and it is cheaper. */
function stand(ms?: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

const ways: Readonly<Record<string, (count: number) => void>> = {
  exit: () => process.exit(7),
  fault: () =>
    void setImmediate(() => {
      throw new Error('a fault that nothing caught')
    }),
  hang: () => void stand(),
  late: (ms) => {
    stand(ms)
    process.exit(7)
  },
  steps: (count) => void (left = count)
}

function at(hook: string, exchange: Exchange): void {
  const [when, how, count] = String(exchange.request.headers['x-bomb']).split(' ')
  if (when === hook) ways[how!]!(Number(count))
}

if (!isMainThread) countSteps()

export default definePlugin({
  name: 'bomb',
  summary: 'Ends the worker.',
  options: {},
  setup: () => ({
    onRequest: (exchange) => at('request', exchange),
    onAttempt: (exchange) => at('attempt', exchange),
    onResponse: (exchange) => {
      at('response', exchange)
      // Sessions are refused where a stage wants to see what comes.
      if (exchange.request.headers['x-bomb'] === undefined) return undefined
      return { observe: () => at('message', exchange), end: () => at('end', exchange) }
    },
    onSettled: (exchange) => at('settled', exchange)
  })
})
