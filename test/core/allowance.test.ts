// What may be used at the same time is bounded by all threads together, and what a thread had that has ended is free.
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { commonsOf, leavePots, makePots, OwnAllowance } from '../../core/allowance.ts'

const module = JSON.stringify(new URL('../../core/allowance.ts', import.meta.url).href)

t.test('one thread takes up to the limit, or to what it says may be taken', async (t) => {
  const own = new OwnAllowance(10)
  t.equal(own.take(8), true)
  t.equal(own.take(3), false)
  t.equal(own.take(1, 8), false, 'a lower bound than the limit')
  t.equal(own.take(2), true)
  own.give(5)
  t.same([own.used, own.all], [5, 5])
  const free = new OwnAllowance()
  t.equal(free.take(1000), true)
  t.equal(free.take(1, 1000), false)
})

t.test('what one thread has taken lacks for the others, until it gives it back or ends', async (t) => {
  const pots = makePots(3, { connections: 10, bodies: 10 * 1024 })
  const [one, other] = [commonsOf(pots, 1), commonsOf(structuredClone(pots), 2)]
  t.equal(one.connections.take(10), true, 'one alone may have all of it')
  t.equal(other.connections.take(1), false)
  t.same([other.connections.used, other.connections.all], [0, 10])
  one.connections.give(1)
  t.equal(other.connections.take(1), true)
  leavePots(pots, 1)
  t.equal(other.connections.all, 1)
  t.equal(other.connections.take(9), true)
  t.equal(one.bodies.take(1), true)
  t.equal(other.bodies.take(9 * 1024), true)
  t.equal(other.bodies.take(1), false, 'a part of a kilobyte counts as one')
  t.equal(one.drains.take(2, 2), true)
  t.equal(other.drains.take(1, 2), false)
  t.equal(other.drains.take(1, 3), true)
})

t.test('threads that race never have more than there is', async (t) => {
  const pots = makePots(4, { connections: 7, bodies: 64 * 1024 })
  // Exact counts of what they hold, and the most that any of them saw.
  const held = new Int32Array(new SharedArrayBuffer(16))
  const code = `
    import { workerData } from 'node:worker_threads'
    import { commonsOf } from ${module}
    const { pots, place, held } = workerData
    const { connections, bodies } = commonsOf(pots, place)
    const had = { connections: 0, bodies: 0 }
    const step = (allowance, at, amount, most) => {
      if (allowance.used > 0 && Math.random() < 0.5) {
        Atomics.sub(held, at, allowance.used)
        allowance.give(allowance.used)
      } else if (allowance.take(amount)) {
        had[at === 0 ? 'connections' : 'bodies']++
        if (Atomics.add(held, at, amount) + amount > most) Atomics.add(held, 2, 1)
      }
    }
    for (let i = 0; i < 20_000; i++) {
      step(connections, 0, 1 + (i % 3), 7)
      step(bodies, 1, 1 + Math.floor(Math.random() * 40_000), 64 * 1024)
    }
    Atomics.sub(held, 0, connections.used)
    Atomics.sub(held, 1, bodies.used)
    connections.give(connections.used)
    bodies.give(bodies.used)
    if (had.connections === 0 || had.bodies === 0) throw new Error('it got nothing')
  `
  const url = new URL(`data:text/javascript,${encodeURIComponent(code)}`)
  const ends = [0, 1, 2, 3].map((place) => once(new Worker(url, { workerData: { pots, place, held } }), 'exit'))
  t.same((await Promise.all(ends)).flat(), [0, 0, 0, 0])
  t.same([...held], [0, 0, 0, 0], 'never too much, and nothing is left')
  t.equal(commonsOf(pots, 0).connections.all, 0)
})

t.test('what has a name is found by it in every thread, and what one has of it that has ended is free', (t) => {
  const pots = makePots(3, { connections: 1, bodies: 1 })
  const [one, other] = [commonsOf(pots, 1), commonsOf(pots, 2)]
  for (let n = 0; n < 100; n++) {
    t.equal(one.named(`name ${n}`).take(2, 3), true)
    t.equal(other.named(`name ${n}`).take(2, 3), false)
    t.equal(other.named(`name ${n}`).take(1, 3), true)
  }
  t.equal(other.named('another name').all, 0)
  t.equal(one.named('bytes', 1024).take(1025, 4096), true)
  t.equal(other.named('bytes', 1024).all, 2048)
  leavePots(pots, 1)
  t.equal(other.named('name 99').all, 1)
  t.equal(other.named('bytes', 1024).all, 0)
  t.end()
})
