// Frames of WebSockets as they are read and written: whatever the pieces, the masks and the places in memory.
import { Duplex } from 'node:stream'
import fc from 'fast-check'
import t from 'tap'
import { FrameFault, frameOf, FrameReader, opcodes } from '../../../core/wire/frames.ts'
import { FrameSocket } from '../../../core/wire/frame-socket.ts'
import { unmask } from '../../../core/wire/mask.ts'
import { frameBytes, readFrames } from '../../kit/socket-upstream.ts'

const runs = process.env['SLUICE_LONG'] ? 10_000 : 500

/** What a reader finds in pieces; each is overwritten when it has been read. */
function found(pieces: readonly Buffer[], masked: boolean, most = 1 << 20): string[] {
  const said: string[] = []
  const reader = new FrameReader(masked, most, {
    message: (data, binary) => void kept.push([binary ? 'binary' : 'text', data]),
    control: (opcode, payload) => void kept.push([String(opcode), payload])
  })
  const kept: [string, Buffer][] = []
  try {
    for (const piece of pieces) {
      const read = Buffer.from(piece)
      reader.read(read)
      read.fill(0xee)
    }
  } catch (error) {
    if (!(error instanceof FrameFault)) throw error
    said.push(`fault ${error.code}`)
  }
  return [...kept.map(([kind, data]) => `${kind} ${data.toString('hex')}`), ...said]
}

const payload = fc
  .tuple(fc.constantFrom('', 'a', '€', '🙂 is', '{"type":"x"}'), fc.constantFrom(0, 1, 7, 40, 130, 9000))
  .map(([text, times]) => Buffer.from(text.repeat(times)))
const frame = fc.record({
  payload,
  opcode: fc.constantFrom(0, 0, 1, 1, 2, 9, 10),
  fin: fc.boolean()
})

t.test('frames are the same, however they are cut', async () => {
  let [messages, faults] = [0, 0]
  fc.assert(
    fc.property(
      fc.array(frame, { maxLength: 6 }),
      fc.boolean(),
      fc.array(fc.nat(), { maxLength: 12 }),
      (frames, masked, cuts) => {
        const bytes = Buffer.concat(
          frames.map(({ payload, opcode, fin }) =>
            opcode > 2
              ? frameBytes(payload.subarray(0, 125), { opcode, masked })
              : frameBytes(payload, { opcode, fin, masked })
          )
        )
        const places = [...cuts.map((cut) => cut % (bytes.length + 1)), 0, bytes.length].sort((a, b) => a - b)
        const pieces = places.slice(1).map((place, at) => bytes.subarray(places[at], place))
        const whole = found([bytes], masked)
        if (JSON.stringify(found(pieces, masked)) !== JSON.stringify(whole)) throw new Error('cut')
        const few = bytes.subarray(0, 400)
        if (
          JSON.stringify(
            found(
              [...few].map((byte) => Buffer.of(byte)),
              masked
            )
          ) !== JSON.stringify(found([few], masked))
        )
          throw new Error('byte by byte')
        if (whole.some((one) => one.startsWith('text'))) messages++
        if (whole.some((one) => one.startsWith('fault'))) faults++
      }
    ),
    { numRuns: runs }
  )
  t.ok(messages > runs / 20 && faults > runs / 20, `${messages} with messages, ${faults} with faults`)
})

t.test('what is written is read again, of any length', async (t) => {
  for (const masked of [false, true])
    for (const length of [0, 1, 125, 126, 127, 128, 300, 16_383, 16_384, 16_385, 65_535, 65_536, 200_000]) {
      const payload = Buffer.alloc(length, 'wört')
      const pieces = frameOf(opcodes.binary, payload, masked)
      t.same(found(pieces, masked), [`binary ${payload.toString('hex')}`], `${length} ${masked}`)
      const [read] = readFrames(Buffer.concat(pieces))
      t.ok(read!.payload.equals(payload), 'also by another reader')
      if (!masked || length < 32) continue
      const again = frameOf(opcodes.binary, payload, true)
      t.notOk(Buffer.concat(again).equals(Buffer.concat(pieces)), 'each frame has a mask of its own')
      t.equal(payload.compare(Buffer.alloc(length, 'wört')), 0, 'and the payload stays as it was')
    }
})

t.test('a mask is put on at any place in memory, from any place of the payload on', async () => {
  fc.assert(
    fc.property(
      fc.nat({ max: 20 }),
      fc.nat({ max: 400 }),
      fc.nat({ max: 9 }),
      fc.integer({ min: 0, max: 2 ** 32 - 1 }),
      (from, length, come, mask) => {
        const bytes = Buffer.alloc(from + length + 20, 0x5a)
        const expected = Buffer.from(bytes)
        for (let i = 0; i < length; i++) expected[from + i]! ^= (mask >>> (24 - 8 * ((come + i) % 4))) & 255
        unmask(bytes, from, from + length, mask, come)
        return bytes.equals(expected)
      }
    ),
    { numRuns: runs }
  )
})

t.test('a message takes no more memory than twice what has come of it', async (t) => {
  const before = process.memoryUsage().arrayBuffers
  const readers = Array.from({ length: 64 }, () => {
    const reader = new FrameReader(false, 1 << 24, { message() {}, control() {} })
    reader.read(frameBytes('x', { opcode: 2, length: 1 << 24 }))
    return reader
  })
  const taken = process.memoryUsage().arrayBuffers - before
  t.ok(taken < readers.length * 128 * 1024, `${taken} bytes for ${readers.length} of which one byte has come`)
})

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

t.test('pings are answered, and only the latest of those that came while nothing could be sent', async (t) => {
  const line = new Line({ writableHighWaterMark: 1 })
  const socket = new FrameSocket(line, { side: 'server', maxMessage: 1000 })
  const frames: string[] = []
  socket.take({
    received() {},
    frame: (data) => void frames.push(String(data)),
    drained() {},
    closed() {}
  })
  line.isBlocked = true
  for (let n = 0; n < 1000; n++) line.push(frameBytes(`ping ${n}`, { opcode: 9, masked }))
  line.push(frameBytes('text', { opcode: 1, masked }))
  await turn()
  t.same(frames, ['text'])
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

t.test('a close is told in its turn: not while the frames before it wait', async (t) => {
  const line = new Line()
  const socket = new FrameSocket(line, { side: 'server', maxMessage: 1000 })
  const told: string[] = []
  socket.take({
    received() {},
    frame(data) {
      told.push(String(data))
      socket.pause()
    },
    drained() {},
    closed: ({ code, reason }) => void told.push(`closed ${code} ${reason}`)
  })
  line.push(
    Buffer.concat([
      frameBytes('last', { opcode: 1, masked }),
      frameBytes(Buffer.concat([Buffer.from([3, 232]), Buffer.from('bye')]), { opcode: 8, masked }),
      frameBytes('never', { opcode: 1, masked })
    ])
  )
  await turn()
  t.same(told, ['last'])
  t.same(line.frames, [[8, '\u0003\u00e8bye']], 'the other side is answered at once')
  socket.resume()
  t.same(told, ['last', 'closed 1000 bye'])
  line.destroy()
  await turn()
  t.equal(told.length, 2, 'and once')
})

t.test('what came before anybody took it is taken first, and nothing is sent behind a close frame', async (t) => {
  const line = new Line()
  const head = Buffer.concat([frameBytes('one', { opcode: 1, masked }), frameBytes('two', { opcode: 1, masked })])
  const socket = new FrameSocket(line, { side: 'server', maxMessage: 1000, head: head.subarray(0, 5) })
  line.push(head.subarray(5))
  await turn()
  const told: string[] = []
  socket.take({
    received: (bytes) => void told.push(String(bytes)),
    frame: (data) => void told.push(String(data)),
    drained() {},
    closed() {}
  })
  await turn()
  t.same(told, ['5', String(head.length - 5), 'one', 'two'])
  socket.close(1005, 'not said')
  t.ok(socket.send(Buffer.from('x'), false))
  socket.ping()
  line.push(frameBytes('ping', { opcode: 9, masked }))
  await turn()
  t.same(line.frames, [[8, '']])
  line.destroy()
})
