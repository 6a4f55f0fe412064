// Passes the messages of an answer through the stages of its plugins, one after the other, and tells them of its end.
import type { Emit, Mapper, Observer } from '../../contract/contract.ts'
import type { Message } from '../../contract/message.ts'
import { asGatewayError } from '../../errors.ts'
import { checkSynchronous } from '../../contract/synchronous.ts'

/** A stage with the plugin that it belongs to. */
export interface PluginStage {
  readonly plugin: string
  readonly stage: Observer | Mapper
}

/** Tells stages of their end of which there is no answer after all. Why not is known already, whatever they throw. */
export function dismiss(stages: readonly PluginStage[]): void {
  const ending = new Stages(() => {})
  ending.use(stages)
  try {
    ending.end(false, undefined)
  } catch {
    // All of them have been told.
  }
}

const none: readonly PluginStage[] = []

/** Checks what a function of a stage returned, for each message: nearly always it is nothing. */
function checkStage(returned: unknown): void {
  if (returned !== undefined) checkSynchronous(returned, 'a stage')
}

/** The stages of one answer. What a stage throws is thrown on, as an error that names its plugin. */
export class Stages {
  #stages: readonly PluginStage[] = none
  readonly #out: Emit
  /** By the stage that what is emitted goes to; only for those that decide what goes on, which few do. */
  #emits: Emit[] | undefined
  /** What is made beside the loop of a whole answer. */
  #made: Promise<void> | undefined
  #borrow = true
  #over = false

  /** `out` gets what the stages let through. */
  constructor(out: Emit) {
    this.#out = out
  }

  /** Sets the stages, in the order in which messages pass them. Called once, before the first message. */
  use(stages: readonly PluginStage[]): void {
    // A list that was added to has room for more, which a stream would keep for as long as it is open.
    this.#stages = stages.slice()
    this.#borrow = stages.every(({ stage }) => stage.borrows === true)
  }

  /**
   * The plugin whose stage cannot see such runs of bytes, or no whole answer that is `large`, which only those can that
   * look at one beside the loop; undefined when all of them can.
   */
  blindTo(kind: 'files' | 'runs' | 'large'): string | undefined {
    return this.#stages.find(({ stage }) => {
      const takes = stage.takes ?? ('map' in stage ? 'messages' : 'runs')
      if (kind === 'large') return takes !== 'runs' && !('mapBeside' in stage)
      return takes === 'messages' || (takes === 'files' && kind === 'runs')
    })?.plugin
  }

  /** None of them keeps an event that passes. */
  get borrow(): boolean {
    return this.#borrow
  }

  pass(message: Message): void {
    this.#from(message, 0)
  }

  /** Until what was passed has gone through all stages; undefined when it has. Rejects with what one of them threw. */
  get settled(): Promise<void> | undefined {
    return this.#made && this.#settle()
  }

  async #settle(): Promise<void> {
    while (this.#made) await this.#made
  }

  /**
   * Tells every stage that no message follows. Each is shown `last` before, the end of a stream; what stands in its
   * place is returned, as what the ends of stages emit comes before. All are told, then the first error is thrown.
   */
  end(complete: boolean, last: Message | undefined): readonly Message[] {
    this.#over = true
    let whole = complete
    let failure: unknown
    let ending = last && complete ? [last] : []
    for (let i = 0; i < this.#stages.length; i++) {
      const { plugin, stage } = this.#stages[i]!
      try {
        if ('map' in stage) {
          const made: Message[] = []
          for (const message of ending) checkStage(stage.map(message, (emitted) => void made.push(emitted)))
          // What a translator says at the end is the end of its stream.
          checkStage(stage.end?.(whole, stage.speaks ? (emitted) => void made.push(emitted) : this.#emitTo(i + 1)))
          ending = made
        } else {
          for (const message of ending) checkStage(stage.observe(message))
          checkStage(stage.end?.(whole))
        }
      } catch (error) {
        failure ??= asGatewayError(error, plugin)
        whole = false
        ending = []
      }
    }
    if (failure) throw failure
    return ending
  }

  #emitTo(index: number): Emit {
    return ((this.#emits ??= [])[index] ??= (message) => this.#from(message, index))
  }

  #from(message: Message, index: number): void {
    let i = index
    try {
      for (; i < this.#stages.length; i++) {
        const { stage } = this.#stages[i]!
        if ('map' in stage) {
          const made = message.kind === 'json' && !this.#over ? stage.mapBeside?.(message) : undefined
          return made ? this.#wait(made, i) : checkStage(stage.map(message, this.#emitTo(i + 1)))
        }
        checkStage(stage.observe(message))
      }
    } catch (error) {
      throw asGatewayError(error, this.#stages[i]!.plugin)
    }
    this.#out(message)
  }

  #wait(made: Promise<Message>, index: number): void {
    this.#made = made.then(
      (message) => {
        this.#made = undefined
        if (!this.#over) this.#from(message, index + 1)
      },
      (error: unknown) => {
        this.#made = undefined
        throw asGatewayError(error, this.#stages[index]!.plugin)
      }
    )
  }
}
