// What goes on without its client when the process dies that was at work on it: one story over every store, with the
// same ends, charges and records.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import type { ClientHttp2Session } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import type { Test } from 'tap'
import { verify } from '../../core/store/embedded/care/verify/verify.ts'
import { forms, storeOf } from '../core/store/embedded/forms.ts'
import type { Form } from '../core/store/embedded/forms.ts'
import { Fleet, fleetMissing } from '../kit/fleet.ts'
import { openSession } from '../kit/http2.ts'
import { eventually } from '../kit/probe.ts'
import { applied } from './audit.ts'
import { call, costOf, headers, perPicture, pictures, responses } from './lasting.ts'
import { launch, withWorkers } from './process.ts'
import type { Launch } from './process.ts'
import { folder, journal, key, patientChain } from './rig.ts'
import type { Entry, More } from './rig.ts'

t.setTimeout(300_000)

/** How it dies: see there. */
const env = { NODE_OPTIONS: `--import ${pathToFileURL(join(import.meta.dirname, 'dying.ts')).href}` }

/** What each of them has come to when the process dies. */
type Kind = 'asked' | 'picture' | 'watched' | 'left' | 'native' | 'listened' | 'queued' | 'done'

/** An upstream that does as its prompts say, and goes on when it is told to. */
class Upstream {
  readonly url: string
  readonly asked: string[] = []
  /** What goes on: `left` says more, `done` answers, and all that it makes itself is there. */
  readonly #told = new Map<string, PromiseWithResolvers<void>>()

  private constructor(port: number) {
    this.url = `http://127.0.0.1:${port}/v1`
  }

  static async start(t: Test): Promise<Upstream> {
    const server = createServer(async (request, response) => {
      let body = ''
      for await (const chunk of request) body += String(chunk)
      await upstream.#answer(request.method!, request.url!, body, response)
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => {
      server.closeAllConnections()
      server.close()
    })
    const upstream = new Upstream((server.address() as AddressInfo).port)
    return upstream
  }

  tell(what: string): void {
    this.#when(what).resolve()
  }

  #when(what: string): PromiseWithResolvers<void> {
    const told = this.#told.get(what) ?? Promise.withResolvers<void>()
    this.#told.set(what, told)
    return told
  }

  async #answer(method: string, url: string, body: string, response: ServerResponse): Promise<void> {
    const what = /asked|picture|watched|left|native|listened|queued|done/.exec(method === 'GET' ? url : body)?.[0] ?? ''
    const json = (answer: object): void =>
      void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
    if (method === 'GET') return json(state(what, 'completed'))
    this.asked.push(what)
    if (what === 'native') return json(state(what, 'queued'))
    if (what === 'listened') {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(framed({ type: 'response.created', response: state(what, 'in_progress') }))
      for (let i = 0; i < 20; i++)
        response.write(
          framed({ type: 'response.output_text.delta', output_index: 0, content_index: 0, delta: `w${i}.` })
        )
    }
    if (what === 'watched') say(response, 0, 70)
    if (what === 'left') {
      say(response, 0, 16)
      await this.#when('left').promise
      say(response, 16, 70)
    }
    if (what === 'done') {
      await this.#when('done').promise
      const message = { role: 'assistant', content: 'Made.' }
      const choices = [{ index: 0, message, finish_reason: 'stop' }]
      json({ id: 'c', object: 'chat.completion', created: 1, model: 'm', choices, usage: counted })
    }
  }
}

const counted = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 }

function state(id: string, status: string): object {
  const usage = status === 'completed' ? { input_tokens: 11, output_tokens: 7, total_tokens: 18 } : null
  return { id: `resp_${id}`, object: 'response', status, background: true, model: 'm', output: [], usage }
}

function framed(event: { type: string; [member: string]: unknown }): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
}

/** Says words of a chat answer, an event for each. */
function say(response: ServerResponse, from: number, to: number): void {
  if (from === 0) response.writeHead(200, { 'content-type': 'text/event-stream' })
  for (let i = from; i < to; i++) {
    const choices = [{ index: 0, delta: { role: 'assistant', content: `w${i}.` }, finish_reason: null }]
    response.write(
      `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices })}\n\n`
    )
  }
}

function configOf({ url }: Upstream): More {
  const channel = (endpoint: string): object => ({
    protocol: 'openai',
    base_url: url,
    private: true,
    models: { [endpoint]: 'm' },
    endpoints: [endpoint]
  })
  const price = { input: 1, output: 2 }
  return {
    listen: { host: '127.0.0.1', port: 0 },
    admin: { host: '127.0.0.1', port: 0 },
    state: { key: 'a secret of the operator that nobody else knows' },
    // As many as go on at once, and one that waits. Nobody asks the upstream before the process dies.
    tasks: { running: 5, poll: { first: '1s', most: '1s' } },
    channels: { chat: channel('chat'), images: channel('images'), responses: channel('responses') },
    models: { chat: { price, state: 'gateway' }, images: { price: { image: 0.04 } }, responses: { price } },
    tenants: { acme: { budget: { usd: 1000, per: 'month' } } },
    keys: [key('test')],
    chain: patientChain
  }
}

/** A request of the client, and what came of its answer so far. */
interface Begun {
  readonly path: string
  readonly request: string
  readonly id: string
  text: string
  leave(): void
}

/** Begins one on a connection that all share, which is that of one worker; resolves when its client knows its id. */
async function ask(session: ClientHttp2Session, path: string, body: object): Promise<Begun> {
  const stream = session.request({ ...headers, ':method': 'POST', ':path': path })
  stream.on('error', () => {})
  stream.end(JSON.stringify(body))
  const [head] = (await once(stream, 'response')) as [Record<string, string>]
  const begun = { path, request: head['x-request-id']!, id: '', text: '', leave: () => void stream.close(8) }
  stream.on('data', (chunk: Buffer) => (begun.text += chunk.toString()))
  await eventually(() => {
    begun.id = /"id":\s*"((?:resp|task)_[^"]+)"/.exec(begun.text)?.[1] ?? ''
    return begun.id !== ''
  }, 30_000)
  return begun
}

/** Begins all of them, and has each be where it is to be when the process dies. */
async function beginAll(t: Test, url: string, upstream: Upstream): Promise<Record<Kind, Begun>> {
  const session = openSession(t, url)
  const respond = (model: string, input: Kind, stream = false): Promise<Begun> =>
    ask(session, responses, { model, input, background: true, stream, max_output_tokens: 100 })
  const reached = (what: Kind): Promise<void> => eventually(() => upstream.asked.includes(what), 30_000)
  const asked = await respond('chat', 'asked')
  const picture = await ask(session, pictures, { model: 'images', prompt: 'picture', size: '64x64' })
  const watched = await respond('chat', 'watched', true)
  const left = await respond('chat', 'left', true)
  const native = await respond('responses', 'native')
  const listened = await respond('responses', 'listened', true)
  const done = await respond('chat', 'done')
  for (const what of ['asked', 'picture', 'watched', 'left', 'listened', 'done'] as const) await reached(what)
  const follow = session.request({ ...headers, ':path': `${responses}/${left.id}?stream=true` })
  follow.on('error', () => {})
  let followed = ''
  follow.on('data', (chunk: Buffer) => (followed += chunk.toString()))
  await eventually(() => left.text.includes('w15.'), 30_000)
  left.leave()
  upstream.tell('left')
  await eventually(() => followed.includes('w69.') && watched.text.includes('w69.'), 30_000)
  await eventually(() => listened.text.includes('w19.'), 30_000)
  // What is written for the last of them has with it how far the others are.
  const queued = await respond('chat', 'queued')
  upstream.tell('done')
  return { asked, picture, watched, left, native, listened, done, queued }
}

/** What came of one of them, without what differs from one time to the next. */
interface Came {
  readonly status: string
  readonly code: string | null
  readonly ends: readonly object[]
  readonly costs: readonly object[]
  readonly records: readonly object[]
}

async function cameOf(
  { url, adminUrl }: { url: string; adminUrl: string },
  all: Record<Kind, Begun>,
  entries: () => Promise<readonly Entry[]>
): Promise<Record<Kind, Came>> {
  const shown = new Map<string, { status: string; error: { code: string } | null }>()
  await eventually(async () => {
    for (const { path, id } of Object.values(all)) {
      const reply = await call(`${url}${path}/${id}`, 'GET')
      if (reply?.status === 200) shown.set(id, JSON.parse(reply.text))
    }
    return shown.size === 8 && [...shown.values()].every(({ status }) => !/queued|in_progress/.test(status))
  }, 60_000)
  const recordsOf = async (request: string): Promise<any[]> =>
    ((await (await fetch(`${adminUrl}/admin/v1/requests?request_id=${request}`)).json()) as { data: any[] }).data
  await eventually(async () => {
    const found = await Promise.all(Object.values(all).map(({ request }) => recordsOf(request)))
    return found.every(({ length }) => length > 0)
  }, 30_000)
  await applied({ adminUrl })
  const book = await entries()
  const came = Object.entries(all).map(async ([kind, { id, request }]) => {
    const { status, error } = shown.get(id)!
    const rows = book.filter((entry) => entry.request_id === request)
    const shape = ({ kind, amount, usage, source, channel }: Entry): object => ({
      kind,
      amount,
      usage,
      source,
      channel
    })
    const records = (await recordsOf(request)).map(
      ({
        request_id: _id,
        time: _time,
        times: _times,
        duration_ms: _ms,
        first_byte_ms: _first,
        attempts,
        ...record
      }) => ({
        ...record,
        attempts: attempts.map(({ channel, error_code }: Record<string, unknown>) => ({ channel, error_code }))
      })
    )
    const of = (name: RegExp): object[] => rows.filter((entry) => name.test(entry.class)).map(shape)
    return [kind, { status, code: error?.code ?? null, ends: of(/^terminal$/), costs: of(/^cost/), records }]
  })
  return Object.fromEntries(await Promise.all(came)) as Record<Kind, Came>
}

/** The same in every store. */
function check(t: Test, came: Record<Kind, Came>): void {
  const usageOf = (row: object | undefined): Record<string, number> => (row as Entry | undefined)?.usage ?? {}
  for (const kind of ['asked', 'picture', 'queued'] as const)
    t.match(
      came[kind],
      {
        status: 'failed',
        ends: [{ kind: 'void', amount: 0n }],
        records: [{ outcome: 'failed', cost_nano: '0', usage: null }]
      },
      `${kind}: nobody was shown anything of it, and nobody is charged`
    )
  t.same(came.queued.costs, [], 'queued: no upstream was asked')
  t.match(
    came.asked.costs,
    [{ source: 'recovered', channel: 'chat', usage: { output: 0 } }],
    'asked: what it may have cost'
  )
  t.equal((came.asked.costs[0] as Entry).amount, costOf(usageOf(came.asked.costs[0])['input']))
  t.match(came.picture.costs, [{ source: 'recovered', channel: 'images', amount: perPicture, usage: { image: 1 } }])
  for (const kind of ['watched', 'left'] as const) {
    const [end] = came[kind].ends
    t.match(
      end,
      { kind: 'settle', source: 'recovered', channel: 'chat', usage: { output: 65 } },
      `${kind}: what was shown`
    )
    t.equal((end as Entry).amount, costOf(usageOf(end)['input'], 65))
    const record = {
      outcome: 'failed',
      usage_source: 'recovered',
      cost_nano: String((end as Entry).amount),
      channel: 'chat'
    }
    t.match(came[kind], { status: 'failed', records: [record] })
  }
  for (const kind of ['native', 'listened', 'done'] as const)
    t.match(
      came[kind],
      {
        status: 'completed',
        ends: [{ kind: 'settle', amount: costOf(11, 7), source: 'upstream' }],
        costs: [],
        records: [{ outcome: 'completed', usage_source: 'upstream', cost_nano: String(costOf(11, 7)) }]
      },
      `${kind}: it is there, and charged as its upstream counted`
    )
  for (const [kind, { ends, records }] of Object.entries(came)) {
    t.equal(ends.length, 1, `${kind} has one end`)
    t.equal(records.length, 1, `${kind} has one record`)
  }
}

/** The first store's, which those of the others have to be. */
let first: Record<Kind, Came> | undefined

function compare(t: Test, came: Record<Kind, Came>): void {
  check(t, came)
  first ??= came
  for (const kind of Object.keys(came) as Kind[]) t.same(came[kind], first[kind], `${kind} ends as in the first store`)
}

async function ownStory(t: Test, form: Form, how: Launch): Promise<void> {
  const upstream = await Upstream.start(t)
  const home = folder(t)
  const file = join(home, 'sluice.db')
  const config = { ...configOf(upstream), store: storeOf(file, form) }
  const dying = await launch(t, home, config, { ...how, env })
  const all = await beginAll(t, dying.url, upstream)
  let last = dying
  if (!how.script) {
    await eventually(() => !dying.alive, 30_000)
    last = await launch(t, home, config)
  }
  compare(t, await cameOf(last, all, async () => journal(file)))
  await last.end('SIGTERM')
  t.same(verify(file), [], 'the book is in order')
}

async function sharedStory(t: Test, nodes: number): Promise<void> {
  const upstream = await Upstream.start(t)
  const fleet = await Fleet.start(t, {
    nodes,
    config: configOf(upstream),
    launch: (index) => (index === 0 ? { env } : {})
  })
  const [dying] = fleet.nodes
  const all = await beginAll(t, dying!.url, upstream)
  await eventually(() => !dying!.alive, 30_000)
  if (nodes === 1) await dying!.start()
  const last = fleet.nodes.at(-1)!
  compare(t, await cameOf(last, all, async () => (await fleet.journal()) as unknown as Entry[]))
  await fleet.noHolds(30_000, true)
}

t.test('a start on the store of one process ends what goes on without clients', (t) => ownStory(t, forms.log, {}))
t.test('a start on a journal in segments ends it alike', (t) => ownStory(t, forms.journal, {}))
t.test('a supervisor ends it alike when a worker is gone', (t) => ownStory(t, forms.log, withWorkers(2)))
t.test('a start on PostgreSQL ends it alike', { skip: fleetMissing }, (t) => sharedStory(t, 1))
t.test('another gateway on PostgreSQL ends it alike', { skip: fleetMissing }, (t) => sharedStory(t, 2))
