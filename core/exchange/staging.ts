// Asks the plugins of a chain for their stages in an answer.
import type { Attempt } from '../contract/attempt.ts'
import type { Chain } from './chain.ts'
import type { Awaitable, Stage, UpstreamResponse } from '../contract/contract.ts'
import type { LiveExchange } from './exchange.ts'
import { runHooks } from './hook-run.ts'
import { restoreModelName } from './model-name.ts'
import { protocols } from '../protocols/index.ts'
import type { Protocol } from '../protocols/index.ts'
import type { OperationContext } from '../contract/served.ts'
import { shownModel } from '../contract/slots.ts'
import { dismiss } from './stages.ts'
import type { PluginStage } from './stages.ts'
import { textStage } from './text-stage.ts'

/** The stages of one answer while they are asked for. */
class Staging {
  readonly stages: PluginStage[] = []
  /** Of the messages at this place of the chain. */
  #protocol: Protocol
  readonly #spoken: Protocol
  /** What the operation does as soon as the client's protocol is spoken. */
  #adopt: (() => Stage | undefined) | undefined

  constructor(protocol: Protocol, spoken: Protocol, adopt: (() => Stage | undefined) | undefined) {
    this.#protocol = protocol
    this.#spoken = spoken
    this.#adopt = adopt
  }

  add(plugin: string, stage: Stage): void {
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
    if (this.#protocol !== this.#spoken) return
    const stage = this.#adopt?.()
    this.#adopt = undefined
    if (stage) this.add('the core', stage)
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
  const { operation } = exchange.request
  const spoken = protocols[operation.protocol]
  const staging = new Staging(
    attempt?.protocol ?? spoken,
    spoken,
    attempt && operation.stageInProtocol && (() => operation.stageInProtocol!(exchange))
  )
  const failed = (error: unknown): never => {
    dismiss(staging.stages)
    throw error
  }
  try {
    if (attempt) addOwn(staging, exchange, response, attempt, context)
    const asked = runHooks(onResponse, ({ plugin, call }) => {
      const add = (stage: Stage | void): void => {
        if (stage) staging.add(plugin, stage)
      }
      const stage = call(exchange.seenBy(plugin), response)
      return stage instanceof Promise ? stage.then(add) : add(stage)
    })
    const rest = (): PluginStage[] => finished(staging, exchange, response, context)
    return asked instanceof Promise ? asked.then(rest).catch(failed) : rest()
  } catch (error) {
    return failed(error)
  }
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
  const noted = context && operation.onResponse?.(exchange, response, context)
  if (noted) staging.add('the core', noted)
  const name = exchange.requestedModel || exchange.find(shownModel)
  if (name !== undefined && !response.frames && attempt.upstreamModel !== name)
    staging.add('the core', restoreModelName(name, attempt.protocol))
  const own = context && operation.stageAtUpstream?.(exchange, context)
  if (own) staging.add('the core', own)
  staging.adopt()
}

function finished(
  staging: Staging,
  exchange: LiveExchange,
  { attempt }: UpstreamResponse,
  context: OperationContext | undefined
): PluginStage[] {
  const last = attempt && context && exchange.request.operation.stageAtClient?.(exchange, context)
  if (last) staging.add('the core', last)
  return staging.stages
}
