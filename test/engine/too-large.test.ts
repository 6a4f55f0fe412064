// Answers that the gateway cannot carry: asked for once, charged, and not the fault of their channel.
import t from 'tap'
import type { Test } from 'tap'
import { events, head, Upstream } from '../kit/upstream.ts'
import type { Step } from '../kit/upstream.ts'
import { channelTo, chatEvents, Workbench } from '../kit/workbench.ts'
import type { Answer } from '../kit/workbench.ts'

const mega = 1024 * 1024
const sse = head(200, { 'content-type': 'text/event-stream' })
const messages = [{ role: 'user', content: 'Hi' }]

/** Two channels of a protocol, the second of which is asked when the first fails. Ejected after one failure. */
async function open(t: Test, protocol: string): Promise<{ bench: Workbench; first: Upstream; second: Upstream }> {
  const [first, second] = [await Upstream.start(t), await Upstream.start(t)]
  const bench = await Workbench.open(t, {
    channels: { first: channelTo(first, { protocol }), second: channelTo(second, { protocol, priority: 1 }) },
    chain: [
      'auth',
      'quota',
      'ratelimit',
      { route: { eject_after: 1, repeats: 1 } },
      'protocol-translate',
      'usage-meter',
      { log: { sink: 'none' } }
    ]
  })
  return { bench, first, second }
}

interface Case {
  what: string
  protocol: string
  stream: boolean
  answer: readonly Step[] | object
  /** As what it is charged. */
  source: 'upstream' | 'partial'
}

/** A stream of Messages whose one call has these pieces of input. */
const call = (...pieces: string[]): object[] => [
  { type: 'message_start', message: { id: 'msg_1', type: 'message', role: 'assistant', content: [], usage } },
  { type: 'content_block_start', index: 0, content_block: { type: 'tool_use', id: 'toolu_1', name: 'f', input: {} } },
  ...pieces.map((partial_json) => ({
    type: 'content_block_delta',
    index: 0,
    delta: { type: 'input_json_delta', partial_json }
  })),
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 7 } },
  { type: 'message_stop' }
]
const usage = { input_tokens: 11, output_tokens: 7 }
const named = (list: readonly object[]): unknown[] =>
  list.map((event: any) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
const answerOf = (input: object): object => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'demo',
  stop_reason: 'tool_use',
  usage,
  content: [{ type: 'tool_use', id: 'toolu_1', name: 'f', input }]
})

const cases: readonly Case[] = [
  {
    what: 'a whole answer that is too involved to be translated',
    protocol: 'anthropic',
    stream: false,
    answer: answerOf({ list: Array.from({ length: 900_000 }, () => ({})) }),
    source: 'upstream'
  },
  {
    what: 'an event that is too involved to be translated',
    protocol: 'anthropic',
    stream: true,
    answer: [sse, events(named(call(JSON.stringify({ a: 'x'.repeat(9 * mega) }))))],
    source: 'partial'
  },
  {
    what: 'a call that is too large to be translated',
    protocol: 'anthropic',
    stream: true,
    answer: [sse, events(named(call('{"a":"', ...Array.from({ length: 3 }, () => 'x'.repeat(mega)), '"}')))],
    source: 'partial'
  },
  {
    what: 'an event that is too large to be looked into',
    protocol: 'openai',
    stream: true,
    answer: [sse, events([{ choices: [{ index: 0, delta: { content: 'x'.repeat(17 * mega) } }] }])],
    source: 'partial'
  },
  {
    what: 'a stream that is too large to be put together for a client that wants none',
    protocol: 'openai',
    stream: false,
    answer: [sse, events(chatEvents(18).map((event) => ({ ...event, pad: 'x'.repeat(mega) })))],
    source: 'partial'
  }
]

for (const { what, protocol, stream, answer, source } of cases)
  t.test(`${what} is asked for once, charged, and not its channel's fault`, async (t) => {
    const { bench, first, second } = await open(t, protocol)
    if (Array.isArray(answer)) first.script(...(answer as Step[]))
    else first.json(answer)
    const refused = await bench.send({ body: { messages, stream } })
    t.match(codeOf(refused), 'answer_too_large')
    t.match([refused.outcome.kind, refused.outcome.error?.source], ['failed', 'gateway'])
    if (!refused.headers['content-type']?.startsWith('text/event-stream'))
      t.match([refused.status, refused.headers['x-should-retry']], [502, 'false'], 'nor by the library of the client')
    t.same([first.requests.length, second.requests.length], [1, 0])
    const { settled } = bench.ledger.rows[0]!
    t.equal(settled?.source, source)
    t.ok(settled!.usage.input > 0)
    if (source === 'upstream') t.match(settled!.usage, { input: 11, output: 7 })
    t.same(bench.ledger.open, [])
    if (protocol === 'anthropic') first.json(answerOf({}))
    else first.sse(chatEvents(2))
    t.equal((await bench.send({ body: { messages, stream: protocol !== 'anthropic' } })).status, 200)
    t.equal(first.requests.length, 2, 'the channel is asked again')
  })

/** Of a reply, or of the error at the end of a stream. */
function codeOf({ body }: Answer): string | undefined {
  return /"code":"(\w+)"/.exec(body)?.[1]
}
