// Upstreams and clients that do what they should not in a session: every turn has one end, and nothing stays held.
import { connect as dial } from 'node:net'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { verify } from '../../core/store/embedded/care/verify/verify.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually, settled } from '../kit/probe.ts'
import { openRealtime } from '../kit/realtime.ts'
import type { RealtimeClient } from '../kit/realtime.ts'
import { frameBytes, sessionsAt, socketUpstream } from '../kit/socket-upstream.ts'
import type { SocketUpstream } from '../kit/socket-upstream.ts'

const usage = (input: number, output: number): object => ({
  total_tokens: input + output,
  input_tokens: input,
  output_tokens: output,
  input_token_details: { text_tokens: input },
  output_token_details: { text_tokens: output }
})
const created = (id: string | undefined): string =>
  JSON.stringify({ type: 'response.created', response: { id, object: 'realtime.response', status: 'in_progress' } })
const done = (id: string | undefined, input: number, output: number, status = 'completed'): string =>
  JSON.stringify({
    type: 'response.done',
    response: { id, object: 'realtime.response', status, output: [], usage: usage(input, output) }
  })
const cost = (input: number, output: number): string => String(input * 1000 + output * 2000)

/** A session whose upstream the test writes. */
async function open(
  t: Test,
  more: Record<string, unknown> = {}
): Promise<{
  running: LocalGateway
  upstream: SocketUpstream
  client: RealtimeClient
  database: string
  say(...frames: string[]): void
  heard(type: string): number
  hears(type: string, n?: number): Promise<void>
}> {
  const upstream = await socketUpstream(t)
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const database = join(folder, 'sluice.db')
  const running = await gateway(t, { ...sessionsAt(upstream), store: { sqlite: database }, ...more })
  const client = await openRealtime(t, running)
  const { socket } = await upstream.peer()
  const frames: string[] = []
  socket!.on('message', (data) => void frames.push(String(data)))
  const heard = (type: string): number => frames.filter((frame) => frame.includes(`"${type}"`)).length
  return {
    running,
    upstream,
    client,
    database,
    say: (...said) => {
      for (const frame of said) socket!.send(frame)
    },
    heard,
    hears: (type, n = 1) => eventually(() => heard(type) >= n)
  }
}

/** What the session came to when it is over: its cost, with nothing held. */
async function costOf(t: Test, { running, client, database }: Awaited<ReturnType<typeof open>>): Promise<any> {
  const record = await running.record({ headers: client.headers as Record<string, string> })
  await settled(t, running)
  await running.gateway.close()
  t.same(verify(database), [], 'the book is in order')
  return record
}

const ask = { type: 'response.create' }

t.test('an upstream that uses one id again is charged for each response, and never for more', async (t) => {
  const session = await open(t)
  const { client, say, hears } = session
  for (let turn = 1; turn <= 3; turn++) {
    client.send(ask)
    await hears('response.create', turn)
    say(created('resp_1'), done('resp_1', 10, turn), done('resp_1', 10, turn))
    await client.event('response.done', 2 * turn)
  }
  client.socket.close(1000)
  t.match(await costOf(t, session), { cost_nano: cost(30, 6), usage_source: 'upstream' })
})

t.test('a response that begins again and again is one, and nothing of it stays held', async (t) => {
  for (const id of ['resp_1', undefined]) {
    const session = await open(t)
    const { client, say, hears } = session
    client.send(ask)
    await hears('response.create')
    say(...Array.from({ length: 50 }, () => created(id)), done(id, 5, 5))
    await client.event('response.done')
    say(...Array.from({ length: 3 }, () => created(id)))
    await client.event('response.created', 53)
    client.socket.close(1000)
    const record = await costOf(t, session)
    t.ok(BigInt(record.cost_nano) >= BigInt(cost(5, 5)), String(record.cost_nano))
  }
})

t.test('an upstream that begins no end of responses ends its session', async (t) => {
  const session = await open(t)
  const { client, say } = session
  say(...Array.from({ length: 2000 }, (_, n) => created(`resp_${n}`)))
  t.equal((await client.closed).code, 1011)
  t.match(client.events.at(-1), { type: 'error', error: { code: 'upstream_bad_response' } })
  await costOf(t, session)
})

t.test('responses that an upstream begins over a spent budget end the session after the first', async (t) => {
  const budget = { usd: '0.009', per: 'total' }
  const session = await open(t, { keys: [{ name: 'test', key: testKey, tenant: 'acme', budget }] })
  const { client, say, hears } = session
  say(created('resp_1'), done('resp_1', 100, 4000), created('resp_2'))
  await hears('response.cancel')
  client.send(ask)
  // What has begun is heard to its end, and nothing is asked for any more.
  say(...Array.from({ length: 5 }, (_, n) => created(`resp_more_${n}`)))
  await hears('response.cancel', 6)
  say(done('resp_2', 10, 20, 'cancelled'), ...Array.from({ length: 5 }, (_, n) => done(`resp_more_${n}`, 1, 0)))
  t.equal((await client.closed).code, 1008)
  t.match(client.events.at(-1), { type: 'error', error: { type: 'quota_error', code: 'quota_key_exceeded' } })
  const record = await costOf(t, session)
  t.equal(record.cost_nano, String(BigInt(cost(100, 4000)) + BigInt(cost(15, 20))))
})

for (const level of ['tenant', 'key'] as const) {
  t.test(`a budget of a ${level} that a reload lowers holds for sessions that are open`, async (t) => {
    const withBudget = (usd: string): Record<string, unknown> => {
      const budget = [
        { usd, per: '30d' },
        { usd: '9', per: 'total' }
      ]
      return {
        tenants: { acme: level === 'tenant' ? { budget } : {} },
        keys: [{ name: 'test', key: testKey, tenant: 'acme', ...(level === 'key' && { budget }) }]
      }
    }
    const session = await open(t, withBudget('1'))
    const { running, upstream, database, client, say, heard, hears } = session
    client.send(ask)
    await hears('response.create')
    say(created('resp_1'), done('resp_1', 100, 100))
    await client.event('response.done')
    running.configure({ ...sessionsAt(upstream), store: { sqlite: database }, ...withBudget('0.0004') })
    t.ok((await running.gateway.reload('test')).ok)
    // Within a second or so, in which others are let in yet.
    const refused = (): boolean => client.events.some(({ type }) => type === 'error')
    for (let asked = 2; !refused(); asked++) {
      client.send(ask)
      await eventually(() => refused() || heard('response.create') >= asked)
      if (!refused()) say(created(`resp_${asked}`), done(`resp_${asked}`, 1, 0))
    }
    t.match(
      client.events.find(({ type }) => type === 'error'),
      { error: { code: `quota_${level}_exceeded` } }
    )
  })
}

t.test('a session is charged to whom it was opened for when its key moves, within the limits of today', async (t) => {
  const at = (tenant: string, project: string, usd: string, rpm: number): Record<string, unknown> => ({
    tenants: {
      acme: { budget: { usd, per: 'total' }, projects: { web: { budget: { usd: '50', per: 'total' } } } },
      other: { projects: { shop: {} } }
    },
    keys: [{ name: 'test', key: testKey, tenant, project, limits: { rpm } }]
  })
  const session = await open(t, at('acme', 'web', '100', 1000))
  const { running, upstream, database, client, say, heard, hears } = session
  const posted = async (): Promise<Record<string, string>> => {
    const { data } = await running.admin('/admin/v1/balances')
    const totals = data.filter(({ window }: any) => window === 'total')
    return Object.fromEntries(totals.map(({ scope, posted_nano }: any) => [scope, posted_nano]))
  }
  let turns = 0
  const turn = async (): Promise<void> => {
    const id = `resp_${++turns}`
    client.send(ask)
    await hears('response.create', turns)
    say(created(id), done(id, 100, 100))
    await client.event('response.done', turns)
  }
  const reload = async (more: Record<string, unknown>): Promise<void> => {
    running.configure({ ...sessionsAt(upstream), store: { sqlite: database }, ...more })
    t.ok((await running.gateway.reload('test')).ok)
  }
  await turn()
  await reload(at('other', 'shop', '99', 5))
  // The session looks about once a second; what is refused for a while is asked for again.
  const refusals = (): string[] => client.events.flatMap(({ error }) => error?.code ?? [])
  const upTo = async (code: string): Promise<void> => {
    while (!refusals().includes(code)) {
      if (turns > 3000) throw new Error(`${code} did not come`)
      const { length } = refusals()
      client.send(ask)
      await eventually(() => refusals().length > length || heard('response.create') > turns)
      if (heard('response.create') === turns) continue
      const id = `resp_${++turns}`
      say(created(id), done(id, 100, 100))
      await client.event('response.done', turns)
    }
  }
  await upTo('rate_limit_rpm')
  const all = String(BigInt(cost(100, 100)) * BigInt(turns))
  t.match(await posted(), { 'tenant:acme': all, 'project:acme/web': all, 'key:test': all })
  t.notOk(Number((await posted())['tenant:other'] ?? 0), 'its new tenant pays nothing')

  await reload(at('other', 'shop', '0.0001', 1000))
  await upTo('quota_tenant_exceeded')
  client.socket.close(1000)
  const spent = String(BigInt(cost(100, 100)) * BigInt(turns))
  t.match(await posted(), { 'tenant:acme': spent, 'project:acme/web': spent, 'key:test': spent })
  t.match(await costOf(t, session), { tenant: 'acme', project: 'web', cost_nano: spent })
})

t.test("ends without a beginning, of nobody's, without usage and of odd forms", async (t) => {
  const session = await open(t)
  const { client, say, hears } = session
  say(
    done('resp_unasked', 7, 3),
    done('resp_unasked', 7, 3),
    '{"type":"response.done"}',
    '{"type":"response.done","response":null}',
    '{"type":"response.done","response":{"id":5,"usage":"x"}}',
    '{"type":"response.created"}',
    '{"type":"response.done","response":{"id":"resp_2","usage":{"input_tokens":-5,"output_tokens":1e300}}}'
  )
  client.send(ask)
  await hears('response.create')
  say(created('resp_3'), done('resp_3', 1, 1))
  await client.event('response.done', 6)
  client.socket.close(1000)
  const record = await costOf(t, session)
  t.ok(
    BigInt(record.cost_nano) >= BigInt(cost(8, 4)) && BigInt(record.cost_nano) < 100_000_000n,
    String(record.cost_nano)
  )
})

t.test('a response that ends without usage, or never begins, gives its tokens per minute back', async (t) => {
  const session = await open(t, {
    keys: [{ name: 'test', key: testKey, tenant: 'acme', limits: { tpm: 1500 } }]
  })
  const { client, say, hears } = session
  for (const [index, end] of [
    '{"type":"error","error":{"type":"invalid_request_error","code":"no","message":"No.","event_id":"e0"}}',
    '{"type":"error","error":{"type":"invalid_request_error","code":"no","message":"No.","event_id":"e1"}}',
    done('resp_1', 600, 300)
  ].entries()) {
    client.send({ ...ask, event_id: `e${index}` })
    await hears('response.create', index + 1)
    if (index === 2) say(created('resp_1'))
    say(end)
    await client.event(index === 2 ? 'response.done' : 'error', index === 2 ? 1 : index + 1)
  }
  client.send({ ...ask, event_id: 'e3' })
  t.match(await client.event('error', 3), { error: { code: 'rate_limit_tpm' } }, 'what was used counts')
  client.socket.close(1000)
  t.match(await costOf(t, session), { cost_nano: cost(600, 300) })
})

t.test('a client that asks twice, and an upstream that refuses the second', async (t) => {
  const session = await open(t)
  const { client, say, hears } = session
  client.send({ ...ask, event_id: 'one' }).send({ ...ask, event_id: 'two' })
  await hears('response.create', 2)
  say(
    created('resp_1'),
    '{"type":"error","event_id":"e","error":{"type":"invalid_request_error","code":"conversation_already_has_active_response","message":"No.","event_id":"two"}}',
    done('resp_1', 4, 4)
  )
  await client.event('response.done')
  client.socket.close(1000)
  t.match(await costOf(t, session), { cost_nano: cost(4, 4), usage_source: 'upstream' })
})

t.test(
  'whatever ends a session in the middle of a response, the response has one end and nothing is held',
  async (t) => {
    const limits = { drain_timeout: '100ms', disconnect_drain: { time: '100ms' } }
    const ends: Record<string, (session: Awaited<ReturnType<typeof open>>) => unknown> = {
      'the upstream closes': async ({ upstream }) => (await upstream.peer()).socket!.close(1000, 'bye'),
      'the upstream closes with a fault': async ({ upstream }) => (await upstream.peer()).socket!.close(1011, 'sorry'),
      'the upstream is lost': async ({ upstream }) => (await upstream.peer()).stream.resetAndDestroy(),
      'the upstream says no WebSocket': async ({ upstream }) =>
        (await upstream.peer()).stream.write('HTTP/1.1 200 OK\r\n\r\n'),
      'the client is lost': ({ client }) => client.socket.terminate(),
      'the client closes': ({ client }) => client.socket.close(1000),
      'the key is revoked': async ({ running, upstream, database }) => {
        running.configure({
          ...sessionsAt(upstream),
          store: { sqlite: database },
          limits,
          keys: [{ name: 'another', key: 'sk-another-00000000000000000', tenant: 'acme' }]
        })
        const { ok, problems } = (await running.gateway.reload('test')) as { ok: boolean; problems?: unknown }
        if (!ok) throw new Error(JSON.stringify(problems))
      },
      'the gateway drains': ({ running }) => void running.gateway.close({ drain: true })
    }
    for (const [name, end] of Object.entries(ends)) {
      await t.test(name, async (t) => {
        const session = await open(t, { limits })
        const { running, client, say, hears } = session
        client.send(ask)
        await hears('response.create')
        say(
          created('resp_1'),
          ...Array.from(
            { length: 5 },
            () => '{"type":"response.output_text.delta","response_id":"resp_1","delta":"word "}'
          )
        )
        await client.event('response.output_text.delta', 5)
        await end(session)
        await client.closed
        if (name !== 'the gateway drains')
          await eventually(
            async () =>
              ((await running.admin('/admin/v1/balances')).data as any[]).every(
                ({ pending_nano: pending }) => pending === '0'
              ),
            10_000
          )
        await running.gateway.close()
        t.same(verify(session.database), [], 'the book is in order')
      })
    }
  }
)

t.test('a client that sends what is refused, and reads nothing, is not read from', async (t) => {
  const upstream = await socketUpstream(t)
  const running = await gateway(t, { ...sessionsAt(upstream), limits: { client_stall: '60s' } })
  const socket = dial(Number(new URL(running.url).port), '127.0.0.1')
  socket.on('error', () => {})
  t.teardown(() => socket.destroy())
  socket.write(
    `GET /v1/realtime?model=demo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${testKey}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`
  )
  await once(socket, 'readable')
  socket.read()
  const refused = frameBytes('{"type":"session.update","session":{"model":"x"}}', { opcode: 1, masked: true })
  const { socket: heard } = await upstream.peer()
  let came = false
  heard!.on('message', () => void (came = true))
  // Their errors are more than the kernel keeps.
  socket.write(Buffer.alloc(refused.length * 30_000, refused))
  socket.write(frameBytes('{"type":"conversation.item.create"}', { opcode: 1, masked: true }))
  await new Promise((resolve) => setTimeout(resolve, 2000))
  t.notOk(came, 'what stands behind is not read')
  socket.resume()
  await eventually(() => came, 10_000)
  socket.destroy()
  await settled(t, running)
})

t.test('handshakes that stop half-way hold nothing for long', async (t) => {
  const upstream = await socketUpstream(t)
  const running = await gateway(t, { ...sessionsAt(upstream), limits: { client_header: '200ms' } })
  const { port } = new URL(running.url)
  const lines = [
    'GET /v1/realtime?model=demo HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n',
    `GET /v1/realtime?model=demo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${testKey}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n\r\n`,
    `GET /v1/realtime?model=demo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${testKey}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 12\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
    `GET /v1/realtime?model=demo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${testKey}\r\nConnection: close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
    `POST /v1/realtime?model=demo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${testKey}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`
  ]
  for (const text of lines) {
    const socket = dial(Number(port), '127.0.0.1')
    let got = ''
    socket.on('data', (data) => (got += String(data))).on('error', () => {})
    const ended = once(socket, 'close')
    socket.write(text)
    await Promise.race([ended, eventually(() => /^HTTP\/1.1 [45]/.test(got))])
    t.notMatch(got, ' 101 ', got.slice(0, 60))
    socket.destroy()
  }
  const leaving = dial(Number(port), '127.0.0.1')
  leaving.on('error', () => {})
  leaving.write(
    `GET /v1/realtime?model=demo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${testKey}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\r\n`
  )
  const [answer] = (await once(leaving, 'data')) as [Buffer]
  t.match(String(answer), ' 101 ')
  t.notMatch(String(answer).toLowerCase(), 'permessage-deflate', 'nothing is compressed')
  leaving.destroy()
  await settled(t, running)
})
