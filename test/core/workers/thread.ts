// A worker for tests of the crew: it has a number that changes, and does what a test wants of it.
import { isMainThread } from 'node:worker_threads'
import { Metrics } from '../../../core/telling/metrics.ts'
import { Supervisor } from '../../../core/workers/supervisor.ts'
import { Arena } from '../../../core/store/shared/arena/arena.ts'
import { Seat } from '../../../core/store/shared/arena/seat.ts'

/** What it is started with. */
export interface Order {
  readonly value: number
  readonly arena: SharedArrayBuffer
  readonly seat: number
  /** Why it cannot start, by the number of the worker. */
  readonly failing?: Readonly<Record<number, string>>
  /** How long it stands still before it serves, in milliseconds. */
  readonly delay?: number
}

/** A change: the next value, and what becomes of workers that are to prepare it, by their numbers. */
export interface Change {
  readonly value: number
  readonly at?: Readonly<Record<number, 'refuse' | 'end' | 'stumble'>>
}

async function work(): Promise<void> {
  const supervisor = await Supervisor.find<Order>()
  const { number, order, log, line } = supervisor
  const seat = new Seat(new Arena(order.arena), order.seat)
  const beating = setInterval(() => seat.beat(), 50)
  const why = order.failing?.[number]
  if (why !== undefined) {
    clearInterval(beating)
    return supervisor.fail(new Error(why))
  }
  if (order.delay !== undefined) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, order.delay)
  const metrics = new Metrics()
  const served = metrics.counter({ name: 'served_total', help: 'Served.' })
  const running = metrics.gauge({ name: 'running', help: 'Running.' })
  let { value } = order
  let next: Change | undefined
  let dropped = 0
  supervisor.serve(
    {
      async prepare(change: Change) {
        const fate = change.at?.[number]
        if (fate === 'refuse') throw new Error(`worker ${number} has no room for ${change.value}`)
        if (fate === 'end') process.exit(3)
        next = change
      },
      swap() {
        if (next!.at?.[number] === 'stumble') throw new Error('a fault')
        value = next!.value
        next = undefined
      },
      drop() {
        if (next) dropped++
        next = undefined
      },
      leave: async (word: string) => `${word} ${number}`,
      value: () => value,
      dropped: () => dropped,
      serve(times: number) {
        served.add({}, times)
        running.set({}, times)
        line.tell('report', metrics.own)
      },
      metrics: () => metrics.own,
      exit: (code: number) => process.exit(code),
      fault: () =>
        void setImmediate(() => {
          throw new Error('a fault that nothing caught')
        }),
      // To others it is like a loop, and it takes no CPU time.
      hang: () => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0),
      tell(message: string) {
        log.child({ part: 'test' }).warn(message, { when: 7, what: { deep: 1n } })
        log.info('cannot be sent', { how: () => 1 })
      }
    },
    { number, value }
  )
}

if (!isMainThread) void work()
