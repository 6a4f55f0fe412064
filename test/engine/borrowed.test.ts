// The memory of events is used again at once. Whoever keeps one, holds one back, or reads slowly still has its bytes.
import t from 'tap'
import { definePlugin } from '../../core/contract/contract.ts'
import type { Exchange, Message, Stage } from '../../core/contract/contract.ts'
import { plugins } from '../../plugins/index.ts'
import { connect } from '../kit/client.ts'
import { gateway, testKey, testModel } from '../kit/gateway.ts'
import type { TestGateway } from '../kit/gateway.ts'
import { readEvents } from '../kit/sse.ts'
import { endOfBody, events, head, pause, Upstream } from '../kit/upstream.ts'
import { chatEvents } from '../kit/workbench.ts'

type Test = Parameters<typeof gateway>[0]

/** A gateway whose answers pass this stage. */
async function open(t: Test, stage: (exchange: Exchange) => Stage | undefined) {
  const upstream = await Upstream.start(t)
  const staged = definePlugin({
    name: 'staged',
    summary: 'For a test.',
    options: {},
    setup: () => ({ onResponse: (exchange) => stage(exchange) })
  })
  const running = await gateway(
    t,
    { chain: [{ auth: {} }, { quota: {} }, { staged: {} }, { route: {} }, { 'usage-meter': {} }] },
    { upstreams: { up: upstream }, plugins: new Map([...plugins, ['staged', staged]]) }
  )
  return { upstream, running }
}

/** The text of an event in the stream with this number. */
const word = (stream: number, at: number, more = 0): string =>
  `${stream}-${at}-${'abcdefghij'.repeat(((stream * 7 + at) % 20) + more)}`

/** So many streams at the same time, whose events come one by one in turns. */
function script(upstream: Upstream, streams: number, words: number, more = 0): void {
  const [opening, content] = chatEvents(1)
  for (let stream = 0; stream < streams; stream++) {
    const said = Array.from({ length: words }, (_, at) => ({
      ...content,
      choices: [{ index: 0, delta: { content: word(stream, at, more) }, finish_reason: null }]
    }))
    upstream.script(
      head(200, { 'content-type': 'text/event-stream' }),
      events([opening]),
      ...said.flatMap((event) => [events([event]), pause(2)]),
      events([...chatEvents(1).slice(-2), 'data: [DONE]\n\n']),
      endOfBody()
    )
  }
}

function request() {
  const body = { model: testModel, messages: [], stream: true }
  return { path: '/v1/chat/completions', headers: { authorization: `Bearer ${testKey}` }, body }
}

/** What was said in a stream, word by word. */
function wordsOf(body: Buffer): string[] {
  return readEvents(body)
    .filter(({ data }) => data !== '[DONE]')
    .flatMap(({ data }) => JSON.parse(data).choices?.[0]?.delta?.content || [])
}

/** Streams to as many clients; the words that each got, in the order of the streams. */
async function ask(t: Test, running: TestGateway, streams: number): Promise<string[][]> {
  const clients = await Promise.all(Array.from({ length: streams }, () => connect(t, running.url)))
  const replies = await Promise.all(clients.map((client) => (client.send(request()), client.reply())))
  t.ok(replies.every(({ complete, body }) => complete && body.toString().endsWith('data: [DONE]\n\n')))
  return replies.map(({ body }) => wordsOf(body)).sort((a, b) => parseInt(a.at(-1)!, 10) - parseInt(b.at(-1)!, 10))
}

/** All words of a stream; the first event of all has a word of its own. */
const all = (stream: number, words: number, more = 0): string[] =>
  Array.from({ length: words }, (_, at) => word(stream, at, more))

t.test('a stage that keeps messages has them as they came, whatever came since', async (t) => {
  const kept: Message[][] = []
  const { upstream, running } = await open(t, () => {
    const own: Message[] = []
    kept.push(own)
    return { observe: (message) => void own.push(message) }
  })
  script(upstream, 6, 30)
  const got = await ask(t, running, 6)
  for (const [stream, words] of got.entries()) t.same(words.slice(-30), all(stream, 30))
  const seen = kept
    .map((messages) => wordsOf(Buffer.concat(messages.map(({ bytes }) => bytes))))
    .sort((a, b) => parseInt(a.at(-1)!, 10) - parseInt(b.at(-1)!, 10))
  t.same(seen, got)
})

t.test('events that wait for the disk in mid-stream are shown as they came', async (t) => {
  const { upstream, running } = await open(t, (exchange) => {
    let count = 0
    return {
      borrows: true,
      observe() {
        if (++count % 5 === 0) exchange.showAfter(() => new Promise((resolve) => setTimeout(resolve, 15)))
      }
    }
  })
  script(upstream, 6, 30)
  for (const [stream, words] of (await ask(t, running, 6)).entries()) t.same(words.slice(-30), all(stream, 30))
})

t.test('events that a stage with a promise passes on, and its end marker, are what came', async (t) => {
  const { upstream, running } = await open(t, () => ({ borrows: true, map: (message, emit) => emit(message) }))
  script(upstream, 6, 30)
  for (const [stream, words] of (await ask(t, running, 6)).entries()) t.same(words.slice(-30), all(stream, 30))
})

t.test('a client that stops reading gets what was written in the meantime, as others get theirs', async (t) => {
  const { upstream, running } = await open(t, () => undefined)
  const [opening, content] = chatEvents(1)
  const long = Array.from({ length: 2000 }, (_, at) => ({
    ...content,
    choices: [{ index: 0, delta: { content: `slow ${at} ${'z'.repeat(6000)}` }, finish_reason: null }]
  }))
  upstream.script(
    head(200, { 'content-type': 'text/event-stream' }),
    events([opening]),
    // One by one: what comes in large reads is written from where it was read to.
    ...long.flatMap((event) => [events([event]), pause(1)]),
    events([...chatEvents(1).slice(-2), 'data: [DONE]\n\n']),
    endOfBody()
  )
  const slow = await connect(t, running.url)
  slow.send(request())
  await slow.body(1000)
  slow.stopReading()
  const written = (): number => upstream.connections[0]!.written
  for (let last = -1; last !== written(); await new Promise((resolve) => setTimeout(resolve, 500))) last = written()
  t.ok(written() < 12_000_000, 'it is held back')
  // As long as what the slow one has not taken.
  script(upstream, 4, 40, 700)
  for (const [stream, words] of (await ask(t, running, 4)).entries()) t.same(words.slice(-40), all(stream, 40, 700))
  slow.resume()
  const { body, complete } = await slow.reply()
  t.ok(complete)
  t.same(
    wordsOf(body).slice(-2000),
    long.map(({ choices }) => choices[0]!.delta.content)
  )
})
