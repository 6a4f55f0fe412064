// Request bodies on their way to whoever takes them: the same bytes, the same end and the same loss, however they arrive.
import t from 'tap'
import type { Incoming } from '../../core/client.ts'
import { connect } from '../kit/client.ts'
import { openSession, readHttp2 } from '../kit/http2.ts'
import { eventually } from '../kit/probe.ts'
import { heldServer, runServer } from '../kit/server.ts'

/** Answers with the body it received, and how often the end was told. */
function echo({ client, body }: Incoming): void {
  const chunks: Buffer[] = []
  let ends = 0
  body.receive({
    data: (chunk) => void chunks.push(chunk),
    end: () => client.reply(200, [], Buffer.from(`${++ends} ${Buffer.concat(chunks).toString()}`)),
    lost: () => client.cut()
  })
}

const declared = (text: string): string => `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${text.length}\r\n\r\n${text}`
const chunked = (...pieces: string[]): string =>
  `POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${[...pieces, ''].map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`).join('')}`

t.test('a body arrives whole, in one piece with its head, drop by drop, and behind other requests', async (t) => {
  const { server, url } = await runServer(t, echo)
  const client = await connect(t, url)
  let replies = 0
  const answers = async (...texts: string[]): Promise<void> => {
    for (const text of texts) t.equal((await client.reply(replies++)).text, `1 ${text}`)
  }
  for (const raw of [declared('hello'), chunked('hel', 'lo'), declared('hello')]) {
    client.write(raw)
    await answers('hello')
  }
  for (const raw of [declared('hello'), chunked('hel', 'lo')]) {
    for (const byte of raw) {
      client.write(byte)
      await new Promise((resolve) => setImmediate(resolve))
    }
    await answers('hello')
  }
  client.write(declared('one') + chunked('t', 'wo') + declared('') + declared('three'))
  await answers('one', 'two', '', 'three')
  t.equal(server.figures.active, 0)
  const upload = openSession(t, url).request({ ':path': '/', ':method': 'POST' })
  upload.end('hello')
  t.equal((await readHttp2(upload)).body.toString(), '1 hello')
})

t.test('a client that waits to be asked for its body is, once the body is wanted', async (t) => {
  const { url } = await runServer(t, (incoming) => setTimeout(() => echo(incoming), 20))
  const client = await connect(t, url)
  client.write('POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n')
  await eventually(() => client.received > 0)
  t.equal(Buffer.concat(client.reads.map(({ bytes }) => bytes)).toString(), 'HTTP/1.1 100 Continue\r\n\r\n')
  const reply = await client.write('hello').reply()
  t.match([reply.text, reply.headers['connection']], ['1 hello', 'keep-alive'])
})

t.test('a body that is taken after its connection broke is lost', async (t) => {
  const { server, url, next } = await heldServer(t)
  const client = await connect(t, url)
  client.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello')
  const { body } = await next()
  client.reset()
  await eventually(() => server.figures.connections.http1 === 0)
  let lost = 0
  body.receive({ data: () => t.fail(), end: () => t.fail(), lost: () => lost++ })
  t.equal(lost, 1)
})

t.test('chunks are kept by who keeps them, and their memory is given back at once by who copies them', async (t) => {
  const kept: Buffer[] = []
  const copied: { chunk: Buffer; length: number }[] = []
  const { url } = await runServer(t, ({ client, target, body }) => {
    const data = (chunk: Buffer): boolean => {
      if (target === '/kept') kept.push(chunk)
      else copied.push({ chunk, length: chunk.length })
      return target === '/copied'
    }
    body.receive({ data, end: () => client.reply(200, [], Buffer.from('done')), lost: () => {} })
  })
  const text = Array.from({ length: 50_000 }, (_, i) => String(i)).join()
  const client = await connect(t, url)
  for (const path of ['/copied', '/kept']) client.send({ path, body: text })
  for (const n of [0, 1]) t.equal((await client.reply(n)).text, 'done')
  t.ok(Buffer.concat(kept).toString() === text)
  t.equal(copied.reduce((sum, { length }) => sum + length, 0), text.length)
  const large = copied.filter(({ length }) => length > 32 * 1024)
  t.ok(large.length > 2 && large.filter(({ chunk }) => chunk.length > 0).length <= 1, 'all but what came with another request')
})

/** Whether the body is taken in the turn in which its request came, or when some of it waits already. */
for (const late of [false, true]) {
  const turn = late ? 'late' : 'at once'
  const begin = (taken: (incoming: Incoming) => void) => (incoming: Incoming): void => {
    if (late) setTimeout(() => taken(incoming), 20)
    else taken(incoming)
  }

  t.test(`taken ${turn}: a connection that breaks in mid-body is told of, once`, async (t) => {
    const heard: string[] = []
    const sink = { data: (chunk: Buffer) => void heard.push(chunk.toString()), end: () => void heard.push('end'), lost: () => void heard.push('lost') }
    const { server, url } = await runServer(t, begin(({ body }) => body.receive(sink)))
    const client = await connect(t, url)
    client.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello')
    await eventually(() => heard.length > 0)
    client.reset()
    await eventually(() => server.figures.connections.http1 === 0)
    t.same(heard, ['hello', 'lost'])
  })

  t.test(`taken ${turn}: who gives a body up hears no more of it, and the rest waits for the answer`, async (t) => {
    let heard = ''
    const { url, next } = await heldServer(t)
    const client = await connect(t, url)
    client.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello')
    const { body, client: answer } = await next()
    if (late) await new Promise((resolve) => setTimeout(resolve, 20))
    body.receive({ data: (chunk) => void (heard += chunk.toString()), end: () => t.fail(), lost: () => t.fail() })
    await eventually(() => heard === 'hello')
    body.abandon()
    client.write('world').send({ path: '/2' })
    await new Promise((resolve) => setTimeout(resolve, 20))
    t.equal(heard, 'hello')
    answer.reply(200, [], Buffer.from('done'))
    t.equal((await client.reply(0)).text, 'done')
    const second = await next()
    t.equal(second.target, '/2')
    second.client.reply(200, [], Buffer.from('and again'))
    t.equal((await client.reply(1)).text, 'and again')
  })
}
