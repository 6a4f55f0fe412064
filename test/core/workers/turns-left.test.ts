// Turns of background work that are left before they come, as the line to the supervisor has them.
import { MessageChannel } from 'node:worker_threads'
import t from 'tap'
import type { Test } from 'tap'
import { TurnPool } from '../../../core/exchange/background/pool.ts'
import type { Turn, Turns } from '../../../core/exchange/background/pool.ts'
import { Line } from '../../../core/store/distant/line.ts'
import type { Port } from '../../../core/store/distant/line.ts'
import { threadPort } from '../../../core/store/distant/thread-port.ts'
import { turnsThere, TurnsOfWorker } from '../../../core/workers/turns.ts'
import { leastUsed } from '../../kit/turns.ts'

t.setTimeout(60_000)

/** A worker's turns, where one may go on at a time. */
function turnsOfWorker(t: Test): Turns {
  const { port1, port2 } = new MessageChannel()
  const line = new Line(threadPort(port1))
  new Line(threadPort(port2)).serve(new TurnsOfWorker(new TurnPool(() => ({ running: 1, waiting: 100 }))).served)
  port1.ref()
  t.teardown(() => port1.close())
  return turnsThere(line)
}

t.test('a turn that is left before it came is waited for no more', async (t) => {
  const turns = turnsOfWorker(t)
  const [first, left, last] = [
    await turns.enter('acme'),
    await turns.enter('acme'),
    await turns.enter('acme')
  ] as Turn[]
  await first!.comes
  left!.leave()
  await left!.comes
  const came: string[] = []
  const next = last!.comes.then(() => came.push('last'))
  first!.leave()
  await next
  t.same(came, ['last'])
})

t.test('an answer costs no more where thousands of calls wait for theirs', async (t) => {
  let take!: (message: unknown) => void
  const port: Port = { send() {}, on: (event, taker) => void (event === 'message' && (take = taker)) }
  const line = new Line(port)
  const waiting = 20_000
  for (let call = 0; call < waiting; call++) {
    void line.ask('turn', call)
    await new Promise(setImmediate)
  }
  let last = waiting
  const used = leastUsed(50, () => {
    for (let answers = 0; answers < 1000; answers++) take({ replies: [{ id: last-- }] })
  })
  t.ok(used < 50, `a thousand answers took ${used} ms`)
})
