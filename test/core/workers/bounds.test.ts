// Bounds of plugins are those of the gateway, however many workers there are.
import t from 'tap'
import { askOn, lanes, named } from './lanes.ts'
import { connect } from '../../kit/client.ts'
import type { Client } from '../../kit/client.ts'
import { gateway, testKey, testModel } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { bytes, Upstream, until } from '../../kit/upstream.ts'
import { completion } from '../../faults/vendor.ts'

t.setTimeout(300_000)

const chat = {
  path: '/v1/chat/completions',
  headers: { authorization: `Bearer ${testKey}` },
  body: { model: testModel, messages: [{ role: 'user', content: 'Hi' }] }
}
const routed = (options: object): Record<string, unknown> => ({
  ...named,
  chain: named.chain.map((entry) => ('route' in entry ? { route: options } : entry))
})

t.test('as many requests wait for a channel as may, over all workers', async (t) => {
  const vendor = await Upstream.start(t)
  const { promise, resolve } = Promise.withResolvers<void>()
  const text = JSON.stringify(completion)
  const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n`
  vendor.script(until(promise), bytes(head + text))
  vendor.always(bytes(head + text))
  const all = await gateway(
    t,
    { ...routed({ wait: '5m', waiting: 2 }), channels: { vendor: { limits: { concurrency: 1 } } } },
    { upstreams: { vendor }, workers: 2 }
  )
  const first = (await connect(t, all.url)).send(chat)
  await eventually(() => vendor.requests.length === 1)
  const waits: Client[] = []
  for (let n = 0; n < 6; n++) waits.push((await connect(t, all.url)).send(chat))
  const refused = (): number => waits.filter(({ replies }) => replies[0]?.status === 429).length
  await eventually(() => refused() === 4)
  const [here, there] = await lanes(t, all)
  for (const client of [here!, there!]) t.equal((await askOn(client, chat)).status, 429)
  resolve()
  t.equal((await first.reply()).status, 200)
  const statuses = await Promise.all(waits.map(async (client) => (await client.reply()).status))
  t.same(statuses.sort(), [200, 200, 429, 429, 429, 429])
})

t.test('second tries that are allowed in addition are those of all workers', async (t) => {
  const [bad, good] = [await Upstream.start(t), await Upstream.start(t)]
  const broken = JSON.stringify({ error: { message: 'no', type: 'server_error' } })
  const fails = `HTTP/1.1 500 No\r\ncontent-type: application/json\r\ncontent-length: ${broken.length}\r\n\r\n${broken}`
  bad.always(bytes(fails))
  const text = JSON.stringify(completion)
  good.always(
    bytes(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`)
  )
  const overrides = routed({ repeats: 0, eject_after: 1000, retry_ratio: 0, retry_per_second: 0.2 })
  const all = await gateway(t, overrides, { upstreams: { bad, good }, workers: 2 })
  const both = await lanes(t, all)
  const began = performance.now()
  const statuses: number[] = []
  for (let n = 0; n < 3; n++) for (const client of both) statuses.push((await askOn(client, chat)).status)
  // On a busy machine they take longer than ten seconds.
  const spans = 1 + Math.floor((performance.now() - began) / 10_000)
  const tried = statuses.filter((status) => status === 200).length
  t.ok(tried >= 2 && tried <= 2 * spans, `${tried} in ${spans} times ten seconds`)
})
