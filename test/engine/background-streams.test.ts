// Responses that an upstream makes in the background and as a stream: on disk as work before they are seen, and settled
// once, whoever sees their end.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { verify } from '../../core/store/embedded/care/verify/verify.ts'
import type { ReceivedReply } from '../kit/client.ts'
import { gateway, spawnGateway, testKey } from '../kit/gateway.ts'
import type { TestGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'
import { received } from '../kit/received.ts'
import { Upstream } from '../kit/upstream.ts'
import { folder, journal, rows } from '../money/rig.ts'

t.setTimeout(600_000)

const path = '/v1/responses'
const usage = { input_tokens: 30, output_tokens: 21, total_tokens: 51 }
const cost = 72_000n
const framed = (event: { type: string; [member: string]: unknown }): string =>
  `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`

/** A response as it is told. */
type State = { readonly status: string; readonly [member: string]: unknown }

/**
 * An upstream whose responses go on as the test says: as streams to whoever made them or takes them up, and as they are
 * to whoever asks.
 */
class Maker {
  readonly channel: Record<string, unknown>
  /** What it makes fails before it has said anything. */
  fails = false
  /** How often it was asked how far a response is. */
  asked = 0
  /** It says what it has counted of what was called off. */
  counts = true
  /** Given to the next response as its id. */
  again: string | undefined
  /** Only what is under way can be called off, and only some know how. */
  callsOff = true
  #made = 0
  readonly #states = new Map<string, State>()
  readonly #listeners = new Map<string, ServerResponse[]>()

  private constructor(port: number) {
    this.channel = {
      protocol: 'openai',
      base_url: `http://127.0.0.1:${port}/v1`,
      private: true,
      endpoints: ['responses'],
      models: { demo: 'demo' }
    }
  }

  static async start(t: Test): Promise<Maker> {
    const server = createServer(async (request, response) => {
      const body = await received(request)
      if (body) maker.#answer(request.method!, request.url!, body.toString(), response)
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => {
      server.closeAllConnections()
      server.close()
    })
    const maker = new Maker((server.address() as AddressInfo).port)
    return maker
  }

  #answer(method: string, url: string, body: string, response: ServerResponse): void {
    const [, id = this.again ?? `resp_${++this.#made}`, rest = ''] = /responses\/(\w+)(.*)$/.exec(url) ?? []
    const made = url.endsWith('/responses')
    const tell = (status: number, body: unknown): void =>
      void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    if (made) this.#states.set(id, this.#state(id, 'in_progress'))
    if (!this.#states.has(id) || (rest === '/cancel' && !this.callsOff))
      return tell(404, { error: { message: 'Not found.' } })
    if (rest === '/cancel') this.end(id, 'cancelled')
    if (method === 'DELETE') {
      this.#states.delete(id)
      tell(200, { id, object: 'response', deleted: true })
      return this.cut(id)
    }
    if (!(made ? body : rest).includes(made ? '"stream":true' : 'stream=true')) {
      this.asked++
      return tell(200, this.#states.get(id))
    }
    response.setHeader('content-type', 'text/event-stream')
    response.write(framed({ type: 'response.created', response: this.#state(id, 'in_progress') }))
    if (made && this.fails)
      return void response.end(
        framed({
          type: 'response.failed',
          response: this.#state(id, 'failed', { error: { code: 'server_error', message: 'No.' } })
        })
      )
    response.write(framed({ type: 'response.output_text.delta', output_index: 0, content_index: 0, delta: 'Hello' }))
    this.#listeners.set(id, [...(this.#listeners.get(id) ?? []), response])
  }

  #state(id: string, status: string, more: object = {}): State {
    return { id, object: 'response', status, background: true, model: 'demo', output: [], usage: null, ...more }
  }

  /** It has ended, as whoever asks is told. */
  end(id: string, status = 'completed'): void {
    this.#states.set(id, this.#state(id, status, { usage: this.counts ? usage : null }))
  }

  /** Tells those who listen of the end; the one who made it is the first. */
  tell(id: string, ...which: number[]): void {
    const response = this.#states.get(id)!
    for (const at of which) this.#listeners.get(id)![at]!.end(framed({ type: `response.${response.status}`, response }))
  }

  /** Tells of so many more words. */
  say(id: string, words: number): void {
    for (let n = 0; n < words; n++)
      this.#listeners
        .get(id)![0]!
        .write(framed({ type: 'response.output_text.delta', output_index: 0, content_index: 0, delta: 'word ' }))
  }

  forget(id: string): void {
    this.#states.delete(id)
  }

  cut(id: string): void {
    for (const listener of this.#listeners.get(id)!) listener.destroy()
  }
}

/** A stream as its client has it. */
interface Listening {
  id: string
  request: { headers: Record<string, string> }
  leave(): void
  /** All of it, when it has ended. */
  rest: Promise<string>
}

async function listen({ url }: TestGateway, at?: string): Promise<Listening> {
  const left = new AbortController()
  const reply = await fetch(`${url}${path}${at === undefined ? '' : `/${at}?stream=true`}`, {
    method: at === undefined ? 'POST' : 'GET',
    signal: left.signal,
    headers: { authorization: `Bearer ${testKey}`, 'content-type': 'application/json' },
    ...(at === undefined && { body: JSON.stringify({ model: 'demo', input: 'Hi', background: true, stream: true }) })
  })
  const reader = reply.body!.getReader()
  let text = Buffer.from((await reader.read()).value ?? '').toString()
  const rest = (async () => {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return text
      text += Buffer.from(value).toString()
    }
  })().catch(() => text)
  return {
    id: /"id":"(resp_[^"]+)"/.exec(text)?.[1] ?? '',
    request: { headers: { 'x-request-id': reply.headers.get('x-request-id')! } },
    leave: () => left.abort(),
    rest
  }
}

/** What was charged in all, and what is held, in nano-dollars. */
async function books({ admin }: TestGateway): Promise<{ posted: bigint; pending: bigint }> {
  const { data } = (await admin('/admin/v1/balances')) as { data: Record<string, string>[] }
  const total =
    data.find(({ scope, window }) => scope === 'tenant:acme' && window === 'total') ??
    data.find(({ scope }) => scope === 'tenant:acme')
  return { posted: BigInt(total?.['posted_nano'] ?? 0), pending: BigInt(total?.['pending_nano'] ?? 0) }
}

async function settled(local: TestGateway): Promise<bigint> {
  await eventually(async () => (await books(local)).pending === 0n, 10_000)
  return (await books(local)).posted
}

const overrides = (database: string, channels: object, more: object = {}): Record<string, unknown> => ({
  channels,
  store: { sqlite: database },
  tasks: { poll: { first: '20ms', most: '50ms' } },
  ...more
})

function sound(t: Test, database: string, requests: number): void {
  t.same(rows(database, 'SELECT id FROM work WHERE open = 1'), [], 'nothing is open')
  t.same(rows(database, 'SELECT id FROM reservation'), [], 'nothing is held')
  t.equal(
    rows(database, "SELECT seq FROM journal WHERE class = 'terminal' AND kind = 'settle'").length,
    requests,
    'each was charged once'
  )
  t.equal(
    rows(database, "SELECT seq FROM request WHERE json ->> 3 = 'responses'").length,
    requests,
    'and has one record'
  )
  t.same(verify(database), [])
}

t.test('a gateway that is killed in mid-stream asks for the end, and settles what the upstream counted', async (t) => {
  const maker = await Maker.start(t)
  const database = join(folder(t), 'books.db')
  const config = overrides(database, { demo: maker.channel })
  const ends = { completed: 'completed', failed: 'failed', cancelled: 'aborted' }
  let running = await spawnGateway(t, config)
  const streams = await Promise.all(
    Object.entries(ends).map(async ([end, outcome]) => ({ end, outcome, ...(await listen(running)) }))
  )
  running.process.kill('SIGKILL')
  await running.exited
  await Promise.all(streams.map(({ rest }) => rest))
  const { asked } = maker
  running = await spawnGateway(t, config)
  t.ok((await books(running)).pending > 0n, 'what they may cost is held')
  await eventually(() => maker.asked > asked, 10_000)
  for (const { id, end } of streams) maker.end(id, end)
  t.equal(await settled(running), 3n * cost)
  for (const { request, end, outcome } of streams) {
    t.match(
      await running.record(request),
      {
        endpoint: 'responses',
        tenant: 'acme',
        key: 'test',
        model: 'demo',
        channel: 'demo',
        streamed: true,
        status: 200,
        outcome,
        cost_nano: String(cost),
        usage: { input: 30, output: 21 },
        usage_source: 'upstream'
      },
      end
    )
  }
  running.process.kill('SIGTERM')
  await running.exited
  sound(t, database, 3)
})

t.test(
  'whatever becomes of a stream in the background, it is charged once for what its upstream counted',
  async (t) => {
    const maker = await Maker.start(t)
    const database = join(folder(t), 'books.db')
    const local = await gateway(
      t,
      overrides(database, { demo: maker.channel }, { limits: { disconnect_drain: { time: '1ms' } } })
    )
    const read = async (id: string): Promise<string> =>
      (await local.ask({ method: 'GET', path: `${path}/${id}` })).json().status
    const ways: Record<string, [end: (stream: Listening) => Promise<unknown>, outcome?: string]> = {
      'it ends': [
        async ({ id, rest }) => {
          maker.end(id)
          maker.tell(id, 0)
          t.match(await rest, 'response.completed')
        }
      ],
      'its client leaves': [
        async ({ id, leave }) => {
          leave()
          maker.end(id)
        }
      ],
      'its upstream cuts it': [
        async ({ id, rest }) => {
          maker.cut(id)
          t.match(await rest, 'upstream_stream_interrupted')
          maker.end(id)
        }
      ],
      'others see its end first': [
        async ({ id, rest }) => {
          maker.end(id)
          t.same(await Promise.all(Array.from({ length: 10 }, () => read(id))), Array(10).fill('completed'))
          t.ok((await books(local)).pending > 0n, 'the stream has yet to end')
          maker.tell(id, 0)
          await rest
        }
      ],
      'others see its end, and it is cut': [
        async ({ id, rest }) => {
          maker.end(id)
          await read(id)
          maker.cut(id)
          await rest
        }
      ],
      'it is called off, and its stream told': [
        async ({ id, rest }) => {
          t.equal((await local.ask({ method: 'POST', path: `${path}/${id}/cancel` })).json().status, 'cancelled')
          maker.tell(id, 0)
          await rest
        }
      ],
      'it is called off, and its stream cut': [
        async ({ id, rest }) => {
          t.equal((await local.ask({ method: 'POST', path: `${path}/${id}/cancel` })).json().status, 'cancelled')
          maker.cut(id)
          await rest
        },
        'aborted'
      ],
      'another client takes it up and sees its end first': [
        async ({ id, rest }) => {
          const other = await listen(local, id)
          maker.end(id)
          maker.tell(id, 1)
          t.match(await other.rest, 'response.completed')
          maker.tell(id, 0)
          await rest
        }
      ],
      'another client takes it up when the first has left': [
        async ({ id, leave }) => {
          leave()
          const other = await listen(local, id)
          maker.end(id)
          maker.tell(id, 1)
          t.match(await other.rest, 'response.completed')
        }
      ]
    }
    let charged = 0n
    for (const [way, [end, outcome]] of Object.entries(ways)) {
      const stream = await listen(local)
      t.ok((await books(local)).pending > 0n)
      await end(stream)
      charged += cost
      t.equal(await settled(local), charged, way)
      t.match(
        await local.record(stream.request),
        {
          streamed: true,
          cost_nano: String(cost),
          usage: { input: 30, output: 21 },
          usage_source: 'upstream',
          ...(outcome !== undefined && { outcome })
        },
        way
      )
    }
    await local.gateway.close()
    sound(t, database, Object.keys(ways).length)
  }
)

t.test(
  'what was told of a stream that is deleted or called off is charged once: as its upstream counted it, or as far as it was seen',
  async (t) => {
    const maker = await Maker.start(t)
    const database = join(folder(t), 'books.db')
    const local = await gateway(t, overrides(database, { demo: maker.channel }))
    const remove = async ({ id }: Listening): Promise<void> => {
      t.equal((await local.ask({ method: 'DELETE', path: `${path}/${id}` })).status, 200)
      t.equal((await local.ask({ method: 'GET', path: `${path}/${id}` })).status, 404)
    }
    const cancel = async ({ id }: Listening): Promise<void> => {
      t.equal((await local.ask({ method: 'POST', path: `${path}/${id}/cancel` })).json().status, 'cancelled')
      maker.cut(id)
    }
    const told = async ({ id, rest }: Listening): Promise<void> => {
      t.equal((await local.ask({ method: 'POST', path: `${path}/${id}/cancel` })).json().status, 'cancelled')
      maker.counts = false
      maker.end(id, 'cancelled')
      maker.tell(id, 0)
      t.match(await rest, /"status":"cancelled".*"usage":null/)
    }
    const ways: [string, (stream: Listening) => Promise<void>, { counts?: boolean; callsOff?: boolean }, object][] = [
      [
        'deleted, and counted',
        remove,
        {},
        { outcome: 'aborted', cost_nano: String(cost), usage: { input: 30, output: 21 }, usage_source: 'upstream' }
      ],
      [
        'called off, and counted',
        cancel,
        {},
        { outcome: 'aborted', cost_nano: String(cost), usage_source: 'upstream' }
      ],
      [
        'deleted, and not counted',
        remove,
        { counts: false },
        { outcome: 'aborted', usage: { output: Number }, usage_source: 'partial' }
      ],
      [
        'deleted where nothing can be called off',
        remove,
        { callsOff: false },
        { outcome: 'aborted', usage: { output: Number }, usage_source: 'partial' }
      ],
      [
        'called off, and counted for who did, but not in its stream',
        told,
        {},
        { outcome: 'aborted', cost_nano: String(cost), usage_source: 'upstream' }
      ],
      [
        'called off, and not counted',
        cancel,
        { counts: false },
        { outcome: 'aborted', usage: { output: Number }, usage_source: 'partial' }
      ]
    ]
    let charged = 0n
    for (const [way, end, { counts = true, callsOff = true }, expected] of ways) {
      const stream = await listen(local)
      Object.assign(maker, { counts, callsOff })
      await end(stream)
      await stream.rest
      const posted = await settled(local)
      const record = await local.record(stream.request)
      t.match(record, { streamed: true, ...expected }, way)
      t.equal(posted - charged, BigInt(record.cost_nano), way)
      t.ok(posted > charged, `${way}: not for nothing`)
      charged = posted
    }
    await local.gateway.close()
    sound(t, database, ways.length)
  }
)

t.test(
  "what was seen of a stream's end is known after a kill, also when its upstream knows nothing of it any more",
  async (t) => {
    const maker = await Maker.start(t)
    const database = join(folder(t), 'books.db')
    const config = overrides(database, { demo: maker.channel })
    let running = await spawnGateway(t, config)
    const stream = await listen(running)
    maker.end(stream.id)
    t.equal((await running.ask({ method: 'GET', path: `${path}/${stream.id}` })).json().status, 'completed')
    maker.forget(stream.id)
    running.process.kill('SIGKILL')
    await running.exited
    await stream.rest
    running = await spawnGateway(t, config)
    t.equal(await settled(running), cost)
    t.match(await running.record(stream.request), {
      outcome: 'completed',
      cost_nano: String(cost),
      usage_source: 'upstream'
    })
    running.process.kill('SIGTERM')
    await running.exited
    sound(t, database, 1)
  }
)

t.test(
  'what was shown of a stream before a kill is charged where its upstream says nothing of it afterwards',
  async (t) => {
    const maker = await Maker.start(t)
    const database = join(folder(t), 'books.db')
    const config = overrides(database, { demo: maker.channel })
    let running = await spawnGateway(t, config)
    const stream = await listen(running)
    maker.say(stream.id, 199)
    await eventually(
      () => rows(database, 'SELECT id FROM reservation WHERE delivered_units >= 192').length === 1,
      10_000
    )
    running.process.kill('SIGKILL')
    await running.exited
    await stream.rest
    running = await spawnGateway(t, config)
    maker.counts = false
    t.equal((await running.ask({ method: 'DELETE', path: `${path}/${stream.id}` })).status, 200)
    const posted = await settled(running)
    const record = await running.record(stream.request)
    t.match(record, {
      outcome: 'aborted',
      usage: { output: 192 },
      usage_source: 'recovered',
      cost_nano: String(posted)
    })
    running.process.kill('SIGTERM')
    await running.exited
    sound(t, database, 1)
  }
)

t.test('of a response that failed before it was shown nothing stays open, and no other one is made', async (t) => {
  const [first, second] = [await Maker.start(t), await Maker.start(t)]
  const database = join(folder(t), 'books.db')
  const local = await gateway(
    t,
    overrides(database, { demo: first.channel, second: { ...second.channel, priority: 1 } })
  )
  first.fails = true
  const stream = await listen(local)
  t.match(await stream.rest, 'error')
  t.equal(await settled(local), 0n)
  t.match(await local.record(stream.request), { channel: 'demo', attempts: [{ channel: 'demo' }], cost_nano: /^0$/ })
  t.equal(second.asked, 0)
  await local.gateway.close()
  t.same(rows(database, 'SELECT id FROM work WHERE open = 1'), [])
  t.same(verify(database), [])
})

t.test('what attempts cost that failed before a stream was shown is in the journal after a kill', async (t) => {
  const [broken, maker] = [await Upstream.start(t), await Maker.start(t)]
  const database = join(folder(t), 'books.db')
  const config = overrides(database, {
    demo: { ...maker.channel, base_url: `${broken.url}` },
    second: { ...maker.channel, priority: 1 }
  })
  // One that refuses has begun nothing, so that another is asked.
  broken.json({ error: { message: 'Full.' } }, { status: 503 })
  let running = await spawnGateway(t, config)
  const stream = await listen(running)
  running.process.kill('SIGKILL')
  await running.exited
  await stream.rest
  maker.end(stream.id)
  running = await spawnGateway(t, config)
  t.equal(await settled(running), cost)
  running.process.kill('SIGTERM')
  await running.exited
  const entries = journal(database)
  t.match(
    entries.map(({ kind, class: of, channel }) => [kind, of, channel]),
    [
      ['cost', 'cost:1', 'demo'],
      ['settle', 'terminal', 'second']
    ]
  )
  t.equal(entries[0]!.amount, 0n, 'a refusal costs nothing')
  sound(t, database, 1)
})

t.test(
  'an upstream that gives a name again which is under way is believed neither by who has it nor by anybody else',
  async (t) => {
    const [maker, other] = [await Maker.start(t), await Maker.start(t)]
    const database = join(folder(t), 'books.db')
    const foreign = 'sk-test-foreign-0000000000000'
    const local = await gateway(
      t,
      overrides(
        database,
        { demo: maker.channel, second: { ...other.channel, models: { other: 'demo' } } },
        {
          chain: [
            { auth: {} },
            { quota: {} },
            { ratelimit: {} },
            { route: { repeats: 0, eject_after: 1000 } },
            { 'protocol-translate': {} },
            { 'usage-meter': {} },
            { log: { sink: 'none' } }
          ],
          models: { demo: { price: { input: 1, output: 2 } }, other: { price: { input: 1, output: 2 } } },
          tenants: { acme: {}, rival: {} },
          keys: [
            { name: 'test', key: testKey, tenant: 'acme' },
            { name: 'foreign', key: foreign, tenant: 'rival' }
          ]
        }
      )
    )
    const stream = await listen(local)
    const ask = (key: string, body: object): Promise<ReceivedReply> =>
      local.ask({ path, headers: { authorization: `Bearer ${key}` }, body: { model: 'demo', input: 'Hi', ...body } })
    for (const [who, key, model] of [
      ['its owner', testKey, 'demo'],
      ['its owner, at another account', testKey, 'other'],
      ['another tenant', foreign, 'demo']
    ] as const) {
      for (const more of [{ background: true, stream: true }, { background: true }, { stream: true }, {}]) {
        for (const one of [maker, other]) one.again = stream.id
        t.match(
          (await ask(key, { model, ...more })).json(),
          { error: { code: 'upstream_bad_response' } },
          `${who}: ${JSON.stringify(more)}`
        )
      }
    }
    t.equal(
      (
        await local.ask({
          method: 'GET',
          path: `${path}/${stream.id}`,
          headers: { authorization: `Bearer ${foreign}` }
        })
      ).status,
      404
    )
    t.ok((await books(local)).pending > 0n, 'the first is still held for')
    maker.end(stream.id)
    maker.tell(stream.id, 0)
    t.match(await stream.rest, 'response.completed')
    t.equal(await settled(local), cost, 'and is all that is charged')
    other.again = stream.id
    other.end(stream.id)
    t.equal((await ask(foreign, { model: 'other' })).status, 200, "what has ended is in nobody's way")
    await local.gateway.close()
    t.same(rows(database, 'SELECT id FROM work WHERE open = 1'), [])
    t.same(verify(database), [])
  }
)
