// Which of the batches of the last minutes are sent again, and when it is known that some are missing.
import t from 'tap'
import { Queue } from '../../../../../../core/store/cluster/money/sending/operations.ts'
import type { End } from '../../../../../../core/store/cluster/money/sending/operations.ts'
import { Recent } from '../../../../../../core/store/cluster/money/sending/recent.ts'

function work(...names: string[]): Queue {
  const queue = new Queue()
  for (const requestId of names) queue.ends.push({ requestId, logged: true } as End)
  return queue
}

const names = (queues: readonly Queue[]): string[] => queues.map(({ ends }) => ends.map((end) => end.requestId).join())

t.test('what is behind a standing is given out, once', async (t) => {
  const recent = new Recent()
  for (const [epoch, batch, name] of [
    [1, 8, 'a'],
    [1, 9, 'b'],
    [2, 1, 'c'],
    [2, 3, 'd']
  ] as const)
    recent.keep({ epoch, batch }, work(name), 0)
  recent.keep({ epoch: 2, batch: 4 }, work(), 0)
  const { lost, whole } = recent.take({ epoch: 1, batch: 8 })
  t.same(names(lost), ['b', 'c', 'd'])
  t.equal(whole, true)
  t.equal(lost[0]!.ends[0]!.logged, false, 'no log has it any more')
  t.same(recent.take({ epoch: 0, batch: 0 }), { lost: [], whole: true })
})

t.test('only the last minutes are kept, and only so many', async (t) => {
  const recent = new Recent()
  recent.keep({ epoch: 1, batch: 1 }, work('a'), 0)
  recent.keep({ epoch: 1, batch: 2 }, work('b'), 60_000)
  recent.keep({ epoch: 1, batch: 3 }, work('c'), 150_000)
  t.same(names(recent.take({ epoch: 1, batch: 1 }).lost), ['b', 'c'])
  recent.keep({ epoch: 1, batch: 1 }, work('a'), 0)
  recent.keep({ epoch: 1, batch: 2 }, work('b'), 150_000)
  const { lost, whole } = recent.take({ epoch: 0, batch: 0 })
  t.same([names(lost), whole], [['b'], false])
  const many = Array.from({ length: 30_000 }, (_, i) => String(i))
  recent.keep({ epoch: 1, batch: 1 }, work(...many), 0)
  recent.keep({ epoch: 1, batch: 2 }, work(...many), 0)
  t.equal(recent.take({ epoch: 0, batch: 0 }).lost.length, 1)
})
