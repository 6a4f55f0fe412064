// Responses that an upstream makes in the background: how it is polled, and how the end of a response is noticed.
import type { Progress, WorkKind } from '../../contract/background.ts'
import type { Exchange, Message, Observer } from '../../contract/contract.ts'
import type { OperationContext } from '../../contract/served.ts'
import { noUsage } from '../../money/usage.ts'
import { callsIn } from '../../protocols/counting/hosted-tools.ts'
import { asObject } from '../../protocols/object.ts'
import type { JsonObject } from '../../protocols/object.ts'
import { textBytes } from '../../protocols/text/text-bytes.ts'
import { readResponsesUsage } from '../../protocols/usage/openai-tokens.ts'
import type { Owner } from '../../store/owner.ts'
import { isOpen } from '../../store/works.ts'
import type { Work, Works } from '../../store/works.ts'
import { ownerOf } from '../../contract/owner.ts'
import { routesOf } from './holder.ts'

/** The largest answer to a poll, in bytes. Responses may be long, or hold pictures. */
const largestAnswer = 8 * 1024 * 1024
/** Bytes of text for each token, where an upstream does not report its tokens. */
const bytesPerToken = 4

/** How a response in the background is polled and cancelled at its upstream. */
export const response: WorkKind = {
  name: 'response',
  largestAnswer,
  ask: (work) => ({ method: 'GET', path: pathOf(work) }),
  cancel: (work) => ({ method: 'POST', path: `${pathOf(work)}/cancel` }),
  cancelTells: true,
  read: progressOf
}

/** Whether a response is still being made. Every other status is final. */
export function isUnderWay(response: JsonObject): boolean {
  return response['status'] === 'queued' || response['status'] === 'in_progress'
}

/** Events that carry a response that is still being made. Every other event with a response carries its final state. */
export const openings: ReadonlySet<string> = new Set(['response.created', 'response.queued', 'response.in_progress'])

/** The response in a whole answer or an event; undefined when it has none. */
export function responseOf(message: Message): JsonObject | undefined {
  if (message.kind !== 'json' && message.kind !== 'event') return undefined
  const body = asObject(message.json())
  return message.kind === 'json' ? body : asObject(body?.['response'])
}

/** Observes answers that show a background response: the first that shows its final state has it settled. */
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
      const attempt = exchange.attempts.at(-1)!
      exchange.showAfter(async () => {
        // Other threads and gateways have none of what was made while its client waited.
        const work = shown['background'] === true ? await openWork(owner, id, works) : works.current(owner, id)
        if (work) await background.saw(work, shown)
      })
      // The routes to its items are not kept yet when it was made while no client was reading.
      if (shown['background'] !== true || shown['store'] === false) return
      const items = routesOf(exchange, attempt.channel, shown, exchange.model)
      if (items.length > 0)
        exchange.showAfter(async () => void ((await routes.find(owner, items.at(-1)!.id)) ?? (await routes.put(items))))
    }
  }
}

/** Open work of an owner, also of other threads and gateways. */
export async function openWork(owner: Owner, id: string, works: Works): Promise<Work | undefined> {
  // How much others have open is known here a little later than a client may come here with it.
  const work = works.current(owner, id) ?? (await works.find(owner, id))
  return work && isOpen(work) ? work : undefined
}

function pathOf({ upstreamId }: Work): string {
  return `/responses/${encodeURIComponent(upstreamId ?? '')}`
}

function progressOf(body: unknown, { prompt, details }: Work): Progress | undefined {
  const fields = asObject(body)
  if (!fields) return undefined
  const reported = readResponsesUsage(fields['usage'])
  const calls = callsIn(fields['output'])
  const usage = !reported || reported === 'insane' ? undefined : { ...reported, ...calls }
  // A deleted response can never be read again, so its usage stays unknown.
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
            // Work of an earlier version has its estimate among its details.
            usage: {
              ...(prompt?.usage ?? { ...noUsage, input: Number(details['input'] ?? 0) }),
              output: outputOf(fields),
              ...calls
            },
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

/** The output in tokens, estimated by its text. */
function outputOf(fields: JsonObject): number {
  return Math.ceil(textBytes(fields['output']) / bytesPerToken)
}
