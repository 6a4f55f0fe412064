// Responses that an upstream makes in the background and as a stream: on disk as work before they are seen, and settled once, whoever sees their end.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { verify } from '../../core/store/verify.ts'
import { gateway, spawnGateway, testKey } from '../kit/gateway.ts'
import type { TestGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'
import { folder, rows } from '../money/rig.ts'

t.setTimeout(60_000)

const path = '/v1/responses'
const usage = { input_tokens: 30, output_tokens: 21, total_tokens: 51 }
const cost = 72_000n
const framed = (event: { type: string; [member: string]: unknown }): string => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`

/** A response as it is told. */
type State = { readonly status: string; readonly [member: string]: unknown }

/** An upstream whose responses go on as the test says: as streams to whoever made them or takes them up, and as they are to whoever asks. */
class Maker {
  readonly channel: Record<string, unknown>
  /** What it makes fails before it has said anything. */
  fails = false
  /** How often it was asked how far a response is. */
  asked = 0
  #made = 0
  readonly #states = new Map<string, State>()
  readonly #listeners = new Map<string, ServerResponse[]>()

  private constructor(port: number) {
    this.channel = { protocol: 'openai', base_url: `http://127.0.0.1:${port}/v1`, private: true, endpoints: ['responses'], models: { demo: 'demo' } }
  }

  static async start(t: Test): Promise<Maker> {
    const server = createServer((request, response) => {
      request.resume()
      maker.#answer(request.url!, response)
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => {
      server.closeAllConnections()
      server.close()
    })
    const maker = new Maker((server.address() as AddressInfo).port)
    return maker
  }

  #answer(url: string, response: ServerResponse): void {
    const [, id = `resp_${++this.#made}`, rest = ''] = /responses\/(\w+)(.*)$/.exec(url) ?? []
    const made = url.endsWith('/responses')
    if (made) this.#states.set(id, this.#state(id, 'in_progress'))
    if (rest === '/cancel') this.end(id, 'cancelled')
    if (!made && !rest.includes('stream=true')) {
      this.asked++
      return void response.setHeader('content-type', 'application/json').end(JSON.stringify(this.#states.get(id)))
    }
    response.setHeader('content-type', 'text/event-stream')
    response.write(framed({ type: 'response.created', response: this.#state(id, 'in_progress') }))
    if (made && this.fails) return void response.end(framed({ type: 'response.failed', response: this.#state(id, 'failed', { error: { code: 'server_error', message: 'No.' } }) }))
    response.write(framed({ type: 'response.output_text.delta', output_index: 0, content_index: 0, delta: 'Hello' }))
    this.#listeners.set(id, [...(this.#listeners.get(id) ?? []), response])
  }

  #state(id: string, status: string, more: object = {}): State {
    return { id, object: 'response', status, background: true, model: 'demo', output: [], usage: null, ...more }
  }

  /** It has ended, as whoever asks is told. */
  end(id: string, status = 'completed'): void {
    this.#states.set(id, this.#state(id, status, { usage }))
  }

  /** Tells those who listen of the end; the one who made it is the first. */
  tell(id: string, ...which: number[]): void {
    const response = this.#states.get(id)!
    for (const at of which) this.#listeners.get(id)![at]!.end(framed({ type: `response.${response.status}`, response }))
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
    method: at === undefined ? 'POST' : 'GET', signal: left.signal, headers: { authorization: `Bearer ${testKey}`, 'content-type': 'application/json' },
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
  return { id: /"id":"(resp_[^"]+)"/.exec(text)?.[1] ?? '', request: { headers: { 'x-request-id': reply.headers.get('x-request-id')! } }, leave: () => left.abort(), rest }
}

/** What was charged in all, and what is held, in nano-dollars. */
async function books({ admin }: TestGateway): Promise<{ posted: bigint; pending: bigint }> {
  const { data } = (await admin('/admin/v1/balances')) as { data: Record<string, string>[] }
  const total = data.find(({ scope, window }) => scope === 'tenant:acme' && window === 'total') ?? data.find(({ scope }) => scope === 'tenant:acme')
  return { posted: BigInt(total?.['posted_nano'] ?? 0), pending: BigInt(total?.['pending_nano'] ?? 0) }
}

async function settled(local: TestGateway): Promise<bigint> {
  await eventually(async () => (await books(local)).pending === 0n, 10_000)
  return (await books(local)).posted
}

const overrides = (database: string, channels: object, more: object = {}): Record<string, unknown> => ({ channels, store: { sqlite: database }, tasks: { poll: { first: '20ms', most: '50ms' } }, ...more })

function sound(t: Test, database: string, requests: number): void {
  t.same(rows(database, 'SELECT id FROM work WHERE open = 1'), [], 'nothing is open')
  t.same(rows(database, 'SELECT id FROM reservation'), [], 'nothing is held')
  t.equal(rows(database, "SELECT seq FROM journal WHERE class = 'terminal' AND kind = 'settle'").length, requests, 'each was charged once')
  t.equal(rows(database, "SELECT seq FROM request WHERE json ->> 'endpoint' = 'responses'").length, requests, 'and has one record')
  t.same(verify(database), [])
}

t.test('a gateway that is killed in mid-stream asks for the end, and settles what the upstream counted', async (t) => {
  const maker = await Maker.start(t)
  const database = join(folder(t), 'books.db')
  const config = overrides(database, { demo: maker.channel })
  const ends = { completed: 'completed', failed: 'failed', cancelled: 'aborted' }
  let running = await spawnGateway(t, config)
  const streams = await Promise.all(Object.entries(ends).map(async ([end, outcome]) => ({ end, outcome, ...(await listen(running)) })))
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
    t.match(await running.record(request), {
      endpoint: 'responses', tenant: 'acme', key: 'test', model: 'demo', channel: 'demo', streamed: true, status: 200, outcome, cost_nano: String(cost), usage: { input: 30, output: 21 }, usage_source: 'upstream'
    }, end)
  }
  running.process.kill('SIGTERM')
  await running.exited
  sound(t, database, 3)
})

t.test('whatever becomes of a stream in the background, it is charged once for what its upstream counted', async (t) => {
  const maker = await Maker.start(t)
  const database = join(folder(t), 'books.db')
  const local = await gateway(t, overrides(database, { demo: maker.channel }, { limits: { disconnect_drain: { time: '1ms' } } }))
  const read = async (id: string): Promise<string> => (await local.ask({ method: 'GET', path: `${path}/${id}` })).json().status
  const ways: Record<string, [end: (stream: Listening) => Promise<unknown>, outcome?: string]> = {
    'it ends': [async ({ id, rest }) => {
      maker.end(id)
      maker.tell(id, 0)
      t.match(await rest, 'response.completed')
    }],
    'its client leaves': [async ({ id, leave }) => {
      leave()
      maker.end(id)
    }],
    'its upstream cuts it': [async ({ id, rest }) => {
      maker.cut(id)
      t.match(await rest, 'upstream_stream_interrupted')
      maker.end(id)
    }],
    'others see its end first': [async ({ id, rest }) => {
      maker.end(id)
      t.same(await Promise.all(Array.from({ length: 10 }, () => read(id))), Array(10).fill('completed'))
      t.ok((await books(local)).pending > 0n, 'the stream has yet to end')
      maker.tell(id, 0)
      await rest
    }],
    'others see its end, and it is cut': [async ({ id, rest }) => {
      maker.end(id)
      await read(id)
      maker.cut(id)
      await rest
    }],
    'it is called off, and its stream told': [async ({ id, rest }) => {
      t.equal((await local.ask({ method: 'POST', path: `${path}/${id}/cancel` })).json().status, 'cancelled')
      maker.tell(id, 0)
      await rest
    }],
    'it is called off, and its stream cut': [async ({ id, rest }) => {
      t.equal((await local.ask({ method: 'POST', path: `${path}/${id}/cancel` })).json().status, 'cancelled')
      maker.cut(id)
      await rest
    }, 'aborted'],
    'another client takes it up and sees its end first': [async ({ id, rest }) => {
      const other = await listen(local, id)
      maker.end(id)
      maker.tell(id, 1)
      t.match(await other.rest, 'response.completed')
      maker.tell(id, 0)
      await rest
    }],
    'another client takes it up when the first has left': [async ({ id, leave }) => {
      leave()
      const other = await listen(local, id)
      maker.end(id)
      maker.tell(id, 1)
      t.match(await other.rest, 'response.completed')
    }]
  }
  let charged = 0n
  for (const [way, [end, outcome]] of Object.entries(ways)) {
    const stream = await listen(local)
    t.ok((await books(local)).pending > 0n)
    await end(stream)
    charged += cost
    t.equal(await settled(local), charged, way)
    t.match(await local.record(stream.request), { streamed: true, cost_nano: String(cost), usage: { input: 30, output: 21 }, usage_source: 'upstream', ...(outcome !== undefined && { outcome }) }, way)
  }
  await local.gateway.close()
  sound(t, database, Object.keys(ways).length)
})

t.test('of a response that failed before it was shown, nothing stays open when another one is made', async (t) => {
  const [first, second] = [await Maker.start(t), await Maker.start(t)]
  const database = join(folder(t), 'books.db')
  const local = await gateway(t, overrides(database, { demo: first.channel, second: { ...second.channel, priority: 1 } }))
  first.fails = true
  const stream = await listen(local)
  second.end(stream.id)
  second.tell(stream.id, 0)
  t.match(await stream.rest, 'response.completed')
  t.equal(await settled(local), cost)
  t.match(await local.record(stream.request), { channel: 'second', attempts: [{ channel: 'demo' }, { channel: 'second' }] })
  second.fails = true
  t.match(await (await listen(local)).rest, 'error', 'none can make it')
  t.equal(await settled(local), cost)
  await local.gateway.close()
  t.same(rows(database, 'SELECT id FROM work WHERE open = 1'), [])
  t.same(verify(database), [])
})
