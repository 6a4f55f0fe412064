// Upstreams of every protocol that send odd bytes, the wrong shape or no answer at all, to clients of all protocols:
// what looks complete is.
import { gzipSync } from 'node:zlib'
import t from 'tap'
import type { Test } from 'tap'
import type { CodecName } from '../../core/protocols/translation/codecs.ts'
import { gateway } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { settled } from '../kit/probe.ts'
import { bytes, chunk, endOfBody, fin, head, reset, Upstream } from '../kit/upstream.ts'
import type { Step } from '../kit/upstream.ts'
import { ask, dialects, heard, names, said, secret, text } from './dialect.ts'
import type { Dialect } from './dialect.ts'
import { patient } from './vendor.ts'

t.setTimeout(600_000)

const sse = 'text/event-stream'
const json = 'application/json'
const body = (type: string, content: string | Buffer, more: Record<string, string> = {}): Step[] => [
  head(200, { 'content-type': type, ...more }),
  ...(content.length > 0 ? [chunk(content)] : []),
  endOfBody()
]

const pieces = (all: Buffer, size: number): Buffer[] =>
  Array.from({ length: Math.ceil(all.length / size) }, (_, at) => all.subarray(at * size, (at + 1) * size))

/** What is whole, in whatever dress. */
const odd: Readonly<Record<string, (dialect: Dialect, streaming: boolean) => Step[]>> = {
  'as it should be': ({ whole, events }, streaming) => (streaming ? body(sse, events.join('')) : body(json, whole)),
  'the other shape': ({ whole, events }, streaming) =>
    streaming ? body(json, whole) : body(`${sse}; charset=utf-8`, events.join('')),
  'a few bytes at a time': ({ whole, events }, streaming) => [
    head(200, { 'content-type': streaming ? sse : json }),
    ...pieces(Buffer.from(streaming ? events.join('') : whole), 11).map((piece) => chunk(piece)),
    endOfBody()
  ],
  'compressed all the same': ({ whole, events }, streaming) =>
    body(streaming ? sse : json, gzipSync(streaming ? events.join('') : whole), { 'content-encoding': 'gzip' }),
  'a mark at the front': ({ events, whole }, streaming) =>
    streaming ? body(sse, `\ufeff${events.join('')}`) : body(json, whole),
  'carriage returns alone': ({ events, whole }, streaming) =>
    streaming ? body(sse, events.join('').replaceAll('\n', '\r')) : body(json, whole),
  'no space, comments and other fields': ({ events, whole }, streaming) =>
    streaming
      ? body(
          sse,
          `: hello\n\n${events.map((event) => `id: 7\nretry: 1\nother: x\n${event.replaceAll('data: ', 'data:')}: ping\n\n`).join('')}`
        )
      : body(json, ` \n${whole}\n`),
  'an end marker too many': ({ whole, events }, streaming) =>
    streaming ? body(sse, `${events.join('')}data: [DONE]\n\ndata: [DONE]\n\n`) : body(json, whole),
  'an end marker too many, in the other shape': ({ whole, events }, streaming) =>
    streaming ? body(json, whole) : body(sse, `${events.join('')}data: [DONE]\n\ndata: [DONE]\n\n`),
  trailers: ({ whole, events }, streaming) => [
    head(200, { 'content-type': streaming ? sse : json }),
    chunk(streaming ? events.join('') : whole),
    bytes('0\r\nx-checksum: 1\r\n\r\n')
  ],
  'an end of the connection': ({ whole, events }, streaming) => [
    head(200, { 'content-type': streaming ? sse : json, connection: 'close' }),
    bytes(streaming ? events.join('') : whole),
    fin()
  ]
}

/** What is no answer, or not all of one. */
const broken: Readonly<Record<string, (dialect: Dialect, streaming: boolean, other: Dialect) => Step[]>> = {
  nothing: (_dialect, streaming) => body(streaming ? sse : json, ''),
  'nothing of no type': () => [head(200, { 'content-length': '0' })],
  'an error with 200': ({ error }, streaming) => (streaming ? body(sse, `data: ${error}\n\n`) : body(json, error)),
  'an error with 200 in the other shape': ({ error }, streaming) =>
    streaming ? body(json, error) : body(sse, `event: error\ndata: ${error}\n\n`),
  'a page': () => body('text/html', `<html><body>${said}</body></html>`),
  'a marker alone': (_dialect, streaming) => body(streaming ? sse : json, streaming ? 'data: [DONE]\n\n' : '[DONE]'),
  'another protocol': (_dialect, streaming, other) =>
    streaming ? body(sse, other.events.join('')) : body(json, other.whole),
  'half of it': ({ whole, events }, streaming) =>
    streaming
      ? body(sse, events.slice(0, -Math.ceil(events.length / 2)).join(''))
      : body(json, whole.slice(0, whole.length / 2)),
  'half of it, and a reset': ({ whole, events }, streaming) => [
    head(200, { 'content-type': streaming ? sse : json }),
    chunk(streaming ? events.slice(0, -Math.ceil(events.length / 2)).join('') : whole.slice(0, whole.length / 2)),
    reset()
  ],
  'an error in its midst': ({ whole, events, error }, streaming) =>
    streaming
      ? body(
          sse,
          `${events.slice(0, -Math.ceil(events.length / 2)).join('')}data: ${error}\n\n${events.slice(-1).join('')}`
        )
      : body(json, `${whole.slice(0, -1)},"error":{"message":${JSON.stringify(said)}}}`),
  ...Object.fromEntries(
    Object.entries({
      'an error as an object': `data: {"object":"error","message":"${said}","code":500}\n\n`,
      'an error in details': `data: {"detail":"${said}"}\n\n`,
      'an error by its name': `event: error\ndata: ${said}\n\n`,
      'an error without a field': `{"error":{"message":"${said}"}}\n\n`,
      'an error that runs into an event': `{"error":{"message":"${said}"}}`
    }).map(([what, error]): [string, (typeof broken)[string]] => [
      `${what}, in its midst`,
      ({ events }) => {
        const half = events.length >> 1
        return body(sse, `${events.slice(0, half).join('')}${error}${events.slice(half).join('')}`)
      }
    ])
  ),
  'no bytes that anybody wrote': (_dialect, streaming) =>
    body(streaming ? sse : json, Buffer.from([0, 0, 0xff, 0xfe, 0x0a, 0x0a, 0, 0])),
  'compressed, and nothing says so': ({ whole, events }, streaming) =>
    body(streaming ? sse : json, gzipSync(streaming ? events.join('') : whole)),
  'called compressed, and not': ({ whole, events }, streaming) =>
    body(streaming ? sse : json, streaming ? events.join('') : whole, { 'content-encoding': 'gzip' }),
  'a list': (_dialect, streaming) => body(streaming ? sse : json, streaming ? 'data: []\n\ndata: [{}]\n\n' : '[]')
}

const price = { input: 1, output: 2 }
const modelOf = (upstream: CodecName): string => `via-${upstream}`
async function open(t: Test): Promise<{ local: LocalGateway; upstreams: Record<CodecName, Upstream> }> {
  const upstreams = Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, await Upstream.start(t)] as const))
  ) as Record<CodecName, Upstream>
  const channels = Object.fromEntries(
    names.map((name) => [
      name,
      {
        protocol: name.startsWith('openai') ? 'openai' : name,
        credential: secret,
        models: { [modelOf(name)]: 'm' },
        ...(name === 'openai-responses' && { endpoints: ['responses'] }),
        ...(name === 'openai-chat' && { endpoints: ['chat'] })
      }
    ])
  )
  const models = Object.fromEntries(names.map((name) => [modelOf(name), { price }]))
  return { local: await gateway(t, { ...patient, channels, models }, { upstreams }), upstreams }
}

for (const upstream of names) {
  t.test(`${upstream}: what is whole arrives whole, and what is not never looks like it`, async (t) => {
    const { local, upstreams } = await open(t)
    const other = dialects[names[(names.indexOf(upstream) + 1) % names.length]!]
    for (const client of names) {
      for (const stream of [true, false]) {
        for (const [what, steps] of Object.entries(odd)) {
          upstreams[upstream].script(...steps(dialects[upstream], stream))
          const reply = await ask(local, client, modelOf(upstream), stream)
          t.equal(
            heard(client, reply, stream),
            text,
            `${what} to ${client}, ${stream ? 'streamed' : 'whole'}: ${reply.text.slice(0, 300)}`
          )
        }
        for (const [what, steps] of Object.entries(broken)) {
          upstreams[upstream].script(...steps(dialects[upstream], stream, other))
          const reply = await ask(local, client, modelOf(upstream), stream)
          t.equal(
            heard(client, reply, stream),
            undefined,
            `${what} to ${client}, ${stream ? 'streamed' : 'whole'}: ${reply.text.slice(0, 300)}`
          )
          t.match(reply.text, /error/i, `${what} to ${client}: it is said to be an error`)
          t.notMatch(reply.text, secret, `${what} to ${client}: nothing of ours is told`)
          t.notOk(
            reply.text.includes('internal_error'),
            `${what} to ${client}: it is no mistake of ours: ${reply.text.slice(0, 300)}`
          )
        }
      }
    }
    await settled(t, local)
  })
}
