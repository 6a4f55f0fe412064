// Frames of WebSockets as they are read and written: whatever the pieces, the masks and the places in memory.
// Runs alone: it measures the memory of its process.
import type { Writable } from 'node:stream'
import fc from 'fast-check'
import t from 'tap'
import * as library from 'ws'
import { closePayload, FrameFault, frameOf, FrameReader, opcodes, readClose } from '../../../core/wire/frames.ts'
import { unmask } from '../../../core/wire/mask.ts'
import { frameBytes, readFrames } from '../../kit/socket-upstream.ts'
import type { FrameParts } from '../../kit/socket-upstream.ts'

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

/** It has this export, but its types do not. */
const { Receiver } = library as unknown as {
  Receiver: new (options: { isServer: boolean; maxPayload: number }) => Writable
}

/** What the library `ws` finds. Of a close frame: its code and reason. */
async function foundByLibrary(bytes: Buffer, masked: boolean, most: number): Promise<string[]> {
  const said: string[] = []
  const receiver = new Receiver({ isServer: masked, maxPayload: most })
  const say = (opcode: number, payload: Buffer): void => void said.push(`${opcode} ${payload.toString('hex')}`)
  receiver.on(
    'message',
    (data: Buffer, binary: boolean) => void said.push(`${binary ? 'binary' : 'text'} ${data.toString('hex')}`)
  )
  receiver.on('ping', (payload: Buffer) => say(opcodes.ping, payload))
  receiver.on('pong', (payload: Buffer) => say(opcodes.pong, payload))
  receiver.on('conclude', (code: number, reason: Buffer) =>
    say(opcodes.close, closePayload(code === 1005 ? undefined : code, String(reason)))
  )
  await new Promise<void>((resolve) => {
    receiver.on('error', (error: Error & Record<symbol, number>) => {
      const [code] = Object.getOwnPropertySymbols(error).map((symbol) => error[symbol])
      said.push(`fault ${code}`)
      resolve()
    })
    receiver.write(bytes, () => resolve())
  })
  return said
}

/** Any frame: mostly one that may stand where it stands. */
const anyFrame = fc
  .record({
    opcode: fc.oneof({ weight: 9, arbitrary: fc.constantFrom(0, 0, 1, 2, 8, 9, 10) }, fc.nat({ max: 15 })),
    fin: fc.boolean(),
    reserved: fc.oneof({ weight: 20, arbitrary: fc.constant(0) }, fc.nat({ max: 7 })),
    payload: fc.oneof(
      { weight: 4, arbitrary: payload.map((bytes) => bytes.subarray(0, 125)) },
      fc.uint8Array({ maxLength: 6 }).map((bytes) => Buffer.from(bytes)),
      fc.nat({ max: 5200 }).map((code) => closePayload(code, 'why')),
      fc.nat({ max: 400 }).map((length) => Buffer.alloc(length, 'x'))
    ),
    /** Sent in place of the real length; 2^53 and more are in eight bytes. */
    length: fc.option(fc.constantFrom(0, 125, 126, 127, 65_535, 65_536, 2 ** 32, 2 ** 53, 2 ** 63), { freq: 30 }),
    isWrong: fc.nat({ max: 40 }).map((n) => n === 0)
  })
  .map(({ length, ...parts }) => ({ ...parts, ...(length === null ? {} : { length }) }))

t.test('what a peer sends is read, or refused, as the library ws does it, to the code', async (t) => {
  const counts = new Map<string, number>()
  await fc.assert(
    fc.asyncProperty(fc.array(anyFrame, { maxLength: 8 }), fc.boolean(), async (frames, masked) => {
      const bytes = Buffer.concat(
        frames.map(({ payload, isWrong, fin, ...parts }) => {
          const whole = fin || parts.opcode > opcodes.binary
          return frameBytes(payload, { ...parts, fin: whole, masked: masked !== isWrong } satisfies FrameParts)
        })
      )
      const said = found([bytes], masked, 300)
      // Its close frames are read by whoever gets them.
      const last = said.at(-1)
      if (last?.startsWith('8 ')) {
        try {
          readClose(Buffer.from(last.slice(2), 'hex'))
        } catch (error) {
          said.splice(-1, 1, `fault ${(error as FrameFault).code}`)
        }
      }
      const expected = await foundByLibrary(bytes, masked, 300)
      if (JSON.stringify(said) !== JSON.stringify(expected))
        throw new Error(`${JSON.stringify(said)}, not ${JSON.stringify(expected)}: ${bytes.toString('hex')}`)
      for (const one of said) {
        const kind = one.startsWith('fault') ? one : one.split(' ', 1)[0]!
        counts.set(kind, (counts.get(kind) ?? 0) + 1)
      }
    }),
    { numRuns: 4 * runs }
  )
  for (const kind of ['text', 'binary', '8', '9', '10', 'fault 1002', 'fault 1007', 'fault 1009'])
    t.ok((counts.get(kind) ?? 0) > runs / 100, `${counts.get(kind)} of ${kind}`)
})

t.test('a length may be written in more bytes than it needs', async (t) => {
  const payload = Buffer.from('{}')
  const long = Buffer.from([0x82, 127, 0, 0, 0, 0, 0, 0, 0, 2])
  t.same(found([Buffer.concat([Buffer.from([0x82, 126, 0, 2]), payload])], false), ['binary 7b7d'])
  t.same(found([Buffer.concat([long, payload])], false), ['binary 7b7d'])
})
