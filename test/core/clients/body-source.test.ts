// Request bodies on their way to whoever takes them: the same bytes, the same end and the same loss, however they
// arrive.
import t from 'tap'
import type { Incoming } from '../../../core/clients/client.ts'
import { HeaderLines } from '../../../core/wire/response-head.ts'
import { makeCertificate } from '../../kit/certificate.ts'
import { connect } from '../../kit/client.ts'
import { openSession, readHttp2 } from '../../kit/http2.ts'
import { eventually } from '../../kit/probe.ts'
import { heldServer, runServer } from '../../kit/server.ts'

/** Answers with the body it received, and how often the end was told. */
function echo({ client, body }: Incoming): void {
  const chunks: Buffer[] = []
  let ends = 0
  body.receive({
    data: (chunk) => void chunks.push(Buffer.from(chunk)),
    end: () => client.reply(200, HeaderLines.of(), Buffer.from(`${++ends} ${Buffer.concat(chunks).toString()}`)),
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

t.test('all that is read of clear text lies in the same memory', async (t) => {
  const memory = new Set<ArrayBufferLike>()
  const { url } = await runServer(t, ({ client, body }) => {
    body.receive({
      data: (chunk) => void memory.add(chunk.buffer),
      end: () => client.reply(200, HeaderLines.of(), Buffer.from('done')),
      lost: () => {}
    })
  })
  for (let connection = 0; connection < 3; connection++) {
    const client = await connect(t, url)
    for (const n of [0, 1, 2])
      t.equal((await client.send({ path: '/', body: 'x'.repeat(100_000) }).reply(n)).text, 'done')
  }
  t.equal(memory.size, 1)
})

t.test('where a body wants to be put it is, whole and in order, with something before and behind it', async (t) => {
  const text = Array.from({ length: 200_000 }, (_, i) => String(i)).join()
  for (const tls of [undefined, makeCertificate(t)]) {
    let inPlace = 0
    const { url } = await runServer(
      t,
      ({ client, headers, body }) => {
        const whole = Buffer.alloc(Number(headers['content-length']))
        let length = 0
        body.receive({
          get room() {
            return whole.length - length > 1000 ? whole.subarray(length) : undefined
          },
          data(chunk) {
            if (chunk.buffer !== whole.buffer) chunk.copy(whole, length)
            else {
              t.equal(chunk.byteOffset, whole.byteOffset + length)
              inPlace += chunk.length
            }
            length += chunk.length
          },
          end: () => client.reply(200, HeaderLines.of(), whole.subarray(0, length)),
          lost: () => client.cut()
        })
      },
      { listen: { host: '127.0.0.1', port: 0, tls: tls?.pem } }
    )
    const client = await connect(t, url, tls?.ca)
    client
      .send({ path: '/1', body: 'first' })
      .send({ path: '/2', body: text })
      .send({ path: '/3', body: text })
      .send({ path: '/4', body: 'last' })
    t.same([(await client.reply(0)).text, (await client.reply(3)).text], ['first', 'last'])
    for (const n of [1, 2]) t.ok((await client.reply(n)).text === text)
    if (!tls) t.ok(inPlace > text.length, `${inPlace} of ${2 * text.length} bytes were put in place`)
  }
})

/** Whether the body is taken in the turn in which its request came, or when some of it waits already. */
for (const late of [false, true]) {
  const turn = late ? 'late' : 'at once'
  const begin =
    (taken: (incoming: Incoming) => void) =>
    (incoming: Incoming): void => {
      if (late) setTimeout(() => taken(incoming), 20)
      else taken(incoming)
    }

  t.test(`taken ${turn}: a connection that breaks in mid-body is told of, once`, async (t) => {
    const heard: string[] = []
    const sink = {
      data: (chunk: Buffer) => void heard.push(chunk.toString()),
      end: () => void heard.push('end'),
      lost: () => void heard.push('lost')
    }
    const { server, url } = await runServer(
      t,
      begin(({ body }) => body.receive(sink))
    )
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
    answer.reply(200, HeaderLines.of(), Buffer.from('done'))
    t.equal((await client.reply(0)).text, 'done')
    const second = await next()
    t.equal(second.target, '/2')
    second.client.reply(200, HeaderLines.of(), Buffer.from('and again'))
    t.equal((await client.reply(1)).text, 'and again')
  })
}
