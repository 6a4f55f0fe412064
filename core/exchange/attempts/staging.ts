// Asks the plugins of a chain for their stages in an answer.
import type { Attempt } from '../../contract/attempt.ts'
import type { Chain } from '../state/chain.ts'
import type { Awaitable, Stage, UpstreamResponse } from '../../contract/contract.ts'
import type { LiveExchange } from '../state/exchange.ts'
import { runHooks } from '../state/hook-run.ts'
import type { PluginView } from '../state/plugin-view.ts'
import { restoreModelName } from './model-name.ts'
import { protocols } from '../../protocols/index.ts'
import type { Protocol } from '../../protocols/index.ts'
import type { OperationContext } from '../../contract/served.ts'
import { shownModel } from '../../contract/slots.ts'
import { dismiss } from '../answers/stages.ts'
import type { PluginStage } from '../answers/stages.ts'
import { textStage } from './text-stage.ts'

/** The stages of one answer while they are asked for. */
class Staging {
  readonly response: UpstreamResponse
  readonly stages: PluginStage[] = []
  readonly #exchange: LiveExchange
  readonly #spoken: Protocol
  /** Of the messages at this place of the chain. */
  #protocol: Protocol
  /** The operation has yet to do what it does as soon as the client's protocol is spoken. */
  #waits: boolean

  constructor(exchange: LiveExchange, response: UpstreamResponse) {
    const { operation } = exchange.request
    const { attempt } = response
    this.response = response
    this.#exchange = exchange
    this.#spoken = protocols[operation.protocol]
    this.#protocol = attempt?.protocol ?? this.#spoken
    this.#waits = attempt !== undefined && operation.stageInProtocol !== undefined
  }

  add(plugin: string, stage: Stage | void): void {
    if (!stage) return
    if ('text' in stage) {
      const made = textStage(plugin, stage, this.#protocol)
      if (made) this.stages.push({ plugin, stage: made })
    } else {
      this.stages.push({ plugin, stage })
      if ('map' in stage) this.#protocol = stage.speaks ?? this.#protocol
    }
    this.adopt()
  }

  /** Once, where the answer is in the client's protocol. */
  adopt(): void {
    if (!this.#waits || this.#protocol !== this.#spoken) return
    this.#waits = false
    this.add('the core', this.#exchange.request.operation.stageInProtocol!(this.#exchange))
  }
}

/**
 * Asks the plugins, last one first, for their part in this body; a promise only when one of them answered with one.
 * `context`: of an upstream's answer.
 */
export function stagesOf(
  exchange: LiveExchange,
  onResponse: Chain['onResponse'],
  response: UpstreamResponse,
  context?: OperationContext
): Awaitable<PluginStage[]> {
  const { attempt } = response
  const staging = new Staging(exchange, response)
  try {
    if (attempt) addOwn(staging, exchange, response, attempt, context)
    const asked = runHooks(exchange, onResponse, askForStage, staging)
    return asked instanceof Promise
      ? asked
          .then(() => finished(staging, exchange, response, context))
          .catch((error: unknown) => failed(staging, error))
      : finished(staging, exchange, response, context)
  } catch (error) {
    return failed(staging, error)
  }
}

function askForStage(
  { plugin, call }: Chain['onResponse'][number],
  view: PluginView,
  staging: Staging
): Awaitable<void> {
  const stage = call(view, staging.response)
  return stage instanceof Promise ? stage.then((late) => staging.add(plugin, late)) : staging.add(plugin, stage)
}

function failed({ stages }: Staging, error: unknown): never {
  dismiss(stages)
  throw error
}

/** Adds the stages of the core that see an upstream's answer before those of all plugins. */
function addOwn(
  staging: Staging,
  exchange: LiveExchange,
  response: UpstreamResponse,
  attempt: Attempt,
  context: OperationContext | undefined
): void {
  const { operation } = exchange.request
  staging.add('the core', context && operation.onResponse?.(exchange, response, context))
  const name = exchange.requestedModel || exchange.find(shownModel)
  if (name !== undefined && !response.frames && attempt.upstreamModel !== name)
    staging.add('the core', restoreModelName(name, attempt.protocol))
  staging.add('the core', context && operation.stageAtUpstream?.(exchange, context))
  staging.adopt()
}

function finished(
  staging: Staging,
  exchange: LiveExchange,
  { attempt }: UpstreamResponse,
  context: OperationContext | undefined
): PluginStage[] {
  staging.add('the core', attempt && context && exchange.request.operation.stageAtClient?.(exchange, context))
  return staging.stages
}
