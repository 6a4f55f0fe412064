// The bounds of work that goes on: they hold when everybody asks at once, and what is not begun gives its place back.
import t from 'tap'
import type { Test } from 'tap'
import { startSimulator } from '../../../../core/simulator/simulator.ts'
import { gateway, testKey } from '../../../kit/gateway.ts'
import type { LocalGateway } from '../../../kit/gateway.ts'
import { eventually, figures, settled } from '../../../kit/probe.ts'
import { Upstream } from '../../../kit/upstream.ts'
import { secretOf } from '../../../money/rig.ts'

t.setTimeout(600_000)

const video = '/v1/video/generations'
const pictures = '/v1/images/generations/async'
const poll = { first: '20ms', most: '50ms' }
const models = { demo: { price: { input: 1, output: 1, second: 1, image: 2 } } }
const keys = [
  { name: 'test', key: testKey, tenant: 'acme' },
  { name: 'rival', key: secretOf('rival'), tenant: 'rival' }
]

async function open(t: Test, tasks: object): Promise<LocalGateway> {
  const simulator = await startSimulator()
  t.teardown(() => simulator.close())
  const demo = {
    protocol: 'openai',
    base_url: `${simulator.url.origin}/v1`,
    private: true,
    models: { demo: 'demo' },
    endpoints: ['videos', 'images', 'responses'],
    credential: 'one'
  }
  // What is called off is not heard to its end.
  const limits = { on_disconnect: 'abort' }
  return gateway(t, {
    tenants: { acme: {}, rival: {} },
    keys,
    tasks: { poll, ...tasks },
    models,
    channels: { demo },
    limits
  })
}

type Reply = Awaited<ReturnType<LocalGateway['ask']>>

/** So many requests at one time, each of which would take a minute. */
async function rush(local: LocalGateway, count: number, path: string, secret = testKey): Promise<Reply[]> {
  const directive = { queue_ms: 0, work_ms: 60_000, first_byte_ms: path === pictures ? 60_000 : 20 }
  const prompt = `A boat [[simulator ${JSON.stringify(directive)}]]`
  const body =
    path === '/v1/responses'
      ? { model: 'demo', input: prompt, background: true }
      : { model: 'demo', prompt, size: '64x64' }
  const headers = { authorization: `Bearer ${secret}` }
  return Promise.all(Array.from({ length: count }, () => local.ask({ path, headers, body })))
}

const taken = (replies: readonly Reply[]): Reply[] => replies.filter(({ status }) => status < 300)
const codes = (replies: readonly Reply[]): unknown[] => [
  ...new Set(replies.filter(({ status }) => status >= 300).map((reply) => (reply.json() as any).error.code))
]

for (const path of [video, pictures, '/v1/responses']) {
  t.test(
    `of thirty at once as many are begun as a tenant may have, and another finds its place: ${path}`,
    async (t) => {
      const local = await open(t, { of_tenant: 2, open: 3, running: 10 })
      const replies = await rush(local, 30, path)
      t.equal(taken(replies).length, 2)
      t.same(codes(replies), ['rate_limit_concurrency'])
      const others = await rush(local, 30, path, secretOf('rival'))
      t.equal(taken(others).length, 1)
      t.same(codes(others), ['overloaded'])
      t.equal((await figures(t, local)).get('sluice_tasks_open'), 3)
    }
  )
}

t.test('of thirty at once as many go on and wait as may', async (t) => {
  const local = await open(t, { running: 2, waiting: 6 })
  const replies = await rush(local, 30, pictures)
  const waiting = (await figures(t, local)).get('sluice_tasks_waiting')!
  t.equal(taken(replies).length, 2 + waiting)
  t.equal(waiting, 3, 'of one tenant half of the places, and there is always one left')
  t.same(codes(replies), ['rate_limit_concurrency'])
  const others = await rush(local, 30, pictures, secretOf('rival'))
  t.equal(taken(others).length, 2)
  t.equal((await figures(t, local)).get('sluice_tasks_waiting'), 5)
})

t.test('what was not begun gives its place back', async (t) => {
  const upstream = await Upstream.start(t)
  const channel = { models: { demo: 'demo' }, endpoints: ['videos'] }
  const settings = { tasks: { poll, of_tenant: 1 }, models, channels: { upstream: channel } }
  const local = await gateway(t, settings, { upstreams: { upstream } })
  for (let time = 0; time < 3; time++) {
    upstream.json({ error: { message: 'no', type: 'invalid_request_error' } }, { status: 400 })
    const refused = await local.ask({ path: video, body: { model: 'demo', prompt: 'A boat' } })
    t.equal(refused.status, 400, refused.text)
  }
  await settled(t, local)
})

t.test('a turn that is called off before it comes leaves its place to others', async (t) => {
  const local = await open(t, { running: 1, waiting: 4 })
  const [first, second] = [...taken(await rush(local, 1, pictures)), ...taken(await rush(local, 1, pictures))]
  for (const reply of [second!, first!]) {
    const { id } = reply.json() as { id: string }
    t.match((await local.ask({ method: 'POST', path: `${pictures}/${id}/cancel` })).json(), { status: 'cancelled' })
  }
  await eventually(async () => (await figures(t, local)).get('sluice_tasks_waiting') === 0, 10_000)
  t.equal(taken(await rush(local, 2, pictures)).length, 2)
})
