// Golden transcripts through the real gateway, in every cutting: exact bytes to the client, exact usage on the books.
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import type { Message } from '../../core/contract/message.ts'
import { EventFramer } from '../../core/exchange/answers/sse.ts'
import { gateway, testModel } from '../kit/gateway.ts'
import { checkChatStream, readEvents } from '../kit/sse.ts'
import { transcripts } from '../kit/transcript.ts'
import type { Transcript } from '../kit/transcript.ts'
import { Upstream, endOfBody, events, head } from '../kit/upstream.ts'
import type { Cut } from '../kit/upstream.ts'

const cases = transcripts('openai-chat')

/** What a client may say about usage, and whether it will see any. */
const wishes = [
  { name: 'says nothing about usage', options: undefined, asked: false },
  { name: 'declines usage', options: { include_usage: false }, asked: false },
  { name: 'asks for usage', options: { include_usage: true }, asked: true }
] as const

/**
 * What the upstream writes, and how: one write, one an event, one a byte. Of long streams the smallest piece is larger.
 */
function cutting(stream: Buffer, cut: Cut): [list: Buffer[], cut: Cut] {
  if (cut === 'byte' && stream.length > 20_000) {
    return [
      Array.from({ length: Math.ceil(stream.length / 997) }, (_, i) => stream.subarray(i * 997, (i + 1) * 997)),
      'event'
    ]
  }
  const blocks = stream.toString('latin1').match(/[^]*?(?:\r\n|\r(?!\n)|\n){2}|[^]+$/g) ?? []
  return [blocks.map((block) => Buffer.from(block, 'latin1')), cut]
}

/** Some upstreams report usage nowhere, or in places of their own. */
function hasUsageChunk(stream: Buffer): boolean {
  return readEvents(stream).some(({ data }) => data !== '[DONE]' && JSON.parse(data).choices.length === 0)
}

t.test('a client receives the same bytes and is billed the same, however the upstream cuts its stream', async (t) => {
  const upstream = await Upstream.start(t)
  const local = await gateway(t, {}, { upstreams: { vendor: upstream } })

  async function replay(
    t: Test,
    transcript: Transcript,
    cut: Cut,
    { options, asked }: (typeof wishes)[number]
  ): Promise<void> {
    upstream.script(
      head(200, { 'content-type': 'text/event-stream' }),
      events(...cutting(transcript.upstream, cut)),
      endOfBody()
    )
    const reply = await local.chat({ stream: true, n: transcript.n, ...(options && { stream_options: options }) })
    t.match(reply, { status: 200, complete: true })
    const expected = asked ? transcript.asked : transcript.client
    // A CR at the end of a read ends its event there and then: whether an LF belonged to it is not waited for.
    const exact = transcript.compare === 'bytes' && !(cut === 'byte' && expected.includes('\r'))
    if (exact) t.equal(reply.text, expected.toString())
    else t.same(readEvents(reply.body), readEvents(expected))
    if (transcript.grammar === true || (transcript.grammar === 'client' && !asked)) {
      checkChatStream(reply.body, { n: transcript.n, usage: asked && hasUsageChunk(expected) })
    }
    t.equal(upstream.requests.at(-1)!.json().stream_options.include_usage, true, 'the upstream is always asked')
    t.match(await local.record(reply), {
      status: 200,
      outcome: 'completed',
      usage_source: transcript.source,
      ...(transcript.usage && { usage: transcript.usage })
    })
  }

  for (const transcript of cases) {
    await t.test(`${transcript.name}: ${transcript.summary}`, async (t) => {
      for (const cut of ['one', 'event'] as const) {
        for (const wish of wishes)
          await t.test(`in ${cut === 'one' ? 'one write' : 'a write an event'}, to a client that ${wish.name}`, (t) =>
            replay(t, transcript, cut, wish)
          )
      }
      await t.test('in a write a byte', (t) => replay(t, transcript, 'byte', wishes[0]))
    })
  }
})

t.test('a channel that knows the model by another name changes nothing but the name', async (t) => {
  const upstream = await Upstream.start(t)
  const local = await gateway(
    t,
    { channels: { vendor: { models: { [testModel]: 'vendor-model' } } } },
    { upstreams: { vendor: upstream } }
  )
  for (const { name, upstream: stream, asked, n } of cases) {
    const renamed = Buffer.from(stream.toString('latin1').replaceAll(testModel, 'vendor-model'), 'latin1')
    upstream.script(head(200, { 'content-type': 'text/event-stream' }), events([renamed]), endOfBody())
    const reply = await local.chat({ stream: true, n, stream_options: { include_usage: true } })
    t.equal(upstream.requests.at(-1)!.json().model, 'vendor-model')
    const parsed = (source: Buffer): unknown[] =>
      readEvents(source).map(({ data }) => (data === '[DONE]' ? data : JSON.parse(data)))
    t.same(parsed(reply.body), parsed(asked), name)
  }
})

t.test('framing finds the same events wherever a transcript is cut in two, and anywhere in many', async (t) => {
  const frame = (parts: readonly Buffer[]): string[] => {
    const found: string[] = []
    const framer = new EventFramer(({ kind, data, event }: Message) =>
      found.push(`${kind} ${event} ${data.toString('latin1')}`)
    )
    for (const part of parts) framer.push(part)
    framer.close()
    return found
  }
  for (const { name, upstream: stream } of cases) {
    const whole = frame([stream])
    const step = stream.length > 20_000 ? 89 : 1
    let different = 0
    for (let at = 1; at < stream.length; at += step) {
      const halves = frame([stream.subarray(0, at), stream.subarray(at)])
      if (halves.length !== whole.length || halves.some((event, i) => event !== whole[i])) different++
    }
    t.equal(different, 0, name)
    const cuts = fc.uniqueArray(fc.nat(stream.length), { maxLength: 12 }).map((places) => places.sort((a, b) => a - b))
    fc.assert(
      fc.property(cuts, (places) => {
        const parts = [0, ...places].map((from, i) => stream.subarray(from, places[i] ?? stream.length))
        return frame(parts).join() === whole.join()
      }),
      { numRuns: 50 }
    )
  }
})
