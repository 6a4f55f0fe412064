// Work that goes on after its request: asked for no more than needed, by whoever leads to it, given up in time, and
// ended by every stop.
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { startSimulator } from '../../../../core/simulator/simulator.ts'
import type { Simulator } from '../../../../core/simulator/simulator.ts'
import { gateway, testKey } from '../../../kit/gateway.ts'
import type { LocalGateway, Overrides } from '../../../kit/gateway.ts'
import { eventually, figures, settled, stopwatch } from '../../../kit/probe.ts'
import { Upstream } from '../../../kit/upstream.ts'
import { folder, journal, secretOf } from '../../../money/rig.ts'

t.setTimeout(600_000)

const video = '/v1/video/generations'
const pictures = '/v1/images/generations/async'
const tasks = { poll: { first: '20ms', most: '50ms' } }

interface Bench extends LocalGateway {
  simulator: Simulator
  /** Begins a video with a directive for the simulator. Its id. */
  begin(directive?: object): Promise<string>
  see(id: string): Promise<any>
  /** Waits for its end, without asking the gateway more often than it asks. */
  over(id: string): Promise<any>
}

/** A gateway in front of a simulator that is not its own. */
async function open(
  t: Test,
  more: Overrides = {},
  sections: (simulator: Simulator) => Overrides = channelsTo
): Promise<Bench> {
  const simulator = await startSimulator()
  t.teardown(() => simulator.close())
  const running = await gateway(t, {
    tasks,
    models: { demo: { price: { second: 1, image: 2 } } },
    ...sections(simulator),
    ...more
  })
  const see = async (id: string): Promise<any> => (await running.ask({ path: `${video}/${id}` })).json()
  return {
    ...running,
    simulator,
    see,
    begin: async (directive = {}) => {
      const reply = await running.ask({
        path: video,
        body: {
          model: 'demo',
          seconds: 4,
          prompt: `A boat [[simulator ${JSON.stringify({ queue_ms: 0, work_ms: 50, ...directive })}]]`
        }
      })
      return (reply.json() as any).id
    },
    over: async (id) => {
      let found: any
      await eventually(async () => !['queued', 'in_progress'].includes((found = await see(id)).status), 10_000)
      return found
    }
  }
}

function channelsTo(simulator: Simulator, name = 'first'): Overrides {
  return {
    channels: {
      demo: undefined,
      [name]: {
        protocol: 'openai',
        base_url: `${simulator.url.origin}/v1`,
        private: true,
        models: { demo: 'demo' },
        endpoints: ['videos', 'images'],
        credential: 'one'
      }
    }
  }
}

t.test('nobody has to ask: the gateway does, and what many ask at one time is one question', async (t) => {
  const { begin, see, simulator, admin, ...running } = await open(t)
  const id = await begin()
  await eventually(
    async () =>
      (await admin('/admin/v1/requests')).data.some(
        ({ endpoint, cost_usd }: any) => endpoint === 'videos.generations' && cost_usd === '4'
      ),
    10_000
  )
  t.match(await see(id), { status: 'succeeded' })

  const slow = await begin({ work_ms: 60_000, later: Array.from({ length: 50 }, () => ({ first_byte_ms: 150 })) })
  const before = simulator.stats.requests
  const answers = await Promise.all(Array.from({ length: 50 }, () => see(slow)))
  t.equal(answers.filter(({ status }) => status === 'in_progress').length, 50)
  t.ok(simulator.stats.requests - before <= 10, `${simulator.stats.requests - before} questions`)
  await running.ask({ method: 'DELETE', path: `${video}/${slow}` })
})

t.test('a slow answer about one keeps no other waiting, nor a stop', async (t) => {
  const { begin, over, gateway: running } = await open(t)
  const slow = await begin({ later: Array.from({ length: 20 }, () => ({ first_byte_ms: 60_000 })) })
  const others = await Promise.all(Array.from({ length: 20 }, () => begin()))
  const began = stopwatch()
  for (const id of others) t.match(await over(id), { status: 'succeeded' })
  t.ok(slow && began.ms < 10_000)
  const stopped = stopwatch()
  await running.close()
  t.ok(stopped.ms < 15_000)
})

t.test(
  'an upstream that does not answer is asked again; one that has lost its work is asked three times',
  async (t) => {
    const { begin, over, ...running } = await open(t)
    const stumbling = await begin({
      later: [
        { status: 500 },
        { cut: 'reset' },
        { status: 404 },
        { status: 200, body: 'odd' },
        { status: 404 },
        { status: 429 }
      ]
    })
    t.match(await over(stumbling), { status: 'succeeded' })
    const lost = await begin({ work_ms: 60_000, expire_ms: 50 })
    t.match(await over(lost), { status: 'failed', error: { code: 'task_lost' } })
    t.match(await running.record({ headers: { 'x-request-id': await requestOf(running, 'task_failed') } }), {
      cost_nano: '0',
      outcome: 'failed'
    })
  }
)

/** The id of the request whose record has this code. */
async function requestOf({ admin }: Pick<LocalGateway, 'admin'>, code: string): Promise<string> {
  const { data } = await admin('/admin/v1/requests?limit=100')
  return data.find(({ error_code }: any) => error_code === code).request_id
}

t.test('what a failed attempt cost before another began the work is in the journal with its end', async (t) => {
  const broken = await Upstream.start(t)
  const simulator = await startSimulator()
  t.teardown(() => simulator.close())
  const store = { sqlite: join(folder(t), 'sluice.db'), durability: 'process' }
  const channel = (base_url: string, priority: number): object => ({
    protocol: 'openai',
    base_url,
    private: true,
    models: { demo: 'demo' },
    endpoints: ['videos'],
    priority
  })
  const running = await gateway(t, {
    store,
    tasks,
    channels: { demo: undefined, first: channel(`${broken.url}`, 0), second: channel(`${simulator.url.origin}/v1`, 1) },
    models: { demo: { price: { input: 1000, second: 1 } } }
  })
  const see = async (id: string): Promise<any> => (await running.ask({ path: `${video}/${id}` })).json()
  for (const [ending, amount] of [
    ['succeeded', 4_000_000_000n],
    ['failed', 0n]
  ] as const) {
    // One that refuses has begun nothing, so that another is asked.
    broken.json({ error: { message: 'Full.' } }, { status: 503 })
    const directive = { queue_ms: 0, work_ms: 20, ...(ending === 'failed' && { fail: { code: 'blocked' } }) }
    const begun = await running.ask({
      path: video,
      body: { model: 'demo', seconds: 4, prompt: `A boat [[simulator ${JSON.stringify(directive)}]]` }
    })
    t.equal(begun.status, 202, begun.text)
    const { id } = begun.json() as any
    await eventually(async () => (await see(id)).status === ending, 10_000)
    await settled(t, running)
    const request = begun.headers['x-request-id']
    await eventually(() =>
      journal(store.sqlite).some(({ request_id: id, class: end }) => id === request && end === 'terminal')
    )
    const entries = journal(store.sqlite).filter(({ request_id: id }) => id === request)
    t.same(
      entries.map(({ kind, class: of, amount: cost }) => [kind, of, cost]),
      [
        ['cost', 'cost:1', 0n],
        [ending === 'failed' ? 'void' : 'settle', 'terminal', amount]
      ]
    )
  }
})

t.test('what takes too long is given up, and told to stop', async (t) => {
  const { begin, over, simulator, ...running } = await open(t, { tasks: { ...tasks, deadline: '300ms' } })
  const id = await begin({ work_ms: 20_000 })
  t.match(await over(id), { status: 'expired', url: null, error: null, completed_at: Number })
  t.match((await running.ask({ path: `/v1/videos/${id}` })).json(), { status: 'failed', error: { code: 'expired' } })
  await settled(t, running)
  const counted = simulator.stats.counted.seconds ?? 0
  t.equal(counted, 0, 'the upstream was told before it was done')
})

t.test(
  'a channel may be renamed; while nothing leads to its account a task waits, and no other account is asked',
  async (t) => {
    const running = await open(t)
    const { begin, over, see, simulator, configure } = running
    const other = await startSimulator()
    t.teardown(() => other.close())
    const id = await begin({ work_ms: 2000 })
    const price = { models: { demo: { price: { second: 1, image: 2 } } }, tasks }
    configure({ ...price, ...channelsTo(other, 'first') })
    t.ok((await running.gateway.reload('test')).ok)
    await new Promise((resolve) => setTimeout(resolve, 2200))
    t.match(await see(id), { status: /queued|in_progress/ }, 'its upstream is done, and cannot be asked')
    t.equal(other.stats.requests, 0, 'a channel of the same name that leads elsewhere is not asked')
    configure({ ...price, ...channelsTo(simulator, 'second') })
    t.ok((await running.gateway.reload('test')).ok)
    t.match(await over(id), { status: 'succeeded' })
    t.equal((await running.ask({ path: `${video}/${id}/content` })).status, 200)
    configure({ ...price, ...channelsTo(other, 'first') })
    t.ok((await running.gateway.reload('test')).ok)
    const content = await running.ask({ path: `${video}/${id}/content` })
    t.equal(content.status, 503)
    t.equal(other.stats.requests, 0)
    await settled(t, running)
  }
)

t.test('a repeated request with its Idempotency-Key is one task, of either kind', async (t) => {
  const chain = [
    { auth: {} },
    { idempotency: {} },
    { quota: {} },
    { ratelimit: {} },
    { route: { repeats: 0 } },
    { 'protocol-translate': {} },
    { 'usage-meter': {} },
    { log: { sink: 'none' } }
  ]
  const { simulator, ...running } = await open(t, { chain })
  for (const [path, body] of [
    [video, { model: 'demo', prompt: 'A boat [[simulator {"queue_ms": 0, "work_ms": 10}]]' }],
    [pictures, { model: 'demo', prompt: 'A boat', size: '64x64' }]
  ] as const) {
    const send = (): ReturnType<typeof running.ask> => running.ask({ path, headers: { 'idempotency-key': path }, body })
    const first = await send()
    t.equal(first.status, 202)
    let second = first
    await eventually(async () => (second = await send()).status !== 409, 10_000)
    t.equal(second.status, 202)
    t.equal(second.text, first.text)
    t.equal(second.headers['idempotency-replayed'], 'true')
  }
  t.equal(simulator.stats.counted.images, 1)
  await settled(t, running)
})

/** What is called off is not heard to its end. */
const limits = { on_disconnect: 'abort' }

t.test('pictures wait for their turn, as many as may, and a stop ends those that are left', async (t) => {
  const store = { sqlite: join(folder(t), 'sluice.db'), durability: 'process' }
  const { simulator, ...running } = await open(t, { store, limits, tasks: { ...tasks, running: 1, waiting: 3 } })
  const send = (directive: object): ReturnType<typeof running.ask> =>
    running.ask({
      path: pictures,
      body: { model: 'demo', size: '64x64', prompt: `A boat [[simulator ${JSON.stringify(directive)}]]` }
    })
  const [first, second, third] = [await send({ first_byte_ms: 60_000 }), await send({}), await send({})].map(
    ({ json }) => (json() as any).id as string
  )
  t.equal((await figures(t, running)).get('sluice_tasks_waiting'), 2)
  t.match((await send({})).json(), { error: { code: 'rate_limit_concurrency' } })
  t.match(
    (await running.ask({ method: 'POST', path: `${pictures}/${second}/cancel` })).json(),
    { status: 'cancelled' },
    'what waits can be called off'
  )
  t.match((await running.ask({ path: `${pictures}/${third}` })).json(), { status: 'queued' })
  t.match((await running.ask({ method: 'POST', path: `${pictures}/${first}/cancel` })).json(), { status: 'cancelled' })
  await eventually(
    async () => ((await running.ask({ path: `${pictures}/${third}` })).json() as any).status === 'succeeded',
    10_000
  )
  await settled(t, running)

  const left = (await send({ first_byte_ms: 60_000 })).json() as any
  const began = stopwatch()
  await running.gateway.close()
  t.ok(began.ms < 15_000, 'a stop does not wait for it')
  const next = await gateway(t, {
    tasks,
    models: { demo: { price: { second: 1, image: 2 } } },
    ...channelsTo(simulator),
    store
  })
  t.match((await next.ask({ path: `${pictures}/${left.id}` })).json(), {
    status: 'failed',
    error: { code: 'draining' }
  })
  await settled(t, next)
})

t.test('a tenant that has begun as much as it may keeps no other from it, and turns go round', async (t) => {
  const keys = [
    { name: 'test', key: testKey, tenant: 'acme' },
    { name: 'rival', key: secretOf('rival'), tenant: 'rival' }
  ]
  const running = await open(t, {
    tenants: { acme: {}, rival: {} },
    keys,
    limits,
    tasks: { ...tasks, running: 1, waiting: 5, open: 7, of_tenant: 4 }
  })
  const send = (path: string, name: string, secret = testKey, directive: object = {}): ReturnType<typeof running.ask> =>
    running.ask({
      path,
      headers: { authorization: `Bearer ${secret}` },
      body: { model: 'demo', size: '64x64', prompt: `A ${name} [[simulator ${JSON.stringify(directive)}]]` }
    })
  const idOf = async (reply: ReturnType<typeof running.ask>): Promise<string> => ((await reply).json() as any).id
  const slow = await idOf(send(pictures, 'first', testKey, { first_byte_ms: 60_000 }))
  const waiting: string[] = []
  for (const name of ['second', 'third', 'fourth'])
    waiting.push(await idOf(send(pictures, name, testKey, { first_byte_ms: 300 })))
  const refused = await send(pictures, 'fifth')
  t.equal(refused.status, 429)
  t.match(refused.headers, { 'retry-after': '5' })
  t.match(refused.json(), { error: { code: 'rate_limit_concurrency', message: /Your tenant has 4 tasks under way/ } })
  t.match(await running.record(refused), {
    reason: { by: 'room', what: '4 tasks of the tenant acme are under way', where: 'tasks.of_tenant' }
  })
  t.equal((await send(video, 'film')).status, 429, 'of either kind')
  const other = await idOf(send(pictures, 'rival', secretOf('rival')))
  t.match(other, /^task_/, 'another tenant finds a place')
  await running.ask({ method: 'POST', path: `${pictures}/${slow}/cancel` })
  const headers = { authorization: `Bearer ${secretOf('rival')}` }
  const statusOf = async (id: string, more = {}): Promise<string> =>
    ((await running.ask({ path: `${pictures}/${id}`, ...more })).json() as any).status
  await eventually(async () => (await statusOf(other, { headers })) === 'succeeded', 10_000)
  t.match(await statusOf(waiting[2]!), /queued|in_progress/, 'and its turn comes before those of all others')
  await eventually(async () => (await statusOf(waiting[2]!)) === 'succeeded', 10_000)
  const film = await idOf(send(video, 'film'))
  t.match(film, /^task_/, 'what has ended makes room')
  await running.ask({ method: 'DELETE', path: `${video}/${film}` })
  await settled(t, running)
})
