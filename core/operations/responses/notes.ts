// Notes where a response is kept, while its answer passes: before the client can know its id.
import { GatewayError } from '../../contract/contract.ts'
import type { Exchange, Message, Observer, UpstreamResponse } from '../../contract/contract.ts'
import type { NewWork } from '../../contract/background.ts'
import type { OperationContext } from '../../contract/served.ts'
import type { JsonObject } from '../../protocols/object.ts'
import type { Route } from '../../store/routes.ts'
import { detailsOf, isUnderWay, responseOf } from './background.ts'
import { idIn, routeOf, routesOf } from './holder.ts'
import { isRecalled } from './recall.ts'
import { flagOf, mayBeStored } from './references.ts'

/** Looks on where the upstream may keep the response: it was asked in its own protocol and not told to keep nothing. */
export function noteResponse(exchange: Exchange, { attempt }: UpstreamResponse, context: OperationContext): Observer | undefined {
  const { fields } = exchange.body
  const inBackground = flagOf(fields, 'background')
  if (!attempt || attempt.translated || isRecalled(exchange) || !(mayBeStored(fields) || inBackground)) return undefined
  const { services: { routes }, background } = context
  const { channel } = attempt
  let begun: NewWork | undefined
  let known = false
  let told = false

  const first = (response: JsonObject, ended: boolean): Route => {
    // What has been shown cannot be held back any more; at its end it still is.
    if (told && !ended) throw new GatewayError('upstream_bad_response', 'The upstream began to answer before it said what the response is.')
    const id = idIn(response)
    if (id === undefined) throw new GatewayError('upstream_bad_response', 'The upstream made a response without an id.')
    known = true
    if (inBackground && !ended) {
      const status = response['status'] === 'queued' ? 'queued' : 'in_progress'
      begun = { kind: 'response', id, upstreamId: id, status, channel, details: detailsOf(exchange) }
      if (exchange.streaming) {
        // Its end is seen in this stream, or the response goes on without it.
        exchange.defer(({ kind, bytes }) => (begun && exchange.attempts.at(-1) === attempt && (kind === 'aborted' || bytes > 0) ? background.handOver(exchange, begun) : undefined))
      } else background.begin(exchange, begun)
    }
    return routeOf(exchange, channel, id, 'response', exchange.model)
  }

  return {
    takes: 'messages',
    observe(message) {
      const response = responseOf(message)
      if (!response) {
        told ||= message.kind === 'event'
        return
      }
      const ended = message.kind === 'json' ? !isUnderWay(response) : isLast(message)
      const kept = response['store'] !== false || response['background'] === true
      const noted = known ? [] : [first(response, ended)]
      if (ended) {
        begun = undefined
        noted.push(...routesOf(exchange, channel, response, exchange.model))
      }
      if (kept && noted.length > 0) exchange.showAfter(() => routes.keep(noted))
    }
  }
}

/** Of events that carry the response, all but the first ones end it. */
function isLast(message: Message): boolean {
  const { type = message.event } = message.json() as { type?: unknown }
  return !['response.created', 'response.queued', 'response.in_progress'].includes(String(type))
}
