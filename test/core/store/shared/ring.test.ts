// The rings from workers to the journal's thread: records come whole, in order, once, and are acknowledged by position.
import fc from 'fast-check'
import t from 'tap'
import { Arena } from '../../../../core/store/shared/arena/arena.ts'
import { createBell, createRing, RingReader, Rings, RingWriter } from '../../../../core/store/shared/records/ring.ts'
import { Seats } from '../../../../core/store/shared/arena/seats.ts'
import { eventually } from '../../../kit/probe.ts'
import { resultOf, startTask } from './threads.ts'

/** Who waits for a ring keeps no loop running; a gateway has listeners that do. */
const running = setInterval(() => {}, 1000)
t.teardown(() => clearInterval(running))

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

t.test('records of any length come whole and in order, however much of them is read at once', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(1500), { maxLength: 30 }), fc.nat(5), async (lengths, often) => {
      const [ring, bell] = [createRing(1024), createBell()]
      const [writer, reader] = [new RingWriter(ring, bell), new RingReader(ring)]
      const sent = lengths.map((length, number) => ({
        bytes: new Uint8Array(length).map((_, at) => number + at),
        done: false
      }))
      const found: Uint8Array[] = []
      const all = sent.map(async (one) => {
        await writer.send(one.bytes)
        one.done = true
      })
      for (let look = 0; found.length < sent.length; look++) {
        found.push(...reader.take())
        if (sent.some(({ done }, at) => done && at >= found.length)) return false
        if (look % (often + 1) === 0) reader.acknowledge(reader.position)
        await turn()
      }
      reader.acknowledge(reader.position)
      await Promise.all(all)
      return writer.waitingBytes === 0 && sent.every(({ bytes }, at) => Buffer.compare(bytes, found[at]!) === 0)
    }),
    { numRuns: 60 }
  )
})

t.test('positions wrap, and a record is acknowledged only when its position is', async (t) => {
  const [ring, bell] = [createRing(1024), createBell()]
  const words = new Int32Array(ring)
  // As after 16 GiB: written, taken and kept are just below the greatest position.
  words.fill(2 ** 31 - 20, 2, 5)
  const [writer, reader] = [new RingWriter(ring, bell), new RingReader(ring)]
  const done: number[] = []
  const sending = [100, 200, 150].map(async (length, number) => {
    await writer.send(new Uint8Array(length))
    done.push(number)
  })
  t.same(
    reader.take().map(({ length }) => length),
    [100, 200, 150]
  )
  const end = reader.position
  t.ok(end < 0)
  reader.acknowledge((end - 20) | 0)
  await sending[1]
  t.same(done, [0, 1], 'the third ends behind it')
  reader.acknowledge(end)
  await Promise.all(sending)
  t.same(done, [0, 1, 2])
})

t.test('a full ring keeps what comes with the worker, and says how much', async (t) => {
  const [ring, bell] = [createRing(1024), createBell()]
  const [writer, reader] = [new RingWriter(ring, bell), new RingReader(ring)]
  const sending = Array.from({ length: 20 }, () => writer.send(new Uint8Array(100)))
  t.ok(writer.waitingBytes >= 1000, `${writer.waitingBytes} bytes wait`)
  const first = reader.take().length
  t.ok(first > 5 && first < 10, `${first} were in it`)
  let found = first
  for (; found < 20; found += reader.take().length) await turn()
  t.equal(writer.waitingBytes, 0)
  t.notOk(writer.refuses)
  reader.refuse(true)
  t.ok(writer.refuses)
  reader.refuse(false)
  t.notOk(writer.refuses)
  reader.acknowledge(reader.position)
  await Promise.all(sending)
})

t.test('of a failure those are told who wait then, and nobody who sends later', async (t) => {
  const [ring, bell] = [createRing(1024), createBell()]
  const [writer, reader] = [new RingWriter(ring, bell), new RingReader(ring)]
  let told = 0
  writer.onFailure = () => told++
  const take = (): void => {
    t.equal(reader.take().length, 1)
  }
  const first = writer.send(new Uint8Array(8))
  take()
  reader.disappoint()
  await eventually(() => told === 1)
  reader.disappoint()
  reader.acknowledge(reader.position)
  await first
  t.equal(told, 1, 'it was on disk before it was heard of')
  reader.disappoint()
  const second = writer.send(new Uint8Array(8))
  take()
  await turn()
  t.equal(told, 1, 'nobody waited')
  reader.disappoint()
  await eventually(() => told === 2)
  reader.acknowledge(reader.position)
  await second
  t.equal(told, 2)
})

t.test('of a worker that ends within a record nothing of that record is ever read', async (t) => {
  const [ring, bell] = [createRing(1024), createBell()]
  const [writer, rings] = [new RingWriter(ring, bell), new Rings(bell)]
  rings.add(1, ring)
  void writer.send(new Uint8Array(50).fill(1))
  // Longer than the ring: some pieces of it are there, and the rest never comes.
  void writer.send(new Uint8Array(3000).fill(2))
  const { records } = rings.take()
  t.same(
    records.get(1)!.map(({ length }) => length),
    [50]
  )
  t.equal(rings.take().records.size, 0)
  rings.remove(1)
  const next = createRing(1024)
  rings.add(1, next)
  void new RingWriter(next, bell).send(Buffer.from('of the next worker'))
  t.equal(Buffer.from(rings.take().records.get(1)![0]!).toString(), 'of the next worker')
  // A piece whose bytes are there, and whose position was not raised.
  const words = new Int32Array(next)
  const before = words[2]!
  void new RingWriter(next, bell).send(Buffer.alloc(64))
  words[2] = before
  t.equal(rings.take().records.size, 0)
})

t.test('what all workers send is taken in one look after another, and told to each', async (t) => {
  const workers = 3
  const arena = Arena.create({ seats: workers + 1, sets: 2, cells: 2 })
  const [seats, bell] = [new Seats(arena), createBell()]
  const all = new Rings(bell)
  const lengths = Array.from({ length: 300 }, (_, at) => (at * 37) % 900)
  const results = Array.from({ length: workers }, () => {
    const seat = seats.give()
    const ring = createRing(4096)
    all.add(seat, ring)
    const order = { arena: arena.buffer, scratch: new SharedArrayBuffer(64), seat }
    return resultOf<'send'>(startTask(t, { task: 'send', ...order, with: { ring, bell, lengths } }))
  })
  const found = new Map<number, Uint8Array[]>()
  let over = false
  const done = Promise.all(results).then(() => (over = true))
  while (!over) {
    const { records, acknowledge } = all.take()
    for (const [seat, some] of records) found.set(seat, [...(found.get(seat) ?? []), ...some])
    acknowledge()
    await Promise.race([all.rung(), done])
  }
  for (let seat = 1; seat <= workers; seat++) {
    t.same(
      found.get(seat)!.map(({ length }) => length),
      lengths
    )
    t.ok(found.get(seat)!.every((bytes, number) => bytes.every((byte) => byte === ((number + seat) & 255))))
  }
})
