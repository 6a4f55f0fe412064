// Keeps the route to a new response while its answer passes, before the client can know its id.
import { GatewayError } from '../../contract/contract.ts'
import type { Exchange, Message, Observer, UpstreamResponse } from '../../contract/contract.ts'
import type { NewWork, Progress } from '../../contract/background.ts'
import type { OperationContext } from '../../contract/served.ts'
import { completionTokens, promptTokens } from '../../money/usage.ts'
import { asObject, asText } from '../../protocols/object.ts'
import type { JsonObject } from '../../protocols/object.ts'
import { readResponsesUsage } from '../../protocols/usage/openai-tokens.ts'
import type { Route } from '../../store/routes.ts'
import { isOpen } from '../../store/works.ts'
import { isUnderWay, openings, response, responseOf } from './background.ts'
import { idIn, routeOf, routesOf } from './holder.ts'
import { isRecalled } from './recall.ts'
import { flagOf, mayBeStored } from './references.ts'

/** The end of a response that no client can ask for, or whose last event has no status. */
const unseen: Progress = { status: 'failed' }

/**
 * Observes answers of upstreams that may keep the response: those asked in their own protocol, unless `store` is false.
 */
export function noteResponse(
  exchange: Exchange,
  { attempt }: UpstreamResponse,
  context: OperationContext
): Observer | undefined {
  const { fields } = exchange.body
  const inBackground = flagOf(fields, 'background')
  if (!attempt || attempt.translated || isRecalled(exchange) || !(mayBeStored(fields) || inBackground)) return undefined
  const {
    services: { routes },
    background
  } = context
  const { channel } = attempt
  /** The final state of a response in the background. */
  let last: JsonObject | undefined
  let known = false
  let told = false

  /** The stream may show the end of the response, or break off while the upstream goes on with it. */
  const attend = (begun: NewWork): void => {
    const attended = background.attend(exchange, begun)
    exchange.showAfter(() => attended.kept)
    exchange.defer(({ kind, bytes }) => {
      const seen = last && (response.read(last, attended.work) ?? unseen)
      if (seen && !isOpen(seen)) return attended.end(seen)
      // A client that was sent nothing does not know the response, so nothing is left to wait for.
      return exchange.attempts.at(-1) === attempt && (kind === 'aborted' || bytes > 0)
        ? attended.handOver(bytes > 0 ? attempt.usage?.usage : undefined)
        : attended.end(unseen)
    })
  }

  const routeTo = (id: string, made: JsonObject): Route => {
    const tokens = tokensOf(made)
    return { ...routeOf(exchange, channel, id, 'response', exchange.model), ...(tokens !== undefined && { tokens }) }
  }

  const first = (made: JsonObject, ended: boolean): Route => {
    // Bytes that the client already has cannot be held back. The end of the stream still can.
    if (told && !ended)
      throw new GatewayError(
        'upstream_bad_response',
        'The upstream began to answer before it said what the response is.'
      )
    const id = idIn(made)
    if (id === undefined) throw new GatewayError('upstream_bad_response', 'The upstream made a response without an id.')
    background.checkNew(exchange, channel, id)
    known = true
    if (inBackground && !ended) {
      const status = made['status'] === 'queued' ? 'queued' : 'in_progress'
      const begun: NewWork = { kind: 'response', id, upstreamId: id, status, channel, details: {} }
      if (exchange.streaming) attend(begun)
      else background.begin(exchange, begun)
    }
    return routeTo(id, made)
  }

  return {
    takes: 'messages',
    observe(message) {
      const made = responseOf(message)
      if (!made) {
        told ||= message.kind === 'event'
        return
      }
      const ended = message.kind === 'json' ? !isUnderWay(made) : isLast(message)
      const kept = made['store'] !== false || made['background'] === true
      const id = idIn(made)
      // The token count is known only at the end, so the route is written again then.
      const again = known && ended && id !== undefined && tokensOf(made) !== undefined
      const noted = known ? (again ? [routeTo(id, made)] : []) : [first(made, ended)]
      if (ended) {
        if (inBackground) last = made
        noted.push(...routesOf(exchange, channel, made, exchange.model))
      }
      if (kept && noted.length > 0) exchange.showAfter(() => routes.put(noted))
    }
  }
}

/** The tokens of a response: the next request in the conversation reads all of them. */
function tokensOf({ usage }: JsonObject): number | undefined {
  const read = readResponsesUsage(usage)
  return read && read !== 'insane' ? promptTokens(read) + completionTokens(read) : undefined
}

function isLast(message: Message): boolean {
  const { type = message.event } = asObject(message.json()) ?? {}
  return !openings.has(asText(type))
}
