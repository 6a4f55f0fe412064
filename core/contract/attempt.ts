// One try of an exchange at one channel: what will be sent there, and how it went.
import type { Channel } from '../catalogue/catalogue.ts'
import type { RequestBody } from '../bodies/body.ts'
import { BodyEdit } from '../bodies/body.ts'
import { GatewayError } from '../errors.ts'
import { Uninspectable } from '../protocols/index.ts'
import type { Protocol, ProtocolText, TextPart } from '../protocols/index.ts'
import { takes } from './extras.ts'
import type { MeteredUsage } from './slots.ts'

/** What is asked of an upstream, and in which protocol. */
export interface Target {
  protocol: Protocol
  method: 'GET' | 'POST' | 'DELETE'
  path: string
}

/** Changed by `onAttempt` hooks; the client's request stays as it came, as the next attempt starts from it again. */
export class Attempt {
  /** From 1. */
  readonly number: number
  readonly channel: Channel
  /** The upstream's own name for the model; it stands in the body already. */
  readonly upstreamModel: string
  /** What is spoken to the upstream: the client's protocol unless the request is translated. */
  protocol: Protocol
  /**
   * What the body is written in by now: the client's protocol until the request is translated. Set by whoever replaces
   * the body.
   */
  bodyProtocol: Protocol
  /** What the client speaks. */
  readonly asked: Protocol
  /** The client speaks another protocol than this upstream. */
  readonly translated: boolean
  method: 'GET' | 'POST' | 'DELETE'
  /** Below the channel's base address, with its query. */
  path: string
  /** Sent upstream beside the core's own, lower-case names. */
  readonly headers: Record<string, string> = {}
  /** The body to send: the client's bytes with these edits. */
  readonly body: BodyEdit
  /** `performance.now()` values. */
  readonly startedAt = performance.now()
  firstByteAt: number | undefined
  endedAt: number | undefined
  /** The upstream's status, when it answered. */
  status: number | undefined
  error: GatewayError | undefined
  /** What it consumed, once its answer ended or was cut; filled by `usage-meter`, also for attempts that failed. */
  usage: MeteredUsage | undefined
  /** The request may have reached the upstream: from here on it may bill us. */
  dispatched = false
  /** The member that was added on the gateway's own account. */
  added: string | undefined
  readonly #without: string | undefined

  /** `bodyProtocol` is the client's; `without`: a member that is not to be added. */
  constructor(
    number: number,
    channel: Channel,
    upstreamModel: string,
    { protocol, method, path }: Target,
    body: RequestBody,
    bodyProtocol: Protocol,
    without?: string
  ) {
    this.#without = without
    this.number = number
    this.channel = channel
    this.upstreamModel = upstreamModel
    this.protocol = protocol
    this.bodyProtocol = bodyProtocol
    this.asked = bodyProtocol
    this.translated = protocol !== bodyProtocol
    this.method = method
    this.path = path
    this.body = new BodyEdit(body)
  }

  /**
   * Asked by whoever adds a member to the body on the gateway's own account, which not every upstream knows: whether
   * this one takes it. One that refuses a request for it is sent the request once more without it.
   */
  mayAdd(member: string): boolean {
    if (member === this.#without || !takes(this.channel, member)) return false
    this.added = member
    return true
  }

  /**
   * Shows every text of the prompt in its order (see {@link ProtocolText.prompt}); what is returned is sent in its
   * place, nothing returned leaves it. Parses the prompt, so it takes as long as that is large.
   * @throws GatewayError `request_not_inspected` where it is not known where text stands
   */
  editText(edit: (part: TextPart) => string | void): void {
    showPrompt(this.bodyProtocol, this.body, (part) => edit(part) ?? part.text)
  }
}

/**
 * Shows the texts of a prompt. @throws GatewayError `request_not_inspected` where it is not known where text stands, or
 * the text is none that can be read
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
