// Work that goes on after its request, as the store keeps it: seen when it is on disk, found by its owner alone, and
// gone when it is forgotten.
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openStore } from '../../../core/store/embedded/store.ts'
import type { Store } from '../../../core/store/store.ts'
import { noon, work } from './embedded/sample.ts'

const owner = { tenant: 'acme', project: 'web' }

const done = { status: 'succeeded', ended: noon, expires: noon + 1000 } as const

function open(file: string, now = (): number => noon): Promise<Store> {
  return openStore({ file, durability: 'process', now })
}

t.test('what is open is there after a start, in its order; what has ended is found until it expires', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const first = await open(file)
  await Promise.all([
    first.works.put(work('one')),
    first.works.put(work('two', { created: noon + 1 })),
    first.works.put(work('three'))
  ])
  await first.works.put(work('three', done))
  await first.close()
  let now = noon
  const { works, ...second } = await open(file, () => now)
  t.same(
    works.open().map(({ id }) => id),
    ['one', 'two']
  )
  t.same([works.running, works.runningOf('acme'), works.runningOf('rival')], [2, 2, 0])
  t.match(await works.find(owner, 'three'), { status: 'succeeded' })
  now = noon + 1000
  t.equal(await works.find(owner, 'three'), undefined)
  t.match(await works.find(owner, 'one'), { status: 'queued' })
  t.same(
    (await works.expired(10)).map(({ id }) => id),
    ['three']
  )
  t.same(
    (await works.list({ ...owner, kind: 'video', after: undefined, limit: 10, newestFirst: true })).page.map(
      ({ id }) => id
    ),
    ['two', 'one']
  )
  await second.close()
})

t.test('a state is seen when it is on disk, and acted upon at once', async (t) => {
  const store = await open(join(t.testdir(), 'sluice.db'))
  const { works } = store
  await works.put(work('one'))
  const put = works.put(work('one', done))
  t.equal(works.current(owner, 'one'), undefined)
  t.match(await works.find(owner, 'one'), { status: 'queued' })
  await put
  t.match(await works.find(owner, 'one'), { status: 'succeeded' })
  await store.close()
})

t.test('progress that is noted while a state is on its way does not hide it', async (t) => {
  const store = await open(join(t.testdir(), 'sluice.db'))
  const { works } = store
  await works.put(work('one'))
  const put = works.put(work('one', { status: 'in_progress' }))
  works.note(work('one', { status: 'in_progress', progress: 10 }))
  t.match(await works.find(owner, 'one'), { status: 'queued' }, 'not before it is on disk')
  await put
  t.match(await works.find(owner, 'one'), { status: 'in_progress', progress: 10 })
  const puts = [works.put(work('one', { status: 'in_progress', progress: 20 })), works.put(work('one', done))]
  await puts[0]
  await puts[1]
  t.match(await works.find(owner, 'one'), { status: 'succeeded' })
  await store.close()
})

t.test(
  'what a process left of results between their file and their row is gone after the next start, and nothing else',
  async (t) => {
    const file = join(t.testdir(), 'sluice.db')
    const first = await open(file)
    const kept = Array.from({ length: 1200 }, (_, i) => work(`k${i}`, { ...done, expires: noon + 9e9 }))
    await Promise.all(kept.slice(0, 3).map((one) => first.works.keepResult(one, Buffer.from(one.id))))
    await Promise.all(kept.map((one) => first.works.put(one)))
    const odd = work('two\nlines', { tenant: 'zoo', project: '', ...done })
    await first.works.keepResult(odd, Buffer.from('odd'))
    await first.works.put(odd)
    await first.works.keepResult(work('open'), Buffer.from('open'))
    await first.works.put(work('open'))
    await first.works.keepResult(work('lost'), Buffer.from('sealed'))
    writeFileSync(join(`${file}.results`, 'half.part'), 'half')
    await first.close()
    const { works, ...second } = await open(file)
    await works.keepResult(work('later'), Buffer.from('later'))
    t.equal(await works.sweep(), 2)
    t.equal(readdirSync(`${file}.results`).length, 6)
    for (const one of [...kept.slice(0, 3), odd, work('open'), work('later')]) t.ok(await works.result(one), one.id)
    t.equal(await works.result(work('lost')), undefined)
    t.equal(await works.sweep(), 0, 'once')
    await second.close()
  }
)

t.test('of more than memory keeps none is lost, and what was forgotten does not come back', async (t) => {
  const store = await open(join(t.testdir(), 'sluice.db'))
  const { works } = store
  const ids = Array.from({ length: 2500 }, (_, i) => `w${i}`)
  await Promise.all(ids.map((id) => works.put(work(id, done))))
  t.match(await works.find(owner, 'w0'), { id: 'w0' }, 'the first has had to make room')
  await works.keepResult(work('w0'), Buffer.from('result'))
  await works.forget(work('w0', done))
  t.equal(await works.find(owner, 'w0'), undefined)
  t.equal(await works.result(work('w0')), undefined)
  const commits = store.health().commits
  for (const [who, id] of [
    [owner, 'x'],
    [{ ...owner, project: 'app' }, 'w5'],
    [{ ...owner, tenant: 'rival' }, 'w5']
  ] as const)
    t.equal(await works.find(who, id), undefined)
  t.equal(store.health().commits, commits, 'who asks for what is not there causes no write')
  await store.close()
})
