// The turns of a session: which are asked for, which the upstream has begun, and what each of them is charged.
import { isUtf8 } from 'node:buffer'
import type { Awaitable } from '../../contract/contract.ts'
import type { Attempt } from '../../contract/attempt.ts'
import type { Message } from '../../contract/message.ts'
import { refusedTurn } from '../../contract/slots.ts'
import { asGatewayError, GatewayError } from '../../errors.ts'
import type { FrameProtocol, ReportedUsage } from '../../protocols/index.ts'
import type { Chain } from '../state/chain.ts'
import type { LiveExchange } from '../state/exchange.ts'
import { withCleanErrors } from '../failures/told-errors.ts'
import { LiveTurn } from './turn.ts'
import { runHooks } from '../state/hook-run.ts'
import { TurnView } from '../state/plugin-view.ts'
import type { PluginView } from '../state/plugin-view.ts'

/** The most open turns of a session, and how many more the upstream may begin by itself. */
const mostOpen = 16
const mostUnasked = 16
/** How many ids of ended turns are remembered, so that a turn whose end is reported twice is charged once. */
const mostRemembered = 64
/** Followers of a turn are told of its output once per so many tokens. */
const progressStep = 16

/** What {@link Turns} needs of its session. */
export interface TurnHost {
  readonly exchange: LiveExchange
  readonly attempt: Attempt
  readonly onTurn: Chain['onTurn']
  readonly frames: FrameProtocol
  /** Tells the client that something it sent had no effect, or that a turn is not allowed. */
  tell(error: GatewayError, event: string | undefined): void
  /** Ends the session for this reason, once no turn is open. */
  endWith(error: GatewayError): void
  /** Sends something to the upstream. */
  say(payload: string): void
}

/** Follows the turns of one session by the frames that are sent to the upstream and received from it. */
export class Turns {
  readonly #host: TurnHost
  readonly #watch
  /** Turns that were asked for and that the upstream has not begun. */
  readonly #asked: LiveTurn[] = []
  readonly #begun: LiveTurn[] = []
  /** The ids of the latest turns that have ended. */
  readonly #over: string[] = []
  /** Turns that the upstream reported with their usage alone, until their hold is on disk. */
  readonly #heard: { readonly turn: LiveTurn; readonly usage: ReportedUsage }[] = []
  /** Turns that plugins are still asked about. */
  readonly #admissions: Promise<void>[] = []
  #count = 0
  #latest: LiveTurn | undefined
  #cancelling = false
  /** The session is over. */
  #closed = false

  constructor(host: TurnHost) {
    this.#host = host
    this.#watch = host.frames.watch()
  }

  /** Turns that were asked for or have begun, and have not ended. */
  get open(): number {
    return this.#asked.length + this.#begun.length
  }

  /** Resolves when no plugin is asked about a turn any more; undefined when none is. */
  get admissions(): Promise<unknown> | undefined {
    return this.#admissions.length === 0 ? undefined : Promise.all(this.#admissions)
  }

  /** Takes a frame for the upstream, and returns the frame to send, if any. A large one is scanned in slices. */
  client(message: Message): Awaitable<Message | undefined> {
    const looked = message.lookInto(this.#host.frames.looksInto)
    return looked ? looked.then(() => this.#client(message)) : this.#client(message)
  }

  /** Takes a frame of the upstream, and returns the frame for the client once its turn's writes are on disk. */
  upstream(message: Message): Awaitable<Message | undefined> {
    const looked = message.lookInto(this.#host.frames.looksInto)
    return looked ? looked.then(() => this.#upstream(message)) : this.#upstream(message)
  }

  #client(message: Message): Awaitable<Message | undefined> {
    if (this.#closed) return undefined
    const { exchange, attempt, frames } = this.#host
    const asked = isText(message) ? this.#watch.client(message) : noText
    switch (asked.kind) {
      case 'response':
      case 'model': {
        if (asked.model !== undefined && asked.model !== exchange.requestedModel) {
          const text = `The model of a session is the one that it was opened with, \`${exchange.requestedModel}\`. Open another session for another model.`
          return this.#refuse(new GatewayError('invalid_field', text, { param: 'session.model' }), asked.event)
        }
        const data =
          asked.model === undefined || asked.model === attempt.upstreamModel
            ? undefined
            : frames.withModel(message, attempt.upstreamModel)
        const onward = data ? message.withData(data) : message
        return asked.kind === 'model' ? onward : this.#ask(onward, asked.event, asked.maxOutput)
      }
      case 'invalid':
        return this.#refuse(
          new GatewayError('invalid_request', `The event could be understood in more than one way: ${asked.reason}.`),
          asked.event
        )
      default:
        return message
    }
  }

  #upstream(message: Message): Awaitable<Message | undefined> {
    // A frame that waited when the session ended begins no turn.
    if (this.#closed) return undefined
    const { exchange, attempt, frames } = this.#host
    const before = this.#watch.output
    const said = isText(message) ? this.#watch.upstream(message) : noText
    switch (said.kind) {
      case 'began': {
        if (this.#latest) this.#latest.output += before
        return after(this.#begin(said.id), message)
      }
      case 'ended':
        return after(this.#end(said.id, said.usage, before), this.#clean(message))
      case 'heard':
        return after(this.#hear(said.id, said.usage), message)
      case 'error':
        return after(this.#giveUp(said.event), this.#clean(message))
      case 'failed':
        return this.#clean(message)
      case 'session': {
        const renamed = exchange.requestedModel === attempt.upstreamModel ? undefined : exchange.requestedModel
        const data = frames.shown(message, renamed)
        return data ? message.withData(data) : message
      }
      case 'invalid':
        throw new GatewayError(
          'upstream_bad_response',
          'The upstream sent a frame that could be understood in more than one way.'
        )
      default: {
        const { output } = this.#watch
        if (
          output !== before &&
          this.#latest &&
          Math.floor(output / progressStep) !== Math.floor(before / progressStep)
        )
          this.#latest.progress(this.#latest.output + output)
        return message.inside('item') ? this.#clean(message) : message
      }
    }
  }

  /** Cancels all turns that have begun, and those that begin from now on, so that the upstream reports their usage. */
  cancel(): void {
    this.#cancelling = true
    for (const { id } of this.#begun) this.#host.say(this.#host.frames.cancel(id))
  }

  /** Releases all turns, as the session is over. `left`: the client abandoned them. Resolves with their releases. */
  end(left: boolean): Promise<unknown> | undefined {
    this.#closed = true
    if (this.#latest) this.#latest.output += this.#watch.output
    const open = [...this.#asked.splice(0), ...this.#begun.splice(0)].flatMap((turn) => {
      turn.abandoned = left
      return turn.giveBack() ?? []
    })
    const dues = [...open, ...[...this.#heard].flatMap(({ turn }) => this.#finishHeard(turn) ?? [])]
    return dues.length === 0 ? undefined : Promise.all(dues)
  }

  #clean(message: Message): Message {
    const {
      attempt: { protocol, channel }
    } = this.#host
    return withCleanErrors(message, protocol.errorPlaces ?? [], channel)
  }

  #ask(message: Message, event: string | undefined, maxOutput: number | undefined): Awaitable<Message | undefined> {
    if (this.open >= mostOpen) {
      return this.#refuse(
        new GatewayError('rate_limit_concurrency', `A session may have ${mostOpen} responses at the same time.`),
        event
      )
    }
    const turn = new LiveTurn(
      this.#host.exchange,
      this.#part(),
      { asked: true, input: this.#watch.input, maxOutput },
      event
    )
    const sent = (): Message | undefined => {
      if (this.#closed) return void turn.giveBack()
      this.#asked.push(turn)
      return message
    }
    const refused = (error: unknown): undefined => {
      void turn.giveBack()
      return this.#refuse(asGatewayError(error), event)
    }
    try {
      const admitted = this.#admit(turn)
      return admitted ? admitted.then(sent, refused) : sent()
    } catch (error) {
      return refused(error)
    }
  }

  /**
   * Asks the plugins to admit a turn; a promise only if one of them returns one. A turn that has begun is shown to all
   * plugins even if one refuses it, because it has to be measured and charged. The first refusal is thrown at the end.
   */
  #admit(turn: LiveTurn): Promise<void> | undefined {
    const { exchange, onTurn } = this.#host
    let refusal: GatewayError | undefined
    const conclude = (): void => {
      if (refusal) throw refusal
    }
    const admit = ({ plugin, call }: Chain['onTurn'][number], view: PluginView): Awaitable<void> => {
      const ask = (): Awaitable<void> => call(view, new TurnView(turn, plugin))
      if (turn.asked) return ask()
      const objected = (error: unknown): void => {
        refusal ??= asGatewayError(error, plugin)
      }
      try {
        const done = ask()
        return done instanceof Promise ? done.catch(objected) : undefined
      } catch (error) {
        objected(error)
      }
    }
    const asked = runHooks(exchange, onTurn, admit, turn)
    if (asked instanceof Promise) {
      turn.admission = asked
      const { admission } = turn
      this.#admissions.push(admission!)
      void admission!.then(() => leave(this.#admissions, admission!))
      return asked.then(conclude)
    }
    conclude()
    return undefined
  }

  #begin(id: string): Promise<unknown> | undefined {
    // The upstream reported its beginning twice.
    if (this.#begun.some((turn) => turn.id === id)) return undefined
    // The upstream uses the id of an ended turn again for a new one.
    leave(this.#over, id)
    const turn = this.#asked.shift()
    if (turn) {
      this.#keep(id, turn)
      if (this.#cancelling) this.#host.say(this.#host.frames.cancel(id))
      return turn.held
    }
    return this.#unasked(
      (own) => this.#keep(id, own),
      () => this.#host.say(this.#host.frames.cancel(id))
    )
  }

  #keep(id: string, turn: LiveTurn): void {
    turn.begun = true
    turn.id = id
    this.#begun.push(turn)
    this.#latest = turn
  }

  /** Admits a turn that the upstream began by itself. `refused` is called when it must not go on. */
  #unasked(begun: (turn: LiveTurn) => void, refused: () => void): Promise<unknown> | undefined {
    if (this.open >= mostOpen + mostUnasked)
      throw new GatewayError('upstream_bad_response', 'The upstream began more responses than a session may have.')
    const turn = new LiveTurn(this.#host.exchange, this.#part(), {
      asked: false,
      input: this.#watch.input,
      maxOutput: this.#watch.maxOutput
    })
    begun(turn)
    const stop = (error: unknown): void => {
      const own = asGatewayError(error)
      // Cancelling single responses would not stop an upstream that begins new ones by itself.
      if (!own.later && !this.#cancelling) return this.#host.endWith(own)
      this.#host.tell(own, undefined)
      refused()
    }
    try {
      const admitted = this.#admit(turn)
      return admitted ? admitted.catch(stop).then(() => turn.held) : turn.held
    } catch (error) {
      stop(error)
      return turn.held
    }
  }

  #end(id: string, usage: ReportedUsage, output: number): Promise<unknown> | undefined {
    if (this.#over.includes(id)) return undefined
    this.#remember(id)
    const turn = this.#begun.find((turn) => turn.id === id)
    if (!turn) return this.#hear(`response ${id}`, usage)
    leave(this.#begun, turn)
    if (turn === this.#latest) {
      turn.output += output
      this.#latest = undefined
    }
    return finish(turn, usage)
  }

  /** Charges a turn that is reported once, with its usage. */
  #hear(id: string, usage: ReportedUsage): Promise<unknown> | undefined {
    if (usage === undefined || this.#over.includes(id)) return undefined
    this.#remember(id)
    let heard: LiveTurn | undefined
    const held = this.#unasked(
      (turn) => {
        turn.begun = true
        heard = turn
        this.#heard.push({ turn, usage })
      },
      () => {}
    )
    return held ? held.then(() => this.#finishHeard(heard!)) : this.#finishHeard(heard!)
  }

  /** Ends such a turn, once: when its hold is on disk, or with the session. */
  #finishHeard(turn: LiveTurn): Promise<void> | undefined {
    const heard = this.#heard.find((one) => one.turn === turn)
    if (!heard) return undefined
    leave(this.#heard, heard)
    return finish(turn, heard.usage)
  }

  /** Releases a turn that the upstream refused: the one asked for by this event, or the oldest without an event id. */
  #giveUp(event: string | undefined): Promise<unknown> | undefined {
    const at = this.#asked.findIndex((turn) => turn.event === event)
    return at === -1 ? undefined : this.#asked.splice(at, 1)[0]!.giveBack()
  }

  #remember(id: string): void {
    if (this.#over.length >= mostRemembered) this.#over.shift()
    this.#over.push(id)
  }

  #refuse(error: GatewayError, event: string | undefined): undefined {
    const { exchange } = this.#host
    if (!exchange.find(refusedTurn)) exchange.set(refusedTurn, error)
    this.#host.tell(error, event)
  }

  #part(): string {
    return String(++this.#count)
  }
}

function leave<T>(list: T[], one: T): void {
  const at = list.indexOf(one)
  if (at !== -1) list.splice(at, 1)
}

function finish(turn: LiveTurn, usage: ReportedUsage): Promise<void> | undefined {
  turn.ended = true
  turn.reported = usage
  return turn.giveBack()
}

function after(done: Promise<unknown> | undefined, message: Message): Awaitable<Message> {
  return done ? done.then(() => message) : message
}

const noText = { kind: 'invalid', event: undefined, reason: 'it is no text in UTF-8' } as const

/** Whether a frame is text. Text frames were checked when they were received. */
function isText({ binary, data }: Message): boolean {
  return !binary || isUtf8(data)
}
