// Calls the hooks of one phase one after another, whether they answer at once or with a promise.
import type { Awaitable } from '../../contract/contract.ts'
import { asGatewayError } from '../../errors.ts'

/**
 * Gives each hook to `step` in order, each after the one before is done, until one of them has an answer. The result is
 * that answer, or undefined when no hook had one; it is a promise only when a step returned one, so a phase whose hooks
 * are all synchronous costs no turn of the loop.
 * @throws GatewayError what a step throws; a mistake is named with the plugin whose hook it was
 */
export function runHooks<H extends { plugin: string }, R>(
  hooks: readonly H[],
  step: (hook: H) => Awaitable<R | undefined | void>,
  from = 0
): Awaitable<R | undefined> {
  for (let i = from; i < hooks.length; i++) {
    const hook = hooks[i]!
    let answer
    try {
      answer = step(hook)
    } catch (error) {
      throw asGatewayError(error, hook.plugin)
    }
    if (answer instanceof Promise) return goOn(answer, hooks, step, i)
    if (answer !== undefined) return answer
  }
  return undefined
}

async function goOn<H extends { plugin: string }, R>(
  pending: Promise<R | undefined | void>,
  hooks: readonly H[],
  step: (hook: H) => Awaitable<R | undefined | void>,
  at: number
): Promise<R | undefined> {
  let answer
  try {
    answer = await pending
  } catch (error) {
    throw asGatewayError(error, hooks[at]!.plugin)
  }
  return answer ?? runHooks(hooks, step, at + 1)
}
