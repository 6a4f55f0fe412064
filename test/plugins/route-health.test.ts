// What becomes of a channel's health over time, and of what may be retried.
import fc from 'fast-check'
import t from 'tap'
import { OwnAllowance } from '../../core/allowance.ts'
import { RetryBudget } from '../../plugins/route/budget.ts'
import { ChannelState } from '../../plugins/route/health.ts'

t.test('channel health over time', async (t) => {
  t.test('each failed probe doubles the time out, up to 10 s; one probe at a time', (t) => {
    const state = new ChannelState()
    let now = 1000
    for (let i = 0; i < 5; i++) state.failed(now, now, 5)
    let expected = 5000
    for (let probe = 0; probe < 9; probe++) {
      t.equal(state.until - now, expected)
      t.notOk(state.available(now + expected - 1))
      now += expected
      t.ok(state.available(now), 'a probe may go')
      state.chosen(now)
      t.equal(state.report(now).state, 'probing')
      t.notOk(state.available(now), 'and no other')
      now += 10
      t.ok(state.failed(now, now - 10, 5))
      expected = Math.min(expected * 2, 10_000)
    }
    now = state.until
    state.chosen(now)
    state.answered(now + 5, now)
    t.match(state.report(now + 5), { state: 'healthy', consecutive_failures: 0 })
    t.end()
  })

  t.test('whenever an upstream is well again, it is used within twenty seconds', (t) => {
    /** How long failing attempts take: at once, or as long as somebody waits for silence. */
    const failing = fc.array(fc.constantFrom(0.001, 0.2, 3, 4.9, 5.1, 10, 60), { minLength: 1, maxLength: 8 })
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 400 }),
        failing,
        fc.constantFrom(0.05, 0.5, 1, 4),
        (seconds, delays, gap) => {
          const state = new ChannelState()
          const ends: { at: number; startedAt: number; ok: boolean }[] = []
          const well = seconds * 1000
          let tries = 0
          let healthyAt: number | undefined
          // Requests come at even distances, and are tried here when the channel may be chosen.
          for (let now = 0; now < well + 60_000 && healthyAt === undefined; now += gap * 1000) {
            for (const end of ends.splice(0).sort((a, b) => a.at - b.at)) {
              if (end.at > now) ends.push(end)
              else if (end.ok) {
                state.succeeded(end.at, end.startedAt)
                if (state.healthy) healthyAt ??= end.at
              } else state.failed(end.at, end.startedAt, 5)
            }
            if (!state.available(now)) continue
            state.chosen(now)
            ends.push(
              now >= well
                ? { at: now + 100, startedAt: now, ok: true }
                : { at: now + delays[tries % delays.length]! * 1000, startedAt: now, ok: false }
            )
            tries++
          }
          return healthyAt !== undefined && healthyAt - well <= 20_000
        }
      ),
      { numRuns: 300 }
    )
    t.end()
  })

  t.test('attempts from before a recovery do not end it', (t) => {
    const state = new ChannelState()
    state.refused(0, 0)
    state.chosen(5000)
    state.chosen(10_000)
    state.succeeded(10_100, 10_000)
    for (let i = 0; i < 10; i++) t.notOk(state.failed(10_200 + i, 5000, 1))
    t.match(state.report(10_300), { state: 'healthy', consecutive_failures: 0 })
    t.end()
  })

  t.test('a probe whose client left may be sent anew at once, one that was lost after a while', (t) => {
    const state = new ChannelState()
    state.refused(0, 0)
    state.chosen(5000)
    state.undecided(5100, 5000)
    t.ok(state.available(5100))
    state.chosen(5100)
    t.notOk(state.available(6000))
    t.ok(state.available(10_100))
    t.end()
  })

  t.test('attempts that began before an ejection neither lengthen nor end it', (t) => {
    const state = new ChannelState()
    for (let i = 0; i < 100; i++) state.failed(100 + i, 50, 5)
    t.equal(state.until, 104 + 5000)
    state.succeeded(300, 60)
    t.equal(state.report(300).state, 'ejected')
    t.end()
  })

  t.test('half of twenty failing in ten seconds is not too much, more is, and older ones are forgotten', (t) => {
    const half = new ChannelState()
    for (let i = 0; i < 200; i++) {
      if (i % 2) half.failed(i * 40, i * 40, 1000)
      else half.succeeded(i * 40, i * 40)
    }
    t.equal(half.report(8000).state, 'healthy')
    const more = new ChannelState()
    let out = 0
    for (let i = 0; i < 20; i++)
      if (i % 5 < 3 ? more.failed(i * 40, i * 40, 1000) : void more.succeeded(i * 40, i * 40)) out++
    t.equal(more.report(0).state, 'healthy', 'the twentieth was a success')
    t.ok(more.failed(900, 900, 1000))
    t.equal(out, 0)
    const old = new ChannelState()
    for (let i = 0; i < 19; i++) old.failed(i, i, 1000)
    t.notOk(old.failed(12_000, 12_000, 1000))
    t.end()
  })

  t.test('after five healthy minutes a new ejection is short again', (t) => {
    const state = new ChannelState()
    state.refused(0, 0)
    state.chosen(5000)
    state.refused(5010, 5000)
    t.equal(state.until, 5010 + 10_000)
    state.chosen(15_010)
    state.succeeded(15_020, 15_010)
    state.refused(16_000, 16_000)
    t.equal(state.until, 16_000 + 10_000, 'flapping')
    state.chosen(36_000)
    state.succeeded(36_001, 36_000)
    state.refused(400_000, 400_000)
    t.equal(state.until, 405_000)
    t.end()
  })
  t.end()
})

t.test('the retry allowance is a share of the last ten seconds and a floor', (t) => {
  const later: [at: number, act: () => void][] = []
  let time = 0
  const budget = new RetryBudget(new OwnAllowance(), (act) => later.push([time + 10_000, act]))
  const allowance = { ratio: 0.2, perSecond: 0.5 }
  const take = (now: number): number => {
    time = now
    while (later[0] && later[0][0] <= now) later.shift()![1]()
    let taken = 0
    while (budget.take(now, allowance)) taken++
    return taken
  }
  t.equal(take(0), 5)
  for (let i = 0; i < 50; i++) budget.request(1000)
  t.equal(take(1000), 10)
  t.equal(take(9000), 0)
  t.equal(take(10_500), 5, 'what was taken in the first second is free again')
  t.equal(take(60_000), 5)
  t.notOk(new RetryBudget(new OwnAllowance()).take(0, { ratio: 0, perSecond: 0 }))
  t.end()
})
