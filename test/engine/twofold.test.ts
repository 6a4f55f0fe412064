// Answers that two readers could take for different ones: what has a member twice where anybody reads it is refused,
// whole, streamed and in sessions, however the channel is spoken to.
import t from 'tap'
import type { Test } from 'tap'
import { gateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'
import { openRealtime } from '../kit/realtime.ts'
import { sessionsAt, socketUpstream } from '../kit/socket-upstream.ts'
import { endOfBody, events, head, Upstream } from '../kit/upstream.ts'
import { channelTo, Workbench } from '../kit/workbench.ts'
import type { Answer } from '../kit/workbench.ts'

/** More than is parsed as a whole. */
const large = 'x'.repeat(70_000)
const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
const message = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'theirs',
  content: [],
  stop_reason: null,
  usage
}
const response = { id: 'resp_1', object: 'response', status: 'in_progress', model: 'theirs', output: [] }
const done = {
  ...response,
  status: 'completed',
  output: [
    { id: 'msg_1', type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Hi', annotations: [] }] }
  ],
  usage
}
const chat = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'theirs' }
const choice = (delta: object, finish_reason: string | null = null): object => ({ index: 0, delta, finish_reason })

interface Dialect {
  channel: Record<string, unknown>
  target: string
  body: object
  /** A stream of it, which is whole. */
  stream: readonly object[]
  whole: object
  /** Members that one event or answer has twice, by the member that they stand in: `''` is the top. */
  twice: Readonly<Record<string, readonly string[]>>
}

const dialects: Readonly<Record<string, Dialect>> = {
  'chat completions': {
    channel: {},
    target: '/v1/chat/completions',
    body: { messages: [{ role: 'user', content: 'Hi' }] },
    stream: [
      { ...chat, choices: [choice({ role: 'assistant', content: 'one' })] },
      { ...chat, choices: [choice({ content: 'two' })] },
      { ...chat, choices: [choice({}, 'stop')], usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } }
    ],
    whole: { ...chat, choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }] },
    twice: { '': ['id', 'model', 'choices', 'usage'] }
  },
  messages: {
    channel: { protocol: 'anthropic' },
    target: '/v1/messages',
    body: { max_tokens: 9, messages: [{ role: 'user', content: 'Hi' }] },
    stream: [
      { type: 'message_start', message },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'one' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 1 } },
      { type: 'message_stop' }
    ],
    whole: { ...message, content: [{ type: 'text', text: 'Hi' }], stop_reason: 'end_turn' },
    twice: { '': ['type', 'usage', 'model'], message: ['id', 'model', 'usage'], delta: ['stop_reason', 'text'] }
  },
  responses: {
    channel: { endpoints: ['responses'] },
    target: '/v1/responses',
    body: { input: 'Hi' },
    stream: [
      { type: 'response.created', sequence_number: 0, response },
      {
        type: 'response.output_text.delta',
        sequence_number: 1,
        item_id: 'msg_1',
        output_index: 0,
        content_index: 0,
        delta: 'one'
      },
      { type: 'response.completed', sequence_number: 2, response: done }
    ],
    whole: done,
    twice: { '': ['type', 'response', 'delta', 'id', 'model', 'usage'], response: ['id', 'model', 'usage', 'status'] }
  },
  gemini: {
    channel: { protocol: 'gemini' },
    target: '/v1beta/models/demo:generateContent',
    body: { contents: [{ role: 'user', parts: [{ text: 'Hi' }] }] },
    stream: [
      { candidates: [{ index: 0, content: { role: 'model', parts: [{ text: 'one' }] } }], modelVersion: 'theirs' },
      {
        candidates: [{ index: 0, content: { role: 'model', parts: [{ text: 'two' }] }, finishReason: 'STOP' }],
        usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
        modelVersion: 'theirs'
      }
    ],
    whole: {
      candidates: [{ index: 0, content: { role: 'model', parts: [{ text: 'Hi' }] }, finishReason: 'STOP' }],
      modelVersion: 'theirs'
    },
    twice: { '': ['candidates', 'usageMetadata', 'modelVersion'] }
  }
}

/** The object as JSON, with this member once more in front, where `within` says; undefined when it is not there. */
function doubled(value: object, within: string, name: string, pad: string): string | undefined {
  const outer = (within === '' ? value : (value as Record<string, unknown>)[within]) as
    | Record<string, unknown>
    | undefined
  if (typeof outer?.[name] === 'undefined') return undefined
  const first = `${JSON.stringify(name)}:"other",${pad && `"pad":"${pad}",`}`
  const text = `{${first}${JSON.stringify(outer).slice(1)}`
  if (within === '') return text
  const rest = JSON.stringify({ ...value, [within]: 0 })
  return rest.replace(`${JSON.stringify(within)}:0`, () => `${JSON.stringify(within)}:${text}`)
}

async function open(t: Test, channel: Dialect['channel']): Promise<{ bench: Workbench; upstream: Upstream }> {
  const upstream = await Upstream.start(t)
  const channels = { one: { ...channelTo(upstream, channel), models: { demo: 'theirs' } } }
  return { upstream, bench: await Workbench.open(t, { channels, models: { demo: { price: 'free' } } }) }
}

for (const [what, { channel, target, body, stream, whole, twice }] of Object.entries(dialects))
  t.test(`${what}: an event or answer with a member twice is refused`, async (t) => {
    const { bench, upstream } = await open(t, channel)
    const inStream =
      target.replace(':generateContent', ':streamGenerateContent') + (target.includes(':') ? '?alt=sse' : '')
    const sent = (list: readonly unknown[]): Promise<Answer> => {
      upstream.script(head(200, { 'content-type': 'text/event-stream' }), events(list), endOfBody())
      return bench.send({ target: inStream, body: { ...body, stream: true } })
    }
    const wire = (data: string, event: object): string => {
      const { type } = event as { type?: string }
      return `${type === undefined ? '' : `event: ${type}\n`}data: ${data}\n\n`
    }
    const plain = stream.map((event) => wire(JSON.stringify(event), event))
    const end = what === 'chat completions' ? ['data: [DONE]\n\n'] : []
    t.match((await sent([...plain, ...end])).outcome, { kind: 'completed', error: undefined }, 'as it should be')
    for (const [within, names] of Object.entries(twice))
      for (const name of names)
        for (const pad of ['', large]) {
          const where = `${within}.${name}${pad && ', large'}`
          for (const [at, event] of stream.entries()) {
            const data = doubled(event, within, name, pad)
            if (data === undefined) continue
            const answer = await sent([...plain.slice(0, at), wire(data, event), ...plain.slice(at + 1), ...end])
            t.match(answer.outcome.error?.code, 'upstream_bad_response', `${where} of event ${at}`)
            t.notMatch(answer.body, '"other"')
          }
          const data = doubled(whole, within, name, pad)
          if (data === undefined) continue
          upstream.json(data)
          const answer = await bench.send({ target, body })
          t.match(answer.outcome.error?.code, 'upstream_bad_response', `${where}, whole`)
          t.notMatch(answer.body, '"other"')
        }
  })

t.test('frames of sessions likewise', async (t) => {
  const upstream = await socketUpstream(t)
  const running = await gateway(t, sessionsAt(upstream))
  const frames = [
    '{"type":"x","type":"y"}',
    '{"type":"response.done","response":{"id":"a","id":"b"}}',
    '{"type":"response.done","response":{"id":"a","usage":{},"usage":{}}}',
    '{"type":"session.updated","session":{"model":"a","model":"b"}}',
    '{"type":"error","error":{"code":"a","code":"b"}}',
    '{"type":"conversation.item.done","item":{"id":"a","id":"b"}}'
  ]
  for (const [index, frame] of frames.entries()) {
    const client = await openRealtime(t, running)
    const { socket } = await upstream.peer(index + 1)
    socket!.send(frame)
    t.equal((await client.closed).code, 1011, frame)
    t.match(client.events.at(-1), { type: 'error', error: { code: 'upstream_bad_response' } })
    t.equal(client.events.length, 1)
  }
  await eventually(() => upstream.peers.every(({ stream }) => stream.destroyed))
})

t.test('a limit is sent as it is held for, though V8 reads its name wrong after another request', async (t) => {
  const { bench, upstream } = await open(t, { protocol: 'anthropic' })
  const whole = dialects['messages']!.whole
  const ask = (member: string): Promise<Answer> => {
    upstream.json(whole)
    return bench.send({ body: `{"model":"demo","messages":[{"role":"user","content":"Hi"}],${member}}` })
  }
  await ask('"\\\\u006dax_t":0')
  await ask('"\\\\u006dax_t":0')
  t.equal((await ask('"\\u006dax_tokens":7')).status, 200)
  t.equal(upstream.requests.at(-1)!.json().max_tokens, 7)
})
