// One attempt of an exchange at one channel: what is sent there, and how it went.
import type { Channel } from '../catalogue/catalogue.ts'
import type { RequestBody } from '../bodies/body.ts'
import { BodyEdit } from '../bodies/body.ts'
import { GatewayError } from '../errors.ts'
import { Uninspectable } from '../protocols/index.ts'
import type { Protocol, ProtocolText, TextPart } from '../protocols/index.ts'
import { takes } from './extras.ts'
import type { UpstreamForm } from './operation.ts'
import type { MeteredUsage } from './slots.ts'
import type { Finished } from '../transport/series.ts'

/** The method and path of the request to an upstream, and the protocol it is written in. */
export interface Target {
  protocol: Protocol
  method: 'GET' | 'POST' | 'DELETE'
  path: string
  /** How the request is finished, what streams are accepted, and whether it is a series. */
  form?: Pick<UpstreamForm, 'finish' | 'accepts' | 'series' | 'counts'>
}

/**
 * One attempt. `onAttempt` hooks change it and never the client's request, because the next attempt starts from that
 * request again.
 */
export class Attempt {
  /** Counts the attempts of one exchange from 1. */
  readonly number: number
  readonly channel: Channel
  /** The public name of the model that is asked: another than the exchange's where one stands in for it. */
  readonly model: string
  /** The upstream's own name for the model. The body to send already has this name. */
  readonly upstreamModel: string
  /** The protocol spoken to the upstream: the client's own unless the request is translated. */
  protocol: Protocol
  /**
   * The protocol that `body` is written in at present: the client's own until the request is translated. The code that
   * replaces the body sets this.
   */
  bodyProtocol: Protocol
  /** The protocol that the client speaks. */
  readonly asked: Protocol
  /** True when the client speaks another protocol than the upstream. */
  readonly translated: boolean
  readonly form: Target['form']
  method: 'GET' | 'POST' | 'DELETE'
  /** The path below the channel's base address, with its query. */
  path: string
  /** Headers to send in addition to those that the core sets. The names are in lower case. */
  readonly headers: Record<string, string> = {}
  /** The body to send: the client's bytes with the edits made here. */
  readonly body: BodyEdit
  /** Times are values of `performance.now()`, in milliseconds. */
  readonly startedAt = performance.now()
  /** When the head of the upstream's answer came, or its handshake. */
  headAt: number | undefined
  /** The headers of the upstream's answer, by lower-case name, whatever its status; undefined without an answer. */
  answered: Readonly<Record<string, string | string[] | undefined>> | undefined
  firstByteAt: number | undefined
  endedAt: number | undefined
  /** The status of the upstream's answer; undefined when it did not answer. */
  status: number | undefined
  error: GatewayError | undefined
  /**
   * What the attempt consumed. `usage-meter` fills it when the answer ended or was cut, also for attempts that failed.
   */
  usage: MeteredUsage | undefined
  /** True once the request may have reached the upstream, which may charge for it from then on. */
  dispatched = false
  /** What was answered of a series that broke off, unless a later attempt has taken it over. */
  finished: Finished | undefined
  /** Another model is asked when a prompt is blocked, so an answer that says so is none. */
  blockIsRefusal = false
  /** The member of the body that the gateway added and the client did not send. */
  added: string | undefined
  readonly #without: string | undefined

  /**
   * `bodyProtocol`: the protocol of the client. `without`: a member that must not be added to the body. `model`: its
   * public name.
   */
  constructor(
    number: number,
    channel: Channel,
    upstreamModel: string,
    { protocol, method, path, form }: Target,
    body: RequestBody,
    bodyProtocol: Protocol,
    without?: string,
    model = ''
  ) {
    this.#without = without
    this.model = model
    this.number = number
    this.channel = channel
    this.upstreamModel = upstreamModel
    this.protocol = protocol
    this.bodyProtocol = bodyProtocol
    this.asked = bodyProtocol
    this.translated = protocol !== bodyProtocol
    this.method = method
    this.form = form
    this.path = path
    this.body = new BodyEdit(body)
  }

  /**
   * Whether a member that the client did not send may be added to the body for this upstream. Call it before you add
   * one: it notes the member, and when the upstream refuses the request because of it, the request is sent again
   * without it.
   */
  mayAdd(member: string): boolean {
    if (member === this.#without || !takes(this.channel, member)) return false
    this.added = member
    return true
  }

  /**
   * Whether the upstream may have read the prompt: it took the request, whatever became of it then. One that refused it
   * or was not reached has not.
   */
  get mayBeRead(): boolean {
    const { dispatched, status, error } = this
    return dispatched && (status === undefined ? !error?.details.untaken : status < 300)
  }

  /**
   * Calls `edit` with every text of the prompt, in order (see {@link ProtocolText.prompt}). A returned string replaces
   * the text; undefined leaves the text as it is. It parses the whole prompt, so its time grows with the size of the
   * prompt.
   * @throws GatewayError `request_not_inspected` when the gateway cannot tell where the text is
   */
  editText(edit: (part: TextPart) => string | void): void {
    showPrompt(this.bodyProtocol, this.body, (part) => edit(part) ?? part.text)
  }
}

/**
 * Calls a function with each text of a prompt.
 * @throws GatewayError `request_not_inspected` when the gateway cannot tell where the text is, or cannot read it
 */
export function showPrompt(protocol: Protocol, ...shown: Parameters<ProtocolText['prompt']>): void {
  if (!protocol.text)
    throw new GatewayError('request_not_inspected', 'The request cannot be inspected, which this gateway has to do.')
  try {
    protocol.text.prompt(...shown)
  } catch (error) {
    if (!(error instanceof Uninspectable)) throw error
    throw new GatewayError(
      'request_not_inspected',
      `The request cannot be inspected, which this gateway has to do: ${error.message}.`
    )
  }
}
