// The memory of request bodies: what may be taken, and that a buffer belongs to one body at a time.
import fc from 'fast-check'
import t from 'tap'
import { BodyMemory } from '../../../core/bodies/body-memory.ts'
import { collectGarbage, eventually } from '../../kit/probe.ts'

const KiB = 1024
const MiB = 1024 * KiB

t.test('what is taken is bounded, and all of it or none is taken', (t) => {
  const memory = new BodyMemory(100)
  t.equal(memory.take(60), true)
  t.equal(memory.take(41), false)
  t.equal(memory.take(40), true)
  memory.reclaim(Buffer.alloc(60))
  t.equal(memory.used, 40)
  t.end()
})

t.test('the memory of a large body that came back is used for the next', (t) => {
  const memory = new BodyMemory(100 * MiB)
  const [first, second] = [memory.lend(100 * KiB), memory.lend(100 * KiB)]
  t.equal(first.length, 100 * KiB)
  memory.reclaim(first)
  t.not(memory.lend(5 * MiB).byteOffset, first.byteOffset)
  const third = memory.lend(90 * KiB)
  t.same([third.buffer === first.buffer, third.byteOffset, third.length], [true, first.byteOffset, 90 * KiB])
  t.not(third.byteOffset, second.byteOffset)
  t.end()
})

t.test('small, huge and foreign buffers have memory of their own, and so has what finds no room', (t) => {
  const memory = new BodyMemory(1024 * MiB)
  const shared = memory.lend(100 * KiB).buffer
  for (const size of [1, 64 * KiB - 1, 8 * MiB + 1]) t.not(memory.lend(size).buffer, shared, `${size} bytes`)
  memory.reclaim(Buffer.from('a piece of the pool that all small buffers share'))
  memory.reclaim(Buffer.alloc(100 * KiB))
  const lent = Array.from({ length: 20 }, () => memory.lend(4 * MiB))
  t.ok(lent.filter(({ buffer }) => buffer === shared).length >= 10)
  t.ok(lent.filter(({ buffer }) => buffer !== shared).length >= 4)
  for (const buffer of lent) memory.reclaim(buffer)
  t.equal(memory.lend(4 * MiB).byteOffset, lent[0]!.byteOffset)
  t.end()
})

t.test('what was lent for a body that did not come is lent again when no read can be on its way into it', async (t) => {
  const memory = new BodyMemory(100 * MiB)
  const unread = memory.lend(MiB)
  memory.abandon(unread, undefined)
  const lent = memory.lend(MiB)
  t.equal(lent.byteOffset, unread.byteOffset)
  let room: Buffer | undefined = lent.subarray(100)
  memory.abandon(lent, room)
  collectGarbage()
  t.not(memory.lend(MiB).byteOffset, lent.byteOffset)
  t.equal(room.length, MiB - 100)
  room = undefined
  await eventually(() => {
    collectGarbage()
    const next = memory.lend(MiB)
    memory.reclaim(next)
    return next.byteOffset === lent.byteOffset
  })
})

t.test('no two bodies share memory, whatever comes and goes', (t) => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ size: fc.integer({ min: 1, max: 300 * KiB }), leaves: fc.nat(9) }), { maxLength: 60 }),
      (bodies) => {
        const memory = new BodyMemory(1024 * MiB)
        const held: { bytes: Buffer; mark: number }[] = []
        for (const [mark, { size, leaves }] of bodies.entries()) {
          const bytes = memory.lend(size)
          bytes.fill(mark)
          memory.take(size)
          held.push({ bytes, mark })
          if (leaves < held.length) memory.reclaim(held.splice(leaves, 1)[0]!.bytes)
          for (const { bytes, mark } of held) if (bytes[0] !== mark || bytes[bytes.length - 1] !== mark) return false
        }
        const right = memory.used === held.reduce((sum, { bytes }) => sum + bytes.length, 0)
        for (const { bytes } of held) memory.reclaim(bytes)
        return right
      }
    )
  )
  t.end()
})
