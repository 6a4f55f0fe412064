// What a worker prepares for a change is used once, or disposed of, whatever ends late.
import t from 'tap'
import { Prepared } from '../../../core/workers/prepared.ts'

function prepared(): { change: Prepared<string>; disposed: string[] } {
  const disposed: string[] = []
  return { change: new Prepared(async (made: string) => void disposed.push(made)), disposed }
}

const givenUp = { message: 'the change was given up while it was prepared' }

t.test('what is prepared is taken once', async (t) => {
  const { change, disposed } = prepared()
  await change.prepare(async () => 'one')
  t.equal(change.take(), 'one')
  t.throws(() => change.take(), { message: 'no change was prepared' })
  await change.drop()
  t.same(disposed, [])
})

t.test('what ends after it was given up is disposed of, and is not taken for the next change', async (t) => {
  const { change, disposed } = prepared()
  const late = Promise.withResolvers<string>()
  const first = change.prepare(() => late.promise)
  await change.drop()
  await change.prepare(async () => 'two')
  late.resolve('one')
  await t.rejects(first, givenUp)
  t.same(disposed, ['one'])
  t.equal(change.take(), 'two')
})

t.test('a change in the place of another one disposes of that, prepared or not', async (t) => {
  const { change, disposed } = prepared()
  await change.prepare(async () => 'one')
  const late = Promise.withResolvers<string>()
  const second = change.prepare(() => late.promise)
  await change.prepare(async () => 'three')
  late.resolve('two')
  await t.rejects(second, givenUp)
  t.same(disposed, ['one', 'two'])
  t.equal(change.take(), 'three')
})
