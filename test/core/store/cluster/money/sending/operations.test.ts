// What waits to be sent: how much of it there may be, and in which order it goes.
import t from 'tap'
import type { Hold } from '../../../../../../core/store/embedded/balance/hold.ts'
import { Queue } from '../../../../../../core/store/cluster/money/sending/operations.ts'
import type { Admission, End } from '../../../../../../core/store/cluster/money/sending/operations.ts'
import { recordOf } from '../../../../../../core/store/cluster/money/sending/outage.ts'

const holdOf = (requestId: string): Hold => ({ requestId, part: '' }) as Hold
const priceOf = (i: number): { version: string; perMillion: {} } => ({ version: `p:${i}`, perMillion: {} })

t.test('progress of one hold is one thing, however long nobody takes it', async (t) => {
  const queue = new Queue()
  const hold = holdOf('one')
  const told: string[] = []
  const waiter = (name: string): { done(): void; failed(error: Error): void } => ({
    done: () => void told.push(name),
    failed: ({ message }) => void told.push(`${name} ${message}`)
  })
  for (let i = 0; i < 1000; i++) queue.touch(hold, undefined, undefined)
  queue.touch(hold, undefined, waiter('first'))
  t.equal(queue.size, 1)
  const touch = queue.touches.get(hold)!
  const left = touch.leave()
  touch.logged = true
  queue.touch(hold, 7, waiter('second'))
  t.match(touch, { logged: false, urgent: true, until: 7 })
  left.done()
  t.same(told, ['first'], 'only what was in the log is told')
  queue.touch(hold, undefined, waiter('third'))
  const failing = touch.leave()
  touch.failed(new Error('away'))
  failing.done()
  touch.done()
  t.same(told, ['first', 'second away', 'third away'])
})

t.test('a hold that is admitted after others were told of an outage does not hear of that outage', async (t) => {
  const queue = new Queue()
  const during = queue.gathering
  during.add()
  during.failed(new Error('away'))
  await t.rejects(during.durable, { message: 'away' })
  const after = queue.gathering
  after.add()
  t.equal(queue.gathering, after, 'all who come from then on are together')
  queue.take(256)
  during.written()
  after.written()
  await t.resolves(after.durable)
})

t.test('all prices go before what was made at them', async (t) => {
  const queue = new Queue()
  queue.prices.push(...Array.from({ length: 5 }, (_, i) => priceOf(i)))
  queue.touch(holdOf('one'), undefined, undefined)
  queue.ends.push({ requestId: 'two' } as End)
  t.same(
    [queue.take(3), queue.take(3), queue.take(3)].map(({ prices, size }) => [prices.length, size]),
    [
      [3, 3],
      [2, 4],
      [0, 0]
    ]
  )
})

t.test('who waits for a decision goes first, and is admitted as soon as slices carry it', async (t) => {
  const queue = new Queue()
  let carried = 0
  const one = (requestId: string, again?: () => boolean): Admission =>
    ({ hold: holdOf(requestId), taken: [], ...(again && { again }) }) as unknown as Admission
  const names = ({ admissions }: Queue): string[] => admissions.map(({ hold }) => hold.requestId)
  for (let i = 0; i < 100; i++) queue.admissions.push(one(`told ${i}`))
  for (let i = 0; i < 4; i++) queue.decisions.push(one(`asked ${i}`, () => carried++ < 2))
  queue.retry()
  t.equal(carried, 4)
  t.same(names(queue.take(256, 3)), ['asked 2', 'asked 3', 'told 0', 'told 1', 'told 2', 'told 3'])
  t.equal(queue.take(256, 40).size, 40, 'what was told only fills a batch up')
  t.equal(queue.take(256).size, 56)
  t.equal(queue.size, 0)
})

t.test('halves have everything once, in its order', async (t) => {
  const queue = new Queue()
  queue.prices.push(priceOf(1), priceOf(2))
  for (const requestId of ['a', 'b', 'c']) queue.ends.push({ requestId } as End)
  queue.touch(holdOf('d'), undefined, undefined)
  const names = ({ prices, ends, touches }: Queue): string[] => [
    ...prices.map(({ version }) => version),
    ...ends.map(({ requestId }) => requestId),
    ...[...touches.keys()].map(({ requestId }) => requestId)
  ]
  const halves = queue.halves()
  t.same(halves.map(names), [
    ['p:1', 'p:2', 'a'],
    ['b', 'c', 'd']
  ])
  t.same(names(Queue.of(halves)), names(queue))
})

t.test('a log has of a correction the end that it corrects, which is compared with the journal again', async (t) => {
  const late = { entries: ['the end'] }
  const ends = [{ entries: ['the correction'], corrects: late }, { entries: ['another end'] }] as unknown as End[]
  t.same(recordOf(ends, [], () => undefined).entries, ['the end', 'another end'])
})
