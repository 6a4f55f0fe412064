// The money of responses in the background, an upstream's and the gateway's own, and of realtime sessions: one end for
// each, however often the gateway is killed.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { WebSocket } from 'ws'
import { verify } from '../../core/store/embedded/care/verify.ts'
import { startSimulator } from '../../core/simulator/simulator.ts'
import type { Simulator } from '../../core/simulator/simulator.ts'
import { eventually } from '../kit/probe.ts'
import { applied } from './audit.ts'
import { launch } from './process.ts'
import { chance, folder, journal, key, long, rows, secretOf } from './rig.ts'
import type { Entry, More } from './rig.ts'

const kills = Number(process.env['SLUICE_KILLS'] ?? (long ? 200 : 3))
t.setTimeout(kills > 10 ? 1_800_000 : 600_000)
const random = chance(Number(process.env['SLUICE_SEED'] ?? 20261122))

const path = '/v1/responses'
const headers = { authorization: `Bearer ${secretOf('test')}`, 'content-type': 'application/json' }
const directive = (members: object): string => `Tell me. [[simulator ${JSON.stringify(members)}]]`
const costOf = (input = 0, output = 0): bigint => BigInt(input) * 1000n + BigInt(output) * 2000n

/** An upstream for each model, which counts for itself. */
const models = ['native', 'own', 'talk'] as const
type Simulators = Readonly<Record<(typeof models)[number], Simulator>>

function configOf(simulators: Simulators, file: string): More {
  const channel = (endpoint: string, model: (typeof models)[number]): object => ({
    protocol: 'openai',
    base_url: `${simulators[model].url.origin}/v1`,
    private: true,
    models: { [model]: 'demo' },
    endpoints: [endpoint]
  })
  const price = { input: 1, output: 2 }
  return {
    listen: { host: '127.0.0.1', port: 0 },
    admin: { host: '127.0.0.1', port: 0 },
    store: { sqlite: file },
    state: { key: 'a secret of the operator that nobody else knows' },
    tasks: { poll: { first: '20ms', most: '100ms' } },
    channels: {
      native: channel('responses', 'native'),
      own: channel('chat', 'own'),
      talk: channel('realtime', 'talk')
    },
    models: { native: { price }, own: { price, state: 'gateway' }, talk: { price } },
    tenants: { acme: { projects: { web: {} } } },
    keys: [key('test', { project: 'web', budget: { usd: 1_000_000, per: 'day' } })],
    chain: [
      { auth: {} },
      { quota: {} },
      { ratelimit: {} },
      { route: { repeats: 0, eject_after: 1_000_000 } },
      { 'protocol-translate': {} },
      { 'usage-meter': {} },
      { log: { sink: 'none' } }
    ]
  }
}

/** What a client knows of its response. */
interface Known {
  id: string
  request: string
  model: 'native' | 'own'
  cancelled: boolean
}

/** What a client saw of its session. */
interface Talk {
  request: string
  /** Of each response whose end was shown. */
  done: bigint[]
}

/** A reply as far as it came; undefined when nothing of use did. */
async function call(
  url: string,
  method: string,
  body?: object
): Promise<{ status: number; text: string; request: string } | undefined> {
  try {
    const reply = await fetch(url, {
      method,
      headers,
      ...(body && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(10_000)
    })
    const request = reply.headers.get('x-request-id')!
    let text = ''
    try {
      for await (const piece of reply.body!) text += Buffer.from(piece).toString()
    } catch {
      // What came counts.
    }
    return { status: reply.status, text, request }
  } catch {
    return undefined
  }
}

/** Begins a response; undefined when its client was told of none. */
async function begin(url: string): Promise<Known | undefined> {
  const model = random(2) === 0 ? 'native' : 'own'
  const stream = random(3) === 0
  const time = random(300)
  const members =
    model === 'native' && !stream
      ? { queue_ms: time / 4, work_ms: time, tokens: 5 + random(30) }
      : stream
        ? { tokens: 5 + random(30), gap_ms: 1 + random(10) }
        : { first_byte_ms: time, tokens: 5 + random(30) }
  const reply = await call(`${url}${path}`, 'POST', { model, input: directive(members), background: true, stream })
  const id = reply?.status === 200 ? /"id":\s*"(resp_\w+)"/.exec(reply.text)?.[1] : undefined
  return id === undefined ? undefined : { id, request: reply!.request, model, cancelled: false }
}

/** Talks until the session ends. */
async function talk(url: string, seen: Talk[], over: () => boolean): Promise<void> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/realtime?model=talk`, {
    headers: { authorization: headers.authorization }
  })
  socket.on('error', () => {})
  const closed = new Promise<void>((resolve) => void socket.on('close', () => resolve()))
  const session: Talk = { request: '', done: [] }
  socket.on('upgrade', ({ headers: { 'x-request-id': id } }) => {
    session.request = String(id)
    seen.push(session)
  })
  const say = (): void => {
    if (over()) return socket.close()
    socket.send(
      JSON.stringify({
        type: 'conversation.item.create',
        item: {
          type: 'message',
          role: 'user',
          content: [{ type: 'input_text', text: directive({ tokens: 3 + random(20), gap_ms: random(8) }) }]
        }
      })
    )
    socket.send(JSON.stringify({ type: 'response.create', response: { output_modalities: ['text'] } }))
  }
  socket.on('open', say)
  socket.on('message', (data) => {
    const { type, response } = JSON.parse(String(data)) as {
      type: string
      response?: { usage: { input_tokens: number; output_tokens: number } }
    }
    if (type !== 'response.done') return
    session.done.push(costOf(response!.usage.input_tokens, response!.usage.output_tokens))
    say()
  })
  await closed
}

type Part = Entry & { part: string; model: string }

/** A charge for the prompt alone, by estimate: due for work that was called off and of which nothing is counted. */
function isPrompt(end: Part | undefined): boolean {
  if (end?.kind !== 'settle' || end.source !== 'estimated') return false
  const { input = 0, output } = end.usage ?? {}
  return input > 0 && output === 0 && end.amount === costOf(input, 0)
}

/** The books beside what clients saw and what the upstream counted. */
function check(
  t: Test,
  file: string,
  simulators: Simulators,
  known: readonly Known[],
  shown: ReadonlyMap<string, any>,
  talks: readonly Talk[]
): string {
  const entries = (journal(file) as Part[]).filter((entry) => entry.class === 'terminal')
  const name = ({ request_id, part }: Part): string => `${request_id}/${part}`
  t.equal(new Set(entries.map(name)).size, entries.length, 'nothing ended twice')
  const ends = new Map(entries.map((entry) => [name(entry), entry]))
  const wrong = known.flatMap((one) => {
    const response = shown.get(one.id)
    const end = ends.get(`${one.request}/`)
    const due = response?.usage ? costOf(response.usage.input_tokens, response.usage.output_tokens) : 0n
    const problem = !response
      ? 'lost'
      : response.status === 'completed' && (end?.kind !== 'settle' || end.amount !== due)
        ? 'not charged as the upstream counted'
        : one.model === 'native' &&
            response.status !== 'completed' &&
            !(one.cancelled && response.status === 'cancelled')
          ? "an upstream's response has another end than it had there"
          : one.model === 'native' && end?.amount !== due && !(one.cancelled && !response.usage && isPrompt(end))
            ? 'not charged as it ended'
            : !end || end.amount > end.reserved
              ? 'no end, or a dear one'
              : undefined
    return problem === undefined ? [] : [{ problem, one, status: response?.status, due, end }]
  })
  t.same(wrong.slice(0, 3), [], 'every response is there, and charged once for what it came to')
  const wrongTalks = talks.flatMap(({ request, done }) => {
    const parts = entries.filter((entry) => entry.request_id === request && entry.part !== '')
    const left = parts.map(({ amount }) => amount)
    for (const amount of done) {
      const at = left.indexOf(amount)
      if (at === -1) return [{ request, amount, parts }]
      left.splice(at, 1)
    }
    return left.length > 1 ? [{ request, amount: left[0]!, parts }] : []
  })
  t.same(
    wrongTalks.slice(0, 3),
    [],
    'every turn whose end was shown is charged once, and at most one more was under way'
  )
  t.same(rows(file, 'SELECT request_id FROM reservation'), [], 'nothing is held')
  t.same(rows(file, 'SELECT id FROM work WHERE open = 1'), [], 'nothing is open')
  t.same(verify(file), [], 'the book is in order')
  const tokens = models.map((model) => {
    const charged = entries
      .filter((entry) => entry.source === 'upstream' && entry.model === model)
      .reduce((sum, { usage }) => sum + (usage?.['input'] ?? 0) + (usage?.['output'] ?? 0), 0)
    const { prompt = 0, completion = 0 } = simulators[model].stats.counted
    t.ok(
      charged <= prompt + completion,
      `${model}: its upstream has counted ${prompt + completion} tokens, of which ${charged} are charged`
    )
    return `${model}: ${charged} of ${prompt + completion} tokens`
  })
  const of = (model: string, status: string): number =>
    known.filter((one) => one.model === model && shown.get(one.id)?.status === status).length
  return (
    `${kills} kills: ${known.length} responses (native ${of('native', 'completed')} completed, ${of('native', 'cancelled')} cancelled; own ${of('own', 'completed')} completed, ${of('own', 'cancelled')} cancelled, ${of('own', 'failed')} ended by a kill), ` +
    `${talks.length} sessions with ${talks.reduce((sum, { done }) => sum + done.length, 0)} turns seen to their end, ${entries.filter(({ source }) => source === 'recovered').length} recovered; charged of what upstreams counted, ${tokens.join(', ')}`
  )
}

t.test(
  `${kills} kills over responses in the background and realtime sessions lose no charge and double none`,
  async (t) => {
    const simulators = Object.fromEntries(
      await Promise.all(models.map(async (model) => [model, await startSimulator()]))
    ) as Simulators
    t.teardown(() => Promise.all(models.map((model) => simulators[model].close())))
    const home = folder(t)
    const file = join(home, 'sluice.db')
    const config = configOf(simulators, file)
    const known: Known[] = []
    const talks: Talk[] = []
    for (let kill = 0; kill < kills; kill++) {
      const running = await launch(t, home, config)
      let over = false
      const lane = async (): Promise<void> => {
        while (!over) {
          const one = await begin(running.url)
          if (one) known.push(one)
          if (one && random(5) === 0) {
            one.cancelled = true
            await call(`${running.url}${path}/${one.id}/cancel`, 'POST')
          } else if (one && random(2) === 0) await call(`${running.url}${path}/${one.id}`, 'GET')
          await sleep(random(20))
        }
      }
      const talking = async (): Promise<void> => {
        while (!over) await talk(running.url, talks, () => over)
      }
      const load = Promise.all([...Array.from({ length: 5 }, lane), ...Array.from({ length: 3 }, talking)])
      await sleep(100 + random(400))
      over = true
      await running.end('SIGKILL')
      await load
    }
    const last = await launch(t, home, config)
    const shown = new Map<string, any>()
    await eventually(async () => {
      for (const { id } of known) {
        if (shown.has(id)) continue
        const reply = await call(`${last.url}${path}/${id}`, 'GET')
        const response = reply?.status === 200 ? JSON.parse(reply.text) : undefined
        if (reply && !/queued|in_progress/.test(response?.status)) shown.set(id, response)
      }
      return shown.size === known.length
    }, 60_000)
    await applied(last)
    await eventually(() => rows(file, 'SELECT id FROM work WHERE open = 1').length === 0, 10_000)
    await last.end('SIGTERM')
    t.comment(check(t, file, simulators, known, shown, talks))
  }
)
