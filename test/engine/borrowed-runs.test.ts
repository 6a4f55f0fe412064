// The memory of large reads is used again once it is sent. Whoever keeps a run of bytes, cuts it up, or reads slowly
// still has its bytes, beside others whose bytes lie where these have been.
import { once } from 'node:events'
import type { ClientHttp2Stream } from 'node:http2'
import { request as plain } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { request as secure } from 'node:https'
import t from 'tap'
import { definePlugin, Message } from '../../core/contract/contract.ts'
import type { Stage } from '../../core/contract/contract.ts'
import { giveBlock, takeBlock } from '../../core/wire/read-blocks.ts'
import { plugins } from '../../plugins/index.ts'
import { makeCertificate } from '../kit/certificate.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import { openSession } from '../kit/http2.ts'
import { eventually } from '../kit/probe.ts'
import { bytes, endOfBody, head, Upstream } from '../kit/upstream.ts'

type Test = Parameters<typeof gateway>[0]

const chunkBytes = 96 * 1024
/** Several reads, and more than a client and two sockets hold that do not read. */
const short = 10 * chunkBytes
const long = 200 * chunkBytes

/** Sound that differs from that of other numbers in every byte. */
function sound(number: number, size: number): Buffer {
  const whole = Buffer.allocUnsafe(size)
  for (let at = 0; at < size; at += 4096) whole.fill((at >> 12) * 8 + number, at, at + 4096)
  return whole
}

/** A gateway whose answers pass this stage, with an upstream that plays sounds of these sizes, by number. */
async function open(t: Test, sizes: readonly number[], stage: () => Stage | undefined, listen: object = {}) {
  const upstream = await Upstream.start(t)
  const staged = definePlugin({
    name: 'staged',
    summary: 'For a test.',
    options: {},
    setup: () => ({ onResponse: stage })
  })
  const up = {
    protocol: 'openai',
    base_url: String(upstream.url),
    private: true,
    endpoints: ['audio', 'images'],
    models: { tts: 'tts-of-theirs', painter: 'painter-of-theirs' }
  }
  const running = await gateway(
    t,
    {
      listen,
      channels: { up },
      models: { tts: { price: { character: 1 } }, painter: { price: { image: 1 } } },
      chain: [{ auth: {} }, { quota: {} }, { staged: {} }, { route: {} }, { 'usage-meter': {} }]
    },
    { upstreams: { other: upstream }, plugins: new Map([...plugins, ['staged', staged]]) }
  )
  for (const [number, size] of sizes.entries()) {
    const played = sound(number, size)
    // Of a known length, and of one that only chunks tell.
    if (number % 2 === 0) {
      upstream.script(head(200, { 'content-type': 'audio/mpeg', 'content-length': String(size) }), bytes(played))
      continue
    }
    const chunks: Buffer[] = []
    for (let at = 0; at < size; at += chunkBytes) {
      const data = played.subarray(at, at + chunkBytes)
      chunks.push(Buffer.from(`${data.length.toString(16)}\r\n`), data, Buffer.from('\r\n'))
    }
    upstream.script(head(200, { 'content-type': 'audio/mpeg' }), bytes(Buffer.concat(chunks)), endOfBody())
  }
  return { upstream, running }
}

const speech = { path: '/v1/audio/speech', body: { model: 'tts', input: 'Hi', voice: 'alloy' } }
const pictures = { path: '/v1/images/generations', body: { model: 'painter', prompt: 'A boat' } }

/** Asks for a sound or a picture; its answer, of which nothing has been read. */
async function ask(url: string, ca?: string, { path, body } = speech as typeof speech | typeof pictures) {
  const headers = { authorization: `Bearer ${testKey}`, 'content-type': 'application/json' }
  const asked = (ca === undefined ? plain : secure)(`${url}${path}`, {
    method: 'POST',
    agent: false,
    headers,
    ca
  })
  asked.end(JSON.stringify(body))
  const [answer] = await once(asked, 'response')
  return answer as IncomingMessage
}

/** Its number, when it is a sound from its first byte to its last. */
function numberOf(body: Buffer): number | undefined {
  const number = body[0]! % 8
  return (body.length === short || body.length === long) && body.equals(sound(number, body.length)) ? number : undefined
}

/** Reads an answer; the number of its sound. */
async function hear(answer: IncomingMessage): Promise<number | undefined> {
  return numberOf(Buffer.concat(await answer.toArray()))
}

/** Asks at the same time for so many sounds; the numbers of those that came. */
async function askAll(url: string, count: number, ca?: string): Promise<(number | undefined)[]> {
  const heard = await Promise.all(Array.from({ length: count }, async () => hear(await ask(url, ca))))
  return heard.sort()
}

const four = Array.from({ length: 4 }, () => short)

t.test('sounds of many at a time arrive as they were sent', async (t) => {
  const { running } = await open(t, four, () => undefined)
  t.same(await askAll(running.url, 4), [0, 1, 2, 3])
})

t.test('sounds arrive over TLS as they were sent', async (t) => {
  const { cert, key, ca } = makeCertificate(t)
  const { running } = await open(t, four, () => undefined, { tls: { cert, key } })
  t.same(await askAll(running.url.replace('http:', 'https:'), 4, ca), [0, 1, 2, 3])
})

t.test('a stage that keeps runs has them as they came, whatever came since', async (t) => {
  const kept: Message[][] = []
  const { running } = await open(t, four, () => {
    const own: Message[] = []
    kept.push(own)
    return { observe: (message) => void own.push(message) }
  })
  t.same(await askAll(running.url, 4), [0, 1, 2, 3])
  t.same(kept.map((messages) => numberOf(Buffer.concat(messages.map((message) => message.bytes)))).sort(), [0, 1, 2, 3])
})

t.test('a stage with a promise may cut a run into pieces that are sent one after the other', async (t) => {
  const { running } = await open(t, four, () => ({
    takes: 'runs',
    borrows: true,
    map({ bytes: run }, emit) {
      const middle = run.length >> 1
      emit(new Message('bytes', run.subarray(0, middle)))
      emit(new Message('bytes', run.subarray(middle)))
    }
  }))
  t.same(await askAll(running.url, 4), [0, 1, 2, 3])
})

/** Writes over all memory that may be read into again, as other answers would. */
function poison(): void {
  const blocks = Array.from({ length: 100 }, () => takeBlock().fill(0xdb))
  for (const block of blocks) giveBlock(block)
}

for (const over of ['clear text', 'TLS'])
  t.test(`over ${over}, clients that stop reading get what was written in the meantime, as others do`, async (t) => {
    const { cert, key, ca } = makeCertificate(t)
    const isSecure = over === 'TLS'
    const { running, upstream } = await open(
      t,
      [long, long, ...four],
      () => undefined,
      isSecure ? { tls: { cert, key } } : {}
    )
    const [url, trusted] = isSecure ? [running.url.replace('http:', 'https:'), ca] : [running.url]
    const slow = [await ask(url, trusted), await ask(url, trusted)]
    const written = (): number => upstream.connections.reduce((sum, connection) => sum + connection.written, 0)
    for (let last = -1; last !== written(); await new Promise((resolve) => setTimeout(resolve, 500))) {
      last = written()
      poison()
    }
    t.ok(written() < 2 * long, 'they are held back')
    t.same(await askAll(url, 4, trusted), [2, 3, 4, 5])
    poison()
    const poisoning = setInterval(poison, 5)
    t.same(await Promise.all(slow.map((answer) => hear(answer))), [0, 1])
    clearInterval(poisoning)
  })

t.test('over HTTP/2, clients that stop reading get what was written in the meantime, as others do', async (t) => {
  const { running, upstream } = await open(t, [long, long, ...four], () => undefined)
  const headers = { authorization: `Bearer ${testKey}`, 'content-type': 'application/json' }
  // On a session of its own: what a stream has unread holds back all others.
  const ask = (): ClientHttp2Stream =>
    openSession(t, running.url)
      .request({ ...headers, ':method': 'POST', ':path': speech.path })
      .end(JSON.stringify(speech.body))
  const hearAll = async (streams: readonly ClientHttp2Stream[]): Promise<(number | undefined)[]> => {
    const bodies = streams.map(async (stream) => {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => void chunks.push(chunk)).resume()
      await once(stream, 'end')
      return numberOf(Buffer.concat(chunks))
    })
    return (await Promise.all(bodies)).sort()
  }
  const slow = [ask().pause()]
  await eventually(() => upstream.requests.length === 1)
  slow.push(ask().pause())
  const written = (): number => upstream.connections.reduce((sum, connection) => sum + connection.written, 0)
  for (let last = -1; last !== written(); await new Promise((resolve) => setTimeout(resolve, 500))) {
    last = written()
    poison()
  }
  t.ok(written() < 2 * long, 'they are held back')
  t.same(await hearAll(four.map(ask)), [2, 3, 4, 5])
  const poisoning = setInterval(poison, 5)
  t.same(await hearAll(slow), [0, 1])
  clearInterval(poisoning)
})

t.test('pictures in JSON that is too large to be held arrive as they were sent', async (t) => {
  const { running, upstream } = await open(t, [], () => undefined)
  const sent = [...'ABCD'].map((letter) =>
    Buffer.from(JSON.stringify({ created: 1, data: [{ b64_json: letter.repeat(short) }, { b64_json: letter }] }))
  )
  const type = { 'content-type': 'application/json' }
  for (const body of sent) upstream.script(head(200, { ...type, 'content-length': String(body.length) }), bytes(body))
  const poisoning = setInterval(poison, 5)
  const answers = await Promise.all(sent.map(() => ask(running.url, undefined, pictures)))
  const heard = await Promise.all(answers.map(async (answer) => Buffer.concat(await answer.toArray())))
  clearInterval(poisoning)
  t.same(heard.map((body) => sent.findIndex((picture) => picture.equals(body))).sort(), [0, 1, 2, 3])
})
