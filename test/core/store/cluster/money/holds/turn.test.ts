// What is queued in one turn of the event loop: waited for by request, whatever becomes of others.
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { Turn } from '../../../../../../core/store/cluster/money/holds/turn.ts'

t.test('what a request has queued is waited for, before the call and after it, and nothing of others', async (t) => {
  const turn = new Turn()
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  void turn.add('one', first.promise)
  void turn.add('another', Promise.reject(new Error('that of another was not written')))
  let done = false
  const durable = turn.durable('one').then(() => (done = true))
  void turn.add('one', second.promise)
  first.resolve()
  await nextTurn()
  await nextTurn()
  t.notOk(done)
  second.resolve()
  await durable
})

t.test('it fails as what the request has queued does, and knows nothing of other turns', async (t) => {
  const turn = new Turn()
  void turn.add('one', Promise.reject(new Error('not written')))
  await t.rejects(turn.durable('one'), { message: 'not written' })
  await nextTurn()
  await turn.durable('one')
})
