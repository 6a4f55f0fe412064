// Chooses the channel of a request, and the next one when that fails.
import { setTimeout as sleep } from 'node:timers/promises'
import { definePlugin, labelOf, sharedKey } from '../../core/contract/contract.ts'
import type { AttemptFailure, Awaitable, Candidates, Channel, Exchange } from '../../core/contract/contract.ts'
import { soonest } from './again.ts'
import { conversationOf } from './affinity.ts'
import { HealthBoard, reportOf } from './board.ts'
import type { States } from './board.ts'
import { RetryBudget } from './budget.ts'
import { choose } from './choose.ts'
import type { Chance } from './choose.ts'
import { Crowd } from './crowd.ts'
import { Entrance, modelOf, setsOfSession } from './entrance.ts'
import type { Full } from './entrance.ts'
import { isOfCredential, Judge } from './judge.ts'
import type { Seat, Standing } from './standing.ts'

const health = sharedKey<HealthBoard>('health')
const crowds = sharedKey<Crowd>('crowd')
const retryBudgets = sharedKey<Map<string, RetryBudget>>('retry budgets')

/** Whether an attempt got no answer in time. After two such waits for a whole answer, no client waits any longer. */
const wasSilent = ({ error }: AttemptFailure): boolean => error.code === 'upstream_timeout_first_byte'

const tooManyRetries =
  'the requests for the model have no second try left: see route.retry_ratio and route.retry_per_second'

/** Retries are counted by model; those of a pattern together. */
const nameOf = ({ model }: Candidates): string => (model ? labelOf(model) : '')

const noneFailed: ReadonlySet<Channel> = new Set()

/**
 * What this request is not sent to any more: the credentials that it failed with, and the channels for which another
 * credential would change nothing, or that have none left.
 */
function failedOf(failures: readonly AttemptFailure[], states: States): ReadonlySet<Channel> {
  if (failures.length === 0) return noneFailed
  const failed = new Set(failures.map(({ attempt }) => attempt.channel))
  for (const { attempt, error } of failures) {
    const { channel, seats } = states.get(attempt.channel)!.whole
    if (!isOfCredential(error) || seats.every((seat) => failed.has(seat.channel))) failed.add(channel)
  }
  return failed
}

/** How many channels or credentials an exchange has failed at, each counted once. */
function distinctOf(failures: readonly AttemptFailure[]): number {
  return new Set(failures.map(({ attempt }) => attempt.channel)).size
}

export default definePlugin({
  name: 'route',
  summary:
    'Chooses a channel by priority, weight and health, and the next one when it fails before anything was sent to the client.',
  rehearses: true,
  options: {
    attempts: {
      type: 'integer',
      minimum: 1,
      maximum: 10,
      default: 3,
      description: 'Most tries of one request, the first included.'
    },
    repeats: {
      type: 'integer',
      minimum: 0,
      maximum: 5,
      default: 1,
      description:
        'How often one request is sent again to a channel that failed it, when no other is left and the failure may pass: ' +
        "a lost connection, an error of the upstream's, a 429 that asks for at most 5 s."
    },
    eject_after: {
      type: 'integer',
      minimum: 1,
      default: 5,
      description:
        'Failures in a row after which a channel is left out for 5 s, and for twice as long each time its probe fails, up to 10 s. ' +
        'More than half of at least 20 attempts within 10 s have the same effect.'
    },
    retry_ratio: {
      type: 'number',
      minimum: 0,
      maximum: 10,
      default: 0.2,
      description: 'Share of the requests for a model that may be tried a second time, over the last 10 s.'
    },
    retry_per_second: {
      type: 'number',
      minimum: 0,
      default: 10,
      description: 'Second tries a second that each model has in addition, so that a quiet one can fail over as well.'
    },
    wait: {
      type: 'string',
      format: 'duration',
      default: '2s',
      atMost: '1h',
      description:
        'How long a request waits at most when all channels that it may be sent to have reached their `limits`; 0s to refuse it at once with 429.'
    },
    affinity: {
      type: 'boolean',
      default: true,
      description:
        'Whether all of a conversation goes to the same channel and credential while these are well, so that the upstream finds its prompts again. ' +
        'A conversation is what a client names: `x-sluice-affinity`, `prompt_cache_key` or `metadata.user_id`.'
    },
    waiting: {
      type: 'integer',
      minimum: 0,
      maximum: 100_000,
      default: 1000,
      description: 'How many requests may wait so at one time, over all models; more are refused at once with 429.'
    }
  },
  setup(
    { attempts, repeats, eject_after, retry_ratio, retry_per_second, wait, affinity, waiting },
    { catalogue, log, metrics, services, share, together }
  ) {
    const board = share(
      health,
      // The version of the messages of a hand-over counts this form too.
      (left) => new HealthBoard(left as HealthBoard['kept'] | undefined),
      undefined,
      (board) => board.kept
    )
    const states = board.enter(catalogue.channels.values())
    const budgets = share(retryBudgets, () => new Map())
    const allowance = { ratio: retry_ratio, perSecond: retry_per_second }
    const judge = new Judge(states, eject_after, { log, metrics })
    const fullness = metrics.counter({
      name: 'channel_full_total',
      help: 'Times a channel was passed over because it had reached its limits.',
      labels: ['channel']
    })
    const crowd = share(crowds, () => new Crowd(together('waiting')))
    const entrance = new Entrance(services.limits, crowd, { wait, waiting }, ({ name }) =>
      fullness.add({ channel: name })
    )

    const budgetOf = (model: string): RetryBudget => {
      let budget = budgets.get(model)
      if (!budget) budgets.set(model, (budget = new RetryBudget(together(`retries/${model}`))))
      return budget
    }

    /** Without chance the same is explained each time. */
    const chanceOf = (exchange: Exchange): Chance => ({
      random: exchange.rehearsal ? () => 0 : Math.random,
      conversation: () => (affinity ? conversationOf(exchange) : undefined)
    })

    /** Waits until a channel that failed may be asked again; undefined when none may, or the client has left. */
    const again = async (
      exchange: Exchange,
      failures: readonly AttemptFailure[],
      candidates: Candidates,
      now: number
    ): Promise<Channel | undefined> => {
      const next = soonest(failures, now, Math.random)
      if (!next) return candidates.stop('every channel was asked, and none of the failures may be over in a moment')
      if (!budgetOf(nameOf(candidates)).take(now, allowance)) return candidates.stop(tooManyRetries)
      const { signal } = exchange
      await sleep(next.ms, undefined, { signal }).catch(() => {})
      if (signal.aborted) return undefined
      const standing = states.get(next.channel)!
      if (!standing.limited) return sentBy(standing, standing.seats[0]!)
      const seat = await entrance.enter(
        exchange,
        candidates,
        standing,
        noneFailed,
        failures.length > 0,
        () => undefined,
        chanceOf(exchange)
      )
      return seat && sentBy(standing, seat)
    }

    const sentBy = (standing: Standing, seat: Seat): Channel => {
      standing.chosen(seat, performance.now())
      return seat.channel
    }

    /** What the request is sent by where there is something to choose: a credential that has room. */
    const enter = (
      exchange: Exchange,
      candidates: Candidates,
      standing: Standing,
      failed: ReadonlySet<Channel>,
      chance: Chance,
      asked = false
    ): Awaitable<Channel | undefined> => {
      const { rehearsal } = exchange
      const model = modelOf(exchange, candidates)
      if (!standing.limited) {
        const seat = standing.pick({ now: performance.now(), model, candidates, ...chance }, failed)!
        return rehearsal ? seat.channel : sentBy(standing, seat)
      }
      const next = (full: ReadonlyMap<Channel, Full>): Standing | undefined => {
        const others = choose(
          candidates,
          new Set([...failed, ...full.keys()]),
          states,
          performance.now(),
          chance,
          model
        )
        return others && states.get(others)!
      }
      return entrance.enter(exchange, candidates, standing, failed, asked, next, chance).then((seat) => {
        if (!seat || rehearsal) return seat?.channel
        return sentBy(states.get(seat.channel)!, seat)
      })
    }

    return {
      selectChannel(exchange, failures, candidates) {
        const name = nameOf(candidates)
        const model = modelOf(exchange, candidates)
        const now = performance.now()
        const last = failures.at(-1)
        // That of a model which another one now stands in for, too.
        const before = exchange.attempts.at(-1)
        if (before) entrance.leave(exchange, before, 0)
        if (last) {
          if (!exchange.rehearsal) judge.failed(exchange)
          // A channel that could not carry the request was not asked, so it does not count as an attempt.
          const asked = failures.filter(({ attempt }) => attempt.dispatched).length
          if (!last.error.retryable || exchange.signal.aborted) return undefined
          if (asked >= attempts) return candidates.stop(`route.attempts allows no more than ${attempts}`)
          if (!exchange.streaming && failures.filter(wasSilent).length > 1)
            return candidates.stop('two answers were waited for as long as they may take')
        }
        const failed = failedOf(failures, states)
        const chance = chanceOf(exchange)
        if (exchange.rehearsal) {
          const first = choose(candidates, failed, states, now, chance, model)
          if (!first) return candidates.stop('no channel is left')
          const standing = states.get(first)!
          return standing.plain ? standing.seats[0]!.channel : enter(exchange, candidates, standing, failed, chance)
        }
        if (!last) budgetOf(name).request(now)
        const channel = choose(candidates, failed, states, now, chance, model)
        if (!channel) {
          if (last && failures.length - distinctOf(failures) < repeats)
            return again(exchange, failures, candidates, now)
          if (last) return candidates.stop('no other channel is left')
          return candidates.stop(
            candidates.replaceable ? 'no channel is well, and another model stands in' : 'no channel is left'
          )
        }
        if (last?.attempt.dispatched && !budgetOf(name).take(now, allowance)) return candidates.stop(tooManyRetries)
        const standing = states.get(channel)!
        if (!standing.plain) return enter(exchange, candidates, standing, failed, chance, last !== undefined)
        const seat = standing.seats[0]!
        standing.chosen(seat, now)
        return seat.channel
      },

      onResponse(_exchange, { attempt }) {
        if (attempt) judge.answered(attempt)
      },

      onTurn(exchange, turn) {
        const sets = setsOfSession(exchange, states)
        return sets && entrance.turn(exchange, sets, turn)
      },

      onSettled: (exchange) => judge.settled(exchange),

      reportHealth: () => reportOf(states, services.limits),

      dispose() {
        board.leave(states)
      }
    }
  }
})
