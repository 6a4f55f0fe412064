// What upstreams tell of their limits, in whichever way, and what is made of values that nobody should send.
import fc from 'fast-check'
import t from 'tap'
import { resetOfSpent, toldLimits } from '../../core/protocols/told/limits.ts'

const now = Date.parse('2026-11-23T12:00:00Z')
const day = 25 * 3_600_000

function told(headers: Record<string, string | string[]>): readonly object[] {
  return toldLimits(headers, () => now)
}

function reset(value: string): number | undefined {
  return toldLimits({ 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': value }, () => now)[0]!
    .resetMs
}

t.test('each way of telling is understood', (t) => {
  t.match(
    told({
      'x-ratelimit-limit-requests': '500',
      'x-ratelimit-remaining-requests': '499',
      'x-ratelimit-reset-requests': '120ms',
      'x-ratelimit-remaining-tokens-day': '12'
    }),
    [
      { name: 'requests', of: 'requests', limit: 500, remaining: 499, resetMs: 120, perModel: true },
      { name: 'tokens a day', of: 'tokens', limit: undefined, remaining: 12, resetMs: undefined }
    ]
  )
  t.match(
    told({
      'anthropic-ratelimit-input-tokens-limit': '1000',
      'anthropic-ratelimit-input-tokens-remaining': '0',
      'anthropic-ratelimit-input-tokens-reset': '2026-11-23T12:00:30Z'
    }),
    [{ name: 'input tokens', of: 'tokens', limit: 1000, remaining: 0, resetMs: 30_000 }]
  )
  t.match(told({ 'x-ratelimit-remaining': '3' }), [{ perModel: false, remaining: 3 }])
  t.same(told({ 'content-type': 'application/json' }), [])
  t.end()
})

t.test('a reset is a date, a duration, Unix time, or seconds', (t) => {
  const cases: Record<string, number | undefined> = {
    '6m0s': 360_000,
    '1m26.4s': 86_400,
    '12ms': 12,
    '1h2m': 3_720_000,
    '33011.38': 33_011_380,
    '1': 1000,
    [String(now / 1000 + 7)]: 7000,
    [String(now + 8000)]: 8000,
    '2026-11-23T12:01:00.5Z': 60_500,
    '2020-01-01T00:00:00Z': 0,
    '-5': 0,
    '99d': day,
    '2126-11-23T12:00:00Z': day,
    '2026-99-99T00:00:00Z': undefined,
    soon: undefined,
    '': undefined
  }
  for (const [value, ms] of Object.entries(cases)) t.equal(reset(value), ms, value)
  t.end()
})

t.test('nothing that is sent makes a figure that is none, or takes long', (t) => {
  const value = fc.oneof(
    fc.string({ maxLength: 80 }),
    fc.constantFrom('-1', 'NaN', 'Infinity', '1e309', '0x10', '9'.repeat(15), '1s'.repeat(50_000), '9'.repeat(100_000)),
    fc.double().map(String),
    fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
    fc.array(fc.string(), { maxLength: 3 })
  )
  fc.assert(
    fc.property(value, value, value, (limit, remaining, at) => {
      const names = [
        'x-ratelimit-#-requests',
        'x-ratelimit-#',
        'x-ratelimit-#-tokens-day',
        'anthropic-ratelimit-tokens-#'
      ]
      const headers = Object.fromEntries(
        names.flatMap((name) =>
          Object.entries({ limit, remaining, reset: at }).map(([what, one]) => [name.replace('#', what), one])
        )
      )
      return toldLimits(headers).every(
        (one) =>
          one.remaining >= 0 &&
          Number.isFinite(one.remaining) &&
          (one.limit === undefined || (one.limit > 0 && Number.isFinite(one.limit))) &&
          (one.resetMs === undefined || (one.resetMs >= 0 && one.resetMs <= day))
      )
    }),
    { numRuns: 500 }
  )
  t.end()
})

t.test('a refusal asks to wait for the longest reset of what is spent', (t) => {
  const headers = {
    'x-ratelimit-remaining-requests': '0',
    'x-ratelimit-reset-requests': '2s',
    'x-ratelimit-remaining-tokens': '0',
    'x-ratelimit-reset-tokens': '9s',
    'x-ratelimit-remaining': '5',
    'x-ratelimit-reset': '60'
  }
  t.equal(resetOfSpent(headers), 9000)
  t.equal(resetOfSpent({ 'x-ratelimit-remaining': '5', 'x-ratelimit-reset': '60' }), undefined)
  t.end()
})
