// Responses that are made in the background: how their upstream is asked how far they are, and how it is noted that
// they have ended.
import type { Progress, WorkKind } from '../../contract/background.ts'
import type { Exchange, Message, Observer } from '../../contract/contract.ts'
import type { OperationContext } from '../../contract/served.ts'
import { noUsage } from '../../money/usage.ts'
import { callsIn } from '../../protocols/hosted-tools.ts'
import { asObject } from '../../protocols/object.ts'
import type { JsonObject } from '../../protocols/object.ts'
import { textBytes } from '../../protocols/text-bytes.ts'
import { readResponsesUsage } from '../../protocols/usage/openai-tokens.ts'
import type { Work } from '../../store/works.ts'
import { ownerOf } from '../../contract/owner.ts'
import { routesOf } from './holder.ts'

/** A response may be long, or hold pictures. */
const largestAnswer = 8 * 1024 * 1024
/** Of text, where an upstream does not say how many tokens it was. */
const bytesPerToken = 4

/** The work of an upstream. */
export const response: WorkKind = {
  name: 'response',
  largestAnswer,
  ask: (work) => ({ method: 'GET', path: pathOf(work) }),
  cancel: (work) => ({ method: 'POST', path: `${pathOf(work)}/cancel` }),
  cancelTells: true,
  read: progressOf
}

/** Whether a response is on its way; all other states are its end. */
export function isUnderWay(response: JsonObject): boolean {
  return response['status'] === 'queued' || response['status'] === 'in_progress'
}

/** Events that carry a response as it begins; all others that carry it end it. */
export const openings: ReadonlySet<string> = new Set(['response.created', 'response.queued', 'response.in_progress'])

/** What an event or a whole answer says a response is; undefined where it says nothing of it. */
export function responseOf(message: Message): JsonObject | undefined {
  if (message.kind !== 'json' && message.kind !== 'event') return undefined
  const body = asObject(message.json())
  return message.kind === 'json' ? body : asObject(body?.['response'])
}

/** Looks on while a response passes that was made in the background: whoever sees its end first has it settled. */
export function noteEnd(
  exchange: Exchange,
  id: string,
  { services: { routes, works }, background }: OperationContext
): Observer {
  const owner = ownerOf(exchange)
  return {
    observe(message) {
      const shown = responseOf(message)
      if (!shown || isUnderWay(shown)) return
      const work = works.current(owner, id)
      const attempt = exchange.attempts.at(-1)!
      if (work) exchange.showAfter(() => background.saw(work, shown).then(() => {}))
      // Those of a response that was made while nobody looked are not known yet.
      if (shown['background'] !== true || shown['store'] === false) return
      const items = routesOf(exchange, attempt.channel, shown, exchange.model)
      if (items.length > 0)
        exchange.showAfter(
          async () => void ((await routes.find(owner, items.at(-1)!.id)) ?? (await routes.keep(items)))
        )
    }
  }
}

function pathOf({ upstreamId }: Work): string {
  return `/responses/${encodeURIComponent(upstreamId ?? '')}`
}

function progressOf(body: unknown, { details }: Work): Progress | undefined {
  const fields = asObject(body)
  if (!fields) return undefined
  const reported = readResponsesUsage(fields['usage'])
  const calls = callsIn(fields['output'])
  const usage = !reported || reported === 'insane' ? undefined : { ...reported, ...calls }
  // It was deleted, so nobody will see what came of it.
  if (fields['deleted'] === true) return { status: 'cancelled' }
  switch (fields['status']) {
    case 'queued':
    case 'in_progress':
      return { status: fields['status'] }
    case 'completed':
    case 'incomplete':
      return usage
        ? { status: 'succeeded', usage, source: 'upstream' }
        : {
            status: 'succeeded',
            usage: { ...estimated(fields, Number(details['input'])), ...calls },
            source: 'estimated'
          }
    case 'failed':
      return {
        status: 'failed',
        usage,
        source: 'upstream',
        error: { code: 'response_failed', message: 'The response failed.' }
      }
    case 'cancelled':
      return { status: 'cancelled', usage, source: 'upstream' }
    default:
      return undefined
  }
}

function estimated(fields: JsonObject, input: number): NonNullable<Progress['usage']> {
  return { ...noUsage, input, output: Math.ceil(textBytes(fields['output']) / bytesPerToken) }
}

/** What is to be known of a response whose making goes on: how much went in, for an upstream that does not count. */
export function detailsOf(exchange: Exchange): Record<string, unknown> {
  return { input: Math.ceil(exchange.body.bytes.length / bytesPerToken) }
}
