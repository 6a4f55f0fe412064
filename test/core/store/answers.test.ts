// Kept answers: found at once and after a restart, and let go of by their age and by how much they are.
import { hash, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import t from 'tap'
import type { KeptAnswer } from '../../../core/store/answers.ts'
import { openStore } from '../../../core/store/embedded/store.ts'
import { verify } from '../../../core/store/embedded/care/verify/verify.ts'
import { eventually } from '../../kit/probe.ts'
import { noon, query } from './embedded/sample.ts'

const day = 86_400_000
const ever = { age: 1e6 * day, size: 2 ** 50 }
const id = (name: string): Buffer => hash('sha256', name, 'buffer')
const answer = (body: Buffer | undefined): KeptAnswer => ({
  asked: id('asked'),
  status: 200,
  type: 'application/json',
  headers: { location: '/x' },
  streamed: false,
  body
})

t.test('what was kept is found, in this process and in the next', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await openStore({ file, durability: 'process' })
  const answers = [
    answer(randomBytes(100)),
    answer(randomBytes(900_000)),
    answer(Buffer.alloc(0)),
    answer(undefined),
    { ...answer(Buffer.from('é')), streamed: true, status: 201 }
  ]
  for (const [i, one] of answers.entries()) void store.answers.put(id(`${i}`), 'acme', one)
  for (const [i, one] of answers.entries()) t.same(await store.answers.find(id(`${i}`)), one)
  t.equal(await store.answers.find(id('none')), undefined)
  await store.answers.put(id('0'), 'acme', answer(Buffer.from('anew')))
  t.same(await store.answers.find(id('0')), answer(Buffer.from('anew')))
  await store.close()
  t.same(verify(file), [])
  const again = await openStore({ file, durability: 'process' })
  t.same(await again.answers.find(id('0')), answer(Buffer.from('anew')))
  for (const [i, one] of answers.entries()) if (i > 0) t.same(await again.answers.find(id(`${i}`)), one)
  await again.close()
})

t.test('they go for their age', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  let now = noon
  const keeping = {
    requests: ever,
    journal: { ...ever, rows: 500 },
    answers: { age: day, size: ever.size },
    patience: 0
  }
  const store = await openStore({ file, durability: 'process', keeping, now: () => now })
  await store.answers.put(id('old'), 'acme', answer(Buffer.from('old')))
  await store.flush()
  await store.close()
  now += day + 1
  const next = await openStore({ file, durability: 'process', keeping, now: () => now })
  t.equal(await next.answers.find(id('old')), undefined, 'not found any more')
  await next.answers.put(id('new'), 'acme', answer(Buffer.from('new')))
  await eventually(() => query(file, 'SELECT count(*) AS n FROM answer')[0]!['n'] === 1n)
  t.same(await next.answers.find(id('new')), answer(Buffer.from('new')))
  await next.close()
})

t.test('they go when they are too much, the oldest first', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  let now = noon
  const keeping = {
    requests: ever,
    journal: { ...ever, rows: 500 },
    answers: { age: day, size: 1_000_000 },
    patience: 0
  }
  const store = await openStore({ file, durability: 'process', keeping, now: () => now })
  const keep = async (from: number, to: number): Promise<void> => {
    for (let i = from; i < to; i++) {
      now++
      void store.answers.put(id(`${i}`), 'acme', answer(randomBytes(10_000)))
    }
    await store.flush()
  }
  const bytes = (): bigint => query(file, 'SELECT coalesce(sum(bytes), 0) AS n FROM answer')[0]!['n'] as bigint
  await keep(0, 50)
  // Replaced, and so no more than before.
  for (let round = 0; round < 3; round++) await keep(0, 50)
  await keep(50, 90)
  t.equal(bytes(), 900_000n)
  await keep(90, 300)
  await eventually(() => bytes() <= 1_000_000n)
  t.ok(bytes() > 600_000n, `${bytes()} bytes are left`)
  await store.close()
  const again = await openStore({ file, durability: 'process', keeping, now: () => now })
  t.ok(await again.answers.find(id('299')))
  t.equal(await again.answers.find(id('100')), undefined)
  await again.close()
})

t.test('whoever has most makes room, and nobody who has less', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  let now = noon
  const keeping = {
    requests: ever,
    journal: { ...ever, rows: 500 },
    answers: { age: day, size: 1_000_000 },
    patience: 0
  }
  const store = await openStore({ file, durability: 'process', keeping, now: () => now })
  const keep = (tenant: string, i: number): void => {
    now++
    void store.answers.put(id(`${tenant} ${i}`), tenant, answer(randomBytes(10_000)))
  }
  for (let i = 0; i < 20; i++) keep('small', i)
  for (let i = 0; i < 30; i++) keep('other', i)
  for (let i = 0; i < 300; i++) keep('large', i)
  await store.flush()
  const bytes = (): bigint => query(file, 'SELECT coalesce(sum(bytes), 0) AS n FROM answer')[0]!['n'] as bigint
  await eventually(() => bytes() <= 1_000_000n)
  await store.close()
  const again = await openStore({ file, durability: 'process', keeping, now: () => now })
  for (const [tenant, count] of [
    ['small', 20],
    ['other', 30]
  ] as const)
    for (let i = 0; i < count; i++) t.ok(await again.answers.find(id(`${tenant} ${i}`)), `${tenant} ${i}`)
  t.ok(await again.answers.find(id('large 299')))
  t.equal(await again.answers.find(id('large 100')), undefined)
  await again.close()
})
