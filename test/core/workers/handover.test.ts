// Gateways of workers hand over as those of one thread do: no client notices, and whoever is killed in the middle loses
// nothing and doubles nothing.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { restarts } from '../../chaos/restarts.ts'
import { delta, done, finish, opening, sse, usage } from '../../faults/vendor.ts'
import { ask } from '../../kit/client.ts'
import { spawnGateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { endOfBody, events, until, Upstream } from '../../kit/upstream.ts'
import { folder } from '../../money/rig.ts'
import { ends, inOrder, patience, stoppedAt } from '../handover/scene.ts'

t.setTimeout(900_000)
const upgrade = { method: 'POST', path: '/admin/v1/upgrade' }

t.test('under load no client notices hand-overs of one thread and of workers to each other', async (t) => {
  const { refused, reset, cut, lost, doubled, unasked, due, charged, verified, noticed, answered, handOvers } =
    await restarts({ handOvers: 3, rate: 20, workers: [1, 2, 2, 1] })
  t.ok(answered > 0)
  t.equal(handOvers, 3)
  const nothing = { refused: 0, reset: 0, cut: 0, lost: 0, doubled: 0, unasked: 0, noticed: [], verified: true }
  t.strictSame({ refused, reset, cut, lost, doubled, unasked, noticed, verified }, nothing)
  t.equal(charged, due)
})

t.test('the new one is killed with the store: the workers serve on, and the next try succeeds', async (t) => {
  const scene = await stoppedAt(t, 'waits with the store', { workers: 2 })
  const { running, client, goOn, release } = scene
  const waiting = await running.openChat()
  // The admin API would wait for the store.
  running.process.kill('SIGUSR2')
  const underWay = /an upgrade is under way already: process (\d+)/
  await eventually(() => underWay.test(running.output()), patience)
  process.kill(Number(underWay.exec(running.output())![1]), 'SIGKILL')
  await eventually(() => running.output().includes('could not take the place of this one, which serves on'), patience)
  t.match(await waiting.reply(), { status: 502 }, 'what came meanwhile is answered')
  goOn()
  t.match((await client.reply()).text, /\[DONE\]/)
  client.socket.end()
  waiting.socket.end()
  // Workers that had handed over are replaced one after another.
  const replaced = (): number => running.output().match(/a worker serves in the place/g)?.length ?? 0
  await eventually(() => replaced() === 2, patience)
  release()
  t.match((await ask(t, running.adminUrl, upgrade)).json(), { ok: true, generation: 2 })
  t.same(await running.exited, { code: 0, signal: null })
  await ends(running, running.pids().at(-1)!)
  await inOrder(t, scene, 1)
})

t.test('the old one is killed while the new one has the store: that serves, and ends what was open', async (t) => {
  const scene = await stoppedAt(t, 'waits with the store', { workers: 2 })
  const { running, release } = scene
  running.process.kill('SIGKILL')
  release()
  await eventually(() => running.pids().length === 2, patience)
  await eventually(async () => (await running.admin('/admin/v1/requests')).data.length === 1, patience)
  t.match((await running.admin('/admin/v1/requests')).data, [{ usage_source: 'recovered' }])
  const { data } = await running.admin('/admin/v1/balances')
  t.ok(data.every(({ pending_nano }: { pending_nano: string }) => pending_nano === '0'))
  await ends(running, running.pids()[1]!)
  await inOrder(t, scene, 1)
})

t.test('the new one is killed while it serves: the old one ends what it has, and is charged for it', async (t) => {
  const scene = await stoppedAt(t, 'waits with the store', { workers: 2, limits: { drain_timeout: '300s' } })
  const { running, client, goOn, release } = scene
  release()
  await eventually(() => running.pids().length === 2, patience)
  process.kill(running.pids()[1]!, 'SIGKILL')
  await eventually(() => running.output().includes('this one takes the store back, and ends'), patience)
  goOn()
  t.match((await client.reply()).text, /\[DONE\]/)
  client.socket.end()
  t.same(await running.exited, { code: 1, signal: null }, 'as nobody serves any more')
  await inOrder(t, scene, 1)
})

t.test('what a worker has that ends after it has handed over, the new process ends at once', async (t) => {
  const module = join(folder(t), 'bomb.mjs')
  const contract = JSON.stringify(join(import.meta.dirname, '../../../core/contract/contract.ts'))
  writeFileSync(
    module,
    `import { definePlugin } from ${contract}
    export default definePlugin({ name: 'bomb', summary: 'Ends the worker.', options: {}, setup: () => ({
      onResponse: () => ({ observe: ({ bytes }) => { if (Buffer.from(bytes).includes('boom')) process.exit(7) } })
    }) })`
  )
  const vendor = await Upstream.start(t)
  const { promise, resolve: goOn } = Promise.withResolvers<void>()
  const { promise: end, resolve: letEnd } = Promise.withResolvers<void>()
  const chain = ['bomb', 'auth', 'quota', 'ratelimit', 'route', 'protocol-translate', 'usage-meter']
  const overrides = {
    workers: 2,
    limits: { drain_timeout: '300s' },
    channels: { vendor: { timeouts: { idle: '10m' } } },
    plugins: { bomb: module },
    chain: [...chain.map((name) => ({ [name]: {} })), { log: { sink: 'none' } }]
  }
  const running = await spawnGateway(t, overrides, { upstreams: { vendor } })
  const rest = events([delta(' far'), finish, usage, done])
  // Until each worker has an answer under way.
  const clients = []
  for (let loads: number[] = []; loads.length < 2 || loads.includes(0);) {
    const boom = clients.length === 0
    vendor.script(
      sse,
      events([opening, delta('So')]),
      until(boom ? promise : end),
      boom ? events([delta('boom')]) : rest,
      endOfBody()
    )
    const client = await running.openChat({ stream: true })
    await client.body('So')
    clients.push(client)
    const { data } = await running.admin('/admin/v1/workers')
    loads = data.map(({ connections }: { connections: number | null }) => connections ?? 0)
  }
  t.match((await ask(t, running.adminUrl, upgrade)).json(), { ok: true, generation: 2 })
  goOn()
  await clients[0]!.closed
  await eventually(async () => (await running.admin('/admin/v1/requests')).data.length > 0, patience)
  t.match((await running.admin('/admin/v1/requests')).data[0], { usage_source: 'recovered' })
  t.equal(running.process.exitCode, null, 'while the other worker goes on')
  letEnd()
  const whole = (await Promise.all(clients.map((client) => client.reply().catch(() => undefined)))).filter((reply) =>
    reply?.text.includes('[DONE]')
  )
  t.ok(whole.length > 0)
  for (const client of clients) client.socket.end()
  t.same(await running.exited, { code: 0, signal: null })
  const { data } = await running.admin('/admin/v1/balances')
  t.ok(data.every(({ pending_nano }: { pending_nano: string }) => pending_nano === '0'))
  await ends(running, running.pids()[1]!)
})
