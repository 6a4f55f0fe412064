// Turns of work in the background are those of the gateway: one tenant after the other, whichever worker they wait at.
import { join } from 'node:path'
import t from 'tap'
import type { Client } from '../../kit/client.ts'
import { gateway, testKey, testModel } from '../../kit/gateway.ts'
import { eventually, figures } from '../../kit/probe.ts'
import { bytes, Upstream, until } from '../../kit/upstream.ts'
import { secretOf } from '../../money/rig.ts'
import { askOn, lanes, named } from './lanes.ts'

t.setTimeout(300_000)

const path = '/v1/images/generations/async'
const answer = JSON.stringify({ created: 1, data: [{ b64_json: Buffer.from('a picture').toString('base64') }] })
const tenants = { acme: {}, rival: {} }
const keys = [
  { name: 'test', key: testKey, tenant: 'acme' },
  { name: 'rival', key: secretOf('rival'), tenant: 'rival' }
]

/** An upstream that makes one picture after another, each when it is told to. */
class Painter {
  readonly upstream: Upstream
  readonly #ends: PromiseWithResolvers<void>[] = []

  constructor(upstream: Upstream, pictures: number) {
    this.upstream = upstream
    for (let picture = 0; picture < pictures; picture++) {
      const end = Promise.withResolvers<void>()
      this.#ends.push(end)
      const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${answer.length}\r\n\r\n`
      upstream.script(until(end.promise), bytes(head + answer))
    }
  }

  /** What was asked for, in order. */
  get asked(): readonly string[] {
    return this.upstream.requests.map((request) => request.json().prompt)
  }

  /** Ends the picture that was asked for so many pictures ago. */
  end(picture: number): void {
    this.#ends[picture]!.resolve()
  }
}

async function submit(client: Client, prompt: string, secret = testKey): Promise<number> {
  const body = { model: testModel, prompt, size: '64x64' }
  return (await askOn(client, { path, headers: { authorization: `Bearer ${secret}` }, body })).status
}

t.test('a tenant that waits at one worker has its turn before others at another one have all of theirs', async (t) => {
  const painter = new Painter(await Upstream.start(t), 6)
  const channels = { vendor: { endpoints: ['images'] } }
  const price = { input: 1, output: 1, image: 1 }
  const all = await gateway(
    t,
    { ...named, tenants, keys, tasks: { running: 1 }, channels, models: { [testModel]: { price } } },
    { upstreams: { vendor: painter.upstream }, workers: 2 }
  )
  const [here, there] = await lanes(t, all)
  for (let n = 0; n < 5; n++) t.equal(await submit(here!, `acme ${n}`), 202)
  await eventually(() => painter.asked.length === 1)
  t.equal(await submit(there!, 'rival', secretOf('rival')), 202)
  await eventually(async () => (await figures(t, all)).get('sluice_tasks_waiting') === 5)
  for (let n = 0; n < 6; n++) {
    await eventually(() => painter.asked.length === n + 1)
    painter.end(n)
  }
  t.same(painter.asked, ['acme 0', 'acme 1', 'rival', 'acme 2', 'acme 3', 'acme 4'])
  await eventually(async () => (await figures(t, all)).get('sluice_tasks_open') === 0)
})

t.test('what may wait is counted over all workers, and of one tenant half of it', async (t) => {
  const painter = new Painter(await Upstream.start(t), 1)
  const channels = { vendor: { endpoints: ['images'] } }
  const price = { input: 1, output: 1, image: 1 }
  const all = await gateway(
    t,
    { ...named, tenants, keys, tasks: { running: 1, waiting: 6 }, channels, models: { [testModel]: { price } } },
    { upstreams: { vendor: painter.upstream }, workers: 2 }
  )
  const places = await lanes(t, all)
  t.equal(await submit(places[0]!, 'goes on'), 202)
  await eventually(() => painter.asked.length === 1)
  const taken = [0, 0]
  for (let n = 0; n < 8; n++) {
    for (const [at, client] of places.entries()) if ((await submit(client, 'waits')) === 202) taken[at]!++
  }
  t.same(taken, [2, 1], 'half of six, whichever worker they wait at')
})

t.test('what a worker has of the turns is free when it ends', async (t) => {
  const painter = new Painter(await Upstream.start(t), 2)
  const channels = { vendor: { endpoints: ['images'] } }
  const price = { input: 1, output: 1, image: 1 }
  const all = await gateway(
    t,
    {
      plugins: { ...named.plugins, bomb: join(import.meta.dirname, 'bomb.ts') },
      chain: [{ bomb: {} }, ...named.chain],
      tasks: { running: 1 },
      channels,
      models: { [testModel]: { price } }
    },
    { upstreams: { vendor: painter.upstream }, workers: 2 }
  )
  const [here, there] = await lanes(t, all)
  t.equal(await submit(here!, 'is lost'), 202)
  await eventually(() => painter.asked.length === 1)
  t.equal(await submit(here!, 'waits, and is lost'), 202)
  t.equal(await submit(there!, 'goes on'), 202)
  await askOn(here!, { path: '/v1/models', headers: { 'x-bomb': 'request exit' } }).catch(() => {})
  await eventually(() => painter.asked.length === 2)
  t.same(painter.asked, ['is lost', 'goes on'])
  painter.end(1)
  await eventually(async () => (await figures(t, all)).get('sluice_tasks_open') === 0)
})
