// Replies of plugins: whole ones and streams, past the stages of the plugins above, at the pace of the client.
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { definePlugin, GatewayError } from '../../core/contract/contract.ts'
import type { Hooks, Plugin, Reply, Stage } from '../../core/contract/contract.ts'
import { connect } from '../kit/client.ts'
import { gateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'
import { checkChatStream } from '../kit/sse.ts'
import { eventBytes, Upstream } from '../kit/upstream.ts'
import { channelTo, chatAnswer, chatEvents, defaultChain, Workbench } from '../kit/workbench.ts'
import { plugins } from '../../plugins/index.ts'

function plugin(name: string, hooks: Hooks): Plugin {
  return definePlugin({ name, summary: 'For a test.', options: {}, setup: () => hooks })
}

let reply: () => Reply
let stage: () => Stage | undefined
const more = [
  plugin('above', { onResponse: (_exchange, { attempt }) => (attempt ? undefined : stage()) }),
  plugin('replier', {
    onRequest: () => reply(),
    onResponse: () => ({ observe: () => t.fail('who replies does not see its own reply') })
  }),
  plugin('below', { onResponse: () => ({ observe: () => t.fail('nor does who is below') }) })
]

async function open(
  t: Parameters<typeof Workbench.open>[0],
  chain: readonly unknown[] = []
): Promise<{ bench: Workbench; upstream: Upstream }> {
  const upstream = await Upstream.start(t)
  const whole =
    chain.length > 0
      ? chain
      : defaultChain.flatMap((entry): unknown[] => ('route' in entry ? ['above', 'replier', 'below', entry] : [entry]))
  return { upstream, bench: await Workbench.open(t, { channels: { a: channelTo(upstream) }, chain: whole }, { more }) }
}

const wire = Buffer.concat([...chatEvents().map(eventBytes), Buffer.from('data: [DONE]\n\n')])
const shout = (): Stage => ({ text: ({ text }) => text.toUpperCase(), flush: () => '!' })

t.test(
  'events that were recorded are replayed as events, in any pieces, with or without their end marker',
  async (t) => {
    const { bench, upstream } = await open(t)
    stage = () => undefined
    const unmarked = wire.subarray(0, wire.lastIndexOf('data: [DONE]'))
    async function* slowly(): AsyncIterable<Uint8Array> {
      for (let at = 0; at < wire.length; at += 100) {
        await sleep(1)
        yield new Uint8Array(wire.subarray(at, at + 100))
      }
    }
    const forms: [string, () => Reply & { stream: unknown }][] = [
      ['one buffer', () => ({ stream: wire })],
      ['a list of bytes', () => ({ stream: Array.from(wire, (byte) => Uint8Array.of(byte)) })],
      ['no end marker', () => ({ stream: unmarked })],
      ['as they come', () => ({ stream: slowly() })]
    ]
    for (const [how, form] of forms) {
      reply = () => ({ headers: [['x-cache', 'hit']], ...form() })
      const answer = await bench.send({ body: { stream: true } })
      t.equal(answer.body, wire.toString(), how)
      t.match(answer.headers, {
        'x-cache': 'hit',
        'content-type': 'text/event-stream; charset=utf-8',
        'cache-control': 'no-cache'
      })
      t.match(answer.outcome, { kind: 'completed', status: 200, bytes: wire.length })
      t.match(bench.records.at(-1), { outcome: 'completed', channel: null, attempts: [], cost_nano: '0' })
    }
    const whole = await bench.send()
    t.equal(
      JSON.parse(whole.body).choices[0].message.content,
      'word0 word1 word2 ',
      'put together for a client that wants a whole answer'
    )
    t.strictSame(bench.ledger.open, [])
    t.equal(upstream.requests.length, 0)
  }
)

t.test('the stages of the plugins above see a reply, as they see an answer', async (t) => {
  const { bench } = await open(t)
  stage = shout
  reply = () => ({ stream: wire })
  const streamed = await bench.send({ body: { stream: true } })
  checkChatStream(streamed.body, { usage: true })
  t.match(streamed.body, /WORD0.*WORD1.*WORD2.*!/s)
  const bodies: Reply[] = [
    { status: 200, body: chatAnswer() },
    { status: 200, headers: [['Content-Type', 'application/json; charset=utf-8']], body: JSON.stringify(chatAnswer()) },
    {
      status: 200,
      headers: [['content-type', 'application/json']],
      body: new TextEncoder().encode(JSON.stringify(chatAnswer()))
    }
  ]
  for (const body of bodies) {
    reply = () => body
    const answer = await bench.send()
    t.equal(JSON.parse(answer.body).choices[0].message.content, 'HELLO!')
    t.match(answer.headers['content-type'], 'application/json')
  }
  reply = () => ({ status: 200, headers: [['content-type', 'text/plain']], body: 'no message' })
  t.match(await bench.send(), { status: 502, body: /answer_not_inspected/ }, 'what a stage cannot see does not pass')
  reply = () => ({ status: 418, body: { error: 'no answer' } })
  t.match(
    await bench.send(),
    { status: 418, body: '{"error":"no answer"}' },
    'what is no answer has no text to be seen'
  )
  stage = () => ({
    whole: true,
    text: () => {
      throw new GatewayError('content_blocked', 'No.')
    }
  })
  reply = () => ({ stream: wire })
  const blocked = await bench.send({ body: { stream: true } })
  t.match(blocked.body, 'content_blocked')
  t.notMatch(blocked.body, 'word')
})

t.test('what the gateway answers by itself passes the whole chain', async (t) => {
  const seen: string[] = []
  const { bench } = await open(t, ['above', ...defaultChain])
  stage = () => ({ observe: ({ kind, data }) => void seen.push(`${kind} ${data.toString().slice(0, 16)}`) })
  t.equal((await bench.send({ method: 'GET', target: '/v1/models' })).status, 200)
  t.strictSame(seen, ['json {"object":"list"'])
})

t.test('a stream that breaks is an error, before and after the first event, and is settled', async (t) => {
  const { bench } = await open(t)
  stage = () => undefined
  for (const [shown, end] of [
    [0, 'throw'],
    [3, 'throw'],
    [3, 'end']
  ] as const) {
    bench.log.length = 0
    reply = () => ({
      stream: (async function* () {
        for (const event of chatEvents().slice(0, shown)) yield eventBytes(event)
        await sleep(20)
        if (end === 'throw') throw new TypeError('a mistake')
      })()
    })
    const answer = await bench.send({ body: { stream: true } })
    t.notMatch(answer.body, '[DONE]')
    t.match(answer.body, end === 'throw' ? 'internal_error' : 'upstream_stream_interrupted')
    t.equal(answer.status, shown === 0 ? 500 : 200)
    if (end === 'throw') t.ok(bench.log.some(({ fields }) => String(fields['error']).includes('in the plugin replier')))
    t.strictSame(bench.ledger.open, [])
  }
})

t.test('a stream is read as fast as its client reads, and closed when that leaves', async (t) => {
  let given = 0
  let closed = false
  const piece = eventBytes(
    chatEvents(1)[1]!.constructor === Object ? { ...chatEvents(1)[1], padding: 'x'.repeat(16 * 1024) } : {}
  )
  const endless = plugin('endless', {
    onRequest: () => ({
      stream: (function* () {
        try {
          yield eventBytes(chatEvents()[0]!)
          for (;;) {
            given += piece.length
            yield piece
          }
        } finally {
          closed = true
        }
      })()
    })
  })
  const running = await gateway(
    t,
    {
      chain: [{ auth: {} }, 'endless', { route: {} }, { log: { sink: 'none' } }],
      limits: { disconnect_drain: { time: '50ms' } }
    },
    {
      plugins: new Map([...plugins, [endless.name, endless]])
    }
  )
  const client = await connect(t, running.url)
  client.send({
    path: '/v1/chat/completions',
    headers: { authorization: 'Bearer sk-test-000000000000000000000000' },
    body: { model: 'demo', messages: [], stream: true }
  })
  await client.body('word0')
  client.stopReading()
  let before = -1
  await eventually(async () => {
    const still = given === before
    before = given
    await sleep(50)
    return still
  })
  t.ok(given < 64 * 1024 * 1024, `${given} bytes were read ahead`)
  t.notOk(closed)
  client.reset()
  await eventually(() => closed)
  t.pass('and the generator was closed')
})
