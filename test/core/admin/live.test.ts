// The live stream of the admin API, on real sockets: what it says, to whom, and what becomes of those who read slowly.
import { PassThrough, Writable } from 'node:stream'
import t from 'tap'
import type { Test } from 'tap'
import { Audience } from '../../../core/admin/live/audience.ts'
import { Live } from '../../../core/admin/live/live.ts'
import { streamOf } from '../../../core/admin/live/stream.ts'
import { ask, connect } from '../../kit/client.ts'
import type { Client } from '../../kit/client.ts'
import { gateway } from '../../kit/gateway.ts'
import type { LocalGateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { readEvents } from '../../kit/sse.ts'

const owner = 'the token of the owner'
const path = '/admin/v1/live'

/** A stream that somebody watches. */
interface Watched {
  client: Client
  /** The events so far. */
  events(): { event: string; id: string; data: any }[]
  of(name: string): any[]
}

async function watch(
  t: Test,
  { adminUrl }: Pick<LocalGateway, 'adminUrl'>,
  { token, query = '', last }: { token?: string; query?: string; last?: string } = {}
): Promise<Watched> {
  const client = await connect(t, adminUrl)
  client.send({
    path: path + query,
    headers: {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(last !== undefined && { 'last-event-id': last })
    }
  })
  const head = await client.head()
  t.equal(head.start[1], '200')
  t.match(head.headers, {
    'content-type': 'text/event-stream',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no'
  })
  const events = (): { event: string; id: string; data: any }[] =>
    readEvents(bodyOf(client)).map(({ event = '', id = '', data }) => ({ event, id, data: JSON.parse(data) }))
  return { client, events, of: (name) => events().flatMap(({ event, data }) => (event === name ? [data] : [])) }
}

/** What has come of a body in chunks. */
function bodyOf({ reads }: Client): string {
  const text = Buffer.concat(reads.map(({ bytes }) => bytes)).toString()
  const body = text.slice(text.indexOf('\r\n\r\n') + 4)
  let out = ''
  for (let at = 0; ;) {
    const line = body.indexOf('\r\n', at)
    if (line < 0) break
    const length = parseInt(body.slice(at, line), 16)
    // Ends in the middle of a chunk are left for the next time; all text of these streams is ASCII.
    if (!(length > 0) || body.length < line + 2 + length + 2) break
    out += body.slice(line + 2, line + 2 + length)
    at = line + 2 + length + 2
  }
  return out.slice(0, out.lastIndexOf('\n\n') + 2)
}

const sum = (ticks: any[], member: string): number => ticks.reduce((all, tick) => all + Number(tick[member]), 0)

t.test('ticks add up to what happened', async (t) => {
  const local = await gateway(t)
  const { of } = await watch(t, local)
  await eventually(() => of('tick').length > 0, 10_000)
  for (let i = 0; i < 3; i++) await local.chat()
  const refused = await local.chat({ model: 'none' })
  t.equal(refused.status, 404)
  await eventually(() => sum(of('tick'), 'requests') === 4, 10_000)
  const ticks = of('tick')
  const { data } = await local.admin('/admin/v1/requests')
  t.equal(sum(ticks, 'cost_nano'), sum(data, 'cost_nano'))
  t.equal(sum(ticks, 'errors'), 1)
  t.same(
    ticks.map(({ codes }) => codes).filter((codes) => codes.model_not_found),
    [{ model_not_found: 1 }]
  )
  t.equal(
    sum(ticks, 'output_tokens'),
    data.reduce((all: number, { usage }: any) => all + (usage?.output ?? 0), 0)
  )
  t.ok(ticks.some((tick) => tick.first_event_p50_ms > 0 && tick.first_event_p95_ms >= tick.first_event_p50_ms))
  t.ok(ticks.every((tick) => tick.ms > 0 && !Number.isNaN(Date.parse(tick.at))))
})

t.test('requests are shown one by one, and at most twenty a second', async (t) => {
  const local = await gateway(t)
  const { of } = await watch(t, local, { query: '?topics=requests' })
  t.same(of('tick'), [], 'figures were not asked for')
  await local.chat()
  await eventually(() => of('requests').length > 0, 10_000)
  const [{ rows, skipped }] = of('requests')
  t.match(rows, [{ tenant: 'acme', key: 'test', model: 'demo', channel: 'demo', status: 200, outcome: 'completed' }])
  t.equal(skipped, 0)
  await Promise.all(Array.from({ length: 60 }, () => local.chat()))
  const shown = (): any[] => of('requests').flatMap(({ rows }) => rows)
  const all = (): number => shown().length + sum(of('requests'), 'skipped')
  await eventually(() => all() === 61, 20_000)
  t.ok(of('requests').every(({ rows }) => rows.length <= 20))
  t.equal(new Set(shown().map(({ request_id }) => request_id)).size, shown().length)
})

t.test('who comes back gets what was missed, and is told when that is not known', async (t) => {
  const local = await gateway(t)
  const first = await watch(t, local)
  await eventually(() => first.of('tick').length >= 2, 10_000)
  const last = first.events().findLast(({ event }) => event === 'tick')!.id
  first.client.close()
  await local.chat()
  const { epoch, number } = partsOf(last)
  const second = await watch(t, local, { last })
  await eventually(() => sum(second.of('tick'), 'requests') === 1, 10_000)
  t.same(second.of('reset'), [], 'nothing is loaded anew')
  const numbers = second.events().map(({ id }) => partsOf(id).number)
  t.same(
    numbers,
    numbers.map((_, place) => number + 1 + place),
    'no event is left out or twice'
  )
  for (const unknown of [`${epoch}-999999`, '00000000-1', 'nonsense']) {
    const other = await watch(t, local, { last: unknown })
    await eventually(() => other.of('reset').length === 1, 10_000)
    other.client.close()
    await eventually(async () => (await poll(t, local, 'x')).reset)
  }
})

function partsOf(id: string): { epoch: string; number: number } {
  const [epoch = '', number] = id.split('-')
  return { epoch, number: Number(number) }
}

async function poll(t: Test, { adminUrl }: LocalGateway, since: string, token?: string): Promise<any> {
  const reply = await ask(t, adminUrl, {
    path: `${path}?since=${since}`,
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` }
  })
  t.equal(reply.status, 200)
  return reply.json()
}

t.test('the same is there for those who ask again and again', async (t) => {
  const local = await gateway(t)
  const begun = await poll(t, local, '0')
  t.match(begun, { reset: true, data: [] })
  await local.chat()
  let { next } = begun
  let requests = 0
  await eventually(async () => {
    const answer = await poll(t, local, next)
    t.equal(answer.reset, false)
    requests += sum(
      answer.data.map(({ data }: any) => data),
      'requests'
    )
    next = answer.next
    return requests === 1
  }, 10_000)
})

t.test('actors of a tenant are shown that tenant alone', async (t) => {
  const key = 'sk-zeta-000000000000000000000000'
  const local = await gateway(t, {
    admin: { token: owner },
    tenants: { zeta: {} },
    keys: [
      { name: 'test', key: 'sk-test-000000000000000000000000', tenant: 'acme' },
      { name: 'zeta', key, tenant: 'zeta' }
    ]
  })
  const made = await ask(t, local.adminUrl, {
    path: '/admin/v1/operators',
    headers: { authorization: `Bearer ${owner}` },
    body: { name: 'va', role: 'viewer', tenant: 'acme' }
  })
  const { token } = made.json()
  const own = await watch(t, local, { token, query: '?topics=overview,requests,troubles' })
  const all = await watch(t, local, { token: owner, query: '?topics=overview,requests' })
  await local.chat()
  await local.ask({
    path: '/v1/chat/completions',
    headers: { authorization: `Bearer ${key}` },
    body: { model: 'demo', messages: [{ role: 'user', content: 'Hi' }] }
  })
  await eventually(() => sum(all.of('tick'), 'requests') === 2 && sum(own.of('tick'), 'requests') === 1, 20_000)
  const rows = own.of('requests').flatMap(({ rows }) => rows)
  t.match(rows, [{ tenant: 'acme' }])
  t.equal(rows.length, 1)
  t.notOk('channel' in rows[0], 'how the gateway is set up is not told')
  for (const query of ['?tenant=zeta', '?topics=config', '?tenant=zeta&since=0']) {
    const reply = await ask(t, local.adminUrl, { path: path + query, headers: { authorization: `Bearer ${token}` } })
    t.match([reply.status, reply.json()], [403, { error: { code: 'role_not_allowed' } }], query)
  }
  const revoked = await ask(t, local.adminUrl, {
    method: 'DELETE',
    path: '/admin/v1/operators/va',
    headers: { authorization: `Bearer ${owner}` }
  })
  t.equal(revoked.status, 200)
  await eventually(() => own.of('end').length === 1, 20_000)
  t.same(own.of('end'), [{ why: 'signed_out' }])
  t.equal(all.of('end').length, 0)
})

t.test('a reader who takes nothing is kept the newest only, and is given up', async (t) => {
  const audience = new Audience(null, { troubles: () => undefined, config: () => undefined })
  audience.want(['overview'], Infinity)
  const written: string[] = []
  let take: (() => void) | undefined
  const to = new Writable({
    highWaterMark: 2000,
    decodeStrings: false,
    write(text, _, done) {
      written.push(text)
      take = done
    }
  })
  const left = Promise.withResolvers<void>()
  const flow = streamOf(audience, new Set(['overview']), '', () => left.resolve())
  const running = flow(to, new AbortController().signal)
  const now = performance.now()
  for (let i = 1; i <= 1000; i++) audience.tick(now)
  t.ok(to.writableLength < 4000, `${to.writableLength} bytes wait`)
  while (take) {
    const done: () => void = take
    take = undefined
    done()
    await new Promise((resolve) => setImmediate(resolve))
  }
  const [missed, newest] = readEvents(written.join('')).slice(-2)
  t.equal(missed!.event, 'missed')
  t.match([newest!.event, newest!.id], ['tick', audience.id], 'the newest comes when there is room')
  const ticks = readEvents(written.join('')).filter(({ event }) => event === 'tick')
  t.equal(ticks.length + JSON.parse(missed!.data).events, 1000)
  take = undefined
  for (let i = 1; i <= 100; i++) audience.tick(now)
  audience.tick(performance.now() + 31_000)
  await running
  await left.promise
  t.ok(to.destroyed)
})

t.test('a stream with nothing to say is shown to be alive', async (t) => {
  const audience = new Audience(null, { troubles: () => undefined, config: () => undefined })
  const to = new PassThrough()
  const ending = new AbortController()
  const running = streamOf(audience, new Set(['requests']), '', () => {})(to, ending.signal)
  audience.tick(performance.now() + 1000)
  t.notMatch(String(to.read()), /^:/m)
  audience.tick(performance.now() + 15_001)
  t.equal(String(to.read()), ': \n\n')
  ending.abort('gone')
  await running
})

t.test('what is kept for those who come back is bounded', (t) => {
  const audience = new Audience(null, { troubles: () => undefined, config: () => undefined })
  audience.want(['overview'], Infinity)
  const first = audience.id
  for (let i = 0; i < 5000; i++) audience.tick(performance.now())
  t.equal(audience.after(first), undefined)
  const kept = audience.after(`${audience.epoch}-4900`)!
  t.equal(kept.length, 100)
  t.equal(audience.after(`${audience.epoch}-3000`), undefined)
  t.end()
})

t.test('nothing is counted, and no timer runs, while nobody watches', async (t) => {
  let listening = 0
  const live = new Live({
    listen: () => {
      listening++
      return () => void listening--
    }
  })
  t.equal(listening, 0)
  const by = { kind: 'local', id: 'test', address: null, role: 'owner', tenant: null } as const
  const sights = { troubles: () => undefined, config: () => undefined }
  live.poll({ by, tenant: null, topics: new Set(['overview']) }, '0', sights)
  t.equal(listening, 1)
  live.close()
  t.equal(listening, 0)
})

t.test('streams are bounded, and asked for again later', async (t) => {
  const local = await gateway(t)
  const streams = []
  for (let i = 0; i < 4; i++) streams.push(await watch(t, local))
  const refused = await ask(t, local.adminUrl, { path })
  t.match([refused.status, refused.json()], [429, { error: { code: 'too_many_streams' } }])
  t.ok(Number(refused.headers['retry-after']) > 0)
  streams[0]!.client.close()
  await eventually(async () => {
    const client = await connect(t, local.adminUrl)
    const { start } = await client.send({ path }).head()
    client.close()
    return start[1] === '200'
  }, 10_000)
})

t.test('the end of the listener is said', async (t) => {
  const local = await gateway(t)
  const { client, of } = await watch(t, local)
  await local.gateway.close()
  await client.closed
  t.same(of('end'), [{ why: 'stopping' }])
})

t.test('what cannot be asked for is refused with a word', async (t) => {
  const local = await gateway(t)
  const reply = await ask(t, local.adminUrl, { path: `${path}?topics=weather` })
  t.equal(reply.status, 400)
  t.match(reply.json().error, { param: 'topics', message: /overview, requests, troubles, config/ })
})

t.test('the configuration is told when it changes', async (t) => {
  const local = await gateway(t)
  const { of } = await watch(t, local, { query: '?topics=config' })
  await eventually(() => of('config').length > 0, 10_000)
  const [{ hash }] = of('config')
  local.configure({ tenants: { other: {} } })
  t.equal((await ask(t, local.adminUrl, { method: 'POST', path: '/admin/v1/reload' })).status, 200)
  await eventually(() => of('config').some((one) => one.hash !== hash), 20_000)
})
