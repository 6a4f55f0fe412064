// Routes: found by their owner alone, durable when that is said, gone when they are removed or too old.
import { join } from 'node:path'
import t from 'tap'
import type { Route } from '../../../core/store/routes.ts'
import { openStore } from '../../../core/store/embedded/store.ts'
import type { Store } from '../../../core/store/store.ts'
import { verify } from '../../../core/store/embedded/care/verify/verify.ts'
import { eventually } from '../../kit/probe.ts'
import { image } from './embedded/forms.ts'
import { noon, query, record } from './embedded/sample.ts'

const hour = 3_600_000
const owner = { tenant: 'acme', project: 'web' }
const ever = { age: 1e6 * hour, size: 2 ** 50, rows: 500 }

function route(id: string, more: Partial<Route> = {}): Route {
  return { ...owner, id, kind: 'response', channel: 'openai', account: 'a1', model: 'gpt-5', tokens: 780, ...more }
}

function open(file: string, now = (): number => noon): Promise<Store> {
  return openStore({
    file,
    durability: 'process',
    routeAge: hour,
    keeping: { requests: ever, journal: ever, patience: 0 },
    now
  })
}

t.test('a route is there for its owner, at once, from the database, and after a crash', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await open(file)
  await store.routes.put([
    route('resp_1'),
    route('msg_1', { kind: 'item' }),
    route('resp_1', { tenant: 'other', account: 'a2' })
  ])
  const crashed = image(file)
  const check = async (which: Store, when: string): Promise<void> => {
    t.match(await which.routes.find(owner, 'resp_1'), route('resp_1'), when)
    t.match(await which.routes.find(owner, 'msg_1'), { kind: 'item' }, when)
    t.match(await which.routes.find({ tenant: 'other', project: 'web' }, 'resp_1'), { account: 'a2' }, when)
    for (const foreign of [
      { tenant: 'acme', project: '' },
      { tenant: 'acme', project: 'other' },
      { tenant: 'none', project: 'web' }
    ]) {
      t.equal(await which.routes.find(foreign, 'resp_1'), undefined, when)
    }
    t.equal(await which.routes.find(owner, 'resp_2'), undefined, when)
  }
  await check(store, 'on its way to the database')
  await store.flush()
  await store.routes.put([route('resp_3')])
  await check(store, 'from the database')
  await store.close()
  t.same(verify(file), [])
  const second = await open(crashed)
  await check(second, 'after a crash')
  await second.close()
})

t.test('a route that was removed is gone, whether it had come to the database or not, and stays so', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await open(file)
  await store.routes.put([route('early'), route('late')])
  await store.routes.remove(owner, 'early')
  t.equal(await store.routes.find(owner, 'early'), undefined)
  await store.flush()
  t.match(await store.routes.find(owner, 'late'), route('late'))
  await store.routes.remove(owner, 'late')
  t.equal(await store.routes.find(owner, 'late'), undefined)
  const crashed = image(file)
  await store.close()
  t.same(query(file, 'SELECT id FROM route'), [])
  const second = await open(crashed)
  for (const id of ['early', 'late']) t.equal(await second.routes.find(owner, id), undefined, 'after a crash')
  await second.close()
})

t.test('what is too old is not found, and goes', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  let now = noon
  const store = await open(file, () => now)
  await store.routes.put(Array.from({ length: 250 }, (_, at) => route(`resp_${at}`)))
  await store.flush()
  now += hour - 1
  t.match(await store.routes.find(owner, 'resp_7'), route('resp_7'))
  now += 1
  t.equal(await store.routes.find(owner, 'resp_7'), undefined)
  await store.routes.put([route('young')])
  await store.close()
  const later = await open(file, () => now)
  await eventually(() => query(file, 'SELECT id FROM route').length === 1, 10_000)
  t.match(await later.routes.find(owner, 'young'), route('young'))
  await later.close()
  t.same(verify(file), [])
})

t.test('a route is found while operators search the log', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await open(file)
  t.teardown(() => store.close())
  for (let number = 0; number < 1000; number++) store.requests.append(record())
  await store.routes.put([route('resp_1')])
  await store.flush()
  await store.routes.find(owner, 'resp_1')
  await store.requests.list({ limit: 1 })
  let answered = 0
  // None has such a member, so each search reads all of them.
  const searches = Array.from({ length: 200 }, () =>
    store.requests.list({ limit: 1, member: 'nobody' }).then(() => answered++)
  )
  t.match(await store.routes.find(owner, 'resp_1'), route('resp_1'))
  t.ok(answered < 200, `${answered} searches of 200 came first`)
  await Promise.all(searches)
})
