// Notes where a response is kept, while its answer passes: before the client can know its id.
import { GatewayError } from '../../contract/contract.ts'
import type { Exchange, Message, Observer, UpstreamResponse } from '../../contract/contract.ts'
import type { OperationContext } from '../../contract/served.ts'
import type { Route } from '../../store/routes.ts'
import { accountOf, ownerOf } from './holder.ts'
import { flagOf, mayBeStored } from './references.ts'

type Json = Record<string, unknown>

/** Ids that are longer, or more items in one response, are no upstream's. */
const longestId = 512
const mostItems = 1000

/** Looks on where the upstream may keep the response: it was asked in its own protocol and not told to keep nothing. */
export function noteResponse(exchange: Exchange, { attempt }: UpstreamResponse, { services: { routes } }: OperationContext): Observer | undefined {
  const { fields } = exchange.body
  if (!attempt || attempt.translated || !(mayBeStored(fields) || flagOf(fields, 'background'))) return undefined
  const { channel } = attempt
  const routeTo = (id: string, kind: Route['kind']): Route => ({ ...ownerOf(exchange), id, kind, channel: channel.name, account: accountOf(channel), model: exchange.model })
  let known: string | undefined
  let begun = false

  /** What the upstream says of itself counts, where it does. */
  const isKept = (response: Json): boolean => response['store'] !== false || response['background'] === true
  const keep = (routes_: Route[]): void => {
    if (routes_.length > 0) exchange.hold(() => routes.keep(routes_))
  }

  return {
    takes: 'messages',
    observe(message) {
      const body = message.json() as Json | undefined
      const response = message.kind === 'json' ? body : (body?.['response'] as Json | undefined)
      if (typeof response !== 'object' || response === null) {
        begun ||= message.kind === 'event'
        return
      }
      const ended = message.kind === 'json' || isLast(message, body!)
      const noted: Route[] = []
      if (known === undefined) {
        // What has been shown cannot be held back any more; at its end it still is.
        if (begun && !ended) throw new GatewayError('upstream_bad_response', 'The upstream began to answer before it said what the response is.')
        known = idOf(response)
        if (known === undefined) throw new GatewayError('upstream_bad_response', 'The upstream made a response without an id.')
        if (isKept(response)) noted.push(routeTo(known, 'response'))
      }
      if (ended && isKept(response)) {
        for (const item of itemsOf(response)) noted.push(routeTo(item, 'item'))
      }
      keep(noted)
    }
  }
}

function isLast({ event }: Message, body: Json): boolean {
  return !['response.created', 'response.queued', 'response.in_progress'].includes(String(body['type'] ?? event))
}

function idOf({ id }: Json): string | undefined {
  return typeof id === 'string' && id !== '' && id.length <= longestId ? id : undefined
}

/** Ids of what was put out, by which a later request may refer to it. */
function itemsOf({ output }: Json): string[] {
  const items = Array.isArray(output) ? (output.slice(0, mostItems) as unknown[]) : []
  return items.flatMap((item) => (typeof item === 'object' && item !== null ? (idOf(item as Json) ?? []) : []))
}
