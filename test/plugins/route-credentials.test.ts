// Which of several credentials a request is sent with, against an oracle of its own, and what is kept of them.
import fc from 'fast-check'
import t from 'tap'
import { Candidates } from '../../core/contract/contract.ts'
import type { Channel } from '../../core/contract/contract.ts'
import { HealthBoard } from '../../plugins/route/board.ts'
import { chooseByLeft } from '../../plugins/route/choose.ts'
import { ChannelState } from '../../plugins/route/health.ts'
import { Seat, Standing } from '../../plugins/route/standing.ts'
import { Told } from '../../plugins/route/told.ts'

function channelOf(name: string, weight = 1): Channel {
  return {
    name: 'up',
    credentialName: name,
    credential: `sk-${name}`,
    baseUrl: new URL('http://up/v1'),
    weight,
    priority: 0,
    models: new Map()
  } as unknown as Channel
}

const option = fc.record({ weight: fc.nat(5), left: fc.double({ min: 0, max: 1, noNaN: true }) })

t.test('the choice divides the numbers from 0 to 1 as weights and shares say, and starves nobody', (t) => {
  fc.assert(
    fc.property(fc.array(option, { minLength: 1, maxLength: 6 }), (options) => {
      const even = options.every(({ weight }) => weight === 0)
      const parts = options.map(({ weight, left }) => (even ? 1 : weight) * Math.max(0.001, left))
      const total = parts.reduce((sum, part) => sum + part, 0)
      let from = 0
      return parts.every((part, index) => {
        const middle = (from + part / 2) / total
        from += part
        // One that is chosen never is found by no number; every other one is by the middle of its own.
        return part === 0 || chooseByLeft(options, () => middle) === index
      })
    })
  )
  fc.assert(
    fc.property(
      fc.array(option, { minLength: 1, maxLength: 6 }),
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      (options, random) => {
        const { weight } = options[chooseByLeft(options, () => random)]!
        return weight > 0 || options.every((one) => one.weight === 0)
      }
    )
  )
  t.end()
})

t.test(
  'one that rests, is spent or was tried is not used while another is there; else the one that is free first',
  (t) => {
    const state = fc.record({ weight: fc.nat(3), rests: fc.nat(3), spent: fc.nat(3), tried: fc.boolean() })
    fc.assert(
      fc.property(
        fc.array(state, { minLength: 2, maxLength: 6 }),
        fc.double({ min: 0, max: 0.999, noNaN: true }),
        (states, random) => {
          const now = 1000
          const seats = states.map(({ weight, rests, spent }, index) => {
            const seat = new Seat(channelOf(String(index), weight), new ChannelState(), new Told())
            if (rests > 0) seat.health.cool(now, rests * 100)
            if (spent > 0)
              seat.learn(
                'm',
                [{ name: 'requests', of: 'requests', limit: 10, remaining: 0, resetMs: spent * 100, perModel: true }],
                now
              )
            return seat
          })
          const channel = { ...channelOf('all'), byCredential: seats.map((seat) => seat.channel) } as Channel
          const standing = new Standing(channel, new ChannelState(), seats)
          const tried = new Set(seats.filter((_, index) => states[index]!.tried).map((seat) => seat.channel))
          const candidates = new Candidates([channel])
          const chosen = standing.pick(
            { now, model: 'm', candidates, random: () => random, conversation: () => undefined },
            tried
          )
          const left = states.map((one, index) => ({ ...one, index })).filter((one) => !one.tried)
          const free = left.filter(({ rests, spent }) => rests === 0 && spent === 0)
          const at = seats.indexOf(chosen!)
          if (left.length === 0) return chosen === undefined
          if (standing.available(now, 'm') !== states.some(({ rests, spent }) => rests === 0 && spent === 0))
            return false
          if (free.length > 0)
            return free.some(
              ({ index, weight }) => index === at && (weight > 0 || free.every((one) => one.weight === 0))
            )
          const soonest = Math.min(...left.map(({ rests, spent }) => Math.max(rests, spent)))
          return left.some(({ index, rests, spent }) => index === at && Math.max(rests, spent) === soonest)
        }
      )
    )
    t.end()
  }
)

t.test('what was told of one model says nothing of another, and nothing after its reset', (t) => {
  const told = new Told()
  const zero = { name: 'requests', of: 'requests', limit: 10, remaining: 0, resetMs: 500, perModel: true } as const
  told.learn('m', [zero], 1000)
  t.equal(told.spentUntil('m', 1000), 1500)
  t.equal(told.spentUntil('n', 1000), 0)
  t.equal(told.spentUntil('m', 1500), 0)
  told.learn('m', [{ ...zero, perModel: false }], 1000)
  t.equal(told.spentUntil('n', 1000), 1500, 'a limit of the account is one of every model')
  told.learn('n', [{ ...zero, resetMs: undefined, perModel: true }], 2000)
  t.equal(told.spentUntil('n', 2000), 0, 'a zero that nobody gave an end says nothing')
  for (let i = 0; i < 5000; i++) told.learn(`model ${i}`, [zero], 1000)
  t.ok(told.report(1000).length <= 201, 'the memory for it is bounded')
  t.end()
})

t.test('a process leaves to the next one what it knows of each credential', (t) => {
  const board = new HealthBoard()
  const byCredential = [channelOf('a'), channelOf('b')]
  const channel = { ...channelOf('a'), credentialName: undefined, byCredential } as Channel
  const [a] = board.enter([channel]).get(channel)!.seats
  const now = performance.now()
  a!.health.cool(now, 60_000)
  a!.learn('m', [{ name: 'tokens', of: 'tokens', limit: 10, remaining: 0, resetMs: 60_000, perModel: true }], now)
  const left = structuredClone(board.kept)
  t.notMatch(JSON.stringify([...left]), /sk-/, 'no credential is in it')
  const next = new HealthBoard(left).enter([channel]).get(channel)!
  t.notOk(next.seats[0]!.health.available(now + 50_000))
  t.ok(next.seats[0]!.told.spentUntil('m', now) > now + 50_000)
  t.ok(next.seats[1]!.available(now, 'm'))
  t.end()
})
