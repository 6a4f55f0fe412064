// A stop ends an exchange in whatever phase it is: its client is told, nothing more is sent upstream, and nothing
// is left open.
import t from 'tap'
import type { Test } from 'tap'
import { definePlugin } from '../../core/contract/contract.ts'
import type { Exchange, Reply } from '../../core/contract/contract.ts'
import { plugins } from '../../plugins/index.ts'
import { connect } from '../kit/client.ts'
import type { Client } from '../kit/client.ts'
import { gateway, testKey, testModel } from '../kit/gateway.ts'
import { eventually, figures } from '../kit/probe.ts'
import { openRealtime, refusedRealtime } from '../kit/realtime.ts'
import { sessionsAt, socketUpstream } from '../kit/socket-upstream.ts'
import { events, head, stall, Upstream } from '../kit/upstream.ts'
import type { Step } from '../kit/upstream.ts'
import { chatEvents } from '../kit/workbench.ts'

/** Where the plugin of the test holds an exchange up until a stop has come by. */
type Place = 'onRequest' | 'onAttempt' | 'onResponse' | 'showAfter' | 'reply' | 'nowhere'

/** A plugin that is asynchronous at one place, and resolves once the signal of the exchange has been aborted. */
function gate(place: Place): { plugin: ReturnType<typeof definePlugin>; reached: Promise<void> } {
  const { promise: reached, resolve: reach } = Promise.withResolvers<void>()
  const stopped = (exchange: Pick<Exchange, 'signal'>): Promise<void> =>
    new Promise((resolve) => {
      reach()
      exchange.signal.addEventListener('abort', () => setImmediate(resolve))
    })
  const at = (here: Place, exchange: Exchange): Promise<void> | undefined =>
    place === here ? stopped(exchange) : undefined
  const plugin = definePlugin({
    name: 'gate',
    summary: 'Holds exchanges up.',
    options: {},
    setup: () => ({
      onRequest(exchange): Promise<void> | Reply | undefined {
        if (place === 'showAfter') exchange.showAfter(() => stopped(exchange))
        if (place !== 'reply') return at('onRequest', exchange)
        return {
          stream: (async function* () {
            await stopped(exchange)
            yield Buffer.from('data: late\n\n')
          })()
        }
      },
      onAttempt: (exchange) => at('onAttempt', exchange),
      onResponse: (exchange) => at('onResponse', exchange)
    })
  })
  return { plugin, reached }
}

const sse = head(200, { 'content-type': 'text/event-stream' })
const chainOf = (route: object): unknown[] => [
  'auth',
  'quota',
  'ratelimit',
  { route },
  'protocol-translate',
  'usage-meter',
  'gate',
  { log: { sink: 'none' } }
]

interface Phase {
  place?: Place
  script?: readonly Step[]
  /** How many requests the upstream sees. */
  sent: number
  /** Sends the request in another way. */
  send?: (client: Client) => void
  /** The phase has been reached; by default, the plugin of the test says so. */
  reached?: (upstream: Upstream, client: Client) => Promise<unknown>
}

const asked = (upstream: Upstream): Promise<unknown> => upstream.request(0)
const unended = (type: string, start: string) => (client: Client) =>
  void client.socket.write(
    `POST ${type.startsWith('multipart') ? '/v1/audio/transcriptions' : '/v1/chat/completions'} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${testKey}\r\nContent-Type: ${type}\r\nContent-Length: 5000\r\n\r\n${start}`
  )

const phases: Readonly<Record<string, Phase>> = {
  'while its body comes': {
    sent: 0,
    send: unended('application/json', '{"model":'),
    reached: (_upstream, client) => eventually(() => client.socket.bytesWritten > 0)
  },
  'while its form comes': {
    sent: 0,
    send: unended('multipart/form-data; boundary=x', '--x\r\n'),
    reached: (_upstream, client) => eventually(() => client.socket.bytesWritten > 0)
  },
  'while a plugin is asked': { place: 'onRequest', sent: 0 },
  'while a plugin prepares an attempt': { place: 'onAttempt', sent: 0 },
  'between two attempts': {
    script: [head(503, { 'content-length': '0', 'retry-after': '5' })],
    sent: 1,
    reached: (upstream) => eventually(() => upstream.requests.length === 1)
  },
  'before the head': { script: [stall()], sent: 1, reached: asked },
  'while a plugin looks at the head': { place: 'onResponse', script: [sse, events(chatEvents(2))], sent: 1 },
  'before the first byte': {
    place: 'showAfter',
    script: [sse, events(chatEvents(2)), stall()],
    sent: 1,
    reached: asked
  },
  'in the midst of a stream': {
    script: [sse, events(chatEvents(3)), stall()],
    sent: 1,
    reached: (_upstream, client) => client.body('word')
  },
  'in a reply of a plugin': { place: 'reply', sent: 0 }
}

for (const [what, { place = 'nowhere', script = [], sent, send, reached: reachedBy }] of Object.entries(phases))
  t.test(what, async (t) => {
    const { plugin, reached } = gate(place)
    const upstream = await Upstream.start(t)
    upstream.script(...script)
    const running = await open(t, plugin, {}, { up: upstream })
    const client = await connect(t, running.url)
    if (send) send(client)
    else
      client.send({
        method: 'POST',
        path: '/v1/chat/completions',
        headers: { authorization: `Bearer ${testKey}` },
        body: { model: testModel, stream: true, messages: [{ role: 'user', content: 'Hi' }] }
      })
    await (reachedBy ? reachedBy(upstream, client) : reached)
    // As long as its body comes, the server may not have read the head.
    if (sent === 0) await eventually(async () => (await running.running()) === 1)
    const closed = running.gateway.close()
    const { status, text } = await client.reply()
    t.ok(status === 503 || status === 200, String(status))
    t.match(text, 'draining')
    t.notMatch(text, /\[DONE\]|late/)
    await closed
    t.equal(upstream.requests.length, sent, 'nothing was sent afterwards')
    await eventually(() => upstream.open === 0)
  })

const sessions: Readonly<Record<string, { place?: Place; silent?: true }>> = {
  'while a session is opened upstream': { silent: true },
  'while a plugin looks at a session': { place: 'onResponse' },
  'before a session may be shown': { place: 'showAfter' },
  'in a session': {}
}

for (const [what, { place = 'nowhere', silent }] of Object.entries(sessions))
  t.test(what, async (t) => {
    const { plugin, reached } = gate(place)
    const upstream = await socketUpstream(t, { silent: silent ?? false })
    const running = await open(t, plugin, sessionsAt(upstream))
    if (place === 'nowhere' && !silent) {
      const client = await openRealtime(t, running)
      const closed = running.gateway.close()
      t.match(
        [(await client.closed).code, client.events.at(-1)],
        [1012, { type: 'error', error: { code: 'draining' } }]
      )
      return void (await closed)
    }
    const refused = refusedRealtime(t, running)
    if (place === 'nowhere') await eventually(async () => (await running.running()) === 1)
    else await reached
    if (place === 'showAfter') await upstream.peer(1)
    const closed = running.gateway.close()
    t.match(await refused, { status: 503, json: { error: { code: 'draining' } } })
    await closed
    const ended = (): boolean => upstream.peers.every(({ stream }) => stream.destroyed || stream.readableEnded)
    await eventually(ended)
  })

async function open(
  t: Test,
  plugin: ReturnType<typeof definePlugin>,
  overrides: Record<string, unknown>,
  upstreams?: Record<string, Upstream>
) {
  const local = await gateway(
    t,
    { ...overrides, chain: chainOf({ repeats: 2 }) },
    { ...(upstreams && { upstreams }), plugins: new Map([...plugins, [plugin.name, plugin]]) }
  )
  const running = async (): Promise<number | undefined> => (await figures(t, local)).get('sluice_exchanges_running')
  return { ...local, running }
}
