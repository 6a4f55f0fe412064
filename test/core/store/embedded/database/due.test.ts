// What is due for a stored usage at a stored price, as `verify` checks charges: against long division in rationals.
import fc from 'fast-check'
import t from 'tap'
import { dueFor, readObject, readPrice } from '../../../../../core/store/embedded/database/due.ts'

const prompt = ['input', 'cached_input', 'cache_write', 'cache_write_long', 'audio_input', 'image_input']
const classes = [...prompt, 'output', 'reasoning', 'request', 'image']
const rates = fc.dictionary(fc.constantFrom(...classes), fc.bigInt(0n, 3_000_000n).map(String), { maxKeys: 4 })
const usages = fc.dictionary(fc.constantFrom(...classes), fc.nat(30), { maxKeys: 5 })
const prices = fc.record({ own: rates, tiers: fc.array(fc.record({ above: fc.nat(60), rates }), { maxLength: 2 }) })

t.test('the longest tier below the prompt counts, and halves are rounded up', (t) => {
  const property = fc.property(prices, usages, ({ own, tiers }, usage) => {
    const sorted = tiers.toSorted((a, b) => a.above - b.above)
    const price = readPrice(JSON.stringify({ ...own, tiers: sorted.map(({ above, rates }) => ({ above, ...rates })) }))
    const length = prompt.reduce((sum, name) => sum + (usage[name] ?? 0), 0)
    const at = sorted.findLast(({ above }) => above < length)?.rates ?? own
    let millionths = 0n
    for (const [name, count] of Object.entries(usage)) millionths += BigInt(count) * BigInt(at[name] ?? 0)
    const [whole, rest] = [millionths / 1_000_000n, millionths % 1_000_000n]
    return dueFor(JSON.stringify(usage), price) === (rest >= 500_000n ? whole + 1n : whole)
  })
  fc.assert(property, { numRuns: 1000 })
  const one = readPrice('{"output":"1"}')
  t.same(
    [0, 499_999, 500_000, 500_001, 1_499_999, 1_500_000].map((output) => dueFor(JSON.stringify({ output }), one)),
    [0n, 0n, 1n, 1n, 1n, 2n]
  )
  t.end()
})

t.test('what is no rate, no tier and no usage counts for nothing', (t) => {
  const due = (price: string | undefined, usage = '{"output":1000000}'): bigint | string =>
    dueFor(usage, readPrice(price))
  t.equal(due('{"output":"3"}'), 3n)
  t.equal(due('{"output":3}'), 3n)
  for (const rate of ['-3', '1.5', 'x3', '3x', '', ' 3', null, [], {}, 1e21])
    t.equal(due(JSON.stringify({ output: rate })), 0n, JSON.stringify(rate))
  for (const price of ['null', '7', '"x"', 'no JSON', undefined, '{"tiers":{"output":"3"}}', '{"tiers":[null,7]}'])
    t.equal(due(price), 0n, String(price))
  const bare = '{"output":"3","tiers":[{"output":"5"},{"above":"x","output":"7"}]}'
  t.equal(due(bare), 3n, 'a tier without a border is none')
  for (const count of [-1, 1.5, 2 ** 53, '1', null, true])
    t.equal(due('{"output":"3"}', JSON.stringify({ output: count })), `counts ${count} output`)
  t.equal(due('{"output":"3"}', '{"output":0}'), 0n)
  t.equal(due('{}', JSON.stringify({ output: Number.MAX_SAFE_INTEGER })), 0n)
  for (const usage of ['null', '1', '"x"', 'no JSON']) t.equal(due('{"output":"3"}', usage), 'has no usage', usage)
  t.same(readObject('{"a":1}'), { a: 1 })
  for (const none of ['null', '1', 'true', '"x"', '{', undefined]) t.equal(readObject(none), undefined, String(none))
  t.end()
})
