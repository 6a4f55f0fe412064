// What several threads think of a channel, as one.
import t from 'tap'
import type { ChannelHealth } from '../../../core/contract/health.ts'
import { joinedHealth } from '../../../core/workers/health.ts'

const well: ChannelHealth = {
  state: 'healthy',
  until: null,
  since: null,
  reason: null,
  consecutive_failures: 0,
  successes: 6,
  failures: 2,
  recent: 8,
  error_rate: 0.25,
  first_event_ms: { p50: 10, p95: 20 },
  tokens_per_second: 50
}

t.test('a channel is as the thread says that thinks worst of it, and attempts are added up', async (t) => {
  const ejected: ChannelHealth = {
    ...well,
    state: 'ejected',
    until: 7000,
    since: 5000,
    reason: '2 failures in a row',
    consecutive_failures: 2,
    successes: 0,
    recent: 2,
    error_rate: 1,
    first_event_ms: null,
    tokens_per_second: null
  }
  const unused = { ...well, successes: 0, failures: 0, recent: 0, error_rate: null, first_event_ms: null }
  const { up, other } = joinedHealth([{ up: unused }, { up: ejected, other: unused }, { up: well }])
  t.same(up, {
    ...ejected,
    successes: 6,
    failures: 4,
    recent: 10,
    error_rate: 0.4,
    first_event_ms: { p50: 10, p95: 20 },
    tokens_per_second: 50
  })
  t.same(other, unused)
  t.equal(joinedHealth([{ up: unused }, { up: unused }])['up']!.error_rate, null)
})

t.test('credentials of a channel are put together by their names', async (t) => {
  const one = { weight: 1, until: null, since: null, reason: null, successes: 3, failures: 1, limits: [] } as const
  const credentials = (state: ChannelHealth['state']): ChannelHealth => ({
    ...well,
    credentials: [
      { ...one, name: 'a', state },
      { ...one, name: 'b', state: 'healthy' }
    ]
  })
  t.match(joinedHealth([{ up: credentials('healthy') }, { up: credentials('cooling') }])['up']!.credentials, [
    { name: 'a', state: 'cooling', successes: 6, failures: 2 },
    { name: 'b', state: 'healthy', successes: 6, failures: 2 }
  ])
})
