// What every store promises of work, its results, the vault over them, and the request log.
import t from 'tap'
import { eventually } from '../../../kit/probe.ts'
import { eachStore } from '../../../kit/stores.ts'
import { noon, record, work } from '../embedded/sample.ts'

const owner = { tenant: 'acme', project: 'web' }
const now = (): number => noon

const done = { status: 'succeeded', ended: noon, expires: noon + 1e9 } as const

eachStore(
  t,
  ['works'],
  'work is known at once to who begins it, and to its owner once it is kept',
  async (t, { services: { works } }) => {
    const put = works.put(work('one'))
    t.match(works.current(owner, 'one'), { status: 'queued' })
    t.match(works.at('a', 'at the upstream one'), { id: 'one' })
    await put
    t.match(await works.find(owner, 'one'), { status: 'queued' })
    t.equal(await works.find({ tenant: 'rival', project: 'web' }, 'one'), undefined)
    t.equal(works.current({ tenant: 'rival', project: 'web' }, 'one'), undefined)
    works.note(work('one', { status: 'in_progress', progress: 40 }))
    t.match(works.current(owner, 'one'), { progress: 40 })
    t.same([works.running, works.runningOf('acme'), works.runningOf('rival')], [1, 1, 0])
    await works.put(work('one', { ...done, progress: 100 }))
    t.equal(works.current(owner, 'one'), undefined)
    t.equal(works.running, 0)
    t.match(await works.find(owner, 'one'), { status: 'succeeded', progress: 100 })
  },
  now
)

eachStore(
  t,
  ['works'],
  'work that is about to begin has a place until it is counted, and no more begins than may be open',
  async (t, { services: { works } }) => {
    const take = async (id: string, tenant = 'acme'): Promise<unknown> =>
      works.places.take(id, tenant, { open: 4, of_tenant: 2 })
    t.same(await Promise.all(['a', 'b', 'c'].map((id) => take(id))), [undefined, undefined, 'of_tenant'])
    t.equal(await take('d', 'rival'), undefined)
    works.note(work('one', { requestId: 'a' }))
    works.places.leave('a')
    t.equal(await take('e'), 'of_tenant', 'its work is counted in its place')
    await works.put(work('one', { requestId: 'a' }))
    works.places.leave('a')
    t.equal(await take('e'), 'of_tenant')
    works.places.leave('b')
    t.equal(await take('e'), undefined)
    t.equal(await take('f', 'rival'), undefined)
    t.equal(await take('g', 'third'), 'open')
    await works.put(work('one', { requestId: 'a', ...done }))
    await eventually(async () => (await take('g', 'third')) === undefined)
  },
  now
)

eachStore(
  t,
  ['works'],
  'a result is kept with its work and goes with it',
  async (t, { services: { works } }) => {
    await works.keepResult(work('one'), Buffer.from('a film'))
    await works.put(work('one', done))
    t.equal(String(await works.result(work('one'))), 'a film')
    for (let i = 0; i < 3; i++) await works.put(work(`more ${i}`, { ...done, created: noon + i + 1 }))
    const { page, more } = await works.list({ ...owner, kind: 'video', after: undefined, limit: 2, newestFirst: true })
    t.same(
      page.map(({ id }) => id),
      ['more 2', 'more 1']
    )
    t.equal(more, true)
    await works.forget(work('one', done))
    t.equal(await works.find(owner, 'one'), undefined)
    t.equal(await works.result(work('one')), undefined)
  },
  now
)

eachStore(
  t,
  ['vault'],
  'a value of the vault is read by its owner alone, and by its parts',
  async (t, { services: { vault } }) => {
    const label = { ...owner, id: 'resp_1', model: 'demo', requestId: 'r1' }
    await vault.put(label, { said: 'héllo' }, { length: 10, tokens: 3, parts: { msg_1: 5 } })
    const kept = await vault.find(owner, 'resp_1')
    t.match(kept?.outline, { length: 10, tokens: 3, parts: { msg_1: 5 } })
    t.same(await vault.read(kept!), { said: 'héllo' })
    t.same(await vault.findWhole(owner, 'msg_1'), { id: 'resp_1', length: 5 })
    t.equal(await vault.find({ tenant: 'rival', project: 'web' }, 'resp_1'), undefined)
    t.equal(await vault.findWhole({ tenant: 'acme', project: '' }, 'msg_1'), undefined)
    await vault.forget(kept!)
    t.equal(await vault.find(owner, 'resp_1'), undefined)
    t.equal(await vault.findWhole(owner, 'msg_1'), undefined)
    t.equal(await vault.read(kept!), undefined)
  }
)

eachStore(
  t,
  ['requests'],
  'the request log has every record, newest first, page by page',
  async (t, { services: { requests }, flush }) => {
    for (let i = 0; i < 25; i++)
      requests.append(
        record({ request_id: `r${i}`, time: new Date(noon + i).toISOString(), model: i % 5 ? 'gpt-5' : 'other' })
      )
    await eventually(async () => (await requests.list({ limit: 30 })).data.length === 25)
    await flush()
    const seen: string[] = []
    let cursor: string | undefined
    do {
      const page: Awaited<ReturnType<typeof requests.list>> = await requests.list({
        limit: 10,
        ...(cursor && { cursor })
      })
      seen.push(...page.data.map(({ request_id }) => request_id))
      cursor = page.next ?? undefined
    } while (cursor !== undefined)
    t.same(
      seen,
      Array.from({ length: 25 }, (_, i) => `r${24 - i}`)
    )
    t.equal((await requests.list({ limit: 30, model: 'other' })).data.length, 5)
  },
  now
)
