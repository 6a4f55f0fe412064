// Passes the frames of a session through the stages of its plugins: a client's down the chain, an upstream's up.
import type { Emit } from '../../contract/contract.ts'
import type { Message } from '../../contract/message.ts'
import { asGatewayError, GatewayError } from '../../errors.ts'
import type { PluginStage } from '../answers/stages.ts'

/** The stages of one session. An error of a stage is thrown on, with the name of its plugin. */
export class FrameStages {
  readonly #stages: readonly PluginStage[]
  readonly #out: Emit
  /** By the stage that emits. */
  readonly #emits: Emit[] = []

  /**
   * `stages`: in the order in which frames of the upstream pass them. `out` gets the frames that have passed, of both
   * sides.
   * @throws GatewayError `answer_not_inspected` when one of them cannot see frames
   */
  constructor(stages: readonly PluginStage[], out: Emit) {
    const blind = stages.find(({ stage }) => stage.takes !== 'frames')
    if (blind) {
      const cause = new Error(`the plugin ${blind.plugin} takes no frames`)
      throw new GatewayError('answer_not_inspected', 'Sessions cannot be inspected, which this gateway has to do.', {
        cause
      })
    }
    this.#stages = stages
    this.#out = out
  }

  pass(message: Message): void {
    if (this.#stages.length === 0) this.#out(message)
    else this.#from(message, message.from === 'upstream' ? 0 : this.#stages.length - 1)
  }

  /** No frame follows. All stages are told, then the first error is thrown. */
  end(complete: boolean): void {
    let failure: unknown
    for (const [index, { plugin, stage }] of this.#stages.entries()) {
      try {
        if ('map' in stage) stage.end?.(complete, this.#emitOf(index))
        else stage.end?.(complete)
      } catch (error) {
        failure ??= asGatewayError(error, plugin)
      }
    }
    if (failure) throw failure
  }

  #emitOf(index: number): Emit {
    return (this.#emits[index] ??= (message) => this.#from(message, index + stepOf(message)))
  }

  #from(message: Message, index: number): void {
    const step = stepOf(message)
    let i = index
    try {
      for (; i >= 0 && i < this.#stages.length; i += step) {
        const { stage } = this.#stages[i]!
        if ('map' in stage) return stage.map(message, this.#emitOf(i))
        stage.observe(message)
      }
    } catch (error) {
      throw asGatewayError(error, this.#stages[i]!.plugin)
    }
    this.#out(message)
  }
}

function stepOf({ from }: Message): number {
  return from === 'upstream' ? 1 : -1
}
