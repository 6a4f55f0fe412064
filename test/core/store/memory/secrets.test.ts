// Client secrets in memory: found until their time, counted by key, and let go.
import fc from 'fast-check'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { MemorySecrets } from '../../../../core/store/memory/secrets.ts'
import type { KeptSecret } from '../../../../core/store/secrets.ts'
import { collectGarbage } from '../../../kit/probe.ts'

const secretOf = (name: string, issuer: string, expires: number): KeptSecret => ({
  sha256: Buffer.from(name),
  issuer: Buffer.from(issuer),
  model: 'demo',
  expires
})

t.setTimeout(600_000)

t.test('what has expired is not found and makes room, and no key fills the memory', (t) => {
  let now = 0
  const secrets = new MemorySecrets(() => now)
  const made = (issuer: string, n: number, expires: number) => ({
    sha256: Buffer.from(`${issuer} ${n}`),
    issuer: Buffer.from(issuer),
    model: 'demo',
    expires
  })
  t.ok(Array.from({ length: 1000 }, (_, n) => secrets.put(made('one', n, 100 + n))).every(Boolean))
  t.equal(secrets.put(made('one', 1000, 9999)), false)
  t.equal(secrets.put(made('two', 0, 9999)), true)
  now = 150
  t.equal(secrets.find(Buffer.from('one 49')), undefined)
  t.equal(secrets.find(Buffer.from('one 50')), undefined, 'it is over at its time, not after it')
  t.ok(secrets.find(Buffer.from('one 51')))
  t.equal(secrets.put(made('one', 1000, 9999)), true, 'those that have expired make room')
  t.ok(Array.from({ length: 1000 }, (_, n) => secrets.put(made('three', n, n === 7 ? 9999 : 200))).every(Boolean))
  now = 200
  t.equal(secrets.put(made('three', 1000, 9999)), true, 'all of them at their time')
  t.ok(secrets.find(Buffer.from('three 7')), 'and no other')
  t.ok(Array.from({ length: 998 }, (_, n) => secrets.put(made('three', 2000 + n, 9999))).every(Boolean))
  t.equal(secrets.put(made('three', 1001, 9999)), false, 'and no more than there were')

  for (let times = 0; times < 1500; times++) t.equal(secrets.put(made('four', 0, 300 + times)), true, 'one is one')
  t.ok(Array.from({ length: 999 }, (_, n) => secrets.put(made('four', 1 + n, 9999))).every(Boolean))
  t.equal(secrets.put(made('four', 1000, 9999)), false)
  t.equal(secrets.put(made('four', 0, 9999)), true, 'one that is there is replaced when there is no more room')
  t.equal(secrets.put({ ...made('five', 0, 9999), sha256: Buffer.from('four 0') }), true, 'by whoever')
  t.equal(secrets.put(made('four', 1000, 9999)), true, 'and makes room')
  t.end()
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

t.test('whatever is made, replaced and over, a key has at most a thousand, and each is found until its time', (t) => {
  const property = fc.property(steps, (steps) => {
    let now = 1_000_000
    const secrets = new MemorySecrets(() => now)
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
        if (secrets.put(secret) !== taken)
          throw new Error(`secret ${n} of ${issuer} was ${taken ? 'refused' : 'taken'}`)
        if (!taken) continue
        if (!replaces) count++
        kept.set(`secret ${n}`, secret)
      }
      for (let n = 0; n < 2001; n += 13) {
        const found = secrets.find(Buffer.from(`secret ${n}`))
        if (found !== kept.get(`secret ${n}`)) throw new Error(`secret ${n} is ${found ? 'found' : 'lost'}`)
      }
    }
  })
  fc.assert(property, { numRuns: 30 })
  t.end()
})

t.test('what has expired is let go within a minute and the next secret, whoever makes it', async (t) => {
  let now = 1_000_000
  const secrets = new MemorySecrets(() => now)
  const references = ['over', 'good'].map((name, at) => {
    const secret = secretOf(name, 'one', now + 1000 + at * 1_000_000)
    secrets.put(secret)
    return new WeakRef(secret)
  })
  now += 70_000
  secrets.put(secretOf('other', 'two', now + 1000))
  // What a reference was made of in this turn is kept until its end.
  await turn()
  collectGarbage()
  t.same(
    references.map((reference) => reference.deref() !== undefined),
    [false, true]
  )
})
