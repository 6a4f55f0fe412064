// Calls the hooks of one phase one after another, whether they answer at once or with a promise, and times them.
import type { Awaitable } from '../../contract/contract.ts'
import type { TimedHook } from '../../contract/times.ts'
import { asGatewayError } from '../../errors.ts'
import type { LiveExchange } from './exchange.ts'
import type { PluginView } from './plugin-view.ts'

/** A hook as it is called: of which plugin, and which of its hooks. */
export interface Timed {
  readonly plugin: string
  readonly hook: TimedHook
}

/** Calls one hook of a phase. `view`: the exchange as its plugin sees it; `subject`: what the phase is about. */
type Step<H, S, R> = (hook: H, view: PluginView, subject: S) => Awaitable<R | undefined | void>

/**
 * Gives each hook to `step` in order, each after the one before is done, until one of them has an answer. The result is
 * that answer, or undefined when no hook had one; it is a promise only when a step returned one, so a phase whose hooks
 * are all synchronous costs no turn of the loop. A step that is a function of its module costs no closure either.
 * @throws GatewayError what a step throws; a mistake is named with the plugin whose hook it was
 */
export function runHooks<H extends Timed, S, R>(
  exchange: LiveExchange,
  hooks: readonly H[],
  step: Step<H, S, R>,
  subject: S,
  from = 0
): Awaitable<R | undefined> {
  if (from === hooks.length) return undefined
  let began = performance.now()
  for (let i = from; i < hooks.length; i++) {
    const { plugin, hook } = hooks[i]!
    const view = exchange.seenBy(plugin)
    let answer
    try {
      answer = step(hooks[i]!, view, subject)
    } catch (error) {
      exchange.took(view, hook, began)
      throw asGatewayError(error, plugin)
    }
    if (answer instanceof Promise) return goOn(answer, exchange, hooks, step, subject, i, began)
    began = exchange.took(view, hook, began)
    if (answer !== undefined) return answer
  }
  return undefined
}

async function goOn<H extends Timed, S, R>(
  pending: Promise<R | undefined | void>,
  exchange: LiveExchange,
  hooks: readonly H[],
  step: Step<H, S, R>,
  subject: S,
  at: number,
  began: number
): Promise<R | undefined> {
  const { plugin, hook } = hooks[at]!
  let answer
  try {
    answer = await pending
  } catch (error) {
    throw asGatewayError(error, plugin)
  } finally {
    exchange.took(exchange.seenBy(plugin), hook, began)
  }
  return answer ?? runHooks(exchange, hooks, step, subject, at + 1)
}
