// Gateways of several workers that share a store: one gateway each to clients and operators, whose workers are nodes of
// their own in PostgreSQL and Redis.
import { get } from 'node:http'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { child, stoppedAt } from '../core/handover/scene.ts'
import { askOn, lanes } from '../core/workers/lanes.ts'
import { connect } from '../kit/client.ts'
import type { Client } from '../kit/client.ts'
import { brokenIn } from '../kit/cluster-money.ts'
import { askPatiently, Fleet, fleetMissing } from '../kit/fleet.ts'
import { testKey } from '../kit/gateway.ts'
import type { LocalGateway, Overrides, TestGateway } from '../kit/gateway.ts'
import { Installation, nodesMissing } from '../kit/nodes.ts'
import { nanoCost } from '../kit/oracle.ts'
import { eventually } from '../kit/probe.ts'
import { PlannedUpstream } from '../money/planned.ts'
import { withWorkers } from '../money/process.ts'
import { ask, configOf, folder, inParallel, key, prices, secretOf } from '../money/rig.ts'
import type { Seen } from '../money/rig.ts'

t.setTimeout(900_000)
const skip = nodesMissing
const patience = 120_000

const folderOfWorkers = join(import.meta.dirname, '../core/workers')
const chainOf = (...first: readonly string[]): object[] => [
  ...[...first, 'auth', 'quota', 'ratelimit', 'route', 'protocol-translate', 'usage-meter'].map((name) => ({
    [name]: {}
  })),
  { log: { sink: 'none' } }
]
/** Answers say which worker has made them, and `x-bomb` ends one. */
const named: Overrides = {
  workers: 2,
  plugins: { named: join(folderOfWorkers, 'named.ts'), bomb: join(folderOfWorkers, 'bomb.ts') },
  chain: chainOf('named', 'bomb')
}

const directive = (members: object): string => `Tell me. [[simulator ${JSON.stringify(members)}]]`
const said = (members: object): object => ({
  model: 'demo',
  messages: [{ role: 'user', content: directive(members) }]
})

/** The answers to so many questions, each on a connection of its own: they come to all workers. */
async function statuses(all: TestGateway, credential = testKey, model?: string): Promise<number[]> {
  const found = new Set<number>()
  for (let i = 0; i < 12; i++) {
    const headers = { authorization: `Bearer ${credential}` }
    const asked = model === undefined ? { path: '/v1/models', method: 'GET' } : { path: '/v1/chat/completions' }
    const body = model === undefined ? {} : { body: { ...said({ text: 'Hi' }), model } }
    found.add((await all.ask({ ...asked, ...body, headers })).status)
  }
  return [...found]
}

async function change({ adminUrl }: TestGateway, method: string, path: string, body?: object): Promise<any> {
  const reply = await fetch(`${adminUrl}/admin/v1/${path}`, {
    method,
    ...(body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
  })
  const text = await reply.text()
  if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${text}`)
  return text === '' ? undefined : JSON.parse(text)
}

t.test('to operators a gateway of workers is one of those that share the store', { skip }, async (t) => {
  const all = await Installation.make(t)
  const [many, one] = [await all.node({ workers: 2 }), await all.node()]

  await t.test('it is one gateway with so many workers, and its metrics are those of all', async (t) => {
    const shown = async (by: LocalGateway): Promise<string[]> =>
      (await by.admin('/admin/v1/config')).nodes.map(({ own, workers }: any) => `${own ? 'own' : 'other'} ${workers}`)
    // Each looks for the others every few seconds.
    await eventually(async () => (await shown(one)).sort().join() === 'other 2,own 0')
    await eventually(async () => (await shown(many)).sort().join() === 'other 0,own 2')
    const replies = await inParallel(24, 6, (i) => many.chat({ stream: i % 3 === 0 }))
    t.ok(replies.every(({ status }) => status === 200))
    for (const reply of replies) t.match(await one.record(reply), { status: 200, tenant: 'acme' })
    await eventually(async () => {
      const text = await (await fetch(`${many.adminUrl}/metrics`)).text()
      return /^sluice_requests_total\{.*\} 24$/m.test(text) && /^sluice_store_nodes 2$/m.test(text)
    })
    t.match(await many.admin('/readyz'), { status: 'ok' })
    t.same(
      [...new Set((await all.sql('select node from sluice.journal')).map(({ node }) => /\/\d$/.test(node)))],
      [true],
      'each worker charges what it has served'
    )
  })

  await t.test('what workers have charged is in the spend and the log when an operator asks', async (t) => {
    for (let i = 0; i < 6; i++) {
      const { 'x-request-id': id } = (await many.chat()).headers
      t.equal((await many.admin(`/admin/v1/requests?request_id=${id}`)).data.length, 1, 'its record is there at once')
    }
    t.match((await many.admin('/admin/v1/spend?by=model')).data, [{ requests: 30 }])
  })

  await t.test('a key is known to all workers, and revoked at all, when the operator is answered', async (t) => {
    for (const [name, by] of [
      ['fresh', many],
      ['other', one]
    ] as const) {
      const { key } = await change(by, 'POST', 'keys', { name, tenant: 'acme' })
      // What another gateway does is known a moment later.
      const known = async (): Promise<boolean> =>
        (await many.admin('/admin/v1/keys')).data.some((one: any) => one.name === name)
      if (by === one) await eventually(async () => (await known()) && (await statuses(many, key)).join() === '200')
      t.same(await statuses(many, key), [200])
      await change(many, 'DELETE', `keys/${name}`)
      t.same(await statuses(many, key), [401])
    }
  })

  await t.test('the live stream hears of requests of all workers, and of none twice', async (t) => {
    let text = ''
    const live = get(`${many.adminUrl}/admin/v1/live?topics=requests`, (response) =>
      response.setEncoding('utf8').on('data', (piece: string) => (text += piece))
    )
    live.on('error', () => {})
    t.teardown(() => live.destroy())
    await eventually(() => text.includes('event: reset'))
    const replies = await inParallel(12, 3, () => many.chat())
    const ids = replies.map(({ headers }) => headers['x-request-id']!)
    await eventually(() => ids.every((id) => text.includes(id)))
    for (const id of ids) t.equal(text.split(`"request_id":"${id}"`).length, 2, 'once')
  })
})

t.test('a threshold of a budget is told once, whichever worker has reached it', { skip }, async (t) => {
  const all = await Installation.make(t, {
    models: { demo: { price: { input: 1, output: 1 } } },
    tenants: { acme: { budget: { usd: '0.01', per: 'total', alerts: [1, 2] } } }
  })
  const many = await all.node({ workers: 2 })
  const told = (): unknown[] =>
    many.lines.flatMap(({ message, fields }) =>
      message === 'a budget has reached a threshold' ? (fields['threshold'] as number) : []
    )
  const replies = await inParallel(20, 4, () => many.chat({ max_tokens: 100 }))
  t.ok(replies.every(({ status }) => status === 200))
  await eventually(() => told().length >= 2)
  for (let i = 0; i < 6; i++) await many.chat({ max_tokens: 100 })
  const found = told()
  t.equal(new Set(found).size, found.length, String(found))
})

t.test('a change of the files reaches all workers or none', { skip }, async (t) => {
  const module = join(folder(t), 'second.mjs')
  const contract = JSON.stringify(join(import.meta.dirname, '../../core/contract/contract.ts'))
  writeFileSync(
    module,
    `import { threadName } from 'node:worker_threads'
    import { definePlugin } from ${contract}
    export default definePlugin({ name: 'second', summary: 'Fails in the second one.', options: {}, setup() {
      if (threadName === 'worker 2') throw new Error('it has no room')
      return {}
    } })`
  )
  const all = await Installation.make(t)
  const many = await all.node({ workers: 2 })
  const { file } = many
  const store = { store: all.store(join(file, '..', 'own')), workers: 2 }
  const more = { models: { demo: { price: { input: 1, output: 2 } }, other: { alias: 'demo' } } }
  t.same(await statuses(many, testKey, 'other'), [404])
  many.configure({ ...store, ...more, plugins: { second: module }, chain: chainOf('second') })
  t.match(await many.gateway.reload('a test'), { ok: false })
  t.same(await statuses(many, testKey, 'other'), [404])
  many.configure({ ...store, ...more })
  t.match(await many.gateway.reload('a test'), { ok: true })
  t.same(await statuses(many, testKey, 'other'), [200])
})

t.test('connections that PostgreSQL has no room for are asked for before any worker starts', { skip }, async (t) => {
  const all = await Installation.make(t)
  await t.rejects(all.node({ workers: 64 }), {
    message: /it needs 392, which makes .*: raise .* have fewer workers, or/
  })
})

/** Two connections to one worker, and one to the other. */
async function threeLanes(t: Test, all: LocalGateway): Promise<[one: Client, same: Client, other: Client]> {
  const [one, other] = (await lanes(t, all)) as [Client, Client]
  const thread = one.replies[0]!.headers['x-thread']
  for (;;) {
    const client = await connect(t, all.url)
    const { headers } = await askOn(client, { path: '/v1/models' })
    if (headers['x-thread'] === thread) return [one, client, other]
    client.close()
  }
}

t.test('a worker that ends is brought home at once, and replaced, while the other serves', { skip }, async (t) => {
  const all = await Installation.make(t, {
    ...named,
    models: { demo: { price: { input: 1, output: 2, second: 3 } } },
    tenants: { acme: { budget: { usd: 1000, per: 'month' } } },
    keys: [{ name: 'test', key: testKey, tenant: 'acme', limits: { concurrency: 2 } }],
    tasks: { poll: { first: '100ms', most: '1s' } }
  })
  const many = await all.node()
  const [one, same, other] = await threeLanes(t, many)
  const chat = { path: '/v1/chat/completions' }

  // A task of the one, and a request that it does not end.
  const video = '/v1/video/generations'
  const begun = await askOn(one, { path: video, body: { model: 'demo', prompt: directive({ work_ms: 1000 }) } })
  t.equal(begun.status, 202, begun.text)
  one.send({
    ...chat,
    headers: { authorization: `Bearer ${testKey}` },
    body: said({ first_byte_ms: 600_000 })
  })
  const holds = (): Promise<any[]> => all.sql('select node from sluice.hold where lease_until is null')
  await eventually(async () => (await holds()).length === 1)
  const [{ node }] = (await holds()) as [{ node: string }]
  t.match(node, /^node-[0-9a-f]{16}\/[12]$/)
  const slots = async (): Promise<number> =>
    Number(await all.redis.run(['ZCARD', 'sluice:{tenant:acme}:slots:key:test']))
  t.equal(await slots(), 1)

  same.send({ ...chat, headers: { authorization: `Bearer ${testKey}`, 'x-bomb': 'request exit' }, body: said({}) })
  await same.closed
  t.equal((await askOn(other, { ...chat, body: said({ text: 'Hi' }) })).status, 200, 'the other serves')
  await eventually(() => many.lines.some(({ message }) => /serves in the place/.test(message)), patience)
  t.same(await holds(), [], 'its hold has ended')
  t.equal(await slots(), 0, 'its slot is free')
  const ends = await all.sql(
    `select node, source from sluice.journal where class = 'terminal' and source <> 'upstream'`
  )
  t.match(ends, [{ node }], 'it was ended as its own, by estimate, and not taken over by another one')
  const [{ epoch }] = (await all.sql(`select epoch from sluice.node where name = '${node}'`)) as [{ epoch: number }]
  t.ok(epoch >= 3, `the supervisor has joined as it, and the next one: ${epoch}`)
  t.notOk(
    many.lines.some(({ message }) => /could not be brought home/.test(message)),
    'nothing failed'
  )
  t.match(await many.admin('/readyz'), { status: 'ok' })
  const places = (await many.admin('/admin/v1/workers')).data
  t.same(places.map(({ ends }: { ends: number }) => ends).sort(), [0, 1])
  const [again] = await lanes(t, many)
  await eventually(async () => {
    const seen = await askOn(again!, { method: 'GET', path: `${video}/${begun.json().id}` })
    return seen.json().status === 'succeeded'
  }, patience)
  await eventually(async () => (await all.sql('select from sluice.hold')).length === 0, patience)
  t.same(await brokenIn(all.database), [], 'the book is in order')
})

const units = { input: 10, output: 5 }
const cost = nanoCost(units, prices['plain']!)
const kills = process.env['SLUICE_LONG'] === undefined ? 3 : 30

t.test('workers that are killed under load lose no charge, and double none', { skip: fleetMissing }, async (t) => {
  const upstream = await PlannedUpstream.start(t)
  const slots = 50
  const fleet = await Fleet.start(t, {
    nodes: 2,
    config: configOf([upstream], {
      tenants: { acme: { budget: { usd: 1_000_000, per: 'month' } } },
      keys: [key('test', { limits: { rpm: 1_000_000, concurrency: slots } })]
    }),
    launch: () => withWorkers(2)
  })
  const seen: Seen[] = []
  let over = false
  let made = 0
  const load = inParallel(6, 6, async (lane) => {
    while (!over) {
      const plan = { id: `w${++made}`, units, words: 3 }
      seen.push(await askPatiently(fleet.nodes[lane % 2]!.url, plan, { body: { max_tokens: 9 }, stream: lane > 2 }))
      // Clients that never pause would do nothing but take the processors.
      await sleep(10)
    }
  })
  const ends = (index: number): number =>
    fleet.nodes[index]!.output.match(/serves in the place of one that had ended/g)?.length ?? 0
  for (let kill = 0; kill < kills; kill++) {
    const [index, before, had] = [kill % 2, seen.length, ends(kill % 2)]
    await eventually(() => seen.length > before + 10, patience)
    fleet.nodes[index]!.signal('SIGHUP')
    await eventually(() => ends(index) > had, patience)
  }
  over = true
  await load
  await fleet.noHolds(patience)
  const charges = Map.groupBy(
    (await fleet.journal()).filter((entry) => entry.class === 'terminal'),
    ({ request_id }) => request_id
  )
  const answered = seen.filter(({ ended }) => ended)
  t.ok(answered.length > 0)
  t.same(
    answered.filter(({ id }) => charges.get(id!)?.length !== 1 || charges.get(id!)![0]!.amount !== cost).slice(0, 3),
    [],
    'whose end was seen is charged once'
  )
  t.same([...charges.values()].filter((all) => all.length > 1).slice(0, 3), [], 'nothing is charged twice')
  await eventually(async () => Object.keys(await fleet.slots()).length === 0, patience)
  t.same(await brokenIn(fleet.direct), [], 'the book is in order')
})

t.test(
  'workers that end while PostgreSQL is away lose no charge, and are replaced when it is back',
  { skip },
  async (t) => {
    const upstream = await PlannedUpstream.start(t)
    const gate = Promise.withResolvers<void>()
    upstream.gate = gate.promise
    const fleet = await Fleet.start(t, { nodes: 1, config: configOf([upstream]), launch: () => withWorkers(2) })
    const [node] = fleet.nodes as [(typeof fleet.nodes)[number]]
    const asked = inParallel(8, 8, (i) => ask(node.url, { id: `a${i}`, units, words: 3 }))
    await eventually(() => upstream.count === 8)
    await eventually(async () => (await fleet.sql('select from sluice.hold')).length === 8)
    await fleet.postgres.stop('QUIT')
    gate.resolve()
    const seen = await asked
    t.ok(
      seen.every(({ ended }) => ended),
      'their ends are in the logs of the workers'
    )
    for (const number of [1, 2]) {
      const ended = new RegExp(`a worker has ended[^\\n]*"worker":${number}`)
      await eventually(async () => {
        if (!ended.test(node.output)) node.signal('SIGHUP')
        await sleep(200)
        return ended.test(node.output)
      }, patience)
    }
    await fleet.postgres.resume()
    await eventually(async () => (await node.admin('/readyz')).status === 200, patience)
    t.equal((await askPatiently(node.url, { id: 'after', units, words: 3 })).status, 200)
    await fleet.noHolds(patience)
    const charges = Map.groupBy(
      (await fleet.journal()).filter((entry) => entry.class === 'terminal'),
      ({ request_id }) => request_id
    )
    t.same(
      seen.filter(({ id }) => charges.get(id!)?.length !== 1 || charges.get(id!)![0]!.source !== 'upstream'),
      [],
      'each is charged once, for what it came to'
    )
    t.same(await brokenIn(fleet.direct), [], 'the book is in order')
  }
)

t.test('a worker that hangs is ended, and replaced', { skip }, async (t) => {
  const all = await Installation.make(t, named)
  const many = await all.node()
  const [one] = await lanes(t, many)
  one!.send({
    path: '/v1/chat/completions',
    headers: { authorization: `Bearer ${testKey}`, 'x-bomb': 'request hang' },
    body: said({})
  })
  await eventually(() => many.lines.some(({ message }) => /a worker hangs: it is ended/.test(message)), patience)
  await eventually(() => many.lines.some(({ message }) => /serves in the place/.test(message)), patience)
  t.match(await many.admin('/readyz'), { status: 'ok' })
})

t.test('a gateway of workers hands over to another one, and serves on when that cannot start', { skip }, async (t) => {
  const upstream = await PlannedUpstream.start(t)
  const gate = Promise.withResolvers<void>()
  upstream.gate = gate.promise
  const all = await Installation.make(t, { ...configOf([upstream]), limits: { drain_timeout: '300s' } })
  const many = await all.process({ workers: 2 })
  const store = { store: all.store(join(many.file, '..', 'own')) }
  const asked = inParallel(8, 8, (i) => ask(many.url, { id: `u${i}`, units, words: 3 }, { stream: i % 2 === 0 }))
  await eventually(() => upstream.count === 8)
  const upgrade = (): Promise<any> => change(many, 'POST', 'upgrade').catch(({ message }) => ({ message }))

  many.configure({ ...store, workers: 2, chain: [{ 'no such stage': {} }] })
  t.match(await upgrade(), { message: /no such stage/ })
  t.same(await statuses(many, secretOf('test')), [200], 'it serves on')

  many.configure({ ...configOf([upstream]), ...store, workers: 3 })
  t.match(await upgrade(), { ok: true, generation: 2 })
  t.same(await statuses(many, secretOf('test')), [200], 'the next one serves')
  t.equal((await many.admin('/admin/v1/workers')).data.length, 3)
  gate.resolve()
  const seen = await asked
  t.ok(seen.every(({ ended }) => ended, 'what the first one had begun is answered'))
  t.same(await many.exited, { code: 0, signal: null })
  const journal = await all.sql(`select request_id, amount from sluice.journal where class = 'terminal'`)
  t.same(
    journal.map(({ amount }) => BigInt(amount)),
    seen.map(() => cost),
    'and charged once'
  )
  t.same(await all.sql('select from sluice.hold'), [])
  t.same(await brokenIn(all.database), [], 'the book is in order')
})

t.test('a next process that is killed before it serves leaves everything as it was', { skip }, async (t) => {
  const all = await Installation.make(t)
  const scene = await stoppedAt(t, 'waits with the store', { workers: 2, store: all.store(join(folder(t), 'own')) })
  const { running, client, goOn } = scene
  process.kill(await child(t, scene), 'SIGKILL')
  await eventually(() => running.output().includes('could not take the place of this one, which serves on'), patience)
  t.same(await statuses(running), [200])
  // Workers are asked about changes again.
  t.match(await change(running, 'POST', 'reload'), { ok: true })
  goOn()
  t.match((await client.reply()).text, /\[DONE\]/)
  client.socket.end()
  running.process.kill('SIGTERM')
  t.same(await running.exited, { code: 0, signal: null })
  t.same(await all.sql('select from sluice.hold'), [])
  t.same(await brokenIn(all.database), [], 'the book is in order')
})
