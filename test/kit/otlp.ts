// A collector for tests: takes OTLP over HTTP and reads it by the field numbers of the official definitions
// (https://github.com/open-telemetry/opentelemetry-proto).
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gunzipSync } from 'node:zlib'
import type { Test } from 'tap'
import { received } from './received.ts'

type Kind = 'text' | 'hex' | 'number' | 'fixed32' | 'fixed64' | 'double' | 'fixed64s' | 'doubles' | Message
/** The fields of a message by number; a name that ends in `[]` may come again. */
interface Message {
  readonly [number: number]: readonly [name: string, kind: Kind]
}

const anyValue: Message = {
  1: ['text', 'text'],
  2: ['flag', 'number'],
  3: ['number', 'number'],
  4: ['double', 'double']
}
const attribute: Message = { 1: ['key', 'text'], 2: ['value', anyValue] }
const resource: Message = { 1: ['attributes[]', attribute] }
const scope: Message = { 1: ['name', 'text'], 2: ['version', 'text'] }
const span: Message = {
  1: ['traceId', 'hex'],
  2: ['spanId', 'hex'],
  3: ['traceState', 'text'],
  4: ['parentSpanId', 'hex'],
  5: ['name', 'text'],
  6: ['kind', 'number'],
  7: ['start', 'fixed64'],
  8: ['end', 'fixed64'],
  9: ['attributes[]', attribute],
  13: ['links[]', { 1: ['traceId', 'hex'], 2: ['spanId', 'hex'] }],
  15: ['status', { 2: ['message', 'text'], 3: ['code', 'number'] }]
}
const logRecord: Message = {
  1: ['time', 'fixed64'],
  2: ['severity', 'number'],
  3: ['severityText', 'text'],
  5: ['body', anyValue],
  6: ['attributes[]', attribute],
  9: ['traceId', 'hex'],
  10: ['spanId', 'hex'],
  12: ['eventName', 'text']
}
const point: Message = { 4: ['value', 'double'], 6: ['whole', 'fixed64'], 7: ['attributes[]', attribute] }
const spread: Message = {
  4: ['count', 'fixed64'],
  5: ['sum', 'double'],
  6: ['counts', 'fixed64s'],
  7: ['bounds', 'doubles'],
  9: ['attributes[]', attribute]
}
const metric: Message = {
  1: ['name', 'text'],
  2: ['description', 'text'],
  3: ['unit', 'text'],
  5: ['gauge', { 1: ['points[]', point] }],
  7: ['sum', { 1: ['points[]', point], 3: ['monotonic', 'number'] }],
  9: ['histogram', { 1: ['points[]', spread] }]
}
const request = (items: Message): Message => ({
  1: [
    'resources[]',
    {
      1: ['resource', resource],
      2: ['scopes[]', { 1: ['scope', scope], 2: ['items[]', items], 3: ['schema', 'text'] }]
    }
  ]
})
const requests = { '/v1/traces': request(span), '/v1/logs': request(logRecord), '/v1/metrics': request(metric) }

function read(bytes: Buffer, message: Message): any {
  const found: any = {}
  for (const [name] of Object.values(message)) if (name.endsWith('[]')) found[name.slice(0, -2)] = []
  let at = 0
  const varint = (): number => {
    let value = 0
    for (let factor = 1; ; factor *= 128) {
      const byte = bytes[at++]!
      value += (byte & 127) * factor
      if (byte < 128) return value
    }
  }
  while (at < bytes.length) {
    const tag = varint()
    const [name, kind] = message[tag >>> 3] ?? ['', 'number' as Kind]
    const wire = tag & 7
    let value: unknown
    if (wire === 0) value = varint()
    else if (wire === 1) {
      value = kind === 'double' ? bytes.readDoubleLE(at) : Number(bytes.readBigUInt64LE(at))
      at += 8
    } else if (wire === 5) at += 4
    else if (wire === 2) {
      const length = varint()
      value = valueOf(bytes.subarray(at, (at += length)), kind)
    } else throw new Error(`wire type ${wire} at ${at}`)
    if (name.endsWith('[]')) found[name.slice(0, -2)].push(value)
    else if (name !== '') found[name] = value
  }
  if ('attributes' in found)
    found.attributes = Object.fromEntries(
      found.attributes.map(({ key, value = {} }: any) => [key, Object.values(value)[0]])
    )
  return found
}

function valueOf(bytes: Buffer, kind: Kind): unknown {
  if (kind === 'text') return bytes.toString()
  if (kind === 'hex') return bytes.toString('hex')
  if (kind === 'fixed64s' || kind === 'doubles')
    return Array.from({ length: bytes.length / 8 }, (_, i) =>
      kind === 'doubles' ? bytes.readDoubleLE(i * 8) : Number(bytes.readBigUInt64LE(i * 8))
    )
  return typeof kind === 'object' ? read(bytes, kind) : bytes
}

/** What a collector got of one signal. */
interface Got {
  resource: Record<string, string>
  schema: string
  items: any[]
}

/** A running collector. */
export interface Collector {
  readonly url: string
  /** All bytes of all exports, unpacked. */
  readonly raw: Buffer[]
  readonly headers: IncomingMessage['headers'][]
  readonly spans: any[]
  readonly logs: any[]
  /** The newest of each name. */
  readonly metrics: Map<string, any>
  readonly resources: Record<string, unknown>[]
  readonly schemas: Set<string>
}

/** Starts a collector. `answer` takes the place of its answer to each export. */
export async function collector(t: Test, answer?: (response: ServerResponse) => void): Promise<Collector> {
  const got: Omit<Collector, 'url'> = {
    raw: [],
    headers: [],
    spans: [],
    logs: [],
    metrics: new Map(),
    resources: [],
    schemas: new Set()
  }
  const server = createServer(async (asked, response) => {
    const sent = await received(asked)
    if (sent === undefined) return
    const bytes = asked.headers['content-encoding'] === 'gzip' ? gunzipSync(sent) : sent
    got.raw.push(bytes)
    got.headers.push(asked.headers)
    if (answer) return answer(response)
    const path = asked.url as keyof typeof requests
    for (const { resource: from, scopes } of read(bytes, requests[path]).resources) {
      got.resources.push(from.attributes)
      for (const { schema, items } of scopes as Got[]) {
        if (schema) got.schemas.add(schema)
        // An export whose answer comes late is sent again.
        if (path === '/v1/traces')
          got.spans.push(...items.filter(({ spanId }) => !got.spans.some((span) => span.spanId === spanId)))
        else if (path === '/v1/logs') got.logs.push(...items)
        else for (const item of items) got.metrics.set(item.name, item)
      }
    }
    response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { ...got, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}
