// The windows of budgets against an oracle that goes by the days of the calendar and shares no code with them.
import fc from 'fast-check'
import t from 'tap'
import {
  daysOf,
  endOf,
  horizon,
  isHour,
  oldestWindow,
  overAt,
  readSpans,
  rollingDays,
  spansOf,
  windowOf,
  windowsOf
} from '../../../core/store/window.ts'
import type { Span } from '../../../core/store/window.ts'

const hour = 3_600_000
const day = 24 * hour

/** Times of three centuries, those beside the beginnings of hours, days, weeks, months and years among them. */
const anyTime = fc
  .tuple(
    fc.integer({ min: 1900, max: 2199 }),
    fc.integer({ min: 0, max: 11 }),
    fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 31 })),
    fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 23 })),
    fc.oneof(fc.constant(0), fc.integer({ min: -1, max: 1 }), fc.integer({ min: 0, max: hour - 1 }))
  )
  .map(([year, month, date, hours, rest]) => Date.UTC(year, month, date, hours) + rest)

const timed = ['hour', 'day', 'week', 'month'] as const

/** The Monday of the week that contains a time, found by going back from day to day. */
function mondayBefore(time: number): number {
  const date = new Date(time)
  date.setUTCHours(0, 0, 0, 0)
  while (date.getUTCDay() !== 1) date.setUTCDate(date.getUTCDate() - 1)
  return date.getTime()
}

/** The first week of a year is the one with the fourth of January. */
const firstMonday = (year: number): number => mondayBefore(Date.UTC(year, 0, 4))

/** What a window is: its name, its beginning and its end. */
function expected(span: (typeof timed)[number], time: number): { name: string; begin: number; end: number } {
  const date = new Date(time)
  const iso = date.toISOString()
  if (span === 'week') {
    const begin = mondayBefore(time)
    const year = [1, 0, -1].map((more) => date.getUTCFullYear() + more).find((one) => firstMonday(one) <= begin)!
    let week = 1
    for (let monday = firstMonday(year); monday < begin; monday += 7 * day) week++
    return { name: `${year}-W${week < 10 ? '0' : ''}${week}`, begin, end: begin + 7 * day }
  }
  if (span === 'month') {
    const next = new Date(Date.parse(`${iso.slice(0, 7)}-01`))
    const begin = next.getTime()
    next.setUTCMonth(next.getUTCMonth() + 1)
    return { name: iso.slice(0, 7), begin, end: next.getTime() }
  }
  date.setUTCMinutes(0, 0, 0)
  if (span === 'day') date.setUTCHours(0)
  const begin = date.getTime()
  return { name: iso.slice(0, span === 'hour' ? 13 : 10), begin, end: begin + (span === 'hour' ? hour : day) }
}

t.test('a window has the name and the end that the calendar gives it, from its first millisecond to its last', (t) => {
  fc.assert(
    fc.property(fc.constantFrom(...timed), anyTime, (span, time) => {
      const { name, begin, end } = expected(span, time)
      return (
        overAt(name) === end &&
        [time, begin, end - 1].every((at) => windowOf(span, at) === name && endOf(span, at) === end)
      )
    }),
    { numRuns: 3000 }
  )
  t.equal(windowOf('total', 0), 'total')
  t.equal(endOf('total', 0), undefined, 'the total never ends')
  for (const name of ['total', '30d', 'day']) t.equal(overAt(name), undefined, name)
  for (const [at, week] of [
    ['2026-12-31', '2026-W53'],
    ['2027-01-03', '2026-W53'],
    ['2027-01-04', '2027-W01'],
    ['2024-12-30', '2025-W01']
  ] as const)
    t.equal(windowOf('week', Date.parse(at)), week, at)
  t.end()
})

t.test('no window that goes on is among those whose names are taken for old ones', (t) => {
  fc.assert(
    fc.property(
      fc.constantFrom('day', 'week', 'month'),
      anyTime,
      fc.oneof(fc.nat(6), fc.nat(800)),
      (span, time, later) => {
        const since = horizon(time)
        const oldest = oldestWindow(since)
        const at = since + later * day
        const { name } = expected(span, at)
        // All of the years before are old.
        const past = expected(span, since - 366 * day - 7 * day).name
        return name >= oldest && past < oldest
      }
    ),
    { numRuns: 3000 }
  )
  t.end()
})

t.test('what is kept begins with the month before', (t) => {
  for (const [at, since] of [
    ['2026-11-23T10:00Z', '2026-10-01'],
    ['2026-03-31T23:59Z', '2026-02-01'],
    ['2027-01-01', '2026-12-01']
  ] as const)
    t.equal(horizon(Date.parse(at)), Date.parse(since), at)
  t.end()
})

t.test('a scope counts in the spans of its budgets, each once, and rolling days in hours', (t) => {
  const spans = (...per: string[]) => spansOf(per.map((one) => ({ limit: 1n, per: one }) as never))
  t.same(spans(), 'total')
  t.same(spans('total'), 'total')
  t.same(spans('week'), 'week')
  t.same(spans('7d', '30d'), 'hour')
  t.same(spans('7d', 'month'), ['month', 'hour'])
  t.same(spans('30d', 'total', 'month', 'day', 'month'), ['day', 'month', 'hour'])
  t.end()
})

t.test('the spans of a row are read back, and what is none is known', (t) => {
  const known: Span[] = ['day', 'week', 'month', 'hour', 'total']
  for (const span of known) t.equal(readSpans(span), span)
  t.same(readSpans(['month']), ['month'])
  t.same(readSpans(['month', 'hour']), ['month', 'hour'])
  for (const wrong of [[], ['month', 'year'], ['year'], 'year', '', null, undefined, 7, { span: 'day' }])
    t.equal(readSpans(wrong), undefined, JSON.stringify(wrong))
  t.end()
})

t.test('an amount counts in the windows of its spans, and in the total once', (t) => {
  const time = Date.parse('2026-11-23T13:30Z')
  t.same(windowsOf('total', time), ['total'])
  t.same(windowsOf('week', time), ['2026-W48', 'total'])
  t.same(windowsOf(['month', 'hour'], time), ['2026-11', '2026-11-23T13', 'total'])
  t.same(windowsOf(['total', 'day'], time), ['2026-11-23', 'total'])
  t.end()
})

t.test('rolling days are told from calendar windows, in budgets and in balances', (t) => {
  t.same(
    ['day', 'week', 'month', 'total', '1d', '30d'].map((per) => rollingDays(per as never)),
    [undefined, undefined, undefined, undefined, 1, 30]
  )
  t.same(['2026-11-23T13', '2026-11-23', '2026-11', '2026-W48', 'total', '30d'].map(isHour), [
    true,
    false,
    false,
    false,
    false,
    false
  ])
  t.same(['2026-11-23T13', '2026-11-23', '2026-11', '2026-W48', 'total', '30d'].map(daysOf), [
    undefined,
    undefined,
    undefined,
    undefined,
    undefined,
    30
  ])
  t.end()
})
