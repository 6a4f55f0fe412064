// The memory of request bodies: what may be taken, and that a buffer belongs to one body at a time.
import fc from 'fast-check'
import t from 'tap'
import { BodyMemory } from '../../core/body-memory.ts'

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

t.test('a buffer that came back is used for the next body of about its size', (t) => {
  const memory = new BodyMemory(100 * MiB)
  const first = memory.lend(100 * KiB)
  t.equal(first.length, 100 * KiB)
  memory.reclaim(first)
  t.equal(memory.kept, 112 * KiB)
  t.not(memory.lend(113 * KiB).buffer, first.buffer)
  t.equal(memory.lend(97 * KiB).buffer, first.buffer)
  t.equal(memory.kept, 0)
  t.end()
})

t.test('small, huge and foreign buffers are not kept, and all that is has a bound', (t) => {
  const memory = new BodyMemory(1024 * MiB)
  for (const size of [1, 64 * KiB - 1, 8 * MiB + 1]) {
    memory.reclaim(memory.lend(size))
    t.equal(memory.kept, 0, `${size} bytes`)
  }
  memory.reclaim(Buffer.from('a piece of the pool that all small buffers share'))
  memory.reclaim(Buffer.alloc(100 * KiB))
  t.equal(memory.kept, 0)
  const lent = Array.from({ length: 20 }, () => memory.lend(4 * MiB))
  for (const buffer of lent) memory.reclaim(buffer)
  t.equal(memory.kept, 64 * MiB)
  const small = new BodyMemory(MiB)
  for (const buffer of Array.from({ length: 20 }, () => small.lend(100 * KiB))) small.reclaim(buffer)
  t.ok(small.kept <= MiB, 'nor more than bodies may take')
  t.end()
})

t.test('a buffer is at most a quarter larger than its body', (t) => {
  fc.assert(fc.property(fc.integer({ min: 64 * KiB, max: 8 * MiB }), (bytes) => {
    const { buffer, length } = new BodyMemory(0).lend(bytes)
    return length === bytes && buffer.byteLength >= bytes && buffer.byteLength <= bytes * 1.25
  }))
  t.end()
})

t.test('no two bodies share memory, whatever comes and goes', (t) => {
  fc.assert(fc.property(fc.array(fc.record({ size: fc.integer({ min: 1, max: 300 * KiB }), leaves: fc.nat(9) }), { maxLength: 60 }), (bodies) => {
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
    return memory.used === held.reduce((sum, { bytes }) => sum + bytes.length, 0)
  }))
  t.end()
})
