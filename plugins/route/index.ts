// Chooses the channel of a request, and the next one when that fails.
import { setTimeout as sleep } from 'node:timers/promises'
import { definePlugin, labelOf, sharedKey } from '../../core/contract/contract.ts'
import type { AttemptFailure, Candidates, Channel, Exchange } from '../../core/contract/contract.ts'
import { soonest } from './again.ts'
import { HealthBoard, reportOf } from './board.ts'
import { RetryBudget } from './budget.ts'
import { choose } from './choose.ts'
import { Judge } from './judge.ts'

const health = sharedKey<HealthBoard>('health')
const retryBudgets = sharedKey<Map<string, RetryBudget>>('retry budgets')

/** Whether an attempt got no answer in time. After two such waits for a whole answer, no client waits any longer. */
const wasSilent = ({ error }: AttemptFailure): boolean => error.code === 'upstream_timeout_first_byte'

const tooManyRetries =
  'the requests for the model have no second try left: see route.retry_ratio and route.retry_per_second'

/** Retries are counted by model; those of a pattern together. */
const nameOf = ({ model }: Candidates): string => (model ? labelOf(model) : '')

const noneFailed: ReadonlySet<Channel> = new Set()

function failedOf(failures: readonly AttemptFailure[]): ReadonlySet<Channel> {
  return failures.length === 0 ? noneFailed : new Set(failures.map(({ attempt }) => attempt.channel))
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
    }
  },
  setup({ attempts, repeats, eject_after, retry_ratio, retry_per_second }, { catalogue, log, metrics, share }) {
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

    const budgetOf = (model: string): RetryBudget => {
      let budget = budgets.get(model)
      if (!budget) budgets.set(model, (budget = new RetryBudget()))
      return budget
    }

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
      states.get(next.channel)!.chosen(performance.now())
      return next.channel
    }

    return {
      selectChannel(exchange, failures, candidates) {
        const name = nameOf(candidates)
        const now = performance.now()
        const last = failures.at(-1)
        if (last) {
          if (!exchange.rehearsal) judge.failed(exchange)
          // A channel that could not carry the request was not asked, so it does not count as an attempt.
          const asked = failures.filter(({ attempt }) => attempt.dispatched).length
          if (!last.error.retryable || exchange.signal.aborted) return undefined
          if (asked >= attempts) return candidates.stop(`route.attempts allows no more than ${attempts}`)
          if (!exchange.streaming && failures.filter(wasSilent).length > 1)
            return candidates.stop('two answers were waited for as long as they may take')
        }
        if (exchange.rehearsal) {
          // Without chance the same is explained each time.
          const first = choose(candidates, failedOf(failures), states, now, () => 0)
          return first ?? candidates.stop('no channel is left')
        }
        if (!last) budgetOf(name).request(now)
        const failed = failedOf(failures)
        const channel = choose(candidates, failed, states, now, Math.random)
        if (!channel) {
          if (last && failures.length - failed.size < repeats) return again(exchange, failures, candidates, now)
          if (last) return candidates.stop('no other channel is left')
          return candidates.stop(
            candidates.replaceable ? 'no channel is well, and another model stands in' : 'no channel is left'
          )
        }
        if (last?.attempt.dispatched && !budgetOf(name).take(now, allowance)) return candidates.stop(tooManyRetries)
        states.get(channel)!.chosen(now)
        return channel
      },

      onResponse(_exchange, { attempt }) {
        if (!attempt) return
        const { channel, startedAt } = attempt
        const state = states.get(channel)!
        if (!state.healthy) state.answered(performance.now(), startedAt)
      },

      onSettled: (exchange) => judge.settled(exchange),

      reportHealth: () => reportOf(states),

      dispose() {
        board.leave(states)
      }
    }
  }
})
