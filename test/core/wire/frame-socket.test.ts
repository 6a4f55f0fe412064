// A socket between a stream of bytes and somebody who takes messages: turns, pauses, ends, and answers.
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { Duplex } from 'node:stream'
import { connect as connectTls, createServer as createTlsServer } from 'node:tls'
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import { WebSocket } from 'ws'
import { FrameSocket } from '../../../core/wire/frame-socket.ts'
import type { FrameTaker } from '../../../core/wire/frame-socket.ts'
import { makeCertificate } from '../../kit/certificate.ts'
import { eventually } from '../../kit/probe.ts'
import { frameBytes, readFrames } from '../../kit/socket-upstream.ts'

/** A stream that a test reads and writes, and takes nothing while it is blocked. */
class Line extends Duplex {
  readonly sent: Buffer[] = []
  blocked: (() => void) | undefined
  isBlocked = false

  override _read(): void {}
  override _write(bytes: Buffer, _encoding: string, done: () => void): void {
    this.sent.push(bytes)
    if (this.isBlocked) this.blocked = done
    else done()
  }
  get frames(): [number, string][] {
    return readFrames(Buffer.concat(this.sent)).map(({ opcode, payload }) => [opcode, payload.toString('latin1')])
  }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
const masked = true
const text = (said: string): Buffer => frameBytes(said, { opcode: 1, masked })
const bye = frameBytes(Buffer.concat([Buffer.from([3, 232]), Buffer.from('bye')]), { opcode: 8, masked })

/** Notes what it gets. */
function taker(told: string[], frame: (text: string) => void = () => {}): FrameTaker {
  return {
    received() {},
    frame(data) {
      told.push(String(data))
      frame(String(data))
    },
    drained() {},
    closed: ({ code, reason, fault }) => void told.push(`closed ${code} ${fault?.message ?? reason}`)
  }
}

t.test('pings are answered, and only the latest of those that came while nothing could be sent', async (t) => {
  const line = new Line({ writableHighWaterMark: 1 })
  const socket = new FrameSocket(line, { side: 'server', maxMessage: 1000 })
  const told: string[] = []
  socket.take(taker(told))
  line.isBlocked = true
  for (let n = 0; n < 1000; n++) line.push(frameBytes(`ping ${n}`, { opcode: 9, masked }))
  line.push(text('text'))
  await eventually(() => told.length > 0)
  t.same(told, ['text'])
  t.same(line.frames, [[10, 'ping 0']])
  line.isBlocked = false
  line.blocked!()
  await turn()
  t.same(line.frames, [
    [10, 'ping 0'],
    [10, 'ping 999']
  ])
  line.destroy()
})

t.test('nothing arrives at one who has paused: no message, and no close behind it', async (t) => {
  const line = new Line()
  const socket = new FrameSocket(line, { side: 'server', maxMessage: 1000 })
  const told: string[] = []
  socket.take(taker(told, () => socket.pause()))
  line.push(Buffer.concat([text('one'), text('two'), bye, text('never')]))
  line.push(text('never'))
  for (let n = 0; n < 5; n++) await turn()
  t.same(told, ['one'])
  socket.resume()
  t.same(told, ['one'], 'nor before the caller of resume() has returned')
  await eventually(() => told.length > 1)
  for (let n = 0; n < 5; n++) await turn()
  t.same(told, ['one', 'two'])
  t.same(line.frames, [])
  socket.resume()
  await eventually(() => told.length > 2)
  t.same(told, ['one', 'two', 'closed 1000 bye'])
  t.same(line.frames, [[8, '\u0003\u00e8bye']])
  line.destroy()
  await turn()
  t.equal(told.length, 3, 'and once')
})

t.test('of many small messages others wait for a part only, and all are read, paused or not', async (t) => {
  for (const fed of [false, true]) {
    const line = new Line()
    const socket = new FrameSocket(line, { side: 'server', maxMessage: 1000, fed })
    const told: string[] = []
    let most = 0
    let now = 0
    socket.take(
      taker(told, (said) => {
        most = Math.max(most, ++now)
        // Whoever pauses and resumes in one breath loses nothing, and nobody is told in between.
        const odd = Number(said) % 701 === 7
        if (odd) socket.pause()
        if (odd && fed) socket.resume()
        else if (odd) setImmediate(() => socket.resume())
      })
    )
    const all = Array.from({ length: 3000 }, (_, n) => String(n))
    const bytes = Buffer.concat(all.map(text))
    // Even what is paused may give what it has read.
    for (let at = 0; at < bytes.length; at += 9001) {
      if (fed) socket.input(bytes.subarray(at, at + 9001))
      else line.push(bytes.subarray(at, at + 9001))
    }
    while (told.length < all.length) {
      now = 0
      await turn()
    }
    t.same(told, all)
    t.ok(most > 200 && most <= 257, `${most} in one turn`)
    line.destroy()
  }
})

t.test('what has come of a connection that is lost is told before that, unless its taker has paused', async (t) => {
  for (const pauses of [false, true]) {
    const line = new Line()
    const socket = new FrameSocket(line, { side: 'server', maxMessage: 1000 })
    const told: string[] = []
    socket.take(
      taker(told, (said) => {
        if (pauses && said === '400') socket.pause()
      })
    )
    line.push(Buffer.concat(Array.from({ length: 600 }, (_, n) => text(String(n)))))
    await eventually(() => told.length >= 256)
    line.destroy(new Error('reset'))
    await eventually(() => told.at(-1)!.startsWith('closed'))
    t.same(told, [...Array.from({ length: pauses ? 401 : 600 }, (_, n) => String(n)), 'closed 1006 '])
  }
  const early = new Line()
  const late = new FrameSocket(early, { side: 'server', maxMessage: 1000, head: text('early') })
  early.destroy()
  await turn()
  const told: string[] = []
  late.take(taker(told))
  await eventually(() => told.length === 2)
  t.same(told, ['early', 'closed 1006 '], 'also what came before anybody took it')
})

t.test('a message that takes long to come is a sign of life', async (t) => {
  const line = new Line()
  const socket = new FrameSocket(line, { side: 'server', maxMessage: 1000 })
  socket.take(taker([]))
  const { heardAt } = socket
  const frame = text('x'.repeat(500))
  for (const piece of [frame.subarray(0, 100), frame.subarray(100, 200)]) {
    await new Promise((resolve) => setTimeout(resolve, 5))
    line.push(piece)
    await turn()
  }
  t.ok(socket.heardAt > heardAt)
  line.destroy()
})

t.test('what came before anybody took it is taken first, and nothing is sent behind a close frame', async (t) => {
  const line = new Line()
  const head = Buffer.concat([text('one'), text('two')])
  const socket = new FrameSocket(line, { side: 'server', maxMessage: 1000, head: head.subarray(0, 5) })
  line.push(head.subarray(5))
  await turn()
  const told: string[] = []
  socket.take({ ...taker(told), received: (bytes) => void told.push(String(bytes)) })
  await eventually(() => told.length === 4)
  t.same(told, ['5', String(head.length - 5), 'one', 'two'])
  socket.close(1005, 'not said')
  t.ok(socket.send(Buffer.from('x'), false))
  socket.ping()
  line.push(frameBytes('ping', { opcode: 9, masked }))
  await turn()
  t.same(line.frames, [[8, '']])
  line.destroy()
})

/** Two ends of one connection over the loopback interface, as often as they are asked for. */
async function lines(t: Test, secure: boolean): Promise<() => Promise<[Duplex, Duplex]>> {
  const server = secure ? createTlsServer(makeCertificate(t).pem) : createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  return async () => {
    const accepted = once(server, secure ? 'secureConnection' : 'connection')
    const near = secure
      ? connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })
      : connect(port, '127.0.0.1')
    const [far] = (await accepted) as [Duplex]
    return [near, far]
  }
}

/** The library on one end. */
function libraryOn(stream: Duplex, isServer: boolean): WebSocket {
  const Socket = WebSocket as unknown as new (address: null, protocols: undefined, options: object) => WebSocket
  const socket = new Socket(null, undefined, { autoPong: true, closeTimeout: 10_000 }) as WebSocket & {
    _isServer: boolean
    setSocket(stream: Duplex, head: Buffer, options: object): void
  }
  socket._isServer = isServer
  socket.setSocket(stream, Buffer.alloc(0), { allowSynchronousEvents: true, maxPayload: 1 << 26 })
  return socket
}

const step = fc.oneof(
  fc.record({
    ours: fc.boolean(),
    text: fc.constantFrom('', 'a', '€', '🙂 {"type":"x"}'),
    times: fc.constantFrom(1, 1, 30, 9000, 40_000),
    binary: fc.boolean(),
    last: fc.boolean()
  }),
  fc.constantFrom('pause', 'resume', 'ping', 'their ping', 'their pause', 'their resume', 'wait', 'wait')
)

/** Each message with its kind. */
const noted = (binary: boolean, text: string): string => `${binary} ${text}`

/** What is said on a line, who is the server of it, and who closes it. */
const conversation = fc.record({
  steps: fc.array(step, { maxLength: 40 }),
  isServer: fc.boolean(),
  isSecure: fc.boolean(),
  weClose: fc.boolean()
})

type Conversation = typeof conversation extends fc.Arbitrary<infer T> ? T : never

t.test('a conversation with the library ws, on either side, with TLS and without', async (t) => {
  const [plain, secure] = [await lines(t, false), await lines(t, true)]
  let said = 0
  const converse = async (
    { steps, isServer, weClose }: Conversation,
    [near, far]: readonly [Duplex, Duplex]
  ): Promise<void> => {
    const ours = new FrameSocket(isServer ? far : near, {
      side: isServer ? 'server' : 'client',
      maxMessage: 1 << 26
    })
    const theirs = libraryOn(isServer ? near : far, !isServer)
    const told: string[] = []
    const sent: string[] = []
    const heard: string[] = []
    const back: string[] = []
    let paused = false
    let pongs = 0
    ours.take({
      ...taker(told),
      frame(data, binary) {
        if (paused) throw new Error('it has paused')
        told.push(noted(binary, String(data)))
      }
    })
    theirs.on('message', (data: Buffer, binary) => void heard.push(noted(binary, String(data))))
    theirs.on('error', (error) => void heard.push(String(error)))
    theirs.on('pong', () => void pongs++)
    const end = once(theirs, 'close') as Promise<[number, Buffer]>
    let begun: { binary: boolean; text: string } | undefined
    const say = (text: string, binary: boolean, last: boolean): void => {
      begun ??= { binary, text: '' }
      begun.text += text
      theirs.send(text, { binary, fin: last })
      if (!last) return
      sent.push(noted(begun.binary, begun.text))
      begun = undefined
    }
    for (const one of steps) {
      if (typeof one === 'object') {
        const text = one.text.repeat(one.times)
        said++
        if (!one.ours) say(text, one.binary, one.last)
        else {
          ours.send(Buffer.from(text), one.binary)
          back.push(noted(one.binary, text))
        }
      } else if (one === 'pause') {
        paused = true
        ours.pause()
      } else if (one === 'resume') {
        paused = false
        ours.resume()
      } else if (one === 'ping') ours.ping()
      else if (one === 'their ping') theirs.ping('x')
      else if (one === 'their pause') theirs.pause()
      else if (one === 'their resume') theirs.resume()
      else await turn()
    }
    if (begun) say('', false, true)
    theirs.resume()
    ours.ping()
    theirs.ping('last')
    paused = false
    ours.resume()
    await eventually(() => told.length === sent.length && heard.length === back.length && !ours.isPinged)
    await eventually(() => pongs > 0)
    if (weClose) ours.close(4000, 'done')
    else theirs.close(4000, 'done')
    const [code, reason] = await end
    if (!weClose) sent.push('closed 4000 done')
    await eventually(() => near.destroyed && far.destroyed)
    if (code !== 4000 || String(reason) !== 'done') throw new Error(`${code} ${String(reason)}`)
    if (JSON.stringify([told, heard]) !== JSON.stringify([sent, back])) throw new Error('another conversation')
  }
  // They mostly wait, so they take no longer together than one by itself.
  const all = fc.sample(conversation, process.env['SLUICE_LONG'] ? 2000 : 60)
  for (let at = 0; at < all.length; at += 30) {
    const some: Promise<void>[] = []
    for (const one of all.slice(at, at + 30)) {
      const ends = await (one.isSecure ? secure : plain)()
      const told = (cause: unknown): never => {
        throw new Error(JSON.stringify(one), { cause })
      }
      some.push(converse(one, ends).catch(told))
    }
    await Promise.all(some)
  }
  t.ok(said > 20, `${said} messages`)
})
