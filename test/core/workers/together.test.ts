// What the file allows a gateway is allowed to all of its workers together, and what is said once is said once.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { connect } from '../../kit/client.ts'
import type { Client } from '../../kit/client.ts'
import { gateway, testKey } from '../../kit/gateway.ts'
import type { LocalGateway } from '../../kit/gateway.ts'
import { collector } from '../../kit/otlp.ts'
import { eventually } from '../../kit/probe.ts'
import { tokenServer } from '../../kit/token-server.ts'
import { folder } from '../../money/rig.ts'

t.setTimeout(600_000)

const models = { path: '/v1/models', headers: { authorization: `Bearer ${testKey}` } }

/** Opens a connection and asks on it. Undefined when it is closed without an answer. */
async function opened(t: Test, { url }: LocalGateway): Promise<Client | undefined> {
  const client = await connect(t, url)
  const reply = await client
    .send(models)
    .reply()
    .catch(() => undefined)
  return reply?.status === 200 ? client : undefined
}

t.test('connections are counted over all workers, and those of one that has ended are free', async (t) => {
  const module = join(import.meta.dirname, 'bomb.ts')
  const chain = ['bomb', 'auth', 'quota', 'ratelimit', 'route', 'protocol-translate', 'usage-meter']
  const all = await gateway(
    t,
    { limits: { connections: 6 }, plugins: { bomb: module }, chain: chain.map((name) => ({ [name]: {} })) },
    { workers: 2 }
  )
  const open: Client[] = []
  for (let i = 0; i < 6; i++) open.push((await opened(t, all))!)
  t.equal(open.filter(Boolean).length, 6, 'six are served, however they are spread')
  t.equal(await opened(t, all), undefined)
  const [first] = open
  first!.close()
  let again: Client | undefined
  await eventually(async () => (again = await opened(t, all)) !== undefined)
  again!.send({ ...models, headers: { ...models.headers, 'x-bomb': 'request exit' } })
  await again!.closed
  // Until it has noticed, it is as ready as before.
  await eventually(() => all.lines.some(({ message }) => /serves in the place/.test(message)))
  t.match(await all.admin('/readyz'), { status: 'ok' })
  // Which others were at that worker is chance.
  let more = 0
  while (more <= 6 && (await opened(t, all))) more++
  t.ok(more > 0, 'what the worker had is free')
  await eventually(() => open.slice(1).filter(({ end }) => end === undefined).length + more === 6)
})

t.test('a body may take all the room for bodies, whichever worker gets it', async (t) => {
  const all = await gateway(t, { limits: { body_memory: '2MiB', json_body: '2MiB' } }, { workers: 2 })
  const content = 'x'.repeat(1.5 * 2 ** 20)
  for (let i = 0; i < 4; i++) t.equal((await all.chat({ messages: [{ role: 'user', content }] })).status, 200)
})

t.test('a collector gets traces of each worker, and metrics and the log once', async (t) => {
  const to = await collector(t)
  const all = await gateway(t, { telemetry: { otlp: to.url, interval: '1s', timeout: '60s' } }, { workers: 2 })
  const asked = 16
  for (let i = 0; i < asked; i++) t.equal((await all.chat({ stream: i % 2 === 0 })).status, 200)
  const requests = (): number =>
    (to.metrics.get('sluice_requests_total')?.sum.points ?? []).reduce((sum: number, { value }: any) => sum + value, 0)
  const attempts = (): number =>
    (to.metrics.get('gen_ai.client.operation.duration')?.histogram.points ?? []).reduce(
      (sum: number, { count }: any) => sum + count,
      0
    )
  await eventually(() => to.spans.filter(({ kind }) => kind === 2).length === asked)
  await eventually(() => requests() === asked && attempts() === asked)
  // If others exported theirs too, they would take the place of these sums.
  for (let i = 0; i < 25; i++) {
    await sleep(100)
    if (requests() !== asked || attempts() !== asked) t.fail(`${requests()} requests, ${attempts()} attempts`)
  }
  t.equal(new Set(to.resources.map((resource) => resource['service.instance.id'])).size, 1, 'it is one gateway')
  const records = to.logs.filter(({ eventName }) => eventName === 'sluice.request')
  t.equal(new Set(records.map(({ body }) => JSON.parse(body.text).request_id)).size, asked)
  t.equal(records.length, asked)
  const lines = to.logs.flatMap(({ eventName, body }) => (eventName === '' || !eventName ? [body.text] : []))
  t.equal(new Set(lines).size, lines.length, 'no line of the log comes twice')
})

t.test('a credential is asked for once for all workers, and each has the next one in time', async (t) => {
  let n = 0
  const tokens = await tokenServer(t, () => ({ body: { access_token: `token-${++n}`, expires_in: 4 } }))
  const sent: string[] = []
  const upstream = await tokenServer(t, ({ headers }) => {
    sent.push(String(headers.authorization))
    const message = { role: 'assistant', content: 'Hi' }
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
    const common = { id: 'c', object: 'chat.completion', created: 1, model: 'm' }
    return { body: { ...common, choices: [{ index: 0, message, finish_reason: 'stop' }], usage } }
  })
  const all = await gateway(
    t,
    {
      channels: {
        demo: {
          protocol: 'openai',
          base_url: `${upstream.url}/v1`,
          private: true,
          models: { demo: 'm' },
          credential: { oauth2: { token_url: `${tokens.url}/token`, client_id: 'c', client_secret: 's' } }
        }
      }
    },
    { workers: 2 }
  )
  // It was renewed while the workers were started, too.
  const [began, before] = [performance.now(), n]
  const passed = (): number => performance.now() - began
  while (new Set(sent).size < 3 || passed() < 6000) {
    t.equal((await all.chat()).status, 200)
    await sleep(100)
  }
  // One is asked for when a third of its life is left: every 2.6 seconds, and not three times by three threads.
  t.ok(n - before <= 2 + passed() / 2400, `${n - before} in ${Math.round(passed())} ms`)
  t.equal(all.lines.filter(({ message }) => /credential/.test(message)).length, 0)
})

t.test('what a plugin keeps in its cache is found by all, as long as it is kept', async (t) => {
  const module = join(folder(t), 'counter.mjs')
  const contract = (name: string): string => JSON.stringify(join(import.meta.dirname, '../../../core/contract', name))
  writeFileSync(
    module,
    `import { definePlugin } from ${contract('contract.ts')}
    import { caller } from ${contract('slots.ts')}
    export default definePlugin({ name: 'counter', summary: 'Counts.', options: {}, needs: [caller], setup: (_, { cache, log }) => ({
      async onRequest(exchange) {
        const n = Number((await cache.get(exchange, 'n')) ?? 0) + 1
        await cache.set(exchange, 'n', Buffer.from(String(n)), 60_000)
        log.warn('it counted', { n })
        if (n === 8) await cache.delete(exchange, 'n')
      }
    }) })`
  )
  const chain = ['auth', 'counter', 'quota', 'ratelimit', 'route', 'protocol-translate', 'usage-meter']
  const overrides = { plugins: { counter: module }, chain: chain.map((name) => ({ [name]: {} })) }
  const all = await gateway(t, overrides, { workers: 2 })
  for (let i = 0; i < 24; i++) t.equal((await all.chat()).status, 200)
  const counted = (): any[] => all.lines.filter(({ message }) => message === 'it counted').map(({ fields }) => fields)
  await eventually(() => counted().length === 24)
  const times = (n: number): number => counted().filter((fields) => fields.n === n).length
  t.same([1, 2, 7, 8, 9].map(times), [3, 3, 3, 3, 0])
  t.equal(new Set(counted().map(({ worker }) => worker)).size, 2)
})

t.test('what a configuration has to say is said once, at the start and at a reload', async (t) => {
  const module = join(folder(t), 'talker.mjs')
  const contract = JSON.stringify(join(import.meta.dirname, '../../../core/contract/contract.ts'))
  writeFileSync(
    module,
    `import { definePlugin } from ${contract}
    export default definePlugin({ name: 'talker', summary: 'Says something.', options: {}, setup: (_, { log }) => {
      log.warn('it was set up')
      return { onRequest: () => log.warn('it was asked') }
    } })`
  )
  const chain = ['talker', 'auth', 'quota', 'ratelimit', 'route', 'protocol-translate', 'usage-meter']
  const overrides = { plugins: { talker: module }, chain: chain.map((name) => ({ [name]: {} })) }
  const all = await gateway(t, overrides, { workers: 2 })
  const said = (what: string): number => all.lines.filter(({ message }) => message === what).length
  t.equal(said('it was set up'), 1)
  await all.chat()
  await eventually(() => said('it was asked') === 1)
  all.configure({ ...overrides, models: { demo: { price: { input: 1, output: 2 } } } })
  t.match(await all.gateway.reload('a test'), { ok: true })
  t.equal(said('it was set up'), 2)
})

t.test('lines of requests on standard output are whole, in order for each worker, and none is lost', async (t) => {
  const home = folder(t)
  const file = join(home, 'gateway.yaml')
  const container = JSON.stringify(new URL('../../../core/container.ts', import.meta.url).href)
  const asked = 400
  const program = join(home, 'program.mjs')
  // A process of its own, as standard output is one of a process.
  writeFileSync(
    program,
    `import { startGateway } from ${container}
    const all = await startGateway({ config: ${JSON.stringify(file)}, workers: 2 })
    const headers = { authorization: 'Bearer ${testKey}', 'content-type': 'application/json' }
    const body = JSON.stringify({ model: 'demo', messages: [{ role: 'user', content: 'Hi' }] })
    let left = ${asked}
    const lane = async () => {
      while (left-- > 0) await (await fetch(all.url + '/v1/chat/completions', { method: 'POST', headers, body })).text()
    }
    await Promise.all([1, 2, 3, 4, 5, 6, 7, 8].map(lane))
    await all.close({ drain: true })
    process.exit()`
  )
  writeFileSync(
    file,
    JSON.stringify({
      listen: { port: 0 },
      admin: false,
      store: { sqlite: join(home, 'sluice.db'), durability: 'process' },
      channels: { demo: { protocol: 'simulator', models: { demo: 'demo' } } },
      models: { demo: { price: 'free' } },
      tenants: { acme: {} },
      keys: [{ name: 'test', key: testKey, tenant: 'acme' }],
      chain: ['auth', 'quota', 'ratelimit', 'route', 'protocol-translate', 'usage-meter', 'log'].map((name) => ({
        [name]: {}
      }))
    })
  )
  const child = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => child.kill('SIGKILL'))
  let [output, errors] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (piece: string) => (output += piece))
  child.stderr.setEncoding('utf8').on('data', (piece: string) => (errors += piece))
  t.same((await once(child, 'close'))[0], 0, errors)
  const records = output
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { request_id: string; status: number })
  t.equal(records.length, asked)
  t.equal(new Set(records.map(({ request_id: id }) => id)).size, asked)
  t.ok(records.every(({ status }) => status === 200))
})
