// Client secrets as documents: found until their time, counted by key, and let go; and what was spent with them.
import fc from 'fast-check'
import t from 'tap'
import { SecretBook } from '../../../../core/store/embedded/book/secret-book.ts'
import { documentKind } from '../../../../core/store/documents.ts'
import type { KeptSecret } from '../../../../core/store/secrets.ts'
import { MemoryDocuments } from '../../../kit/documents.ts'

const stored = documentKind('client_secret')

const secretOf = (name: string, issuer: string, expires: number, more: Partial<KeptSecret> = {}): KeptSecret => ({
  sha256: Buffer.from(name),
  issuer: Buffer.from(issuer),
  model: 'demo',
  expires,
  ...more
})

t.setTimeout(600_000)

t.test('what has expired is not found and makes room, and no key has too many', async (t) => {
  let now = 0
  const documents = new MemoryDocuments()
  const secrets = new SecretBook(documents, () => now)
  const put = (issuer: string, n: number, expires: number): Promise<boolean> =>
    secrets.put(secretOf(`${issuer} ${n}`, issuer, expires))
  const putMany = async (many: number, one: (n: number) => Promise<boolean>): Promise<boolean> =>
    (await Promise.all(Array.from({ length: many }, (_, n) => one(n)))).every(Boolean)
  t.ok(await putMany(1000, (n) => put('one', n, 100 + n)))
  t.equal(await put('one', 1000, 9999), false)
  t.equal(await put('two', 0, 9999), true)
  now = 150
  t.equal(secrets.find(Buffer.from('one 49')), undefined)
  t.equal(secrets.find(Buffer.from('one 50')), undefined, 'it is over at its time, not after it')
  t.ok(secrets.find(Buffer.from('one 51')))
  t.equal(await put('one', 1000, 9999), true, 'those that have expired make room')
  t.ok(await putMany(1000, (n) => put('three', n, n === 7 ? 9999 : 200)))
  now = 200
  t.equal(await put('three', 1000, 9999), true, 'all of them at their time')
  t.ok(secrets.find(Buffer.from('three 7')), 'and no other')
  t.ok(await putMany(998, (n) => put('three', 2000 + n, 9999)))
  t.equal(await put('three', 1001, 9999), false, 'and no more than there were')

  for (let times = 0; times < 1500; times++) t.equal(await put('four', 0, 300 + times), true, 'one is one')
  t.ok(await putMany(999, (n) => put('four', 1 + n, 9999)))
  t.equal(await put('four', 1000, 9999), false)
  t.equal(await put('four', 0, 9999), true, 'one that is there is replaced when there is no more room')
  t.equal(new SecretBook(documents, () => now).find(Buffer.from('four 7'))?.model, 'demo', 'a start finds them')
  t.equal(await new SecretBook(documents, () => now).put(secretOf('more', 'four', 9999)), false, 'and counts them')
  now += 70_000
  await put('two', 1, 1e6)
  t.equal(documents.all(stored).length, 1, 'what has expired is let go with the next secret, whoever makes it')
})

t.test('what has expired is let go a minute after the last look for it', async (t) => {
  let now = 0
  const documents = new MemoryDocuments()
  const secrets = new SecretBook(documents, () => now)
  const kept = async (name: string): Promise<number> => {
    await secrets.put(secretOf(name, 'one', name === 'short' ? 1 : 1e9))
    return documents.all(stored).length
  }
  t.equal(await kept('short'), 1)
  now = 60_000
  t.equal(await kept('a'), 2)
  now++
  t.equal(await kept('b'), 2, 'without the one that has expired')
})

t.test('a secret that the store did not take has no place among those of its key', async (t) => {
  const documents = new MemoryDocuments()
  const secrets = new SecretBook(documents, () => 0)
  const { change } = documents
  documents.change = () => Promise.reject(new Error('the disk is full'))
  for (let n = 0; n < 1001; n++)
    await t.rejects(secrets.put(secretOf(`lost ${n}`, 'one', 100)), { message: 'the disk is full' })
  documents.change = change
  const put = (n: number): Promise<boolean> => secrets.put(secretOf(`one ${n}`, 'one', 100))
  for (let n = 0; n < 999; n++) await put(n)
  documents.change = () => Promise.reject(new Error('the disk is full'))
  await t.rejects(put(0), 'one that is there keeps its place')
  documents.change = change
  t.same([await put(999), await put(1000)], [true, false])
})

/** Many secrets at once, of names that others may have too; or time that goes by. */
interface Step {
  issuer: string
  first: number
  many: number
  lasts: number
  wait: number
}

const steps = fc.array(
  fc.record<Step>({
    issuer: fc.constantFrom('one', 'one', 'two'),
    first: fc.constantFrom(0, 1, 500, 1000),
    many: fc.constantFrom(1, 2, 499, 999, 1000, 1001),
    lasts: fc.constantFrom(1, 50, 60_000, 120_000),
    wait: fc.constantFrom(0, 0, 1, 49, 59_999, 60_000, 60_001)
  }),
  { maxLength: 10 }
)

t.test(
  'whatever is made, replaced and over, a key has at most a thousand, and each is found until its time',
  async () => {
    const property = fc.asyncProperty(steps, async (steps) => {
      let now = 1_000_000
      const secrets = new SecretBook(new MemoryDocuments(), () => now)
      const kept = new Map<string, KeptSecret>()
      for (const { issuer, first, many, lasts, wait } of steps) {
        now += wait
        for (const [name, { expires }] of kept) if (expires <= now) kept.delete(name)
        const others = [...kept.values()].filter((secret) => secret.issuer.toString() === issuer)
        let count = others.length
        for (let n = first; n < first + many; n++) {
          const secret = secretOf(`secret ${n}`, issuer, now + lasts)
          const before = kept.get(`secret ${n}`)
          const replaces = before?.issuer.toString() === issuer
          const taken = replaces || count < 1000
          if ((await secrets.put(secret)) !== taken)
            throw new Error(`secret ${n} of ${issuer} was ${taken ? 'refused' : 'taken'}`)
          if (!taken) continue
          if (!replaces) count++
          kept.set(`secret ${n}`, secret)
        }
        for (let n = 0; n < 2001; n += 13) {
          const found = secrets.find(Buffer.from(`secret ${n}`))
          const expected = kept.get(`secret ${n}`)
          if (found?.expires !== expected?.expires || String(found?.issuer) !== String(expected?.issuer))
            throw new Error(`secret ${n} is ${found ? 'found' : 'lost'}`)
        }
      }
    })
    await fc.assert(property, { numRuns: 20 })
  }
)

t.test('what may be spent is known for a day after the secret is over, and then nothing may', async (t) => {
  let now = 1_000_000
  const documents = new MemoryDocuments()
  const secrets = new SecretBook(documents, () => now)
  const digest = Buffer.from('one')
  await secrets.put(secretOf('one', 'key', now + 1000, { budget: 100n, settings: '{}' }))
  t.equal(secrets.hold(digest, 'before', 60n), undefined)
  now += 23 * 3_600_000
  await secrets.put(secretOf('other', 'key', now + 1000))
  t.equal(secrets.find(digest), undefined)
  t.same(secrets.spent(digest), { posted: 0n, pending: 60n }, 'a session that is open goes on')
  secrets.end(digest, 'before', 70n)
  t.same(secrets.hold(digest, 'after', 31n), { posted: 70n, pending: 0n })
  t.equal(secrets.hold(digest, 'all', 30n), undefined)
  secrets.end(digest, 'all', 35n)
  t.same(secrets.hold(digest, 'more', 1n), { posted: 105n, pending: 0n })
  t.equal(secrets.hold(digest, 'free', 0n), undefined, 'what costs nothing passes')
  now += 3_602_000
  await secrets.put(secretOf('another', 'key', now + 1000))
  t.equal(documents.all(stored).length, 1)
  t.throws(() => secrets.spent(digest), { code: 'quota_key_exceeded' })
  await t.rejects(async () => secrets.hold(digest, 'late', 0n), { code: 'quota_key_exceeded' })
  secrets.end(digest, 'late', 5n)
})
